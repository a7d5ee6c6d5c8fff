"""Events of replication: where they come from, in which order they are taken, and what one says.

An event has an id that only grows; ids have no holes (NOTIFICATION_SEQUENCE is locked to the commit). So an id that is
missing was purged, and what it said is lost: replication from there stops with :class:`ReplicationGapError` and
proposes a bootstrap. Source: HiveReplicationDevelopment, "Events" and "Event IDs, State IDs".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from airflow_hive_acid.errors import InvalidArgumentsError, ReplicationGapError
from airflow_hive_acid.metastore.notifications import is_another_log

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_hive_acid.metastore.catalog import Database, Table, WholePartition
    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.metastore.notifications import LoggedEvent


@runtime_checkable
class EventSource(Protocol):
    """Whoever has events: a metastore's notification log, a store of files, a message queue."""

    def events_after(self, event_id: int, limit: int = 1000) -> Sequence[LoggedEvent]:
        """Events with larger ids, the smallest first, at most ``limit``."""

    def current_event_id(self) -> int:
        """Id of the latest event there ever was, 0 when there was none."""

    def first_event_id(self) -> int:
        """Id of the oldest event that can still be read; without any, the id that the next one will have."""


class EventKind(Enum):
    """What an event is to replication: the ten of the seed's table, the ACID ones, and what is only reported."""

    CREATE_DATABASE = "CreateDatabase"
    DROP_DATABASE = "DropDatabase"
    ALTER_DATABASE = "AlterDatabase"
    CREATE_TABLE = "CreateTable"
    DROP_TABLE = "DropTable"
    ALTER_TABLE = "AlterTable"
    ADD_PARTITION = "AddPartition"
    DROP_PARTITION = "DropPartition"
    ALTER_PARTITION = "AlterPartition"
    INSERT = "Insert"
    OPEN_TXN = "OpenTxn"
    COMMIT_TXN = "CommitTxn"
    ABORT_TXN = "AbortTxn"
    ALLOC_WRITE_ID = "AllocWriteId"
    ACID_WRITE = "AcidWrite"
    COMMIT_COMPACTION = "CommitCompaction"
    NOT_REPLICATED = "NotReplicated"
    """A type of Hive's that has no copy at the destination: functions, constraints, statistics, …"""
    UNREADABLE = "Unreadable"
    """A type that is known, with a message that is not as Hive writes it: what it is about is read anew."""
    UNKNOWN = "Unknown"
    """A type that nobody here knows, or a message of no format that is known."""


TXN_KINDS = frozenset({
    EventKind.OPEN_TXN, EventKind.COMMIT_TXN, EventKind.ABORT_TXN, EventKind.ALLOC_WRITE_ID, EventKind.ACID_WRITE,
    EventKind.COMMIT_COMPACTION,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplicationEvent:
    """A decoded event.

    :param type: NOTIFICATION_LOG.EVENT_TYPE as it stands there.
    :param time: seconds since 1970.
    :param database: lower-case; None for txns and for what belongs to no database.
    :param table: of a rename: the new name.
    :param table_before: its name before, when that was another one.
    :param partitions: names of the partitions it is about, as they are after it.
    :param partitions_before: their names before, when they were others (a renamed partition).
    :param txn_ids: txns that it is about.
    :param write_ids: write id of each txn of ALLOC_WRITE_ID, pairs of txn id and write id; of COMMIT_TXN and
        ABORT_TXN write ids of unnamed tables are not here.
    :param databases: databases in which a COMMIT_TXN or ABORT_TXN says to have written; None when it does not say.
    :param transactional: whether the table is an ACID table, as its object in the message says; None without one.
    :param was_transactional: the same of the object before.
    :param truncated: the table or the partitions lost their data.
    :param moved: the location is another one than before, or the files are.
    :param relocated: a partition that keeps its name was given another directory.
    :param replace: an INSERT that took the place of what was there.
    :param files: URIs that came with it.
    :param table_object: the table as the message has it (after), ``table_before_object`` before.
    :param partition_objects: the partitions as the message has them (after).
    :param problem: of UNKNOWN, UNREADABLE and NOT_REPLICATED: why it is that.
    :param logged: the row of the log.
    """

    event_id: int
    time: int
    kind: EventKind
    type: str
    logged: LoggedEvent
    database: str | None = None
    table: TableName | None = None
    table_before: TableName | None = None
    partitions: tuple[str, ...] = ()
    partitions_before: tuple[str, ...] = ()
    txn_ids: tuple[int, ...] = ()
    write_ids: tuple[tuple[int, int], ...] = ()
    databases: tuple[str, ...] | None = None
    transactional: bool | None = None
    was_transactional: bool | None = None
    truncated: bool = False
    moved: bool = False
    relocated: bool = False
    replace: bool = False
    files: tuple[str, ...] = ()
    database_object: Database | None = field(default=None, compare=False)
    table_object: Table | None = field(default=None, compare=False)
    table_before_object: Table | None = field(default=None, compare=False)
    partition_objects: tuple[WholePartition, ...] = field(default=(), compare=False)
    problem: str | None = None

    @property
    def about(self) -> str:
        """What it is about, for messages and reports."""
        name = str(self.table) if self.table is not None else self.database
        if name is None:
            return f"txn {', '.join(map(str, self.txn_ids))}" if self.txn_ids else "the server"
        return f"{name} ({', '.join(self.partitions)})" if self.partitions else name

    def __str__(self) -> str:
        return f"event {self.event_id} {self.type} of {self.about}"


@dataclass(frozen=True, slots=True)
class EventMark:
    """One event of a source, by which its log is known again.

    :param time: when it was written, in seconds since 1970.
    """

    event_id: int
    time: int


def mark_of(source: EventSource, event_id: int) -> EventMark | None:
    """The mark of an event; None when the source does not have it (any more)."""
    found = source.events_after(event_id - 1, 1) if event_id > 0 else ()
    return EventMark(event_id, found[0].time) if found and found[0].event_id == event_id else None


def has_lost(source: EventSource, mark: EventMark) -> bool:
    """Whether a source has another event where it had this one, or none yet: it is another one, or was restored.

    Of an event that was purged nobody knows; that is no loss.
    """
    if mark.event_id > source.current_event_id():
        return True
    now = mark_of(source, mark.event_id)
    return is_another_log(mark.time, None if now is None else now.time)


def in_sequence(position: int, events: Iterable[LoggedEvent], first: int, current: int) -> list[LoggedEvent]:
    """The events that come next, whatever order and however often a source delivered them.

    :param position: id of the last event that was dealt with.
    :param events: what the source delivered for it.
    :param first: the source's :meth:`EventSource.first_event_id`, read before ``events``.
    :param current: the source's :meth:`EventSource.current_event_id`, read before ``events``.
    :return: events ``position + 1``, ``position + 2``, … up to the first one that was not delivered.
    :raises ReplicationGapError: when the next event exists no more, or the source never had one at ``position``.
    :raises InvalidArgumentsError: when two different events have the same id.
    """
    by_id: dict[int, LoggedEvent] = {}
    for event in events:
        known = by_id.setdefault(event.event_id, event)
        if known != event:
            raise InvalidArgumentsError(
                f"two events have the id {event.event_id}: {known.type} and {event.type}; ids are unique in a "
                "metastore's log, so these come from two of them. Give each source a position and a store of its own."
            )
    if position > current:
        raise ReplicationGapError(
            f"replication stands at event {position}, the source has only had {current}: it is another metastore, or "
            "was restored from a backup. Bootstrap the policy again."
        )
    if first > position + 1:
        raise ReplicationGapError(
            f"replication stands at event {position}, the oldest event that the source still has is {first}: "
            f"{first - position - 1} events were purged before they were read. Bootstrap the policy again, and keep "
            "events longer (hive.metastore.event.db.listener.timetolive) or in an event store."
        )
    found: list[LoggedEvent] = []
    while (following := by_id.get(position + len(found) + 1)) is not None:
        found.append(following)
    if not found and current > position and max(by_id, default=0) > position:
        raise ReplicationGapError(
            f"event {position + 1} is missing although the source has older and newer ones: somebody removed it from "
            "the log. Bootstrap the policy again."
        )
    return found


def read_after(source: EventSource, position: int, limit: int = 1000) -> list[LoggedEvent]:
    """The next events of a source, without a hole, each once.

    :raises ReplicationGapError: see :func:`in_sequence`.
    """
    if position < 0 or limit < 1:
        raise InvalidArgumentsError(f"position {position}, limit {limit}: events are read from 0 on, at least one")
    first, current = source.first_event_id(), source.current_event_id()
    return in_sequence(position, source.events_after(position, limit), first, current)
