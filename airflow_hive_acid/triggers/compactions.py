"""Waiting for a compaction request to be served."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import MetastoreWaitTrigger, QuestionTrigger
from airflow_hive_acid.triggers.questions import Looked, Question, some
from airflow_hive_acid.triggers.shared import shared_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import Compaction


class CompactionFinishedTrigger(MetastoreWaitTrigger):
    """Fires when a compaction request has been served, or will not be.

    :param request_id: id of the request.
    :param cancel_on_kill: requests that are cancelled when somebody kills the waiting task in Airflow.
    :param handed_back: what the task needs to go on; the event carries it.
    :param until: when to give up, seconds since 1970 by the triggerer's clock; None never.
    """

    def __init__(
        self,
        request_id: int,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
        cancel_on_kill: list[int] | None = None,
        handed_back: dict[str, Any] | None = None,
        until: float | None = None,
    ) -> None:
        super().__init__(hive_acid_conn_id, poll_interval)
        self.request_id = request_id
        self.cancel_on_kill = cancel_on_kill
        self.handed_back = handed_back
        self.until = until

    async def let_go(self) -> None:
        """The task was marked as failed, or cleared: nobody waits for what it asked for."""
        if self.cancel_on_kill:
            async with shared_client(self.hive_acid_conn_id) as client:
                await asyncio.to_thread(cancel_requests, client, self.cancel_on_kill)

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once."""
        try:
            outcome = compaction_outcome(client, self.request_id)
        except JobFailedError as error:
            return ended_badly(error)
        if outcome is None and self.until is not None and time.time() >= self.until:
            return ended_badly(not_served(self.request_id))
        return outcome if outcome is None else {**outcome, "handed_back": self.handed_back}

    async def pause(self) -> None:
        """Until the next look; the last one is when the time is over."""
        left = self.poll_interval if self.until is None else self.until - time.time()
        await asyncio.sleep(max(0.0, min(self.poll_interval, left)))


def cancel_requests(client: MetastoreClient, request_ids: Sequence[int]) -> list[str]:
    """Cancel requests whose task was killed.

    :return: what became of each.
    """
    answers = client.compactions.abort(
        request_ids, user=client.user, reason="the task that asked was killed in Airflow"
    )
    return [f"compaction {answer.id}: {answer.message}" for answer in answers]


def not_served(request_id: int) -> JobFailedError:
    """The error of who has waited for a request as long as he wanted."""
    return JobFailedError(
        f"compaction request {request_id} was not served in time (timeout) and stays queued. Is the Worker DAG "
        "hive_acid_worker running?"
    )


def ended_badly(error: JobFailedError) -> dict[str, Any]:
    """The event of a request that failed: asking again, as for errors that pass, would change nothing."""
    return {"status": "error", "type": type(error).__name__, "message": str(error)}


def compaction_outcome(client: MetastoreClient, request_id: int) -> dict[str, Any] | None:
    """How a request ended, None while it waits or is worked on.

    Readers see the result as soon as the request is ready for cleaning; the Cleaner's part is nothing to wait for.

    :raises JobFailedError: when it failed or was refused; says why.
    :raises NoSuchObjectError: when there is no such request, any more.
    """
    from airflow_hive_acid.metastore.compaction import CompactionState

    request = client.compactions.get(request_id)
    if request.state in (CompactionState.INITIATED, CompactionState.WORKING):
        return None
    if request.state in (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED):
        return {"request_id": request.id, "state": request.state.text, "txn_id": request.txn_id}
    raise JobFailedError(
        f"compaction request {request.id} of {request.resource} ended as {request.state.text}: "
        f"{request.error or 'no reason was recorded'}"
    )


@dataclass(frozen=True, slots=True)
class CompactionsQuestion(Question):
    """Have requests ended well, or is nothing of a table or partition compacted any more?"""

    request_ids: tuple[int, ...] | None = None
    table: str | None = None
    partition: str | None = None

    def ask(self, client: MetastoreClient) -> Looked:
        """Look once."""
        try:
            return look_at_compactions(client, self.request_ids, self.table, self.partition)
        except JobFailedError as error:
            return Looked(False, failed=str(error))


class CompactionWaitTrigger(QuestionTrigger):
    """Fires when a request has ended, or nothing of a table is compacted any more, or when the time is over.

    :param request_id: id of the request, or those of several.
    :param table: ``db.table`` instead.
    :param partition: partition name; None for all of them.
    """

    def __init__(
        self,
        until: float | None,
        request_id: int | list[int] | None = None,
        table: str | None = None,
        partition: str | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
    ) -> None:
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.request_id = request_id
        self.table = table
        self.partition = partition

    def question(self) -> Question:
        """What is waited for."""
        ids = [self.request_id] if isinstance(self.request_id, int) else self.request_id
        return CompactionsQuestion(None if ids is None else tuple(ids), self.table, self.partition)


def look_at_compactions(
    client: MetastoreClient, request_ids: Sequence[int] | None, table: str | None, partition: str | None
) -> Looked:
    """Whether requests have ended well, or nothing of a table or partition waits or runs.

    :raises InvalidArgumentsError: unless either requests or a table are named.
    :raises JobFailedError: when a request failed, was refused or aborted; says why.
    """
    from airflow_hive_acid.metastore.compaction import CompactionState

    if (request_ids is None) == (not table):
        raise InvalidArgumentsError("name what to wait for: either a request_id, or a table as db.table")
    if request_ids is not None:
        outcomes = {request_id: compaction_outcome(client, request_id) for request_id in request_ids}
        ended = [outcome for outcome in outcomes.values() if outcome is not None]
        if len(ended) == len(outcomes):
            return Looked(True, answer=ended[0] if len(ended) == 1 else {"requests": ended})
        waiting = [client.compactions.get(request_id) for request_id, found in outcomes.items() if found is None]
        return Looked(False, f"waiting for {some([_described(request) for request in waiting])}")
    database, _, name = str(table).lower().partition(".")
    if not name:
        raise InvalidArgumentsError(f"table {table!r} must be given as db.table")
    client.cache.table(f"{database}.{name}")
    active = [
        request
        for state in (CompactionState.WORKING, CompactionState.INITIATED)
        for request in client.compactions.show(database=database, table=name, partition=partition, state=state)
    ]
    if not active:
        return Looked(True)
    return Looked(False, f"waiting for {some([_described(request) for request in active])}")


def _described(request: Compaction) -> str:
    from airflow_hive_acid.metastore.leases import utc  # not needed to defer

    who = f" by {request.worker_id}" if request.worker_id else "; is the Worker DAG hive_acid_worker running?"
    then = request.start or request.enqueue_time
    when = f" since {utc(then)}" if then else ""
    return (
        f"compaction {request.id} ({request.type.name}) of {request.resource}, which is {request.state.text}{when}{who}"
    )
