"""One open transaction and what its statements have published: step 4 to 7 in the life of a statement.

Statements run one after the other as Spark jobs, see what earlier ones of the same transaction wrote, and become
visible together. Every job is recorded before it starts (R4), its manifest before the first rename (R5); the commit
checks the manifests, adds the new partitions to the catalog and names every partition written (R12), all in its one
database transaction. After any failure the transaction is aborted and its files are left to the Cleaner (R17: unless
the commit was sent and its answer lost, then nothing is touched at all).
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.definitions.ctas import Creations
from airflow_hive_acid.engine.outcomes.events import (
    Published,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpened,
)
from airflow_hive_acid.engine.outcomes.manifests import (
    buckets_in_bases,
    finished,
    published,
    require_same_places,
    writes,
)
from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult
from airflow_hive_acid.engine.queries.blanks import with_blanks
from airflow_hive_acid.engine.queries.query import most_bytes
from airflow_hive_acid.engine.tables.read_counts import ReadsOfJob
from airflow_hive_acid.engine.tables.read_only import require_writable, written_by
from airflow_hive_acid.engine.tables.snapshots import table_snapshot
from airflow_hive_acid.engine.tables.viewpoints import Looks
from airflow_hive_acid.engine.transactions.claims import UNCLAIMED
from airflow_hive_acid.engine.transactions.hidden_writes import require_seen
from airflow_hive_acid.engine.transactions.plain_writes import PlainWrites
from airflow_hive_acid.engine.transactions.seen_tables import SeenTables
from airflow_hive_acid.engine.transactions.written_tables import Written, touched
from airflow_hive_acid.errors import CommitStateUnknownError, HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.filesystem.publishing import (
    Manifest,
    add_to_published,
    check_published,
    publish,
    read_staging,
)
from airflow_hive_acid.filesystem.syncing import sync
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.buckets import MAX_STATEMENT
from airflow_hive_acid.format.jobs import Insert, JobSpec, PartitionRef
from airflow_hive_acid.format.names import staging_name
from airflow_hive_acid.maintenance.warehouse.places import require_target
from airflow_hive_acid.metastore.catalog import find_partitions
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.txns import count_rows
from airflow_hive_acid.python_versions import add_note
from airflow_hive_acid.sql.model.plans import STRENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from sqlalchemy import Connection
    from typing_extensions import Self

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.locking.interface import LockedTransaction
    from airflow_hive_acid.engine.locking.requests import Wanted
    from airflow_hive_acid.engine.transactions.progress import Progress
    from airflow_hive_acid.format.jobs import JobResult, View
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.plans import Plan, TableWrite


class StatementTransaction:
    """An open transaction in which planned statements run; :meth:`begin` opens one.

    :param operations: what each table was declared for; a statement may do that and less.
    :param locked: the txn, with its locks.
    :param creations: the tables that its commit makes.
    :param progress: is told how far it has come: the claim on what it does, if that is to be done once (R14).
    """

    def __init__(
        self,
        context: Context,
        operations: Mapping[str, str],
        locked: LockedTransaction,
        creations: Creations,
        progress: Progress,
    ) -> None:
        self._context = context
        self._operations = dict(operations)
        self._txn, self._hold = locked.txn, locked.hold
        self._creations = creations
        self._progress = progress
        self._plain = PlainWrites(context)
        self._written: dict[str, Written] = {}
        self._reads = ReadsOfJob(context.client)
        self._seen = SeenTables(context, locked.txn, locked.listed, creations, self._written)
        self._plain_statements = 0
        self._ended = False

    @classmethod
    def begin(
        cls,
        context: Context,
        operations: Mapping[str, str],
        wanted: Wanted | None = None,
        progress: Progress = UNCLAIMED,
        patience: Patience | None = None,
    ) -> Self:
        """Lock, and open a transaction; after a failure nothing is left of it.

        :param wanted: what to lock; by default what the operations need.
        :param patience: how long to wait for the locks here; by default as long as the settings say.
        :raises LocksPendingError: when the patience was not enough; the request stays in the queue.
        :raises ReadOnlyReplicaError: when a replication writes a database of it; nothing was begun.
        """
        started = time.monotonic()
        written = written_by(operations.items())
        require_writable(context.client, written)
        locked = context.locking.begin(operations, wanted, patience=patience, opened=progress.begun)
        creations = Creations(context, locked.txn.txn_id, operations)
        begun = cls(context, operations, locked, creations, progress)
        try:
            if context.settings.flag("hive.txn.xlock.write"):
                # INSERT has not waited for the lock that keeps writers off what was handed over since the first look.
                require_writable(context.client, written)
            creations.begin()
            write_ids = dict(locked.txn.write_ids)
            context.emit(TransactionOpened(begun.txn_id, dict(operations), write_ids, time.monotonic() - started))
        except BaseException as failure:
            begun.abort_after(failure)
            raise
        return begun

    @property
    def txn_id(self) -> int:
        """The txn's id."""
        return self._txn.txn_id

    @property
    def write_ids(self) -> dict[str, int]:
        """Write id by table, for the tables that may be written."""
        return dict(self._txn.write_ids)

    @property
    def snapshot(self) -> Mapping[str, Any]:
        """Valid write id list by transactional table."""
        return self._txn.snapshot

    def document(self) -> dict[str, Any]:
        """What another process needs to work in it, as plain JSON values."""
        return {"txn": self._txn.to_document(), "operations": dict(self._operations)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if failure is None:
            self.commit()
        else:
            self.abort_after(failure)

    def require_open(self) -> None:
        """Refuse to go on with a transaction that has ended.

        :raises InvalidArgumentsError: when it was committed or aborted.
        """
        if self._ended:
            raise InvalidArgumentsError(f"txn {self.txn_id} has ended; begin a new transaction")

    def table(self, name: str) -> Table:
        """A table as the catalog knows it now that the locks are granted."""
        return self._seen.table(name)

    def run(self, plan: Plan) -> StatementResult:
        """Run one statement; nothing of it is visible to others before the commit.

        :raises InvalidArgumentsError: when it needs a table, or an operation on it, that was not declared, or writes
            to a table that this txn has overwritten.
        """
        self.require_declared(plan.operations)
        if plan.write is not None and plan.write.table in self._written:
            self._written[plan.write.table].check_visible(plan.write, self.txn_id)
        started = time.monotonic()
        session = self._context.application.ready()
        job_id = str(uuid.uuid4())
        looks = Looks(self._context.client)
        snapshots = {read.view: self._seen.snapshot(read, looks) for read in plan.reads}
        views = looks.views(plan, snapshots)
        for read in plan.reads:
            self._reads.saw(self.table(read.table), read, snapshots[read.view])
        if plan.write is None:
            step = plan.step(rows_uri=session.rows_uri(job_id), max_bytes=most_bytes(self._context))
            result = session.run(JobSpec(job_id, step, views, plan.sources))
            found = Rows.of(result.columns, session.read_rows(session.rows_uri(job_id)))
            rows = with_blanks(self._context, plan, views, found)
            self._hold.require()
            looks.require_kept()
            self._reads.tell()
            self._context.emit(finished(plan, result))
            return self._statement_result(plan, result, started, rows=rows)
        result, manifest = self._write(plan, plan.write, job_id, views)
        looks.require_kept()
        self._reads.tell()
        plain = not plan.write.transactional
        uris = dict.fromkeys(d.place if plain else d.uri for d in manifest.directories)
        return self._statement_result(plan, result, started, directories=tuple(uris))

    def remember(self, results: Sequence[StatementResult]) -> None:
        """What a later try gets to know once this is committed; call it when all statements have run."""
        claim = self._progress.at_commit(self.txn_id, results)
        if claim is not None:
            self._txn.claim_at_commit(claim)

    def commit(self) -> None:
        """Make everything visible at once.

        :raises ClaimLostError: a later try has taken over what it does; this one is aborted.
        :raises WriteConflictError: another txn changed the same rows' partition first; this one is aborted.
        :raises PublishError: what lies in the table is not what was published; this one is aborted.
        :raises CommitStateUnknownError: the answer was lost; nothing was touched.
        """
        started = time.monotonic()
        try:
            for name in self._txn.write_ids:
                if self.table(name).is_partitioned:
                    self._name_partitions(name)
            self._hold.require()
            made = self._plain.made + sum(len(written.made) for written in self._written.values())
            self._context.client.catalog.reserve_partition_ids(made)
            self._txn.before_commit(self._check_and_add_partitions)
            self._txn.commit()
            self._ended = True
        except CommitStateUnknownError:
            self._ended = True
            self._hold.leave()
            raise
        except BaseException as failure:
            self.abort_after(failure)
            raise
        self._hold.release()
        self._plain.finish()
        self._context.emit(TransactionCommitted(self.txn_id, time.monotonic() - started))

    def abort(self, reason: str) -> None:
        """Give everything up; fine when it has ended.

        Files stay where they are; the Cleaner removes them when nobody can need them.
        """
        if self._ended:
            return
        self._ended = True
        # While the locks are held: nobody may see half of it. What cannot be undone here the reaper undoes under them.
        with self._hold.ending():
            try:
                self._plain.undo(self.txn_id, reason)
                self._creations.give_up()
            finally:
                self._txn.abort(reason)
        self._context.emit(TransactionAborted(self.txn_id, reason.splitlines()[0] if reason else "no reason given"))

    def abort_after(self, failure: BaseException) -> None:
        """Abort because of a failure, which is what the caller should hear of, whatever becomes of the abort."""
        if isinstance(failure, CommitStateUnknownError):
            return
        try:
            self.abort(str(failure) or type(failure).__name__)
        except HiveAcidError as second:
            add_note(failure, f"txn {self.txn_id} could not be aborted and will time out: {second}")

    def _name_partitions(self, name: str) -> None:
        """R12: also when there are none, so that a statement that matched nothing leaves no component."""
        self._txn.add_partitions(name, [])
        written = self._written.get(name)
        for operation, partitions in (written.partitions if written is not None else {}).items():
            self._txn.add_partitions(name, sorted(partitions), operation)

    def require_declared(self, operations: Mapping[str, str]) -> None:
        """Refuse what this transaction has no lock for.

        :raises InvalidArgumentsError: naming the table.
        """
        for name, operation in operations.items():
            declared = self._operations.get(name)
            if declared is None or STRENGTH.index(declared) < STRENGTH.index(operation):
                raise InvalidArgumentsError(
                    f"txn {self.txn_id} was begun with {declared or 'nothing'} on {name}, and the statement needs "
                    f"{operation}; declare all tables with what will be done to them when the transaction is begun"
                )

    def _write(self, plan: Plan, write: TableWrite, job_id: str, views: tuple[View, ...]) -> tuple[JobResult, Manifest]:
        context, name = self._context, write.table
        table = self._creations.shape_of(self.table(name))
        if not table.is_transactional:
            return self._write_plain(plan, write, table, job_id, views)
        written = self._written.setdefault(name, Written(table))
        ids = [self._txn.next_statement_id(name) for _ in range(plan.statement_id_count)]
        if ids and ids[-1] > MAX_STATEMENT:
            raise InvalidArgumentsError(
                f"txn {self.txn_id} has run {ids[0]} statements on {name}, and the format numbers {MAX_STATEMENT + 1}; "
                "commit, and go on in a new transaction"
            )
        write_id = self._txn.write_ids[name]
        # An insert finds the places of its partitions when it knows them: it looks at no file of the table.
        partitions = [] if plan.kind == "insert" else self._seen.partitions(table).matching(write.partitions)
        snapshot = table_snapshot(table, partitions, write.partitions, self._txn.snapshot[name], self._txn.valid_txns)
        if plan.kind != "insert":
            snapshot = self._seen.expected(table, snapshot)
            self._reads.rewrites(table, write.partitions, snapshot)
        staging = paths.join(table.location, staging_name(job_id))
        step = plan.step(target=snapshot, write_id=write_id, statement_ids=ids)
        joins_base, replaces_base = written.joins_base(write), written.replaces_base(write)
        if isinstance(step, Insert) and (joins_base or replaces_base):
            offset = buckets_in_bases(written.manifests, write.only_partition or "") if joins_base else 0
            step = replace(step, overwrite=True, bucket_offset=offset)
        # Files that join a base of this txn, or take the place of one, are moved among others.
        moved = joins_base or (replaces_base and written.has_base(write))
        uploads = None if moved else self._seen.uploads(table, plan.kind, step, write.only_partition, partitions)
        spec = JobSpec(job_id, step, views, plan.sources, staging, uploads=uploads)
        session = context.application.ready()
        self._progress.starting(self._txn, job_id)
        self._start_job(job_id, table, ids[0], plan.kind, staging, session.application_id)
        result = session.run(spec)
        context.emit(finished(plan, result))
        if write.operation == "overwrite":
            self._seen.require_alone(table, {d.partition for d in result.directories})
        target = self._seen.target(table, (*written.statement_ids, *ids), {d.partition for d in result.directories})
        started = time.monotonic()
        filesystem = context.filesystem
        manifest = read_staging(filesystem, staging, result, target, uploads)
        if replaces_base:
            manifest = written.replaced_by(manifest)
        context.client.jobs.record_manifest(job_id, manifest.to_document(), result.counts())
        if joins_base:
            add_to_published(filesystem, staging, manifest, table.location)
        else:
            publish(filesystem, staging, manifest, table.location)
        sync(context.client.settings, [d.uri for d in manifest.directories], table.location)
        written.statement_ids += ids
        written.manifests.append(manifest)
        written.count(result.directories, joins_base=joins_base)
        for operation, names in touched(plan, write, result.directories).items():
            written.partitions[operation] |= names
        written.truncated -= {d.partition for d in manifest.directories}
        written.made.update(self._seen.learn(table, target, manifest))
        context.emit(published(manifest, time.monotonic() - started))
        return result, manifest

    def _write_plain(
        self, plan: Plan, write: TableWrite, table: Table, job_id: str, views: tuple[View, ...]
    ) -> tuple[JobResult, Manifest]:
        """A table without transactions: its files carry the txn, and are moved one by one under the table's lock."""
        context = self._context
        self._plain_statements += 1
        # An insert looks at no file of the table.
        snapshot = table_snapshot(table, (), write.partitions, None, None)
        staging = paths.join(table.location, staging_name(job_id))
        step = plan.step(target=snapshot, write_id=self.txn_id, statement_ids=[self._plain_statements])
        session = context.application.ready()
        self._start_job(job_id, table, self._plain_statements, plan.kind, staging, session.application_id)
        result = session.run(JobSpec(job_id, step, views, plan.sources, staging))
        self._hold.require()
        self._context.emit(finished(plan, result))
        if write.operation == "overwrite":
            self._seen.require_alone(table, {d.partition for d in result.directories})
        target = self._seen.target(table, (), {d.partition for d in result.directories})
        started = time.monotonic()
        moved, staged = self._plain.publish(table, staging, result, target, overwrite=write.operation == "overwrite")
        self._seen.learn(table, target, staged)
        sizes = [file.size for file in moved.files]
        places = len({file.place for file in moved.files})
        context.emit(Published(moved.table, places, len(sizes), sum(sizes), time.monotonic() - started))
        return result, staged

    def _start_job(
        self, job_id: str, table: Table, statement: int, kind: str, staging: str, application_id: str | None = None
    ) -> None:
        """R4: a job is on record before it starts."""
        name = table.qualified_name
        # R17: what is written into the mount point of a disk that is not mounted is lost when it is. One look per job.
        require_target(self._context.client, self._context.filesystem, table)
        self._context.client.jobs.start(
            job_id=job_id, txn_id=self.txn_id, table=name, statement=statement, kind=kind,
            write_id=self._txn.write_ids[name] if table.is_transactional else None,
            table_location=table.location, staging=staging, application_id=application_id,
        )  # fmt: skip

    def overwritten(self, name: str) -> frozenset[str]:
        """Names of the partitions of a table that it has overwritten; the empty name of a table without partitions."""
        written = self._written.get(name)
        return frozenset() if written is None else frozenset(written.partitions["overwrite"])

    def partitions(self, table: Table, given: Mapping[str, str]) -> list[PartitionRef]:
        """The partitions with the given values; one without a name for a table that has none."""
        return self._seen.partitions(table).with_values(given)

    def publish_unchecked(self, table: Table, result: JobResult, files: Mapping[str, str]) -> tuple[str, ...]:
        """Publish directories that need no job: their files are small texts, the same in each.

        :param result: as a job would report them.
        :return: URIs of the directories.
        """
        context, name = self._context, table.qualified_name
        staging = paths.join(table.location, staging_name(result.job_id))
        plain = not table.is_transactional
        statement = 0 if plain else self._txn.next_statement_id(name)
        self._progress.starting(self._txn, result.job_id)
        self._start_job(result.job_id, table, statement, "insert" if plain else "truncate", staging)
        for made in result.directories:
            inside = [made.partition] if made.partition else []
            directory = paths.join(staging, "data", *inside, made.name)
            context.filesystem.make_directory(directory)
            for file in made.files:
                context.filesystem.write_text(paths.join(directory, file.name), files[file.name])
        target = self._seen.target(table, (statement,), {d.partition for d in result.directories})
        if plain:
            _, staged = self._plain.publish(table, staging, result, target, overwrite=True)
            return tuple(directory.place for directory in staged.directories)
        written = self._written.setdefault(name, Written(table))
        manifest = written.replaced_by(read_staging(context.filesystem, staging, result, target))
        context.client.jobs.record_manifest(result.job_id, manifest.to_document(), result.counts())
        publish(context.filesystem, staging, manifest, table.location)
        sync(context.client.settings, [d.uri for d in manifest.directories], table.location)
        written.statement_ids.append(statement)
        written.manifests.append(manifest)
        written.count(result.directories)
        written.truncated |= {d.partition for d in manifest.directories}
        written.partitions["overwrite"] |= {d.partition for d in manifest.directories}
        return tuple(directory.uri for directory in manifest.directories)

    def _statement_result(
        self, plan: Plan, result: JobResult, started: float, *, rows: Rows | None = None,
        directories: tuple[str, ...] = (),
    ) -> StatementResult:  # fmt: skip
        return StatementResult(
            statement=plan.statement.text,
            kind=plan.kind,
            inserted=result.inserted,
            updated=result.updated,
            deleted=result.deleted,
            rows=rows,
            txn_id=self.txn_id,
            write_ids=self._write_id_of(plan),
            seconds=time.monotonic() - started,
            directories=directories,
        )

    def _write_id_of(self, plan: Plan) -> dict[str, int]:
        if plan.write is None or not plan.write.transactional:
            return {}
        return {plan.write.table: self._txn.write_ids[plan.write.table]}

    def _check_and_add_partitions(self, connection: Connection) -> None:
        """Inside the commit, before any global lock (R15): do the manifests hold, and does the catalog know all?"""
        context = self._context
        for name, created in self._creations.create_in(connection, self._txn.write_ids).items():
            self._plain.created(created)
            if name in self._written:
                self._written[name].table = created
        for name, changed in self._creations.replace_in(connection, self._txn.write_ids, self.table).items():
            if name in self._written:
                self._written[name].table = changed
        self._plain.check_and_register(connection)
        # In one order, whatever that of the statements was: two commits lock rows of the same tables (numRows).
        for name, written in sorted(self._written.items()):
            table = written.table
            target = self._seen.target(table, tuple(written.statement_ids), ())
            bases = check_published(context.filesystem, target, written.manifests)
            gap = context.client.gap_timeout_ms
            require_seen(connection, self.txn_id, name, self._txn.write_ids[name], written, bases, gap)
            made = {p: self._seen.partitions(table)[p] for p in written.made}
            new: list[str] = []
            if made:
                key, write_id = table_name(name), self._txn.write_ids[name]
                catalog = context.client.catalog
                new = catalog.add_partitions_in(connection, key, list(made), write_id=write_id)
                others = find_partitions(connection, table, sorted(set(made) - set(new)))
                require_same_places(made, others)
            count_rows(connection, table.id, written.rows, new)
            told = writes(table_name(name), self._txn.write_ids[name], written.manifests)
            context.client.write_events.acid_written(connection, self.txn_id, told)
