"""A metastore in a few dictionaries, for tests of the cache's pure core: a catalog, txns, and a log that tells all."""

from __future__ import annotations

import itertools
import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.cache.entries import Loaded
from airflow_hive_acid.metastore.cache.events import OpenWrites, fold
from airflow_hive_acid.metastore.cache.partitions import PartitionSet
from airflow_hive_acid.metastore.cache.rules import WriteIds, find_gap
from airflow_hive_acid.metastore.cache.state import CacheState, Round
from airflow_hive_acid.metastore.catalog.values.model import Partition, Table
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.log import LoggedEvent
from tests.tables import flat_table

KEYS = [TableName("d", name) for name in ("t", "u", "x")]
TRANSACTIONAL, EXTERNAL = KEYS[:2], KEYS[2]


@dataclass
class WorldTable:
    """A table of the world.

    :param version: counts its changes; ``by`` the write id of the last one, 0 without.
    :param changes: version by the write id that brought it.
    """

    id: int
    transactional: bool
    version: int = 0
    by: int = 0
    changes: dict[int, int] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    following: int = 1
    writes: dict[int, int] = field(default_factory=dict)


class World:
    """What a database would hold. Each method is one of its transactions."""

    def __init__(self) -> None:
        self.tables: dict[TableName, WorldTable] = {}
        self.txns: dict[int, str] = {}
        self.events: list[LoggedEvent] = []
        self.purged = 0
        self._ids = itertools.count(1)
        self._txn_ids = itertools.count(1)

    def __deepcopy__(self, memo: dict[int, Any]) -> World:
        other = World()
        other.tables, other.txns = deepcopy(self.tables), dict(self.txns)
        other.events, other.purged = list(self.events), self.purged
        return other

    @property
    def end(self) -> int:
        return self.purged + len(self.events)

    def after(self, position: int) -> list[LoggedEvent]:
        return [event for event in self.events if event.event_id > position]

    def purge(self) -> None:
        """All events so far are gone, as after a day."""
        self.purged, self.events = self.end, []

    # --- changes --------------------------------------------------------------------------------------------------

    def create(self, key: TableName, *, transactional: bool) -> None:
        self.tables[key] = WorldTable(next(self._ids), transactional)
        self._tell("CREATE_TABLE", key, {})

    def drop(self, key: TableName) -> None:
        del self.tables[key]
        self._tell("DROP_TABLE", key, {})

    def rename(self, key: TableName, new: TableName) -> None:
        """A rename takes a write id, as every DDL does, and commits it."""
        write_id = self.allocate(key, txn := self.open())
        table = self.tables.pop(key)
        self.tables[new] = table
        self._change(table, write_id)
        self._tell("ALTER_TABLE", new, {"db": key.database, "table": key.name, "writeId": write_id})
        self.commit(txn, [(new.database, write_id)])

    def open(self) -> int:
        txn = next(self._txn_ids)
        self.txns[txn] = "o"
        self._tell("OPEN_TXN", None, {"txnIds": [txn]})
        return txn

    def allocate(self, key: TableName, txn: int) -> int:
        table = self.tables[key]
        if not table.transactional:
            return 0
        write_id, table.following = table.following, table.following + 1
        table.writes[write_id] = txn
        message = {"dbName": key.database, "tableName": key.name, "txnIdList": [txn], "writeIdList": [write_id]}
        self._tell("ALLOC_WRITE_ID_EVENT", key, message)
        return write_id

    def alter(self, key: TableName, write_id: int = 0) -> None:
        """A DDL's change, as a real Hive makes it: at once, and before its txn commits."""
        self._change(self.tables[key], write_id)
        self._tell("ALTER_TABLE", key, {"db": key.database, "table": key.name, "writeId": write_id or -1})

    def alter_untold(self, key: TableName, write_id: int = 0) -> None:
        """A change of a Hive whose server has no listener."""
        self._change(self.tables[key], write_id)

    def write_untold(self, key: TableName, name: str) -> None:
        """A write of such a Hive, which adds a partition: nothing of it is in the log."""
        table, txn = self.tables[key], next(self._txn_ids)
        write_id, table.following = table.following, table.following + 1
        table.writes[write_id], self.txns[txn] = txn, "c"
        table.partitions[name] = write_id
        self._change(table, write_id)

    def add_partition(self, key: TableName, name: str, write_id: int = 0) -> None:
        table = self.tables[key]
        kind = "ALTER_PARTITIONS" if name in table.partitions else "ADD_PARTITION"
        table.partitions[name] = write_id
        self._change(table, write_id)
        self._tell(kind, key, {"partitions": [dict([name.split("=")])]})

    def drop_partition(self, key: TableName, name: str, write_id: int = 0) -> None:
        table = self.tables[key]
        del table.partitions[name]
        self._change(table, write_id)
        self._tell("DROP_PARTITION", key, {"partitions": [dict([name.split("=")])]})

    def commit(self, txn: int, writes: list[tuple[str, int]] | None = None, *, told: bool = True) -> None:
        """:param writes: what the event names; a Hive older than 4.2 names nothing."""
        self.txns[txn] = "c"
        if told:
            named = {"writeIds": [w for _, w in writes], "databases": [d for d, _ in writes]} if writes else {}
            self._tell("COMMIT_TXN", None, {"txnid": txn, **named})

    def abort(self, txn: int) -> None:
        self.txns[txn] = "a"
        self._tell("ABORT_TXN", None, {"txnid": txn})

    def forget_aborted(self, txn: int) -> None:
        """The Cleaner and the housekeepers were there: the txn is not remembered any more."""
        del self.txns[txn]

    # --- what a database snapshot shows ---------------------------------------------------------------------------

    def load(self, key: TableName, names: frozenset[str] = frozenset(), *, whole: bool = False) -> Loaded | None:
        found = self.tables.get(key)
        if found is None:
            return None
        partitions = {name: self._partition(found, name) for name in names}
        everything = PartitionSet(p for n in found.partitions if (p := self._partition(found, n))) if whole else None
        return Loaded(table_value(key, found), self.write_ids(found), self.end, partitions, everything)

    def write_ids(self, table: WorldTable) -> WriteIds:
        by_state = {
            state: frozenset(w for w, txn in table.writes.items() if self.txns.get(txn) == state) for state in "oa"
        }
        return WriteIds(table.following - 1, by_state["o"], by_state["a"])

    def reader_list(self, key: TableName) -> ValidWriteIdList | None:
        """What a reader that begins now sees of a table."""
        found = self.tables[key]
        if not found.transactional:
            return None
        ids = self.write_ids(found)
        return ValidWriteIdList(ids.high_watermark, ids.open, ids.aborted, None, str(key))

    def _partition(self, table: WorldTable, name: str) -> Partition | None:
        if name not in table.partitions:
            return None
        return Partition(name, (name.partition("=")[2],), f"file:/w/{table.id}/{name}", 0, table.partitions[name])

    def _change(self, table: WorldTable, write_id: int) -> None:
        table.version += 1
        if write_id:
            table.by = write_id
            table.changes[write_id] = table.version

    def _tell(self, kind: str, key: TableName | None, message: dict[str, Any]) -> None:
        named = (None, None, None) if key is None else ("hive", key.database, key.name)
        self.events.append(LoggedEvent(self.end + 1, 0, kind, *named, json.dumps(message), "json-0.2"))


def table_value(key: TableName, table: WorldTable) -> Table:
    """A table of the world as the catalog would give it."""
    properties = {"v": str(table.version)}
    if table.transactional:
        properties["transactional"] = "true"
    return flat_table(
        key.database, key.name, table.id, f"file:/w/{table.id}", (Column("a", "int"),), (Column("p", "int"),),
        properties, None, "MANAGED_TABLE" if table.transactional else "EXTERNAL_TABLE", write_id=table.by,
    )  # fmt: skip


def begin_round(state: CacheState, world: World) -> Round | None:
    """What the follower reads in one database snapshot; None when it has to begin anew.

    Its look ends when the caller says so.
    """
    assert state.position is not None
    events = world.after(state.position)
    if find_gap(state.position, world.end, [event.event_id for event in events], 1000):
        return None
    looking, writes = state.begin_looking(), state.writes.copy()
    changes = fold(events, writes)
    loads = {key: world.load(key, names) for key, names in state.plan(changes).items()}
    return Round(looking, state.position, world.end, changes, loads, writes)


def open_writes(world: World) -> OpenWrites:
    return OpenWrites(
        (txn, key) for key, table in world.tables.items() for txn in table.writes.values() if world.txns.get(txn) == "o"
    )
