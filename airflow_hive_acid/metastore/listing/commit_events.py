"""Commits as the notification log tells them: events to values, one for each table that a txn has written.

A COMMIT_TXN names a txn and, since Hive 4.2, databases and write ids, but neither tables nor partitions; Hive before
4.2 names the txn alone. The rest is known elsewhere: ALLOC_WRITE_ID events and TXN_TO_WRITE_ID (which tables, which
write ids), COMPLETED_TXN_COMPONENTS (partitions, and whether rows were changed), WRITE_SET (update or delete), and for
txns of ours HIVE_ACID_JOB (rows, files, bytes). ``commit_facts`` reads that; here it is put together.

A txn that only compacted is no commit of data: its COMMIT_TXN is followed by a COMMIT_COMPACTION. Tables without
transactions have INSERT events of their own.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import name_covers, partition_name
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.events import WRITE_ID_RANGES, EventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hive_acid.metastore.notifications.log import LoggedEvent

CHANGE = "change"
"""Rows that were there were updated, deleted or replaced. A Hive's records do not say which: to them an UPDATE may be a
delete, and INSERT OVERWRITE an update."""
CHANGES = frozenset({"update", "delete", "overwrite", CHANGE})
COMPACTIONS = EventType.COMMIT_COMPACTION.value
COMMITS = EventType.COMMIT_TXN.value
ALLOCATIONS = EventType.ALLOC_WRITE_ID.value
INSERTS = EventType.INSERT.value
OPENS, ABORTS = EventType.OPEN_TXN.value, EventType.ABORT_TXN.value

Written = tuple[int, TableName]
"""A txn and a table that it has written."""


@dataclass(frozen=True, slots=True)
class Volume:
    """How much a txn of ours has written to a table.

    :param inserted: rows inserted, updated and deleted, as a user counts them; None when that was not recorded.
    """

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    files: int = 0
    bytes: int = 0

    def __add__(self, other: Volume) -> Volume:
        def both(one: int | None, two: int | None) -> int | None:
            return None if one is None or two is None else one + two

        return Volume(
            both(self.inserted, other.inserted),
            both(self.updated, other.updated),
            both(self.deleted, other.deleted),
            self.files + other.files,
            self.bytes + other.bytes,
        )


@dataclass(frozen=True, slots=True)
class Component:
    """A row of COMPLETED_TXN_COMPONENTS of a txn and table.

    :param partition: its name, empty without partitions.
    :param changes: the txn has updated or deleted rows, there or elsewhere.
    """

    partition: str
    changes: bool


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What is known of txns beside their events.

    :param write_ids: write id of each table a txn has one of; it need not have written anything.
    :param components: what was written, a row for each operation on a partition.
    :param changes: partitions in which rows were changed, as often as WRITE_SET names them and as long as it is kept.
    :param maybe: partitions whose notes of a txn that was long ago may have been tidied up.
    :param tidied: written tables whose components are gone, because of later commits or a compaction.
    :param owners: user and agent info.
    """

    write_ids: Mapping[Written, int] = field(default_factory=dict)
    components: Mapping[Written, Sequence[Component]] = field(default_factory=dict)
    changes: Mapping[Written, Sequence[str]] = field(default_factory=dict)
    maybe: Mapping[Written, frozenset[str]] = field(default_factory=dict)
    volumes: Mapping[Written, Volume] = field(default_factory=dict)
    tidied: frozenset[Written] = frozenset()
    owners: Mapping[int, tuple[str, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableCommit:
    """What one commit has done to one table.

    :param event_id: of its event; None when it was not read from the log.
    :param time: seconds since 1970.
    :param txn_id: and ``write_id``: None for a table without transactions.
    :param operations: ``insert``, ``change``, and of ours ``update`` and ``delete``; empty when not known.
    :param partitions: names; empty for a table without partitions, None when not known any more.
    :param maybe: partitions that it may have touched, too: housekeeping was faster than whoever reads.
    :param volume: rows, files and bytes; None for a commit that was not ours.
    :param first_write_id: at a replica, where a commit brings several write ids: the first, ``write_id`` is the last.
    """

    event_id: int | None
    time: int
    table: TableName
    txn_id: int | None
    write_id: int | None
    operations: tuple[str, ...]
    partitions: tuple[str, ...] | None
    volume: Volume | None = None
    user: str | None = None
    agent_info: str | None = None
    maybe: tuple[str, ...] = ()
    first_write_id: int | None = None

    def concerns(self, table: TableName, partition: str | None, operations: Sequence[str] | None) -> bool:
        """Whether somebody who watches this wants to know; what is not known counts as yes.

        :param partition: canonical name of a partition, or of some of its columns, in any order.
        :param operations: those that count; None for all.
        """
        if self.table != table:
            return False
        named = () if self.partitions is None else (*self.partitions, *self.maybe)
        if partition is not None and self.partitions is not None and not any(name_covers(partition, n) for n in named):
            return False
        if operations is None or not self.operations:
            return True
        wanted = set(operations)
        if wanted & CHANGES:
            wanted |= CHANGES if CHANGE in wanted else {CHANGE}
        return not wanted.isdisjoint(self.operations)

    def to_document(self) -> dict[str, Any]:
        """As plain values: the data of an asset event."""
        volume = self.volume
        known = volume is not None and volume.inserted is not None
        return {
            "kind": "commit",
            "event_id": self.event_id,
            "time": self.time,
            "table": str(self.table),
            "partitions": None if self.partitions is None else list(self.partitions),
            "maybe": list(self.maybe),
            "operations": list(self.operations),
            "txn_id": self.txn_id,
            "write_id": self.write_id,
            "changes": None
            if self.write_id is None
            else {
                "table": str(self.table),
                "from_write_id": self.first_write_id or self.write_id,
                "to_write_id": self.write_id,
            },
            "rows": {"inserted": volume.inserted, "updated": volume.updated, "deleted": volume.deleted}
            if volume is not None and known
            else None,
            "files": None if volume is None else volume.files,
            "bytes": None if volume is None else volume.bytes,
            "user": self.user,
            "agent_info": self.agent_info,
        }


@dataclass(frozen=True, slots=True)
class Heard:
    """What an event says that has to do with commits.

    :param txn_id: of a COMMIT_TXN or COMMIT_COMPACTION.
    :param write_ids: of an ALLOC_WRITE_ID.
    :param commit: of an INSERT, which is one by itself.
    :param databases: of a COMMIT_TXN, those in which it says that tables were written; None when it says nothing.
    :param ranges: of a COMMIT_TXN at a replica, the runs of write ids of tables that it tells of.
    """

    event_id: int
    time: int
    type: str
    txn_id: int | None = None
    write_ids: Mapping[Written, int] = field(default_factory=dict)
    commit: TableCommit | None = None
    databases: frozenset[str] | None = None
    ranges: Mapping[TableName, Sequence[tuple[int, int]]] = field(default_factory=dict)

    def may_have_written(self, table: TableName) -> bool:
        """Whether a commit does not say that what it has written is in other databases than a table."""
        return self.databases is None or table.database in self.databases


def hear(event: LoggedEvent) -> Heard | None:
    """Read an event; None when it has nothing to do with commits.

    :raises InvalidArgumentsError: when its message is not what its type promises.
    """
    if event.type not in (COMMITS, COMPACTIONS, ALLOCATIONS, INSERTS):
        return None
    message = event.message()
    try:
        if event.type == INSERTS:
            return Heard(event.event_id, event.time, event.type, commit=_plain_insert(event, message))
        if event.type == ALLOCATIONS:
            table = _table(message["dbName"], message["tableName"])
            pairs = zip(message["txnIdList"], message["writeIdList"], strict=True)
            write_ids = {(int(txn_id), table): int(write_id) for txn_id, write_id in pairs}
            return Heard(event.event_id, event.time, event.type, write_ids=write_ids)
        ranges = {
            _table(*name.split(".")): tuple((int(low), int(high)) for low, high in runs)
            for name, runs in (message.get(WRITE_ID_RANGES) or {}).items()
        }
        return Heard(
            event.event_id, event.time, event.type, int(message["txnid"]), databases=_databases(message), ranges=ranges
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentsError(
            f"event {event.event_id} ({event.type}) is not as Hive writes it: {error!r}"
        ) from None


def txns_of_event(event: LoggedEvent) -> tuple[int, ...]:
    """The txns that an OPEN_TXN or ABORT_TXN names; none of one that cannot be read."""
    try:
        message = event.message()
        named = message["txnIds"] if event.type == OPENS else [message["txnid"]]
        return tuple(int(txn_id) for txn_id in named)
    except (InvalidArgumentsError, KeyError, TypeError, ValueError):
        return ()


def whole(events: Sequence[LoggedEvent], limit: int) -> Sequence[LoggedEvent]:
    """A page of the log without a commit at its end whose COMMIT_COMPACTION may be on the next page.

    The two are written together, so a page that is not full ends with nothing of that kind.

    :param limit: size of a full page, at least 2.
    """
    if len(events) < limit or events[-1].type != COMMITS:
        return events
    return events[:-1]


def committed_txns(heard: Iterable[Heard]) -> dict[int, Heard]:
    """The COMMIT_TXN events of txns that did more than compact, by txn id."""
    found: dict[int, Heard] = {}
    for event in heard:
        if event.txn_id is None:
            continue
        if event.type == COMMITS:
            found[event.txn_id] = event
        else:
            found.pop(event.txn_id, None)
    return found


def commits_of(heard: Sequence[Heard], facts: CommitFacts) -> list[TableCommit]:
    """What the events tell of commits, in order; of one txn by table."""
    txns = committed_txns(heard)
    tables: dict[int, set[TableName]] = {}
    for txn_id, table in (*facts.write_ids, *facts.components):
        tables.setdefault(txn_id, set()).add(table)
    found: list[TableCommit] = []
    for event in heard:
        if event.commit is not None:
            found.append(event.commit)
        elif event.txn_id is not None and txns.get(event.txn_id) is event:
            for table in sorted(tables.get(event.txn_id, ())):
                commit = commit_of(event.txn_id, table, facts, event.time, event.event_id)
                runs = event.ranges.get(table)
                if commit is not None and runs is None:
                    found.append(commit)
                elif commit is not None:
                    # Of a sync: a reader of the changes needs all of its write ids, and those between are not there.
                    found += [replace(commit, write_id=high, first_write_id=low) for low, high in runs or ()]
    return found


def commit_of(
    txn_id: int, table: TableName, facts: CommitFacts, time: int, event_id: int | None = None
) -> TableCommit | None:
    """What a txn did to a table; None when it got a write id and wrote nothing."""
    key = (txn_id, table)
    components = facts.components.get(key, ())
    if not components and key not in facts.tidied:
        return None
    volume = facts.volumes.get(key)
    operations = _operations(txn_id, components, facts.changes.get(key, ()), facts)
    user, agent = facts.owners.get(txn_id, (None, None))
    known = {component.partition for component in components} - {""}
    return TableCommit(
        event_id, time, table, txn_id, facts.write_ids.get(key), tuple(sorted(_refined(operations, volume))),
        tuple(sorted(known)) if components else None, volume, user, agent,
        tuple(sorted(facts.maybe.get(key, frozenset()) - known - {""})) if components else (),
    )  # fmt: skip


def _operations(txn_id: int, components: Sequence[Component], changes: Sequence[str], facts: CommitFacts) -> set[str]:
    """The mark of COMPLETED_TXN_COMPONENTS is the txn's; WRITE_SET says which partitions it means."""
    if not any(component.changes for component in components):
        return {"insert"} if components else set()
    if not any(changed == txn_id for changed, _ in facts.changes):
        return {CHANGE}
    rows = Counter(component.partition for component in components)
    rows.subtract(changes)
    return ({"insert"} if any(left > 0 for left in rows.values()) else set()) | ({CHANGE} if changes else set())


def _refined(operations: set[str], volume: Volume | None) -> set[str]:
    """Of our txns it is known what was done; a change of no row is one that replaces them all."""
    if volume is None or volume.inserted is None:
        return operations
    counts = {"insert": volume.inserted, "update": volume.updated, "delete": volume.deleted}
    done = {name for name, count in counts.items() if count}
    return done | ({CHANGE} if CHANGE in operations and not done & CHANGES else set()) or operations


def _databases(message: Mapping[str, Any]) -> frozenset[str] | None:
    """None of a Hive before 4.2, whose messages name the txn alone; without write ids the databases say nothing."""
    named = message.get("databases")
    return frozenset(str(name).lower() for name in named) if named and message.get("writeIds") else None


def _table(database: Any, name: Any) -> TableName:
    return TableName(str(database).lower(), str(name).lower())


def _plain_insert(event: LoggedEvent, message: Mapping[str, Any]) -> TableCommit:
    table = _table(message["db"], message["table"])
    operation = "overwrite" if str(message.get("replace")).lower() == "true" else "insert"
    return TableCommit(event.event_id, event.time, table, None, None, (operation,), _partition_of(message))


def _partition_of(message: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The partition of an INSERT; its name is made of the table's columns and the partition's values."""
    if message.get("ptnObjJson") is None:
        return ()
    try:
        columns = [column["1"]["str"] for column in json.loads(message["tableObjJson"])["8"]["lst"][2:]]
        values = json.loads(message["ptnObjJson"])["1"]["lst"][2:]
        return (partition_name(list(zip(columns, values, strict=True))),)
    except (ValueError, KeyError, TypeError):
        # Thrift's JSON of skewed tables is none that JSON knows; then the partition is simply not known.
        return None
