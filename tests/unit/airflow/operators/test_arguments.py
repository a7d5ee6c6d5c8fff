"""What fields of tasks may be: told at parse where it is known, else when the task runs, by name and with a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

import airflow_hive_acid.operators as operators
import airflow_hive_acid.sensors as sensors
from airflow_hive_acid.airflow_versions import AirflowFailException, redact
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks import arguments
from airflow_hive_acid.replication.policies.policy import policy

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


class Outputs(Sequence[Any]):
    """What the tasks of a mapped one have put out, as Airflow gives it to the next: neither a list nor a tuple."""

    def __init__(self, *found: Any) -> None:
        self.found = found

    def __getitem__(self, index: Any) -> Any:
        return self.found[index]

    def __len__(self) -> int:
        return len(self.found)


@pytest.mark.parametrize(
    ("name", "field", "output"),
    [
        ("HiveAcidOperator", "sql", Outputs("SELECT 1", "SELECT 2")),
        ("HiveAcidInsertOperator", "columns", Outputs("a", "b")),
        ("HiveAcidMergeOperator", "clauses", Outputs({"action": "delete"})),
        ("HiveAcidExportTableOperator", "partitions", Outputs({"k": 1})),
        ("HiveAcidStreamOperator", "application_args", Outputs("--day", 1)),
        ("HiveAcidReplicationOperator", "bootstrap", Outputs("p")),
        ("HiveAcidGrabLeaseOperator", "objects", Outputs("db.t")),
        ("HiveAcidPinOperator", "tables", Outputs("db.t")),
        ("HiveAcidLeaseSensor", "objects", Outputs("db.t")),
    ],
)
def test_what_a_mapped_task_has_put_out_is_a_list(name: str, field: str, output: Any) -> None:
    task = kind_of(name)(task_id="t", **NEEDED[name])
    setattr(task, field, output)
    arguments.check_rendered(task, getattr(task, "_fields", lambda: task.takes)())


def test_what_a_mapped_task_is_given_is_checked_when_it_runs_and_not_tried_again() -> None:
    """Airflow makes the task of it only then, and would try again whatever its making raises."""
    with DAG("d", schedule=None):
        mapped: Any = operators.HiveAcidGrabLeaseOperator.partial(task_id="g", wait="60").expand(objects=[["db.t"], []])
    task = mapped.unmap({"objects": []})
    assert task.wait == 60
    with pytest.raises(AirflowFailException, match="objects of task g is an empty list; give the tables"):
        task.execute(context())


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("HiveAcidOperator", {"on_rerun": "again"}, "on_rerun of task t must be 'apply' or 'skip'"),
        ("HiveAcidInsertOperator", {"query": None}, "exactly one of query, files with format, and rows"),
        ("HiveAcidDeleteOperator", {"where": None}, "a forgotten condition would touch all rows"),
        ("HiveAcidExportOperator", {"mode": "append"}, "mode of task t must be 'error' or 'overwrite'"),
        ("HiveAcidExportTableOperator", {"metadata_only": True}, "metadata_only is for replication"),
        ("HiveAcidChangesOperator", {"into": "db.u"}, "a path or a table"),
        ("HiveAcidSparkOperator", {"application": "/a.py"}, "an application or a module, exactly one"),
        ("HiveAcidMirrorOperator", {"bootstrap": True, "refuse_bootstrap": True}, "exclude each other"),
        ("HiveAcidMirrorCutOverOperator", {"action": "undo"}, "action of task t must be 'cut-over'"),
        ("HiveAcidStreamOperator", {"interval": "1 second"}, "interval describes a query"),
        ("HiveAcidGrabLeaseOperator", {"poll_interval": 11}, "poll_interval of task t must be above 0"),
        ("HiveAcidReplicationLagSensor", {"max_lag": None}, "must be given max_lag, up_to, or both"),
        ("HiveAcidTableCommitSensor", {"mode": "reschedule", "deferrable": False}, "would forget between its looks"),
    ],
)
def test_arguments_that_do_not_go_together_are_not_tried_again(name: str, given: dict[str, Any], words: str) -> None:
    """A DAG file with such a task is refused; of a mapped task they are known when it runs, and is made."""
    whole = {**NEEDED[name], **given}
    with pytest.raises(ValueError, match=words):
        kind_of(name)(task_id="t", **whole)
    field, value = next(iter(given.items()))
    rest = {each: whole[each] for each in whole if each != field}
    with DAG("d", schedule=None):
        mapped: Any = kind_of(name).partial(task_id="t", **rest).expand(**{field: [value]})
    with pytest.raises(AirflowFailException, match=f"InvalidArgumentsError: .*{words}"):
        mapped.unmap({field: value})


def test_secrets_of_mapped_tasks_are_masked() -> None:
    """Airflow renders the task of a mapped one by itself, not by the task's own method."""
    secret = "hunter2-of-the-mapped"
    with DAG("d", schedule=None) as dag:
        mapped: Any = operators.HiveAcidOperator.partial(task_id="t").expand_kwargs([{"sql": "SELECT 1"}])
    task = mapped.unmap({"sql": "CREATE TEMPORARY VIEW v USING jdbc OPTIONS (password '{{ secret }}')"})
    task._do_render_template_fields(
        parent=task, template_fields=task.template_fields, context={"secret": secret},
        jinja_env=dag.get_template_env(), seen_oids=set(),
    )  # fmt: skip
    assert secret in task.sql
    assert secret not in redact(task.sql)


class FindsItsScript(operators.HiveAcidOperator):
    """Knows when it runs what it runs."""

    def __init__(self, **given: Any) -> None:
        super().__init__(sql=None, **given)  # type: ignore[arg-type]

    def execute(self, context: Any) -> Any:
        self.sql = 7  # type: ignore[assignment]
        return super().execute(context)


def test_a_class_of_ones_own_may_set_a_field_when_it_runs() -> None:
    with pytest.raises(AirflowFailException, match="sql of task t is 7; give a statement"):
        FindsItsScript(task_id="t").execute(context())
    with pytest.raises(ValueError, match="sql of task t is None"):
        operators.HiveAcidOperator(task_id="t", sql=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("HiveAcidExportOperator", "path"),
        ("HiveAcidChangesOperator", "path"),
        ("HiveAcidExportTableOperator", "location"),
        ("HiveAcidImportTableOperator", "source"),
        ("HiveAcidImportTableOperator", "location"),
    ],
)
@pytest.mark.parametrize("given", [Path("/data"), PurePosixPath("/data")])
def test_a_place_may_be_a_path(name: str, field: str, given: Any) -> None:
    task = kind_of(name)(task_id="t", **{**NEEDED[name], field: given})
    arguments.check_rendered(task, task.takes)


def test_a_path_is_known_when_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match="application of task t is of type PosixPath; give a path or URI"):
        operators.HiveAcidStreamOperator(task_id="t", application=Path("/job.py"))  # type: ignore[arg-type]


def test_numbers_and_durations_that_no_template_makes_are_numbers() -> None:
    asks = operators.HiveAcidCompactOperator(
        task_id="t", table="db.t", timeout="30", poll_interval=timedelta(seconds=2), number_of_buckets="None"
    )  # type: ignore[arg-type]
    assert (asks.timeout, asks.poll_interval, asks.number_of_buckets) == (30, 2, None)
    pins: Any = operators.HiveAcidPinOperator(
        task_id="p", name="p", tables=["db.t"], expires=timedelta(hours=1), max_bytes="9007199254740993", comment=7
    )  # type: ignore[arg-type]
    assert (pins.expires, pins.max_bytes) == (3600, 9007199254740993)
    assert operators.HiveAcidOperator(task_id="o", sql="SELECT 1", xcom_rows="5").xcom_rows == 5  # type: ignore[arg-type]
    serves: Any = operators.HiveAcidSparkServiceOperator(task_id="s", places="2", max_idle=timedelta(minutes=1))  # type: ignore[arg-type]
    assert (serves.places, serves.max_idle) == (2, 60)
    assert [arguments.number_of(given) for given in (Decimal("1.5"), 10**400, "x", True)] == [1.5, None, None, None]


def test_a_template_begins_as_its_dag_says() -> None:
    starts = {"variable_start_string": "<<", "variable_end_string": ">>"}
    with DAG("d", schedule=None, jinja_environment_kwargs=starts):
        operators.HiveAcidCompactionWorkerOperator(task_id="w", worker=1, requests="<< params.requests >>")
    with pytest.raises(ValueError, match="requests of task w is '<< params"):
        operators.HiveAcidCompactionWorkerOperator(task_id="w", worker=1, requests="<< params.requests >>")


def test_a_policy_may_be_given_as_it_is() -> None:
    one = policy({"name": "p", "source": "a", "destination": "b", "tables": ["db.*"]})
    operators.HiveAcidReplicationOperator(task_id="r", policy=one)  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "names"), [(None, []), ("", []), ("day", ["day"]), (("a", "b"), ["a", "b"])])
def test_one_name_is_a_list_of_one(given: Any, names: list[str]) -> None:
    assert arguments.names_of(given) == names


def test_one_lock_type_is_waited_for() -> None:
    sensor: Any = sensors.HiveAcidLockReleasedSensor(task_id="t", table="db.t", lock_types="EXCLUSIVE")
    assert sensor.trigger(None, 1.0).lock_types == ["EXCLUSIVE"]


@pytest.mark.parametrize(
    ("field", "value"), [("variables", {"a": 1}), ("settings", {}), ("database", "w"), ("lease", {"lease_id": 1})]
)
def test_a_stream_refuses_what_it_would_not_ask(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"task t.*: {field} would change nothing.*leave it out"):
        operators.HiveAcidStreamOperator(task_id="t", application="/job.py", **{field: value})
