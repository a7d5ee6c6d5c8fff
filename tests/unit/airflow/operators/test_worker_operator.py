"""The tasks of the Worker and Cleaner DAGs, and what they and the compaction operator do when they are killed."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException, TaskDeferred
from airflow_hive_acid.dag_factories.bodies import report_failures
from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.hooks import assets
from airflow_hive_acid.hooks.configuration import worker_pools
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.hooks.tasks import worker_id
from airflow_hive_acid.maintenance.decisions import CompactionOutcome, Kind
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType, Resource
from airflow_hive_acid.operators.compact import HiveAcidCompactOperator
from airflow_hive_acid.operators.worker import (
    CLEANED,
    HiveAcidCleanOperator,
    HiveAcidCompactionWorkerOperator,
    HiveAcidPlanWorkersOperator,
)
from airflow_hive_acid.triggers.compactions import CompactionFinishedTrigger


class Events(dict):
    """``outlet_events`` of a context; aliases are told apart by name, for in Airflow 3.1 they have no hash."""

    def __getitem__(self, alias):
        events = self.setdefault(alias.name, SimpleNamespace(told=[]))
        events.add = lambda asset, extra: events.told.append((asset, extra))
        return events


@pytest.fixture
def conn_id(monkeypatch, metastore_url, warehouse):
    extra = {"metastore_url": metastore_url, "warehouse": warehouse}
    monkeypatch.setenv("AIRFLOW_CONN_ACID", json.dumps({"conn_type": "hive_acid", "extra": extra}))
    return "acid"


@pytest.fixture
def context():
    instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=2, try_number=1, max_tries=2)
    return {"ti": instance, "outlet_events": Events()}


@pytest.fixture
def table(client, warehouse):
    client.catalog.set_warehouse(warehouse)
    client.catalog.create_database("db")
    definition = TableDefinition("db", "t", (Column("id", "int"),), properties={"transactional": "true"})
    client.catalog.create_table(definition)
    return "db.t"


class FakeEngine:
    """Serves with a function."""

    def __init__(self, serve):
        self.serve = serve
        self.cancelled = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def run_compactions(self, worker, limit, *, pool):
        return self.serve(worker, limit, pool)

    def cancel(self):
        self.cancelled = True


@pytest.fixture
def engine(monkeypatch):
    def install(serve):
        fake = FakeEngine(serve)
        monkeypatch.setattr(HiveAcidHook, "get_engine", lambda self, agent_info: fake)
        return fake

    return install


def outcome(kind=Kind.COMPACTED, directories=("base_0000002_v0000003",), partition="k=a"):
    return CompactionOutcome(
        7, Resource("sales", "Orders".lower(), partition), CompactionType.MAJOR, kind, "because",
        {"highest_write_id": 2}, directories, 5, 3,
    )  # fmt: skip


def test_commits_are_events_of_their_tables_and_failures_do_not_take_them_away(conn_id, engine, context):
    engine(lambda worker, limit, pool: [outcome(), outcome(Kind.FAILED, ())])
    operator = HiveAcidCompactionWorkerOperator(task_id="t", worker=1, requests="50", hive_acid_conn_id=conn_id)
    assert operator.outlets == [assets.COMPACTIONS]
    answer = operator.execute(context)
    assert (answer["served"], len(answer["failed"])) == (2, 1)
    ((asset, extra),) = context["outlet_events"][assets.COMPACTIONS].told
    assert asset == assets.table_asset("Sales.ORDERS", "acid")
    assert asset.uri == "hiveacid://acid/sales/orders"
    assert (extra["partition"], extra["directories"], extra["highest_write_id"]) == (
        "k=a",
        ["base_0000002_v0000003"],
        2,
    )
    with pytest.raises(AirflowFailException, match="1 of 2 compactions failed"):
        report_failures([[answer]])
    assert report_failures([[{"served": 2, "failed": []}], []]) == 2


def test_worker_serves_its_pool_as_the_same_worker_at_each_try(conn_id, engine, context):
    asked = []
    engine(lambda *arguments: asked.append(arguments) or [])
    HiveAcidCompactionWorkerOperator(task_id="t", worker=1, compaction_pool="etl", hive_acid_conn_id=conn_id).execute(
        context
    )
    assert asked == [("@airflow-d-r-t[2]", None, "etl")]


def test_killed_worker_gives_its_request_back_at_once(client, table, conn_id, engine, context):
    """
    t1  the task works on request 1, whose txn is open
    t2  Airflow calls on_kill
    t3  Spark is stopped, the txn is aborted, the request waits again; the task fails
    """
    client.compactions.enqueue(table)

    def serve(worker, limit, pool):
        request = client.compactions.claim(worker)
        txn = client.open_txn(agent_info=f"compaction {request.id} by {worker}")
        client.compactions.update_state(request, highest_write_id=0, txn_id=txn)
        operator.on_kill()
        assert fake.cancelled
        assert client.compactions.get(1).state is CompactionState.INITIATED
        assert {row.state.name for row in client.show_transactions()} == {"ABORTED"}
        raise JobFailedError("the Spark application was cancelled")

    operator = HiveAcidCompactionWorkerOperator(task_id="t", worker=1, hive_acid_conn_id=conn_id)
    fake = engine(serve)
    with pytest.raises(AirflowException, match="cancelled"):
        operator.execute(context)
    assert client.compactions.claim("another").id == 1
    operator.on_kill()


def test_plan_counts_what_waits_and_defers_while_nothing_does(client, table, conn_id, context):
    waiting = HiveAcidPlanWorkersOperator(task_id="t", wait_seconds="60", hive_acid_conn_id=conn_id)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute(context)
    assert deferred.value.method_name == "execute_complete"
    client.compactions.enqueue(table)
    assert waiting.execute_complete(context, {"status": "success", "ready": True}) == [1]
    assert waiting.execute(context) == [1]
    client.compactions.claim("w")
    assert HiveAcidPlanWorkersOperator(task_id="t", hive_acid_conn_id=conn_id).execute(context) == []
    with pytest.raises(AirflowException, match="MetastoreUnavailableError: away"):
        waiting.execute_complete(context, {"status": "error", "type": "MetastoreUnavailableError", "message": "away"})


def test_cleaner_cleans_after_a_wait_in_vain_and_tells_only_of_what_it_removed(client, conn_id, context, monkeypatch):
    removed = []
    result = [SimpleNamespace(kind=Kind.CLEANED, removed=removed)]
    monkeypatch.setattr("airflow_hive_acid.maintenance.cleaner.cleaner.run_cleaner", lambda client, fs: result)
    operator = HiveAcidCleanOperator(task_id="t", wait_seconds=60, hive_acid_conn_id=conn_id)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    assert deferred.value.trigger.poll_interval == 5.0
    assert operator.execute_complete(context, {"status": "success", "ready": False}) == 0
    assert context["outlet_events"] == {}
    removed.append("file:/w/t/delta_0000001_0000001")
    assert operator.execute_complete(context, {"status": "success", "ready": True}) == 1
    ((told, extra),) = [one for events in context["outlet_events"].values() for one in events.told]
    assert (told, extra) == (CLEANED, {"removed": 1})


def test_pools_with_workers_are_those_with_threads(monkeypatch, tmp_path):
    site = tmp_path / "hive-site.xml"
    entry = "<property><name>hive.compactor.worker.{}.threads</name><value>{}</value></property>"
    site.write_text(f"<configuration>{entry.format('Etl', 3)}{entry.format('off', 0)}</configuration>")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_SITE", str(site))
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_COMPACTOR_WORKER_REPORTS_THREADS", "2")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_COMPACTOR_WORKER_THREADS", "9")
    assert worker_pools() == {"Etl": 3, "reports": 2}
    for text in ("many", "²"):
        monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_COMPACTOR_WORKER_REPORTS_THREADS", text)
        with pytest.raises(InvalidArgumentsError, match=rf"hive\.compactor\.worker\.reports\.threads = '{text}'"):
            worker_pools()


@pytest.mark.conformance("C11")
def test_worker_id_is_not_a_host_of_a_metastore_service(client, table, context):
    """A metastore service that starts gives back what workers hold whose ids begin with its host name."""
    client.compactions.enqueue(table)
    request = client.compactions.claim(worker_id(context))
    assert request.worker_id.startswith("@")


def test_killed_operator_cancels_what_it_asked_for_and_waits_for(client, table, conn_id, context):
    operator = HiveAcidCompactOperator(
        task_id="t",
        table=table,
        wait=True,
        poll_interval=0.01,
        timeout=0.01,
        deferrable=False,
        hive_acid_conn_id=conn_id,
    )
    with pytest.raises(AirflowException, match="was not served"):
        operator.execute(context)
    operator.on_kill()
    request = client.compactions.get(1)
    assert request.state is CompactionState.ABORTED
    assert request.error == f"cancelled by {client.user}: the task that asked was killed in Airflow"


def test_killed_operator_leaves_requests_of_others_and_those_it_does_not_wait_for(client, table, conn_id, context):
    client.compactions.enqueue(table)
    for wait in (True, False):
        operator = HiveAcidCompactOperator(
            task_id="t",
            table=table,
            wait=wait,
            poll_interval=0.01,
            timeout=0.01,
            deferrable=False,
            hive_acid_conn_id=conn_id,
        )
        if wait:
            with pytest.raises(AirflowException, match="was not served"):
                operator.execute(context)
        else:
            operator.execute(context)
        operator.on_kill()
    assert client.compactions.get(1).state is CompactionState.INITIATED


def test_killed_wait_in_the_triggerer_cancels_too(client, table, conn_id, context):
    operator = HiveAcidCompactOperator(task_id="t", table=table, wait=True, hive_acid_conn_id=conn_id)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    trigger = deferred.value.trigger
    assert isinstance(trigger, CompactionFinishedTrigger)
    assert trigger.cancel_on_kill == [1]
    asyncio.run(trigger.on_kill())
    assert client.compactions.get(1).state is CompactionState.ABORTED
