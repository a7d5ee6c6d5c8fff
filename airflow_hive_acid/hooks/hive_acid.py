"""The hook: from an Airflow connection to the metastore and to an engine that runs statements on Spark.

It talks to the Hive metastore's database, never to Airflow's. Operators, sensors and DAGs get everything they need
here: a client, a filesystem for the warehouse, and engines whose Spark applications go through Airflow's Spark
connection.
"""

from __future__ import annotations

import contextlib
import logging
from functools import cached_property
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from airflow_hive_acid.airflow_versions import AirflowException, conf, mask_secret
from airflow_hive_acid.engine.applications.job_environment import names_of
from airflow_hive_acid.engine.applications.spark_conf import shares_of_buckets
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.hooks import stats
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID, SECTION, load_settings
from airflow_hive_acid.hooks.connection import HiveAcidConnection, read_connection, require_warehouse
from airflow_hive_acid.hooks.lives import deployment_id
from airflow_hive_acid.hooks.spark_launcher import AirflowSparkLauncher, spark_target
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database import TxnState, safe_url
from airflow_hive_acid.metastore.listing import stream_transactions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from airflow.sdk import Connection

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.engine.applications.launcher import JobLauncher
    from airflow_hive_acid.engine.changes import ChangeRange
    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.engine.streams.batches import TransactionBatch
    from airflow_hive_acid.engine.transactions.claims import Once
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.hooks.lineage import Collected
    from airflow_hive_acid.hooks.transactions import JoinedTransaction
    from airflow_hive_acid.metastore.leases import KeptLease
    from airflow_hive_acid.metastore.protocol import Pins
    from airflow_hive_acid.replication.site import Site
    from airflow_hive_acid.settings import Settings


log = logging.getLogger(__name__)


class HiveAcidHook(BaseHook):
    """Hook for connections of type ``hive_acid``.

    Use it as a context manager, or call :meth:`close`, to let go of the metastore's database connections.

    :param hive_acid_conn_id: the connection.
    :param spark_conn_id: Spark connection to use instead of the one that the connection names.
    :param spark_conf: Spark settings for this use; they win over the connection's.
    :param spark_service: Spark service that runs statements, instead of the one that the connection or a setting names;
        an empty text: a Spark of its own.
    :ivar lineage: what its engines have read and written.
    :ivar tells_lineage: report that to Airflow's hook lineage when the hook is closed; operators tell it themselves.
    """

    conn_name_attr = "hive_acid_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = "hive_acid"
    hook_name = "Hive ACID"

    def __init__(
        self,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        *,
        spark_conn_id: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        spark_service: str | None = None,
    ) -> None:
        super().__init__()
        self.hive_acid_conn_id = hive_acid_conn_id
        self.spark_service = spark_service
        self.spark_conn_id = spark_conn_id
        self.spark_conf = dict(spark_conf or {})
        self.lineage: Collected | None = None
        self.tells_lineage = True
        self._client: MetastoreClient | None = None
        self._replicating: Engine | None = None

    def __enter__(self) -> HiveAcidHook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def connection(self) -> HiveAcidConnection:
        """The connection, read and checked.

        :raises InvalidArgumentsError: when a field is unusable.
        """
        return _read(self.get_connection(self.hive_acid_conn_id))

    @cached_property
    def settings(self) -> Settings:
        """The Hive settings in force: the connection's, then Airflow's ``[hive_acid]`` section, then hive-site.xml."""
        return load_settings(self.connection.settings)

    def get_uri(self) -> str:
        """The metastore's URL, without the password."""
        return safe_url(self.connection.metastore_url)

    def get_conn(self) -> MetastoreClient:
        """The client of the metastore; one per hook."""
        if self._client is None:
            self._client = MetastoreClient(self.connection.metastore_url, settings=self.settings)
        return self._client

    @classmethod
    def client_of(cls, connection: Connection) -> MetastoreClient:
        """A client from a connection that has been fetched already, as triggers do."""
        read = _read(connection)
        return MetastoreClient(read.metastore_url, settings=load_settings(read.settings))

    @property
    def warehouse(self) -> str:
        """URI of the warehouse.

        :raises ConfigurationError: when the connection names none.
        """
        return require_warehouse(self.connection)

    def get_filesystem(self) -> Filesystem:
        """Every filesystem that tables lie on."""
        return AnyFilesystem()

    def get_launcher(self, task: str | None = None) -> AirflowSparkLauncher:
        """What starts Spark applications.

        :param task: whose they are, with the number of the try behind a ``#``; on a cluster they are found by it.
        :raises ConfigurationError: when the Spark connection does not exist; where Spark runs is never guessed.
        """
        spark_conn_id = self.spark_conn_id or self.connection.spark_conn_id
        spark_target(spark_conn_id)
        return AirflowSparkLauncher(
            spark_conn_id=spark_conn_id,
            conf={**shares_of_buckets(self.settings), **self.connection.spark_conf, **self.spark_conf},
            spool=self.connection.spool,
            user=self.connection.proxy_user,
            share=conf.getboolean(SECTION, "share_spark", fallback=False),
            accelerator=self.settings.string("hive.acid.spark.accelerator"),
            passed_on=names_of(self.settings.string("hive.acid.job.environment")),
            task=task,
        )

    def job_launcher(self, task: str | None = None) -> JobLauncher:
        """What an engine starts Spark with: a service, where one is named.

        :param task: as for :meth:`get_launcher`.
        """
        from airflow_hive_acid.engine.applications.service import WithService

        service = self.spark_service
        if service is None:
            service = self.connection.spark_service or self.settings.string("hive.acid.spark.service")
        own = self.get_launcher(task)
        return WithService(own, service, self.connection.spool, say=self.log.warning) if service else own

    def get_engine(self, *, agent_info: str = "airflow", on_event: Callable[[Event], None] | None = None) -> Engine:
        """An engine for statements and transactions; its statements share one Spark application. Close it.

        :param agent_info: written beside the txns it opens, so that others see whose they are.
        :param on_event: told what happens; by default it is written to the task's log.
        """
        from airflow_hive_acid.engine import Engine  # the SQL parser; sensors and triggers do without
        from airflow_hive_acid.hooks.lineage import Collected

        listen = on_event or self._log_event
        collected = self.lineage = self.lineage or Collected()

        def told(event: Event) -> None:
            collected(event)
            listen(event)

        return Engine(
            self.get_conn(),
            # Another Airflow may have a task of the same names on the same cluster.
            self.job_launcher(f"{deployment_id()} {self.get_uri()} {agent_info}"),
            self.warehouse,
            on_event=told,
            agent_info=agent_info,
            default_database=self.connection.default_database,
        )

    def get_site(self) -> Site:
        """This metastore and warehouse as one side of a replication; Spark starts when something needs it."""
        from airflow_hive_acid.replication.site import Site

        def run_job(spec: JobSpec) -> JobResult:
            if self._replicating is None:
                self._replicating = self.get_engine(agent_info="replication")
            return self._replicating.run_job(spec)

        return Site(self.get_conn(), run_job=run_job, name=self.hive_acid_conn_id)

    def stop_replication(self) -> None:
        """Stop what a site of this hook runs in Spark, from another thread."""
        if self._replicating is not None:
            self._replicating.cancel()

    @contextlib.contextmanager
    def lease(
        self,
        objects: str | Sequence[str],
        *,
        type: str = "x",
        duration: float = 600.0,
        wait: float = 0.0,
        user: str | None = None,
        secret: str | None = None,
    ) -> Iterator[KeptLease]:
        """Hold a lease while a block runs; it is extended in the background, and dropped at the end.

        ``with hook.lease(["sales.orders"]) as lease: engine.run(sql, lease=lease.lease)``

        :param objects: one or several of ``db.table`` and ``db.table/k=v``: all of them or none.
        :param type: ``x`` exclusive, or ``s`` shared.
        :param duration: seconds that it outlives a process that was killed.
        :param wait: seconds to wait for it at most; 0 for not at all.
        :param user: whose it is, for people; by default the user of this process.
        :param secret: of an earlier attempt: a lease that was granted to it, and is still held, is the one.
        :raises LeaseAlreadyExistsError: when it was not granted in time; names the holder.
        :raises LeaseEndedError: at the end of the block, when it was lost meanwhile.
        """
        from airflow_hive_acid.hooks.leases import objects_of
        from airflow_hive_acid.metastore.leases import kept

        leases = self.get_conn().leases
        taken = leases.grab_lease(objects_of(objects), duration, wait, lease_type=type, user=user, secret=secret)
        mask_secret(taken.secret)
        mask_secret(taken.token)
        with kept(leases, taken, drop=True) as keeper:
            yield keeper

    def read_changes(
        self,
        table: str,
        from_write_id: int,
        to_write_id: int | None = None,
        *,
        net: bool = False,
        key: Sequence[str] = (),
        event_id: int | None = None,
    ) -> tuple[ChangeRange, Rows | None]:
        """Rows that a range of write ids has inserted, updated and deleted; see ``engine.changes``.

        :param to_write_id: by default as far as all write ids have ended; the range that is returned says which.
        :param event_id: of the commit's event, or of the range that was read before: it is refused if the table is not
            the same any more, or a partition was dropped, renamed or moved since.
        """
        from airflow_hive_acid.engine.changes import read_changes

        with self.get_engine() as engine:
            return read_changes(
                engine, self.get_conn(), table, from_write_id, to_write_id, net=net, key=key, event_id=event_id
            )

    @property
    def pins(self) -> Pins:
        """Named snapshots: ``hook.pins.pin("month_end", ["sales.orders"], expires=30 * 86_400)``, ``unpin`` …."""
        return self.get_conn().pins

    @contextlib.contextmanager
    def batch(
        self,
        table: str,
        *,
        partition: Mapping[str, object] | None = None,
        transactions: int | None = None,
        stream: str | None = None,
        agent_info: str = "airflow",
    ) -> Iterator[TransactionBatch]:
        """Write records to a table, transaction by transaction, while a block runs.

        ``with hook.batch("sales.orders", partition={"day": "2026-11-22"}) as batch: batch.write(records);
        batch.commit()``. At a clean end of the block what is left is committed, at an exception it is dropped; see
        :class:`~airflow_hive_acid.engine.streams.batches.TransactionBatch`.

        :param partition: value by partition column for all records; those of other partition columns are in them.
        :param transactions: how many txns are opened at once, by default ``hive.acid.batch.transactions``.
        :param stream: name under which the table remembers the position that a commit is given.
        :param agent_info: written beside the txns, so that others see whose they are.
        """
        with (
            self.get_engine(agent_info=agent_info) as engine,
            engine.batch(table, partition=partition, transactions=transactions, stream=stream) as batch,
        ):
            yield batch

    def join(self, transaction: object) -> AbstractContextManager[JoinedTransaction]:
        """Work in a transaction across tasks while a block of a task function runs: ``with hook.join(txn) as part:``.

        :param transaction: what the task returned that begins it; in a DAG file ``txn.output``.
        """
        from airflow_hive_acid.hooks.transactions import join

        return join(self, transaction)

    def withdraw(self, agent_info: str, reason: str) -> list[int]:
        """End the open txns of a task that was killed: fence its jobs, abort, and so withdraw what it waits for (R4).

        Only those that this hook has opened or taken over: a task of another Airflow may be called the same. Uses
        connections of its own: the task may have been interrupted anywhere. What has committed meanwhile stays (R17).

        :return: the txns that were aborted.
        """
        from airflow_hive_acid.maintenance.warehouse.fences import end_txns

        own = set() if self._client is None else set(self._client.own_txns)
        with MetastoreClient(self.connection.metastore_url, settings=self.settings) as client:
            mine = client.database.read(
                lambda connection: [
                    txn.txn_id
                    for txn in stream_transactions(connection)
                    if txn.state is TxnState.OPEN and txn.agent_info == agent_info and txn.txn_id in own
                ]
            )
            done = end_txns(client, self.get_filesystem(), mine, reason)
        return sorted((*done.aborted, *done.ending))

    def acknowledge(self, once: Once) -> None:
        """The task has done all it had to do: run anew on purpose, it would do it again (R14).

        Without the acknowledgement a re-run counts as a retry and applies nothing, so a failure here is only told.
        """
        try:
            self.get_conn().claims.acknowledge(once.scope)
        except HiveAcidError as error:
            log.warning("the success could not be noted; a later re-run will apply nothing again: %s", error)

    def release_worker(self, worker_id: str, reason: str) -> dict[int, str]:
        """End what a killed Worker task was doing, and give its compaction requests back (R4).

        Uses connections of its own: the task may have been interrupted anywhere.

        :return: what became of each request, by its id.
        """
        from airflow_hive_acid.maintenance.worker.worker import release_worker

        with MetastoreClient(self.connection.metastore_url, settings=self.settings) as client:
            return release_worker(client, self.get_filesystem(), worker_id, reason)

    def test_connection(self) -> tuple[bool, str]:
        """What the Test button of Airflow's connection form shows: whether metastore and Spark connection are there."""
        try:
            client = self.get_conn()
            schema = client.check_schema()
            target = spark_target(self.spark_conn_id or self.connection.spark_conn_id)
            what = f"metastore of Hive {schema.version} at {self.get_uri()}"
            return True, f"{what}; Spark runs on {target.master}; the warehouse is {self.warehouse}"
        except (HiveAcidError, AirflowException) as error:
            return False, f"{type(error).__name__}: {error}"
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the metastore's database connections, and tell Airflow's hook lineage what was done."""
        engine, self._replicating = self._replicating, None
        if engine is not None:
            engine.close()
        if self.lineage is not None and self.tells_lineage:
            from airflow_hive_acid.hooks.lineage import report_to_airflow

            report_to_airflow(self, self.lineage, self.hive_acid_conn_id)
            self.lineage = None
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _log_event(self, event: Event) -> None:
        # Not self.log: a handler can see what kind of event it is. What is planned is said by what is done.
        level = logging.DEBUG if type(event).__name__ == "StatementPlanned" else logging.INFO
        log.log(level, "%s", event, extra={"hive_acid_event": event})
        stats.tell_event(event, self.hive_acid_conn_id)


def _read(connection: Connection) -> HiveAcidConnection:
    read = read_connection(connection)
    if read.metastore_url.password:
        mask_secret(str(read.metastore_url.password))
    return read
