"""Txns that were opened together, and the files they share: what a transaction batch writes with (decision 33).

The life of each txn is that of a statement: component and job are recorded before anything is written (R4), its files
are moved out of its own staging, the manifest before the first of them, and the commit looks at them once more (R5,
R12). What goes wrong after rows have reached the open files ends all of them: nobody can take the rows out again, so
their txn is aborted and stays known, as do the others that were not used.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.requests import Declared
from airflow_hive_acid.engine.outcomes.events import (
    Published,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpened,
)
from airflow_hive_acid.engine.outcomes.manifests import require_same_places, writes
from airflow_hive_acid.engine.streams.records import record_columns
from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.engine.tables.read_only import require_writable
from airflow_hive_acid.engine.tables.snapshots import table_snapshot
from airflow_hive_acid.errors import (
    BadRecordError,
    CommitStateUnknownError,
    HiveAcidError,
    InvalidArgumentsError,
    NoSuchTxnError,
    TxnAbortedError,
    UnsupportedStatementError,
)
from airflow_hive_acid.filesystem.batch_publishing import (
    PublishedBatch,
    check_batch,
    check_not_hidden,
    publish_batch,
    read_batch_staging,
    seal_batch,
)
from airflow_hive_acid.filesystem.publishing import Manifest, Target, new_partitions
from airflow_hive_acid.filesystem.syncing import sync
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import Append, CloseBatch, Insert, JobSpec, PartitionRef
from airflow_hive_acid.format.names import delta_name, staging_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.maintenance.warehouse.fences import fence_jobs_of
from airflow_hive_acid.maintenance.warehouse.places import require_target
from airflow_hive_acid.metastore.catalog import find_partitions
from airflow_hive_acid.metastore.database import LockType
from airflow_hive_acid.metastore.leases import commit_hooks
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.protocol import (
    BatchHeartbeat,
    add_written,
    name_partitions,
    open_batch,
    record_component,
    require_anchor,
)
from airflow_hive_acid.metastore.txns import CommitHooks, RowChange, count_rows
from airflow_hive_acid.python_versions import add_note
from airflow_hive_acid.sql.model.pruning import KEEP_ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.engine.applications.launcher import JobSession
    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.streams.records import RecordColumns
    from airflow_hive_acid.format.jobs import JobResult
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import OpenedBatch

_VIEW = "hive_acid_records"


@dataclass(frozen=True, slots=True)
class CommittedRows:
    """A txn of a batch that is committed.

    :param directories: URIs of the directories its rows are in, with those of other txns.
    """

    txn_id: int
    write_id: int
    rows: int
    directories: tuple[str, ...]


def writable(context: Context, table: Table) -> Table:
    """The table, if a batch can write it.

    :raises UnsupportedStatementError: when it is of another kind, or lies where an open file cannot be moved and read.
    """
    require_writable(context.client, [table.qualified_name])
    context.locking.require([table])
    if not table.is_transactional or table.is_insert_only:
        raise UnsupportedStatementError(
            f"{table.qualified_name} is no full ACID table, and a transaction batch writes rows with ids; INSERT into "
            "it instead, as HiveAcidInsertOperator does"
        )
    if not context.filesystem.can_replace(table.location):
        raise UnsupportedStatementError(
            f"{table.qualified_name} lies at {table.location}, and files that are read while they are written need a "
            "local or mounted file system, or HDFS through WebHDFS; INSERT into it instead"
        )
    return table


class OpenBatch:
    """Txns that were opened together, and the files they share.

    :ivar columns: those that records fill; the lock keeps them as they are.
    :ivar ended: no txn of it can be used any more.
    """

    def __init__(
        self,
        context: Context,
        table: Table,
        columns: RecordColumns,
        static: tuple[tuple[str, str], ...],
        lock: LockType,
        session: JobSession,
        txns: OpenedBatch,
        heartbeat: BatchHeartbeat,
    ) -> None:
        self._context, self._table, self.columns, self._static = context, table, columns, static
        self._key = table_name(table.qualified_name)
        self._lock, self._session, self._txns, self._heartbeat = lock, session, txns, heartbeat
        self._lease = context.client.leases.current
        self._id = str(uuid.uuid4())
        self._free = list(txns.txns)
        self._published = PublishedBatch()
        self._partitions = KnownPartitions(context.client.catalog, table)
        self._rows: dict[str, RowChange] = {}
        self.ended = False

    @classmethod
    def open(
        cls,
        context: Context,
        name: str,
        static: tuple[tuple[str, str], ...],
        size: int,
        table_id: int | None = None,
    ) -> OpenBatch:
        """Open the txns, keep them alive, and look at the table again, now that their lock keeps it as it is.

        :param name: ``db.table``.
        :param size: how many txns.
        :param table_id: of the table in which a stream has its position; None without one.
        :raises InvalidArgumentsError: when another table has the name by now; nothing is left behind.
        """
        started = time.monotonic()
        lock, session = _lock_type(context, name), context.application.ready()
        txns = open_batch(context.client, table_name(name), size, lock, context.agent_info)
        heartbeat = BatchHeartbeat(context.client, (txns.anchor, *txns.txns))
        try:
            table = writable(context, context.table(name))
            if table_id not in (None, table.id):
                raise InvalidArgumentsError(
                    f"{name} is not the table any more in which the stream has its position: that one was dropped, or "
                    "has another name now. Nothing was written; begin a new batch, and read where the stream stands "
                    "in the table of that name"
                )
            columns = record_columns(table, static)
        except BaseException as failure:
            heartbeat.close()
            _end(context.client, txns, txns.txns, str(failure))
            raise
        opened = f"insert by {size} txns, write ids {txns.write_ids[txns.txns[0]]} to {txns.high},"
        context.emit(
            TransactionOpened(txns.anchor, {name: opened}, {name: txns.low}, time.monotonic() - started)
        )  # fmt: skip
        return cls(context, table, columns, static, lock, session, txns, heartbeat)

    @property
    def free(self) -> bool:
        """Whether a txn is left."""
        return bool(self._free) and not self.ended

    def write_and_commit(self, text: str, rows: int, claims: tuple[Callable[[Connection], None], ...]) -> CommittedRows:
        """Write the lines with the next txn and commit it; a failure aborts it, and most failures end the batch."""
        txn_id, started = self._free.pop(0), time.monotonic()
        try:
            self._heartbeat.check()
            client, write_id = self._context.client, self._txns.write_ids[txn_id]
            record_component(client, txn_id, self._key, partitioned=self._table.is_partitioned, lock=self._lock)
            manifest = self._write(txn_id, write_id, text) if rows else Manifest(str(self._key), "", ())
            hooks = commit_hooks(self._lease, self._hooks(txn_id, write_id, manifest, claims))  # R8
            with self._heartbeat.turn:
                client.commit_txn(txn_id, hooks=hooks)
                self._heartbeat.ended(txn_id)
        except BaseException as failure:
            self._failed(txn_id, failure)
            raise
        self._context.emit(TransactionCommitted(txn_id, time.monotonic() - started))
        return CommittedRows(txn_id, write_id, rows, tuple(d.uri for d in manifest.directories))

    def abort_next(self, reason: str) -> None:
        """Abort the next txn, of which nothing was written."""
        self._abort(self._free.pop(0), reason)

    def close(self) -> None:
        """Finish the files, abort what was not used, and let go of the lock."""
        if self.ended:
            return
        try:
            self._session.run(JobSpec(str(uuid.uuid4()), CloseBatch(self._id)))
            seal_batch(self._context.filesystem, self._published)
        except BaseException as failure:
            self._give_up(str(failure) or type(failure).__name__, discard=False)
            raise
        self._give_up("not used", discard=False)

    def _write(self, txn_id: int, write_id: int, text: str) -> Manifest:
        context, table, job_id = self._context, self._table, str(uuid.uuid4())
        staging = paths.join(table.location, staging_name(job_id))
        require_target(context.client, context.filesystem, table)  # R17
        context.client.jobs.start(
            job_id=job_id,
            txn_id=txn_id,
            table=str(self._key),
            write_id=write_id,
            statement=0,
            kind="insert",
            table_location=table.location,
            staging=staging,
            application_id=self._session.application_id,
        )
        filesystem = context.filesystem
        result = self._session.run(self._spec(job_id, staging, text, write_id))
        self._rows = {d.partition: RowChange(sum(f.rows for f in d.files)) for d in result.directories}
        started, target = time.monotonic(), self._target(write_id, result)
        name = delta_name(self._txns.low, self._txns.high)
        manifest = read_batch_staging(filesystem, staging, result, target, name, self._published)
        context.client.jobs.record_manifest(job_id, manifest.to_document(), result.counts())
        if table.is_partitioned:
            # Whoever cleans up must know where rows of it may lie, also if this process gets no further (R12).
            name_partitions(context.client, txn_id, self._key, {d.partition for d in manifest.directories})
        # New lengths take the place of those that committed txns rely on: they must not reach the disk as a name alone,
        # nor before the rows that they vouch for.
        appended = [f"{d.uri}/{name}" for d in manifest.directories for name, _ in d.files]
        sync(context.client.settings, [f"{staging}/data", *appended], table.location)
        publish_batch(filesystem, staging, manifest, table.location, self._published)
        sync(context.client.settings, [d.uri for d in manifest.directories], table.location)
        for partition, values in new_partitions(target, [manifest]).items():
            self._partitions.made(PartitionRef(partition, target.place_of(partition), values))
        sizes = [size for directory in manifest.directories for _, size in directory.files]
        context.emit(
            Published(str(self._key), len(manifest.directories), len(sizes), sum(sizes), time.monotonic() - started)
        )
        return manifest

    def _spec(self, job_id: str, staging: str, text: str, write_id: int) -> JobSpec:
        # It reads no file of the table, so nobody asks what it sees.
        nothing = ValidWriteIdList(0, table=str(self._key)), ValidTxnList(0)
        snapshot = table_snapshot(self._table, (), KEEP_ALL, *nothing)
        insert = Insert(snapshot, self.columns.query(_VIEW), write_id, 0, static_partition=self._static)
        step = Append(insert, self._id, self._txns.low, self._txns.high)
        return JobSpec(job_id, step, (), (self.columns.source(_VIEW, text),), staging)

    def _target(self, write_id: int, result: JobResult) -> Target:
        names = {d.partition for d in result.directories}
        self._partitions.look_up(names)
        known = self._partitions
        return Target(
            table=str(self._key),
            location=self._table.location,
            partition_columns=tuple(c.name for c in self._table.partition_columns),
            partitions={name: known[name].location for name in names if name in known},
            write_id=write_id,
        )

    def _hooks(
        self, txn_id: int, write_id: int, manifest: Manifest, claims: tuple[Callable[[Connection], None], ...]
    ) -> CommitHooks:
        def check(connection: Connection) -> None:
            require_anchor(connection, self._txns.anchor)
            check_batch(self._context.filesystem, self._published, {d.uri: d for d in manifest.directories})
            check_not_hidden(self._context.filesystem, manifest.directories, self._txns.high)
            new = self._add_partitions(connection, write_id, manifest)
            if manifest.directories:
                count_rows(connection, self._table.id, self._rows, new)
                told = writes(self._key, write_id, [manifest])
                self._context.client.write_events.acid_written(connection, txn_id, told)

        names = {d.partition for d in manifest.directories}
        self._context.client.catalog.reserve_partition_ids(len(names - {""}))
        # A txn that has written something has named its partitions before that; another one has none.
        unnamed = self._table.is_partitioned and not names
        partitions = (partial(add_written, txn_id=txn_id, table=self._key, names=()),) if unnamed else ()
        return CommitHooks(checks=(check,), partitions=partitions, claims=claims)

    def _add_partitions(self, connection: Connection, write_id: int, manifest: Manifest) -> list[str]:
        """Those the catalog did not know. Another txn of the batch may have been the first to write one, and have been
        aborted."""
        names = {d.partition for d in manifest.directories if d.partition}
        unknown = names - find_partitions(connection, self._table, sorted(names)).keys() if names else set()
        if not unknown:
            return []
        new = self._context.client.catalog.add_partitions_in(connection, self._key, sorted(unknown), write_id=write_id)
        others = find_partitions(connection, self._table, sorted(unknown - set(new)))
        require_same_places({name: self._partitions[name] for name in others}, others)
        return new

    def _failed(self, txn_id: int, failure: BaseException) -> None:
        """After a failure while a txn was written or committed; the failure is what the caller should hear of."""
        reason = str(failure) or type(failure).__name__
        # A bad record is found while the rows are made: none of them is in a file of the batch.
        goes_on = isinstance(failure, BadRecordError)
        try:
            if isinstance(failure, CommitStateUnknownError):
                self._heartbeat.ended(txn_id)  # R17: of that txn nothing is touched
            else:
                self._abort(txn_id, reason)
        except (HiveAcidError, OSError) as second:
            goes_on = False
            add_note(failure, f"txn {txn_id} of the batch could not be aborted, or is gone already: {second}")
        if goes_on:
            return
        try:
            self._give_up(reason)
        except HiveAcidError as second:
            add_note(failure, f"txns of the batch could not be aborted and will time out: {second}")

    def _abort(self, txn_id: int, reason: str) -> None:
        client = self._context.client
        fence_jobs_of(client, self._context.filesystem, [txn_id], reason)  # R4
        with self._heartbeat.turn:
            self._heartbeat.ended(txn_id)
            client.abort_txn(txn_id, reason)
        self._context.emit(TransactionAborted(txn_id, reason.splitlines()[0] if reason else "no reason given"))

    def _give_up(self, reason: str, *, discard: bool = True) -> None:
        """End all txns, the anchor last: while it is open no compaction looks into the range."""
        self.ended = True
        left, self._free = self._free, []
        self._heartbeat.close()
        if discard:
            # The open files are nobody's; if the application is gone, so are they.
            with contextlib.suppress(HiveAcidError, OSError):
                self._session.run(JobSpec(str(uuid.uuid4()), CloseBatch(self._id, discard=True)))
        _end(self._context.client, self._txns, left, reason)


def _end(client: MetastoreClient, txns: OpenedBatch, left: Sequence[int], reason: str) -> None:
    """Abort the txns that are left, and end the anchor."""
    if left:
        client.abort_txns(left, reason)
    # Somebody else was faster; or nobody knows, and it has ended or will time out: it has written nothing.
    with contextlib.suppress(TxnAbortedError, NoSuchTxnError, CommitStateUnknownError):
        client.commit_txn(txns.anchor)


def _lock_type(context: Context, name: str) -> LockType:
    """How an INSERT locks the table as a whole."""
    planned = context.locking.plan(Declared({name: "insert"}))
    return next((c.type for c in planned.of_txn.components), LockType.SHARED_READ)
