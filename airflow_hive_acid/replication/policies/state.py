"""Where a policy is: position, last cycle, state of each object, and the events that nobody could apply.

It is kept at the destination (``metastore.schema_replication``), beside what it speaks of. One cycle of a policy runs
at a time: a mutex keeps others out while this one lives, and the epoch, which each cycle raises by one, keeps out
whoever lost the mutex without noticing (R3).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, bindparam, delete, func, insert, select, update

from airflow_hive_acid.errors import ReplicationBusyError
from airflow_hive_acid.metastore.compaction import clean_text
from airflow_hive_acid.metastore.database import chunks, clock_ms, now_ms
from airflow_hive_acid.metastore.names import MAX_DATABASE, MAX_TABLE
from airflow_hive_acid.metastore.schema import (
    HIVE_ACID_REPL_EVENT,
    HIVE_ACID_REPL_OBJECT,
    HIVE_ACID_REPL_POLICY,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.database import Database
    from airflow_hive_acid.metastore.names import TableName

MAX_HOLDER, MAX_WHY, MAX_TYPE = 256, 256, 64
MAX_EVENTS_SHOWN = 200
MAX_MESSAGE = 8 << 20
"""Of a kept event: MySQL takes 16 MiB, and packets that may be no larger."""

_P, _O, _E = HIVE_ACID_REPL_POLICY.c, HIVE_ACID_REPL_OBJECT.c, HIVE_ACID_REPL_EVENT.c
_POLICY_COLUMNS = (
    _P.HRP_POLICY, _P.HRP_SOURCE, _P.HRP_PHASE, _P.HRP_EPOCH, _P.HRP_POSITION, _P.HRP_TARGET, _P.HRP_TOLD,
    _P.HRP_AS_OF, _P.HRP_STARTED, _P.HRP_ENDED, _P.HRP_HOLDER, _P.HRP_ERROR, _P.HRP_REPORT,
)  # fmt: skip
_OBJECT_COLUMNS = (
    _O.HRO_SOURCE_TABLE, _O.HRO_TABLE, _O.HRO_STATE, _O.HRO_AS_OF, _O.HRO_APPLIED, _O.HRO_BYTES, _O.HRO_FILES,
    _O.HRO_SAID, _O.HRO_ERROR,
)  # fmt: skip
_EVENT_COLUMNS = (
    _E.HRE_EVENT_ID, _E.HRE_TIME, _E.HRE_TYPE, _E.HRE_DATABASE, _E.HRE_TABLE, _E.HRE_WHY, _E.HRE_MESSAGE, _E.HRE_KEPT,
)  # fmt: skip
_mine = _P.HRP_POLICY == bindparam("policy")
_READ = select(*_POLICY_COLUMNS).where(_mine)
_ALL = select(*_POLICY_COLUMNS).order_by(_P.HRP_POLICY)
_CREATE = insert(HIVE_ACID_REPL_POLICY).values(
    HRP_POLICY=bindparam("policy"), HRP_SOURCE=bindparam("source"), HRP_PHASE="n", HRP_EPOCH=0
)
_BEGIN = (
    update(HIVE_ACID_REPL_POLICY)
    .where(_mine)
    .values(
        HRP_EPOCH=_P.HRP_EPOCH + 1, HRP_SOURCE=bindparam("source"), HRP_HOLDER=bindparam("holder"),
        HRP_STARTED=clock_ms(), HRP_ENDED=None,
    )
)  # fmt: skip
_REOPEN = (
    update(HIVE_ACID_REPL_POLICY)
    .where(_mine, _P.HRP_PHASE == "o")
    .values(HRP_PHASE="n", HRP_POSITION=None, HRP_TARGET=None, HRP_TOLD=None, HRP_AS_OF=None)
)
_CHECK = select(_P.HRP_EPOCH, _P.HRP_HOLDER).where(_mine).with_for_update()
_CHANGE = update(HIVE_ACID_REPL_POLICY).where(_P.HRP_POLICY == bindparam("policy_name"))
_OBJECTS = select(*_OBJECT_COLUMNS).where(_O.HRO_POLICY == bindparam("policy")).order_by(_O.HRO_SOURCE_TABLE)
_ALL_OBJECTS = select(_O.HRO_POLICY, *_OBJECT_COLUMNS).order_by(_O.HRO_POLICY, _O.HRO_SOURCE_TABLE)
_OBJECT_IDS = select(_O.HRO_SOURCE_TABLE, _O.HRO_ID).where(
    _O.HRO_POLICY == bindparam("policy"), _O.HRO_SOURCE_TABLE.in_(bindparam("names", expanding=True))
)
_NEW_OBJECT = insert(HIVE_ACID_REPL_OBJECT)
_CHANGE_OBJECT = (
    update(HIVE_ACID_REPL_OBJECT)
    .where(_O.HRO_ID == bindparam("id"))
    .values({column: bindparam(column.name) for column in _OBJECT_COLUMNS[1:]})
)
_FORGET_OBJECT = delete(HIVE_ACID_REPL_OBJECT).where(
    _O.HRO_POLICY == bindparam("policy"), _O.HRO_SOURCE_TABLE == bindparam("source_table")
)
_FORGET_OBJECTS = delete(HIVE_ACID_REPL_OBJECT).where(_O.HRO_POLICY == bindparam("policy"))
_EVENTS = (
    select(*_EVENT_COLUMNS)
    .where(_E.HRE_POLICY == bindparam("policy"), _E.HRE_EVENT_ID > bindparam("after", type_=BigInteger))
    .order_by(_E.HRE_EVENT_ID)
    .limit(bindparam("limit"))
)
_KNOWN = select(_E.HRE_EVENT_ID).where(
    _E.HRE_POLICY == bindparam("policy"), _E.HRE_EVENT_ID.between(bindparam("low"), bindparam("high"))
)
_COUNTED = select(_E.HRE_POLICY, func.count()).group_by(_E.HRE_POLICY)
_KEEP = insert(HIVE_ACID_REPL_EVENT)
_FORGET_EVENTS = delete(HIVE_ACID_REPL_EVENT).where(
    _E.HRE_POLICY == bindparam("policy"), _E.HRE_EVENT_ID <= bindparam("upto", type_=BigInteger)
)


class Phase(Enum):
    """What a policy is doing; values are those of HRP_PHASE."""

    NEW = "n"
    BOOTSTRAP = "b"
    INCREMENTAL = "i"
    FAILED_OVER = "o"


@dataclass(frozen=True, slots=True)
class PolicyState:
    """A policy's row; times are milliseconds by the clock of the destination's database.

    :param epoch: cycles begun so far; the fencing token of the last one.
    :param position: the last event of the source that is applied; None before the first copy is complete.
    :param target: the event that the first copy began at; the position when it is complete.
    :param told: the last event of whose commits assets have heard.
    :param as_of: a moment at which everything committed at the source by then is here; None before the first copy.
    :param error: of the last cycle; None when it succeeded.
    :param report: of the last cycle that ended, with what is known of the source's log by now.
    """

    policy: str
    source: str
    phase: Phase
    epoch: int
    position: int | None
    target: int | None
    told: int | None
    as_of: int | None
    started: int | None
    ended: int | None
    holder: str | None
    error: str | None
    report: Mapping[str, Any] = field(default_factory=dict)

    def lag_seconds(self, now: int) -> float | None:
        """By so much at most the replica is behind the primary; None before the first copy is complete.

        :param now: the database's clock, milliseconds.
        """
        return None if self.as_of is None else max(0, now - self.as_of) / 1000

    @property
    def seen(self) -> tuple[int, int] | None:
        """The event at the position (at the target, during a first copy), and when it was written, in seconds since
        1970; None when that is not known. It tells whether the source's log is still the same one."""
        found = self.report.get("seen")
        return None if found is None else (int(found[0]), int(found[1]))

    @property
    def begins_anew(self) -> bool:
        """Whether a first copy is under way to which nothing here counts, as it came from another log."""
        return bool(self.report.get("begins_anew"))

    @property
    def is_running(self) -> bool:
        """Whether a cycle has begun and not ended; it may have been killed."""
        return self.started is not None and self.ended is None


@dataclass(frozen=True, slots=True)
class ObjectState:
    """What a policy did last with a table.

    :param source: name at the source, ``table`` at the destination: ``db.table``.
    :param state_id: event of the source whose state it has at least; None when it is not known.
    :param as_of: when it had it, milliseconds by the destination's clock; and ``applied`` when this was noted.
    :param bytes: and ``files``: copied then.
    :param said: what was done.
    :param error: why it was not; None when it was.
    """

    source: str
    table: str
    state_id: int | None = None
    as_of: int | None = None
    applied: int = 0
    bytes: int = 0
    files: int = 0
    said: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """An event that nobody could apply; ``time`` in seconds since 1970, ``kept`` in milliseconds.

    :param why: it was not applied.
    :param message: as it stood in the log.
    """

    event_id: int
    time: int
    type: str
    database: str | None
    table: str | None
    why: str
    message: str | None
    kept: int = 0


class PolicyRecord:
    """The rows of one policy at its destination. Who changes them holds an epoch."""

    def __init__(self, database: Database, policy: str) -> None:
        self._database = database
        self.policy = policy

    @property
    def mutex(self) -> str:
        """Name of the mutex that is held during a cycle."""
        return f"hive_acid_repl_{self.policy}"

    def read(self) -> PolicyState | None:
        """The policy's row; None when no cycle has ever begun."""
        return self._database.read(lambda connection: _one(connection, self.policy))

    def begin(self, source: str, holder: str) -> PolicyState:
        """Begin a cycle: raise the epoch, so that whoever held an older one changes nothing any more.

        :param source: what the source is called, for people.
        :param holder: who works, for people.
        """

        def operation(connection: Connection) -> PolicyState:
            if _one(connection, self.policy) is None:
                connection.execute(_CREATE, {"policy": self.policy, "source": source})
            connection.execute(_BEGIN, {"policy": self.policy, "source": source, "holder": holder[:MAX_HOLDER]})
            state = _one(connection, self.policy)
            if state is None:
                raise AssertionError("a row that was just written")
            return state

        return self._database.run(operation, retry_duplicates=True)

    def require(self, connection: Connection, epoch: int) -> None:
        """Lock the policy's row in a transaction of somebody else's, which shall happen only under this epoch (R3).

        :raises ReplicationBusyError: when a later cycle has begun.
        """
        row = connection.execute(_CHECK, {"policy": self.policy}).first()
        current, holder = (None, None) if row is None else row
        if current != epoch:
            by = "nobody knows whom: its row is gone" if row is None else f"{holder} (epoch {current})"
            raise ReplicationBusyError(
                f"the cycle of replication policy {self.policy!r} with epoch {epoch} was taken over by {by}; it "
                "changes nothing any more"
            )

    def change(self, epoch: int, **values: Any) -> None:
        """Change fields of the row: ``position``, ``target``, ``phase``, ``told``, ``as_of``, ``report``."""
        named = {f"HRP_{key.upper()}": _plain(value) for key, value in values.items()}

        def operation(connection: Connection) -> None:
            self.require(connection, epoch)
            connection.execute(_CHANGE.values(**named), {"policy_name": self.policy})

        self._database.run(operation)

    def end(self, epoch: int, report: Mapping[str, Any], error: str | None) -> None:
        """The cycle has ended.

        :param report: plain values.
        :param error: why it failed; None when it did not.
        """
        self.change_row(epoch, {"HRP_ENDED": clock_ms(), "HRP_ERROR": _ascii(error), "HRP_REPORT": _plain(report)})

    def change_row(self, epoch: int, values: Mapping[str, Any]) -> None:
        """Set columns, as SQL expressions too."""

        def operation(connection: Connection) -> None:
            self.require(connection, epoch)
            connection.execute(_CHANGE.values(**values), {"policy_name": self.policy})

        self._database.run(operation)

    def note(self, epoch: int, done: Sequence[ObjectState], dropped: Iterable[TableName] = ()) -> None:
        """Note what was done with tables.

        :param dropped: tables of the source that are gone from the destination.
        """

        def operation(connection: Connection) -> None:
            self.require(connection, epoch)
            now = now_ms(connection)
            if gone := [{"policy": self.policy, "source_table": str(table)} for table in dropped]:
                connection.execute(_FORGET_OBJECT, gone)
            latest = {one.source: _object_row(one, now) for one in done}  # of one table the last word
            for part in chunks(list(latest)):
                found = connection.execute(_OBJECT_IDS, {"policy": self.policy, "names": list(part)})
                known: dict[str, int] = dict(found.all())
                old = [{"id": known[name], **latest[name]} for name in part if name in known]
                new = [
                    {"HRO_POLICY": self.policy, "HRO_SOURCE_TABLE": name, **latest[name]}
                    for name in part
                    if name not in known
                ]
                for statement, rows in ((_CHANGE_OBJECT, old), (_NEW_OBJECT, new)):
                    if rows:
                        connection.execute(statement, rows)

        if done or dropped:
            self._database.run(operation)

    def keep(self, epoch: int, events: Sequence[KeptEvent]) -> int:
        """Keep events that nobody could apply; those that are kept already are not kept twice.

        :return: how many are new.
        """
        if not events:
            return 0
        low, high = min(e.event_id for e in events), max(e.event_id for e in events)

        def operation(connection: Connection) -> int:
            self.require(connection, epoch)
            known = set(connection.execute(_KNOWN, {"policy": self.policy, "low": low, "high": high}).scalars())
            now = now_ms(connection)
            new = [self._event_row(e, now) for e in {e.event_id: e for e in events}.values() if e.event_id not in known]
            if new:
                connection.execute(_KEEP, new)
            return len(new)

        return self._database.run(operation)

    def _event_row(self, event: KeptEvent, now: int) -> dict[str, Any]:
        return {
            "HRE_POLICY": self.policy,
            "HRE_EVENT_ID": event.event_id,
            "HRE_TIME": event.time,
            "HRE_TYPE": (_ascii(event.type) or "")[:MAX_TYPE],
            "HRE_DATABASE": None if event.database is None else (_ascii(event.database) or "")[:MAX_DATABASE],
            "HRE_TABLE": None if event.table is None else (_ascii(event.table) or "")[:MAX_TABLE],
            "HRE_WHY": (_ascii(event.why) or "")[:MAX_WHY],
            "HRE_MESSAGE": None if event.message is None else _ascii_json(event.message)[:MAX_MESSAGE],
            "HRE_KEPT": now,
        }

    def objects(self) -> list[ObjectState]:
        """The tables of the policy, by name."""
        return self._database.read(
            lambda connection: [ObjectState(*row) for row in connection.execute(_OBJECTS, {"policy": self.policy})]
        )

    def kept_events(self, after: int = 0, limit: int = 1000) -> list[KeptEvent]:
        """Events that nobody could apply, oldest first."""
        parameters = {"policy": self.policy, "after": after, "limit": limit}
        return self._database.read(
            lambda connection: [KeptEvent(*row) for row in connection.execute(_EVENTS, parameters)]
        )

    def forget_events(self, upto: int) -> int:
        """Forget kept events up to an id: a person has seen to them; returns how many."""
        return self._database.run(
            lambda connection: connection.execute(_FORGET_EVENTS, {"policy": self.policy, "upto": upto}).rowcount
        )


def reopen(connection: Connection, policy: str) -> None:
    """Let a policy that was failed over here replicate again, from the first copy on: its destination is one again.

    What it has brought before are no copies of it any more: others have written them since, and may keep them.
    """
    if connection.execute(_REOPEN, {"policy": policy}).rowcount:
        connection.execute(_FORGET_OBJECTS, {"policy": policy})


def read_states(connection: Connection) -> list[PolicyState]:
    """All policies that replicate into this metastore, by name."""
    return [_state(row) for row in connection.execute(_ALL)]


def read_objects(connection: Connection) -> dict[str, list[ObjectState]]:
    """The tables of all policies, by policy."""
    found: dict[str, list[ObjectState]] = {}
    for policy, *values in connection.execute(_ALL_OBJECTS):
        found.setdefault(policy, []).append(ObjectState(*values))
    return found


def taken_over(connection: Connection, policy: str) -> set[str]:
    """Tables here that a policy has brought, and another one since: that one writes them now."""
    objects = read_objects(connection)
    since = {one.table: one.applied for one in objects.pop(policy, [])}
    others = (one for found in objects.values() for one in found)
    return {one.table for one in others if one.table in since and one.applied >= since[one.table]}


def count_kept(connection: Connection) -> dict[str, int]:
    """How many events are kept that nobody could apply, by policy."""
    return dict(connection.execute(_COUNTED).all())


def _object_row(one: ObjectState, now: int) -> dict[str, Any]:
    return {
        "HRO_TABLE": one.table, "HRO_STATE": one.state_id, "HRO_AS_OF": one.as_of, "HRO_APPLIED": now,
        "HRO_BYTES": one.bytes, "HRO_FILES": one.files, "HRO_SAID": _ascii(one.said), "HRO_ERROR": _ascii(one.error),
    }  # fmt: skip


def _plain(value: object) -> object:
    """A field of a policy as its column has it."""
    if isinstance(value, Phase):
        return value.value
    return json.dumps(value, sort_keys=True) if isinstance(value, dict) else value


def _one(connection: Connection, policy: str) -> PolicyState | None:
    row = connection.execute(_READ, {"policy": policy}).first()
    return None if row is None else _state(row)


def _state(row: Sequence[Any]) -> PolicyState:
    *values, report = row
    state = PolicyState(*values)
    return replace(state, phase=Phase(state.phase), report=json.loads(report) if report else {})


def _ascii(text: str | None) -> str | None:
    # The columns take any text on every database that way.
    cleaned = clean_text(text)
    return None if cleaned is None else cleaned.encode("ascii", "backslashreplace").decode()


def _ascii_json(text: str) -> str:
    """A message with its characters written so that every database takes them; as JSON it says the same."""
    return text if text.isascii() and "\0" not in text else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if " " <= character < "\x7f" or character in "\t\r\n" else json.dumps(character)[1:-1]
