"""Bodies of the maintenance tasks: they call :mod:`airflow_hive_acid.maintenance` and log what was decided and why.

Apart from the factories, so that a DAG file that is only parsed imports none of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_hive_acid.airflow_versions import AirflowFailException, AirflowSkipException
from airflow_hive_acid.hooks import stats

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

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
    from airflow_hive_acid.maintenance.initiator.initiator import look_once

    requests: list[Decision] = []
    with HiveAcidHook(conn_id) as hook, stats.cycle("initiator", conn_id):
        for step in look_once(hook.get_conn(), hook.get_filesystem()):
            _tell(step)
            requests += [decision for decision in step if decision.kind in (Kind.MAJOR, Kind.MINOR)]
    return requests


def skip_unless(number: int, reason: str) -> None:
    """Skip the task, and with it the news it would send.

    :raises AirflowSkipException: when the number is 0.
    """
    if not number:
        raise AirflowSkipException(reason)


def report_failures(done: Iterable[Iterable[Mapping[str, Any]]]) -> int:
    """Fail when requests failed; the others have been served.

    :param done: what the workers of each pool returned.
    :return: how many requests were served.
    :raises AirflowFailException: naming the first failures; all of them are in the queue's history.
    """
    results = [result for pool in done for result in pool]
    served = sum(int(result["served"]) for result in results)
    failed = [text for result in results for text in result["failed"]]
    if failed:
        shown = "\n".join(f"  {text}" for text in failed[:_SHOWN])
        raise AirflowFailException(f"{len(failed)} of {served} compactions failed, the first are\n{shown}")
    return served


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
    stats.tell_compactions(outcomes, conn_id)
    failed = [str(outcome) for outcome in outcomes if outcome.kind is Kind.FAILED]
    report_failures([[{"served": len(outcomes), "failed": failed}]])
    return outcomes


def clean(conn_id: str) -> list[CleaningOutcome]:
    """Remove what compaction has replaced and what aborted txns have left, where no reader needs it.

    :return: what was done about each finished compaction and each place with aborted writes.
    """
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner

    with HiveAcidHook(conn_id) as hook, stats.cycle("cleaner", conn_id):
        outcomes = run_cleaner(hook.get_conn(), hook.get_filesystem())
    stats.tell_cleaning(outcomes, conn_id)
    _tell(outcomes)
    return outcomes


def reap(conn_id: str) -> None:
    """Abort txns and release locks whose heartbeat has stopped."""
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.reaper.reaper import run_reaper

    with HiveAcidHook(conn_id) as hook, stats.cycle("reaper", conn_id):
        report = run_reaper(hook.get_conn(), hook.get_filesystem())
    stats.count("total_num_timed_out_transactions", conn_id, len(report.aborted))
    stats.count("expired_locks", conn_id, report.expired_locks)
    _tell([report])


def measure(conn_id: str) -> list[str]:
    """Send the metastore's metrics to Airflow's, and say what is beyond a threshold.

    :return: the warnings and errors, with what to do.
    """
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.measures.health import findings, read_health

    with HiveAcidHook(conn_id) as hook:
        readings = read_health(hook.get_conn())
    stats.tell_health(readings, conn_id)
    return [str(reading) for reading in findings(readings)]


def purge_history(conn_id: str) -> None:
    """Forget old compactions, as many as the retention settings allow."""
    from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
    from airflow_hive_acid.maintenance.reaper.history import run_history_purge

    with HiveAcidHook(conn_id) as hook:
        _tell([run_history_purge(hook.get_conn())])


def _tell(decisions: Iterable[object]) -> None:
    for decision in decisions:
        log.info("%s", decision)
