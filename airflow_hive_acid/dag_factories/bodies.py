"""Bodies of the maintenance tasks: they call :mod:`airflow_hive_acid.maintenance` and log what was decided and why.

Apart from the factories, so that a DAG file that is only parsed imports none of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.maintenance.decisions import CleaningOutcome, CompactionOutcome, Decision

log = logging.getLogger(__name__)

#: So many failures are told in the error; all of them are in the log.
_SHOWN = 5


def initiate(conn_id: str) -> list[Decision]:
    """Queue compaction where it is needed.

    :return: the decisions that led to a request.
    """
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.decisions import Kind
    from airflow_hive_acid.maintenance.initiator import run_initiator

    with HiveAcidHook(conn_id) as hook:
        decisions = run_initiator(hook.get_conn(), hook.get_filesystem())
    _tell(decisions)
    return [decision for decision in decisions if decision.kind in (Kind.MAJOR, Kind.MINOR)]


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
        threads = hook.settings.integer("hive.compactor.worker.threads")
        workers = len(hook.get_conn().compactions.show(state=CompactionState.INITIATED, limit=threads))
    log.info("%d of at most %d workers start for the requests that wait for compaction", workers, threads)
    return list(range(1, workers + 1))


def compact(conn_id: str, worker_id: str, limit: int | None = None) -> list[CompactionOutcome]:
    """Serve compaction requests with one Spark application until none is left.

    :param limit: so many requests at most.
    :return: what became of each.
    :raises AirflowFailException: when a request failed; the others have been served.
    """
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.decisions import Kind

    with HiveAcidHook(conn_id) as hook, hook.get_engine(agent_info=worker_id) as engine:
        outcomes = engine.run_compactions(worker_id, limit)
    failed = [outcome for outcome in outcomes if outcome.kind is Kind.FAILED]
    if failed:
        shown = "\n".join(f"  {outcome}" for outcome in failed[:_SHOWN])
        raise AirflowFailException(f"{len(failed)} of {len(outcomes)} compactions failed, the first are\n{shown}")
    return outcomes


def clean(conn_id: str) -> list[CleaningOutcome]:
    """Remove what compaction has replaced and what aborted txns have left, where no reader needs it.

    :return: what was done about each finished compaction and each place with aborted writes.
    """
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.cleaner import run_cleaner

    with HiveAcidHook(conn_id) as hook:
        outcomes = run_cleaner(hook.get_conn(), hook.get_filesystem())
    _tell(outcomes)
    return outcomes


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
