"""The cycle: what it does in which order, and that one which ends anywhere is done again by the next.

The metastores and their events are real; what tasks do is made up: a destination is a dict of state ids, which never
goes back (R27 of what peers are tested for).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    ActionRefusedError,
    HiveAcidError,
    NoSuchObjectError,
    ReplicationBusyError,
    ReplicationGapError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.schema.hive_transactions import NOTIFICATION_LOG, NOTIFICATION_SEQUENCE
from airflow_hive_acid.replication.cycles.runner import Applied, Parts, destination_clock, has_news, run_cycle
from airflow_hive_acid.replication.events.event import EventKind, ReplicationEvent
from airflow_hive_acid.replication.events.tasks import (
    DropTableCommand,
    ImportCommand,
    NoOp,
    ReplicationTask,
    SyncAcidCommand,
)
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.policies.state import Phase, PolicyRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_hive_acid.replication.cycles.runner import CycleReport
    from airflow_hive_acid.replication.events.unreadable import Reread
    from airflow_hive_acid.replication.site import Site

POLICY = policy(
    {"name": "sales", "source": "primary", "destination": "replica", "databases": ["sales"], "exclude": ["sales.tmp"]}
)
A, B, ACID = TableName("sales", "a"), TableName("sales", "b"), TableName("sales", "acid")


class CrashError(BaseException):
    """The process ends here; nobody may catch it."""


@dataclass
class StopAt:
    """Ends a cycle at one of its steps, counted from 0."""

    left: int

    def __call__(self, name: str) -> None:
        if self.left == 0:
            raise CrashError(name)
        self.left -= 1


@dataclass
class Destination:
    """Tables with their state ids, and what was done to them; a state never goes back."""

    source: Site
    states: dict[TableName, int] = field(default_factory=dict)
    work: list[str] = field(default_factory=list)
    databases: tuple[str, ...] = ("sales",)

    def _bring(self, table: TableName, word: str, event_id: int) -> list[Applied]:
        if not self.source.client.catalog.find_tables([str(table)]):
            return [Applied(table, "gone at the source by now", done=False)]
        now = self.source.client.notifications.current_event_id()
        if self.states.get(table, -1) >= event_id:
            return [Applied(table, "as new already", done=False)]
        self.states[table] = now
        self.work.append(f"{word} {table.name}")
        return [Applied(table, word, state_id=now, bytes=10, files=1)]

    def tables(self) -> list[TableName]:
        names = self.source.client.catalog.list_tables("sales")
        return [t for n in names if POLICY.selects(t := TableName("sales", n))]

    def begin_anew(self) -> None:
        self.states.clear()

    def require_databases(self, tables: Iterable[TableName]) -> None:
        for table in tables:
            if table.database not in self.databases:
                raise NoSuchObjectError(f"database {table.database} does not exist at replica; create it there first")

    def copy_table(self, table: TableName, event_id: int) -> list[Applied]:
        return self._bring(table, "copied", event_id)

    def drop_others(self, tables: Iterable[TableName], event_id: int) -> list[Applied]:
        gone = sorted(set(self.states) - set(tables))
        for table in gone:
            del self.states[table]
        return [Applied(table, "dropped", dropped=True) for table in gone]

    def read_again(self, wanted: Reread) -> list[Applied]:
        tables = self.tables()
        gone = self.drop_others(tables, wanted.event_id) if wanted.names else []
        mine = {t for t in tables if t in wanted.tables or (wanted.names and t not in self.states)}
        return gone + [
            one for t in sorted(mine - set(self.acid_tables(mine))) for one in self._bring(t, "read", wanted.event_id)
        ]

    def run(self, tasks: Sequence[ReplicationTask]) -> list[Applied]:
        return [one for task in tasks for one in self._run(task)]

    def _run(self, task: ReplicationTask) -> list[Applied]:
        (command,) = task.destination
        if isinstance(command, DropTableCommand):
            if self.states.get(command.table, command.event_id) >= command.event_id:
                return [Applied(command.table, "kept: as new already", done=False)]
            del self.states[command.table]
            self.work.append(f"dropped {command.table.name}")
            return [Applied(command.table, "dropped", dropped=True)]
        assert isinstance(command, ImportCommand)
        return self._bring(command.table, "imported", command.event_id)

    def acid_tables(self, tables: Iterable[TableName]) -> list[TableName]:
        found = self.source.client.catalog.find_tables(map(str, tables))
        return [TableName(t.db, t.name) for t in found.values() if t.is_transactional]

    def changed_acid_tables(self) -> frozenset[TableName]:
        return frozenset({ACID})

    def sync(self, tables: Sequence[TableName], event_id: int) -> list[Applied]:
        return [one for table in tables for one in self._bring(table, "synced", event_id)]

    def finish(self) -> list[str]:
        return []


def create(events: Sequence[ReplicationEvent]) -> Iterable[ReplicationTask]:
    """Tasks of the made-up destination; syncs come last, as one would merge them."""
    syncs = []
    for event in events:
        table = event.table
        if event.kind is EventKind.DROP_TABLE and table is not None:
            yield ReplicationTask(
                (event.event_id,), event.kind, event.about, (), (DropTableCommand(table, event.event_id),)
            )
        elif event.transactional or event.kind is EventKind.COMMIT_TXN:
            tables = frozenset() if table is None else frozenset({table})
            syncs.append(SyncAcidCommand(tables, frozenset(event.txn_ids), None, event.event_id))
        elif table is not None and event.kind in (EventKind.CREATE_TABLE, EventKind.ALTER_TABLE):
            command = ImportCommand(table, (), "file:/x", False, event.event_id)
            yield ReplicationTask((event.event_id,), event.kind, event.about, (), (command,))
        else:
            yield ReplicationTask((event.event_id,), event.kind, event.about, (), (NoOp("a test"),))
    for sync in syncs:
        yield ReplicationTask((sync.event_id,), EventKind.COMMIT_TXN, "acid", (), (sync,))


@dataclass
class Replication:
    """Both sites and what runs between them."""

    primary: Site
    replica: Site
    at: Destination
    one: object = POLICY

    def cycle(
        self, step: Callable[[str], None] = lambda _: None, *, page: int = 3, again: bool = False, one: object = POLICY
    ) -> CycleReport:
        parts = Parts(
            self.primary.client.notifications, create, self.at, destination_clock(self.replica), step, page=page
        )
        return run_cycle(one, self.primary, self.replica, parts, holder="a test", again=again)  # type: ignore[arg-type]

    @property
    def record(self) -> PolicyRecord:
        return PolicyRecord(self.replica.client.database, "sales")

    def table(self, name: str, **properties: str) -> None:
        definition = TableDefinition("sales", name, (Column("id", "int"),), properties=properties)
        self.primary.client.catalog.create_table(definition)

    def plain(self, name: str) -> None:
        self.table(name, transactional="false")

    def drop(self, name: str) -> None:
        self.primary.client.catalog.drop_table(f"sales.{name}")

    @property
    def current(self) -> int:
        return self.primary.client.notifications.current_event_id()


@pytest.fixture
def replication(primary: Site, replica: Site) -> Replication:
    primary.client.catalog.create_database("sales")
    primary.client.catalog.create_database("hr")
    return Replication(primary, replica, Destination(primary))


@pytest.mark.every_database
def test_the_first_cycle_copies_everything_and_the_next_follow_the_events(replication: Replication) -> None:
    for name in ("a", "b", "tmp"):
        replication.plain(name)
    replication.table("acid")
    first = replication.cycle()
    assert replication.at.work == ["copied a", "copied b", "synced acid"]
    assert (first.first, first.position, first.current, first.files) == (
        True,
        replication.current,
        replication.current,
        3,
    )
    state = replication.record.read()
    assert state is not None
    assert (state.phase, state.position, state.error, state.is_running) == (
        Phase.INCREMENTAL, replication.current, None, False,
    )  # fmt: skip
    assert [(o.source, o.said) for o in replication.record.objects()] == [
        ("sales.a", "copied"), ("sales.acid", "synced"), ("sales.b", "copied"),
    ]  # fmt: skip
    assert not has_news(state, replication.primary.client.notifications)

    replication.at.work.clear()
    replication.drop("b")
    replication.drop("tmp")
    replication.plain("c")
    with replication.primary.client.transaction({"sales.acid": "insert"}):
        pass
    assert has_news(state, replication.primary.client.notifications)
    second = replication.cycle()
    assert replication.at.work == ["dropped b", "imported c", "synced acid"]
    assert (second.first, second.before, second.position) == (False, state.position, replication.current)
    assert (second.tables, second.foreign) == (["sales.c", "sales.acid"], 1)
    assert [o.source for o in replication.record.objects()] == ["sales.a", "sales.acid", "sales.c"]
    third = replication.cycle()
    assert (third.events, third.tasks, third.position) == (0, 0, replication.current)


def test_a_cycle_that_is_killed_anywhere_is_done_again_by_the_next(replication: Replication) -> None:
    """Killed at its first step, at its second, and so on until it ends: always the same comes of it, and no event is
    lost."""
    for name in ("a", "b"):
        replication.plain(name)
    replication.table("acid")
    told = PolicyRecord(replication.replica.client.database, "sales")
    for phase in ("first", "following"):
        killed = 0
        while True:
            before = told.read()
            try:
                replication.cycle(StopAt(killed))
                break
            except CrashError:
                after = told.read()
                assert after is not None
                assert after.is_running
                assert phase == "first" or before is None or (before.position or 0) <= (after.position or 0)
            killed += 1
            if killed <= 3:  # something happens between the tries
                replication.plain(f"{phase}_{killed}")
        assert killed > 5
        assert set(replication.at.states) == set(replication.at.tables())
        state = told.read()
        assert state is not None
        assert (state.position, state.phase, state.is_running) == (replication.current, Phase.INCREMENTAL, False)
        replication.drop("b" if phase == "first" else "a")
        with replication.primary.client.transaction({"sales.acid": "insert"}):
            pass
    replication.cycle()
    assert set(replication.at.states) == set(replication.at.tables())


def test_the_position_does_not_pass_a_commit_before_its_tables_are_synced(replication: Replication) -> None:
    replication.table("acid")
    replication.cycle()
    before = replication.record.read()
    with replication.primary.client.transaction({"sales.acid": "insert"}):
        pass
    for number in range(6):
        replication.plain(f"t{number}")

    def crash(step: str) -> None:
        if step == "syncing":
            raise CrashError

    with pytest.raises(CrashError):
        replication.cycle(crash, page=2)
    after = replication.record.read()
    assert before is not None
    assert after is not None
    # Up to the event before: the txn's own opening asks for nothing.
    assert before.position is not None
    assert after.position is not None
    assert after.position <= before.position + 2
    assert replication.cycle(page=2).position == replication.current
    assert replication.at.work[-1] == "synced acid"


def test_what_is_gone_at_the_source_by_now_is_left_to_the_event_of_its_drop(replication: Replication) -> None:
    replication.cycle()
    replication.plain("a")
    replication.drop("a")
    report = replication.cycle()
    assert (replication.at.states, report.position) == ({}, replication.current)
    assert (report.tasks, report.applied) == (2, 0)


def test_a_missing_database_stops_the_cycle_where_it_is_and_says_so(replication: Replication) -> None:
    replication.plain("a")
    replication.at.databases = ()
    with pytest.raises(NoSuchObjectError, match="create it there first"):
        replication.cycle()
    state = replication.record.read()
    assert state is not None
    assert (state.phase, state.position, state.is_running) == (Phase.BOOTSTRAP, None, False)
    assert "NoSuchObjectError: database sales does not exist at replica" in (state.error or "")
    replication.at.databases = ("sales",)
    assert replication.cycle().position == replication.current


def test_events_that_nobody_knows_are_kept_and_reported(replication: Replication) -> None:
    replication.cycle()
    replication.plain("a")
    with replication.primary.client.database.transaction() as connection:
        connection.execute(
            sa.update(NOTIFICATION_LOG).where(NOTIFICATION_LOG.c.TBL_NAME == "a").values(EVENT_TYPE="MAKE_TEA")
        )
    report = replication.cycle()
    assert report.position == replication.current
    (kept,) = replication.record.kept_events()
    assert (kept.type, kept.database, kept.table) == ("MAKE_TEA", "sales", "a")
    assert kept.message
    assert "MAKE_TEA" in report.kept[0]
    assert "1 events kept" in str(report)
    assert replication.cycle().kept == []


def broken(replication: Replication, after: int, type_: str = "%", **values: object) -> None:
    """Messages after a position are not what their types promise."""
    log = NOTIFICATION_LOG
    change = sa.update(log).where(log.c.EVENT_ID > after, log.c.EVENT_TYPE.like(type_))
    with replication.primary.client.database.transaction() as connection:
        connection.execute(change.values(MESSAGE="{", **values))


@pytest.mark.backends("sqlite")
def test_the_table_of_a_message_that_cannot_be_read_is_read_anew(replication: Replication) -> None:
    """Of a known type: whatever it did, the table is at the source's state before the position passes it."""
    for name in ("a", "b"):
        replication.plain(name)
    replication.table("acid")
    first = replication.cycle()
    replication.at.work.clear()
    replication.drop("b")
    replication.plain("c")
    replication.primary.client.catalog.alter_properties("sales.acid", {"x": "y"})
    assert first.position is not None
    broken(replication, first.position)
    report = replication.cycle(page=10)
    assert report.position == replication.current
    assert set(replication.at.states) == {A, ACID, TableName("sales", "c")}
    assert all(s >= first.position for t, s in replication.at.states.items() if t != A)
    assert replication.at.states[A] <= first.position
    kept = {k.type: k.why for k in replication.record.kept_events()}
    assert "is not as Hive writes it" in kept["DROP_TABLE"]
    assert kept["DROP_TABLE"].endswith("read anew: sales.b")
    assert kept["ALTER_TABLE"].endswith("read anew: sales.acid and which tables there are")
    assert kept["COMMIT_TXN"].endswith("read anew: all ACID tables whose write ids differ")
    assert "read anew" not in kept["OPEN_TXN"]


@pytest.mark.backends("sqlite")
def test_a_txn_that_cannot_be_read_makes_write_ids_be_compared(replication: Replication) -> None:
    replication.table("acid")
    first = replication.cycle()
    replication.at.work.clear()
    assert first.position is not None
    with replication.primary.client.begin({"sales.acid": "insert"}):
        pass
    # Nothing else says that anything was written.
    broken(replication, first.position, "COMMIT_TXN", DB_NAME=None, TBL_NAME=None)
    with replication.primary.client.database.transaction() as connection:
        log = NOTIFICATION_LOG
        others = sa.and_(log.c.EVENT_ID > first.position, log.c.EVENT_TYPE != "COMMIT_TXN")
        connection.execute(sa.update(log).where(others).values(EVENT_TYPE="MAKE_TEA"))
    report = replication.cycle()
    assert (report.position, replication.at.work) == (replication.current, ["synced acid"])


@pytest.mark.backends("sqlite")
def test_a_message_that_cannot_be_read_of_no_table_stops_the_policy(replication: Replication) -> None:
    """What it changed is not known: nothing is passed over, and the remedy is named."""
    replication.plain("a")
    first = replication.cycle()
    replication.plain("b")
    assert first.position is not None
    broken(replication, first.position, DB_NAME=None, TBL_NAME=None)
    for _ in range(2):
        with pytest.raises(ReplicationGapError, match=r"event \d+ CREATE_TABLE cannot be read.+Bootstrap the policy"):
            replication.cycle()
        state = replication.record.read()
        assert state is not None
        assert state.position == first.position
        assert "CREATE_TABLE" in (state.error or "")
    assert replication.cycle(again=True).position == replication.current
    assert set(replication.at.states) == {A, B}


def test_a_purged_log_stops_the_policy_and_only_a_person_makes_it_copy_again(replication: Replication) -> None:
    replication.plain("a")
    replication.cycle()
    replication.plain("b")
    replication.plain("c")
    with replication.primary.client.database.transaction() as connection:
        connection.execute(sa.delete(NOTIFICATION_LOG).where(NOTIFICATION_LOG.c.TBL_NAME.in_(("a", "b"))))
    for _ in range(2):
        with pytest.raises(ReplicationGapError, match="Bootstrap the policy again"):
            replication.cycle()
    state = replication.record.read()
    assert state is not None
    assert "ReplicationGapError" in (state.error or "")
    replication.drop("a")
    report = replication.cycle(again=True)
    assert (report.first, report.position) == (True, replication.current)
    assert set(replication.at.states) == {B, TableName("sales", "c")}


def go_back(replication: Replication, event_id: int) -> None:
    """Let the source's log end with an event, as that of a backup does."""
    with replication.primary.client.database.transaction() as connection:
        connection.execute(sa.delete(NOTIFICATION_LOG).where(NOTIFICATION_LOG.c.EVENT_ID > event_id))
        connection.execute(sa.update(NOTIFICATION_SEQUENCE).values(NEXT_EVENT_ID=event_id + 1))


@pytest.mark.parametrize("more", [0, 1, 6], ids=["behind", "as_far", "beyond"])
def test_a_restored_source_stops_the_policy_and_a_first_copy_counts_nothing_that_is_there(
    replication: Replication, more: int
) -> None:
    """Its log gives ids again: to other events, whose state ids mean other states."""
    replication.plain("a")
    restored = replication.current
    replication.cycle()
    replication.plain("b")
    position = replication.cycle().position
    assert position == restored + 1
    go_back(replication, restored)
    replication.primary.client.catalog.drop_table("sales.b")
    replication.plain("c")
    for number in range(more):
        replication.plain(f"d{number}")
    if not more:
        go_back(replication, restored)
    log = NOTIFICATION_LOG.c
    with replication.primary.client.database.transaction() as connection:
        connection.execute(
            sa.update(NOTIFICATION_LOG).where(log.EVENT_ID > restored).values(EVENT_TIME=log.EVENT_TIME + 60)
        )
    for _ in range(2):
        with pytest.raises(ReplicationGapError, match="restored from a backup"):
            replication.cycle()
    state = replication.record.read()
    assert state is not None
    assert state.position == position
    copied = [f"copied {table.name}" for table in replication.at.tables()]
    tries: list[list[str]] = []
    for number in range(100):  # what a first copy that was killed has done does not count in the next one, either
        replication.at.work.clear()
        try:
            report = replication.cycle(StopAt(1 + number), again=number == 0)
            break
        except CrashError:
            tries.append(list(replication.at.work))
    assert copied in tries
    assert all(work == copied[: len(work)] for work in tries)
    assert (report.position, report.begins_anew) == (replication.current, False)
    replication.plain("e")
    assert replication.cycle().tables == ["sales.e"]


def test_a_first_copy_of_a_restored_source_whose_last_event_was_purged_ends_it(replication: Replication) -> None:
    """Nobody knows the time of the event at the position then, and that of the other log is no help."""
    replication.plain("a")
    restored = replication.current
    replication.cycle()
    replication.plain("b")
    replication.cycle()
    go_back(replication, restored)
    with replication.primary.client.database.transaction() as connection:
        connection.execute(sa.delete(NOTIFICATION_LOG))
    with pytest.raises(ReplicationGapError, match="restored from a backup"):
        replication.cycle()
    assert replication.cycle(again=True).position == restored
    assert replication.cycle().tables == []
    replication.plain("c")
    assert replication.cycle().tables == ["sales.c"]


def test_a_policy_without_leave_to_bootstrap_waits_for_a_person(replication: Replication) -> None:
    careful = policy({**POLICY.to_document(), "bootstrap": False})
    with pytest.raises(ActionRefusedError, match="run 'hive-acid replication bootstrap' once"):
        replication.cycle(one=careful)
    assert replication.record.read() is None
    replication.cycle(one=careful, again=True)
    assert replication.cycle(one=careful).position == replication.current


def test_a_policy_that_was_failed_over_applies_nothing(replication: Replication) -> None:
    replication.cycle()
    state = replication.record.read()
    assert state is not None
    replication.record.change(state.epoch, phase=Phase.FAILED_OVER)
    with pytest.raises(ActionRefusedError, match="fail back with a policy the other way"):
        replication.cycle()


@pytest.mark.every_database
def test_one_cycle_at_a_time(replication: Replication) -> None:
    """The second finds the mutex held, whatever process it is in, and changes nothing."""
    inner: list[str] = []

    def step(name: str) -> None:
        if name == "listing":
            with pytest.raises(ReplicationBusyError, match="is at work, by a test"):
                replication.cycle()
            inner.append(name)

    replication.cycle(step)
    state = replication.record.read()
    assert state is not None
    assert (inner, state.epoch) == (["listing"], 1)


@pytest.mark.every_database
def test_a_cycle_that_lost_its_mutex_unnoticed_is_fenced(replication: Replication) -> None:
    """R3: another one has begun meanwhile; the first one's position is not written."""
    replication.plain("a")

    def step(name: str) -> None:
        if name == "first copy is complete":
            replication.record.begin("primary", "another")

    with pytest.raises(ReplicationBusyError, match="taken over by another"):
        replication.cycle(step)
    state = replication.record.read()
    assert state is not None
    assert (state.position, state.epoch, state.is_running) == (None, 2, True)


@pytest.mark.every_database
def test_the_lag_counts_from_before_the_source_was_looked_at(replication: Replication) -> None:
    times = iter((5_000, 9_000))
    parts = Parts(replication.primary.client.notifications, create, replication.at, lambda: next(times))
    run_cycle(POLICY, replication.primary, replication.replica, parts, holder="a test")
    state = replication.record.read()
    assert state is not None
    assert state.lag_seconds(6_500) == 1.5


def test_an_error_of_a_task_stops_the_position_before_it(replication: Replication) -> None:
    replication.cycle()
    replication.plain("a")
    replication.plain("b")
    real = replication.at.run

    def fail_at_b(tasks: Sequence[ReplicationTask]) -> list[Applied]:
        if "sales.b" in [task.about for task in tasks]:
            raise HiveAcidError("the disk is full")
        return real(tasks)

    replication.at.run = fail_at_b  # type: ignore[method-assign]
    with pytest.raises(HiveAcidError, match="the disk is full"):
        replication.cycle(page=1)
    state = replication.record.read()
    assert state is not None
    assert (state.position, state.error) == (replication.current - 1, "HiveAcidError: the disk is full")
    replication.at.run = real  # type: ignore[method-assign]
    assert replication.cycle().position == replication.current
    assert set(replication.at.states) == {A, B}


def test_whatever_error_ends_a_cycle_is_noted(replication: Replication) -> None:
    """A full disk is no error of ours, and must not look like a cycle that is at work."""
    replication.plain("a")

    def full(step: str) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replication.cycle(step=full)
    state = replication.record.read()
    assert state is not None
    assert not state.is_running
    assert state.error == "OSError: [Errno 28] No space left on device"
