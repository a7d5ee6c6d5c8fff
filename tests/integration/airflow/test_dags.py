"""The DAGs of dags/: all load, none does two things at once, and the maintenance DAGs run on an empty metastore."""

from __future__ import annotations

import ast
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.airflow_versions import AssetOrTimeSchedule, interval_of
from airflow_hive_acid.resources import dags_folder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.airflow

MAINTENANCE = {
    "hive_acid_initiator": timedelta(seconds=300),
    "hive_acid_worker": None,
    "hive_acid_cleaner": None,
    "hive_acid_reaper": timedelta(seconds=180),
    "hive_acid_compaction_history_purge": timedelta(seconds=120),
}


def test_all_dags_load_and_are_the_documented_ones(dags):
    assert set(dags) == {*MAINTENANCE, "hive_acid_demo", "hive_acid_replication"}


@pytest.mark.parametrize("dag_id", [*MAINTENANCE, "hive_acid_demo", "hive_acid_replication"])
def test_every_dag_runs_once_at_a_time_and_never_catches_up(dags, dag_id):
    dag = dags[dag_id]
    assert dag.max_active_runs == 1
    assert dag.catchup is False
    assert "hive-acid" in dag.tags
    assert dag.doc_md


@pytest.mark.parametrize(("dag_id", "interval"), [(d, i) for d, i in MAINTENANCE.items() if i])
def test_schedules_are_the_intervals_of_hives_settings(dags, dag_id, interval):
    assert interval_of(dags[dag_id].timetable) == interval


def test_worker_runs_on_news_of_the_initiator_and_on_a_schedule(dags):
    timetable = dags["hive_acid_worker"].timetable
    assert isinstance(timetable, AssetOrTimeSchedule)
    assert interval_of(timetable.timetable) == timedelta(seconds=300)
    (outlet,) = dags["hive_acid_initiator"].get_task("announce").outlets
    (again,) = dags["hive_acid_worker"].get_task("report").outlets
    assert list(timetable.asset_condition.objects) == [outlet, again]


def test_compaction_pools_have_tasks_and_airflow_pools_of_their_own(monkeypatch):
    from airflow_hive_acid.dag_factories.maintenance import worker_dag

    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_COMPACTOR_WORKER_ETL_THREADS", "3")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_COMPACTOR_WORKER_REPORTS_THREADS", "1")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__COMPACTION_POOLS", "etl=etl_pool")
    dag = worker_dag()
    assert sorted(dag.task_ids) == [
        "compact", "compact_etl", "compact_reports", "plan", "plan_etl", "plan_reports", "report"]  # fmt: skip
    pools = {name: dag.get_task(name).partial_kwargs["pool"] for name in dag.task_ids if name.startswith("compact")}
    assert pools == {"compact": "default_pool", "compact_etl": "etl_pool", "compact_reports": "default_pool"}
    assert dag.get_task("compact_etl").partial_kwargs["compaction_pool"] == "etl"
    assert dag.get_task("plan_etl").upstream_task_ids == {"plan"}
    assert dag.get_task("plan_etl").pools == {"etl": 3, "reports": 1}
    assert dag.get_task("report").upstream_task_ids == {"compact", "compact_etl", "compact_reports"}


def test_cleaner_waits_in_its_runs_instead_of_being_started_every_five_seconds(dags):
    dag = dags["hive_acid_cleaner"]
    assert interval_of(dag.timetable.timetable) == timedelta(minutes=5)
    assert dag.params["wait_seconds"] == 300
    assert [asset.name for asset in dag.timetable.asset_condition.objects] == ["hive_acid_cleaned"]


def test_worker_maps_one_task_per_spark_application_and_claims_inside(dags):
    assert dags["hive_acid_worker"].get_task("compact").is_mapped


@pytest.mark.parametrize("path", sorted(dags_folder().glob("*.py")), ids=lambda p: p.stem)
def test_dag_files_hold_no_logic(path: Path):
    body = ast.parse(path.read_text()).body
    assert [type(node) for node in body] == [ast.Expr, ast.ImportFrom, ast.Assign]


@pytest.mark.parametrize("dag_id", MAINTENANCE)
def test_maintenance_dag_succeeds_on_an_empty_metastore(dags, run, connections, dag_id):
    states = run(dags[dag_id], wait_seconds=0)
    assert states.pop("") == "success"
    assert set(states.values()) <= {"success", "skipped"}


def test_maintenance_dag_fails_with_a_clear_text_without_a_connection(dags, run, failures, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", raising=False)
    dag = dags["hive_acid_reaper"]
    dag.get_task("reap").retries = 0
    try:
        assert run(dag)[""] == "failed"
    finally:
        dag.get_task("reap").retries = 2
    assert "hive_acid_default" in failures[0]


@pytest.mark.parametrize("dag_id", MAINTENANCE)
def test_scheduler_finds_the_next_run_of_every_maintenance_dag(dags, dag_id):
    """Without a start date: the first run comes within one interval."""
    from airflow.sdk import timezone
    from airflow.serialization import serialized_objects

    # Before 3.2 one class does both.
    serialization = getattr(serialized_objects, "DagSerialization", serialized_objects.SerializedDAG)
    scheduled = serialization.deserialize_dag(serialization.serialize_dag(dags[dag_id]))
    timetable = scheduled.timetable
    info = timetable.next_dagrun_info(
        last_automated_data_interval=None,
        restriction=scheduled._time_restriction,
    )
    if info is None:  # an asset's news start it first
        info = timetable.timetable.next_dagrun_info(
            last_automated_data_interval=None, restriction=scheduled._time_restriction
        )
    wait = info.run_after - timezone.utcnow()
    assert wait <= (MAINTENANCE[dag_id] or timedelta(seconds=300))
