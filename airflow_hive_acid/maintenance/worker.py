"""The Worker: claims compaction requests and has Spark do them, one after the other (Hive's Worker).

One request: claim, open a compaction txn, lock, pin the snapshot, record how far it reaches, run the job, compare its
files with its report, rename them into place, mark compacted, commit. The result is invisible until that commit.
R4, R5: the job is recorded before it starts and its manifest before the first rename; a failure fences the job before
its txn is aborted. R17: once the commit was sent, nothing is touched unless it is known to have failed.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from airflow_hive_acid.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    JobFailedError,
    LockDeniedError,
    NoSuchObjectError,
)
from airflow_hive_acid.filesystem import fence_staging
from airflow_hive_acid.filesystem.publishing import Target, check_published, publish, read_staging
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.jobs import Column, Compact, JobSpec, PartitionRef, TableSnapshot
from airflow_hive_acid.format.names import parse_directory, staging_name
from airflow_hive_acid.maintenance.decisions import CompactionOutcome, Kind
from airflow_hive_acid.maintenance.directories import enter, entries, names
from airflow_hive_acid.maintenance.storage import bucketing, require_format, writer_properties
from airflow_hive_acid.maintenance.worker_rules import (
    NOTHING_TO_DO,
    check_result,
    is_enough,
    needs_cleaning,
    refusal,
    result_names,
)
from airflow_hive_acid.metastore.beginning import PendingTransaction, prepare
from airflow_hive_acid.metastore.codes import AbortReason, LockState, LockType, Operation, TxnType
from airflow_hive_acid.metastore.compaction_queue_model import CompactionState, CompactionType
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.requests import TableUse
from airflow_hive_acid.metastore.transactions import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.acid_state import AcidState
    from airflow_hive_acid.format.jobs import JobResult
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog_model import Partition, Table
    from airflow_hive_acid.metastore.compaction_queue_model import Compaction

    RunJob = Callable[[JobSpec], JobResult]

log = logging.getLogger(__name__)

_BEGIN_TRIES = 3
_KINDS: dict[CompactionType, Literal["minor", "major", "rebalance"]] = {
    CompactionType.MINOR: "minor",
    CompactionType.MAJOR: "major",
    CompactionType.REBALANCE: "rebalance",
}


def run_worker(
    client: MetastoreClient,
    filesystem: Filesystem,
    run_job: RunJob,
    worker_id: str,
    limit: int | None = None,
    *,
    pool: str | None = None,
) -> list[CompactionOutcome]:
    """Work on the queue until nothing waits in it.

    :param run_job: runs a job spec in a Spark application and returns its result.
    :param worker_id: who works; shown by SHOW COMPACTIONS.
    :param limit: at most so many requests; None for all.
    :param pool: only requests of this compaction pool.
    """
    outcomes: list[CompactionOutcome] = []
    while limit is None or len(outcomes) < limit:
        request = client.compactions.claim(worker_id, pool=pool)
        if request is None:
            break
        outcomes.append(compact(client, filesystem, run_job, request))
        log.info("%s", outcomes[-1])
    return outcomes


def compact(client: MetastoreClient, filesystem: Filesystem, run_job: RunJob, request: Compaction) -> CompactionOutcome:
    """Do what a claimed request asks for; never raises for what is wrong with the table or the job."""
    started = time.monotonic()
    outcome = _Work(client, filesystem, run_job, request).outcome()
    return replace(outcome, seconds=round(time.monotonic() - started, 3))


@dataclass(slots=True)
class _Place:
    """Where the files are: the table, and its partition if it has any."""

    table: Table
    partition: Partition | None

    @property
    def location(self) -> str:
        return self.table.location if self.partition is None else self.partition.location

    @property
    def ref(self) -> PartitionRef:
        if self.partition is None:
            return PartitionRef("", self.table.location)
        return PartitionRef(self.partition.name, self.partition.location, self.partition.values)


class _Work:
    """The work on one request."""

    def __init__(self, client: MetastoreClient, filesystem: Filesystem, run_job: RunJob, request: Compaction) -> None:
        self._client = client
        self._filesystem = filesystem
        self._run_job = run_job
        self._request = request
        self._txn: Transaction | None = None
        self._spec: JobSpec | None = None
        self._job_ended = False

    def outcome(self) -> CompactionOutcome:
        try:
            place = self._place()
            if isinstance(place, str):
                self._client.compactions.mark_refused(self._request, place)
                return self._outcome(Kind.REFUSED, place)
            return self._compact(place)
        except CommitStateUnknownError as error:
            # R17: the result may be what everybody reads by now.
            return self._outcome(Kind.FAILED, str(error))
        except Exception as error:
            self._give_up(error)
            if not isinstance(error, HiveAcidError | OSError):
                raise
            return self._outcome(Kind.FAILED, f"{type(error).__name__}: {error}")
        except BaseException as error:
            self._give_up(error)
            raise

    def _place(self) -> _Place | str:
        """The table and partition, or why the request is refused."""
        resource = self._request.resource
        name = str(resource.table_name)
        table = self._client.catalog.find_tables([name]).get(name)
        partition = None
        if table is not None and table.is_partitioned and resource.partition is not None:
            partition = self._client.catalog.find_partitions(name, [resource.partition]).get(resource.partition)
        exists = resource.partition is None or partition is not None
        reason = refusal(self._request, table, partition_exists=exists)
        if reason is not None or table is None:
            return reason or f"there is no table {name}"
        return _Place(table, partition)

    def _compact(self, place: _Place) -> CompactionOutcome:
        self._txn = txn = self._begin(place)
        name = place.table.qualified_name
        compactor = txn.snapshot[name].for_compactor()
        highest = compactor.high_watermark
        self._client.compactions.update_state(
            self._request, highest_write_id=highest, txn_id=txn.txn_id, run_as=place.table.owner
        )
        state = acid_state(entries(self._listing(place)), compactor, txn.valid_txns)
        numbers: dict[str, int | float | str] = {
            "highest_write_id": highest, "base": int(state.base is not None), "deltas": len(state.deltas),
            "originals": len(state.originals), "obsolete": len(state.obsolete), "aborted": len(state.aborted),
        }  # fmt: skip
        allowed = result_names(self._request.type, state, highest, txn.txn_id)
        if not is_enough(self._request.type, state) or not allowed:
            return self._not_enough(state, numbers)
        self._spec = spec = self._record_job(place, str(compactor), txn)
        result = self._run_job(spec)
        self._job_ended = True
        if result.error is not None:
            raise JobFailedError(f"{result.error.type}: {result.error.message}")
        txn.check()
        check_result(self._request.type, [d.name for d in result.directories], allowed)
        if not result.directories:
            return self._not_enough(state, numbers)
        self._publish(place, spec, result, highest)
        self._client.compactions.set_job(self._request, result.application_id)
        self._client.compactions.mark_compacted(self._request)
        txn.commit()
        written = sum(file.rows for directory in result.directories for file in directory.files)
        sources = names([*(() if state.base is None else (state.base,)), *state.deltas])
        return replace(
            self._outcome(Kind.COMPACTED, f"{len(sources) + len(state.originals)} sources up to write id {highest}"),
            numbers={**numbers, "rows": written},
            directories=tuple(d.name for d in result.directories),
            rows=written,
        )

    def _listing(self, place: _Place) -> list[FileInfo]:
        try:
            return self._filesystem.list_files(place.location, recursive=True, descend=enter)
        except FileNotFoundError:
            return []  # a partition that was added and never written

    def _begin(self, place: _Place) -> Transaction:
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
        agent = f"compaction {self._request.id} by {self._request.worker_id}"
        for _ in range(_BEGIN_TRIES):
            txn_id = self._client.open_txn(type=kind, user=table.owner, agent_info=agent)
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

    def _record_job(self, place: _Place, write_ids: str, txn: Transaction) -> JobSpec:
        table = place.table
        job_id = str(uuid.uuid4())
        staging = paths.join(table.location, staging_name(job_id))
        step = Compact(
            target=TableSnapshot(
                table=table.qualified_name,
                location=table.location,
                columns=tuple(Column(c.name, c.type) for c in table.columns),
                partition_columns=tuple(Column(c.name, c.type) for c in table.partition_columns),
                partitions=(place.ref,),
                write_ids=write_ids,
                txns=str(txn.valid_txns),
                properties=writer_properties(table),
                format=require_format(table),
                insert_only=table.is_insert_only,
                serde=dict(table.serde_properties),
                bucketing=bucketing(table),
            ),
            type=_KINDS[self._request.type],
            visibility_txn_id=txn.txn_id,
            buckets=self._request.number_of_buckets or None,
            order_by=self._request.order_by or None,
        )
        spec = JobSpec(job_id, step, staging=staging)
        self._client.jobs.start(
            job_id=job_id, txn_id=txn.txn_id, table=table.qualified_name, write_id=None, statement=0, kind="compact",
            table_location=table.location, staging=staging,
        )  # fmt: skip
        return spec

    def _publish(self, place: _Place, spec: JobSpec, result: JobResult, highest: int) -> None:
        table = place.table
        partitions = {} if place.partition is None else {place.partition.name: place.partition.location}
        txn_id = self._txn.txn_id if self._txn is not None else 0
        target = Target(
            table.qualified_name, table.location, tuple(c.name for c in table.partition_columns), partitions, highest,
            visibility_txn_id=txn_id, insert_only=table.is_insert_only,
        )  # fmt: skip
        staging = spec.staging or ""
        manifest = read_staging(self._filesystem, staging, result, target)
        self._client.jobs.record_manifest(spec.job_id, manifest.to_document())
        publish(self._filesystem, staging, manifest, table.location)
        check_published(self._filesystem, target, [manifest])

    def _not_enough(self, state: AcidState, numbers: dict[str, int | float | str]) -> CompactionOutcome:
        """Nothing to merge: leave leftovers to the Cleaner, or refuse; the txn commits in both cases."""
        if needs_cleaning(state):
            self._client.compactions.mark_compacted(self._request)
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

    def _give_up(self, error: BaseException) -> None:
        """Mark failed, fence, abort, remove: in this order, so that nothing can appear after it was removed (R4)."""
        reason = f"{type(error).__name__}: {error}"
        try:
            self._mark_failed(reason)
            if self._txn is None:
                return
            if self._spec is not None:
                self._fence()
            self._client.heartbeats.remove(self._txn.txn_id)
            self._abort(self._txn.txn_id)
            self._remove_result()
        except (HiveAcidError, OSError) as problem:
            log.warning("compaction %d could not be given up cleanly, the reaper will: %s", self._request.id, problem)

    def _mark_failed(self, reason: str) -> None:
        try:
            current = self._client.compactions.get(self._request.id)
            ours = current.state is CompactionState.WORKING and current.worker_id == self._request.worker_id
            done = current.state is CompactionState.READY_FOR_CLEANING and current.next_txn_id is None
            if current.queued and (ours or done):
                self._client.compactions.mark_failed(current, reason)
        except NoSuchObjectError as problem:
            log.warning("compaction %d is no longer ours: %s", self._request.id, problem)

    def _fence(self) -> None:
        spec = self._spec
        if spec is None or spec.staging is None or not isinstance(spec.step, Compact):
            return
        location = spec.step.target.location
        note = f"compaction {self._request.id} ended without a result"
        fenced = fence_staging(self._filesystem, spec.staging, inside=location, note=note)
        if fenced or self._job_ended:  # where a file does not fence, only a job that has answered is known to be over
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
        return any(row.txn_id == txn_id and row.state.value == "a" for row in self._client.show_transactions())

    def _outcome(self, kind: Kind, reason: str) -> CompactionOutcome:
        txn_id = None if self._txn is None else self._txn.txn_id
        return CompactionOutcome(
            self._request.id, self._request.resource, self._request.type, kind, reason, txn_id=txn_id
        )
