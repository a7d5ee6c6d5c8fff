"""The README's DAG runs as it is printed; only the directory of its CSV file is another one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from airflow.sdk import DAG

from airflow_hive_acid.hooks import shared_spark
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.story("the DAG of the README")]

README = Path(__file__).parents[3] / "README.md"
TABLES = """
CREATE DATABASE sales;
CREATE TABLE sales.orders (order_id BIGINT, amount DECIMAL(12,2)) PARTITIONED BY (day STRING) STORED AS ORC
TBLPROPERTIES ('transactional'='true');
CREATE TABLE sales.forgotten (order_id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true');
INSERT INTO sales.orders VALUES (1, 10.00, 'd1'), (2, 20.00, 'd1'), (3, 30.00, 'd2');
INSERT INTO sales.forgotten VALUES (2);
"""


@pytest.fixture
def connections(monkeypatch, tmp_path):
    """The README's connections over a directory of the test; all tasks share one Spark application."""
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with MetastoreClient(url) as client:
        client.create_schema()
    exports = dict(re.findall(r"export (AIRFLOW_CONN_\w+)='(.*)'", README.read_text()))
    hive_acid = json.loads(exports["AIRFLOW_CONN_HIVE_ACID_DEFAULT"])
    assert set(hive_acid["extra"]) == {"metastore_url", "warehouse"}
    hive_acid["extra"] = {"metastore_url": url, "warehouse": (tmp_path / "warehouse").as_uri()}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(hive_acid))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", exports["AIRFLOW_CONN_SPARK_DEFAULT"])
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__SHARE_SPARK", "True")
    yield
    shared_spark.close_all()


def printed_dag(corrections: Path) -> DAG:
    (text,) = [block for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "DAG(" in block]
    assert "'/data/corrections/" in text
    text = text.replace("with DAG(", "dag = DAG(", 1).replace("catchup=False):", "catchup=False)\nwith dag:", 1)
    names: dict[str, object] = {}
    exec(text.replace("/data/corrections", str(corrections)), names)  # noqa: S102 - our own README
    dag = names["dag"]
    assert isinstance(dag, DAG)
    return dag


def test_dag_of_the_readme_merges_and_deletes_in_one_transaction(connections, registered, tmp_path):
    with DAG("prepare", schedule=None) as prepare:
        HiveAcidOperator(task_id="tables", sql=TABLES)
    assert str(registered(prepare).test().state) == "success"

    dag = registered(printed_dag(tmp_path))
    for day in (tmp_path / f"{name}.csv" for name in _days()):
        day.write_text("order_id,amount,day\n1,11.00,d1\n4,40.00,d3\n")
    finished = dag.test()
    assert str(finished.state) == "success"
    (instance,) = finished.get_task_instances()
    result = instance.xcom_pull(task_ids="restate")
    assert (result["inserted"], result["updated"], result["deleted"]) == (1, 1, 1)
    assert len({s["txn_id"] for s in result["statements"] if s["txn_id"]}) == 1

    with DAG("look", schedule=None) as look:
        HiveAcidOperator(task_id="look", sql="SELECT order_id, amount FROM sales.orders ORDER BY order_id")
    (seen,) = registered(look).test().get_task_instances()
    assert seen.xcom_pull(task_ids="look")["rows"] == [
        {"order_id": 1, "amount": "11.00"},
        {"order_id": 3, "amount": "30.00"},
        {"order_id": 4, "amount": "40.00"},
    ]


def _days() -> list[str]:
    """Today and tomorrow, for a test that runs at midnight."""
    from datetime import datetime, timedelta, timezone

    now = datetime.now(timezone.utc)
    return [str(now.date()), str((now + timedelta(days=1)).date())]
