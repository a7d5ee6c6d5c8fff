"""Leases in DAGs: what crosses tasks, how tasks wait, and what operators do with a lease they are given."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.module_loading import import_string

from airflow_hive_acid.airflow_versions import (
    AirflowException,
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError, LeaseAlreadyExistsError, LeaseEndedError
from airflow_hive_acid.hooks import hive_acid as hook_module
from airflow_hive_acid.hooks import leases as crossing
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.metastore.schema.leases import HIVE_LEASE
from airflow_hive_acid.operators import leases as operators
from airflow_hive_acid.operators.compact import HiveAcidCompactOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.leases import (
    HiveAcidConfirmLeaseOperator,
    HiveAcidDropLeaseOperator,
    HiveAcidGrabLeaseOperator,
    lease_on,
)
from airflow_hive_acid.sensors.leases import HiveAcidLeaseSensor
from airflow_hive_acid.triggers.leases import LeaseGrantedTrigger, LeasesEndedTrigger

pytestmark = pytest.mark.backends("sqlite")  # what the databases do differently is in integration/metastore


class Store(dict[str, Any]):
    """What Airflow keeps for a task instance between its tries."""

    def set(self, key: str, value: Any, **_: Any) -> None:
        json.dumps(value)
        self[key] = value


def context_of(task_id: str = "t", try_number: int = 1, store: Store | None = None, max_tries: int = 2) -> Any:
    instance = SimpleNamespace(
        dag_id="d", run_id="r", task_id=task_id, map_index=-1, try_number=try_number, max_tries=max_tries
    )
    return {"ti": instance, "task_state_store": store if store is not None else Store()}


@pytest.fixture(autouse=True)
def cheap_pads(monkeypatch):
    """Pads cost 45 ms each on purpose."""
    monkeypatch.setattr(crossing, "_COST", 2)


@pytest.fixture
def masked(monkeypatch):
    """What Airflow was told to mask."""
    told: list[Any] = []
    for module in (crossing, hook_module):
        monkeypatch.setattr(module, "mask_secret", told.append)
    return told


def grab(conn_id, **arguments):
    return HiveAcidGrabLeaseOperator(task_id="grab", objects="db.t", hive_acid_conn_id=conn_id, **arguments)


def drop(conn_id, lease, **arguments):
    return HiveAcidDropLeaseOperator(task_id="drop", lease=lease, hive_acid_conn_id=conn_id, **arguments)


def events_of(trigger):
    async def collect():
        return [event.payload async for event in trigger.run()]

    return asyncio.run(collect())


def test_what_a_grab_returns_names_the_lease_and_opens_nothing(conn_id, client, masked):
    """R: ids alone open nothing; the secret is in no document, and Airflow masks it where it is known."""
    document = grab(conn_id, type="s", duration=60).execute(context_of())
    (held,) = client.leases.list_lease()
    assert document["lease_id"] == held.lease_id
    assert held.user == "airflow/d/r/t#1"
    assert document["objects"] == [["db", "t", "", "s"]]
    opened = crossing.open_lease(client, document)
    assert {opened.secret, opened.token} <= set(masked)
    assert opened.secret not in json.dumps(document)
    assert client.leases.confirm_lease(opened)
    assert "secret" not in repr(opened)


def test_a_lease_is_confirmed_as_long_as_it_is_held_and_fails_the_task_for_good_when_it_is_not(conn_id, client):
    document = grab(conn_id, duration=60).execute(context_of())
    confirm = HiveAcidConfirmLeaseOperator(task_id="confirm", lease=document, hive_acid_conn_id=conn_id)
    client.leases.extend_lease(crossing.open_lease(client, document), None, 600)
    confirmed = confirm.execute(context_of())
    assert confirmed["lease_id"] == document["lease_id"]
    assert confirmed["end_utc"] > document["end_utc"]
    assert client.leases.confirm_lease(crossing.open_lease(client, confirmed))
    drop(conn_id, document).execute(context_of())
    with pytest.raises(AirflowFailException, match=f"lease {document['lease_id']}"):
        confirm.execute(context_of())


def test_a_template_may_render_the_document_to_text(conn_id, client):
    document = grab(conn_id).execute(context_of())
    for text in (str(document), json.dumps(document)):
        assert crossing.open_lease(client, text).lease_id == document["lease_id"]
    for wrong in ("sales", 7, "[1]", {"lease_id": 1}, {**document, "sealed": "AAAA"}, {**document, "lease_id": "x"}):
        with pytest.raises(InvalidArgumentsError, match="HiveAcidGrabLeaseOperator"):
            crossing.open_lease(client, wrong)


def test_another_connection_opens_some_other_secret_and_the_metastore_refuses_it(conn_id, client, tmp_path):
    """A guess at the connection is as random as the secret itself: only the metastore can tell them apart."""
    document = grab(conn_id).execute(context_of())
    with MetastoreClient(f"sqlite:///{tmp_path / 'elsewhere.db'}") as other:
        guessed = crossing.open_lease(other, document)
    assert guessed.lease_id == document["lease_id"]
    with pytest.raises(LeaseEndedError):
        client.leases.drop_lease(guessed)
    tampered = {**document, "lease_id": document["lease_id"] + 1}
    with pytest.raises(LeaseEndedError):
        client.leases.drop_lease(crossing.open_lease(client, tampered))
    assert len(client.leases.list_lease()) == 1


def test_each_sealing_has_a_pad_of_its_own(client):
    secret = "A" * 42 + "E"  # 43 letters, the last of which holds four bits
    one, two = (crossing.seal_secret(client, secret) for _ in range(2))
    assert one != two
    assert crossing.open_secret(client, one) == crossing.open_secret(client, two) == secret


def test_a_retry_goes_on_with_the_lease_of_the_try_before(conn_id, client):
    store = Store()
    first = grab(conn_id).execute(context_of(store=store))
    assert client.leases.list_lease()[0].lease_id not in store.values()
    again = grab(conn_id).execute(context_of(try_number=2, store=store))
    assert again["lease_id"] == first["lease_id"]
    with pytest.raises(AirflowException, match=r"no lease on db\.t"):
        grab(conn_id).execute(context_of("other"))


def age(client, lease_id, left_ms):
    """Let a lease have so many milliseconds left."""
    with client.database.transaction() as connection:
        values = {"END_UTC": now_ms(connection) + left_ms}
        connection.execute(HIVE_LEASE.update().where(HIVE_LEASE.c.LEASE_ID == lease_id).values(values))


def left(client):
    """Milliseconds that the only lease has left."""
    (held,) = client.leases.list_lease()
    return held.end_utc - client.database.read(now_ms)


def test_a_retry_that_goes_on_with_a_lease_has_all_of_its_duration(conn_id, client):
    store = Store()
    first = grab(conn_id, duration=600).execute(context_of(store=store))
    age(client, first["lease_id"], 5_000)
    again = grab(conn_id, duration=600).execute(context_of(try_number=2, store=store))
    assert again["lease_id"] == first["lease_id"]
    assert left(client) > 500_000


def test_a_task_extends_the_lease_it_is_given_before_it_begins(conn_id, client):
    """
    t1  granted for 600 s; the next task gets a slot when 5 s are left
    t2  its first extension in the background would come up to 150 s later
    """
    document = grab(conn_id, duration=600).execute(context_of())
    age(client, document["lease_id"], 5_000)
    with HiveAcidHook(conn_id) as hook, crossing.kept_lease(hook, document, is_given=True):
        assert left(client) > 500_000
    with client.database.transaction() as connection:  # it has lasted for nearly as long as a lease may
        start = HIVE_LEASE.c.START_UTC - 86_300_000
        connection.execute(HIVE_LEASE.update().values(START_UTC=start, END_UTC=now_ms(connection) + 60_000))
    with HiveAcidHook(conn_id) as hook, crossing.kept_lease(hook, document, is_given=True) as held:
        assert held is not None
        assert left(client) < 70_000


def test_a_cleared_task_takes_a_new_lease_and_the_old_one_opens_nothing(conn_id, client):
    store = Store()
    first = grab(conn_id).execute(context_of(store=store))
    again = grab(conn_id).execute(context_of(try_number=3, store=store, max_tries=4))
    assert again["lease_id"] > first["lease_id"]
    assert not client.leases.confirm_lease(crossing.open_lease(client, first))
    assert client.leases.confirm_lease(crossing.open_lease(client, again))


@pytest.mark.parametrize("max_tries", [2, 4])
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"objects": "db.t", "type": "s"}, {"objects": "db.t", "type": "x"}),
        ({"objects": "db.t", "type": "x"}, {"objects": "db.t", "type": "s"}),
        ({"objects": "db.t"}, {"objects": "db.u"}),
        ({"objects": "db.t"}, {"objects": ["db.u", "db.t"]}),
        ({"objects": ["db.u/p=1", "db.t"]}, {"objects": "db.t"}),
    ],
)
def test_who_wants_another_lease_than_the_try_before_holds_what_he_wants_and_nothing_else(
    conn_id, client, first, then, max_tries
):
    """
    t1  a try is granted what the DAG file names
    t2  the file is changed: other objects, or the other type
    t3  the task is tried again (or was cleared): the old claim is gone, the new one is what was asked for
    """
    store = Store()

    def grabbed(try_number, max_tries, wanted):
        task = HiveAcidGrabLeaseOperator(task_id="g", hive_acid_conn_id=conn_id, **wanted)
        return task.execute(context_of(try_number=try_number, store=store, max_tries=max_tries))

    before = grabbed(1, 2, first)
    now = grabbed(3, max_tries, then)
    held = [[*each.place, each.lease_type.value] for each in client.leases.list_lease()]
    assert held == now["objects"]
    assert {each.lease_id for each in client.leases.list_lease()} == {now["lease_id"]}
    assert now["lease_id"] > before["lease_id"]


def test_what_an_earlier_version_kept_of_a_try_is_understood(conn_id, client):
    store = Store()
    first = grab(conn_id).execute(context_of(store=store))
    (kept,) = store.values()
    del kept["objects"]
    assert grab(conn_id).execute(context_of(try_number=2, store=store))["lease_id"] == first["lease_id"]
    del kept["sealed"]
    client.leases.drop_lease(crossing.open_lease(client, first))
    assert grab(conn_id).execute(context_of(try_number=2, store=store))["lease_id"] > first["lease_id"]


def test_drop_gives_back_once_and_a_retry_may_find_it_done(conn_id, client):
    document, store = grab(conn_id).execute(context_of()), Store()
    drop(conn_id, document).execute(context_of(store=store))
    assert client.leases.list_lease() == []
    with pytest.raises(AirflowFailException, match="LeaseEndedError"):
        drop(conn_id, document).execute(context_of("another"))
    drop(conn_id, document).execute(context_of(try_number=2, store=store))
    drop(conn_id, document).execute({**context_of(try_number=2), "task_state_store": None})
    drop(conn_id, document, ended_ok=True).execute(context_of())
    drop(conn_id, None).execute(context_of())
    drop(conn_id, "None").execute(context_of())


def test_the_drop_of_a_run_that_was_cleared_says_that_its_lease_had_ended(conn_id, client):
    """
    t1  grab, work, drop; somebody clears all of them
    t2  the new lease ends while the work goes on: somebody else may have worked there, too
    t3  the drop, which is no first try any more, has not dropped this lease before
    """
    store = Store()
    drop(conn_id, grab(conn_id).execute(context_of())).execute(context_of(store=store))
    document = grab(conn_id).execute(context_of())
    client.leases.force_drop_lease("db.t", "root", "test")
    with pytest.raises(AirflowFailException, match="LeaseEndedError"):
        drop(conn_id, document).execute(context_of(try_number=2, store=store, max_tries=4))


def test_some_objects_can_be_dropped_before_the_others(conn_id, client):
    document = HiveAcidGrabLeaseOperator(task_id="g", objects=["db.t/p=1", "db.u"], hive_acid_conn_id=conn_id).execute(
        context_of()
    )
    rest = drop(conn_id, document, objects="db.u").execute(context_of())
    assert [held.describe() for held in client.leases.list_lease()] == ["db.t/p=1"]
    with HiveAcidHook(conn_id) as hook, crossing.kept_lease(hook, rest, is_given=True) as held:
        assert held is not None
    assert drop(conn_id, rest).execute(context_of()) is None
    assert client.leases.list_lease() == []


def test_the_drop_of_a_lease_of_which_a_part_was_lost_gives_the_rest_back(conn_id, client):
    document = HiveAcidGrabLeaseOperator(task_id="g", objects=["db.t", "db.u"], hive_acid_conn_id=conn_id).execute(
        context_of()
    )
    client.leases.force_drop_lease("db.u", "root", "test")
    with pytest.raises(AirflowFailException, match=r"LeaseEndedError: lease \d+ on db\.u is not held"):
        drop(conn_id, document).execute(context_of())
    assert client.leases.list_lease() == []


def test_who_does_not_wait_is_told_who_holds_it_and_may_try_again(conn_id, client):
    held = client.leases.grab_lease("db.t", 60, user="ann")
    with pytest.raises(AirflowException, match=rf"no lease on db.t: .*lease {held.lease_id}") as told:
        grab(conn_id).execute(context_of())
    assert not isinstance(told.value, AirflowFailException)
    assert "ann" in str(told.value)
    with pytest.raises(AirflowException, match=r"after 0.2 s"):
        grab(conn_id, wait=0.2, poll_interval=0.05, deferrable=False).execute(context_of("other"))
    client.leases.drop_lease(held)
    assert client.leases.grab_lease("db.t", 60)


def test_waiting_in_the_worker_slot_ends_with_the_grant(conn_id, client, monkeypatch):
    held = client.leases.grab_lease("db.t", 60)

    class Clock:  # not the module's own sleep: other threads sleep, too
        time = staticmethod(time.time)

        @staticmethod
        def sleep(seconds: float) -> None:
            client.leases.drop_lease(held)

    monkeypatch.setattr(operators, "time", Clock)
    task = grab(conn_id, wait=None, deferrable=False, poll_interval=0.5)
    assert task.execute(context_of())["lease_id"] > held.lease_id


def test_a_task_that_is_killed_in_its_slot_is_granted_nothing_any_more(conn_id, client, monkeypatch):
    """
    t1  the task waits in its slot; somebody marks it as failed, and Airflow asks its process to end
    t2  the lease is free before the process has ended
    t3  nobody would use what it was granted
    """
    held = client.leases.grab_lease("db.t", 60)
    task = grab(conn_id, wait=None, deferrable=False, poll_interval=10)
    slept: list[float] = []

    class Clock:
        time = staticmethod(time.time)

        @staticmethod
        def sleep(seconds: float) -> None:
            slept.append(seconds)
            task.on_kill()
            client.leases.drop_lease(held)

    monkeypatch.setattr(operators, "time", Clock)
    with pytest.raises(AirflowException, match=r"killed by Airflow while it waited for a lease on db\.t; nothing"):
        task.execute(context_of())
    assert len(slept) == 1
    assert slept[0] < 5, "Airflow kills the process after that"
    assert client.leases.list_lease() == []
    assert client.leases.grab_lease("db.t", 60)


def test_waiting_is_deferred_and_keeps_its_place(conn_id, client, masked):
    """
    t1  held; the task stands in line and defers
    t2             somebody else stands in line behind it
    t3  released; the trigger is granted it, the other is not
    t4  the task goes on
    """
    held = client.leases.grab_lease("db.t", 60)
    task, store = grab(conn_id, wait=60, deferrable=True, duration=30), Store()
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context_of(store=store))
    later = client.leases.waiting_grab("db.t", 60)
    assert later.look() is None
    client.leases.drop_lease(held)
    assert later.look() is None
    path, arguments = deferred.value.trigger.serialize()
    (event,) = events_of(import_string(path)(**arguments))
    assert event["status"] == "success"
    document = task.execute_complete(context_of(store=store), json.loads(json.dumps(event)))
    opened = crossing.open_lease(client, document)
    assert client.leases.confirm_lease(opened)
    assert opened.secret not in json.dumps([arguments, event, store])
    assert opened.secret in masked


def deferred(task, store):
    """What a trigger says to a task that has waited for the only lease on db.t."""
    with HiveAcidHook(task.hive_acid_conn_id) as hook:
        client = hook.get_conn()
        held = client.leases.grab_lease("db.t", 60)
        with pytest.raises(TaskDeferred) as waits:
            task.execute(context_of(store=store))
        client.leases.drop_lease(held)
    (event,) = events_of(waits.value.trigger)
    return event


def test_a_lease_of_the_longest_duration_is_held_after_a_wait(conn_id, client):
    """It cannot be extended, as it lasts for as long as a lease may."""
    task, store = grab(conn_id, wait=60, duration=86_400), Store()
    document = task.execute_complete(context_of(store=store), deferred(task, store))
    assert client.leases.confirm_lease(crossing.open_lease(client, document))


def test_a_file_that_was_changed_during_the_wait_is_granted_what_it_names_now(conn_id, client):
    """
    t1  the task waits for db.t
    t2  the DAG file is changed: it names db.u
    t3  the trigger was granted db.t; the task gives that back, and takes db.u
    """
    store = Store()
    event = deferred(grab(conn_id, wait=60), store)
    task = HiveAcidGrabLeaseOperator(task_id="grab", objects="db.u", wait=60, hive_acid_conn_id=conn_id)
    document = task.execute_complete(context_of(store=store), event)
    assert document["objects"] == [["db", "u", "", "x"]]
    assert [held.describe() for held in client.leases.list_lease()] == ["db.u"]


@pytest.mark.parametrize(
    ("kind", "told"), [("MetastoreUnavailableError", AirflowException), ("InvalidArgumentsError", AirflowFailException)]
)
def test_a_wait_that_broke_off_says_why_and_not_that_others_were_first(conn_id, kind, told):
    event = {"status": "error", "type": kind, "message": "the reason"}
    with pytest.raises(told, match=f"^{kind}: the reason$") as failed:
        grab(conn_id, wait=60).execute_complete(context_of(), event)
    assert type(failed.value) is told


def test_a_trigger_that_starts_over_finds_what_was_granted(conn_id, client):
    held = client.leases.grab_lease("db.t", 60)
    with pytest.raises(TaskDeferred) as deferred:
        grab(conn_id, wait=60, deferrable=True).execute(context_of())
    client.leases.drop_lease(held)
    path, arguments = deferred.value.trigger.serialize()
    first, second = (events_of(import_string(path)(**arguments))[0] for _ in range(2))
    assert first["lease"]["lease_id"] == second["lease"]["lease_id"]


def test_a_deferred_wait_gives_up_and_leaves_the_queue(conn_id, client):
    held = client.leases.grab_lease("db.t", 60, user="ann")
    trigger = LeaseGrantedTrigger(
        ["db.t"], "x", 60, "me", crossing.seal_secret(client, "A" * 42 + "E"), until=1.0, hive_acid_conn_id=conn_id
    )
    (event,) = events_of(trigger)
    assert event["status"] == "timeout"
    with pytest.raises(AirflowException, match=f"LeaseAlreadyExistsError: .*lease {held.lease_id}"):
        grab(conn_id, wait=5).execute_complete(context_of(), event)
    client.leases.drop_lease(held)
    assert client.leases.grab_lease("db.t", 60)


def test_killing_a_task_that_waits_makes_way_for_those_behind(conn_id, client):
    held = client.leases.grab_lease("db.t", 60)
    with pytest.raises(TaskDeferred) as deferred:
        grab(conn_id, wait=60, deferrable=True).execute(context_of())
    client.leases.drop_lease(held)
    with pytest.raises(LeaseAlreadyExistsError):
        client.leases.grab_lease("db.t", 60)
    asyncio.run(deferred.value.trigger.on_kill())
    assert client.leases.grab_lease("db.t", 60)


def test_killing_a_trigger_that_was_granted_drops_the_lease(conn_id, client):
    trigger = LeaseGrantedTrigger(
        ["db.t"], "x", 60, "me", crossing.seal_secret(client, "A" * 42 + "E"), hive_acid_conn_id=conn_id
    )
    events_of(trigger)
    assert len(client.leases.list_lease()) == 1
    asyncio.run(trigger.on_kill())
    assert client.leases.list_lease() == []


@pytest.mark.parametrize(
    ("state", "goes_on", "duration", "left"),
    [
        ("failed", False, 60, 0),
        ("success", True, 60, 1),
        ("success", False, 60, 0),
        ("success", False, 86_400, 1),
    ],
)
def test_killing_a_trigger_that_started_over_drops_what_the_one_before_was_granted(
    conn_id, client, monkeypatch, state, goes_on, duration, left
):
    """
    t1  a triggerer is granted the lease, and dies before it can say so, or another one says so for it
    t2  a trigger of the same task is ended before its first look
    t3  of a task that was failed nobody uses the lease; of one that has gone on and succeeded others may.
        One that was marked as a success while it waited has not gone on: nobody has extended the lease.
        Whether a lease of the longest duration was gone on with does not show
    """
    trigger, again = (
        LeaseGrantedTrigger(["db.t"], "x", duration, "me", sealed, hive_acid_conn_id=conn_id)
        for sealed in [crossing.seal_secret(client, "A" * 42 + "E")] * 2
    )
    (event,) = events_of(trigger)
    assert len(client.leases.list_lease()) == 1
    if goes_on:
        grab(conn_id, duration=duration).execute_complete(context_of(), event)
    again.task_instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1)
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **_: {"r": {"t": state}})
    asyncio.run(again.on_kill())
    assert len(client.leases.list_lease()) == left


def test_a_lease_that_ended_before_the_task_got_a_slot_is_tried_for_again(conn_id, client):
    document = grab(conn_id, duration=60).execute(context_of())
    client.leases.force_drop_lease("db.t", "root", "test")
    with pytest.raises(AirflowException, match="before this task got a slot") as told:
        grab(conn_id).execute_complete(context_of(), {"status": "success", "lease": document})
    assert not isinstance(told.value, AirflowFailException)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"objects": ["t"]}, "is no table name"),
        ({"objects": ["db.t", "db.T"]}, "named twice"),
        ({"type": "w"}, "is no lease type"),
        ({"duration": 1e9}, "hive.acid.lease.max.time"),
    ],
)
def test_what_cannot_be_leased_fails_at_once(conn_id, arguments, words):
    given = {"objects": "db.t", **arguments}
    with pytest.raises(AirflowFailException, match=words):
        HiveAcidGrabLeaseOperator(task_id="g", hive_acid_conn_id=conn_id, **given).execute(context_of())


def test_times_and_objects_that_are_none_fail_when_the_dag_is_parsed():
    with pytest.raises(ValueError, match="objects of task g is an empty list; give the tables or partitions to lease"):
        HiveAcidGrabLeaseOperator(task_id="g", objects=[])
    with pytest.raises(ValueError, match="duration of task g is 0; give a number of seconds"):
        HiveAcidGrabLeaseOperator(task_id="g", objects="db.t", duration=0)
    with pytest.raises(ValueError, match="wait of task g is -1; give a number of seconds"):
        HiveAcidGrabLeaseOperator(task_id="g", objects="db.t", wait=-1)
    with pytest.raises(ValueError, match="poll_interval of task g"):
        HiveAcidGrabLeaseOperator(task_id="g", objects="db.t", poll_interval=11)


def test_the_sensor_waits_for_leases_that_exclude_its_type_and_names_them_when_it_gives_up(conn_id, client):
    def sensor(**arguments):
        return HiveAcidLeaseSensor(
            task_id="s", objects="db.t", hive_acid_conn_id=conn_id, **{"timeout": 0, "poke_interval": 0.01, **arguments}
        )

    shared = client.leases.grab_lease("db.t/p=1", 60, lease_type="s", user="ann")
    assert sensor(type="s").poke(context_of()) is True
    says = rf"still waiting for 1 lease: lease {shared.lease_id} \(s\) of ann on db.t/p=1 until "
    with pytest.raises(AirflowSensorTimeout, match=f"(?i){says}"):
        sensor(deferrable=False).execute(context_of())
    with pytest.raises(AirflowSkipException, match=f"(?i){says}"):
        sensor(soft_fail=True, deferrable=False).execute(context_of())
    with pytest.raises(TaskDeferred) as deferred:
        sensor().execute(context_of())
    (event,) = events_of(deferred.value.trigger)
    with pytest.raises(AirflowSensorTimeout, match=f"(?i)gave up after 0 s, {says}"):
        sensor().resume_execution("execute_complete", {"event": event}, context_of())
    with pytest.raises(AirflowSkipException):
        sensor(soft_fail=True).resume_execution("execute_complete", {"event": event}, context_of())
    client.leases.drop_lease(shared)
    (event,) = events_of(LeasesEndedTrigger(["db.t"], "x", None, conn_id))
    sensor().execute_complete(context_of(), event)
    with pytest.raises(AirflowFailException, match="is no lease type"):
        sensor(type="z").poke(context_of())


def test_triggers_survive_the_journey(client):
    for trigger in (
        LeaseGrantedTrigger(["db.t"], "s", 60.0, "u", "sealed", 5, 1.5, "other", 1.0),
        LeasesEndedTrigger(["db.t"], "s", 1.5, "other", 1.0),
    ):
        path, arguments = trigger.serialize()
        assert import_string(path)(**json.loads(json.dumps(arguments))).serialize() == (path, arguments)


class FakeEngine:
    """Looks at the lease it is given."""

    def __init__(self, client):
        self.client = client
        self.seen: list[Any] = []
        self.cancelled = threading.Event()
        self.works_until_cancelled = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, sql, *, lease=None, **_):
        self.seen.append(None if lease is None else self.client.leases.confirm_lease(lease))
        if self.works_until_cancelled:
            self.client.leases.force_drop_lease("db.t", "root", "test")
            assert self.cancelled.wait(60)
            raise JobFailedError("the Spark application was cancelled")
        return []

    def cancel(self):
        self.cancelled.set()


def test_statements_of_a_task_run_under_the_lease_it_is_given(conn_id, client, monkeypatch):
    engine = FakeEngine(client)
    monkeypatch.setattr(HiveAcidHook, "get_engine", lambda self, agent_info: engine)
    monkeypatch.setattr(HiveAcidHook, "acknowledge", lambda self, once: None)
    document = grab(conn_id).execute(context_of())

    def operator(lease):
        return HiveAcidOperator(task_id="o", sql="SELECT 1", lease=lease, hive_acid_conn_id=conn_id)

    operator(document).execute(context_of())
    operator(None).execute(context_of())
    assert engine.seen == [True, None]
    assert client.leases.list_lease() != []
    client.leases.force_drop_lease("db.t", "root", "test")
    with pytest.raises(AirflowFailException, match="LeaseEndedError"):
        operator(document).execute(context_of())
    assert len(engine.seen) == 2


@pytest.mark.parametrize("came_out", [None, "None"])
def test_a_task_whose_lease_was_not_granted_does_nothing_without_it(conn_id, client, tables, monkeypatch, came_out):
    """
    t1  the grab waits; somebody marks it as a success, so that it returns nothing
    t2  the task that is given its output would work unprotected
    """
    engine = FakeEngine(client)
    monkeypatch.setattr(HiveAcidHook, "get_engine", lambda self, agent_info: engine)
    monkeypatch.setattr(HiveAcidHook, "acknowledge", lambda self, once: None)

    def tasks(lease):
        return [
            HiveAcidOperator(task_id="o", sql="SELECT 1", lease=lease, hive_acid_conn_id=conn_id),
            HiveAcidCompactOperator(task_id="c", table="db.u", lease=lease, hive_acid_conn_id=conn_id),
        ]

    for task in tasks("{{ ti.xcom_pull('grab') }}"):
        task.lease = came_out
        with pytest.raises(AirflowFailException, match=r"lease came out as None: .* Clear that task"):
            task.execute(context_of())
    assert engine.seen == []
    assert client.compactions.show() == []
    for task in tasks("{{ ti.xcom_pull('grab') or '' }}"):
        task.lease = ""
        task.execute(context_of())
    assert engine.seen == [None]


def test_a_job_is_stopped_when_its_lease_is_lost(conn_id, client, monkeypatch):
    engine = FakeEngine(client)
    engine.works_until_cancelled = True
    monkeypatch.setattr(HiveAcidHook, "get_engine", lambda self, agent_info: engine)
    document = grab(conn_id, duration=0.9).execute(context_of())
    with pytest.raises(AirflowFailException, match="LeaseEndedError"):
        HiveAcidOperator(task_id="o", sql="SELECT 1", lease=document, hive_acid_conn_id=conn_id).execute(context_of())


def test_the_hook_holds_a_lease_for_a_block(conn_id, client, masked):
    with HiveAcidHook(conn_id) as hook, hook.lease(["db.t", "db.u"], type="s", user="ann") as held:
        assert {each.user for each in client.leases.list_lease()} == {"ann"}
        assert held.lease.secret in masked
        held.require()
    assert client.leases.list_lease() == []
    with pytest.raises(ZeroDivisionError), HiveAcidHook(conn_id) as hook, hook.lease("db.t"):
        _ = 1 / 0
    assert client.leases.list_lease() == []


@pytest.fixture
def in_task(monkeypatch):
    """As if a task ran: templates render to upper case."""
    task = SimpleNamespace(render_template=lambda objects, context: [text.replace("{{ ds }}", "1") for text in objects])
    store = Store()
    monkeypatch.setattr(operators, "get_current_context", lambda: {**context_of(store=store), "task": task})
    return store


def test_a_decorated_task_runs_under_a_lease(conn_id, client, in_task):
    @lease_on("db.t/ds={{ ds }}", type="s", hive_acid_conn_id=conn_id)
    def work(number, lease=None):
        """Does it."""
        (held,) = client.leases.list_lease()
        return number, held.describe(), held.lease_id == lease.lease_id, held.user

    assert work(5) == (5, "db.t/ds=1", True, "airflow/d/r/t#1")
    assert client.leases.list_lease() == []
    import inspect

    assert (work.__name__, work.__doc__, list(inspect.signature(work).parameters)) == ("work", "Does it.", ["number"])


@pytest.mark.rule("R5")
def test_a_retry_of_a_decorated_task_fences_the_try_that_still_lives(conn_id, client, in_task):
    """
    t1  try 1 works under its lease, and is cut off from Airflow
    t2                 try 2: drops that lease, takes its own, and works
    t3  try 1 finds every verb refused
    """
    secret = crossing.secret_of_task(client, {**context_of(), "task_state_store": in_task}, ["db.t"], "x", resume=False)
    first = client.leases.grab_lease("db.t", 600, secret=secret)
    ids = []

    @lease_on("db.t", hive_acid_conn_id=conn_id)
    def work(lease=None):
        ids.append(lease.lease_id)
        with pytest.raises(LeaseEndedError):
            client.leases.extend_lease(first)

    work()
    assert len(ids) == 1
    assert ids[0] > first.lease_id


def test_a_decorated_task_that_gets_no_lease_does_nothing(conn_id, client, in_task):
    client.leases.grab_lease("db.t", 60)
    ran = threading.Event()

    @lease_on("db.t", hive_acid_conn_id=conn_id)
    def work():
        ran.set()

    with pytest.raises(AirflowException, match="LeaseAlreadyExistsError"):
        work()
    assert not ran.is_set()


def test_a_decorated_task_whose_lease_was_taken_fails(conn_id, client, in_task):
    @lease_on("db.t", hive_acid_conn_id=conn_id)
    def work():
        client.leases.force_drop_lease("db.t", "root", "test")

    with pytest.raises(AirflowFailException, match="LeaseEndedError"):
        work()
