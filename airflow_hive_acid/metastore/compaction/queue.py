"""The compaction queue: requests on their way from initiated to cleaned, and what becomes of them.

Hive's CompactionTxnHandler as state transitions. A request is claimed by compare-and-set, every later step checks that
it is still in the state (and in the hands of the worker) it is said to be in; a request that ends moves to the history
in the same transaction. Keeps R4 for what is forgotten here: only with the list of directories that are gone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, insert, or_, select, update

from airflow_hive_acid.errors import CompactionCancelledError, NoSuchObjectError
from airflow_hive_acid.metastore.compaction import candidates, cleaning, history, runs
from airflow_hive_acid.metastore.compaction.decisions import CompactionDecisions
from airflow_hive_acid.metastore.compaction.listing import CompactionFilter, stream_compactions
from airflow_hive_acid.metastore.compaction.model import (
    AbortedWrites,
    Candidate,
    Compaction,
    CompactionState,
    CompactionType,
    EnqueueResult,
    Resource,
)
from airflow_hive_acid.metastore.compaction.requests import VERSION, CompactionRequest, enqueue
from airflow_hive_acid.metastore.compaction.rows import (
    QUEUE,
    clean_text,
    compaction,
    insert_history,
    lock_request,
    move_to_history,
)
from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms
from airflow_hive_acid.metastore.database.database import Repeat
from airflow_hive_acid.metastore.names.objects import free_text, info, table_name
from airflow_hive_acid.metastore.names.partitions import resolve
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, TXN_COMPONENTS
from airflow_hive_acid.metastore.setup.abilities import require_hive_4

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection, Select

    from airflow_hive_acid.metastore.database.database import Database

SCHEDULER_MUTEX = "CompactionScheduler"
FETCH_SIZE = 1000
POOL_TIMEOUT_MS = 12 * 3_600_000
_ACTIVE = (CompactionState.INITIATED, CompactionState.WORKING)

_LEAVE_IT = "its Hive compacts and cleans, and knows neither our names of directories nor our states"
_cq = COMPACTION_QUEUE.c
_ID = _cq.CQ_ID == bindparam("id")
_CLAIM = (
    update(COMPACTION_QUEUE)
    .where(_ID, _cq.CQ_STATE == CompactionState.INITIATED.value)
    .values(CQ_STATE=CompactionState.WORKING.value, CQ_WORKER_ID=bindparam("worker"), CQ_START=clock_ms(),
            CQ_WORKER_VERSION=bindparam("version"), CQ_TXN_ID=None)
)  # fmt: skip
_FREE = QUEUE.where(_cq.CQ_STATE == CompactionState.INITIATED.value).order_by(_cq.CQ_ID).limit(bindparam("limit"))
_FREE_IN_POOL = _FREE.where(_cq.CQ_POOL_NAME == bindparam("pool"))
#: A request of a pool that nobody serves falls to the workers without a pool (Hive forgets the parentheses here).
_FREE_FOR_ALL = _FREE.where(
    or_(_cq.CQ_POOL_NAME.is_(None), _cq.CQ_ENQUEUE_TIME < clock_ms() - bindparam("pool_timeout"))
)
_IN_WORK = QUEUE.where(_cq.CQ_STATE.in_([state.value for state in _ACTIVE])).order_by(_cq.CQ_ID)


class CompactionQueue:
    """Compaction requests and their history; ``decisions`` is what the Initiator thought about them.

    :param database: the metastore database.
    :param gap_timeout_ms: ``hive.txn.opentxn.timeout``.
    :param mutex: takes one of Hive's mutexes (AUX_TABLE) by name.
    """

    def __init__(
        self, database: Database, gap_timeout_ms: int, mutex: Callable[[str], AbstractContextManager[object]]
    ) -> None:
        self._database = database
        self._gap_timeout_ms = gap_timeout_ms
        self._mutex = mutex
        self.decisions = CompactionDecisions(database)

    # --- requesting -----------------------------------------------------------------------------------------------

    def enqueue(
        self,
        table: str,
        partition: str | None = None,
        type: CompactionType = CompactionType.MAJOR,
        *,
        run_as: str | None = None,
        properties: Mapping[str, str] | None = None,
        initiator_id: str | None = None,
        initiator_version: str = VERSION,
        pool: str | None = None,
        number_of_buckets: int | None = None,
        order_by: str | None = None,
    ) -> EnqueueResult:
        """Ask for a compaction; a request that would do nothing new is not accepted.

        :param table: ``db.table``.
        :param partition: partition name, of all partition columns; None for an unpartitioned table.
        :param initiator_id: who asks; by default this host, by hand.
        :raises InvalidArgumentsError: when the table has no such partitions.
        """
        name = table_name(table)

        def named(connection: Connection) -> str | None:
            return None if partition is None else resolve(connection, name, partition, partial=False)

        resource = Resource(*name, None if partition is None else self._database.read(named))
        request = CompactionRequest(
            resource, type, run_as, properties or {}, initiator_id, initiator_version, pool, number_of_buckets, order_by
        )
        return self.enqueue_all([request])[0]

    def enqueue_all(self, requests: Sequence[CompactionRequest]) -> list[EnqueueResult]:
        """Ask for several compactions in one transaction, in this order.

        :return: an answer for each; what would do nothing new is not accepted.
        :raises InvalidArgumentsError: for what the queue cannot hold; then none is asked for.
        """
        for request in requests:
            request.row()
        # The mutex outlives the commit: Hive's own requests then see these.
        with self._mutex(SCHEDULER_MUTEX):
            return self._database.run(
                lambda connection: enqueue(connection, requests, self._gap_timeout_ms), Repeat.BEFORE_COMMIT
            )

    def abort(self, ids: Iterable[int], *, user: str = "a user", reason: str | None = None) -> list[runs.AbortAnswer]:
        """End requests: one that waits at once, one that a Worker of ours runs by its Worker.

        :param user: who wants it, and why; kept in the history.
        """
        require_hive_4(self._database.layout(), "the end of a compaction that was asked for", _LEAVE_IT)
        return [
            self._database.run(partial(runs.cancel, request_id=request_id, user=user, reason=reason))
            for request_id in ids
        ]

    # --- working --------------------------------------------------------------------------------------------------

    def claim(
        self,
        worker_id: str,
        *,
        version: str = VERSION,
        pool: str | None = None,
        pool_timeout_ms: int = POOL_TIMEOUT_MS,
    ) -> Compaction | None:
        """Take the oldest request that waits; None when there is none.

        :param pool: only requests of this pool; without it those without a pool, and those whose pool lets them wait
            for longer than ``pool_timeout_ms``.
        """
        worker = free_text(worker_id, "worker id", 128)
        require_hive_4(self._database.layout(), "a compaction by this package", _LEAVE_IT)

        def operation(connection: Connection) -> Compaction | None:
            if pool is not None:
                free = connection.execute(_FREE_IN_POOL, {"pool": pool, "limit": FETCH_SIZE})
            else:
                free = connection.execute(_FREE_FOR_ALL, {"pool_timeout": pool_timeout_ms, "limit": FETCH_SIZE})
            for row in free.mappings().all():
                claimed = connection.execute(_CLAIM, {"id": row["CQ_ID"], "worker": worker, "version": version})
                if claimed.rowcount == 1:
                    return lock_request(connection, row["CQ_ID"])
            return None

        return self._database.run(operation, Repeat.BEFORE_COMMIT)

    def waiting(self, pool_timeout_ms: int = POOL_TIMEOUT_MS) -> list[runs.Waiting]:
        """How many requests wait for a worker of ours, by pool; none where Hive's own workers do it."""
        if self._database.layout().counts_txns:
            return []
        return self._database.read(lambda connection: runs.waiting(connection, pool_timeout_ms))

    def of_worker(self, worker_id: str) -> list[Compaction]:
        """What a worker has claimed and not finished, oldest first."""
        return self._database.read(lambda connection: runs.of_worker(connection, worker_id))

    def open_txns_of(self, worker_id: str) -> list[int]:
        """The open txns in which a worker compacts."""
        return self._database.read(lambda connection: runs.open_txns_of(connection, worker_id))

    def retake(self, request: Compaction, version: str = VERSION) -> Compaction | None:
        """Claim a request again that an earlier attempt of the same worker holds; None when it does not any more."""
        return self._database.run(lambda connection: runs.retake(connection, request, version))

    def give_back(self, request: Compaction, reason: str) -> CompactionState | None:
        """Let another worker take it.

        :return: INITIATED; ABORTED when its cancellation was asked for; None when it is not the worker's any more.
        """
        return self._database.run(lambda connection: runs.give_back(connection, request, reason))

    def cancellation(self, request_id: int) -> str | None:
        """Why a running request shall end; None when nobody wants that."""
        return self._database.read(lambda connection: runs.cancellation(connection, request_id))

    def update_state(
        self,
        request: Compaction,
        *,
        highest_write_id: int,
        txn_id: int,
        run_as: str | None = None,
        partial_result: bool = False,
    ) -> None:
        """Record what a worker compacts up to, and in which txn.

        The txn's component ('c') keeps clean-up after aborts from passing it, should it be aborted.

        :param partial_result: the txn is not the one that finishes the request: its commit must not look like that.
        """

        def operation(connection: Connection) -> None:
            self._require(connection, request, CompactionState.WORKING)
            if not partial_result:
                connection.execute(
                    update(COMPACTION_QUEUE).where(_cq.CQ_ID == request.id)
                    .values(CQ_HIGHEST_WRITE_ID=highest_write_id, CQ_TXN_ID=txn_id, CQ_RUN_AS=info(run_as) or None)
                )  # fmt: skip
            component = {
                "TC_TXNID": txn_id, "TC_DATABASE": request.resource.database, "TC_TABLE": request.resource.table,
                "TC_PARTITION": request.resource.partition, "TC_OPERATION_TYPE": "c", "TC_WRITEID": highest_write_id,
            }  # fmt: skip
            there = select(TXN_COMPONENTS.c.TC_TXNID).where(
                TXN_COMPONENTS.c.TC_TXNID == txn_id, TXN_COMPONENTS.c.TC_OPERATION_TYPE == "c"
            )
            if connection.execute(there).first() is None:  # a repeated call after a lost reply
                connection.execute(insert(TXN_COMPONENTS), component)

        self._database.run(operation)

    def set_job(self, request: Compaction, job_id: str) -> None:
        """Record the application that does the work (CQ_HADOOP_JOB_ID holds 32 characters)."""
        statement = update(COMPACTION_QUEUE).where(_cq.CQ_ID == request.id).values(CQ_HADOOP_JOB_ID=job_id[:32])
        self._database.run(lambda connection: connection.execute(statement))

    def mark_compacted(self, request: Compaction, txn_id: int | None = None) -> None:
        """The work is done and published; the Cleaner may follow once the compaction txn has committed.

        :param txn_id: the txn that did it; a later attempt of the same worker has another one (R5).
        :raises CompactionCancelledError: when its cancellation was asked for; from here on it cannot be any more.
        """

        def operation(connection: Connection) -> None:
            found = lock_request(connection, request.id)
            ours = found is not None and txn_id in (None, found.txn_id)
            if found is not None and ours and found.state is CompactionState.READY_FOR_CLEANING and found.txn_id:
                return  # repeated after a lost reply; nobody else marks a request we hold
            self._require(connection, request, CompactionState.WORKING)
            if not ours:
                raise _taken_up_again(request)
            why = runs.cancellation(connection, request.id)
            if why is not None:
                raise CompactionCancelledError(f"compaction {request.id} of {request.resource} was {why}")
            connection.execute(
                update(COMPACTION_QUEUE).where(_cq.CQ_ID == request.id)
                .values(CQ_STATE=CompactionState.READY_FOR_CLEANING.value, CQ_WORKER_ID=None)
            )  # fmt: skip

        self._database.run(operation)

    def mark_failed(self, request: Compaction, error: str) -> None:
        """The compaction, or its clean-up, is given up.

        :raises NoSuchObjectError: when the request is no longer in the queue.
        """
        self._end(request, CompactionState.FAILED, error)

    def mark_aborted(self, request: Compaction, reason: str) -> None:
        """A running request was cancelled."""
        self._end(request, CompactionState.ABORTED, reason)

    def mark_refused(self, request: Compaction, reason: str) -> None:
        """There was nothing to do, or it cannot be done."""
        self._end(request, CompactionState.REFUSED, reason)

    def did_not_initiate(self, resource: Resource, reason: str, type: CompactionType = CompactionType.MINOR) -> int:
        """Record why the Initiator did not even ask."""
        return self._database.run(
            lambda connection: insert_history(connection, resource, type, CompactionState.DID_NOT_INITIATE, reason),
            Repeat.BEFORE_COMMIT,
        )

    # --- recovering -----------------------------------------------------------------------------------------------

    def requeue_timed_out(self, timeout_ms: int) -> list[int]:
        """Give back requests whose worker has been silent too long, unless their txn is still open (revokeTimedout)."""
        return self._database.run(lambda connection: runs.requeue_timed_out(connection, timeout_ms))

    def requeue_of_dead(self, txn_timeout_ms: int) -> list[int]:
        """Give back requests of Workers of ours that are dead: their txns were aborted after they had fallen silent.

        :param txn_timeout_ms: ``hive.txn.timeout``: who has sent no heartbeat for so long is not at work any more.
        """
        if self._database.layout().counts_txns:
            return []  # its Hive compacts
        return self._database.run(lambda connection: runs.requeue_of_dead(connection, txn_timeout_ms))

    # --- looking --------------------------------------------------------------------------------------------------

    def find_candidates(self, last_checked_ms: int | None = None, limit: int = FETCH_SIZE) -> list[Candidate]:
        """What the Initiator should look at: written since, or compacted in vain; longest waiting first."""
        return self._database.read(
            lambda connection: candidates.find_written(connection, last_checked_ms, now_ms(connection), limit)
        )

    def find_ready_to_clean(self, retention_ms: int = 0, limit: int = FETCH_SIZE, after: int = 0) -> list[Compaction]:
        """Finished compactions that wait for the Cleaner; whether it may begin is decided with its horizon.

        :param after: only requests with larger ids: the next part of them.
        """
        if self._database.layout().counts_txns:
            return []  # its Hive cleans
        return self._database.read(lambda connection: candidates.find_ready(connection, retention_ms, limit, after))

    def find_aborts_to_clean(
        self, count: int = 1000, age_ms: int = 12 * 3_600_000, limit: int = FETCH_SIZE
    ) -> list[AbortedWrites]:
        """Where aborted txns have left more than ``count`` components, or one older than ``age_ms``."""
        if self._database.layout().counts_txns:
            return []  # its Hive compacts them away
        return self._database.read(lambda connection: candidates.find_aborted(connection, count, age_ms, limit))

    def active(self) -> list[Compaction]:
        """Requests that are initiated or being worked on."""
        return self._read_queue(_IN_WORK)

    def active_of(self, resources: Sequence[Resource]) -> dict[Resource, Compaction]:
        """The same for some tables and partitions, of however many."""
        return self._database.read(lambda connection: candidates.find_in_work(connection, resources))

    def get(self, request_id: int) -> Compaction:
        """A request or a finished compaction by its id.

        :raises NoSuchObjectError: when there is none of that id.
        """

        found = self._database.read(lambda connection: candidates.find(connection, request_id))
        if found is None:
            raise NoSuchObjectError(f"there is no compaction with id {request_id}; finished ones are purged over time")
        return found

    def show(
        self,
        *,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        type: CompactionType | None = None,
        state: CompactionState | None = None,
        pool: str | None = None,
        limit: int | None = None,
    ) -> list[Compaction]:
        """Queue and history, newest first, as SHOW COMPACTIONS; ``shown.compactions`` streams them."""
        wanted = CompactionFilter(None, database, table, partition, type, state, pool)
        return self._database.read(lambda connection: list(stream_compactions(connection, wanted, limit=limit)))

    def failed_resources(self) -> set[Resource]:
        """Tables and partitions with a failed compaction in their history."""
        return self._database.read(history.failed_resources)

    def is_failing(self, resource: Resource, threshold: int, retry_ms: int) -> bool:
        """Whether the last ``threshold`` compactions of a table or partition failed, so that it is left alone."""

        def operation(connection: Connection) -> bool:
            newest = history.last_finished(connection, resource, threshold)
            return history.is_failing(newest, threshold, retry_ms, now_ms(connection))

        return self._database.read(operation)

    # --- cleaning -------------------------------------------------------------------------------------------------

    def start_cleaning(self, request: Compaction) -> None:
        """Note since when the Cleaner is at it; for people, exclusivity comes from the Cleaner's mutex."""
        self._set(request, CQ_CLEANER_START=clock_ms())

    def stop_cleaning(self, request: Compaction) -> None:
        """The Cleaner will come back to it, and has removed nothing yet."""
        self._set(request, CQ_CLEANER_START=None)

    def retry_cleaning(self, request: Compaction, error: str, pause_ms: int) -> None:
        """Cleaning failed; the Cleaner waits for ``pause_ms`` from the commit on before it tries again."""
        self._set(request, CQ_CLEANER_START=None, CQ_RETRY_RETENTION=pause_ms, CQ_ERROR_MESSAGE=clean_text(error))

    def mark_cleaned(
        self, request: Compaction, covered: cleaning.Covered = cleaning.Covered.COMPACTED,
        fenced: Collection[int] | None = None,
    ) -> None:  # fmt: skip
        """What the compaction replaced is gone: forget the writes it covered and the aborted ones among them.

        :param fenced: the aborted txns that cannot come back; None: all that the compaction covered.
        :raises NoSuchObjectError: when the request is no longer in the queue, or its table or partition has been
            renamed since it was read: what was looked at by the old name says nothing of it.
        """

        def operation(connection: Connection) -> None:
            found = self._require(connection, request, CompactionState.READY_FOR_CLEANING)
            if found.resource != request.resource:
                raise NoSuchObjectError(
                    f"compaction {request.id} is of {found.resource} by now, which was {request.resource}; nothing of "
                    "it was forgotten, look again"
                )
            cleaning.finish_cleaning(connection, found, covered, fenced)

        self._database.run(operation, Repeat.BEFORE_COMMIT)

    def forget_aborted(self, writes: AbortedWrites, txn_ids: Sequence[int]) -> int:
        """The directories of these aborted txns are gone and fenced: delete their components (R4).

        :return: how many components were deleted.
        """

        return self._database.run(lambda connection: cleaning.forget_aborted(connection, writes, txn_ids))

    def retry_aborted(self, writes: AbortedWrites, error: str, pause_ms: int) -> None:
        """Removing aborted writes failed: remember it in a row of type ABORT_TXN_CLEANUP, with a longer pause."""
        require_hive_4(self._database.layout(), "a clean-up after aborted txns", _LEAVE_IT)

        with self._mutex(SCHEDULER_MUTEX):
            self._database.run(
                lambda connection: cleaning.note_abort_failure(connection, writes.resource, error, pause_ms)
            )

    def purge_history(self, retention: history.Retention | None = None) -> list[history.PurgedCompaction]:
        """Delete what is too much or too old in the history."""
        kept = retention or history.Retention()
        return self._database.run(lambda connection: history.purge(connection, kept, now_ms(connection)))

    # --- inside ---------------------------------------------------------------------------------------------------

    def _require(self, connection: Connection, request: Compaction, state: CompactionState) -> Compaction:
        """The row of a request, locked, if it still is what it was."""
        found = lock_request(connection, request.id)
        if found is None:
            raise NoSuchObjectError(f"No record with CQ_ID={request.id} found in COMPACTION_QUEUE")
        if found.state is not state or (state is CompactionState.WORKING and found.worker_id != request.worker_id):
            raise NoSuchObjectError(
                f"compaction {request.id} of {request.resource} is {found.state.text}"
                + (f" by {found.worker_id}" if found.worker_id else "")
                + f", not {state.text}" + (f" by {request.worker_id}" if request.worker_id else "")
                + ": it was given to somebody else meanwhile"
            )  # fmt: skip
        if state is CompactionState.WORKING and found.start != request.start:
            raise _taken_up_again(request)
        return found

    def _end(self, request: Compaction, state: CompactionState, error: str) -> None:
        def operation(connection: Connection) -> None:
            found = self._require(connection, request, request.state)
            move_to_history(connection, found, state, error)

        self._database.run(operation, Repeat.BEFORE_COMMIT)

    def _set(self, request: Compaction, **values: object) -> None:
        statement = update(COMPACTION_QUEUE).where(_cq.CQ_ID == request.id).values(**values)
        self._database.run(lambda connection: connection.execute(statement))

    def _read_queue(self, statement: Select[Any]) -> list[Compaction]:
        return self._database.read(
            lambda connection: [compaction(row, "CQ") for row in connection.execute(statement).mappings()]
        )


def _taken_up_again(request: Compaction) -> NoSuchObjectError:
    """The error for an attempt after which its worker has begun anew (R5)."""
    return NoSuchObjectError(
        f"compaction {request.id} of {request.resource} was taken up again by a later attempt of its worker"
    )
