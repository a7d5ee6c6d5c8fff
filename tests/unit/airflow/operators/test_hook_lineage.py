"""What a hook that one uses oneself tells Airflow's hook lineage, and what an asset is in OpenLineage."""

from __future__ import annotations

import importlib
import json
from types import SimpleNamespace

import pytest
from openlineage.client.serde import Serde

from airflow_hive_acid import airflow_versions
from airflow_hive_acid.engine.outcomes.events import (
    JobFinished,
    Published,
    StatementPlanned,
    TransactionCommitted,
    TransactionOpened,
)
from airflow_hive_acid.hooks.assets import table_asset
from airflow_hive_acid.hooks.datasets import to_openlineage
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.hooks.lineage import Collected, report_to_airflow
from airflow_hive_acid.operators.changes import (
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidUpdateOperator,
)
from airflow_hive_acid.operators.export import HiveAcidExportOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.spark import HiveAcidSparkOperator

SECRET = "do-not-tell-31aa"


@pytest.fixture
def connection(monkeypatch):
    given = {
        "conn_type": "hive_acid", "login": "u", "password": SECRET,
        "extra": {"metastore_url": "postgresql://db:5432/metastore", "warehouse": "/w"},
    }  # fmt: skip
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(given))


@pytest.fixture
def collected():
    """One txn that was committed, and one that was not."""
    found = Collected()
    for event in (
        TransactionOpened(1, {"w.t": "insert"}, {"w.t": 4}, 0.0),
        JobFinished("insert", "w.t", 3, 0, 0, 0, 0.1),
        Published("w.t", 1, 2, 99, 0.1),
        TransactionCommitted(1, 0.1),
        TransactionOpened(2, {"w.u": "update"}, {"w.u": 9}, 0.0),
        JobFinished("update", "w.u", 0, 5, 0, 0, 0.1),
    ):
        found(event)
    return found


def test_without_a_reader_nothing_is_imported_and_nothing_told(monkeypatch, collected):
    monkeypatch.setattr(airflow_versions, "has_lineage_readers", lambda: False)
    monkeypatch.setattr(airflow_versions, "get_hook_lineage_collector", lambda: pytest.fail("made a collector"))
    report_to_airflow(HiveAcidHook("lake"), collected, "lake")


def test_a_hook_tells_its_tables_when_it_is_closed(monkeypatch, connection, collected):
    told = importlib.import_module(airflow_versions.get_hook_lineage_collector.__module__).HookLineageCollector()
    monkeypatch.setattr(airflow_versions, "has_lineage_readers", lambda: True)
    monkeypatch.setattr(airflow_versions, "get_hook_lineage_collector", lambda: told)
    read = SimpleNamespace(table="w.s")
    collected.planned.append(SimpleNamespace(plan=SimpleNamespace(reads=[read])))
    with HiveAcidHook("lake") as hook:
        hook.lineage = collected
    found = told.collected_assets
    assert [info.asset.uri for info in found.inputs] == ["hiveacid://lake/w/s"]
    # The second one is left open, as in a transaction across tasks.
    assert {info.asset.uri: info.asset.extra for info in found.outputs} == {
        "hiveacid://lake/w/t": {"write_id": 4, "rows": 3},
        "hiveacid://lake/w/u": {"write_id": 9, "rows": 5},
    }
    assert SECRET not in repr(found)


def test_an_operator_tells_itself(monkeypatch, connection, collected):
    monkeypatch.setattr(airflow_versions, "has_lineage_readers", lambda: pytest.fail("asked for readers"))
    with HiveAcidHook("lake") as hook:
        hook.tells_lineage, hook.lineage = False, collected
    assert hook.lineage is collected


def test_an_asset_is_the_dataset_of_its_table(connection):
    asset = table_asset("w.t", "lake", partition="day=2026-01-01")
    dataset = to_openlineage(asset, None)
    assert (dataset.namespace, dataset.name) == ("hive://db:5432", "w.t")


def test_a_member_of_a_transaction_across_tasks_tells_what_another_one_will_commit():
    """It has not opened the txn, and does not see its end."""
    found = Collected()
    plan = SimpleNamespace(write=SimpleNamespace(table="w.t"), reads=[])
    found(StatementPlanned(plan, {}, {}, 7, {"w.t": 3}, {"w.t": 4}))
    found(JobFinished("insert", "w.t", 3, 0, 0, 0, 0.1))
    found(Published("w.t", 1, 2, 99, 0.1))
    (txn,) = found.txns.values()
    assert (txn.state, txn.write_ids, txn.snapshot) == ("open", {"w.t": 4}, {"w.t": 3})
    output = found.still_open()["w.t"]
    assert (output.write_id, output.inserted, output.bytes) == (4, 3, 99)
    assert found.outputs == {}


WHERE = {"table": "w.t", "where": f"note = '{SECRET}'", "hive_acid_conn_id": "lake"}
OPERATORS = [
    (HiveAcidOperator, {"sql": "INSERT INTO w.t SELECT * FROM w.s"}, ["w.s"], ["w.t"]),
    (HiveAcidOperator, {"sql": "this is no SQL"}, [], []),
    (HiveAcidInsertOperator, {"table": "w.t", "query": "SELECT a FROM w.s WHERE b = :b", "parameters": {"b": SECRET}},
     ["w.s"], ["w.t"]),
    (HiveAcidInsertOperator, {"table": "w.t", "rows": [{"a": SECRET}]}, [], ["w.t"]),
    (HiveAcidInsertOperator, {"table": "w.t", "files": f"s3a://k:{SECRET}@b/in/*.csv", "format": "csv",
     "options": {"password": SECRET}}, ["in/*.csv"], ["w.t"]),
    (HiveAcidUpdateOperator, {"set": {"a": "1"}, **WHERE}, ["w.t"], ["w.t"]),
    (HiveAcidDeleteOperator, WHERE, ["w.t"], ["w.t"]),
    (HiveAcidMergeOperator, {"target": "w.t", "source": "SELECT * FROM w.s", "on": "t.a = s.a",
     "clauses": [{"action": "delete"}]}, ["w.t", "w.s"], ["w.t"]),
    (HiveAcidExportOperator, {"path": "/out", "table": "w.s", "options": {"password": SECRET}}, ["w.s"], ["/out"]),
    (HiveAcidSparkOperator, {"tables": {"w.s": "select", "w.t": "merge"}, "module": "m", "arguments": {"p": SECRET}},
     ["w.s"], ["w.t"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "arguments", "inputs", "outputs"), OPERATORS)
def test_before_it_runs_an_operator_tells_names_and_no_secret(connection, kind, arguments, inputs, outputs):
    """S6: nothing of the connection's password, of Spark settings, options and values."""
    given = {"hive_acid_conn_id": "lake", "spark_conf": {"spark.word": SECRET}, **arguments}
    told = kind(task_id="t", **given).get_openlineage_facets_on_start()
    assert [dataset.name for dataset in told.inputs] == inputs
    assert [dataset.name for dataset in told.outputs] == outputs
    text = "".join(Serde.to_json(part) for part in (*told.inputs, *told.outputs, *told.job_facets.values()))
    assert SECRET not in text
    assert not inputs or "w." not in inputs[0] or told.inputs[0].namespace == "hive://db:5432"


def test_spark_gets_the_task_as_its_parent_only_when_that_is_wanted(monkeypatch):
    from airflow.providers.common.compat.openlineage.utils import spark

    def inject(properties, context):
        return {**properties, "spark.openlineage.parentRunId": context["run"]}

    monkeypatch.setattr(spark, "inject_parent_job_information_into_spark_properties", inject)
    task = HiveAcidOperator(task_id="t", sql="SELECT 1")
    assert task.lineage_conf({"run": "r"}, {"a": "b"}) == {"a": "b"}
    task.openlineage_inject_parent_job_info = True
    assert task.lineage_conf({"run": "r"}, {"a": "b"}) == {"a": "b", "spark.openlineage.parentRunId": "r"}
    task.openlineage_inject_parent_job_info = None
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__SPARK_INJECT_PARENT_JOB_INFO", "True")
    assert "spark.openlineage.parentRunId" in task.lineage_conf({"run": "r"}, {})
