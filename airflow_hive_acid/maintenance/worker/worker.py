"""The Worker: claims compaction requests and has Spark do them, one after the other (Hive's Worker).

What is done about one request is in ``worker_request``. A worker's id is its identity across attempts: what an earlier
attempt of the same worker left is fenced, its txns are aborted (R4, R5), and its requests are taken up again at once.
Those of a worker that does not come back the Initiator gives back. Nothing is claimed before it is worked on.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.maintenance.warehouse.fences import fence_jobs_of
from airflow_hive_acid.maintenance.worker.request import Work
from airflow_hive_acid.maintenance.worker.runner import JobRunner
from airflow_hive_acid.metastore.compaction import CompactionState
from airflow_hive_acid.metastore.database import AbortReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.maintenance.decisions import CompactionOutcome
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import Compaction

log = logging.getLogger(__name__)

_ID_LENGTH = 90
"""Characters of a worker id: a txn names its request beside it in 128."""


def worker_name(text: str) -> str:
    """A worker id (CQ_WORKER_ID) that no Hive takes for its own.

    A metastore service that starts gives back what workers hold whose ids begin with its host name; no host name begins
    with ``@``.

    :param text: what makes the worker this one and no other; at most 89 characters.
    """
    return f"@{text}"[:_ID_LENGTH]


def run_worker(
    client: MetastoreClient,
    filesystem: Filesystem,
    run_job: JobRunner | Callable[[JobSpec], JobResult],
    worker_id: str,
    limit: int | None = None,
    *,
    pool: str | None = None,
) -> list[CompactionOutcome]:
    """Work on the queue until nothing waits in it.

    :param run_job: runs a job spec in a Spark application and returns its result.
    :param worker_id: who works; shown by SHOW COMPACTIONS. No two workers may have the same at the same time.
    :param limit: at most so many requests; None for all.
    :param pool: only requests of this compaction pool; without it those of none, and those whose pool lets them wait
        for longer than ``hive.compactor.worker.pool.timeout``.
    """
    runner = run_job if isinstance(run_job, JobRunner) else JobRunner(run_job)
    outcomes: list[CompactionOutcome] = []
    for request in _requests(client, filesystem, worker_id, pool):
        outcomes.append(compact(client, filesystem, runner, request))
        log.info("%s", outcomes[-1])
        if limit is not None and len(outcomes) >= limit:
            break
    return outcomes


def _requests(
    client: MetastoreClient, filesystem: Filesystem, worker_id: str, pool: str | None
) -> Iterator[Compaction]:
    """First what an earlier attempt of this worker has left, then what waits; each is ours when it is handed out."""
    for left in end_attempts(client, filesystem, worker_id, "a later attempt of its worker has begun"):
        again = client.compactions.retake(left)
        if again is not None:
            log.info("compaction %d of %s is taken up again", again.id, again.resource)
            yield again
    timeout = client.settings.milliseconds("hive.compactor.worker.pool.timeout")
    while (request := client.compactions.claim(worker_id, pool=pool, pool_timeout_ms=timeout)) is not None:
        yield request


def compact(
    client: MetastoreClient, filesystem: Filesystem, runner: JobRunner, request: Compaction
) -> CompactionOutcome:
    """Do what a claimed request asks for; never raises for what is wrong with the table or the job."""
    started = time.monotonic()
    outcome = Work(client, filesystem, runner, request).outcome()
    return replace(outcome, seconds=round(time.monotonic() - started, 3))


def end_attempts(client: MetastoreClient, filesystem: Filesystem, worker_id: str, why: str) -> list[Compaction]:
    """End what a worker was doing when it died or was killed: fence its jobs, abort its txns (R4).

    :return: the requests it holds, which nobody works on any more.
    """
    held = client.compactions.of_worker(worker_id)
    # One that was marked compacted has no worker any more; its txn still says whose it is.
    txns = client.compactions.open_txns_of(worker_id)
    recorded = [request.txn_id for request in held if request.txn_id is not None]
    fence_jobs_of(client, filesystem, dict.fromkeys([*txns, *recorded]), why)
    for txn_id in txns:
        client.heartbeats.remove(txn_id)
        try:
            client.abort_txn(txn_id, AbortReason.COMPACTION)
        except HiveAcidError as problem:
            log.warning("compaction txn %d could not be aborted and will time out: %s", txn_id, problem)
    return held


def release_worker(client: MetastoreClient, filesystem: Filesystem, worker_id: str, why: str) -> dict[int, str]:
    """What a worker that is killed does last: nothing of it stays open, and its requests go back into the queue.

    :param why: kept with a request that had been cancelled meanwhile.
    :return: what became of each request it held.
    """
    said: dict[int, str] = {}
    for request in end_attempts(client, filesystem, worker_id, why):
        state = client.compactions.give_back(request, why)
        if state is not None:
            said[request.id] = "back in the queue" if state is CompactionState.INITIATED else state.text
    return said
