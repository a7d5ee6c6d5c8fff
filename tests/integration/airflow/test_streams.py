"""HiveAcidStreamOperator: the example of docs/how-to/streams/streaming.md, killed tries, arguments that do not fit."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
from pyarrow import orc

from airflow_hive_acid.airflow_versions import AirflowFailException
from airflow_hive_acid.engine.streams.runs import StreamRun, StreamRunner
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.operators.stream import HiveAcidStreamOperator

ROOT = Path(__file__).parents[3]
DESCRIBED = {"source_format": "json", "table": "w.t", "stream": "s", "checkpoint": "file:/cp"}


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


def orders(*rows):
    names = ("id", "customer", "city", "amount", "day", "at")
    return "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in rows)


@pytest.mark.airflow
@pytest.mark.spark
@pytest.mark.story("examples of streams")
def test_the_example_streams_orders_and_customers(postgresql_testbed, registered, monkeypatch, tmp_path):
    monkeypatch.setenv("EXAMPLE_DATA", str(tmp_path))
    client = postgresql_testbed.client  # makes its tables
    (tmp_path / "orders").mkdir()
    first = [(1, "ann", "Rome", "4.50", "2026-01-01", "2026-01-01T10:00:00"),
             (2, "bob", "Oslo", "3.00", "2026-01-01", "2026-01-01T11:00:00")]  # fmt: skip
    second = [(3, "ann", "Bonn", "1.25", "2026-01-02", "2026-01-02T09:00:00")]
    (tmp_path / "orders" / "1.json").write_text(orders(*first))
    (tmp_path / "orders" / "2.json").write_text(orders(*second))
    finished = registered(example("streaming")).test()
    assert str(finished.state) == "success"
    told = {i.task_id: i.xcom_pull(task_ids=i.task_id) for i in finished.get_task_instances()}
    assert told["stream"] == {"micro_batches": 4, "streams": 2}
    # Read without another Spark application: an append leaves nothing but rows.
    place = Path(client.catalog.get_table("shop.orders").location.removeprefix("file:"))
    found = [
        (row["row"]["id"], row["row"]["customer"], file.parent.parent.name)
        for file in place.glob("day=*/delta_*/bucket_*")
        for row in orc.read_table(file).to_pylist()
    ]
    assert sorted(found) == [(1, "ann", "day=2026-01-01"), (2, "bob", "day=2026-01-01"), (3, "ann", "day=2026-01-02")]
    streams = {s.name: (s.batch, s.rows, s.running) for s in client.streams.all()}
    assert streams["orders"][0] == streams["customers"][0] == 1
    assert streams["orders"][1:] == streams["customers"][1:] == (3, False)


def test_the_page_shows_the_example_as_it_is():
    page = (ROOT / "docs" / "how-to" / "streams" / "streaming.md").read_text()
    blocks = [block.strip() for block in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)]
    program = (ROOT / "examples" / "stream_orders.py").read_text()
    dag = (ROOT / "examples" / "streaming.py").read_text()
    assert len(blocks) >= 2
    assert blocks[0] in program
    assert "\n".join(f"    {line}" if line else "" for line in blocks[1].splitlines()) in dag


def test_the_described_query_of_change_events_on_the_page_is_one():
    page = (ROOT / "docs" / "how-to" / "streams" / "streaming.md").read_text()
    (block,) = re.findall(r"^```python\n(stock = HiveAcidStreamOperator.*?)^```", page, re.S | re.M)
    names = {"HiveAcidStreamOperator": HiveAcidStreamOperator}
    exec(block, names)  # noqa: S102 - our own page
    assert names["stock"].job()["sink"] == {
        "mode": "upsert", "keys": ["id"], "latest_by": "position", "delete_when": "op = 'd'", "table": "shop.stock",
        "stream": "stock",
    }  # fmt: skip


class Ran:
    """Takes the place of a run."""

    def __init__(self, monkeypatch, outcome):
        self.given = []

        def run(runner, script, arguments=(), conf=None):
            self.given.append((runner._who, script, list(arguments), dict(conf or {})))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(StreamRunner, "run", run)


@pytest.fixture
def context():
    """As of the second try of a task."""

    class Instance:
        dag_id, run_id, task_id, map_index, try_number, max_tries = "d", "r", "t", -1, 2, 3

    return {"ti": Instance()}


@pytest.mark.airflow
def test_a_query_that_is_described_travels_in_a_setting_and_all_tries_have_one_name(monkeypatch, sales, context):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    ran = Ran(monkeypatch, StreamRun(3, 1))
    operator = HiveAcidStreamOperator(
        task_id="t", **DESCRIBED, source_options={"path": "file:/in"}, source_schema="id int", interval="5 seconds",
        query="SELECT id FROM source", sink={"on_new_column": "add"},
    )  # fmt: skip
    assert operator.execute(context) == {"micro_batches": 3, "streams": 1}
    ((who, script, arguments, conf),) = ran.given
    assert (who, Path(script).name, arguments) == ("airflow / d / r / t / -1", "stream.py", [])
    assert json.loads(conf["spark.hive.acid.stream.job"]) == {
        "format": "json", "options": {"path": "file:/in"}, "schema": "id int", "query": "SELECT id FROM source",
        "checkpoint": "file:/cp", "interval": "5 seconds",
        "sink": {"on_new_column": "add", "table": "w.t", "stream": "s"},
    }  # fmt: skip
    assert [str(t) for t in operator.lineage_touched().writes] == ["w.t"]


@pytest.mark.airflow
def test_a_stream_takes_no_part_in_a_transaction_and_its_failure_is_the_tasks(monkeypatch, sales, context):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    ran = Ran(monkeypatch, JobFailedError("the streaming application ended with code 1"))
    with pytest.raises(Exception, match="ended with code 1"):
        HiveAcidStreamOperator(task_id="t", application="/x.py", application_args=[1]).execute(context)
    assert ran.given[0][1:3] == ("/x.py", ["1"])
    with pytest.raises(AirflowFailException, match="each micro-batch of a stream is a transaction of its own"):
        HiveAcidStreamOperator(task_id="t", application="/x.py", transaction=7).execute(context)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "must be given an application, or source_format"),
        ({"application": "/x.py", **DESCRIBED}, "not both"),
        ({"table": "w.t", "stream": "s"}, "describes a query without source_format, checkpoint"),
        ({"application": "/x.py", "sink": {"mode": "append"}}, "task t: sink describes a query; an application has"),
        ({"application": "/x.py", "query": "SELECT 1"}, "task t: query describes a query"),
        (DESCRIBED | {"sink": {"table": "w.u"}}, "sink names table; give it as table="),
        (DESCRIBED | {"sink": {"delete": "x"}}, "task t, sink: delete is no argument of a sink"),
        (DESCRIBED | {"sink": {"delete_when": "op = 'd'"}}, "delete_when goes with mode='upsert' and keys"),
        *(
            (DESCRIBED | {"sink": {"mode": "upsert", "keys": ["id"], "delete_when": condition}}, message)
            for condition, message in [
                ("op = = 'd'", "task t, sink: delete_when: .*the statement is incomplete"),
                ("op = 'd'; DROP TABLE w.t", "delete_when must be one SQL expression and nothing else"),
                ("op = 'd') OR (true", "delete_when: .*this parenthesis was never opened"),
                ("id IN (SELECT id FROM w.u)", "delete_when must not ask tables: .* has a subquery"),
                ("EXISTS (SELECT 1)", "has a subquery"),
                ("count(1) > 0", "delete_when must be about one row"),
                ("row_number() OVER (ORDER BY id) > 1", "delete_when must be about one row"),
                (7, "delete_when must be a condition"),
            ]
        ),
    ],
)
def test_arguments_that_do_not_go_together_are_refused_when_the_dag_is_parsed(given, message):
    with pytest.raises(ValueError, match=message):
        HiveAcidStreamOperator(task_id="t", **given)
