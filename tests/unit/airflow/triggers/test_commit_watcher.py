"""Watchers in the triggerer's own shared stream: killed at every step, no commit is lost, none is told twice unsaid.

The stream is Airflow's (``SharedStreamManager``). Around it stands a triggerer of a few lines: it stores events and
confirms them, and it can be killed between any two things that outlive it: a watermark kept, an event stored.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from airflow.sdk.module_loading import import_string

from airflow_hive_acid.airflow_versions import AdvanceItem, AdvanceOutcome
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.hooks.assets import commits
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.listing.commit_log import CommitLog
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG, NOTIFICATION_SEQUENCE
from airflow_hive_acid.triggers import commits as watching
from airflow_hive_acid.triggers.commits import CommitProducer, HiveAcidCommitTrigger, Look, Position

try:
    from airflow.triggers.shared_stream import SharedStreamManager
except ModuleNotFoundError:
    SharedStreamManager = None

TABLE, PARTITION, OTHER = "db.t", "db.t/k=a", "db.u"


class Killed(BaseException):
    """The triggerer was killed here."""


class World:
    """What outlives a triggerer: Airflow's store and its asset events; and where the next one is killed.

    :param kill_at: number of the step at which the triggerer dies; None: it does not.
    """

    def __init__(self):
        self.kept = {}
        self.events = []
        self.steps = 0
        self.kill_at = None
        self.dead = False

    def step(self):
        if self.dead:
            raise Killed
        self.steps += 1
        if self.steps == self.kill_at:
            self.dead = True
            raise Killed

    def start(self, kill_at=None):
        self.steps, self.kill_at, self.dead = 0, kill_at, False

    def told(self, who):
        return [payload for name, payload in self.events if name == who]


class Store:
    """``asset_state_store`` of one watcher."""

    def __init__(self, world, who):
        self.world, self.who = world, who

    async def aget(self, key):
        self.world.step()
        return json.loads(self.world.kept.get((self.who, key), "null"))

    async def aset(self, key, value):
        self.world.step()
        self.world.kept[self.who, key] = json.dumps(value)
        self.world.step()


class Triggerer:
    """One life of a triggerer."""

    def __init__(self, world, conn_id, triggers=None):
        if SharedStreamManager is None:
            pytest.skip("Airflow shares the streams of triggers since 3.3")
        self.world = world
        self.manager = SharedStreamManager()
        self.outbound = asyncio.Queue()
        self.triggers = triggers or {
            TABLE: HiveAcidCommitTrigger("db.t", hive_acid_conn_id=conn_id),
            PARTITION: HiveAcidCommitTrigger("db.t", "k=a", hive_acid_conn_id=conn_id),
            OTHER: HiveAcidCommitTrigger("db.u", operations=["insert"], hive_acid_conn_id=conn_id),
        }

    async def run_trigger(self, number, who):
        path, arguments = self.triggers[who].serialize()
        trigger = self.triggers[who] = import_string(path)(**json.loads(json.dumps(arguments)))
        trigger.asset_state_store = Store(self.world, who)
        key = trigger.shared_stream_key()
        stream = self.manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        try:
            async for event in trigger.filter_shared_stream(stream):
                seq = self.manager.bind_pending_event(trigger_id=number, key=key)
                assert seq is not None, "told while nothing would confirm it"
                self.outbound.put_nowait((who, event.payload, seq))
        finally:
            await self.manager.unsubscribe(number, key)

    async def store_events(self):
        while True:
            who, payload, seq = await self.outbound.get()
            self.world.step()
            self.world.events.append((who, json.loads(json.dumps(payload))))
            self.world.step()
            self.manager.confirm_persisted([seq])

    def settled(self):
        """Every watcher has kept that Airflow has all it told."""
        kept = [Position.from_document(json.loads(text)) for text in self.world.kept.values()]
        return len(kept) == len(self.triggers) and all(p.upto == p.telling for p in kept) and self.outbound.empty()

    async def live(self, until):
        """Run until a condition holds, or until it is killed."""
        tasks = [asyncio.create_task(self.run_trigger(n, who)) for n, who in enumerate(self.triggers)]
        tasks.append(asyncio.create_task(self.store_events()))
        try:
            async with asyncio.timeout(60):
                while not self.world.dead and not (until(self) and self.settled()):
                    for task in tasks:
                        # A group that Airflow ends because a store failed is the end of its triggers, too.
                        if task.done() and not self.world.dead:
                            task.result()
                    await asyncio.sleep(0.002)
        finally:
            self.world.dead = True  # nothing outlives it any more
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.manager.stop_all()


@pytest.fixture
def conn_id(conn_id, monkeypatch):
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.005)
    return conn_id


def write(client, partition=None, operation="insert"):
    table = "db.t" if partition else "db.u"
    with client.begin({table: operation}, partitioned=[table] if partition else []) as txn:
        if partition:
            txn.add_partitions(table, [partition])
        return txn.txn_id


def live(world, conn_id, until=lambda triggerer: True, triggers=None):
    try:
        asyncio.run(Triggerer(world, conn_id, triggers).live(until))
    except Killed:
        assert world.kill_at is not None


def wanted(world, expected):
    """Whether everybody was told everything."""
    return lambda _: all(set(txns) <= {p.get("txn_id") for p in world.told(who)} for who, txns in expected.items())


def begun(client, conn_id):
    """A world whose watchers have been there, and commits from while they were away."""
    world = World()
    world.start()
    live(world, conn_id)
    assert world.events == []
    a, b, u = write(client, "k=a"), write(client, "k=b"), write(client)
    write(client, operation="delete")
    return world, {TABLE: [a, b], PARTITION: [a], OTHER: [u]}


@pytest.mark.every_database
def test_commits_while_nobody_watched_are_told_once_with_their_data(tables, conn_id):
    world, expected = begun(tables, conn_id)
    world.start()
    live(world, conn_id, wanted(world, expected))
    for who, txns in expected.items():
        assert [p["txn_id"] for p in world.told(who)] == txns
    first = world.told(PARTITION)[0]
    assert (first["kind"], first["table"], first["partitions"], first["operations"], first["conn_id"]) == (
        "commit", "db.t", ["k=a"], ["insert"], "acid",
    )  # fmt: skip
    assert not any(payload["redelivered"] for _, payload in world.events)
    # A triggerer that ends in peace and comes back tells nothing anew, and goes on.
    world.start()
    live(world, conn_id)
    assert len(world.events) == 4
    later = write(tables, "k=b")
    world.start()
    live(world, conn_id, wanted(world, {TABLE: [later]}))
    assert [p["txn_id"] for p in world.told(TABLE)] == [*expected[TABLE], later]
    assert len(world.events) == 5


def test_a_partition_is_watched_however_its_value_is_written(tables, conn_id):
    """``d=2024-1-2`` of a DATE was compared as a text, and its watcher heard of nothing."""
    tables.catalog.create_table(TableDefinition("db", "d", (Column("a", "int"),), (Column("d", "date"),)))
    triggers = {"db.d": HiveAcidCommitTrigger("db.d", "d=2024-1-2", hive_acid_conn_id=conn_id)}
    world = World()
    world.start()
    live(world, conn_id, triggers=triggers)
    txns = []
    for day in ("2024-01-02", "2024-01-03", "2024-01-02"):
        with tables.begin({"db.d": "insert"}, partitioned=["db.d"]) as txn:
            txn.add_partitions("db.d", [f"d={day}"])
            txns.append(txn.txn_id)
    world.start()
    live(world, conn_id, wanted(world, {"db.d": [txns[0], txns[2]]}), triggers)
    assert [p["txn_id"] for p in world.told("db.d")] == [txns[0], txns[2]]


def test_killed_at_every_step_loses_nothing_and_tells_twice_only_what_it_says_so(tables, conn_id, caplog):
    caplog.set_level(logging.CRITICAL)
    world, expected = begun(tables, conn_id)
    before = dict(world.kept)
    world.start()
    live(world, conn_id, wanted(world, expected))
    number, deaths, repeated = world.steps, 0, 0
    assert number > 20
    for kill_at in range(1, number + 1):
        world.kept, world.events = dict(before), []
        world.start(kill_at)
        live(world, conn_id, wanted(world, expected))
        deaths += world.steps == kill_at
        world.start()
        live(world, conn_id, wanted(world, expected))
        for who, txns in expected.items():
            told = world.told(who)
            assert set(txns) == {p["txn_id"] for p in told}, f"killed at step {kill_at}"
            unsaid = Counter(p["txn_id"] for p in told if not p["redelivered"])
            assert max(unsaid.values(), default=0) <= 1, f"killed at step {kill_at}: told twice without a word"
            repeated += len(told) - len(txns)
            run = {who: [SimpleNamespace(extra={"payload": p}) for p in told]}
            assert [c["txn_id"] for c in commits(run)] == txns
    assert deaths >= number // 2, "the triggerer was not killed where it should be"
    assert repeated, "an event was stored and not confirmed at some step; who restarts cannot know"


def test_watcher_that_comes_late_catches_up_by_itself_page_by_page(tables, conn_id, monkeypatch):
    """
    t1  a watcher has kept its watermark
    t2  many commits
    t3  the triggerer starts; the stream begins at the end of the log
    """
    monkeypatch.setattr(watching, "_PAGES_AT_ONCE", 1)
    monkeypatch.setattr(watching, "_new_log", lambda client: CommitLog(client.database, client.notifications, page=3))
    world, expected = begun(tables, conn_id)
    expected = {TABLE: [*expected[TABLE], *(write(tables, "k=b") for _ in range(7))], PARTITION: expected[PARTITION]}
    world.start()
    live(world, conn_id, wanted(world, expected))
    assert [p["txn_id"] for p in world.told(TABLE)] == expected[TABLE]
    assert [p["txn_id"] for p in world.told(PARTITION)] == expected[PARTITION]


def test_commits_while_the_watchers_run_are_told_once(tables, conn_id):
    world = World()
    world.start()
    written = []

    def until(triggerer):
        if len(written) < 5 and triggerer.settled() and len(world.told(TABLE)) == len(written):
            written.append(write(tables, "k=b"))
        return len(world.told(TABLE)) >= 5

    live(world, conn_id, until)
    assert [p["txn_id"] for p in world.told(TABLE)] == written
    assert world.told(PARTITION) == []


def test_purged_log_is_an_event_of_its_own(tables, conn_id):
    world, _ = begun(tables, conn_id)
    latest = tables.notifications.current_event_id()
    with tables.database.transaction() as connection:
        connection.execute(sa.delete(NOTIFICATION_LOG))
    world.start()
    live(world, conn_id, lambda _: len(world.events) >= 3)
    for who in (TABLE, PARTITION, OTHER):
        (gap,) = world.told(who)
        assert (gap["kind"], gap["table"], gap["redelivered"]) == ("gap", who.partition("/")[0], False)
        assert (gap["missed"]["last"], gap["missed"]["reason"]) == (latest, "purged before they were read")
    fresh = write(tables, "k=a")
    world.start()
    live(world, conn_id, wanted(world, {TABLE: [fresh]}))
    assert [p["txn_id"] for p in world.told(TABLE) if p["kind"] == "commit"] == [fresh]


def test_log_that_begins_anew_is_an_event_of_its_own(tables, conn_id):
    world, _ = begun(tables, conn_id)
    with tables.database.transaction() as connection:
        connection.execute(sa.delete(NOTIFICATION_LOG))
        connection.execute(sa.update(NOTIFICATION_SEQUENCE).values(NEXT_EVENT_ID=2))
    world.start()
    live(world, conn_id, lambda _: len(world.events) >= 3)
    assert {p["missed"]["reason"] for _, p in world.events} == {"the log begins anew"}
    fresh = write(tables, "k=a")
    world.start()
    live(world, conn_id, wanted(world, {TABLE: [fresh], PARTITION: [fresh]}))
    assert [p["txn_id"] for p in world.told(TABLE) if p["kind"] == "commit"] == [fresh]


@pytest.mark.every_database
def test_log_of_a_backup_that_has_gone_on_past_the_watermark_is_an_event_of_its_own(tables, conn_id):
    """
    t1  the watchers keep how far they are, and the triggerer ends
    t2  the metastore is restored, and others write: the ids of its log are past the watermark again
    """
    world, _ = begun(tables, conn_id)
    with tables.database.transaction() as connection:
        later = NOTIFICATION_LOG.c.EVENT_TIME + 60
        connection.execute(sa.update(NOTIFICATION_LOG).values(EVENT_TIME=later))
    latest = tables.notifications.current_event_id()
    world.start()
    live(world, conn_id, lambda _: len(world.events) >= 3)
    assert [(p["kind"], p["missed"]) for _, p in world.events] == [
        ("gap", {"first": 1, "last": latest, "reason": "the log begins anew"})
    ] * 3
    fresh = write(tables, "k=a")
    world.start()
    live(world, conn_id, wanted(world, {TABLE: [fresh], PARTITION: [fresh]}))
    assert [p["txn_id"] for p in world.told(TABLE) if p["kind"] == "commit"] == [fresh]


@pytest.mark.backends("sqlite")
def test_stream_over_a_log_of_a_backup_ends_so_that_its_watchers_begin_again(tables, conn_id):
    """Each of them finds at its watermark that the log is another one."""

    async def story():
        stream = CommitProducer(conn_id).open_stream()
        first = asyncio.create_task(anext(stream))
        while not first.done():
            await asyncio.to_thread(write, tables, "k=a")
        with tables.database.transaction() as connection:
            later = NOTIFICATION_LOG.c.EVENT_TIME + 60
            connection.execute(sa.update(NOTIFICATION_LOG).values(EVENT_TIME=later))
        await anext(stream)

    with pytest.raises(InvalidArgumentsError, match="begins anew; so do its watchers"):
        asyncio.run(asyncio.wait_for(story(), 60))


def test_watermark_of_a_quiet_table_moves_with_the_others_commits(tables, conn_id, monkeypatch):
    monkeypatch.setattr(watching, "_KEEP_SECONDS", 0.0)
    world, _ = begun(tables, conn_id)
    latest = tables.notifications.current_event_id()
    world.start()
    live(world, conn_id, lambda _: all(json.loads(text)["upto"] == latest for text in world.kept.values()))


@pytest.mark.backends("sqlite")
def test_stream_that_ends_in_failure_keeps_no_watermark():
    trigger = HiveAcidCommitTrigger("db.t")
    look = Look(page=None, receipts={trigger: 9})
    failed = AdvanceItem(look, AdvanceOutcome(acked=1, failed=1))
    with pytest.raises(InvalidArgumentsError, match="told again"):
        asyncio.run(CommitProducer("c").advance([failed]))


@pytest.mark.backends("sqlite")
def test_without_shared_streams_it_runs_alone(tables, conn_id):
    async def story():
        trigger = HiveAcidCommitTrigger("db.t", hive_acid_conn_id=conn_id)
        running = trigger.run()
        first = asyncio.create_task(anext(running))
        while trigger._position is None:
            await asyncio.sleep(0.002)
        written = await asyncio.to_thread(write, tables, "k=a")
        payload = (await asyncio.wait_for(first, 60)).payload
        await running.aclose()
        return written, payload["txn_id"]

    written, told = asyncio.run(story())
    assert told == written


@pytest.mark.backends("sqlite")
def test_watchers_tell_nothing_where_operators_do(tables, conn_id, monkeypatch, caplog):
    """So no asset is told of a commit twice."""

    async def pause(seconds):
        raise asyncio.CancelledError

    monkeypatch.setattr(
        HiveAcidHook,
        "client_of",
        lambda connection: SimpleNamespace(
            settings=SimpleNamespace(string=lambda key: "operators"), close=lambda: None
        ),
    )
    monkeypatch.setattr(watching.asyncio, "sleep", pause)

    async def story():
        async for _ in CommitProducer(conn_id).open_stream():
            raise AssertionError("told")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(story())
    assert "hive.acid.commit.events is 'operators' there, so operators tell of their commits" in caplog.text


@pytest.mark.backends("sqlite")
def test_watermark_that_is_none_of_ours_is_no_watermark():
    assert Position.from_document({"upto": 5, "telling": 9}) == Position(5, 9)
    assert Position.from_document({"upto": 5}) == Position(5, 5)
    assert Position.from_document({"upto": 5, "telling": 9, "time": 7}) == Position(5, 9, 7)
    assert Position.from_document(Position(5, 9, 7).to_document()) == Position(5, 9, 7)
    for document in (None, 5, "x", {}, {"upto": "5"}):
        assert Position.from_document(document) is None
