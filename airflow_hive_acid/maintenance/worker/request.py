"""The work on one compaction request (Hive's Worker, from the claim on).

Open a compaction txn, lock, pin the snapshot, record how far it reaches, run the job, compare its files with its
report, rename them into place, mark compacted, commit. The result is invisible until that commit.
R4, R5: the job is recorded before it starts and its manifest before the first rename; a failure fences the job before
its txn is aborted. R17: once the commit was sent, nothing is touched unless it is known to have failed.

A table or partition with more than ``hive.compactor.max.num.delta`` deltas is first made smaller by minor compactions
of parts of them, each in a txn of its own; the last txn does what was requested, and finishes the request.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from airflow_hive_acid.errors import (
    CommitStateUnknownError,
    CompactionCancelledError,
    CorruptTableError,
    HiveAcidError,
    InvalidArgumentsError,
    JobFailedError,
    LockDeniedError,
    UnsupportedStatementError,
)
from airflow_hive_acid.filesystem import fence_staging
from airflow_hive_acid.filesystem.absence import list_or_prove
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.filesystem.publishing import check_published, publish, read_staging
from airflow_hive_acid.filesystem.syncing import sync
from airflow_hive_acid.filesystem.uploads import abort_left
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import acid_state, state_directories
from airflow_hive_acid.format.jobs import Column, Compact, JobSpec, TableSnapshot
from airflow_hive_acid.format.names import parse_directory, staging_name
from airflow_hive_acid.maintenance.decisions import CompactionOutcome, Kind
from airflow_hive_acid.maintenance.thresholds import threshold_overrides
from airflow_hive_acid.maintenance.warehouse.directories import entries, names
from airflow_hive_acid.maintenance.warehouse.expected import with_expected
from airflow_hive_acid.maintenance.warehouse.places import absence_of, require_written
from airflow_hive_acid.maintenance.warehouse.storage import bucketing, require_format, writer_properties
from airflow_hive_acid.maintenance.worker.jobs import application_for, job_name, run_as, table_properties
from airflow_hive_acid.maintenance.worker.place import Pinned, Place
from airflow_hive_acid.maintenance.worker.rules import (
    NOTHING_TO_DO,
    Part,
    check_result,
    is_enough,
    needs_cleaning,
    order_of,
    outside_of_batches,
    parts_first,
    refusal,
    result_names,
    same_definition,
)
from airflow_hive_acid.maintenance.worker.watch import JobWatch, cancelled
from airflow_hive_acid.metastore.compaction import CompactionState, CompactionType, agent_of
from airflow_hive_acid.metastore.database import AbortReason, LockState, LockType, Operation, TxnState, TxnType
from airflow_hive_acid.metastore.locks import LockComponent
from airflow_hive_acid.metastore.protocol import PendingTransaction, TableUse, Transaction, prepare
from airflow_hive_acid.metastore.replica import TARGET_FOR, policies_of
from airflow_hive_acid.metastore.txns import COMPACT_KIND, txn_facts
from airflow_hive_acid.settings import Source

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.acid_state import AcidState
    from airflow_hive_acid.format.jobs import JobResult
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.maintenance.worker.runner import JobRunner
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Partition, Table
    from airflow_hive_acid.metastore.compaction import Compaction

log = logging.getLogger(__name__)

_BEGIN_TRIES = 3
_KINDS: dict[CompactionType, Literal["minor", "major", "rebalance"]] = {
    CompactionType.MINOR: "minor",
    CompactionType.MAJOR: "major",
    CompactionType.REBALANCE: "rebalance",
}


class Work:
    """The work on one request."""

    def __init__(self, client: MetastoreClient, filesystem: Filesystem, runner: JobRunner, request: Compaction) -> None:
        self._client = client
        self._filesystem = filesystem
        self._runner = runner
        self._request = request
        self._txn: Transaction | None = None
        self._spec: JobSpec | None = None
        self._job_ended = self._is_publishing = False
        self._recorded = False

    def outcome(self) -> CompactionOutcome:
        """Do it; never raises for what is wrong with the table or the job."""
        try:
            why = self._client.compactions.cancellation(self._request.id)
            if why is not None:
                raise cancelled(self._request, why)
            place = self._place()
            if isinstance(place, str):
                self._client.compactions.mark_refused(self._request, place)
                return self._outcome(Kind.REFUSED, place)
            return self._compact(place)
        except CommitStateUnknownError as error:
            # R17: the result may be what everybody reads by now.
            return self._outcome(Kind.FAILED, str(error))
        except CompactionCancelledError as error:
            self._give_up(error)
            return self._outcome(Kind.CANCELLED, str(error))
        except Exception as error:
            self._give_up(error)
            if not isinstance(error, HiveAcidError | OSError):
                raise
            return self._outcome(Kind.FAILED, f"{type(error).__name__}: {error}")
        except BaseException as error:
            # We are told to leave: nothing is wrong with the request, another worker may take it.
            self._give_up(error)
            raise

    # --- what is asked for ------------------------------------------------------------------------------------------

    def _place(self) -> Place | str:
        """The table and partition, or why the request is refused."""
        table, partition = self._find()
        exists = self._request.resource.partition is None or partition is not None
        reason = refusal(self._request, table, partition_exists=exists, policies=self._policies())
        if reason is not None or table is None:
            return reason or f"there is no table {self._request.resource.table_name}"
        try:
            application = application_for(self._request, table, self._client.settings, self._client.host)
        except InvalidArgumentsError as error:
            return str(error)
        return Place(table, partition, application)

    def _policies(self) -> list[str]:
        """The replication policies that write the table's database; asked only for what matters to them."""
        if self._request.type is not CompactionType.REBALANCE:
            return []
        database = self._request.resource.database
        properties = self._client.catalog.database_properties([database]).get(database, {})
        return policies_of(properties.get(TARGET_FOR))

    def _find(self) -> tuple[Table | None, Partition | None]:
        resource = self._request.resource
        name = str(resource.table_name)
        table = self._client.catalog.find_tables([name]).get(name)
        if table is None or not table.is_partitioned or resource.partition is None:
            return table, None
        return table, self._client.catalog.find_partitions(name, [resource.partition]).get(resource.partition)

    def _compact(self, place: Place) -> CompactionOutcome:
        pinned = self._pin(place)
        if self._request.type is not CompactionType.REBALANCE:
            own = threshold_overrides(place.table.properties, self._request.properties)
            settings = self._client.settings.with_overrides(Source.REQUEST, own)
            most = settings.integer("hive.compactor.max.num.delta")
            for part in parts_first(pinned.state, most):
                if not self._merge_part(place, pinned, part):
                    break
                pinned = self._pin(place)
            else:
                return self._finish(place, pinned)
            pinned = self._pin(place)
        return self._finish(place, pinned)

    def _pin(self, place: Place) -> Pinned:
        self._txn, self._spec, self._job_ended, self._is_publishing = None, None, False, False
        self._txn = txn = self._begin(place)
        write_ids = txn.snapshot[place.table.qualified_name].for_compactor()
        listing = entries(self._listing(place))
        highest = outside_of_batches(state_directories(listing), write_ids.high_watermark)
        write_ids = replace(write_ids, high_watermark=highest)
        return Pinned(txn, write_ids, acid_state(listing, write_ids, txn.valid_txns))

    def _finish(self, place: Place, pinned: Pinned) -> CompactionOutcome:
        """What was requested, in the txn that finishes the request."""
        state, txn, highest = pinned.state, pinned.txn, pinned.write_ids.high_watermark
        done_for = run_as(self._request, place.table, self._client.settings)
        self._client.compactions.update_state(
            self._request, highest_write_id=highest, txn_id=txn.txn_id, run_as=done_for
        )
        self._recorded = True
        numbers: dict[str, int | float | str] = {
            "highest_write_id": highest, "base": int(state.base is not None), "deltas": len(state.deltas),
            "originals": len(state.originals), "obsolete": len(state.obsolete), "aborted": len(state.aborted),
        }  # fmt: skip
        allowed = result_names(self._request.type, state, highest, txn.txn_id)
        if not is_enough(self._request.type, state) or not allowed:
            return self._not_enough(state, numbers)
        result = self._run(place, txn, pinned.write_ids)
        check_result(self._request.type, [d.name for d in result.directories], allowed)
        if not result.directories:
            return self._not_enough(state, numbers)
        self._publish(place, result, highest)
        self._client.compactions.mark_compacted(self._request, txn.txn_id)
        txn.commit()
        written = sum(file.rows for directory in result.directories for file in directory.files)
        sources = names([*(() if state.base is None else (state.base,)), *state.deltas])
        return replace(
            self._outcome(Kind.COMPACTED, f"{len(sources) + len(state.originals)} sources up to write id {highest}"),
            numbers={**numbers, "rows": written},
            directories=tuple(d.name for d in result.directories),
            rows=written,
        )

    def _merge_part(self, place: Place, pinned: Pinned, part: Part) -> bool:
        """A minor compaction of some of the deltas; whether the table allows that."""
        txn = pinned.txn
        self._client.compactions.update_state(
            self._request, highest_write_id=part.upto, txn_id=txn.txn_id, partial_result=True
        )
        some = replace(pinned.write_ids, high_watermark=part.upto)
        allowed = result_names(CompactionType.MINOR, replace(pinned.state, deltas=part.deltas), part.upto, txn.txn_id)
        try:
            result = self._run(place, txn, some, part)
        except UnsupportedStatementError as error:
            log.info("compaction %d does without partial minor compactions: %s", self._request.id, error)
            self._end_txn()
            return False
        check_result(CompactionType.MINOR, [d.name for d in result.directories], allowed)
        if result.directories:
            self._publish(place, result, part.upto)
        else:
            self._fence()
        txn.commit()
        log.info("compaction %d: %d deltas up to write id %d first", self._request.id, len(part.deltas), part.upto)
        return True

    def _run(self, place: Place, txn: Transaction, write_ids: ValidWriteIdList, part: Part | None = None) -> JobResult:
        """The Spark job; stopped when somebody cancels the request, or its txn is lost."""
        application_id = self._runner.prepare(place.application)
        self._spec = spec = self._record_job(place, write_ids, txn, part)
        if application_id is not None:
            self._client.jobs.record_application(spec.job_id, application_id)
            self._client.compactions.set_job(self._request, application_id)
        with JobWatch(self._client, self._request, txn.txn_id, self._runner.stop, self._runner.look_seconds):
            result = self._runner.run(spec)
        self._job_ended = True
        if result.error is not None:
            raise JobFailedError(f"{result.error.type}: {result.error.message}")
        txn.check()
        self._client.compactions.set_job(self._request, result.application_id)
        return result

    def _listing(self, place: Place) -> list[FileInfo]:
        # Not there: a partition that was added and never written; or nothing is mounted here, and it is not known.
        proof = partial(require_written, self._client, self._filesystem, place.table, place.location)
        return list_or_prove(self._filesystem, [place.location], proof, descend=enter)[place.location] or []

    def _begin(self, place: Place) -> Transaction:
        """Open the compaction txn, lock without waiting, pin its snapshot (R10)."""
        table = place.table
        # A rebalance gives rows new ids: nobody may be changing them by the old ones.
        rebalance = self._request.type is CompactionType.REBALANCE
        lock, operation, kind = (
            (LockType.EXCL_WRITE, Operation.UPDATE, TxnType.REBALANCE_COMPACTION)
            if rebalance
            else (LockType.SHARED_READ, Operation.SELECT, TxnType.COMPACTION)
        )
        partition = None if place.partition is None else place.partition.name
        component = LockComponent(table.db, table.name, partition, lock, operation)
        use = TableUse(self._request.resource.table_name, LockType.SHARED_READ, Operation.SELECT)
        agent = agent_of(self._request.id, self._request.worker_id)
        user = run_as(self._request, table, self._client.settings)
        for _ in range(_BEGIN_TRIES):
            txn_id = self._client.open_txn(type=kind, user=user, agent_info=agent)
            self._client.heartbeats.add(txn_id)
            try:
                response = self._client.lock([component], txn_id=txn_id, agent_info=agent)
                if response.state is not LockState.ACQUIRED:
                    raise LockDeniedError(
                        f"{component.describe()} is locked by {response.blocked_by or response.message}; compaction "
                        "does not wait for locks: it is requested again when it is still needed"
                    )
                begun = prepare(PendingTransaction(self._client, txn_id, (use,), response))
            except BaseException:
                self._client.heartbeats.remove(txn_id)
                self._abort(txn_id)
                raise
            if begun is not None:
                return Transaction(self._client, begun)
            self._client.heartbeats.remove(txn_id)
            self._abort(txn_id)
        raise LockDeniedError(f"{component.describe()}: other compactions committed while this one began; try again")

    def _record_job(self, place: Place, write_ids: ValidWriteIdList, txn: Transaction, part: Part | None) -> JobSpec:
        table = replace(place.table, properties=table_properties(self._request, place.table))
        job_id = str(uuid.uuid4())
        staging = paths.join(table.location, staging_name(job_id))
        step = Compact(
            target=self._snapshot(place, write_ids, txn, table),
            type="minor" if part is not None else _KINDS[self._request.type],
            visibility_txn_id=txn.txn_id,
            buckets=self._request.number_of_buckets or None,
            order_by=order_of(self._request, table),
            above=0 if part is None else part.above,
        )
        name, uploads = job_name(self._request, self._client.host), place.uploads(step.type, self._client.settings)
        spec = JobSpec(job_id, step, staging=staging, name=name, uploads=uploads)
        self._client.jobs.start(
            job_id=job_id, txn_id=txn.txn_id, table=table.qualified_name, write_id=None, statement=0, kind=COMPACT_KIND,
            table_location=table.location, staging=staging,
        )  # fmt: skip
        return spec

    def _snapshot(self, place: Place, write_ids: ValidWriteIdList, txn: Transaction, table: Table) -> TableSnapshot:
        snapshot = TableSnapshot(
            table=table.qualified_name,
            location=table.location,
            columns=tuple(Column(c.name, c.type) for c in table.columns),
            partition_columns=tuple(Column(c.name, c.type) for c in table.partition_columns),
            partitions=(place.ref,),
            write_ids=write_ids.short_text(),
            txns=str(txn.valid_txns),
            properties=writer_properties(table),
            format=require_format(table),
            insert_only=table.is_insert_only,
            serde=dict(table.serde_properties),
            bucketing=bucketing(table),
        )
        return with_expected(self._client, self._client.settings, table, snapshot)

    def _publish(self, place: Place, result: JobResult, highest: int) -> None:
        self._require_unchanged(place)
        table, spec = place.table, self._spec
        if spec is None or spec.staging is None or self._txn is None:
            raise AssertionError("a compaction publishes what its job wrote")
        target = place.target(highest, self._txn.txn_id)
        manifest = read_staging(self._filesystem, spec.staging, result, target, spec.uploads)
        self._is_publishing = True
        self._client.jobs.record_manifest(spec.job_id, manifest.to_document())
        publish(self._filesystem, spec.staging, manifest, table.location)
        sync(self._client.settings, [d.uri for d in manifest.directories], table.location)
        check_published(self._filesystem, target, [manifest])
        files = sum(len(directory.files) for directory in result.directories)
        uploaded = sum(len(directory.uploads) for directory in manifest.directories)
        log.info(
            "compaction %d published %d files, %d of them uploaded under their names", self._request.id, files, uploaded
        )

    def _require_unchanged(self, place: Place) -> None:
        """Refuse to publish files of a table that is another one by now: dropped, made anew, moved, altered.

        The lock keeps out whoever asks for one; a Hive that drops or alters without a lock does not.

        :raises CorruptTableError: what differs.
        """
        table, partition = self._find()
        difference = same_definition(place.table, table, place.partition, partition)
        if difference is not None:
            raise CorruptTableError(
                f"{self._request.resource} was changed while it was compacted: {difference}; nothing is published, "
                "request the compaction again"
            )

    def _not_enough(self, state: AcidState, numbers: dict[str, int | float | str]) -> CompactionOutcome:
        """Nothing to merge: leave leftovers to the Cleaner, or refuse; the txn commits in both cases."""
        txn_id = None if self._txn is None else self._txn.txn_id
        if needs_cleaning(state):
            self._client.compactions.mark_compacted(self._request, txn_id)
            kind = Kind.FOR_CLEANER
            leftovers = names([*state.obsolete, *state.aborted])
            reason = f"nothing to merge; {len(leftovers)} obsolete or aborted directories are left to the Cleaner"
        else:
            self._client.compactions.mark_refused(self._request, NOTHING_TO_DO)
            kind, reason = Kind.REFUSED, NOTHING_TO_DO
        if self._spec is not None:
            self._fence()
        if self._txn is not None:
            self._txn.commit()
        return replace(self._outcome(kind, reason), numbers=numbers)

    # --- when it does not work out ----------------------------------------------------------------------------------

    def _give_up(self, error: BaseException) -> None:
        """Mark, fence, abort, remove: in this order, so that nothing can appear after it was removed (R4)."""
        try:
            self._mark(error)
        except HiveAcidError as problem:
            log.warning("compaction %d is no longer ours: %s", self._request.id, problem)
        self._end_txn()

    def _mark(self, error: BaseException) -> None:
        reason = f"{type(error).__name__}: {error}"
        current = self._client.compactions.get(self._request.id)
        if not current.queued or not self._is_ours(current):
            return
        if isinstance(error, CompactionCancelledError):
            self._client.compactions.mark_aborted(current, str(error))
        elif isinstance(error, Exception) or current.state is not CompactionState.WORKING:
            self._client.compactions.mark_failed(current, reason)
        else:
            self._client.compactions.give_back(current, reason)

    def _is_ours(self, current: Compaction) -> bool:
        """Whether the row is still that of this attempt: a later one of the same worker has claimed it anew (R5)."""
        txn_id = None if self._txn is None else self._txn.txn_id
        if self._recorded and current.txn_id != txn_id:
            return False
        if current.state is CompactionState.READY_FOR_CLEANING:
            return current.next_txn_id is None and self._recorded
        claimed = self._request.worker_id, self._request.start
        return current.state is CompactionState.WORKING and (current.worker_id, current.start) == claimed

    def _end_txn(self) -> None:
        """Fence the job, abort its txn, remove what it had published; what fails is left to the reaper."""
        txn = self._txn
        if txn is None:
            return
        # Nobody is alive in it any more: if the rest fails, the reaper finds it by its silence.
        self._client.heartbeats.remove(txn.txn_id)
        try:
            if self._spec is not None:
                self._fence()
            self._abort(txn.txn_id)
            self._remove_result()
        except (HiveAcidError, OSError) as problem:
            log.warning("compaction %d could not be given up cleanly, the reaper will: %s", self._request.id, problem)

    def _fence(self) -> None:
        spec = self._spec
        if spec is None or spec.staging is None or not isinstance(spec.step, Compact):
            return
        location = spec.step.target.location
        note = f"compaction {self._request.id} ended without a result"
        absent = absence_of(self._client, self._filesystem, str(self._request.resource.table_name), location)
        fenced = fence_staging(self._filesystem, spec.staging, inside=location, note=note, absent=absent)
        if not fenced:
            visibility, places = spec.step.visibility_txn_id, [part.location for part in spec.step.target.partitions]
            abort_left(self._filesystem, location, lambda found: found.visibility_txn_id == visibility, places)
        # Where a file does not fence, only a job that has answered is known to be over; and what publishing has asked
        # for the store may still do: such a job the reaper fences, which waits for that (R4).
        if fenced or (self._job_ended and not self._is_publishing):
            self._client.jobs.mark_fenced(spec.job_id, note)

    def _abort(self, txn_id: int) -> None:
        try:
            self._client.abort_txn(txn_id, AbortReason.COMPACTION)
        except HiveAcidError as problem:
            log.warning("compaction txn %d could not be aborted and will time out: %s", txn_id, problem)

    def _remove_result(self) -> None:
        """Delete what the aborted compaction had already renamed into place."""
        spec, txn = self._spec, self._txn
        if spec is None or txn is None or not isinstance(spec.step, Compact):
            return
        if not self._is_aborted(txn.txn_id):
            return  # R17
        place = spec.step.target.partitions[0].location
        for entry in self._filesystem.list_files(place):
            directory = parse_directory(entry.name) if entry.is_dir else None
            if directory is not None and directory.visibility_txn_id == txn.txn_id:
                self._filesystem.delete(entry.path, inside=place)

    def _is_aborted(self, txn_id: int) -> bool:
        facts = self._client.database.read(lambda connection: txn_facts(connection, [txn_id])).get(txn_id)
        return facts is not None and facts.state is TxnState.ABORTED

    def _outcome(self, kind: Kind, reason: str) -> CompactionOutcome:
        txn_id = None if self._txn is None else self._txn.txn_id
        return CompactionOutcome(
            self._request.id, self._request.resource, self._request.type, kind, reason, txn_id=txn_id
        )
