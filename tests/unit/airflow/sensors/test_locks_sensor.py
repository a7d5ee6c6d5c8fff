"""The lock sensor: which locks count, and waiting with and without a worker slot."""

from __future__ import annotations

import asyncio
import time

import pytest

from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException, TaskDeferred
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRow
from airflow_hive_acid.sensors.locks import HiveAcidLockReleasedSensor
from airflow_hive_acid.triggers.locks import LocksQuestion, LocksReleasedTrigger, judge_locks, locks_question
from airflow_hive_acid.triggers.questions import Looked


def lock(client, table, partition=None, type=LockType.SHARED_WRITE, database="db") -> int:
    return client.lock(LockComponent(database, table, partition, type, Operation.NO_TXN)).lock_id


def held(client, table=None, partition=None, lock_id=None, lock_types=None, txn_id=None):
    question = locks_question(table, partition, lock_id, lock_types, txn_id)
    return [row.lock_id for row in client.database.read(question.find)]


def test_locks_of_table_its_partitions_and_its_database_count(client):
    table = lock(client, "t")
    part = lock(client, "t", "p=1")
    other_part = lock(client, "t", "p=2")
    database = lock(client, None, type=LockType.SHARED_READ)
    lock(client, "other")
    lock(client, "t", database="elsewhere")
    assert sorted(held(client, "db.t")) == sorted([table, part, other_part, database])
    assert sorted(held(client, "DB.T", "p=1")) == sorted([table, part, database])
    assert len(held(client, "db")) == 5


def test_request_that_waits_holds_nothing_unless_it_was_asked_for(client):
    holder = lock(client, "t", type=LockType.EXCLUSIVE)
    waiting = lock(client, "t", type=LockType.EXCLUSIVE)
    assert held(client, "db.t") == [holder]
    assert held(client, lock_id=waiting) == [waiting]
    client.unlock(waiting)
    assert held(client, lock_id=waiting) == []


def test_only_named_types_count(client):
    lock(client, "t", type=LockType.SHARED_READ)
    writer = lock(client, "t", type=LockType.SHARED_WRITE)
    assert held(client, "db.t", lock_types=["SHARED_WRITE", "EXCLUSIVE"]) == [writer]


def test_locks_of_a_txn_count_also_those_it_waits_for(client):
    lock(client, "t", type=LockType.EXCLUSIVE)
    txn_id = client.open_txn()
    request = LockComponent("db", "t", None, LockType.SHARED_READ, Operation.SELECT)
    waiting = client.lock(request, txn_id=txn_id).lock_id
    assert held(client, txn_id=txn_id) == [waiting]
    assert "SHARED_READ of db.t wanted by txn" in LocksQuestion(txn_id=txn_id).ask(client).said
    client.abort_txn(txn_id)
    assert held(client, txn_id=txn_id) == []


def test_line_for_the_log_says_who_holds_what_since_when():
    def row(number, state=LockState.ACQUIRED, **other):
        values = {"txn_id": 0, "agent_info": None, **other}
        return LockRow(
            number, 1, "db", "t", "p=1", state, LockType.SHARED_WRITE, user="ann", host="h", last_heartbeat=0,
            acquired_at=1_700_000_000_000, blocked_by=None, **values,
        )  # fmt: skip

    assert judge_locks([], 0) == Looked(True)
    one = judge_locks([row(7)], 1_700_000_012_999)
    assert one == Looked(
        False,
        "waiting for 1 lock: SHARED_WRITE of db.t/p=1 held by lock 7 (ann@h) since 2023-11-14 22:13:20+00:00 (12 s)",
    )
    five = judge_locks([row(n, LockState.WAITING, txn_id=n, agent_info="airflow/d") for n in range(1, 6)], 0).said
    assert five.startswith("waiting for 5 locks: SHARED_WRITE of db.t/p=1 wanted by txn 1 (airflow/d), ")
    assert five.endswith("by txn 3 (airflow/d) and 2 more")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "either a table"),
        ({"table": "db.t", "lock_id": 1}, "either a table"),
        ({"table": "db.t", "txn_id": 1}, "either a table"),
        ({"lock_id": 1, "partition": "p=1"}, "needs its table"),
        ({"table": "db", "partition": "p=1"}, "needs its table"),
        ({"table": "db.t", "lock_types": ["EXCLUSIV"]}, "'EXCLUSIV' is no lock type"),
    ],
)
def test_what_cannot_be_meant_is_refused(client, arguments, words):
    with pytest.raises(InvalidArgumentsError, match=words):
        held(client, **arguments)


def test_sensor_succeeds_at_once_when_nothing_is_locked(client, conn_id):
    assert HiveAcidLockReleasedSensor(task_id="s", table="db.t", hive_acid_conn_id=conn_id).poke({}) is True


def test_sensor_waits_while_it_is_locked(client, conn_id):
    lock_id = lock(client, "t")
    sensor = HiveAcidLockReleasedSensor(task_id="s", lock_id=str(lock_id), hive_acid_conn_id=conn_id)
    assert sensor.poke({}) is False
    client.unlock(lock_id)
    assert sensor.poke({}) is True


def test_deferrable_sensor_defers_only_when_it_has_to_wait(client, conn_id):
    """Time line:

    t1  somebody locks db.t
    t2  the sensor looks, and defers
    t3  the trigger looks: still locked
    t4  the lock is released
    t5  the trigger fires; the sensor succeeds
    """
    lock_id = lock(client, "t")
    sensor = HiveAcidLockReleasedSensor(
        task_id="s", table="db.t", deferrable=True, poke_interval=0.01, timeout=60, hive_acid_conn_id=conn_id
    )
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    trigger = deferred.value.trigger
    assert isinstance(trigger, LocksReleasedTrigger)
    assert trigger.until == pytest.approx(time.time() + 60, abs=30)
    assert trigger.check(client) is None
    client.unlock(lock_id)

    async def first_event():
        return [event.payload async for event in trigger.run()]

    (event,) = asyncio.run(first_event())
    assert event["status"] == "success"
    assert getattr(sensor, deferred.value.method_name)({}, event) is None
    assert sensor.execute({}) is None


def test_sensor_fails_when_the_trigger_could_not_ask():
    sensor = HiveAcidLockReleasedSensor(task_id="s", table="db.t")
    with pytest.raises(AirflowException, match="MetastoreUnavailableError: gone"):
        sensor.execute_complete({}, {"status": "error", "type": "MetastoreUnavailableError", "message": "gone"})


def test_sensor_with_unusable_arguments_fails_for_good(client, conn_id):
    with pytest.raises(AirflowFailException, match="either a table"):
        HiveAcidLockReleasedSensor(task_id="s", hive_acid_conn_id=conn_id).poke({})


def test_locks_of_the_hive_concurrency_model_are_waited_for_where_it_is_configured(metastore_url, client):
    """The metastore's own lock table has none of them."""
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.locks import LockComponent, LockRequest, legacy_lock_manager
    from airflow_hive_acid.settings import Settings, Source
    from airflow_hive_acid.settings_table import DUMMY_TXN_MANAGER

    settings = Settings({Source.CONNECTION: {"hive.txn.manager": DUMMY_TXN_MANAGER}})
    with MetastoreClient(metastore_url, settings) as legacy:
        manager = legacy_lock_manager(legacy.database, settings)
        part = LockComponent("d", "t", "k=a", LockType.EXCLUSIVE, Operation.NO_TXN, transactional=False)
        held = manager.lock(LockRequest((part,), "ann", "host", agent_info="a writer"))
        question, other = LocksQuestion("d", "t", "k=a"), LocksQuestion("d", "u")
        looked = question.ask(legacy)
        assert not looked.over
        assert "EXCLUSIVE of d.t/k=a held by" in looked.said.replace(" partition ", "/")
        assert "a writer" in looked.said
        assert LocksQuestion("d", "t", lock_types=frozenset({"EXCLUSIVE"})).ask(legacy).over is False
        assert {q: a.over for q, a in LocksQuestion.ask_all(legacy, [question, other]).items()} == {
            question: False, other: True,
        }  # fmt: skip
        assert question.ask(client).over  # with DbTxnManager these are not its locks
        manager.unlock(held.lock_id)
        assert question.ask(legacy).over
