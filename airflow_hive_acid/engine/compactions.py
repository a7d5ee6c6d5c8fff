"""Compactions on request: ALTER TABLE … COMPACT, and the Worker with this engine's Spark application."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.maintenance.worker import run_worker, worker_name
from airflow_hive_acid.maintenance.worker_jobs import Application
from airflow_hive_acid.maintenance.worker_request import JobRunner
from airflow_hive_acid.metastore.compaction_queue_model import CompactionState, CompactionType

if TYPE_CHECKING:
    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.maintenance.decisions import CompactionOutcome
    from airflow_hive_acid.sql.alterations import Compact

_PAUSE_SECONDS = 1.0
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


def request_compaction(context: Context, statement: Compact) -> None:
    """Put a request into the queue; with AND WAIT, work on the queue until it has been served.

    :raises InvalidArgumentsError: when the queue does not accept it.
    :raises JobFailedError: AND WAIT: when the compaction failed or was refused.
    """
    table = context.table(str(statement.table))
    partition = partition_name(statement.partition) if statement.partition else None
    if table.is_partitioned and partition is None:
        raise InvalidArgumentsError(
            f"{table.qualified_name} is partitioned; say which partition: ALTER TABLE {table.qualified_name} "
            "PARTITION (…) COMPACT"
        )
    kind = CompactionType[statement.type.upper()]
    full_acid = table.is_transactional and not table.is_insert_only
    if kind is CompactionType.REBALANCE and (table.bucket_count > 0 or not full_acid):
        raise InvalidArgumentsError(
            f"{table.qualified_name} cannot be rebalanced: only full ACID tables without CLUSTERED BY can, because "
            "rows of a bucketed table have their places"
        )
    answer = context.client.compactions.enqueue(
        table.qualified_name,
        partition,
        kind,
        properties=statement.properties or None,
        pool=statement.pool,
        number_of_buckets=statement.buckets,
        order_by=statement.order_by,
    )
    if not answer.accepted:
        raise InvalidArgumentsError(f"{table.qualified_name}: {answer.message}")
    if not statement.wait:
        return
    # Somebody else may wait under the same agent information; no two workers share an id.
    waiter = worker_name(f"wait-{uuid.uuid4()}")
    while context.client.compactions.get(answer.id).state in _WAITING:
        if not run_compactions(context, waiter, limit=1, pool=statement.pool):
            time.sleep(_PAUSE_SECONDS)  # another worker has it, or one of its pool will
    done = context.client.compactions.get(answer.id)
    if done.state not in (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED):
        raise JobFailedError(f"compaction {answer.id} of {table.qualified_name} {done.state.text}: {done.error}")
