"""Builders of the maintenance DAGs: Initiator, Worker, Cleaner, reaper and history purge.

Each DAG is one of Hive's background threads. Nothing is decided here: the bodies call
:mod:`airflow_hive_acid.maintenance` and log the decisions with their reasons. One run at a time, no catching up.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, Param, task

from airflow_hive_acid.airflow_versions import conf
from airflow_hive_acid.dag_factories import bodies
from airflow_hive_acid.dag_factories.schedules import (
    SHORTEST_WAIT,
    WAITING_RUN,
    ScheduleRule,
    airflow_pool,
    timetable,
    timetable_or_assets,
    wait_of,
)
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID, SECTION, worker_pools
from airflow_hive_acid.operators.worker import (
    CLEANED,
    HiveAcidCleanOperator,
    HiveAcidCompactionWorkerOperator,
    HiveAcidPlanWorkersOperator,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

#: News of this asset: the Initiator has put requests into the compaction queue.
COMPACTION_REQUESTS = Asset(name="hive_acid_compaction_requests", uri="x-hive-acid://compaction-requests")
#: News of this asset: the Worker has served requests; more may have come meanwhile.
WORKER_SERVED = Asset(name="hive_acid_worker_served", uri="x-hive-acid://worker-served")

_CONN = "{{ params.hive_acid_conn_id }}"
_WAIT = "{{ params.wait_seconds }}"


def initiator_dag() -> DAG:
    """Looks for tables and partitions that need compaction and queues them."""
    with _dag("hive_acid_initiator", ScheduleRule("initiator_schedule", "hive.compactor.check.interval")) as dag:
        dag.doc_md = initiator_dag.__doc__

        @task
        def initiate(conn_id: str) -> int:
            return len(bodies.initiate(conn_id))

        @task(outlets=[COMPACTION_REQUESTS])
        def announce(requests: Any) -> None:
            bodies.skip_unless(requests, "no table needs compaction")

        announce(initiate(_CONN))
    return dag


def worker_dag() -> DAG:
    """Serves the compaction queue: one mapped task is one worker, which serves one request after the other.

    A run waits until requests are queued, by whomever, serves them and ends; runs that served something are followed by
    another one at once. Requests of a compaction pool with ``hive.compactor.worker.<pool>.threads`` have workers of
    their own.
    """
    rule = ScheduleRule("worker_schedule", "hive.compactor.check.interval", waits=SHORTEST_WAIT)
    requests = conf.getint(SECTION, "worker_requests_per_task", fallback=50)
    pools = worker_pools()
    with _dag("hive_acid_worker", rule, assets=(COMPACTION_REQUESTS, WORKER_SERVED), wait=wait_of(rule)) as dag:
        dag.doc_md = worker_dag.__doc__
        plan = HiveAcidPlanWorkersOperator(task_id="plan", pools=pools, wait_seconds=_WAIT, hive_acid_conn_id=_CONN)

        @task(outlets=[WORKER_SERVED], trigger_rule="none_failed_min_one_success", retries=0)
        def report(done: Any) -> int:
            # In a task of its own: a failed task's events are lost, and the others were committed.
            return bodies.report_failures(done)

        done = []
        for pool in (None, *pools):
            planned = plan
            if pool is not None:
                planned = HiveAcidPlanWorkersOperator(
                    task_id=f"plan_{pool}", pools=pools, compaction_pool=pool, hive_acid_conn_id=_CONN
                )
                plan >> planned
            workers = HiveAcidCompactionWorkerOperator.partial(
                task_id="compact" if pool is None else f"compact_{pool}",
                pool=airflow_pool(pool),
                compaction_pool=pool,
                requests=requests,
                hive_acid_conn_id=_CONN,
                map_index_template="{{ 'worker ' ~ task.worker }}",
                execution_timeout=None,
            ).expand(worker=planned.output)
            done.append(workers.output)
        report(done)
    return dag


def cleaner_dag() -> DAG:
    """Removes the files that compaction has replaced, once no reader needs them any more.

    A run waits until there is something to remove, removes it and ends; one that removed something is followed by
    another one at once.
    """
    rule = ScheduleRule("cleaner_schedule", "hive.compactor.cleaner.run.interval", waits=WAITING_RUN)
    with _dag("hive_acid_cleaner", rule, assets=(CLEANED,), wait=wait_of(rule)) as dag:
        dag.doc_md = cleaner_dag.__doc__
        HiveAcidCleanOperator(task_id="clean", wait_seconds=_WAIT, hive_acid_conn_id=_CONN)
    return dag


def reaper_dag() -> DAG:
    """Aborts txns whose heartbeat has stopped, and releases their locks.

    Beside that it measures the metastore: metrics for Airflow's backend, and advice in the log of ``measure``.
    """
    rule = ScheduleRule("reaper_schedule", "hive.timedout.txn.reaper.interval")
    with _dag("hive_acid_reaper", rule) as dag:
        dag.doc_md = reaper_dag.__doc__
        task(task_id="reap")(bodies.reap)(_CONN)
        # Not behind the other: as the last task of a run it would hide that one's failure. The next run measures anew.
        task(task_id="measure", retries=0)(bodies.measure)(_CONN)
    return dag


def history_purge_dag() -> DAG:
    """Forgets old compactions, as many as the retention settings allow."""
    rule = ScheduleRule("history_purge_schedule", "hive.compactor.history.reaper.interval")
    with _dag("hive_acid_compaction_history_purge", rule) as dag:
        dag.doc_md = history_purge_dag.__doc__
        task(task_id="purge")(bodies.purge_history)(_CONN)
    return dag


def _dag(dag_id: str, rule: ScheduleRule, assets: Sequence[Asset] = (), wait: float | None = None) -> DAG:
    params = {
        "hive_acid_conn_id": Param(
            conf.get(SECTION, "conn_id", fallback=DEFAULT_CONN_ID),
            type="string",
            description="Connection of type hive_acid to work on.",
        )
    }
    if wait is not None:
        params["wait_seconds"] = Param(
            wait, type="number", minimum=0, description="How long to wait for something to do; 0: look once."
        )
    return DAG(
        dag_id,
        schedule=timetable_or_assets(rule, assets) if assets else timetable(rule),
        catchup=False,
        max_active_runs=1,
        tags=["hive-acid"],
        default_args={"owner": "hive-acid", "retries": 2, "retry_delay": timedelta(seconds=30)},
        params=params,
    )
