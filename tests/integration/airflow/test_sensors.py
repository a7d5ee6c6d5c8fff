"""Every sensor waits in a trigger, in one DAG run."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.sensors.commits import HiveAcidTableCommitSensor
from airflow_hive_acid.sensors.compactions import HiveAcidCompactionSensor
from airflow_hive_acid.sensors.leases import HiveAcidLeaseSensor
from airflow_hive_acid.sensors.locks import HiveAcidLockReleasedSensor
from airflow_hive_acid.sensors.transactions import HiveAcidTransactionSensor
from airflow_hive_acid.triggers import shared

pytestmark = [pytest.mark.airflow, pytest.mark.backends("sqlite")]


@pytest.fixture
def example():
    """The module of ``examples/commits_dag.py``."""
    path = Path(__file__).parents[3] / "examples" / "commits_dag.py"
    spec = importlib.util.spec_from_file_location("commits_dag", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_example_runs_for_commits_and_waits_for_others(example, registered):
    (watcher,) = example.ORDERS.watchers
    assert watcher.trigger.shared_stream_key() == ("hive_acid_commits", "hive_acid_default")
    registered(example.orders_changed)
    changed = example.orders_changed.get_task("changed_partitions").python_callable

    def events(*told):
        return {"asset": [SimpleNamespace(extra={"payload": {"kind": "commit", "txn_id": t, **p}}) for t, p in told]}

    assert changed(events((1, {"partitions": ["day=2"]}), (2, {"partitions": ["day=1", "day=2"]}))) == [
        "day=1",
        "day=2",
    ]
    assert changed(events((1, {"partitions": ["day=2"]}), (2, {"partitions": None}))) == ["*"]
    assert changed(events((1, {"kind": "gap"}))) == ["*"]
    assert changed({}) == []
    registered(example.orders_report)
    assert [task.task_id for task in example.orders_report.topological_sort()] == ["loaded", "free", "report"]


def test_all_wait_in_triggers_until_what_is_in_the_way_is_gone(connections, warehouse, registered, monkeypatch):
    """Each trigger's first look finds something in the way; then it goes, and the next look ends the wait."""
    ends = {}
    looks = []
    ask = shared._ask

    def ask_and_end(client, questions):
        found = ask(client, questions)
        for question in questions:
            kind = type(question).__name__
            looks.append((kind, found[question].over))
            ends.pop(kind, lambda: None)()
        return found

    monkeypatch.setattr(shared, "_ask", ask_and_end)
    monkeypatch.setattr(shared, "_LOOK_SECONDS", 0.0)
    with MetastoreClient(connections) as client:
        client.catalog.set_warehouse(warehouse)
        client.catalog.create_database("db")
        acid = {"transactional": "true"}
        client.catalog.create_table(TableDefinition("db", "t", (Column("id", "int"),), properties=acid))
        lock = client.lock(LockComponent("db", "free", None, LockType.EXCLUSIVE, Operation.NO_TXN)).lock_id
        lease = client.leases.grab_lease("db.leased", 600)
        txn_id = client.open_txn()
        request_id = client.compactions.enqueue("db.t").id
        ends |= {
            "LocksQuestion": lambda: client.unlock(lock),
            "LeasesQuestion": lambda: client.leases.drop_lease(lease),
            "TxnsQuestion": lambda: client.commit_txn(txn_id),
            "CommitsQuestion": lambda: client.begin({"db.t": "insert"}).commit(),
            "CompactionsQuestion": lambda: client.compactions.mark_compacted(client.compactions.claim("w")),
        }
        how = {"deferrable": True, "poke_interval": 0.01, "timeout": 300}
        with DAG("sensors", schedule=None) as dag:
            HiveAcidLockReleasedSensor(task_id="lock", table="db.free", **how)
            HiveAcidLeaseSensor(task_id="lease", objects="db.leased", **how)
            HiveAcidTransactionSensor(task_id="txn", txn_id=txn_id, expect="committed", **how)
            HiveAcidTableCommitSensor(task_id="commit", table="db.t", **how)
            HiveAcidCompactionSensor(task_id="compaction", request_id=request_id, **how)
        finished = registered(dag).test()
    assert {i.task_id: str(i.state) for i in finished.get_task_instances()} == dict.fromkeys(
        ("lock", "lease", "txn", "commit", "compaction"), "success"
    )
    assert ends == {}
    for kind in ("LocksQuestion", "LeasesQuestion", "TxnsQuestion", "CommitsQuestion", "CompactionsQuestion"):
        assert [over for asked, over in looks if asked == kind] == [False, True]
    (commit,) = [i for i in finished.get_task_instances() if i.task_id == "commit"]
    assert commit.xcom_pull(task_ids="commit")["write_ids"] == [1]
    assert "/plugin/hive-acid?view=tables" in commit.xcom_pull(task_ids="commit", key="_link_HiveAcidLink")
