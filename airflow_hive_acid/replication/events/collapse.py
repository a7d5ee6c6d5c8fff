"""Collapsing: a stretch of events to the few that still matter, so that nothing is copied twice or for nothing.

Exports show the source as it is when they are made, so of several events about one object the last one's export has
what all of them did. What was created and dropped again needs no export at all. The rules, per object:

- Events of a table that was created (or got its name) in the stretch are part of its creation.
- A drop takes away all events before it, creations too. The drop itself stays: an earlier try may have imported what
  was created, and a drop of what is not there does nothing.
- Several changes of metadata are one, several inserts are one, of a table or of its partitions.
- A rename is a drop of the old name and a creation under the new one, for tables and for partitions.
- Events of one ACID table are one. A txn that was opened in the stretch wrote only to tables whose write ids were
  allocated in it, so its end is part of their events; ends of other txns are one event with all their ids.

Databases have nothing to merge, and what is only reported stays. Nothing here reads or writes anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.replication.events.event import TXN_KINDS, EventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_hive_acid.metastore.catalog import WholePartition
    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.replication.events.event import ReplicationEvent

_DATABASE_KINDS = frozenset({EventKind.CREATE_DATABASE, EventKind.ALTER_DATABASE, EventKind.DROP_DATABASE})
_REPORTED = frozenset({EventKind.NOT_REPLICATED, EventKind.UNREADABLE, EventKind.UNKNOWN})
_DROPS = frozenset({EventKind.DROP_DATABASE, EventKind.DROP_TABLE, EventKind.DROP_PARTITION})
_RANK = {EventKind.INSERT: 0, EventKind.ALTER_PARTITION: 1, EventKind.ADD_PARTITION: 2}
"""Which of two changes of a partition's data says more."""


@dataclass(frozen=True, slots=True)
class CollapsedEvent:
    """One event for one or many.

    :param event: one of them, with what the others add: all their partitions, all their txns, the newest id.
    :param event_ids: of all of them, ascending. Ids may be in several: a rename's, a txn's.
    """

    event: ReplicationEvent
    event_ids: tuple[int, ...]

    @property
    def last_event_id(self) -> int:
        """The newest of them."""
        return self.event_ids[-1]


def collapse(events: Iterable[ReplicationEvent]) -> list[CollapsedEvent]:
    """Collapse a stretch of events, in order of their ids.

    :return: in the order in which they are to be applied; a drop comes before what got the name after it.
    """
    stretch = _Stretch()
    for event in events:
        stretch.add(event)
    return stretch.result()


def one_by_one(events: Iterable[ReplicationEvent]) -> list[CollapsedEvent]:
    """Every event for itself. Renames are a drop and a creation here, too: a policy may want only one of them."""
    found: list[CollapsedEvent] = []
    for event in events:
        ids = (event.event_id,)
        if event.table_before is not None:
            found += [CollapsedEvent(_gone(event, event.table_before), ids), CollapsedEvent(_came(event), ids)]
        else:
            found.append(CollapsedEvent(event, ids))
    return found


@dataclass(slots=True)
class _Slot:
    """Events that become one."""

    event: ReplicationEvent
    ids: set[int]
    partitions: dict[str, WholePartition | None] = field(default_factory=dict)

    def result(self) -> CollapsedEvent:
        event = self.event
        if event.kind not in _DROPS:
            # Who asks whether the destination is as new as the event must ask for the newest of them. A drop keeps its
            # own id, which is the largest: what came after it is no part of it.
            event = replace(event, event_id=max(self.ids))
        if self.partitions:
            objects = tuple(self.partitions[name] for name in sorted(self.partitions))
            known = tuple(o for o in objects if o is not None)
            event = replace(
                event, partitions=tuple(sorted(self.partitions)), partitions_before=(),
                partition_objects=known if len(known) == len(objects) else (),
            )  # fmt: skip
        return CollapsedEvent(event, tuple(sorted(self.ids)))


@dataclass(slots=True)
class _Partition:
    """What is to be done about one partition: at most a drop, and one of an import with data or of metadata."""

    drop: _Slot | None = None
    data: _Slot | None = None
    metadata: _Slot | None = None

    def absorb(self) -> set[int]:
        return {i for slot in (self.drop, self.data, self.metadata) if slot is not None for i in slot.ids}


@dataclass(slots=True)
class _Table:
    """What is to be done about one table."""

    drop: _Slot | None = None
    whole: _Slot | None = None
    metadata: _Slot | None = None
    data: _Slot | None = None
    acid: _Slot | None = None
    partitions: dict[str, _Partition] = field(default_factory=dict)

    def dropped(self, event: ReplicationEvent) -> None:
        ids = {event.event_id}
        for slot in (self.drop, self.whole, self.metadata, self.data, self.acid):
            ids |= set() if slot is None else slot.ids
        for partition in self.partitions.values():
            ids |= partition.absorb()
        self.whole = self.metadata = self.data = self.acid = None
        self.partitions.clear()
        self.drop = _Slot(event, ids)

    def created(self, event: ReplicationEvent) -> None:
        """It is there, new; all that follows is part of it until it is dropped."""
        ids = {event.event_id}
        for slot in (self.whole, self.metadata, self.data):
            ids |= set() if slot is None else slot.ids
        self.metadata = self.data = None
        self.whole = _Slot(event, ids)

    def altered(self, event: ReplicationEvent) -> None:
        if self.whole is not None:
            self.whole.ids.add(event.event_id)
        elif event.truncated or event.moved:
            # Its export has the data and the metadata of all that came before.
            ids = {event.event_id} | _ids(self.data) | _ids(self.metadata)
            self.metadata, self.data = None, _Slot(event, ids)
        elif self.data is not None and self.data.event.kind is EventKind.ALTER_TABLE:
            changed = self.data.event
            merged = replace(event, truncated=changed.truncated, moved=changed.moved)
            self.data = _Slot(merged, _more(self.data, event))
        else:
            self.metadata = _Slot(event, _more(self.metadata, event))

    def inserted(self, event: ReplicationEvent) -> None:
        if self.whole is not None:
            self.whole.ids.add(event.event_id)
        elif self.data is not None and self.data.event.kind is EventKind.ALTER_TABLE:
            self.data.ids.add(event.event_id)
        else:
            self.data = _Slot(event, _more(self.data, event))

    def changed_acid(self, event: ReplicationEvent) -> None:
        plain = replace(event, was_transactional=event.transactional)
        self.acid = _Slot(plain, _more(self.acid, event))

    # --- partitions ---

    def partition_dropped(self, name: str, event: ReplicationEvent) -> None:
        partition = self.partitions.setdefault(name, _Partition())
        ids = partition.absorb() | {event.event_id}
        self.partitions[name] = _Partition(drop=_Slot(event, ids, {name: None}))

    def partition_data(self, name: str, event: ReplicationEvent, found: WholePartition | None) -> None:
        if self._absorbed(event):
            return
        partition = self.partitions.setdefault(name, _Partition())
        before, ids = partition.data, _more(partition.data, event)
        kept = event
        if before is not None and _RANK[before.event.kind] > _RANK[event.kind]:
            moved = before.event.kind is EventKind.ALTER_PARTITION
            kept = replace(event, kind=before.event.kind, moved=moved, truncated=False)
        if kept.kind is not EventKind.INSERT:
            ids |= _ids(partition.metadata)
            partition.metadata = None
        partition.data = _Slot(kept, ids, {name: found})

    def partition_metadata(self, name: str, event: ReplicationEvent, found: WholePartition | None) -> None:
        if self._absorbed(event):
            return
        partition = self.partitions.setdefault(name, _Partition())
        if partition.data is not None and partition.data.event.kind is not EventKind.INSERT:
            # It is exported with its metadata anyway.
            partition.data.ids.add(event.event_id)
            partition.data.partitions[name] = found
            return
        partition.metadata = _Slot(event, _more(partition.metadata, event), {name: found})

    def _absorbed(self, event: ReplicationEvent) -> bool:
        if self.whole is None:
            return False
        self.whole.ids.add(event.event_id)
        return True

    def slots(self) -> Iterator[_Slot]:
        yield from (s for s in (self.drop, self.whole, self.metadata, self.data, self.acid) if s is not None)
        groups: dict[tuple[str, EventKind, bool], _Slot] = {}
        for partition in self.partitions.values():
            for role in ("drop", "data", "metadata"):
                slot: _Slot | None = getattr(partition, role)
                if slot is not None:
                    _join(groups, (role, slot.event.kind, slot.event.truncated or slot.event.moved), slot)
        yield from groups.values()


class _Stretch:
    def __init__(self) -> None:
        self._tables: dict[TableName, _Table] = {}
        self._others: dict[object, _Slot] = {}
        self._opened: dict[int, set[TableName]] = {}

    def add(self, event: ReplicationEvent) -> None:
        if event.kind in _REPORTED:
            alike = (event.type, event.about) if event.kind is EventKind.NOT_REPLICATED else event.event_id
            self._merge((event.kind, alike), event)
        elif event.kind in _DATABASE_KINDS:
            # A drop of a database is for one that was there before it; a second one is for another.
            which = event.event_id if event.kind is EventKind.DROP_DATABASE else event.database
            self._merge((event.kind, which), event)
        elif event.kind in TXN_KINDS and event.table is None:
            self._txn(event)
        elif event.table is not None:
            self._of_table(event, event.table)
        else:
            raise AssertionError(f"{event} was decoded without a table")

    def result(self) -> list[CollapsedEvent]:
        slots = [*self._others.values(), *(slot for table in self._tables.values() for slot in table.slots())]
        # A drop is as old as itself: what got the name after it follows.
        return sorted((slot.result() for slot in slots), key=lambda item: (item.event.event_id, item.event_ids))

    def _table(self, name: TableName) -> _Table:
        return self._tables.setdefault(name, _Table())

    def _merge(self, key: object, event: ReplicationEvent) -> None:
        known = self._others.get(key)
        self._others[key] = _Slot(event, _more(known, event))

    def _of_table(self, event: ReplicationEvent, name: TableName) -> None:
        table = self._table(name)
        for txn_id, _ in event.write_ids:
            self._opened.get(txn_id, set()).add(name)
        if event.table_before is not None:
            self._table(event.table_before).dropped(_gone(event, event.table_before))
            for written in self._opened.values():
                if event.table_before in written:
                    written.add(name)
            event = _came(event)
        elif event.kind is EventKind.ALTER_TABLE and event.was_transactional not in (None, event.transactional):
            # From plain to ACID there is no way for the copy but a new one.
            table.dropped(_gone(event, name))
            event = _came(event)
        if event.kind is EventKind.DROP_TABLE:
            table.dropped(event)
        elif event.kind in TXN_KINDS or event.transactional:
            table.changed_acid(event)
        else:
            _plain(table, event)

    def _txn(self, event: ReplicationEvent) -> None:
        if event.kind is EventKind.OPEN_TXN:
            self._opened |= {txn_id: set() for txn_id in event.txn_ids}
            self._merge("txns", event)
        elif all(txn_id in self._opened for txn_id in event.txn_ids):
            written = {name for txn_id in event.txn_ids for name in self._opened[txn_id]}
            slots = [slot for name in written if (slot := self._table(name).acid) is not None]
            for slot in slots:
                slot.ids.add(event.event_id)
            if not slots:
                self._merge("txns", replace(event, databases=()))
        else:
            known = self._others.get("ended")
            txn_ids, databases = set(event.txn_ids), event.databases
            if known is not None:
                txn_ids.update(known.event.txn_ids)
                both = (databases, known.event.databases)
                databases = None if None in both else tuple(sorted({n for names in both for n in names or ()}))
            self._merge("ended", replace(event, txn_ids=tuple(sorted(txn_ids)), databases=databases))


def _plain(table: _Table, event: ReplicationEvent) -> None:
    """An event about a table that exists and is no ACID table."""
    kind = event.kind
    if kind is EventKind.CREATE_TABLE:
        table.created(event)
    elif kind is EventKind.ALTER_TABLE:
        table.altered(event)
    elif kind is EventKind.INSERT and not event.partitions:
        table.inserted(event)
    else:
        _plain_partitions(table, event)


def _plain_partitions(table: _Table, event: ReplicationEvent) -> None:
    if event.kind is EventKind.DROP_PARTITION:
        for name in event.partitions:
            table.partition_dropped(name, event)
        return
    objects = {partition.name: partition for partition in event.partition_objects}
    if event.partitions_before:
        gone = replace(event, kind=EventKind.DROP_PARTITION, partitions=event.partitions_before, partition_objects=())
        for name in event.partitions_before:
            table.partition_dropped(name, gone)
        event = replace(event, kind=EventKind.ADD_PARTITION, partitions_before=())
    metadata = event.kind is EventKind.ALTER_PARTITION and not (event.truncated or event.moved)
    for name in event.partitions:
        if metadata:
            table.partition_metadata(name, event, objects.get(name))
        else:
            table.partition_data(name, event, objects.get(name))


def _gone(event: ReplicationEvent, name: TableName) -> ReplicationEvent:
    """The drop in a rename."""
    return replace(
        event, kind=EventKind.DROP_TABLE, database=name.database, table=name, table_before=None,
        table_object=event.table_before_object, table_before_object=None, transactional=event.was_transactional,
        was_transactional=None, partitions=(), partition_objects=(),
    )  # fmt: skip


def _came(event: ReplicationEvent) -> ReplicationEvent:
    """The creation in a rename."""
    return replace(
        event, kind=EventKind.CREATE_TABLE, table_before=None, table_before_object=None, was_transactional=None,
        truncated=False, moved=False,
    )  # fmt: skip


def _join(groups: dict[tuple[str, EventKind, bool], _Slot], key: tuple[str, EventKind, bool], slot: _Slot) -> None:
    known = groups.get(key)
    if known is None:
        groups[key] = _Slot(slot.event, set(slot.ids), dict(slot.partitions))
        return
    if key[0] == "drop" and known.event.event_id != slot.event.event_id:
        # Each drop has the id of its own event: a later one could take what was added in between.
        _join(groups, (f"drop {slot.event.event_id}", *key[1:]), slot)
        return
    if slot.event.event_id > known.event.event_id:
        known.event = slot.event
    known.ids |= slot.ids
    known.partitions |= slot.partitions


def _more(slot: _Slot | None, event: ReplicationEvent) -> set[int]:
    """The ids of a slot and that of an event; it is the slot's own set, for a slot that takes its place."""
    ids = set() if slot is None else slot.ids
    ids.add(event.event_id)
    return ids


def _ids(slot: _Slot | None) -> set[int]:
    return set() if slot is None else slot.ids
