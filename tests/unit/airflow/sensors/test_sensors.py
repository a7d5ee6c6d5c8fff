"""Sensors for txns and commits, what all sensors have in common, and the room in which they wait together."""

from __future__ import annotations

import asyncio
import json
import re
import time
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import pytest
from airflow.sdk.module_loading import import_string

from airflow_hive_acid.airflow_versions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow_hive_acid.errors import InvalidArgumentsError, MetastoreUnavailableError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.hooks.links import HiveAcidLink, linked_to, page_url
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.codes import TxnState, TxnType
from airflow_hive_acid.metastore.locks.listing import TxnRow
from airflow_hive_acid.sensors.commits import HiveAcidTableCommitSensor
from airflow_hive_acid.sensors.compactions import HiveAcidCompactionSensor
from airflow_hive_acid.sensors.leases import HiveAcidLeaseSensor
from airflow_hive_acid.sensors.locks import HiveAcidLockReleasedSensor
from airflow_hive_acid.sensors.transactions import HiveAcidTransactionSensor
from airflow_hive_acid.triggers import shared
from airflow_hive_acid.triggers.base import QuestionTrigger
from airflow_hive_acid.triggers.ended import TxnsEndedTrigger, TxnsQuestion, judge_txns
from airflow_hive_acid.triggers.questions import Looked, Question, since, some
from airflow_hive_acid.triggers.table_commits import CommitsQuestion, TableCommitTrigger, judge_commits

T0 = 1_700_000_000_000


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    monkeypatch.setattr(shared, "_LOOK_SECONDS", 0.01)


def txn(number: int, state: TxnState = TxnState.OPEN, **other) -> TxnRow:
    values = {"agent_info": None, "abort_reason": None, **other}
    return TxnRow(
        number, state, TxnType.DEFAULT, T0, T0 + 5000, "ann", "h", values["agent_info"], values["abort_reason"]
    )


def commit(client, partition=None, table="db.t") -> int:
    with client.begin({table: "insert"}, partitioned=[table] if partition else None) as open_txn:
        if partition:
            open_txn.add_partitions(table, [partition])
        return open_txn.write_ids[table]


def event_of(trigger):
    """The event of a trigger, after the journey to the triggerer."""
    path, arguments = trigger.serialize()
    again = import_string(path)(**json.loads(json.dumps(arguments)))
    assert again.serialize() == (path, arguments)

    async def first():
        return [event.payload async for event in again.run()]

    (event,) = asyncio.run(first())
    return event


# --- txns ---------------------------------------------------------------------------------------------------------


def judged(*rows, demanded=None, committed=(), highest=9, wanted=(1, 2)):
    found = {row.txn_id: row for row in rows}
    return judge_txns(wanted, demanded, found, frozenset(committed), highest, T0 + 61_000)


def test_open_txns_are_named_with_their_owner_and_since_when():
    assert judged(txn(1), txn(2, TxnState.COMMITTED)) == Looked(
        False, "waiting for 1 txn: txn 1 of ann@h, open since 2023-11-14 22:13:20+00:00 (61 s), last heartbeat 56 s ago"
    )
    said = judged(txn(1, agent_info="airflow/d/r/t#1"), txn(2)).said
    assert said.startswith("waiting for 2 txns: txn 1 of airflow/d/r/t#1, open since ")


def test_ends_are_told_apart_also_when_the_row_is_gone():
    states = judged(txn(1, TxnState.ABORTED), wanted=(1, 2, 3), committed=[2]).answer
    assert states == {"states": {"1": "aborted", "2": "committed", "3": "forgotten"}}


@pytest.mark.parametrize(
    ("rows", "demanded", "says"),
    [
        ([txn(1, TxnState.ABORTED, abort_reason="write conflict"), txn(2)], "committed",
         "txn 1 was aborted (write conflict), not committed"),
        ([txn(1, TxnState.COMMITTED), txn(2)], "aborted", "txn 1 was committed, not aborted"),
        ([txn(1, TxnState.COMMITTED)], "committed", "txn 2 has ended so long ago"),
    ],
)  # fmt: skip
def test_other_end_than_demanded_is_told_at_once(rows, demanded, says):
    assert judged(*rows, demanded=demanded).failed.startswith(says)


def test_txn_that_never_was_is_not_waited_for():
    assert judged(txn(1), highest=1).failed == "txn 2 was never opened; the latest is 1"


def test_sensor_waits_for_txns_whoever_opened_them(client, conn_id):
    first, second = client.open_txn(), client.open_txn()
    sensor = HiveAcidTransactionSensor(
        task_id="s", txn_id=[str(first), second], hive_acid_conn_id=conn_id, deferrable=True
    )
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    client.commit_txn(first)
    client.abort_txn(second, "no")
    done = sensor.execute_complete({}, event_of(deferred.value.trigger))
    assert done == {"states": {str(first): "committed", str(second): "aborted"}}
    assert sensor.execute({}) == done
    assert sensor.linked == {"view": "transactions", "txn_id": str(first)}
    failing = HiveAcidTransactionSensor(task_id="s", txn_id=second, expect="committed", hive_acid_conn_id=conn_id)
    with pytest.raises(AirflowFailException, match=rf"txn {second} was aborted \(no\), not committed"):
        failing.execute({})
    event = event_of(TxnsEndedTrigger([second], "committed", None, conn_id))
    assert event["status"] == "failed"
    with pytest.raises(AirflowFailException, match="was aborted"):
        failing.execute_complete({}, event)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"txn_id": []}, "name the txns"),
        ({"txn_id": None}, "give the number of a txn"),
        ({"txn_id": "five"}, "txn_id must be a number, not 'five'"),
        ({"txn_id": 1, "expect": "done"}, "expect is 'done'"),
        ({"txn_id": 99}, "txn 99 was never opened"),
    ],
)
def test_txn_that_cannot_be_meant_fails_for_good(client, conn_id, arguments, says):
    with pytest.raises(AirflowFailException, match=says):
        HiveAcidTransactionSensor(task_id="s", hive_acid_conn_id=conn_id, **arguments).execute({})


# --- commits ------------------------------------------------------------------------------------------------------


def test_missing_commits_are_counted_and_writers_named():
    seen = {7: (3, {"k=a"})}
    assert judge_commits("db.t", 6, 2, seen, [txn(5)], T0 + 2000).said == (
        "waiting for commits to db.t after write id 6: 1 of 2 so far; writing: txn 5 of ann@h since 2023-11-14 "
        "22:13:20+00:00 (2 s)"
    )
    assert judge_commits("db.t", 6, 2, seen, [], T0).said.endswith("1 of 2 so far; nobody is writing")
    both = judge_commits("db.t", 6, 2, {**seen, 9: (4, {""})}, [], T0)
    assert both == Looked(True, answer={"write_ids": [7, 9], "txn_ids": [3, 4], "partitions": ["k=a"]})


def commits(conn_id, **arguments) -> HiveAcidTableCommitSensor:
    values = {"table": "db.t", "poke_interval": 0.01, **arguments}
    return HiveAcidTableCommitSensor(task_id="s", hive_acid_conn_id=conn_id, **values)


def test_commit_of_a_txn_that_was_open_before_is_new(tables, conn_id):
    """
    t1  1 commits; 2 gets its write id
    t2            the sensor looks for the first time
    t3  3 commits, 2 commits: both are new, 1 is not
    """
    commit(tables, "k=a")
    earlier = tables.begin({"db.t": "insert"}, partitioned=["db.t"])
    sensor = commits(conn_id, commits="2", deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, TableCommitTrigger)
    assert (trigger.after, trigger.pending) == (2, [2])
    commit(tables, "k=b")
    assert "1 of 2 so far; writing: txn" in sensor._asked.ask(tables).said
    earlier.add_partitions("db.t", ["k=a"])
    earlier.commit()
    assert sensor.execute_complete({}, event_of(trigger))["write_ids"] == [2, 3]


def test_only_the_partition_counts_and_write_ids_above_the_given_one(tables, conn_id):
    for partition in ("k=a", "k=b", "k=a"):
        commit(tables, partition)
    tables.begin({"db.t": "insert"}, partitioned=["db.t"]).abort("no")
    found = commits(conn_id, after_write_id=0).execute({})
    assert found["write_ids"] == [1, 2, 3]
    assert found["partitions"] == ["k=a", "k=b"]
    assert commits(conn_id, after_write_id="1", partition="k=a").execute({})["write_ids"] == [3]
    assert commits(conn_id, after_write_id=2, partition="k=b").poke({}) is False
    assert commits(conn_id, after_write_id=3).poke({}) is False
    commit(tables, table="db.u")
    assert commits(conn_id, table="DB.U", after_write_id=0).execute({})["partitions"] == []


def test_commit_that_was_seen_is_remembered_when_compaction_tidies_up(tables, conn_id):
    import sqlalchemy as sa

    from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_TXN_COMPONENTS

    sensor = commits(conn_id, commits=2)
    assert sensor.poke({}) is False
    commit(tables, "k=a")
    assert sensor.poke({}) is False
    with tables.database.transaction() as connection:
        connection.execute(sa.delete(COMPLETED_TXN_COMPONENTS))
    commit(tables, "k=a")
    assert sensor.poke({}) is True


@pytest.mark.parametrize("deferrable", [True, False])
def test_commits_to_a_table_that_was_made_anew_are_new(tables, conn_id, deferrable):
    """Its write ids begin with 1 again.

    t1  two commits to db.u; the sensor begins to wait behind write id 2
    t2  DROP TABLE: it waits on, and says so
    t3  CREATE TABLE, and a commit: write id 1
    """
    commit(tables, table="db.u")
    commit(tables, table="db.u")
    sensor = commits(conn_id, table="db.u", deferrable=deferrable)
    assert sensor.poke({}) is False
    if deferrable:
        with pytest.raises(TaskDeferred) as deferred:
            sensor.execute({})
        kind, arguments = deferred.value.trigger.serialize()
        assert arguments["after"] == 2
        question = import_string(kind)(**json.loads(json.dumps(arguments))).question()
    else:
        question = sensor._asked
    tables.catalog.drop_table("db.u")
    assert "there is no table db.u now" in question.ask(tables).said
    tables.catalog.create_table(
        TableDefinition("db", "u", (Column("id", "int"),), properties={"transactional": "true"})
    )
    assert question.ask(tables).said.endswith("0 of 1 so far; nobody is writing")
    assert commit(tables, table="db.u") == 1
    assert question.ask(tables).answer["write_ids"] == [1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"commits": 0}, "wait for at least one"),
        ({"after_write_id": -1}, "write ids begin with 1"),
        ({"after_write_id": "x"}, "after_write_id must be a number"),
        ({"table": "db.x"}, "db.x is not transactional"),
        ({"table": "db.no"}, "no table db.no"),
        ({"table": "db.u", "partition": "k=a"}, "db.u has no partitions"),
        ({"partition": "nonsense"}, "nonsense"),
    ],
)
def test_commits_that_cannot_be_meant_fail_for_good(tables, conn_id, arguments, says):
    with pytest.raises(AirflowFailException, match=says):
        commits(conn_id, **arguments).execute({})


def test_a_retry_counts_from_where_the_first_try_began(tables, conn_id):
    """
    t1  the first try looks; write id 1 is before it
    t2  write id 2; the try fails
    t3  the retry finds it, a sensor of another table and one that was cleared begin anew
    """
    store, dag_run = Store(), SimpleNamespace(clear_number=0)

    def context(tries=1):
        task = SimpleNamespace(retries=1)
        return {"ti": SimpleNamespace(max_tries=tries), "task": task, "dag_run": dag_run, "task_state_store": store}

    commit(tables, table="db.u")
    assert commits(conn_id, table="db.u").poke(context()) is False
    commit(tables, table="db.u")
    retry = commits(conn_id, table="db.u")
    assert retry.execute(context()) == {"write_ids": [2], "txn_ids": retry._answer["txn_ids"], "partitions": []}
    assert commits(conn_id, table="db.u", after_write_id=2).poke(context()) is False
    assert commits(conn_id, table="db.u").poke(context(tries=3)) is False
    commit(tables, "k=a")
    assert commits(conn_id).poke(context(tries=3)) is False


def test_a_rescheduled_sensor_notices_between_its_looks_that_the_table_was_made_anew(tables, conn_id):
    """
    t1  a look; write id 2 is the last
    t2  DROP TABLE: a look in another process waits on, and says so
    t3  CREATE TABLE, and a commit: write id 1, which counts
    """
    store, dag_run = Store(), SimpleNamespace(clear_number=0)
    context = {
        "ti": SimpleNamespace(max_tries=1, try_number=1), "task": SimpleNamespace(retries=1), "dag_run": dag_run,
        "task_state_store": store,
    }  # fmt: skip

    def process():
        return commits(conn_id, table="db.u", after_write_id="2", mode="reschedule", deferrable=False)

    commit(tables, table="db.u")
    commit(tables, table="db.u")
    assert process().poke(context) is False
    tables.catalog.drop_table("db.u")
    sensor = process()
    assert sensor.poke(context) is False
    assert "there is no table db.u now" in sensor._last
    tables.catalog.create_table(
        TableDefinition("db", "u", (Column("id", "int"),), properties={"transactional": "true"})
    )
    assert process().poke(context) is False
    assert commit(tables, table="db.u") == 1
    sensor = process()
    assert sensor.poke(context) is True
    assert sensor._answer["write_ids"] == [1]


def test_what_an_earlier_release_kept_of_where_a_sensor_began_still_counts(tables, conn_id):
    store = Store()
    context = {"ti": SimpleNamespace(max_tries=1), "task_state_store": store}
    commit(tables, table="db.u")
    assert commits(conn_id, table="db.u").poke(context) is False
    (key,) = store
    del store[key]["given"]
    commit(tables, table="db.u")
    assert commits(conn_id, table="db.u").poke(context) is True


def test_sensor_that_would_forget_where_it_began_is_refused():
    with pytest.raises(ValueError, match="give after_write_id, or deferrable=True"):
        HiveAcidTableCommitSensor(task_id="s", table="db.t", mode="reschedule", deferrable=False)
    assert HiveAcidTableCommitSensor(task_id="s", table="db.t", mode="reschedule", deferrable=False, after_write_id=0)


# --- what all have in common --------------------------------------------------------------------------------------


@pytest.fixture
def in_the_way(tables):
    """Something for every sensor to wait for."""
    txn_id = tables.open_txn()
    from airflow_hive_acid.metastore.database.codes import LockType, Operation
    from airflow_hive_acid.metastore.locks.interface import LockComponent

    lock = LockComponent("db", "u", None, LockType.EXCLUSIVE, Operation.NO_TXN)
    tables.lock(lock, txn_id=txn_id)
    tables.leases.grab_lease("db.t", 600, user="ann")
    tables.compactions.enqueue("db.t", "k=a")
    return txn_id


def sensors(conn_id, txn_id, **arguments):
    common = {"task_id": "s", "hive_acid_conn_id": conn_id, "poke_interval": 0.01, "timeout": 0, **arguments}
    return {
        "waiting for 1 lock: EXCLUSIVE of db.u held by txn": HiveAcidLockReleasedSensor(table="db.u", **common),
        " (x) of ann on db.t until": HiveAcidLeaseSensor(objects="db.t", **common),
        "waiting for 1 txn: txn": HiveAcidTransactionSensor(txn_id=txn_id, **common),
        "waiting for commits to db.t after write id 0: 0 of 1 so far": HiveAcidTableCommitSensor(
            table="db.t", **common
        ),
        "waiting for compaction 1 (MAJOR) of db.t partition k=a": HiveAcidCompactionSensor(table="db.t", **common),
    }


def test_every_sensor_gives_up_with_who_is_in_the_way(conn_id, in_the_way):
    for says, sensor in sensors(conn_id, in_the_way, deferrable=False).items():
        with pytest.raises(AirflowSensorTimeout) as caught:
            sensor.execute({})
        assert str(caught.value).startswith("Gave up after 0 s, still waiting for ")
        assert says in str(caught.value)
    for says, sensor in sensors(conn_id, in_the_way, soft_fail=True, deferrable=False).items():
        with pytest.raises(AirflowSkipException) as skipped:
            sensor.execute({})
        assert says in str(skipped.value)
    for (says, sensor), soft in zip(
        sensors(conn_id, in_the_way, deferrable=True).items(),
        sensors(conn_id, in_the_way, soft_fail=True).values(),
        strict=True,
    ):
        with pytest.raises(TaskDeferred) as deferred:
            sensor.execute({})
        event = event_of(deferred.value.trigger)
        assert event["status"] == "timeout"
        with pytest.raises(AirflowSensorTimeout) as caught:
            sensor.resume_execution("execute_complete", {"event": event}, {})
        assert str(caught.value).startswith("Gave up after 0 s, still waiting for ")
        assert says in str(caught.value)
        with pytest.raises(AirflowSkipException):
            soft.resume_execution("execute_complete", {"event": event}, {})


@pytest.mark.parametrize("deferrable", [False, True])
def test_soft_fail_also_skips_what_fails_for_good(tables, conn_id, deferrable):
    sensor = commits(conn_id, table="db.x", soft_fail=True, deferrable=deferrable)
    with pytest.raises(AirflowSkipException):
        sensor.execute({})


def test_a_wait_in_a_worker_gets_over_an_outage_of_the_metastore(client, conn_id, monkeypatch):
    """
    t1  the sensor has looked; the metastore goes away for two looks, as it may in the triggerer
    t2  it is back, and the txn has ended
    t3  of another sensor it is away at the first look: Airflow tries again
    """
    txn_id, asked, outages = client.open_txn(), TxnsQuestion.ask, 2

    def ask(question, now):
        nonlocal outages
        if outages == 2 and not sensor._last:
            return asked(question, now)
        if outages:
            outages -= 1
            raise MetastoreUnavailableError("gone")
        client.commit_txn(txn_id)
        return asked(question, now)

    monkeypatch.setattr(TxnsQuestion, "ask", ask)
    arguments = {"hive_acid_conn_id": conn_id, "deferrable": False, "poke_interval": 0.01, "timeout": 60}
    sensor = HiveAcidTransactionSensor(task_id="s", txn_id=txn_id, **arguments)
    assert sensor.execute({}) == {"states": {str(txn_id): "committed"}}
    outages = 1
    with pytest.raises(AirflowException, match="gone"):
        HiveAcidTransactionSensor(task_id="s", txn_id=txn_id, **arguments).execute({})


def test_a_metastore_that_stays_away_ends_a_wait_in_a_worker(client, conn_id, monkeypatch):
    sensor = HiveAcidTransactionSensor(task_id="s", txn_id=client.open_txn(), hive_acid_conn_id=conn_id)
    assert sensor.poke({}) is False
    looks = []

    def ask(question, now):
        looks.append(now)
        raise MetastoreUnavailableError("gone")

    monkeypatch.setattr(TxnsQuestion, "ask", ask)
    assert [sensor.poke({}) for _ in range(10)] == [False] * 10
    with pytest.raises(AirflowException, match="gone"):
        sensor.poke({})
    assert len(looks) == 11


class Store(dict):
    """What Airflow keeps for a task instance between its looks."""

    def set(self, key, value, **_):
        self[key] = json.loads(json.dumps(value))


def look(conn_id, txn_id, number, try_number=1, **context):
    """A look of a sensor that is rescheduled: each is another process."""
    sensor = HiveAcidTransactionSensor(
        task_id="s", txn_id=txn_id, hive_acid_conn_id=conn_id, deferrable=False, mode="reschedule"
    )
    return sensor.poke({"ti": SimpleNamespace(try_number=try_number), "task_reschedule_count": number, **context})


@pytest.fixture
def away(monkeypatch):
    """Whether the metastore is away."""
    asked, state = TxnsQuestion.ask, SimpleNamespace(away=True)

    def ask(question, now):
        if state.away:
            raise MetastoreUnavailableError("gone")
        return asked(question, now)

    monkeypatch.setattr(TxnsQuestion, "ask", ask)
    return state


def test_a_sensor_that_is_rescheduled_gets_over_an_outage_of_the_metastore(client, conn_id, away):
    """
    t1  the first look is in vain: Airflow tries again
    t2  a look, then ten in vain, one, then ten again: the wait goes on
    t3  the eleventh in a row: the try fails
    t4  of the next try the first ones count anew
    """
    txn_id, store = client.open_txn(), Store(other=1)
    with pytest.raises(AirflowException, match="gone"):
        look(conn_id, txn_id, 0, task_state_store=store)
    for first in (1, 12):
        away.away = False
        assert look(conn_id, txn_id, first - 1, task_state_store=store) is False
        away.away = True
        looks = [look(conn_id, txn_id, number, task_state_store=store) for number in range(first, first + 10)]
        assert looks == [False] * 10
    with pytest.raises(AirflowException, match="gone"):
        look(conn_id, txn_id, 22, task_state_store=store)
    with pytest.raises(AirflowException, match="gone"):
        look(conn_id, txn_id, 0, try_number=2, task_state_store=store)
    assert look(conn_id, txn_id, 23, try_number=2, task_state_store=store) is False
    assert store["other"] == 1


def test_without_a_state_store_an_outage_ends_with_the_timeout_of_a_sensor_that_is_rescheduled(client, conn_id, away):
    txn_id, now = client.open_txn(), datetime.now(timezone.utc)
    assert [look(conn_id, txn_id, number) for number in range(1, 30)] == [False] * 29
    sensor = HiveAcidTransactionSensor(
        task_id="s", txn_id=txn_id, hive_acid_conn_id=conn_id, deferrable=False, mode="reschedule", timeout=60
    )
    instance = SimpleNamespace(try_number=1, get_first_reschedule_date=lambda _: now - timedelta(seconds=61))
    with pytest.raises(AirflowSensorTimeout, match=r"after 60 s, still without an answer of the metastore: gone"):
        sensor.execute({"ti": instance, "task_reschedule_count": 30})


def test_an_error_that_stays_ends_a_sensor_that_is_rescheduled_at_once(client, conn_id):
    with pytest.raises(AirflowFailException, match="txn_id must be a number"):
        look(conn_id, "x", 5, task_state_store=Store())


def test_several_txns_may_come_as_the_text_of_a_template(client, conn_id):
    first, second = client.open_txn(), client.open_txn()
    client.commit_txn(first)
    client.commit_txn(second)
    sensor = HiveAcidTransactionSensor(task_id="s", txn_id=f"[{first}, {second}]", hive_acid_conn_id=conn_id)
    assert sensor.execute({}) == {"states": {str(first): "committed", str(second): "committed"}}


def test_a_hostile_request_fails_for_good_in_words(conn_id):
    with pytest.raises(AirflowFailException, match="request_id must be a number, not 'five'"):
        HiveAcidCompactionSensor(task_id="s", request_id="five", hive_acid_conn_id=conn_id).execute({})


def test_metastore_that_could_not_be_asked_is_tried_again_by_airflow():
    sensor = HiveAcidTransactionSensor(task_id="s", txn_id=1)
    with pytest.raises(AirflowException, match="MetastoreUnavailableError: gone") as caught:
        sensor.execute_complete({}, {"status": "error", "type": "MetastoreUnavailableError", "message": "gone"})
    assert not isinstance(caught.value, AirflowFailException)


def test_link_names_the_view_and_what_it_is_restricted_to(conn_id, in_the_way):
    found = {}
    for sensor in sensors(conn_id, in_the_way, deferrable=True, timeout=60).values():
        assert HiveAcidLink().get_link(sensor, ti_key=None) == ""
        with pytest.raises(TaskDeferred):
            sensor.execute({})
        url = urlsplit(HiveAcidLink().get_link(sensor, ti_key=None))
        assert url.path.endswith("/plugin/hive-acid")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        assert query.pop("conn_id") == "acid"
        found[query.pop("view")] = query
    assert found == {
        "locks": {"database": "db", "table": "u"},
        "leases": {"database": "db", "table": "t"},
        "transactions": {"txn_id": str(in_the_way)},
        "tables": {"database": "db", "table": "t"},
        "compactions": {"database": "db", "table": "t"},
    }


def test_result_of_a_task_says_what_it_is_shown_by():
    statements = [{"txn_id": 4}, {"txn_id": 7}, {"txn_id": None}]
    assert linked_to({"statements": statements}) == {"view": "transactions", "txn_id": 7}
    assert linked_to({"statements": statements[2:]}) is None
    assert linked_to({"txn_id": 9, "statements": statements[:1]}) == {"view": "transactions", "txn_id": 4}
    assert linked_to({"request_id": 3}) == {"view": "compactions", "compaction_id": 3}
    assert linked_to({"requests": [{"request_id": 5}, {"request_id": 6}]}) == {
        "view": "compactions",
        "compaction_id": 5,
    }
    assert linked_to({"requests": [], "left_alone": 2}) is None
    lease = linked_to({"lease_id": 8, "objects": ["Sales.Orders/k=1"]})
    assert lease == {"view": "leases", "lease_id": 8, "database": "sales", "table": "orders", "partition": None}


def test_link_keeps_hostile_names_in_its_query():
    url = page_url("https://h/base/", "locks", "a&b=c", table='"><script>', partition="k=a/b#x", lock_id=None)
    assert url.startswith("https://h/base/plugin/hive-acid?view=locks&conn_id=a%26b%3Dc&table=%22%3E%3Cscript%3E")
    assert parse_qs(urlsplit(url).query)["partition"] == ["k=a/b#x"]
    assert page_url("", "locks", "c") == "/plugin/hive-acid?view=locks&conn_id=c"


def test_words_for_many_and_for_moments():
    assert some(["a", "b"]) == "a, b"
    assert some(list("abcde")) == "a, b, c and 2 more"
    assert since(None, 5) == since(0, 5) == ""
    assert since(T0, T0 - 5).endswith("(0 s)"), "two clocks may disagree for a moment"


def test_many_questions_are_asked_in_a_few_queries_and_get_the_same_answers(tables):
    import sqlalchemy as sa

    from airflow_hive_acid.metastore.database.codes import LockType, Operation
    from airflow_hive_acid.metastore.locks.interface import LockComponent
    from airflow_hive_acid.triggers.locks import LocksQuestion

    def lock(table, partition=None, database="db"):
        component = LockComponent(database, table, partition, LockType.SHARED_READ, Operation.NO_TXN)
        return tables.lock(component).lock_id

    held = [lock("t", "k=a"), lock("u"), lock(None), lock("t", database="other")]
    txns = [tables.open_txn() for _ in range(3)]
    tables.abort_txn(txns[0], "no")
    locks = [
        LocksQuestion("db"), LocksQuestion("db", "t"), LocksQuestion("db", "t", "k=b"), LocksQuestion("db", "free"),
        LocksQuestion("other", "t"), LocksQuestion("none"), LocksQuestion(txn_id=txns[1]),
        LocksQuestion("db", "u", lock_types=frozenset({"EXCLUSIVE"})), *(LocksQuestion(lock_id=one) for one in held),
    ]  # fmt: skip
    ended = [TxnsQuestion((one,)) for one in txns] + [TxnsQuestion(tuple(txns), "committed"), TxnsQuestion((99,))]

    def said(looked):
        return looked.over, re.sub(r"\d+ s\b", "", looked.said), looked.failed, looked.answer

    for questions, most in ((locks, 8), (ended, 6)):
        alone = {question: said(question.ask(tables)) for question in questions}
        queries = []
        sa.event.listen(tables.database.engine, "before_cursor_execute", lambda *a, seen=queries: seen.append(a[2]))
        together = type(questions[0]).ask_all(tables, questions)
        assert {question: said(looked) for question, looked in together.items()} == alone
        assert len([query for query in queries if "SELECT" in query]) <= most


# --- the room -----------------------------------------------------------------------------------------------------


class Number(Question):
    """Equal by its number; what the looks find is in ``answers``."""

    answers: dict = {}  # noqa: RUF012 - set by each test
    looks: list = []  # noqa: RUF012

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return self.number == other.number

    def __hash__(self):
        return hash(self.number)

    def ask(self, client):
        self.looks.append(self.number)
        answer = self.answers.get(self.number, Looked(False, "still there"))
        if isinstance(answer, Exception):
            raise answer
        return answer


class Waits(QuestionTrigger):
    """Waits for a number."""

    def __init__(self, number, until=None, hive_acid_conn_id="acid", poll_interval=0.0):
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.number = number

    def question(self):
        return Number(self.number)


@pytest.fixture
def room(monkeypatch):
    async def connection(conn_id):
        return conn_id

    fake = SimpleNamespace(close=lambda: None, cache=SimpleNamespace(start=lambda tell: None))
    monkeypatch.setattr(HiveAcidHook, "aget_connection", connection)
    monkeypatch.setattr(HiveAcidHook, "client_of", lambda connection: fake)
    monkeypatch.setattr(shared, "_LOOK_SECONDS", 0.0)
    Number.answers, Number.looks = {}, []


def events_of(*triggers):
    async def one(trigger):
        (event,) = [event.payload async for event in trigger.run()]
        return event

    async def every():
        return await asyncio.wait_for(asyncio.gather(*map(one, triggers)), 60)

    return asyncio.run(every())


def test_equal_questions_are_asked_once_and_all_in_one_look(room):
    Number.answers = {1: Looked(True, answer={"n": 1}), 2: Looked(True)}

    async def story():
        together = shared.QuestionRoom(None)
        found = await asyncio.gather(*[together.look(Number(1 + n % 2)) for n in range(40)])
        await together.close()
        return found

    assert asyncio.run(story()) == [Number.answers[1], Number.answers[2]] * 20
    assert sorted(Number.looks) == [1, 2]


def test_question_that_makes_no_sense_fails_alone(room):
    Number.answers = {1: InvalidArgumentsError("no such thing"), 2: Looked(True)}
    bad, good = events_of(Waits(1), Waits(2))
    assert bad == {"status": "error", "type": "InvalidArgumentsError", "message": "no such thing"}
    assert good["status"] == "success"


def test_database_that_is_away_for_a_while_is_waited_for_by_all(room, monkeypatch):
    gone = iter([MetastoreUnavailableError("gone")] * 3)
    looked = Number.ask_all

    def ask_all(client, questions):
        for error in gone:
            raise error
        return looked(client, questions)

    monkeypatch.setattr(Number, "ask_all", ask_all)
    Number.answers = {1: Looked(True), 2: Looked(True)}
    assert [event["status"] for event in events_of(Waits(1), Waits(2))] == ["success", "success"]


def test_database_that_stays_away_ends_the_wait(room):
    Number.answers = {1: MetastoreUnavailableError("gone")}
    (event,) = events_of(Waits(1))
    assert event["type"] == "MetastoreUnavailableError"
    assert len(Number.looks) == QuestionTrigger.tolerated_failures + 1


def test_wait_ends_in_time_with_its_last_words(room):
    assert events_of(Waits(1, until=time.time())) == [{"status": "timeout", "message": "still there"}]


def test_waiter_that_is_cancelled_leaves_the_others_waiting(room):
    async def story():
        first, second = Waits(1), Waits(1)
        gone = asyncio.create_task(anext(first.run()))
        stays = asyncio.create_task(anext(second.run()))
        while len(Number.looks) < 3:
            await asyncio.sleep(0)
        gone.cancel()
        Number.answers = {1: Looked(True)}
        return (await asyncio.wait_for(stays, 60)).payload, await asyncio.gather(gone, return_exceptions=True)

    event, (cancelled,) = asyncio.run(story())
    assert event["status"] == "success"
    assert isinstance(cancelled, asyncio.CancelledError)


@pytest.mark.parametrize("question", [CommitsQuestion("db.t", None, 0, (), 1), TxnsQuestion((1,))])
def test_questions_can_be_asked_in_a_room(question):
    assert len({question, question}) == 1
