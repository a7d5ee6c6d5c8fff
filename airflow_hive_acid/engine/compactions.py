"""Compactions on request: ALTER TABLE … COMPACT, and the Worker with this engine's Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.metastore.compaction_queue_model import CompactionState, CompactionType

if TYPE_CHECKING:
    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.maintenance.decisions import CompactionOutcome
    from airflow_hive_acid.sql.alterations import Compact

#: States in which a request still has work before it.
_WAITING = (CompactionState.INITIATED, CompactionState.WORKING)


def run_compactions(context: Context, worker_id: str, limit: int | None = None) -> list[CompactionOutcome]:
    """Run compactions that wait in the queue; Spark is started with the first that needs it."""
    from airflow_hive_acid.maintenance.worker import run_worker

    def run_job(spec: JobSpec) -> JobResult:
        return context.application.ready().run(spec)

    return run_worker(context.client, AnyFilesystem(), run_job, worker_id, limit)


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
    while context.client.compactions.get(answer.id).state in _WAITING:
        if not run_compactions(context, f"{context.agent_info}-wait", limit=1):
            break
    done = context.client.compactions.get(answer.id)
    if done.state not in (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED):
        raise JobFailedError(f"compaction {answer.id} of {table.qualified_name} {done.state.text}: {done.error}")
