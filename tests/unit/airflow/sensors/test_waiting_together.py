"""Triggers that wait for locks share a client and one look; what becomes of each is one event."""

from __future__ import annotations

import asyncio

import pytest

from airflow_hive_acid.errors import DeadlockError, MetastoreUnavailableError, SchemaVersionError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.protocol import lock_watch
from airflow_hive_acid.metastore.protocol.lock_watch import GivenUp, Granted
from airflow_hive_acid.triggers import shared
from airflow_hive_acid.triggers.granted import LocksGrantedTrigger

pytestmark = pytest.mark.rule("R9")


class FakeClient:
    closed = 0
    aborted: list = []  # noqa: RUF012 - set by the fixture

    def close(self):
        type(self).closed += 1

    def abort_txn(self, txn_id, reason):
        self.aborted.append((txn_id, reason))


class FakeWatch:
    """Answers look after look from a list, from the first look on that sees so many; an exception in it is raised."""

    looks: list = []  # noqa: RUF012 - set by each test
    seen: list = []  # noqa: RUF012
    begins_with = 1

    def __init__(self, client):
        self.client = client

    def look(self, watched):
        if not self.seen and len(watched) < self.begins_with:
            return {}
        self.seen.append(sorted(request.lock_id for request in watched))
        answer = self.looks.pop(0) if self.looks else {}
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def metastore(monkeypatch):
    """A connection, and what looks at its locks."""

    async def connection(conn_id):
        return conn_id

    made = []
    monkeypatch.setattr(HiveAcidHook, "aget_connection", connection)
    monkeypatch.setattr(HiveAcidHook, "client_of", lambda connection: made.append(FakeClient()) or made[-1])
    monkeypatch.setattr(lock_watch, "LockWatch", FakeWatch)
    monkeypatch.setattr(shared, "_LOOK_SECONDS", 0.01)
    FakeClient.closed, FakeClient.aborted = 0, []
    FakeWatch.looks, FakeWatch.seen, FakeWatch.begins_with = [], [], 1
    return made


def events_of(*triggers):
    async def collect(trigger):
        return [event.payload async for event in trigger.run()]

    async def all_of_them():
        return [events for (events,) in await asyncio.gather(*(collect(trigger) for trigger in triggers))]

    return asyncio.run(all_of_them())


def trigger(number):
    return LocksGrantedTrigger(txn_id=number, lock_id=number, until=0.0)


def test_hundreds_of_waiters_share_a_client_and_a_look(metastore):
    FakeWatch.looks, FakeWatch.begins_with = [{}, {number: Granted() for number in range(400)}], 400
    events = events_of(*map(trigger, range(400)))
    assert [event["status"] for event in events] == ["success"] * 400
    assert len(metastore) == 1
    assert FakeClient.closed == 1
    assert len(FakeWatch.seen) <= 4
    assert shared._shared == {}


def test_each_gets_its_own_answer():
    FakeWatch.looks, FakeWatch.begins_with = [{1: Granted()}, {2: GivenUp(DeadlockError("gives way"))}], 2
    assert events_of(trigger(1), trigger(2)) == [
        {"status": "success", "txn_id": 1, "lock_id": 1, "handed_back": None},
        {"status": "error", "type": "DeadlockError", "message": "gives way"},
    ]


def test_database_that_is_away_for_a_while_ends_no_wait():
    FakeWatch.looks = [MetastoreUnavailableError("away"), MetastoreUnavailableError("away"), {1: Granted()}]
    assert events_of(trigger(1))[0]["status"] == "success"


def test_what_will_not_pass_ends_all_waits():
    FakeWatch.looks, FakeWatch.begins_with = [SchemaVersionError("a newer release")], 2
    events = events_of(trigger(1), trigger(2))
    assert [event["status"] for event in events] == ["error", "error"]
    assert "a newer release" in events[0]["message"]


def test_kill_withdraws_the_request(metastore):
    asyncio.run(trigger(7).on_kill())
    assert FakeClient.aborted == [(7, "killed by Airflow while it waited")]
    assert FakeClient.closed == 1


def test_cancelled_trigger_leaves_the_others_waiting():
    async def cancel_one():
        tasks = [asyncio.create_task(anext(trigger(number).run())) for number in (1, 2)]
        while len(FakeWatch.seen) < 2:
            await asyncio.sleep(0.01)
        tasks[0].cancel()
        await asyncio.sleep(0.05)
        FakeWatch.looks = [{2: Granted()}]
        return await tasks[1]

    assert asyncio.run(cancel_one()).payload["status"] == "success"
    assert FakeWatch.seen[-1] == [2]
