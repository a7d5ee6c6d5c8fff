"""A DAG of operators on a PostgreSQL metastore, with real spark-submit; then the maintenance DAGs on what it left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import DAG

from airflow_hive_acid.airflow_versions import AirflowException
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.listing.commit_log import CommitLog
from airflow_hive_acid.operators.compact import HiveAcidCompactOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.sensors.locks import HiveAcidLockReleasedSensor

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.testing import HiveAcidTestbed

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.story("a day of DAGs on PostgreSQL")]

CREATE = """
CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT, item STRING, amount DECIMAL(10,2)) PARTITIONED BY (day STRING) STORED AS ORC
TBLPROPERTIES ('transactional'='true');
"""
LOAD = """
INSERT INTO shop.orders VALUES
  (1, 'tea', 3.50, '2026-01-01'), (2, 'coffee', 4.20, '2026-01-01'), (3, 'cake', 5.00, '2026-01-02');
"""
CHANGE = [
    "UPDATE shop.orders SET amount = amount + 1 WHERE id = 1",
    "DELETE FROM shop.orders WHERE id = 2",
    "SELECT id, amount FROM shop.orders ORDER BY id",
]
AFTER = [{"id": 1, "amount": "4.50"}, {"id": 3, "amount": "5.00"}]


@pytest.fixture
def client(postgresql_testbed: HiveAcidTestbed) -> MetastoreClient:
    """A metastore on PostgreSQL, and the connections to it and to Spark."""
    return postgresql_testbed.client


@pytest.fixture
def dies_after_its_commits(monkeypatch) -> list[str]:
    """The first try of a task dies when all is committed and Airflow knows nothing of it; returns the tries."""
    tries = []

    def acknowledge(hook, once):
        tries.append(once.life)
        if len(tries) == 1:
            raise AirflowException("the worker was lost")
        hook.get_conn().claims.acknowledge(once.scope)

    monkeypatch.setattr(HiveAcidHook, "acknowledge", acknowledge)
    return tries


def results_of(finished, task_id):
    (instance,) = [i for i in finished.get_task_instances() if i.task_id == task_id]
    return instance.xcom_pull(task_ids=task_id)


def test_dag_loads_changes_waits_for_locks_and_asks_for_compaction_and_the_workers_serve_it(
    client, dags, registered, tmp_path, dies_after_its_commits
):
    """Time line:

    t1  a DAG creates, loads and changes a table, in one Spark application; its task dies when all is committed
    t1  the retry applies nothing twice (R14); the DAG waits for locks, asks for compaction
    t2  the Worker DAG compacts in a second application
    t3  the Cleaner DAG removes what was replaced
    t4  a task reads the table in a third: nothing has changed
    """
    with DAG("acid_end_to_end", schedule=None) as dag:
        work = HiveAcidOperator(
            task_id="work",
            sql=[CREATE, LOAD, "BEGIN", *CHANGE[:2], "COMMIT", CHANGE[2]],
            retries=1,
            retry_delay=timedelta(0),
        )
        wait = HiveAcidLockReleasedSensor(task_id="wait", table="shop.orders", deferrable=True, poke_interval=0.1)
        ask = HiveAcidCompactOperator(task_id="ask", table="shop.orders", partition={"day": "2026-01-01"})
        work >> wait >> ask
    finished = registered(dag).test()
    assert str(finished.state) == "success"
    assert dies_after_its_commits == ["1", "1"]
    worked = results_of(finished, "work")
    assert (worked["inserted"], worked["updated"], worked["deleted"]) == (3, 1, 1)
    assert worked["rows"] == AFTER
    txns = [s["txn_id"] for s in worked["statements"] if s["kind"] in ("update", "delete")]
    assert txns[0] == txns[1]
    told = {
        commit.write_id: commit.to_document()
        for commit in CommitLog(client.database, client.notifications).read(0).commits
    }
    assert {write_id: document["rows"] for write_id, document in told.items()} == {
        1: {"inserted": 3, "updated": 0, "deleted": 0},
        2: {"inserted": 0, "updated": 1, "deleted": 1},
    }
    assert told[2]["operations"] == ["delete", "update"]
    assert told[2]["agent_info"].startswith("airflow/acid_end_to_end/")
    assert results_of(finished, "ask")["accepted"] is True

    compacted = dags["hive_acid_worker"].test()
    assert {i.task_id: str(i.state) for i in compacted.get_task_instances()} == {
        "plan": "success",
        "compact": "success",
        "report": "success",
    }
    assert str(dags["hive_acid_cleaner"].test().state) == "success"
    (request,) = client.compactions.show()
    assert request.state.text == "succeeded"
    partition = tmp_path / "warehouse" / "shop.db" / "orders" / "day=2026-01-01"
    assert [entry.name for entry in partition.iterdir()] == [f"base_0000002_v{request.txn_id:07d}"]

    with DAG("acid_read", schedule=None) as reading:
        HiveAcidOperator(task_id="read", sql=CHANGE[2])
    assert results_of(registered(reading).test(), "read")["rows"] == AFTER
