"""Compactions on request: ALTER TABLE … COMPACT, and the Worker with this engine's Spark application."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.outcomes.events import CompactionAsked
from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance.initiator.by_hand import Wanted, ask
from airflow_hive_acid.maintenance.worker.jobs import Application
from airflow_hive_acid.maintenance.worker.runner import JobRunner
from airflow_hive_acid.maintenance.worker.worker import run_worker, worker_name
from airflow_hive_acid.metastore.compaction import CompactionState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.maintenance.decisions import CompactionOutcome
    from airflow_hive_acid.maintenance.initiator.by_hand import Asked
    from airflow_hive_acid.sql.model.alterations import Compact

_PAUSE_SECONDS = 1.0
#: The columns of the answer to ALTER TABLE … COMPACT; names as in SHOW COMPACTIONS where that has them.
_ANSWER = tuple(
    Column(name, type_)
    for name, type_ in (
        ("dbname", "string"), ("tabname", "string"), ("partname", "string"), ("type", "string"),
        ("compactionid", "bigint"), ("state", "string"), ("accepted", "boolean"), ("reason", "string"),
    )
)  # fmt: skip
#: States in which a request still has work before it.
_WAITING = (CompactionState.INITIATED, CompactionState.WORKING)


def run_compactions(
    context: Context, worker_id: str, limit: int | None = None, *, pool: str | None = None
) -> list[CompactionOutcome]:
    """Run compactions that wait in the queue, in one Spark application as long as they ask for the same kind.

    Starting Spark costs more than most compactions, and a worker does one request at a time anyway: sharing can only be
    faster. A request with a queue, memory or a user of its own gets an application of its own. Spark is started with
    the first request that has something to merge.
    """
    wanted = Application()

    def prepare(application: Application) -> str | None:
        nonlocal wanted
        wanted = application
        return context.application.ready(wanted).application_id

    def run_job(spec: JobSpec) -> JobResult:
        return context.application.ready(wanted).run(spec)

    runner = JobRunner(run_job, prepare, context.application.stop)
    return run_worker(context.client, AnyFilesystem(), runner, worker_id, limit, pool=pool)


def request_compaction(context: Context, statement: Compact) -> Rows:
    """Put a request into the queue; with AND WAIT, work on the queue until it has been served.

    Without a partition, a partitioned table is compacted where the Initiator's rules say so; what was asked for and
    what was left alone is told as events, too. A request that is there already counts as this one.

    :return: for the table, or for each of its partitions: the request with its state, or why there is none.
    :raises InvalidArgumentsError: when it cannot be meant.
    :raises JobFailedError: AND WAIT: when a compaction failed or was refused.
    """
    wanted = Wanted(
        str(statement.table), dict(statement.partition) or None, statement.type, statement.properties, statement.pool,
        statement.buckets, statement.order_by,
    )  # fmt: skip
    answers = ask(context.client, context.filesystem, wanted)
    for answer in answers:
        context.emit(CompactionAsked(answer.resource, answer.request_id, answer.accepted, str(answer)))
    ended = _serve(context, answers, statement.pool) if statement.wait else {}
    return Rows(_ANSWER, [_row(answer, ended.get(answer.request_id or 0)) for answer in answers])


def _row(answer: Asked, ended: str | None) -> list[Any]:
    """What became of a wish, by the columns of ``_ANSWER``.

    :param ended: the state in which its request ended, if it was waited for.
    """
    where = answer.resource
    return [
        where.database, where.table, where.partition, answer.type or None, answer.request_id,
        ended or answer.state or None, answer.accepted, answer.message or None,
    ]  # fmt: skip


def _serve(context: Context, answers: Sequence[Asked], pool: str | None) -> dict[int, str]:
    """Work on the queue until these requests have been served, by us or by others.

    :return: the state of each.
    """
    # Somebody else may wait under the same agent information; no two workers share an id.
    waiter = worker_name(f"wait-{uuid.uuid4()}")
    queue = context.client.compactions
    ended = {}
    for request_id in [answer.request_id for answer in answers if answer.request_id is not None]:
        while (request := queue.get(request_id)).state in _WAITING:
            if not run_compactions(context, waiter, limit=1, pool=pool or request.pool):
                time.sleep(_PAUSE_SECONDS)  # another worker has it, or one of its pool will
        if request.state not in (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED):
            raise JobFailedError(f"compaction {request_id} of {request.resource} {request.state.text}: {request.error}")
        ended[request_id] = request.state.text
    return ended
