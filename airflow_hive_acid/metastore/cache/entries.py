"""What the cache holds: tables, databases and lists of names with their place in the log, bounded by bytes.

Entries are values and never change; the store replaces them. The least recently read ones go when memory runs out.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cachetools import Cache, LRUCache

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.metastore.cache.rules import Freshness, WriteIds, pending_of
from airflow_hive_acid.metastore.names.objects import TableName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.cache.events import Touch
    from airflow_hive_acid.metastore.cache.partitions import PartitionSet
    from airflow_hive_acid.metastore.catalog.values.model import Database, Partition, Table

_ENTRY_BYTES = 600
_TEXT_BYTES = 57
_PAIR_BYTES = 110
_NUMBER_BYTES = 60


@dataclass(frozen=True, slots=True)
class Loaded:
    """A table as one database snapshot showed it.

    :param as_of: the last event before that snapshot.
    :param partitions: those asked for by name, None for names that do not exist.
    :param whole: all partitions, if they were asked for.
    """

    table: Table
    write_ids: WriteIds
    as_of: int
    partitions: Mapping[str, Partition | None]
    whole: PartitionSet | None = None


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table in the cache.

    :param partitions: all of them, None while nobody has asked for any.
    :param again: names of partitions that must be read again.
    :param told: how many write ids the log says were given since, and how many have ended.
    """

    table: Table
    write_ids: WriteIds
    freshness: Freshness
    partitions: PartitionSet | None = None
    again: frozenset[str] = frozenset()
    told: tuple[int, int] = (0, 0)

    @property
    def size(self) -> int:
        """Bytes, as far as can be told."""
        ids = len(self.write_ids.open) + len(self.write_ids.aborted)
        whole = 0 if self.partitions is None else self.partitions.size
        return _ENTRY_BYTES + bytes_of_table(self.table) + ids * _NUMBER_BYTES + whole

    @classmethod
    def of(cls, loaded: Loaded) -> TableEntry:
        """An entry of what was read."""
        written = {loaded.table.write_id}
        if loaded.write_ids.open and loaded.whole is not None:
            written |= loaded.whole.write_ids()
        pending = pending_of(loaded.write_ids, written)
        return cls(loaded.table, loaded.write_ids, Freshness(loaded.as_of, None, pending), loaded.whole)

    def touched(self, touch: Touch) -> TableEntry:
        """The entry after an event: to be read again before anybody may have it."""
        since = max(self.freshness.since or 0, touch.last)
        freshness = replace(self.freshness, since=since)
        if self.partitions is None or touch.all_partitions:
            return replace(self, freshness=freshness, partitions=None, again=frozenset())
        return replace(self, freshness=freshness, again=self.again | names_of(self.table, touch))

    def counted(self, given: Iterable[int], ended: Iterable[int]) -> TableEntry:
        """The entry after events of write ids, which touch nothing by themselves.

        :param given: ids of events, as ``Changes`` has them.
        """
        as_of, told = self.freshness.as_of, self.told
        more = [sum(1 for event_id in events if event_id > as_of) for events in (given, ended)]
        return replace(self, told=(told[0] + more[0], told[1] + more[1])) if any(more) else self

    def is_all_told(self, later: WriteIds) -> bool:
        """Whether the log has told of every write id that was given or has ended up to a later place.

        A server without a listener tells of none, nor of the partitions that it has changed under them.
        """
        given = later.high_watermark - self.write_ids.high_watermark
        return self.told == (given, len(self.write_ids.open) + given - len(later.open))

    def doubted(self, since: int) -> TableEntry:
        """The entry after the database showed something else at an event: all of it is read again."""
        freshness = replace(self.freshness, since=max(self.freshness.since or 0, since))
        return replace(self, freshness=freshness, partitions=None, again=frozenset())

    def refreshed(self, loaded: Loaded) -> TableEntry:
        """The entry with what was read again; one that must be younger still stays unusable."""
        table, write_ids = loaded.table, loaded.write_ids
        if table.id != self.table.id:
            return TableEntry.of(loaded)
        partitions = loaded.whole
        if partitions is None and self.partitions is not None:
            # A table that was moved has moved its partitions, of which no event tells.
            stays = (table.location, table.name, table.db) == (self.table.location, self.table.name, self.table.db)
            known = self.again <= loaded.partitions.keys() and self.is_all_told(write_ids)
            partitions = self.partitions.changed(loaded.partitions) if stays and known else None
        written = {table.write_id, *self.freshness.pending}
        written.update(p.write_id for p in loaded.partitions.values() if p is not None)
        since = self.freshness.since
        return TableEntry(
            table,
            write_ids,
            Freshness(loaded.as_of, since if since and since > loaded.as_of else None, pending_of(write_ids, written)),
            partitions,
        )


@dataclass(frozen=True, slots=True)
class ValueEntry:
    """A database or a list of names in the cache.

    :param value: a database, or names, sorted.
    """

    value: Database | tuple[str, ...]
    freshness: Freshness

    @property
    def size(self) -> int:
        """Bytes, as far as can be told."""
        if isinstance(self.value, tuple):
            return _ENTRY_BYTES + sum(_TEXT_BYTES + len(name) for name in self.value)
        return _ENTRY_BYTES * 2 + _bytes_of_texts(self.value.properties)


Entry = TableEntry | ValueEntry


def names_of(table: Table, touch: Touch) -> frozenset[str]:
    """Names of the partitions an event named by their values, whatever the order of its columns."""
    order = [column.name for column in table.partition_columns]
    return frozenset(
        partition_name([(column, dict(spec).get(column)) for column in order]) for spec in touch.partitions
    )


def require_list(table: Table, table_id: int | None, reader: ValidWriteIdList | None) -> None:
    """The seed's rules of what a reader must say; a wrong id is another table.

    :raises InvalidArgumentsError: naming what is missing, or too much.
    :raises NoSuchObjectError: when the name belongs to another table.
    """
    if table.is_transactional and (reader is None or table_id is None):
        what = "valid_write_id_list" if reader is None else "table_id"
        raise InvalidArgumentsError(
            f"{table.qualified_name} is transactional: it cannot be read without {what}; take both with "
            "client.valid_write_ids_and_table_ids"
        )
    if not table.is_transactional and reader is not None:
        raise InvalidArgumentsError(
            f"{table.qualified_name} is not transactional and has no write ids: valid_write_id_list must be None"
        )
    if table_id is not None and table.id != table_id:
        raise NoSuchObjectError(
            f"there is no table {table.qualified_name} with id {table_id} any more: the name belongs to table "
            f"{table.id}; take ids and lists anew"
        )


def bytes_of_table(table: Table) -> int:
    """Bytes of a table's columns and texts."""
    columns = (*table.storage.columns, *table.partition_keys)
    texts = sum(_TEXT_BYTES * 2 + _NUMBER_BYTES + len(c.name) + len(c.type) for c in columns)
    maps = sum(map(_bytes_of_texts, (table.properties, table.comments, table.serde_properties)))
    return sys.getsizeof(table) + 500 + len(table.location) + texts + maps


def _bytes_of_texts(texts: Mapping[str, str]) -> int:
    return sum(_PAIR_BYTES + 2 * _TEXT_BYTES + len(key) + len(value) for key, value in texts.items())


class Store(LRUCache[TableName, Entry]):
    """Entries by key, at most so many bytes of them."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, getsizeof=lambda entry: entry.size)
        self.evictions = 0

    def popitem(self) -> tuple[TableName, Entry]:
        """Remove the least recently read entry."""
        self.evictions += 1
        return super().popitem()

    def peek(self, key: TableName) -> Entry | None:
        """An entry, without counting it as read."""
        return Cache.__getitem__(self, key) if key in self else None

    def table(self, key: TableName) -> TableEntry | None:
        """The same, if it is a table."""
        found = self.peek(key)
        return found if isinstance(found, TableEntry) else None

    def put(self, key: TableName, entry: Entry) -> bool:
        """Keep an entry, without its partitions if there is no room for them; whether it is kept as it is."""
        whole = entry.size <= self.maxsize
        if not whole and isinstance(entry, TableEntry) and entry.partitions is not None:
            entry = replace(entry, partitions=None, again=frozenset())
        if entry.size > self.maxsize:
            self.pop(key, None)
            return False
        if key in self:
            Cache.__setitem__(self, key, entry)  # a write is no read
        else:
            self[key] = entry
        return whole

    def of_database(self, database: str) -> Collection[TableName]:
        """Keys of a database and all that is in it."""
        return [key for key in self if key.database == database]
