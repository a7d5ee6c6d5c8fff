"""What fields of tasks may be: told at parse where it is known, else when the task runs, by name and with a remedy."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

import airflow_hive_acid.operators as operators
import airflow_hive_acid.sensors as sensors
from airflow_hive_acid.airflow_versions import AirflowFailException
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks import arguments

#: Of each class what it needs at least.
NEEDED: dict[str, dict[str, Any]] = {
    "HiveAcidOperator": {"sql": "SELECT 1"},
    "HiveAcidInsertOperator": {"table": "db.t", "query": "SELECT 1"},
    "HiveAcidUpdateOperator": {"table": "db.t", "set": {"a": "1"}, "where": "a = 1"},
    "HiveAcidDeleteOperator": {"table": "db.t", "where": "a = 1"},
    "HiveAcidMergeOperator": {"target": "db.t", "source": "db.s", "on": "t.a = s.a", "clauses": [{"action": "delete"}]},
    "HiveAcidExportOperator": {"path": "/out", "query": "SELECT 1"},
    "HiveAcidExportTableOperator": {"table": "db.t", "location": "/out"},
    "HiveAcidImportTableOperator": {"source": "/in"},
    "HiveAcidImportForeignTableOperator": {"source": "parquet:/in", "table": "db.t"},
    "HiveAcidMirrorOperator": {"table": "db.t", "target": "delta:/out"},
    "HiveAcidMirrorCutOverOperator": {"table": "db.t", "target": "delta:/out"},
    "HiveAcidChangesOperator": {"table": "db.t", "from_write_id": 1, "path": "/out"},
    "HiveAcidSparkOperator": {"tables": {"db.t": "insert"}, "module": "m"},
    "HiveAcidStreamOperator": {"application": "/job.py"},
    "HiveAcidCompactOperator": {"table": "db.t"},
    "HiveAcidCompactionWorkerOperator": {"worker": 1},
    "HiveAcidPlanWorkersOperator": {},
    "HiveAcidCleanOperator": {},
    "HiveAcidReplicationOperator": {"policy": "p"},
    "HiveAcidGrabLeaseOperator": {"objects": "db.t"},
    "HiveAcidDropLeaseOperator": {"lease": {"lease_id": 1}},
    "HiveAcidPinOperator": {"name": "p", "tables": ["db.t"], "expires": 60},
    "HiveAcidUnpinOperator": {"name": "p"},
    "HiveAcidSparkServiceOperator": {},
    "HiveAcidBeginTransactionOperator": {"tables": {"db.t": "insert"}},
    "HiveAcidTableCommitSensor": {"table": "db.t"},
    "HiveAcidCompactionSensor": {"table": "db.t"},
    "HiveAcidLeaseSensor": {"objects": "db.t"},
    "HiveAcidLockReleasedSensor": {"table": "db.t"},
    "HiveAcidReplicationLagSensor": {"policy": "p", "max_lag": 5},
}
#: What no field takes.
NEVER = (5j, object(), [None], {1: 2})
#: What stands for nothing at all; some fields take it.
NOTHING = (None, "", " ", "None", [], {})


def kind_of(name: str) -> Any:
    return getattr(operators, name, None) or getattr(sensors, name)


def context() -> dict[str, Any]:
    names = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1, "max_tries": 0}
    return {"ti": SimpleNamespace(**names)}


FIELDS = [(name, field) for name in NEEDED for field in kind_of(name).takes]


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_field_that_cannot_be_what_it_is_given_is_named_at_parse_and_at_run_time(name: str, field: str) -> None:
    """A template that came out so is told of before a connection is looked for: there is none here."""
    kind = kind_of(name)
    for value in NEVER:
        with pytest.raises(ValueError, match=rf"task t\b.*{field}|{field} of task t|query or a table|need a format"):
            kind(task_id="t", **{**NEEDED[name], field: value})
        task = kind(task_id="t", **NEEDED[name])
        setattr(task, field, value)
        with pytest.raises(
            AirflowFailException, match=rf"InvalidArgumentsError: {field} of task t is of type .*; give "
        ):
            task.execute(context())


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_nothing_is_taken_or_refused_by_name(name: str, field: str) -> None:
    kind = kind_of(name)
    argument = kind.takes[field]
    for value in NOTHING:
        task = kind(task_id="t", **NEEDED[name])
        setattr(task, field, value)
        if argument.allows(value):
            arguments.check_rendered(task, {field: argument})
        else:
            with pytest.raises(
                InvalidArgumentsError, match=rf"{field} of task t is (None|'None'|empty|an empty|of type)"
            ):
                arguments.check_rendered(task, {field: argument})


@pytest.mark.parametrize("given", ["x", "1.5", "-1", "0", 1.5, True, [], float("nan")])
def test_a_worker_is_given_a_number_of_requests(given: object) -> None:
    worker = operators.HiveAcidCompactionWorkerOperator
    with pytest.raises(ValueError, match=r"requests of task w is .*; give a whole number, 1 or more, or None"):
        worker(task_id="w", worker=1, requests=given)  # type: ignore[arg-type]
    task = worker(task_id="w", worker=1, requests="{{ params.requests }}")
    task.requests = given  # type: ignore[assignment]
    with pytest.raises(AirflowFailException, match="requests of task w is"):
        task.execute(context())  # type: ignore[arg-type]


def test_a_partition_that_a_template_made_empty_does_not_mean_all_of_them() -> None:
    task = operators.HiveAcidCompactOperator(task_id="t", table="db.t", partition="{{ params.partition }}")
    for made in ("", "None", {}):
        task.partition = made
        with pytest.raises(AirflowFailException, match=r"partition of task t is .*; give k1=v1/k2=v2, .*leave it out"):
            task.execute(context())  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["3", 3, None, "", "None", "{{ params.requests }}"])
def test_what_a_template_makes_of_a_number_or_of_nothing_is_taken(given: Any) -> None:
    operators.HiveAcidCompactionWorkerOperator(task_id="w", worker=1, requests=given)


@pytest.mark.parametrize("given", ["soon", "", None, -1, "nan", timedelta(seconds=-1)])
@pytest.mark.parametrize("name", ["HiveAcidCleanOperator", "HiveAcidPlanWorkersOperator"])
def test_a_wait_that_is_no_time_is_named(name: str, given: object) -> None:
    task = kind_of(name)(task_id="t", wait_seconds="{{ params.wait }}")
    task.wait_seconds = given
    with pytest.raises(AirflowFailException, match=r"wait_seconds of task t is .*; give a number of seconds"):
        task.execute(context())


def test_outputs_of_tasks_functions_and_files_are_left_for_the_run() -> None:
    with DAG("d", schedule=None):
        _make_tasks_of_outputs()


def _make_tasks_of_outputs() -> None:
    output = operators.HiveAcidUnpinOperator(task_id="u", name="p").output
    operators.HiveAcidOperator(task_id="a", sql=output, variables=output)  # type: ignore[arg-type]
    operators.HiveAcidOperator(task_id="b", sql="load.sql", variables={"a": "{{ ds }}"})
    operators.HiveAcidInsertOperator(task_id="c", table="db.t", rows=lambda context, jinja_env: [])
    operators.HiveAcidGrabLeaseOperator(task_id="d", objects=[output])  # type: ignore[list-item]
    operators.HiveAcidCompactionWorkerOperator(task_id="e", worker=1, requests=output)  # type: ignore[arg-type]


def test_a_mapping_that_a_template_made_text_is_told_how_to_stay_one_and_is_not_shown() -> None:
    task = operators.HiveAcidOperator(task_id="t", sql="SELECT 1", variables={"a": "1"})
    task.variables = "{'password': 'do-not-tell'}"  # type: ignore[assignment]
    with pytest.raises(AirflowFailException, match=r"variables of task t is of type str; .*native_obj=True") as told:
        task.execute(context())  # type: ignore[arg-type]
    assert "do-not-tell" not in str(told.value)
