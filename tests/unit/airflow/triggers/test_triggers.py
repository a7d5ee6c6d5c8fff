"""Triggers: they survive the journey to the triggerer, and whatever happens becomes one event."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from airflow.sdk.module_loading import import_string

from airflow_hive_acid.errors import InvalidArgumentsError, MetastoreUnavailableError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.triggers.base import MetastoreWaitTrigger
from airflow_hive_acid.triggers.compactions import CompactionFinishedTrigger
from airflow_hive_acid.triggers.granted import LocksGrantedTrigger
from airflow_hive_acid.triggers.locks import LocksReleasedTrigger

TRIGGERS = [
    CompactionFinishedTrigger(request_id=5, hive_acid_conn_id="other", poll_interval=0.5, until=12.5),
    LocksReleasedTrigger(table="db.t", partition="p=1", lock_types=["EXCLUSIVE"], hive_acid_conn_id="other"),
    LocksReleasedTrigger(lock_id=7),
    LocksGrantedTrigger(txn_id=3, lock_id=4, until=12.5, hive_acid_conn_id="other"),
]


class Probe(MetastoreWaitTrigger):
    """Answers from a list; an exception in it is raised."""

    answers: list = []  # noqa: RUF012 - set by each test

    def check(self, client):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeClient:
    closed = False

    def close(self):
        self.closed = True


@pytest.fixture
def client(monkeypatch):
    client = FakeClient()

    async def connection(conn_id):
        return conn_id

    monkeypatch.setattr(HiveAcidHook, "aget_connection", connection)
    monkeypatch.setattr(HiveAcidHook, "client_of", lambda connection: client)
    return client


def events_of(trigger: MetastoreWaitTrigger) -> list[dict]:
    async def collect():
        return [event.payload async for event in trigger.run()]

    return asyncio.run(collect())


@pytest.mark.parametrize("trigger", TRIGGERS, ids=lambda t: type(t).__name__)
def test_every_trigger_is_made_again_from_what_it_serialises(trigger):
    path, arguments = trigger.serialize()
    again = import_string(path)(**arguments)
    assert type(again) is type(trigger)
    assert again.serialize() == (path, arguments)
    assert set(arguments) == set(inspect.signature(type(trigger).__init__).parameters) - {"self"}


def test_argument_that_is_no_json_is_refused_in_the_worker():
    with pytest.raises(TypeError, match=r"CompactionFinishedTrigger: request_id = \{1\} does not survive JSON"):
        CompactionFinishedTrigger(request_id={1}).serialize()


def test_trigger_that_swallows_arguments_is_refused_when_its_class_is_made():
    with pytest.raises(TypeError, match="must name its arguments"):
        type("Bad", (MetastoreWaitTrigger,), {"__init__": lambda self, **kwargs: None, "__qualname__": "Bad"})


def test_trigger_with_an_argument_that_airflow_sets_is_refused_when_its_class_is_made():
    with pytest.raises(TypeError, match="'task_id', which Airflow sets itself"):
        type("Bad", (MetastoreWaitTrigger,), {"__init__": lambda self, task_id: None, "__qualname__": "Bad"})


def test_trigger_that_cannot_be_imported_is_refused_when_its_class_is_made():
    with pytest.raises(TypeError, match="made inside a function"):

        class Local(MetastoreWaitTrigger):
            pass


def test_answer_becomes_a_success_and_the_client_is_closed(client):
    Probe.answers = [None, None, {"lock": 3}]
    assert events_of(Probe(poll_interval=0)) == [{"status": "success", "lock": 3}]
    assert client.closed


def test_passing_failures_are_tolerated(client):
    Probe.answers = [MetastoreUnavailableError("gone")] * 3 + [{"n": 1}]
    assert events_of(Probe(poll_interval=0)) == [{"status": "success", "n": 1}]


def test_passing_failures_that_do_not_pass_end_the_wait(client):
    Probe.answers = [MetastoreUnavailableError("gone")] * 11
    (event,) = events_of(Probe(poll_interval=0))
    assert event == {"status": "error", "type": "MetastoreUnavailableError", "message": "gone"}
    assert client.closed


def test_pointless_wait_ends_at_once(client):
    Probe.answers = [InvalidArgumentsError("no such thing")]
    (event,) = events_of(Probe(poll_interval=0))
    assert event["status"] == "error"
    assert event["message"] == "no such thing"


def test_missing_connection_becomes_an_event():
    (event,) = events_of(Probe(hive_acid_conn_id="no_such_connection"))
    assert event["status"] == "error"
    assert "no_such_connection" in event["message"]


def test_unusable_connection_becomes_an_event(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_BAD", '{"conn_type": "hive_acid", "host": "relative.db"}')
    (event,) = events_of(Probe(hive_acid_conn_id="bad"))
    assert event == {
        "status": "error",
        "type": "InvalidArgumentsError",
        "message": "connection 'bad': its host must be the absolute path of the SQLite file, not 'relative.db'; "
        'or choose another database with "dialect" in its extra',
    }
