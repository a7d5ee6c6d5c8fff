"""The operators: what they hand on, what they return, and how they end."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG

from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException, TaskDeferred
from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import JobFailedError, LocksDeniedForNowError, LocksPendingError, SqlSyntaxError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.hooks import tasks
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.records.claim_rules import Rerun
from airflow_hive_acid.operators.changes import HiveAcidDeleteOperator
from airflow_hive_acid.operators.compact import HiveAcidCompactOperator
from airflow_hive_acid.operators.export import HiveAcidExportOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator, result_document, script_of
from airflow_hive_acid.settings import Settings

CONTEXT = {
    "ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1, max_tries=2),
}
INSERT = StatementResult("INSERT …", "insert", inserted=3, txn_id=5, write_ids={"db.t": 2}, seconds=1.2)
SELECT = StatementResult(
    "SELECT …", "select", rows=Rows((Column("a", "int"), Column("b", "string")), [[1, "x"], [2, "y"], [3, "z"]])
)


class FakeEngine:
    """Remembers what it was asked, and answers with results or an error."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []
        self.closed = False
        self.once = None
        self.acknowledged = None
        self.cancelled = threading.Event()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.closed = True

    def run(self, sql, *, one_transaction, once, patience, **others):
        self.asked.append((sql, one_transaction))
        self.others = others
        self.once = once
        self.patience = None if patience is None else replace(patience)
        if patience is not None:
            patience.resumed = None  # taken up, as an engine does
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer() if callable(self.answer) else self.answer

    def cancel(self):
        self.cancelled.set()


@pytest.fixture
def engine(monkeypatch):
    def define(answer):
        engine = FakeEngine(answer)
        monkeypatch.setattr(HiveAcidHook, "get_engine", lambda self, agent_info: engine)
        monkeypatch.setattr(HiveAcidHook, "settings", Settings())
        monkeypatch.setattr(HiveAcidHook, "acknowledge", lambda self, once: setattr(engine, "acknowledged", once))
        return engine

    return define


def test_result_says_what_each_statement_did_and_holds_the_last_rows(engine):
    fake = engine([INSERT, SELECT])
    document = HiveAcidOperator(task_id="t", sql=["INSERT …", "SELECT …"], one_transaction=True).execute(CONTEXT)
    assert fake.asked == [("INSERT …\n;\nSELECT …", True)]
    assert fake.closed
    assert document["inserted"] == 3
    assert document["rows"] == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}]
    assert [s["kind"] for s in document["statements"]] == ["insert", "select"]
    assert document["statements"][0]["txn_id"] == 5
    json.dumps(document)


def test_rows_beyond_the_limit_are_counted_not_returned():
    document = result_document([SELECT], 2)
    assert document["rows"] == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert document["rows_left_out"] == 1


def test_decimals_keep_their_digits_as_text():
    rows = Rows(
        (Column("a", "decimal(20,2)"), Column("b", "array<decimal(3,1)>")), [[Decimal("1.10"), [Decimal("2.0")]]]
    )
    (row,) = result_document([StatementResult("SELECT …", "select", rows=rows)], 5)["rows"]
    assert row == {"a": "1.10", "b": ["2.0"]}


def test_requests_for_compactions_are_handed_on_for_a_sensor():
    columns = (Column("compactionid", "bigint"), Column("partname", "string"))
    first = StatementResult("ALTER …", "compact", rows=Rows(columns, [[7, "k=a"], [None, "k=b"], [8, "k=c"]]))
    second = StatementResult("ALTER …", "compact", rows=Rows(columns, [[9, None]]))
    assert result_document([first, INSERT, second, SELECT], 10)["compactions"] == [7, 8, 9]
    assert "compactions" not in result_document([SELECT], 10)


def test_document_without_a_query_has_no_rows():
    assert "rows" not in result_document([INSERT], 10)


@pytest.mark.rule("R14")
def test_tries_of_a_task_instance_have_a_key_in_common_and_success_is_acknowledged(engine):
    fake = engine([INSERT])
    HiveAcidOperator(task_id="t", sql="INSERT …", on_rerun="skip").execute(CONTEXT)
    assert fake.once == Once(("airflow", "d", "r", "t", "-1"), life="2", on_rerun=Rerun.SKIP)
    assert fake.acknowledged == fake.once


@pytest.mark.rule("R9")
def test_task_waits_for_locks_in_the_triggerer_and_goes_on_where_it_was(engine):
    document = {"txn_id": 5, "lock_id": 6, "wanted": "x", "claim": {"unit": 1, "owner": "me"}}
    operator = HiveAcidOperator(task_id="t", sql="INSERT …")
    fake = engine(LocksPendingError("waits behind lock 3", document))
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    assert fake.patience.seconds == 5.0
    assert fake.closed
    assert fake.acknowledged is None
    trigger = deferred.value.trigger
    assert (trigger.txn_id, trigger.lock_id, deferred.value.method_name) == (5, 6, "resume")
    assert trigger.until - time.time() > 5000
    fake = engine([INSERT])
    event = {"status": "success", "txn_id": 5, "lock_id": 6}
    document = operator.resume(CONTEXT, event, **deferred.value.kwargs)
    assert fake.patience.resumed == deferred.value.kwargs["waiting"]
    assert document["inserted"] == 3
    # dag.test() resumes a task with the event alone.
    engine([INSERT])
    assert operator.resume(CONTEXT, event | {"handed_back": trigger.handed_back})["inserted"] == 3


def test_task_that_is_denied_locks_without_a_queue_tries_again_from_the_triggerer(engine):
    """DummyTxnManager: nothing is held in the pause, and the tries are counted on."""
    fake = engine(LocksDeniedForNowError("lock 3 on w.t is in the way", 4, 60.0, "of this one"))
    task = HiveAcidOperator(task_id="t", sql="x")
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(CONTEXT)
    trigger = deferred.value.trigger
    assert trigger.until == pytest.approx(time.time() + 60, abs=5)
    assert type(trigger)(**trigger.serialize()[1]).handed_back == {"tried": 4, "tried_of": "of this one"}
    trigger.until = 0.0
    (event,) = asyncio.run(_events(trigger))
    fake.answer = [INSERT]
    assert task.resume(CONTEXT, event.payload)["inserted"] == 3
    assert (fake.patience.tried, fake.patience.of, fake.patience.resumed) == (4, "of this one", None)


async def _events(trigger):
    return [event async for event in trigger.run()]


def test_task_that_may_not_defer_waits_itself(engine):
    fake = engine([INSERT])
    HiveAcidOperator(task_id="t", sql="INSERT …", deferrable=False).execute(CONTEXT)
    assert fake.patience is None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"status": "error", "type": "LockTimeoutError", "message": "behind txn 3"}, AirflowException),
        ({"status": "error", "type": "InvalidArgumentsError", "message": "no"}, AirflowFailException),
        ({"status": "error"}, AirflowException),
    ],
)
def test_wait_that_came_to_nothing_fails_the_task_as_its_error_would(engine, event, expected):
    operator = HiveAcidOperator(task_id="t", sql="INSERT …")
    with pytest.raises(expected, match=event.get("message", "came to nothing")) as failure:
        operator.resume(CONTEXT, event, waiting={})
    assert type(failure.value) is expected


def test_unknown_on_rerun_is_refused_where_the_dag_is_parsed():
    with pytest.raises(ValueError, match="on_rerun of task t must be 'apply' or 'skip', not 'again'"):
        HiveAcidOperator(task_id="t", sql="x", on_rerun="again")


def test_settings_variables_and_database_go_with_the_script_and_are_templates(engine):
    fake = engine([SELECT])
    task = HiveAcidOperator(
        task_id="t",
        sql="SELECT 1",
        variables={"d": "{{ ds }}"},
        settings={"hive.lock.numretries": 3},
        database="{{ ds }}",
    )
    task.render_template_fields({"ds": "d1"})
    task.execute(CONTEXT)
    how = fake.others
    assert (how["variables"], how["settings"], how["database"]) == ({"d": "d1"}, {"hive.lock.numretries": 3}, "d1")


def test_typed_operators_have_no_script_for_variables():
    with pytest.raises(ValueError, match="typed arguments and no script of yours: variables"):
        HiveAcidDeleteOperator(task_id="t", table="w.t", where="id = 1", variables={"a": "1"})


def test_passing_failure_lets_airflow_retry(engine):
    fake = engine(JobFailedError("the cluster is full"))
    with pytest.raises(AirflowException, match="JobFailedError: the cluster is full") as caught:
        HiveAcidOperator(task_id="t", sql="x").execute(CONTEXT)
    assert not isinstance(caught.value, AirflowFailException)
    assert fake.acknowledged is None


def test_statement_that_does_not_parse_fails_for_good(engine):
    engine(SqlSyntaxError("SELEC 1\n^^^^^"))
    with pytest.raises(AirflowFailException, match="SELEC 1"):
        HiveAcidOperator(task_id="t", sql="SELEC 1").execute(CONTEXT)


def test_kill_cancels_the_running_engine_and_withdraws_its_txns(engine, monkeypatch):
    """Time line:

    t1  the task runs its statement
    t2  Airflow calls on_kill
    t3  the engine is cancelled, the task's txns are aborted; the statement fails; the task fails
    """
    operator = HiveAcidOperator(task_id="t", sql="x")

    def killed_meanwhile():
        operator.on_kill()
        assert fake.cancelled.wait(5)
        raise JobFailedError("cancelled")

    fake = engine(killed_meanwhile)
    monkeypatch.setattr(HiveAcidHook, "withdraw", lambda self, agent, reason: withdrawn.append((agent, reason)))
    withdrawn = []
    with pytest.raises(AirflowException, match="cancelled"):
        operator.execute(CONTEXT)
    assert withdrawn == [("airflow/d/r/t#1", "killed by Airflow")]


def test_kill_without_a_running_engine_does_nothing():
    HiveAcidOperator(task_id="t", sql="x").on_kill()


def test_kill_returns_even_when_the_engine_does_not(engine, monkeypatch):
    monkeypatch.setattr(tasks, "KILL_SECONDS", 0.05)
    operator = HiveAcidOperator(task_id="t", sql="x")
    release = threading.Event()
    operator._running = SimpleNamespace(stop=release.wait)
    operator.on_kill()
    release.set()


def test_sql_files_and_templates_are_rendered(tmp_path):
    (tmp_path / "change.sql").write_text("DELETE FROM db.t WHERE day = '{{ params.day }}'")
    with DAG("d", schedule=None, template_searchpath=[str(tmp_path)], params={"day": "2013-01-01"}) as dag:
        operator = HiveAcidOperator(task_id="t", sql="change.sql", hive_acid_conn_id="{{ params.day }}")
    operator.resolve_template_files()
    operator.render_template_fields({"params": dag.params.dump()})
    assert operator.sql == "DELETE FROM db.t WHERE day = '2013-01-01'"
    assert operator.hive_acid_conn_id == "2013-01-01"


def test_spark_settings_are_not_shown_in_the_rendered_template():
    assert "spark_conf" not in HiveAcidOperator.template_fields


def test_script_is_one_text():
    assert script_of("a; b") == "a; b"
    assert script_of(["a -- comment", "b"]) == "a -- comment\n;\nb"


# --- compaction ----------------------------------------------------------------------------------------------------


@pytest.fixture
def tables(monkeypatch, client, metastore_url, warehouse):
    """A connection ``acid`` to a metastore with a partitioned and an unpartitioned table."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_ACID", json.dumps({"conn_type": "hive_acid", "extra": {"metastore_url": metastore_url}})
    )
    client.catalog.set_warehouse(warehouse)
    client.catalog.create_database("db")
    column, acid = (Column("a", "int"),), {"transactional": "true"}
    client.catalog.create_table(TableDefinition(db="db", name="t", columns=column, properties=acid))
    client.catalog.create_table(
        TableDefinition(db="db", name="p", columns=column, partition_columns=(Column("month", "int"),), properties=acid)
    )
    client.catalog.create_table(
        TableDefinition(db="db", name="plain", columns=column, properties={"transactional": "false"})
    )
    return client


def compact(**arguments):
    return HiveAcidCompactOperator(task_id="c", hive_acid_conn_id="acid", **arguments)


def test_request_is_queued_and_its_id_returned(tables):
    found = compact(table="db.t").execute(CONTEXT)
    (request,) = tables.compactions.active()
    assert found == {"request_id": request.id, "state": "initiated", "accepted": True}
    assert request.type.name == "MAJOR"


def test_partition_may_be_a_name_or_a_mapping(tables):
    tables.catalog.add_partitions("db.p", ["month=6", "month=7"])
    compact(table="db.p", partition={"month": 6}, type="minor").execute(CONTEXT)
    compact(table="db.p", partition="month=7").execute(CONTEXT)
    assert [(r.resource.partition, r.type.name) for r in tables.compactions.active()] == [
        ("month=6", "MINOR"),
        ("month=7", "MAJOR"),
    ]


def test_everything_a_statement_can_ask_for_can_be_asked_for(tables):
    properties = {"compactor.mapreduce.map.memory.mb": "512"}
    tables.catalog.alter_database("db", {"hive.compactor.worker.pool": "night"})
    rebalance = {"type": "rebalance", "order_by": "a DESC", "number_of_buckets": 3}
    compact(table="db.t", compaction_pool="day", properties=properties, **rebalance).execute(CONTEXT)
    (request,) = tables.compactions.active()
    assert (request.type.name, request.pool, request.order_by, request.number_of_buckets, request.properties) == (
        "REBALANCE", "day", "ORDER BY a DESC", 3, properties)  # fmt: skip
    tables.catalog.add_partitions("db.p", ["month=6"])
    compact(table="db.p", partition="month=6").execute(CONTEXT)
    assert tables.compactions.active()[1].pool == "night"


def test_without_a_partition_those_that_need_it_are_compacted(tables):
    """Six deltas are in June, one is in July; the request's threshold is five. Both waits are one task's."""
    for month, writes in (("month=6", 6), ("month=7", 1)):
        for _ in range(writes):
            with tables.transaction({"db.p": "insert"}, partitioned=["db.p"]) as txn:
                txn.add_partitions("db.p", [month])
            tables.catalog.add_partitions("db.p", [month])
            place = tables.catalog.find_partitions("db.p", [month])[month].location
            delta = (
                Path(place.removeprefix("file:"))
                / f"delta_{txn.write_ids['db.p']:07d}_{txn.write_ids['db.p']:07d}_0000"
            )
            delta.mkdir(parents=True)
            (delta / "bucket_00000").write_text("rows")
    properties = {"compactorthreshold.hive.compactor.delta.num.threshold": "5", "compactor.x": "y"}
    operator = compact(table="db.p", wait=True, deferrable=True, timeout=30, properties=properties)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    (request,) = tables.compactions.active()
    assert (request.resource.partition, request.type.name, request.properties) == ("month=6", "MAJOR", properties)
    asked = {"partition": "month=6", "request_id": request.id, "state": "initiated", "accepted": True}
    assert deferred.value.kwargs["request"] == {"requests": [asked], "left_alone": 1}
    event = {"status": "success", "request_id": request.id, "state": "succeeded", "txn_id": 9}
    expected = {"requests": [{**asked, "state": "succeeded", "txn_id": 9}], "left_alone": 1}
    assert operator.execute_complete(CONTEXT, dict(event), **deferred.value.kwargs) == expected
    # dag.test() resumes a task with the event alone.
    event["handed_back"] = deferred.value.trigger.handed_back
    assert operator.execute_complete(CONTEXT, event) == expected


def test_second_request_is_the_first_one(tables):
    first = compact(table="db.t").execute(CONTEXT)
    second = compact(table="db.t", type="minor").execute(CONTEXT)
    assert second == {**first, "accepted": False}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"table": "db.p", "type": "rebalance"}, "db.p is partitioned; name the partition to rebalance"),
        ({"table": "db.p", "partition": "month=1"}, "there is no partition month=1 of db.p"),
        ({"table": "db.p", "partition": {"day": 1}}, "day"),
        ({"table": "db.t", "number_of_buckets": 3}, "a major compaction keeps the number of buckets"),
        ({"table": "db.t", "type": "minor", "order_by": "a"}, "a minor compaction keeps the order"),
        ({"table": "db.t", "type": "rebalance", "number_of_buckets": 4097}, "1 to 4096 buckets, not 4097"),
        ({"table": "db.t", "partition": "month=1"}, "db.t has no partitions"),
        ({"table": "db.plain"}, "db.plain is not transactional"),
        ({"table": "db.t", "type": "huge"}, "must be one of major, minor, rebalance, not 'huge'"),
        ({"table": "db.nothing"}, "db.nothing"),
    ],
)
def test_request_that_cannot_be_meant_fails_for_good(tables, arguments, words):
    with pytest.raises(AirflowFailException, match=words):
        compact(**arguments).execute(CONTEXT)


def test_waiting_without_a_slot_goes_on_when_the_request_is_served(tables):
    """Time line:

    t1  the operator queues a request and defers
    t2  the trigger looks: initiated
    t3  a worker claims it: working
    t4  the worker refuses it: there was nothing to do
    t5  the trigger says so, and the task fails
    """
    operator = compact(table="db.t", wait=True, deferrable=True, timeout=30)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    trigger = deferred.value.trigger
    assert trigger.check(tables) is None
    request = tables.compactions.claim("worker-1")
    assert trigger.check(tables) is None
    tables.compactions.mark_refused(request, "nothing to compact")
    event = trigger.check(tables)
    assert (event["status"], event["type"]) == ("error", "JobFailedError")
    assert "ended as refused: nothing to compact" in event["message"]
    with pytest.raises(AirflowException, match="no luck"):
        operator.execute_complete(
            CONTEXT, {"status": "error", "type": "JobFailedError", "message": "no luck"}, **deferred.value.kwargs
        )


def test_waiting_in_the_slot_ends_when_the_time_is_up(tables):
    operator = compact(table="db.t", wait=True, deferrable=False, timeout=0.05, poll_interval=0.01)
    with pytest.raises(AirflowException, match=NOT_SERVED):
        operator.execute(CONTEXT)


NOT_SERVED = r"^JobFailedError: compaction request \d+ was not served in time \(timeout\) and stays queued. Is the"


def test_waiting_without_a_slot_ends_with_the_same_words(tables):
    """Whatever the task waits for by then: the time is that of all its requests."""
    operator = compact(table="db.t", wait=True, timeout=0.01, poll_interval=60)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(CONTEXT)
    assert deferred.value.timeout is None
    event = asyncio.run(anext(deferred.value.trigger.run())).payload
    with pytest.raises(AirflowException, match=NOT_SERVED):
        operator.resume_execution("execute_complete", {**deferred.value.kwargs, "event": event}, CONTEXT)
    assert len(tables.compactions.active()) == 1


def test_waiting_in_the_slot_returns_how_the_request_ended(tables):
    operator = compact(table="db.t", wait=True, deferrable=False, poll_interval=0.01)

    def work():
        while (request := tables.compactions.claim("worker-1")) is None:
            pass
        txn = tables.open_txn()
        tables.compactions.update_state(request, highest_write_id=1, txn_id=txn)
        tables.compactions.mark_compacted(request)

    worker = threading.Thread(target=work)
    worker.start()
    found = operator.execute(CONTEXT)
    worker.join()
    assert found["state"] == "ready for cleaning"
    assert found["txn_id"] == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda **more: HiveAcidOperator(sql="SELECT 1", **more),
        lambda **more: HiveAcidDeleteOperator(table="db.t", where="a = 1", **more),
        lambda **more: HiveAcidExportOperator(path="/x", query="SELECT 1", **more),
    ],
)
def test_a_spark_service_is_handed_to_the_hook(engine, monkeypatch, make):
    """A template, of operators with arguments of their own, too."""
    asked = []

    def get_engine(hook, agent_info):
        asked.append(hook.spark_service)
        raise JobFailedError("far enough")

    engine([])
    monkeypatch.setattr(HiveAcidHook, "get_engine", get_engine)
    for given, rendered in (("svc-{{ ds }}", "svc-2026-11-27"), ("", ""), (None, None)):
        task = make(task_id="t", spark_service=given)
        task.render_template_fields({"ds": "2026-11-27"})
        with pytest.raises(AirflowException, match="far enough"):
            task.execute(CONTEXT)
        assert asked.pop() == rendered
