"""The DAGs in examples/ run as they are, in one Spark application, on a PostgreSQL metastore."""

from __future__ import annotations

import importlib.util
import json
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowException

from airflow_hive_acid.hooks import shared_spark
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.operators.changes import HiveAcidInsertOperator, HiveAcidUpdateOperator
from airflow_hive_acid.operators.export import HiveAcidExportOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.spark import HiveAcidSparkOperator

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

EXAMPLES = Path(__file__).parents[3] / "examples"
SECRET = "do-not-tell-5f1c"  # noqa: S105 - it is looked for in what is written


@pytest.fixture
def warehouse_on_postgresql(postgresql_server, monkeypatch, tmp_path):
    """Connections to a metastore on PostgreSQL and to Spark on this machine; all tasks share one application."""
    name = f"examples_{uuid.uuid4().hex}"
    engine = sa.create_engine(postgresql_server, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.DDL(f'CREATE DATABASE "{name}"'))
    engine.dispose()
    url = sa.make_url(postgresql_server).set(database=name).render_as_string(hide_password=False)
    extra = {"metastore_url": url, "warehouse": str(tmp_path / "warehouse")}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps({"conn_type": "hive_acid", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__SHARE_SPARK", "True")
    monkeypatch.setenv("EXAMPLE_DATA", str(tmp_path))
    with MetastoreClient(url) as client:
        client.create_schema()
        yield client
    shared_spark.close_all()


def example(name) -> DAG:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


def results(finished):
    return {i.task_id: i.xcom_pull(task_ids=i.task_id) for i in finished.get_task_instances()}


def looked_up(*queries):
    with HiveAcidHook() as hook, hook.get_engine() as engine:
        return [engine.query(query).rows for query in queries]


def test_examples_change_rows_run_pyspark_and_export(warehouse_on_postgresql, registered, tmp_path, caplog):
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "1.csv").write_text("item,price\ncake,5.25\ncoffee,4.00\n")
    finished = registered(example("change_rows")).test()
    assert str(finished.state) == "success"
    told = results(finished)
    assert [told[t]["inserted"] for t in ("rows", "files", "query", "merge")] == [3, 2, 1, 0]
    assert (told["update"]["updated"], told["delete"]["deleted"], told["merge"]["updated"]) == (1, 1, 1)
    (orders,) = looked_up("SELECT id, item, amount, ordered, photo, day FROM shop.orders ORDER BY id")
    assert orders == [
        [2, "coffee", Decimal("4.00"), None, "00FF", "2026-01-01"],
        [3, "it's ${cold}; --", Decimal("6.00"), None, None, "2026-01-02"],
        [4, "cake", Decimal("5.25"), None, None, "2026-01-02"],
    ]

    finished = registered(example("pyspark_jobs")).test()
    assert str(finished.state) == "success"
    told = results(finished)
    assert told["totals"]["returned"] == {"days": 2}
    assert told["correct"]["returned"] == {"corrected": 1}
    assert (told["totals"]["inserted"], told["totals"]["updated"], told["correct"]["deleted"]) == (5, 3, 1)
    items, totals, marks = looked_up(
        "SELECT item FROM shop.orders ORDER BY id",
        "SELECT total, orders, day FROM shop.totals ORDER BY day",
        "SELECT id FROM shop.marks ORDER BY id",
    )
    assert [row[0] for row in items] == ["COFFEE", "IT'S ${COLD}; --", "CAKE"]
    assert totals == [[Decimal("4.00"), 1, "2026-01-01"], [Decimal("21.25"), 2, "2026-01-02"]]
    assert marks == [[2], [3]]

    for _ in range(2):  # the second takes the place of the first
        finished = registered(example("export_files")).test()
        assert str(finished.state) == "success"
        told = results(finished)
        assert (told["orders"]["rows"], told["totals"]["rows"]) == (2, 2)
        assert sorted(entry.name for entry in (tmp_path / "exports").iterdir()) == ["orders", "totals"]
    (part,) = (tmp_path / "exports" / "orders" / "day=2026-01-02").glob("part-*.csv")
    assert sorted(part.read_text().splitlines()) == ["3,IT'S ${COLD}; --", "4,CAKE", "id,item"]
    assert part.stat().st_size == told["orders"]["bytes"]
