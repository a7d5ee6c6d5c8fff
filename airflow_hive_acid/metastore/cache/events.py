"""What an event of the notification log means to the cache: rows of any server's log to :class:`Changes`.

Only names, txn ids, write ids and partition values are taken from messages, which all of Hive's formats have alike. A
message that cannot be read is taken for the worst it could have said. Commit events of Hives older than 4.2 name no
write ids: which tables a txn wrote is known from its ALLOC_WRITE_ID events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.events import CATALOG, EventType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hive_acid.metastore.notifications.log import LoggedEvent

MOST_PARTITIONS: Final = 20_000
"""More of one table's partitions than this are not looked up one by one."""
ALL_DATABASES: Final = TableName("", "")
_PARTITION_EVENTS = frozenset({
    EventType.ADD_PARTITION.value, EventType.DROP_PARTITION.value, EventType.ALTER_PARTITIONS.value,
    EventType.ALTER_PARTITION.value,
})  # fmt: skip
_ROW_ONLY = frozenset({EventType.INSERT.value, EventType.COMMIT_COMPACTION.value})
_UNREADABLE = (
    InvalidArgumentsError, KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError
)  # fmt: skip
_Spec = tuple[tuple[str, str], ...]


def database_key(database: str) -> TableName:
    """The key of a database itself."""
    return TableName(database, "")


def names_key(database: str) -> TableName:
    """The key of the names of a database's tables."""
    return TableName(database, "*")


@dataclass(slots=True)
class Touch:
    """What events did to one object.

    :param last: id of the last of them.
    :param partitions: column and value pairs of the partitions touched.
    :param all_partitions: any of them may be another one.
    :param gone: it does not exist under this name any more.
    :param created: it was made, or given this name.
    :param renamed_from: the name it had.
    """

    last: int
    partitions: set[_Spec] = field(default_factory=set)
    all_partitions: bool = False
    gone: bool = False
    created: bool = False
    renamed_from: TableName | None = None

    def merge(self, other: Touch) -> None:
        """Add what a later touch did."""
        self.last = max(self.last, other.last)
        self.partitions |= other.partitions
        self.all_partitions = self.all_partitions or other.all_partitions
        if len(self.partitions) > MOST_PARTITIONS:
            self.all_partitions = True
        if self.all_partitions:
            self.partitions.clear()


@dataclass(slots=True)
class Changes:
    """What a stretch of the log did.

    :param tables: touches of tables, databases and lists of names, by their keys.
    :param databases: databases in which any table may have been touched, with the last such event.
    :param given: events by table, one for each write id that was given; ``ended`` one for each whose txn ended.
    :param unreadable: id of an event that could have said anything, None if there was none.
    """

    tables: dict[TableName, Touch] = field(default_factory=dict)
    databases: dict[str, int] = field(default_factory=dict)
    given: dict[TableName, list[int]] = field(default_factory=dict)
    ended: dict[TableName, list[int]] = field(default_factory=dict)
    unreadable: int | None = None

    def of(self, key: TableName) -> Touch | None:
        """What happened to an object."""
        found = self.tables.get(key)
        everywhere = self.databases.get(key.database)
        if everywhere is None:
            return found
        whole = Touch(everywhere)
        if found is None:
            return whole
        whole.merge(found)
        whole.gone, whole.created, whole.renamed_from = found.gone, found.created, found.renamed_from
        return whole

    def touch(
        self, key: TableName, event_id: int, partitions: Iterable[_Spec] = (), *, all_partitions: bool = False
    ) -> Touch:
        """An event was about an object."""
        known = self.tables.setdefault(key, Touch(event_id))
        known.merge(Touch(event_id, set(partitions), all_partitions))
        return known

    def made(self, key: TableName, event_id: int, renamed_from: TableName | None = None) -> None:
        """A table was created, or renamed to this name."""
        touch = self.touch(key, event_id, all_partitions=True)
        touch.gone, touch.created, touch.renamed_from = False, True, renamed_from
        self.touch(names_key(key.database), event_id)

    def removed(self, key: TableName, event_id: int) -> None:
        """A table was dropped, or renamed to another name."""
        touch = self.touch(key, event_id, all_partitions=True)
        touch.gone, touch.created, touch.renamed_from = True, False, None
        self.touch(names_key(key.database), event_id)


class OpenWrites:
    """Which tables each open txn has write ids of: from the database when following begins, then from the log."""

    def __init__(self, rows: Iterable[tuple[int, TableName]] = ()) -> None:
        self._tables: dict[int, set[TableName]] = {}
        for txn_id, table in rows:
            self.allocated(txn_id, table)

    def __len__(self) -> int:
        return len(self._tables)

    def copy(self) -> OpenWrites:
        """Another one with the same content."""
        return OpenWrites((txn_id, table) for txn_id, tables in self._tables.items() for table in tables)

    def allocated(self, txn_id: int, table: TableName) -> None:
        """A txn was given a write id of a table."""
        self._tables.setdefault(txn_id, set()).add(table)

    def ended(self, txn_id: int) -> set[TableName] | None:
        """The tables of a txn that has ended; None when nothing was heard of it."""
        return self._tables.pop(txn_id, None)

    def renamed(self, before: TableName, after: TableName) -> None:
        """A table's write ids go on under another name."""
        for tables in self._tables.values():
            if before in tables:
                tables.remove(before)
                tables.add(after)


def fold(events: Iterable[LoggedEvent], writes: OpenWrites) -> Changes:
    """What events did, in their order.

    :param writes: is brought up to the last of them.
    """
    changes = Changes()
    for event in events:
        if event.catalog in (None, "", CATALOG):
            try:
                _fold_one(event, writes, changes)
            except _UNREADABLE:
                changes.unreadable = event.event_id
    return changes


def _fold_one(event: LoggedEvent, writes: OpenWrites, changes: Changes) -> None:
    kind, event_id = event.type, event.event_id
    if kind == EventType.OPEN_TXN.value:
        return
    if kind in (EventType.COMMIT_TXN.value, EventType.ABORT_TXN.value):
        _ended(event.message(), event_id, writes, changes)
        return
    if kind == EventType.ALLOC_WRITE_ID.value:
        message = event.message()
        table = _name(message["dbName"], message["tableName"])
        for txn_id in message["txnIdList"]:
            writes.allocated(int(txn_id), table)
            changes.given.setdefault(table, []).append(event_id)
        return
    if not event.database:
        return  # functions of the server, catalogs, connectors: nothing of what is cached
    database = event.database.lower()
    if not event.table:
        changes.touch(database_key(database), event_id)
        changes.touch(ALL_DATABASES, event_id)
        if kind == EventType.DROP_DATABASE.value:
            changes.databases[database] = event_id
            changes.touch(names_key(database), event_id)
        return
    _fold_table(event, TableName(database, event.table.lower()), writes, changes)


def _fold_table(event: LoggedEvent, key: TableName, writes: OpenWrites, changes: Changes) -> None:
    kind, event_id = event.type, event.event_id
    if kind == EventType.CREATE_TABLE.value:
        changes.made(key, event_id)
    elif kind == EventType.DROP_TABLE.value:
        changes.removed(key, event_id)
    elif kind == EventType.ALTER_TABLE.value:
        message = event.message()
        before = _name(message["db"], message["table"])
        if before == key:
            changes.touch(key, event_id, all_partitions=True)
            return
        writes.renamed(before, key)
        changes.removed(before, event_id)
        changes.made(key, event_id, before)
    elif kind in _ROW_ONLY:
        changes.touch(key, event_id)
    elif kind in _PARTITION_EVENTS:
        try:
            changes.touch(key, event_id, _partitions(event.message()))
        except _UNREADABLE:
            changes.touch(key, event_id, all_partitions=True)
    else:
        changes.touch(key, event_id, all_partitions=True)


def _ended(message: Mapping[str, Any], event_id: int, writes: OpenWrites, changes: Changes) -> None:
    """Whatever the txn changed without an event of its own is read again, too: each of its tables is touched."""
    tables = writes.ended(int(message["txnid"]))
    for table in tables or ():
        changes.touch(table, event_id)
        changes.ended.setdefault(table, []).append(event_id)
    if tables is None and message.get("writeIds"):
        # Its write ids were given before anybody listened; the message names databases, and no tables.
        for database in message.get("databases") or message.get("dbsUpdated") or ():
            changes.databases[str(database).lower()] = event_id


def _partitions(message: Mapping[str, Any]) -> list[_Spec]:
    if "keyValues" not in message:
        return [_spec(pairs) for pairs in message["partitions"]]
    before = _spec(message["keyValues"])
    # One that was renamed has its new values in the object only: field 1 of Partition in Thrift's JSON.
    kind, _, *values = json.loads(message["partitionObjAfterJson"])["1"]["lst"]
    if kind != "str" or len(values) != len(before):
        raise InvalidArgumentsError("a partition's values are not those of its keys")
    return [before, tuple((column, str(value)) for (column, _), value in zip(before, values, strict=True))]


def _spec(pairs: Mapping[str, Any]) -> _Spec:
    return tuple((str(column).lower(), str(value)) for column, value in pairs.items())


def _name(database: object, table: object) -> TableName:
    return TableName(str(database).lower(), str(table).lower())
