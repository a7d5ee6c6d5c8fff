"""The compaction sensor and the triggers in which DAG runs wait for work."""

from __future__ import annotations

import asyncio
import json
import re
import time

import pytest

from airflow_hive_acid.airflow_versions import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance.cleaner.readiness import is_something_to_clean, plan, workers_wanted
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.runs import Waiting
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.sensors.compactions import HiveAcidCompactionSensor
from airflow_hive_acid.triggers.compactions import CompactionWaitTrigger, look_at_compactions
from airflow_hive_acid.triggers.readiness import CleaningReadyTrigger, WorkWaitsTrigger


@pytest.fixture
def table(client, warehouse):
    """A table ``db.t`` with the partition ``k=a``."""
    client.catalog.set_warehouse(warehouse)
    client.catalog.create_database("db")
    properties = {"transactional": "true"}
    client.catalog.create_table(
        TableDefinition("db", "t", (Column("id", "int"),), (Column("k", "string"),), properties=properties)
    )
    client.catalog.add_partitions("db.t", ["k=a", "k=b"])
    return "db.t"


def sensor(conn_id, **arguments) -> HiveAcidCompactionSensor:
    return HiveAcidCompactionSensor(task_id="s", hive_acid_conn_id=conn_id, poke_interval=0.01, **arguments)


def finish(client, request_id):
    request = client.compactions.claim("w")
    assert request.id == request_id
    client.compactions.mark_compacted(request)


def test_request_is_waited_for_until_readers_see_it(client, table, conn_id):
    request_id = client.compactions.enqueue(table, "k=a").id
    waiting = sensor(conn_id, request_id=str(request_id))
    assert waiting.poke({}) is False
    finish(client, request_id)
    assert waiting.poke({}) is True


@pytest.mark.parametrize("given", [[1, 2], "[1, 2]", ["1", 2]])
def test_several_requests_are_waited_for_together(client, table, conn_id, given):
    for partition in ("k=a", "k=b"):
        client.compactions.enqueue(table, partition)
    waiting = sensor(conn_id, request_id=given)
    assert waiting.poke({}) is False
    finish(client, 1)
    assert waiting.poke({}) is False
    assert "compaction 2 (MAJOR) of db.t partition k=b" in look_at_compactions(client, [1, 2], None, None).said
    finish(client, 2)
    assert waiting.poke({}) is True
    assert [one["request_id"] for one in waiting._answer["requests"]] == [1, 2]


@pytest.mark.parametrize("given", [[], "[]"])
def test_of_no_request_nothing_is_waited_for(client, table, conn_id, given):
    assert sensor(conn_id, request_id=given).poke({}) is True


def test_table_is_idle_when_none_of_its_partitions_waits_or_runs(client, table, conn_id):
    first = client.compactions.enqueue(table, "k=a").id
    second = client.compactions.enqueue(table, "k=b").id
    assert sensor(conn_id, table="DB.T").poke({}) is False
    finish(client, first)
    assert sensor(conn_id, table=table, partition="k=a").poke({}) is True
    assert sensor(conn_id, table=table).poke({}) is False
    finish(client, second)
    assert sensor(conn_id, table=table).poke({}) is True


def test_message_says_what_is_waited_for_and_who_works_on_it(client, table):
    client.compactions.enqueue(table, "k=a")
    said = look_at_compactions(client, None, table, None).said
    assert re.fullmatch(
        r"waiting for compaction 1 \(MAJOR\) of db\.t partition k=a, which is initiated since 20\d\d-\S+ \S+; is the "
        r"Worker DAG hive_acid_worker running\?",
        said,
    )
    client.compactions.claim("@airflow-d-r-t[0]")
    said = look_at_compactions(client, [1], None, None).said
    assert re.search(r"which is working since 20\d\d-\S+ \S+ by @airflow-d-r-t\[0\]$", said)


@pytest.mark.parametrize("soft_fail", [False, True])
def test_request_that_failed_ends_the_wait_with_its_reason(client, table, conn_id, soft_fail):
    client.compactions.enqueue(table, "k=a")
    client.compactions.mark_failed(client.compactions.claim("w"), "disk full")
    with pytest.raises(AirflowSkipException if soft_fail else AirflowFailException) as caught:
        sensor(conn_id, request_id=1, soft_fail=soft_fail).execute({})
    if not soft_fail:
        assert "ended as failed: disk full" in str(caught.value)


@pytest.mark.parametrize("arguments", [{}, {"request_id": 1, "table": "db.t"}, {"table": "t"}])
def test_what_cannot_be_meant_is_refused(client, conn_id, arguments):
    with pytest.raises(AirflowFailException, match=r"request_id|db\.table"):
        sensor(conn_id, **arguments).poke({})


def test_table_that_does_not_exist_is_not_idle(client, conn_id):
    with pytest.raises(AirflowFailException, match=r"no table db\.nope"):
        sensor(conn_id, table="db.nope").poke({})


@pytest.mark.parametrize("deferrable", [False, True])
def test_time_out_says_what_is_still_queued(client, table, conn_id, deferrable):
    client.compactions.enqueue(table, "k=a")
    waiting = sensor(conn_id, table=table, timeout=0.05, deferrable=deferrable)
    if deferrable:
        with pytest.raises(TaskDeferred) as deferred:
            waiting.execute({})
        event = run(deferred.value.trigger)
        with pytest.raises(AirflowSensorTimeout) as caught:
            waiting.execute_complete({}, event)
    else:
        with pytest.raises(AirflowSensorTimeout) as caught:
            waiting.execute({})
    assert "waiting for compaction 1 (MAJOR) of db.t partition k=a" in str(caught.value)


def test_deferred_wait_ends_when_the_request_does(client, table, conn_id):
    client.compactions.enqueue(table, "k=a")
    waiting = sensor(conn_id, request_id=1, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    finish(client, 1)
    done = waiting.execute_complete({}, run(deferred.value.trigger))
    assert done == {"request_id": 1, "state": "ready for cleaning", "txn_id": None}
    request = client.compactions.enqueue(table, "k=b").id
    client.compactions.abort([request])
    with pytest.raises(AirflowFailException, match="ended as aborted"):
        waiting.execute_complete({}, run(CompactionWaitTrigger(time.time() + 5, request, hive_acid_conn_id=conn_id)))


def test_deferrable_sensor_with_nothing_to_wait_for_does_not_defer(client, table, conn_id):
    assert sensor(conn_id, table=table, deferrable=True).execute({}) is None


def run(trigger):
    """The event of a trigger, after the journey to the triggerer."""
    from airflow.sdk.module_loading import import_string

    path, arguments = trigger.serialize()
    again = import_string(path)(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)

    async def first():
        async for event in again.run():
            return event.payload
        raise AssertionError("no event")

    return asyncio.run(first())


def test_worker_wait_ends_with_work_or_with_its_time(client, table, conn_id):
    over = run(WorkWaitsTrigger(time.time(), 2, {}, conn_id))
    assert over == {"status": "success", "ready": False}
    client.compactions.enqueue(table, "k=a", pool="etl")
    assert run(WorkWaitsTrigger(time.time(), 2, {}, conn_id))["ready"] is False
    assert run(WorkWaitsTrigger(time.time() + 60, 2, {"etl": 1}, conn_id))["ready"] is True


def test_as_many_workers_start_as_have_something_to_do():
    waiting = [Waiting(None, 3, 0), Waiting("etl", 5, 1), Waiting("other", 1, 0)]
    assert plan(waiting, 2, {"etl": 4, "idle": 3}) == {None: 2, "etl": 4, "idle": 0}
    assert plan(waiting, 9, {}) == {None: 4}
    assert plan([], 9, {"etl": 1}) == {None: 0, "etl": 0}
    assert plan(waiting, 0, {}) == {None: 0}


def test_pool_time_out_is_hives_setting(client, table):
    client.compactions.enqueue(table, "k=a", pool="etl")
    assert workers_wanted(client, 2, {"etl": 1}) == {None: 0, "etl": 1}


def test_cleaner_wait_ends_when_nobody_needs_what_was_replaced(client, table, conn_id):
    """
    t1  a compaction is done; a reader from before is open: nothing to clean
    t2  the reader ends: the wait ends
    """
    assert not is_something_to_clean(client)
    with client.begin({"db.t": "insert"}, partitioned=["db.t"]) as txn:
        txn.add_partitions("db.t", ["k=a"])
    reader = client.open_snapshot(["db.t"])
    client.compactions.enqueue(table, "k=a")
    request = client.compactions.claim("w")
    with client.begin({"db.t": "select"}, type=TxnType.COMPACTION) as compaction:
        client.compactions.update_state(request, highest_write_id=1, txn_id=compaction.txn_id)
        client.compactions.mark_compacted(request)
    assert run(CleaningReadyTrigger(time.time(), conn_id))["ready"] is False
    reader.close()
    assert run(CleaningReadyTrigger(time.time() + 60, conn_id, 0.02))["ready"] is True


def test_request_that_never_was_is_said_so(client):
    with pytest.raises(NoSuchObjectError, match="no compaction with id 99"):
        look_at_compactions(client, [99], None, None)
