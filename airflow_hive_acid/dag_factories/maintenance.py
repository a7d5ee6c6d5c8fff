"""Builders of the maintenance DAGs: Initiator, Worker, Cleaner, reaper and history purge.

Each DAG is one of Hive's background threads. Nothing is decided here: the bodies call
:mod:`airflow_hive_acid.maintenance` and log the decisions with their reasons. One run at a time, no catching up.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, Param, conf, task

from airflow_hive_acid.dag_factories import bodies
from airflow_hive_acid.dag_factories.schedules import ScheduleRule, timetable, timetable_or_asset
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID, SECTION
from airflow_hive_acid.hooks.tasks import worker_id

#: News of this asset: the Initiator has put requests into the compaction queue.
COMPACTION_REQUESTS = Asset(name="hive_acid_compaction_requests", uri="x-hive-acid://compaction-requests")

_CONN = "{{ params.hive_acid_conn_id }}"


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
    """Serves the compaction queue: one task is one Spark application and serves one request after the other."""
    rule = ScheduleRule("worker_schedule", "hive.compactor.check.interval")
    requests = conf.getint(SECTION, "worker_requests_per_task", fallback=50)
    with _dag("hive_acid_worker", rule, asset=COMPACTION_REQUESTS) as dag:
        dag.doc_md = worker_dag.__doc__

        @task
        def plan(conn_id: str) -> list[int]:
            return bodies.plan_workers(conn_id)

        @task(
            pool=conf.get(SECTION, "compaction_pool", fallback="default_pool"),
            map_index_template="{{ 'worker ' ~ task.op_kwargs['worker'] }}",
            execution_timeout=None,
        )
        def compact(worker: int, conn_id: str, **context: Any) -> int:
            # A request is claimed here, not in plan(): one that is claimed and never run would wait for a day.
            return len(bodies.compact(conn_id, worker_id(context), requests))

        compact.partial(conn_id=_CONN).expand(worker=plan(_CONN))
    return dag


def cleaner_dag() -> DAG:
    """Removes the files that compaction has replaced, once no reader needs them any more."""
    rule = ScheduleRule("cleaner_schedule", "hive.compactor.cleaner.run.interval")
    return _single_task_dag("hive_acid_cleaner", rule, "clean", _clean, cleaner_dag.__doc__)


def reaper_dag() -> DAG:
    """Aborts txns whose heartbeat has stopped, and releases their locks."""
    rule = ScheduleRule("reaper_schedule", "hive.timedout.txn.reaper.interval")
    return _single_task_dag("hive_acid_reaper", rule, "reap", bodies.reap, reaper_dag.__doc__)


def history_purge_dag() -> DAG:
    """Forgets old compactions, as many as the retention settings allow."""
    rule = ScheduleRule("history_purge_schedule", "hive.compactor.history.reaper.interval")
    return _single_task_dag(
        "hive_acid_compaction_history_purge", rule, "purge", bodies.purge_history, history_purge_dag.__doc__
    )


def _clean(conn_id: str) -> int:
    return sum(len(outcome.removed) for outcome in bodies.clean(conn_id))


def _single_task_dag(dag_id: str, rule: ScheduleRule, task_id: str, body: Any, doc: str | None) -> DAG:
    with _dag(dag_id, rule) as dag:
        dag.doc_md = doc
        task(task_id=task_id)(body)(_CONN)
    return dag


def _dag(dag_id: str, rule: ScheduleRule, asset: Asset | None = None) -> DAG:
    return DAG(
        dag_id,
        schedule=timetable(rule) if asset is None else timetable_or_asset(rule, asset),
        catchup=False,
        max_active_runs=1,
        tags=["hive-acid"],
        default_args={"owner": "hive-acid", "retries": 2, "retry_delay": timedelta(seconds=30)},
        params={
            "hive_acid_conn_id": Param(
                conf.get(SECTION, "conn_id", fallback=DEFAULT_CONN_ID),
                type="string",
                description="Connection of type hive_acid to work on.",
            )
        },
    )
