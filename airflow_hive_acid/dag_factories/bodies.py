"""Bodies of the maintenance tasks: they call :mod:`airflow_hive_acid.maintenance` and log what was decided and why.

Apart from the factories, so that a DAG file that is only parsed imports none of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logging.getLogger(__name__)


def initiate(conn_id: str) -> int:
    """Queue compaction where it is needed.

    :return: number of requests put into the queue.
    """
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.decisions import Kind
    from airflow_hive_acid.maintenance.initiator import run_initiator

    with HiveAcidHook(conn_id) as hook:
        decisions = run_initiator(hook.get_conn(), hook.get_filesystem())
    _tell(decisions)
    return sum(decision.kind in (Kind.MAJOR, Kind.MINOR) for decision in decisions)


def skip_unless(number: int, reason: str) -> None:
    """Skip the task, and with it the news it would send.

    :raises AirflowSkipException: when the number is 0.
    """
    if not number:
        raise AirflowSkipException(reason)


def plan_workers(conn_id: str) -> list[int]:
    """How many Worker tasks to start: no more than there are requests and than ``hive.compactor.worker.threads``.

    :return: a number for each.
    """
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.metastore.compaction_queue_model import CompactionState

    with HiveAcidHook(conn_id) as hook:
        waiting = len(hook.get_conn().compactions.show(state=CompactionState.INITIATED))
        threads = hook.settings.integer("hive.compactor.worker.threads")
    workers = min(waiting, threads)
    log.info("%d requests wait for compaction; %d of at most %d workers start", waiting, workers, threads)
    return list(range(1, workers + 1))


def compact(conn_id: str, worker_id: str, limit: int | None = None) -> dict[str, int]:
    """Serve compaction requests with one Spark application until none is left.

    :param limit: so many requests at most.
    :return: number of requests by how they ended.
    :raises AirflowFailException: when a request failed; the others have been served.
    """
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.decisions import Kind

    with HiveAcidHook(conn_id) as hook, hook.get_engine(agent_info=worker_id) as engine:
        outcomes = engine.run_compactions(worker_id, limit)
    counts: dict[str, int] = {}
    for outcome in outcomes:
        counts[outcome.kind.value] = counts.get(outcome.kind.value, 0) + 1
    failed = [outcome for outcome in outcomes if outcome.kind is Kind.FAILED]
    if failed:
        raise AirflowFailException("\n".join(["compactions failed:", *(f"  {outcome}" for outcome in failed)]))
    return counts


def clean(conn_id: str) -> int:
    """Remove what compaction has replaced and what aborted txns have left, where no reader needs it.

    :return: number of directories and files removed.
    """
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.cleaner import run_cleaner

    with HiveAcidHook(conn_id) as hook:
        outcomes = run_cleaner(hook.get_conn(), hook.get_filesystem())
    _tell(outcomes)
    return sum(len(outcome.removed) for outcome in outcomes)


def reap(conn_id: str) -> None:
    """Abort txns and release locks whose heartbeat has stopped."""
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.reaper import run_reaper

    with HiveAcidHook(conn_id) as hook:
        _tell([run_reaper(hook.get_conn(), hook.get_filesystem())])


def purge_history(conn_id: str) -> None:
    """Forget old compactions, as many as the retention settings allow."""
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.history import run_history_purge

    with HiveAcidHook(conn_id) as hook:
        _tell([run_history_purge(hook.get_conn())])


def _tell(decisions: Iterable[object]) -> None:
    for decision in decisions:
        log.info("%s", decision)
