"""MetastoreClient: transactions, locks, write ids and snapshots of one metastore, for programs.

Every verb of Hive's transaction manager under its name, and on top of them ``transaction`` and ``snapshot``, which do
the whole protocol. All state is in the database; a client holds connections and the heartbeats of what it opened.
Lost replies: idempotent verbs are asked again, opening and locking are not repeated blindly (R17).
"""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import socket
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from airflow_hive_acid.errors import CommitStateUnknownError, HiveAcidError, InvalidArgumentsError, NoSuchTxnError
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList, read_txn_list
from airflow_hive_acid.metastore import aborts, commits, replicated, schema, txn_events, txns, write_ids
from airflow_hive_acid.metastore.beginning import PendingTransaction, begin, prepare, start
from airflow_hive_acid.metastore.codes import AbortReason, LockType, Operation, TxnType
from airflow_hive_acid.metastore.compaction_queue import CompactionQueue
from airflow_hive_acid.metastore.database import Database, OutcomeUnknownError, Repeat, finish_batch
from airflow_hive_acid.metastore.exclusive import hold_exclusively
from airflow_hive_acid.metastore.failures import FailureRules
from airflow_hive_acid.metastore.granting import abort_reason, wait_until_granted
from airflow_hive_acid.metastore.heartbeats import Heartbeater
from airflow_hive_acid.metastore.housekeeping import Housekeeping
from airflow_hive_acid.metastore.jobs import Jobs
from airflow_hive_acid.metastore.locks import listing, manager, rebuild, waits
from airflow_hive_acid.metastore.locks.components import add_partitions
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest, LockResponse, LockRow
from airflow_hive_acid.metastore.mutexes import Mutexes
from airflow_hive_acid.metastore.notifications import LoggedEvent, Notifications
from airflow_hive_acid.metastore.objects import distinct_tables, table_name
from airflow_hive_acid.metastore.replica import Replica
from airflow_hive_acid.metastore.requests import TableUse, table_uses
from airflow_hive_acid.metastore.snapshots import open_txns, take_snapshot, valid_write_ids
from airflow_hive_acid.metastore.transactions import Begun, ReaderSnapshot, Transaction, read_document
from airflow_hive_acid.metastore.write_events import WriteEvents
from airflow_hive_acid.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    import sqlalchemy as sa
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.catalog_ddl import CatalogDdl
    from airflow_hive_acid.metastore.locks.deadlocks import Victim, Wait

AGENT = "hive-acid"
"""Agent information of txns and locks that come without any."""


class MetastoreClient:
    """A client of one metastore.

    :param url: ``sqlite:///path``, ``postgresql://user:password@host/db`` or ``mysql://user:password@host/db``.
    :param settings: Hive's settings; defaults as ``hive-acid settings`` prints them.
    :param user: who we are in SHOW LOCKS and SHOW TRANSACTIONS; by default the operating system's user.
    """

    def __init__(self, url: str | sa.URL, settings: Settings | None = None, *, user: str | None = None,
                 host: str | None = None) -> None:
        self.settings = settings or Settings()
        retryable = str(self.settings["hive.txn.retryable.sqlex.regex"].value)
        self.database = Database(url, FailureRules.from_setting(retryable))
        self.user = user or _user()
        self.host = host or socket.gethostname()
        self.gap_timeout_ms = self.settings.milliseconds("hive.txn.opentxn.timeout")
        self.heartbeats = Heartbeater(self.heartbeat, self.settings.seconds("hive.txn.timeout") / 2)
        self.mutexes = Mutexes(self.database)
        self.notifications = Notifications(self.database, self.settings)
        self._gate = txns.OpenGate(self.settings.integer("hive.max.open.txns"),
                                   self.settings.milliseconds("hive.count.open.txns.interval"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, failure: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop heartbeats and close connections; txns that are still open will time out."""
        self.heartbeats.close()
        self.mutexes.close()
        self.database.close()

    # --- schema and rooms -----------------------------------------------------------------------------------------

    def create_schema(self) -> None:
        """Create all tables in an empty database; on a metastore that is there, add our own tables."""
        schema.create_schema(self.database)

    def upgrade_schema(self) -> None:
        """Create or upgrade our own tables in a metastore that Hive's schema tool has made."""
        schema.create_extension_tables(self.database)

    def check_schema(self) -> schema.SchemaState:
        """What the metastore holds.

        :raises SchemaVersionError: when it is no Hive 4.0, 4.1 or 4.2 metastore.
        """
        return schema.check_schema(self.database)

    @cached_property
    def catalog(self) -> CatalogDdl:
        """Databases, tables and partitions."""
        from airflow_hive_acid.metastore.catalog_ddl import CatalogDdl

        return CatalogDdl(self)

    @cached_property
    def write_events(self) -> WriteEvents:
        """What writes tell of their files."""
        return WriteEvents(self.database, self.notifications, self.settings)

    @cached_property
    def compactions(self) -> CompactionQueue:
        """The compaction queue."""
        return CompactionQueue(self.database, self.gap_timeout_ms, self.mutexes.hold)

    @cached_property
    def housekeeping(self) -> Housekeeping:
        """Time-outs and purges."""
        return Housekeeping(self.database, self.settings, self.mutexes, self.notifications)

    @cached_property
    def jobs(self) -> Jobs:
        """The record of Spark jobs."""
        return Jobs(self.database)

    def events_after(self, event_id: int, limit: int = 1000) -> list[LoggedEvent]:
        """Events of the notification log with larger ids than this, in order; each decodes its message."""
        return self.notifications.events_after(event_id, limit)

    # --- txns -----------------------------------------------------------------------------------------------------

    def open_txn(self, *, agent_info: str | None = None, type: TxnType = TxnType.DEFAULT, user: str | None = None,
                 host: str | None = None) -> int:
        """Open one txn and return its id; it needs heartbeats, or it will be aborted after ``hive.txn.timeout``."""
        return self.open_txns(1, agent_info=agent_info, type=type, user=user, host=host)[0]

    def open_txns(self, number: int, *, agent_info: str | None = None, type: TxnType = TxnType.DEFAULT,
                  user: str | None = None, host: str | None = None) -> list[int]:
        """Open several txns at once, at most ``hive.txn.max.open.batch``; returns their ids, ascending.

        :raises TooManyOpenTxnsError: while ``hive.max.open.txns`` are open.
        """
        capped = min(number, self.settings.integer("hive.txn.max.open.batch"))
        # Never empty: Hive leaves it empty, and so our txns can be told from others.
        request = txns.OpenRequest(user or self.user, host or self.host, capped, type, agent_info or AGENT)

        def operation(conn: Connection) -> list[int]:
            self._gate.check(conn)
            ids = txns.open_txns(conn, request, self.database.features(conn), self.gap_timeout_ms)
            finish_batch(conn, txn_events.opened(conn, self.notifications, ids, type))
            return ids

        return self.database.run(operation, Repeat.BEFORE_COMMIT)

    def heartbeat(self, txn_id: int = 0, lock_id: int = 0) -> None:
        """Keep a txn, a lock, or both alive.

        :raises TxnAbortedError: when the txn is aborted; the text says why.
        :raises NoSuchTxnError: when it is committed or unknown.
        :raises NoSuchLockError: when the lock is gone.
        """
        def operation(conn: Connection) -> None:
            if lock_id:
                manager.heartbeat_lock(conn, lock_id)
            if txn_id:
                txns.heartbeat_txn(conn, txn_id)

        self.database.run(operation)

    def heartbeat_txn_range(self, low: int, high: int) -> txns.RangeHeartbeat:
        """Keep all open txns of ``low``..``high`` alive and tell which are not open."""
        return self.database.run(lambda conn: txns.heartbeat_range(conn, low, high))

    def commit_txn(self, txn_id: int, *, snapshot: ValidTxnList | None = None, check_conflicts: bool = True,
                   hooks: commits.CommitHooks | None = None) -> None:
        """Commit a txn; committing again is no error.

        :param snapshot: what its writes were based on; changes it contained are no conflict (R2).
        :param check_conflicts: false when exclusive write locks were held throughout (Hive's exclWriteEnabled).
        :param hooks: checks and records that belong into the commit's own transaction.
        :raises WriteConflictError: when another txn changed the same first; this one is aborted then.
        :raises TxnAbortedError: when it was aborted; :raises NoSuchTxnError: when it was never opened.
        :raises CommitStateUnknownError: when the connection broke after the commit was sent and asking again failed.
        """
        request = commits.CommitRequest(txn_id, check_conflicts, snapshot, self._with_events(hooks))
        tried = False

        def operation(conn: Connection) -> commits.CommitOutcome:
            nonlocal tried
            again, tried = tried, True
            try:
                outcome = commits.commit_txn(conn, request, self.database.features(conn))
            except NoSuchTxnError as error:
                if again:
                    raise _commit_unknown(txn_id) from error
                raise
            if outcome.conflict is not None:
                if request.hooks.before_lock():  # what they did is undone
                    self.notifications.forget(conn)
                txn_events.aborted(conn, self.notifications, [txn_id])
            return outcome

        try:
            outcome = self.database.run(operation)
        except OutcomeUnknownError as error:
            raise _commit_unknown(txn_id) from error
        if outcome.conflict is not None:
            raise outcome.conflict.error()

    def _with_events(self, hooks: commits.CommitHooks | None) -> commits.CommitHooks:
        given = hooks or commits.CommitHooks()
        if given.events is not None:
            return given
        return dataclasses.replace(
            given, events=lambda conn, facts: txn_events.committed(conn, self.notifications, facts),
            statistics=lambda conn, exact: self.catalog.events.losing_statistics(conn, exact))

    def abort_txn(self, txn_id: int, reason: AbortReason | str | None = None, *,
                  before: Callable[[Connection], None] | None = None) -> None:
        """Abort a txn; aborting again is no error.

        :param before: records, in the same transaction, what must be known of it afterwards.
        :raises NoSuchTxnError: when it is committed or was never opened.
        """
        why = reason or AbortReason.ROLLBACK

        def operation(conn: Connection) -> None:
            if aborts.abort_txn(conn, txn_id, self.database.features(conn), why, before):
                replicated.note_incompatible(conn, [txn_id])
                txn_events.aborted(conn, self.notifications, [txn_id])

        self.database.run(operation)

    def abort_txns(self, txn_ids: Sequence[int], reason: AbortReason | str | None = None) -> aborts.AbortedTxns:
        """Abort those of the txns that are open; the answer names the others."""
        why = reason or AbortReason.QUERY

        def operation(conn: Connection) -> aborts.AbortedTxns:
            answer = aborts.abort_txns(conn, txn_ids, self.database.features(conn), why)
            replicated.note_incompatible(conn, answer.aborted)
            txn_events.aborted(conn, self.notifications, answer.aborted)
            return answer

        return self.database.run(operation)

    # --- locks ----------------------------------------------------------------------------------------------------

    def lock(self, components: LockRequest | LockComponent | Iterable[LockComponent], *, txn_id: int = 0,
             agent_info: str | None = None, zero_wait_read: bool = False, exclusive_ctas: bool = False) -> LockResponse:
        """Ask for locks; answers ACQUIRED, WAITING or NOT_ACQUIRED without waiting.

        :param txn_id: the txn the locks belong to; 0 for locks of their own, which need heartbeats.
        """
        if isinstance(components, LockRequest):
            request = components
        else:
            parts = (components,) if isinstance(components, LockComponent) else tuple(components)
            request = LockRequest(parts, self.user, self.host, txn_id, agent_info or AGENT, zero_wait_read,
                                  exclusive_ctas)
        return self.database.run(lambda conn: manager.enqueue(conn, request), Repeat.BEFORE_COMMIT)

    def check_lock(self, lock_id: int) -> LockResponse:
        """Ask again whether locks are granted; sends a heartbeat, too.

        :raises NoSuchLockError: when the lock does not exist (any more).
        """
        return self.database.run(lambda conn: manager.check_lock(conn, lock_id))

    def wait_for_lock(self, response: LockResponse, *, txn_id: int = 0) -> LockResponse:
        """Wait, with Hive's back-off, until a request is granted; give it up when that takes too long.

        :param txn_id: the txn it belongs to; it is aborted when the wait fails, because it cannot go on.
        :raises LockTimeoutError: when it was not granted in time; the request is withdrawn.
        :raises DeadlockError: when the txn is the one to give way in a deadlock.
        """
        try:
            return wait_until_granted(self, response, txn_id, f"lock {response.lock_id}")
        except HiveAcidError as error:
            with contextlib.suppress(HiveAcidError):
                if txn_id:
                    self.abort_txn(txn_id, abort_reason(error))
                else:
                    self.unlock(response.lock_id)
            raise

    def unlock(self, lock_id: int) -> None:
        """Release locks outside a txn, or withdraw a waiting request.

        :raises TxnOpenError: when a txn holds them: commit or abort it.
        """
        self.database.run(lambda conn: manager.unlock(conn, lock_id))

    def lock_materialization_rebuild(self, view: str, txn_id: int) -> LockResponse:
        """Take the lock for rebuilding a materialized view; NOT_ACQUIRED when somebody is at it."""
        name = table_name(view)
        with self.mutexes.hold(rebuild.MUTEX):
            return self.database.run(lambda conn: rebuild.lock_rebuild(conn, name, txn_id), Repeat.BEFORE_COMMIT)

    def heartbeat_materialization_rebuild(self, view: str, txn_id: int) -> bool:
        """Keep the rebuild's lock alive; false when it is gone."""
        name = table_name(view)
        return self.database.run(lambda conn: rebuild.heartbeat_rebuild(conn, name, txn_id))

    def show_locks(self, table: str | None = None, partition: str | None = None, *, database: str | None = None,
                   txn_id: int | None = None) -> list[LockRow]:
        """Locks held and wanted, of everything, a database, a table, a partition or a txn."""
        name = None if table is None else table_name(table)
        return self.database.read(lambda conn: listing.show_locks(
            conn, name.database if name else database, name.name if name else None, partition, txn_id))

    def show_transactions(self, *, include_committed: bool = False) -> list[listing.TxnRow]:
        """Open and aborted txns."""
        return self.database.read(lambda conn: listing.show_transactions(conn, include_committed=include_committed))

    def show_waits(self) -> list[Wait]:
        """Who waits for whom, for what, since when, and on whose behalf."""
        return self.database.read(waits.read_waits)

    def find_deadlocks(self) -> list[Victim]:
        """The txns of ours that must give way so that others can go on; each aborts itself while it waits."""
        return self.database.read(lambda conn: waits.deadlock_victims(conn, self.database.features(conn)))

    @contextlib.contextmanager
    def exclusive(self, tables: Iterable[str], *, agent_info: str | None = None) -> Iterator[int]:
        """Keep everybody else, readers included, away from tables while they are dropped or altered."""
        components = [LockComponent(*table_name(t), None, LockType.EXCLUSIVE, Operation.NO_TXN) for t in tables]
        with hold_exclusively(self, components, agent_info) as lock_id:
            yield lock_id

    # --- write ids and snapshots ----------------------------------------------------------------------------------

    def allocate_write_ids(self, table: str, txn_ids: int | Iterable[int], *,
                           reallocate: bool = False) -> dict[int, int]:
        """Write ids of a table by txn; txns that have one keep it.

        :raises InvalidArgumentsError: when only some of the txns have one, or one is read-only.
        """
        name = table_name(table)
        ids = [txn_ids] if isinstance(txn_ids, int) else list(txn_ids)

        def operation(conn: Connection) -> dict[int, int]:
            return write_ids.allocate(
                conn, name, ids, reallocate=reallocate,
                finish=lambda pairs: txn_events.allocated(conn, self.notifications, name, pairs))

        return self.database.run(operation, retry_duplicates=True)

    def get_valid_txns(self, txn_id: int = 0) -> ValidTxnList:
        """Which txns a reader sees, inside its own txn or outside one."""
        return read_txn_list(self.database.read(lambda conn: open_txns(conn, self.gap_timeout_ms)), txn_id)

    def get_valid_write_ids(self, tables: str | Iterable[str],
                            valid_txns: ValidTxnList | str | None = None) -> dict[str, ValidWriteIdList]:
        """Which write ids of each table a reader sees.

        :param valid_txns: a txn list given out before; without it txns and write ids are looked up together (R11).
        """
        names = distinct_tables([tables] if isinstance(tables, str) else tables)
        if valid_txns is None:
            found = self.database.read(lambda conn: take_snapshot(conn, names, 0, self.gap_timeout_ms)).write_ids
        else:
            given = ValidTxnList.parse(valid_txns) if isinstance(valid_txns, str) else valid_txns
            found = self.database.read(lambda conn: valid_write_ids(conn, names, given))
        return {str(t): w for t, w in found.items()}

    def add_partitions(self, txn_id: int, table: str, names: Sequence[str],
                       operation: Operation = Operation.UPDATE) -> None:
        """Name the partitions that an open txn writes (addDynamicPartitions), also when there are none (R12)."""
        name = table_name(table)

        def run(conn: Connection) -> None:
            step = txns.lock_txn_step(txn_id)
            txns.require_open(conn, txn_id, conn.execute(step.statement, dict(step.parameters)).all())
            add_partitions(conn, txn_id, name, names, operation)

        self.database.run(run)

    def seed_write_id(self, table: str, seed: int) -> None:
        """Let the write ids of a table that has none start above ``seed``."""
        name = table_name(table)
        self.database.run(lambda conn: write_ids.seed_write_id(conn, name, seed))

    def seed_txn_id(self, seed: int) -> None:
        """Let txn ids go on at ``seed``."""
        self.database.run(lambda conn: replicated.seed_txn_id(conn, seed))

    def replica(self, policy: str) -> Replica:
        """The verbs of a replication target."""
        return Replica(self, policy)

    # --- the whole protocol ---------------------------------------------------------------------------------------

    def transaction(self, tables: Mapping[str, str] | Iterable[str], *,
                    partitioned: Mapping[str, bool] | Iterable[str] | None = None,
                    agent_info: str | None = None) -> Transaction:
        """Begin a transaction, to be used as a context manager: commits at a clean end, aborts at an exception.

        :param tables: what will be done with each table: ``{"db.t": "insert" | "update" | "delete" | "select"}``.
        :param partitioned: tables whose partitions are named with ``add_partitions`` before the end.
        """
        return self.begin(tables, partitioned=partitioned, agent_info=agent_info)

    def begin(self, tables: Mapping[str, str] | Iterable[str], *,
              partitioned: Mapping[str, bool] | Iterable[str] | None = None, agent_info: str | None = None,
              type: TxnType = TxnType.DEFAULT) -> Transaction:
        """Open, lock (waiting for others), pin, take the snapshot and allocate write ids.

        :raises LockTimeoutError: when the locks were not granted in time; nothing is left behind.
        """
        return Transaction(self, begin(self, table_uses(tables, partitioned), agent_info, type))

    def start(self, tables: Mapping[str, str] | Iterable[str], *,
              partitioned: Mapping[str, bool] | Iterable[str] | None = None,
              agent_info: str | None = None) -> PendingTransaction:
        """Open and ask for the locks without waiting; :meth:`finish` goes on once they are granted."""
        return start(self, table_uses(tables, partitioned), agent_info, TxnType.DEFAULT)

    def finish(self, pending: PendingTransaction) -> Transaction | None:
        """Begin to work in a txn whose locks are granted; None when it is outdated and was aborted: start anew."""
        if not pending.granted:
            raise InvalidArgumentsError(f"the locks of txn {pending.txn_id} are not granted yet")
        begun = prepare(pending)
        if begun is None:
            pending.give_up(AbortReason.CONCURRENT)
            return None
        return Transaction(self, begun)

    def snapshot(self, tables: Mapping[str, str] | Iterable[str], *, agent_info: str | None = None) -> ReaderSnapshot:
        """A snapshot for reading, to be used as a context manager; registered, locked and kept alive (R16)."""
        return self.open_snapshot(tables, agent_info=agent_info)

    def open_snapshot(self, tables: Mapping[str, str] | Iterable[str], *,
                      agent_info: str | None = None) -> ReaderSnapshot:
        """A snapshot that stays open until ``close()``."""
        uses = table_uses([tables] if isinstance(tables, str) else list(tables))
        return ReaderSnapshot(self, begin(self, uses, agent_info, TxnType.READ_ONLY))

    def resume_snapshot(self, document: Mapping[str, Any]) -> ReaderSnapshot:
        """Go on with a snapshot of another process: same lists, kept alive from here.

        :raises TxnAbortedError: when nobody kept it alive; :raises NoSuchTxnError: when it was closed.
        """
        return ReaderSnapshot(self, self._resume(document))

    def resume_transaction(self, document: Mapping[str, Any]) -> Transaction:
        """Go on with a transaction of another process.

        :raises TxnAbortedError: when nobody kept it alive; :raises NoSuchTxnError: when it has ended.
        """
        if "uses" not in document:
            raise InvalidArgumentsError("the document is of a snapshot for reading; use resume_snapshot")
        transaction = Transaction(self, self._resume(document))
        transaction.restore(document)
        return transaction

    def _resume(self, document: Mapping[str, Any]) -> Begun:
        txn_id, lock_id, valid_txns, lists = read_document(document)
        uses = tuple(TableUse(table_name(t), LockType(lock), Operation(operation), partitioned)
                     for t, lock, operation, partitioned in document.get("uses", ()))
        allocated = {table_name(t): int(w) for t, w in document.get("write_ids", {}).items()}
        self.heartbeat(txn_id)
        return Begun(txn_id, lock_id, uses, valid_txns, lists, allocated)


def _commit_unknown(txn_id: int) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"whether txn {txn_id} is committed is unknown: the connection broke after the commit was sent, and asking "
        "again gave no answer. Look it up (hive-acid show transactions) before anything else; clean nothing up"
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user id without a name
        return "unknown"
