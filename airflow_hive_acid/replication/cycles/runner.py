"""One cycle of a replication policy: read events, collapse them, make tasks, run them, advance the position.

The position passes an event only when what it asks for is done, so a cycle that was killed anywhere is done again by
the next one; whatever was done already is refused there as not newer, by its state id. ACID tables are brought to one
snapshot at the end of a cycle, all that have changed together. The first copy is a cycle, too: it takes the position
first and every table after it, so that what changes meanwhile is applied by the events that follow.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from airflow_hive_acid.errors import (
    ActionRefusedError,
    ReplicationBusyError,
    ReplicationGapError,
)
from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.replication.events.decoder import SILENT, base_type, decode_event
from airflow_hive_acid.replication.events.event import EventKind, EventMark, has_lost, mark_of, read_after
from airflow_hive_acid.replication.events.exim_tasks import merge_syncs
from airflow_hive_acid.replication.events.selection import of_policy
from airflow_hive_acid.replication.events.tasks import SyncAcidCommand
from airflow_hive_acid.replication.events.unreadable import Reread, both, reread_of, told
from airflow_hive_acid.replication.policies.state import KeptEvent, ObjectState, Phase, PolicyRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.metastore.notifications import LoggedEvent
    from airflow_hive_acid.replication.events.event import EventSource, ReplicationEvent
    from airflow_hive_acid.replication.events.tasks import ReplicationTask
    from airflow_hive_acid.replication.policies.policy import Policy
    from airflow_hive_acid.replication.policies.state import PolicyState
    from airflow_hive_acid.replication.site import Site

PAGE = 1000
"""So many events are read and collapsed at a time."""
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Applied:
    """What was done with one table.

    :param source: its name at the source; None for what is no table.
    :param done: false when the destination was as new already.
    :param state_id: the state that it has now; None when that is not known.
    :param dropped: it is gone.
    """

    source: TableName | None
    said: str
    done: bool = True
    state_id: int | None = None
    bytes: int = 0
    files: int = 0
    dropped: bool = False


class Executor(Protocol):
    """Does at the two sites what tasks ask for; every verb may be repeated."""

    def tables(self) -> list[TableName]:
        """The tables of the source that the policy replicates."""

    def begin_anew(self) -> None:
        """Told before a first copy from another log than before: what an earlier one has brought counts as nothing,
        as its state ids are of other events."""

    def require_databases(self, tables: Iterable[TableName]) -> None:
        """Refuse to go on when the destination lacks a database (the seed's security rule)."""

    def copy_table(self, table: TableName, event_id: int) -> list[Applied]:
        """Bring a table that is no ACID table to the destination as it is now, unless it is as new already."""

    def drop_others(self, tables: Iterable[TableName], event_id: int) -> list[Applied]:
        """Drop what an earlier copy of the policy brought and the source has no more."""

    def read_again(self, wanted: Reread) -> list[Applied]:
        """Bring what is no ACID table to the source's state, or drop it if it is gone there."""

    def run(self, tasks: Sequence[ReplicationTask]) -> list[Applied]:
        """Run tasks in order, those that are not for ACID tables; what is gone at the source by now is left to the
        event that says so."""

    def acid_tables(self, tables: Iterable[TableName]) -> list[TableName]:
        """Those of the tables that exist at the source and are ACID tables."""

    def changed_acid_tables(self) -> frozenset[TableName]:
        """ACID tables of the policy whose write ids differ between the sites."""

    def sync(self, tables: Sequence[TableName], event_id: int) -> list[Applied]:
        """Bring ACID tables to the state of the source, all at one snapshot, at least as new as the event."""

    def finish(self) -> list[str]:
        """What is brought by state at the end of every cycle (privileges): what was done, in words."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a cycle works with.

    :param events: where events come from.
    :param create: a task for each event, collapsed where that gives the same (:mod:`collapse`).
    :param now: milliseconds, by the destination's clock.
    :param step: told before each step, for progress; what it raises ends the cycle there.
    :param begin: told the epoch of the cycle, before anything is done.
    :param refresh: has the source's latest events come to ``events``, if that is not the source itself.
    :param require_names: refuses to follow events where the copies have other names than the policy gives them.
    """

    events: EventSource
    create: Callable[[Sequence[ReplicationEvent]], Iterable[ReplicationTask]]
    executor: Executor
    now: Callable[[], int]
    step: Callable[[str], None] = lambda _step: None
    page: int = PAGE
    begin: Callable[[int], object] = lambda _epoch: None
    refresh: Callable[[], object] = lambda: None
    require_names: Callable[[], object] = lambda: None


@dataclass(slots=True)
class CycleReport:
    """What a cycle has done.

    :param before: the position before it, and ``position`` after it; ``current`` the source's latest event then.
    :param first: whether it was, or completed, a first copy.
    :param events: events that were read, ``foreign`` those of them that the policy is not about.
    :param tasks: tasks that they came to, without those that ask for nothing.
    :param applied: changes of tables that were made, ``unchanged`` those that the destination had already.
    :param kinds: events by kind.
    :param kept: events that nobody could apply, or of which what they changed was read anew.
    :param tables: tables that were changed.
    :param notes: what a person should know.
    :param seen: the event at the position (at the target, during a first copy), and when it was written.
    :param begins_anew: a first copy to which nothing at the destination counts has not ended.
    """

    policy: str
    epoch: int
    before: int | None = None
    position: int | None = None
    current: int = 0
    first: bool = False
    events: int = 0
    foreign: int = 0
    tasks: int = 0
    applied: int = 0
    unchanged: int = 0
    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)
    kept: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seen: tuple[int, int] | None = None
    begins_anew: bool = False

    def to_document(self) -> dict[str, Any]:
        """As plain values; long lists are cut."""
        return {
            "policy": self.policy, "epoch": self.epoch, "before": self.before, "position": self.position,
            "current": self.current, "first": self.first, "events": self.events, "foreign": self.foreign,
            "tasks": self.tasks, "applied": self.applied, "unchanged": self.unchanged, "bytes": self.bytes,
            "files": self.files, "seconds": round(self.seconds, 3), "kinds": dict(self.kinds),
            "kept": len(self.kept), "tables": self.tables[:_SHOWN], "tables_changed": len(self.tables),
            "notes": (self.kept + self.notes)[:_SHOWN], "seen": self.seen, "begins_anew": self.begins_anew,
        }  # fmt: skip

    def __str__(self) -> str:
        start = "nothing" if self.before is None else f"event {self.before}"
        return (
            f"replication {self.policy}: from {start} to event {self.position} of {self.current}: {self.events} "
            f"events, {self.tasks} tasks, {len(self.tables)} tables changed, {self.files} files with {self.bytes} "
            f"bytes copied" + (f", {len(self.kept)} events kept that nobody could apply" if self.kept else "")
        )


def run_cycle(
    policy: Policy, source: Site, target: Site, parts: Parts, *, holder: str, again: bool = False
) -> CycleReport:
    """Run one cycle.

    :param holder: who runs it, for people.
    :param again: make the first copy once more, whatever the position is: what was asked for by a person.
    :raises ReplicationBusyError: when another cycle of the policy is at work.
    :raises ReplicationGapError: when events were purged before they were read; a bootstrap is proposed, never guessed.
    :raises ActionRefusedError: when the policy was failed over, has no first copy and may not make one by itself, or
        has got other names since.
    """
    record = PolicyRecord(target.client.database, policy.name)
    with target.client.mutexes.try_hold(record.mutex) as mutex:
        if mutex is None:
            state = record.read()
            by = "" if state is None or state.holder is None else f", by {state.holder}"
            raise ReplicationBusyError(
                f"a cycle of replication policy {policy.name!r} is at work{by}; one runs at a time"
            )
        _require_allowed(policy, record.read(), again=again)
        state = record.begin(source.name, holder)
        cycle = _Cycle(policy, record, state, parts)
        started = time.monotonic()
        try:
            _require_allowed(policy, state, again=again)  # R3: somebody may have failed it over since it was read
            cycle.run(again=again)
        except BaseException as error:
            cycle.report.seconds = time.monotonic() - started
            if isinstance(error, Exception) and not isinstance(error, ReplicationBusyError):
                record.end(state.epoch, cycle.report.to_document(), f"{type(error).__name__}: {error}")
            raise
        cycle.report.seconds = time.monotonic() - started
        record.end(state.epoch, cycle.report.to_document(), None)
        return cycle.report


def _require_allowed(policy: Policy, state: PolicyState | None, *, again: bool) -> None:
    if state is not None and state.phase is Phase.FAILED_OVER:
        raise ActionRefusedError(
            f"replication policy {policy.name!r} was failed over: its tables are written at {policy.destination} now, "
            "and nothing is applied any more; fail back with a policy the other way (hive-acid replication failback)"
        )
    is_new = state is None or (state.position is None and state.phase is not Phase.BOOTSTRAP)
    if is_new and not policy.bootstrap and not again:
        raise ActionRefusedError(
            f"replication policy {policy.name!r} has no first copy, and with bootstrap = false it makes none by "
            "itself; run 'hive-acid replication bootstrap' once"
        )


class _Cycle:
    """A cycle under way."""

    def __init__(self, policy: Policy, record: PolicyRecord, state: PolicyState, parts: Parts) -> None:
        self._policy = policy
        self._record = record
        self._state = state
        self._parts = parts
        self._epoch = state.epoch
        self._as_of = 0
        self._again = Reread()
        self.report = CycleReport(
            policy.name, state.epoch, state.position, state.position, seen=state.seen, begins_anew=state.begins_anew
        )

    def run(self, *, again: bool) -> None:
        parts = self._parts
        parts.step("begun")
        parts.begin(self._epoch)
        # R3: the moment first, then the source's state, which is therefore not older.
        self._as_of = parts.now()
        parts.refresh()
        current = self.report.current = parts.events.current_event_id()
        position = self._state.position
        anew = is_another_source(self._state, parts.events)
        if again or position is None:
            position = self._first_copy(current, again=again, anew=anew)
        elif anew and position <= current:
            raise ReplicationGapError(
                f"replication stands at event {position}, and the source has another event of that id now than the one "
                "that was applied: it is another metastore, or was restored from a backup. Bootstrap the policy again."
            )
        else:
            parts.require_names()
        self._follow(position, current)
        for said in parts.executor.finish():
            self.report.notes.append(said)
        parts.step("finishing")
        if self.report.position == current:
            self._record.change(self._epoch, as_of=self._as_of)

    # --- the first copy -----------------------------------------------------------------------------------------------

    def _first_copy(self, current: int, *, again: bool, anew: bool) -> int:
        parts, state = self._parts, self._state
        # Tables that a killed one has copied anew since are copied once more: they look like those before.
        goes_on = state.phase is Phase.BOOTSTRAP and state.target is not None and not again and not anew
        target = state.target if goes_on and state.target is not None else current
        self.report.begins_anew = anew
        if not goes_on:
            self.report.seen = None  # also when nobody knows the event there: that of another log would stop each cycle
        self._change(None if goes_on else mark_of(parts.events, target), phase=Phase.BOOTSTRAP, target=target,
                     position=None)  # fmt: skip
        self.report.first, self.report.position = True, None
        if anew:
            parts.executor.begin_anew()
            self.report.notes.append("everything is copied anew: the source's log is another one than before")
        parts.step("listing")
        tables = parts.executor.tables()
        parts.executor.require_databases(tables)
        acid = parts.executor.acid_tables(tables)
        self._note(parts.executor.drop_others(tables, target))
        for table in sorted(set(tables) - set(acid)):
            parts.step(f"copying {table}")
            self._note(parts.executor.copy_table(table, target))
        self._sync(acid, target)
        parts.step("first copy is complete")
        self.report.begins_anew = False
        self._change(None, phase=Phase.INCREMENTAL, position=target, target=None)
        self.report.position = target
        return target

    # --- events -------------------------------------------------------------------------------------------------------

    def _follow(self, position: int, current: int) -> None:
        """Apply events up to the source's latest at the beginning."""
        wanted: set[TableName] = set()
        newest = last = None
        reached = position
        if position > current:
            read_after(self._parts.events, position, 1)  # says what is wrong
        while reached < current:
            self._parts.step("reading")
            page = read_after(self._parts.events, reached, min(self._parts.page, current - reached))
            if not page:
                break  # a source whose newest events are not readable yet
            tasks = merge_syncs(self._tasks(page))
            again = self._again
            if not again.is_empty:
                # First: what follows finds it newer than its events, and leaves it.
                wanted |= self._read_again(again)
                newest = max(newest or 0, again.event_id)
            syncs = [c for task in tasks for c in task.destination if isinstance(c, SyncAcidCommand)]
            work = [task for task in tasks if not any(isinstance(c, SyncAcidCommand) for c in task.destination)]
            if work:
                self._parts.step("applying")
                self._note(self._parts.executor.run(work))
            for command in syncs:
                wanted |= self._acid(command)
                newest = max(newest or 0, command.event_id)
            reached, last = page[-1].event_id, EventMark(page[-1].event_id, page[-1].time)
            if newest is None:
                self._advance(last)
        if newest is not None and last is not None:
            self._sync(self._parts.executor.acid_tables(sorted(wanted)), newest)
            self._advance(last)

    def _tasks(self, page: Sequence[LoggedEvent]) -> list[ReplicationTask]:
        """What a page of events asks for; what nobody can apply is kept first."""
        mine, kept, again = [], [], []
        for logged in page:
            event = of_policy(decode_event(logged), self._policy)
            self.report.events += 1
            if event is None:
                self.report.foreign += 1
                continue
            self.report.kinds[event.kind.value] += 1
            if event.kind is EventKind.UNREADABLE:
                again.append(reread_of(event))
                kept.append(_kept(told(event, again[-1])))
                continue
            if event.kind in (EventKind.UNKNOWN, EventKind.NOT_REPLICATED):
                if base_type(event.type) not in SILENT:
                    kept.append(_kept(event))
                continue
            mine.append(event)
        self._again = both(again)
        if kept:
            self._record.keep(self._epoch, kept)
            self.report.kept += [f"event {one.event_id} {one.type}: {one.why}" for one in kept]
        made = list(self._parts.create(mine))
        self.report.notes += [task.report for task in made if task.report is not None]
        found = [task for task in made if not task.is_no_op]
        self.report.tasks += len(found)
        return found

    def _read_again(self, wanted: Reread) -> set[TableName]:
        """Read anew what events that cannot be read have changed.

        :return: the ACID tables to sync.
        """
        executor = self._parts.executor
        self._parts.step("reading anew")
        self._note(executor.read_again(wanted))
        tables = {table for table in wanted.tables if self._policy.selects(table)}
        if wanted.names:
            tables.update(executor.tables())
        return tables | executor.changed_acid_tables() if wanted.write_ids else tables

    def _acid(self, command: SyncAcidCommand) -> set[TableName]:
        """The tables that a command names, or else those whose write ids differ."""
        tables = {table for table in command.tables if self._policy.selects(table)}
        return tables | self._parts.executor.changed_acid_tables() if command.txn_ids else tables

    def _sync(self, tables: Sequence[TableName], event_id: int) -> None:
        if not tables:
            return
        self._parts.executor.require_databases(tables)
        self._parts.step("syncing")
        self._note(self._parts.executor.sync(tables, event_id))
        self._parts.step("synced")

    def _advance(self, reached: EventMark) -> None:
        self._parts.step("advancing")
        if reached.event_id != self.report.position:
            self._change(reached, position=reached.event_id)
            self.report.position = reached.event_id

    def _change(self, seen: EventMark | None, **values: Any) -> None:
        """Change fields of the policy's row, and what is known of the log with them."""
        if seen is not None:
            self.report.seen = seen.event_id, seen.time
        known = {"seen": self.report.seen, "begins_anew": self.report.begins_anew}
        self._record.change(self._epoch, **values, report={**self._state.report, **known})

    def _note(self, done: Sequence[Applied]) -> None:
        """Note what was done with tables, before the position says so."""
        states, dropped = [], []
        for one in done:
            self.report.bytes += one.bytes
            self.report.files += one.files
            self.report.applied += one.done
            self.report.unchanged += not one.done
            if one.source is None:
                continue
            if one.dropped:
                dropped.append(one.source)
            elif one.done:
                name, target = str(one.source), str(self._policy.target(one.source))
                states.append(ObjectState(name, target, one.state_id, self._as_of, 0, one.bytes, one.files, one.said))
                if name not in self.report.tables:
                    self.report.tables.append(name)
        self._record.note(self._epoch, states, dropped)


def destination_clock(target: Site) -> Callable[[], int]:
    """The clock of the destination's database."""
    return lambda: target.client.database.read(now_ms)


def is_another_source(state: PolicyState, events: EventSource) -> bool:
    """Whether the events that a policy has applied are of another log: the source is another metastore, or was
    restored from a backup, and may have gone on since."""
    if state.begins_anew:
        return True
    known = state.position if state.position is not None else state.target
    if known is not None and known > events.current_event_id():
        return True
    return state.seen is not None and has_lost(events, EventMark(*state.seen))


def has_news(state: PolicyState | None, events: EventSource) -> bool:
    """Whether a cycle would find something: no first copy yet, or events after the position."""
    return state is None or state.position is None or events.current_event_id() != state.position


def propose_bootstrap(error: ReplicationGapError, policy: Policy) -> str:
    """What to tell a person when events are gone."""
    return (
        f"{error} To copy everything again: 'hive-acid replication bootstrap {policy.name}', or run the DAG with "
        '{"bootstrap": ["' + policy.name + '"]}; nothing is copied again without being asked for.'
    )


def _kept(event: ReplicationEvent) -> KeptEvent:
    logged = event.logged
    return KeptEvent(
        event.event_id, event.time, event.type, logged.database, logged.table, event.problem or "nobody can apply it",
        logged.raw_message,
    )  # fmt: skip
