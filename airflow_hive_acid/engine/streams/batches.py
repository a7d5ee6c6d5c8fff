"""Transaction batches: many small writes as many txns, and one ``delta_X_Y`` (Hive's streaming ingest, decision 33).

``with engine.batch("w.events", partition={"day": "2026-11-22"}) as batch: batch.write(records); batch.commit()``. Each
txn is committed or aborted on its own, and readers see the committed ones at any moment. Its life is that of a
statement: component and job are recorded before anything is written (R4), its files are moved out of its own staging,
the manifest before the first of them, and the commit looks at them once more (R5, R12). What goes wrong after rows have
reached the open files ends the batch: nobody can take them out again, so their txn is aborted and stays known, as do
the others that were not used; the next write begins another batch.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from airflow_hive_acid.engine.locking.requests import Declared
from airflow_hive_acid.engine.outcomes.events import (
    Published,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpened,
)
from airflow_hive_acid.engine.outcomes.manifests import require_same_places, writes
from airflow_hive_acid.engine.streams.records import RecordColumns, lines, static_partition
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
from airflow_hive_acid.format.jobs import Append, CloseBatch, Column, Insert, JobSpec, PartitionRef
from airflow_hive_acid.format.names import delta_name, staging_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.maintenance.warehouse.fences import fence_jobs_of
from airflow_hive_acid.maintenance.warehouse.places import require_target
from airflow_hive_acid.metastore.catalog import find_partitions
from airflow_hive_acid.metastore.database import LockType
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.protocol import (
    BatchHeartbeat,
    add_written,
    name_partitions,
    open_batch,
    read_position,
    record_component,
    require_anchor,
)
from airflow_hive_acid.metastore.txns import CommitHooks, RowChange, count_rows
from airflow_hive_acid.sql.model.pruning import KEEP_ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from sqlalchemy import Connection

    from airflow_hive_acid.engine.applications.launcher import JobSession
    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.format.jobs import JobResult
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import OpenedBatch, Position

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


class TransactionBatch:
    """Writes records to one table, txn by txn; batch after batch is opened as they are used up.

    Not for several threads at a time; several writers, each with a batch of its own, do not disturb each other.

    :param partition: value by partition column for all records; those of other partition columns are in the records.
    :param transactions: how many txns are opened at once, by default ``hive.acid.batch.transactions``.
    :param stream: name under which the table remembers a position with each commit; a second writer of the same name
        finds its commits refused.
    """

    def __init__(
        self,
        context: Context,
        table: str,
        partition: Mapping[str, Any] | None = None,
        transactions: int | None = None,
        stream: str | None = None,
    ) -> None:
        self._context = context
        found = _writable(context, context.table(table))
        names = [column.name for column in found.partition_columns]
        self._name = found.qualified_name
        self._static = static_partition(names, partition, self._name)
        given = {name for name, _ in self._static}
        own = [column for column in found.partition_columns if column.name not in given]
        self._columns = RecordColumns(
            self._name,
            (*(Column(c.name, c.type, c.required) for c in found.columns), *(Column(c.name, c.type) for c in own)),
        )
        default = context.settings.integer("hive.acid.batch.transactions")
        self._size = min(default, _most(context)) if transactions is None else transactions
        self._limit = context.settings.integer("hive.acid.rows.max.bytes")
        self._position: Position | None = read_position(context.client, found.id, stream) if stream else None
        self._lines: list[str] = []
        self._bytes = 0
        self._open: _OpenBatch | None = None
        self._closed = False
        context.application.warm_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if failure is None:
            try:
                if self._lines:
                    self.commit()
            finally:
                self.close()
            return
        with contextlib.suppress(HiveAcidError, OSError):  # what went wrong first is what matters; the txns time out
            self.abort(f"{type(failure).__name__}: {failure}")
            self.close()

    @property
    def position(self) -> Any:
        """Where the stream stands: what the last commit under its name was given; None at the beginning."""
        if self._position is None:
            raise InvalidArgumentsError("this batch has no stream; give its name to know where it stands")
        return json.loads(self._position.text) if self._position.text else None

    @property
    def pending(self) -> int:
        """Records that the next commit will write."""
        return len(self._lines)

    def write(self, records: Iterable[Mapping[str, Any]]) -> int:
        """Add records to the current txn; they become visible with its commit.

        :param records: values by column, of all columns; None for NULL.
        :return: how many records the txn has now.
        :raises BadRecordError: names record and column; the txn is aborted, whatever was written to it before.
        :raises InvalidArgumentsError: when the txn would hold more than ``hive.acid.rows.max.bytes``; it is aborted.
        """
        self._require_usable()
        try:
            for line in lines(self._columns, records, len(self._lines) + 1):
                self._bytes += len(line) + 1
                if self._bytes > self._limit:
                    raise InvalidArgumentsError(
                        f"the records of one transaction on {self._name} take more than {self._limit:,} bytes "
                        "(hive.acid.rows.max.bytes): commit more often, or INSERT from files"
                    )
                self._lines.append(line)
        except BaseException as failure:
            self.abort(str(failure) or type(failure).__name__)
            raise
        return len(self._lines)

    def commit(
        self,
        position: Any = None,
        *,
        check: Callable[[Connection], None] | None = None,
    ) -> CommittedRows | None:
        """Make the records of the current txn visible.

        :param position: where the source stands behind these records, any JSON value; kept with the commit in a table
            parameter, which needs a ``stream``.
        :param check: called inside the commit's database transaction; an exception refuses it.
        :return: None when there was nothing to commit.
        :raises BadRecordError: Spark found a value that fits no column; the txn is aborted, the batch goes on.
        :raises ClaimLostError: another writer of the stream has moved its position; nothing is committed.
        :raises CommitStateUnknownError: the answer was lost; nothing was touched.
        """
        self._require_usable()
        moved = self._moved(position)
        if not self._lines and moved is None and check is None:
            return None
        if self._open is None or not self._open.free:
            self._renew()
        opened = self._open
        if opened is None:
            raise AssertionError("no batch")
        records, self._lines, self._bytes = self._lines, [], 0
        claims = tuple(claim for claim in (moved, check) if claim is not None)
        try:
            found = opened.write_and_commit("\n".join(records), len(records), claims)
        except BaseException:
            if opened.ended:
                self._open = None
            raise
        if self._position is not None and moved is not None:
            self._position.text = json.dumps(position, sort_keys=True)
        return found

    def abort(self, reason: str = "rollback") -> None:
        """Drop the records of the current txn, and abort it; those committed before stay, and the batch goes on."""
        had, self._lines, self._bytes = bool(self._lines), [], 0
        if had and self._open is not None and self._open.free:
            self._open.abort_next(reason)

    def close(self) -> None:
        """Finish the files and end the txns that were not used; records that were not committed are dropped."""
        self._lines, self._bytes, self._closed = [], 0, True
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def _renew(self) -> None:
        before, self._open = self._open, None
        if before is not None:
            before.close()
        self._open = _OpenBatch(self._context, self._name, self._columns, self._static, self._size)

    def _moved(self, position: Any) -> Callable[[Connection], None] | None:
        if position is None:
            return None
        of = self._position
        if of is None:
            raise InvalidArgumentsError("a position is kept under the name of a stream; give the batch one")
        try:
            text = json.dumps(position, sort_keys=True)
        except (TypeError, ValueError) as problem:
            raise InvalidArgumentsError(f"the position must be what JSON can hold: {problem}") from None
        return lambda connection: of.moved(connection, text)

    def _require_usable(self) -> None:
        if self._closed:
            raise InvalidArgumentsError(f"the batch on {self._name} is closed; open another one")


def _most(context: Context) -> int:
    return max(1, context.settings.integer("hive.txn.max.open.batch") - 1)


def _writable(context: Context, table: Table) -> Table:
    """
    :raises UnsupportedStatementError: when it is of another kind, or lies where an open file cannot be moved and read.
    """
    require_writable(context.client, [table.db])
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


class _OpenBatch:
    """Txns that were opened together, and the files they share.

    :ivar ended: no txn of it can be used any more.
    """

    def __init__(
        self,
        context: Context,
        name: str,
        columns: RecordColumns,
        static: tuple[tuple[str, str], ...],
        size: int,
    ) -> None:
        started = time.monotonic()
        self._context, self._columns, self._static = context, columns, static
        self._key = table_name(name)
        self._lock = _lock_type(context, name)
        self._session: JobSession = context.application.ready()
        self._id = str(uuid.uuid4())
        self._txns: OpenedBatch = open_batch(context.client, self._key, size, self._lock, context.agent_info)
        self._heartbeat = BatchHeartbeat(context.client, (self._txns.anchor, *self._txns.txns))
        self._free = list(self._txns.txns)
        self._published = PublishedBatch()
        self._rows: dict[str, RowChange] = {}
        self.ended = False
        try:
            # Again, now that the lock keeps it as it is.
            self._table = _writable(context, context.table(name))
        except BaseException as failure:
            self._give_up(str(failure))
            raise
        self._partitions = KnownPartitions(context.client.catalog, self._table)
        low, high = self._txns.write_ids[self._txns.txns[0]], self._txns.high
        opened = f"insert by {size} txns, write ids {low} to {high},"
        context.emit(
            TransactionOpened(self._txns.anchor, {name: opened}, {name: self._txns.low}, time.monotonic() - started)
        )

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
            with self._heartbeat.turn:
                client.commit_txn(txn_id, hooks=self._hooks(txn_id, write_id, manifest, claims))
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
        insert = Insert(snapshot, self._columns.query(_VIEW), write_id, 0, static_partition=self._static)
        step = Append(insert, self._id, self._txns.low, self._txns.high)
        return JobSpec(job_id, step, (), (self._columns.source(_VIEW, text),), staging)

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
            failure.add_note(f"txn {txn_id} of the batch could not be aborted, or is gone already: {second}")
        if goes_on:
            return
        try:
            self._give_up(reason)
        except HiveAcidError as second:
            failure.add_note(f"txns of the batch could not be aborted and will time out: {second}")

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
        client = self._context.client
        if left:
            client.abort_txns(left, reason)
        # Somebody else was faster; or nobody knows, and it has ended or will time out: it has written nothing.
        with contextlib.suppress(TxnAbortedError, NoSuchTxnError, CommitStateUnknownError):
            client.commit_txn(self._txns.anchor)


def _lock_type(context: Context, name: str) -> LockType:
    """How an INSERT locks the table as a whole."""
    planned = context.locking.plan(Declared({name: "insert"}))
    return next((c.type for c in planned.of_txn.components), LockType.SHARED_READ)
