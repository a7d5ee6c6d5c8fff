"""What the cache reads from the database: the log and the catalog, always in one snapshot of it.

NOTIFICATION_SEQUENCE is locked until the end of each transaction that writes events, so a snapshot that shows its value
shows exactly what the events below that value tell: a load knows its place in the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, or_, select, tuple_

from airflow_hive_acid.metastore.cache.entries import Loaded
from airflow_hive_acid.metastore.cache.events import OpenWrites, fold
from airflow_hive_acid.metastore.cache.partitions import PartitionSet
from airflow_hive_acid.metastore.cache.rules import Gap, WriteIds, find_gap
from airflow_hive_acid.metastore.cache.state import Round
from airflow_hive_acid.metastore.catalog.rows.partitions import find_partitions, read_partitions
from airflow_hive_acid.metastore.catalog.rows.reader import read_tables
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.log import is_another_log, read_end, read_events, read_last_event_id
from airflow_hive_acid.metastore.schema.hive_transactions import NEXT_WRITE_ID, TXN_TO_WRITE_ID, TXNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.cache.events import Changes
    from airflow_hive_acid.metastore.cache.state import Looking
    from airflow_hive_acid.metastore.notifications.log import LoggedEvent

MOST_EVENTS = 50_000
"""Further behind than this, everything is read anew when somebody asks for it."""
_PAGE = 1000
_TABLES_AT_ONCE = 200

_T, _N = TXN_TO_WRITE_ID.c, NEXT_WRITE_ID.c
_NAMES: Any = bindparam("names", expanding=True)
_MARKS = select(_N.NWI_DATABASE, _N.NWI_TABLE, _N.NWI_NEXT).where(tuple_(_N.NWI_DATABASE, _N.NWI_TABLE).in_(_NAMES))
_NOT_COMMITTED = (
    select(_T.T2W_DATABASE, _T.T2W_TABLE, _T.T2W_WRITEID, TXNS.c.TXN_STATE)
    .join(TXNS, TXNS.c.TXN_ID == _T.T2W_TXNID)
    .where(or_(TXNS.c.TXN_STATE == "o", TXNS.c.TXN_STATE == "a"), tuple_(_T.T2W_DATABASE, _T.T2W_TABLE).in_(_NAMES))
)
_OPEN_WRITES = (
    select(_T.T2W_TXNID, _T.T2W_DATABASE, _T.T2W_TABLE)
    .join(TXNS, TXNS.c.TXN_ID == _T.T2W_TXNID)
    .where(TXNS.c.TXN_STATE == "o")
)


@dataclass(frozen=True, slots=True)
class Restart:
    """The log cannot be followed from where we were.

    :param end: where to go on; ``writes`` the open writes there.
    :param why: None at the first look.
    :param time: when the event ``end`` was written, in seconds since 1970; None when it is not there (any more).
    """

    end: int
    writes: OpenWrites
    why: Gap | str | None
    time: int | None = None


def read_round(
    connection: Connection,
    looking: Looking,
    position: int | None,
    writes: OpenWrites,
    plan: Callable[[Changes], Mapping[TableName, frozenset[str]]],
    noted: int | None = None,
) -> Round | Restart:
    """Events after a position, and again what they touched; nothing but the database is looked at.

    :param looking: begun before the connection's snapshot.
    :param position: the last event processed, None to begin.
    :param writes: the open writes there.
    :param plan: says what to read again.
    :param noted: when the event at the position was written; another time says that the metastore was restored.
    """
    if position is None:
        return _restart(connection, None)
    end, time = read_end(connection, position)
    if is_another_log(noted, time):
        return _restart(connection, "the log is another one: the metastore was restored, and has gone on since")
    gap = find_gap(position, end, range(position + 1, end + 1), MOST_EVENTS)
    events: list[LoggedEvent] = []
    if gap is None:
        events = _read_events(connection, position, end)
        gap = find_gap(position, end, [event.event_id for event in events], MOST_EVENTS)
    if gap is not None:
        return _restart(connection, gap)
    after = writes.copy()
    changes = fold(events, after)
    if changes.unreadable is not None:
        return _restart(connection, f"event {changes.unreadable} cannot be read")
    wanted = plan(changes)
    loads = _read_again(connection, wanted, end)
    return Round(looking, position, end, changes, loads, after, events[-1].time if events else time)


def _restart(connection: Connection, why: Gap | str | None) -> Restart:
    end = read_last_event_id(connection)
    return Restart(end, _read_open_writes(connection), why, read_end(connection, end)[1])


def read_loaded(
    connection: Connection, keys: Sequence[TableName], *, partitions: bool = False
) -> tuple[int, dict[TableName, Loaded]]:
    """Those of the tables that exist, and the last event that this snapshot shows.

    :param partitions: with all their partitions.
    """
    as_of = read_last_event_id(connection)
    found: dict[TableName, Loaded] = {}
    tables = read_tables(connection, keys)
    write_ids = read_write_ids(connection, [TableName(*key) for key, table in tables.items() if table.is_transactional])
    for name, table in tables.items():
        key = TableName(*name)
        whole = PartitionSet(read_partitions(connection, table)) if partitions and table.is_partitioned else None
        found[key] = Loaded(table, write_ids.get(key, WriteIds()), as_of, {}, whole)
    return as_of, found


def read_write_ids(connection: Connection, tables: Iterable[TableName]) -> dict[TableName, WriteIds]:
    """All write ids of tables: the last one given, the open and the aborted ones."""
    found: dict[TableName, WriteIds] = {}
    for batch in chunks(list(tables), _TABLES_AT_ONCE):
        names = {"names": [tuple(name) for name in batch]}
        marks = {TableName(db, name): int(following) - 1 for db, name, following in connection.execute(_MARKS, names)}
        hidden: dict[tuple[TableName, str], set[int]] = {}
        for db, name, write_id, state in connection.execute(_NOT_COMMITTED, names):
            hidden.setdefault((TableName(db, name), state), set()).add(int(write_id))
        for name in batch:
            opened, aborted = (frozenset(hidden.get((name, state), ())) for state in ("o", "a"))
            found[name] = WriteIds(marks.get(name, 0), opened, aborted)
    return found


def _read_events(connection: Connection, position: int, end: int) -> list[LoggedEvent]:
    events: list[LoggedEvent] = []
    while position < end:
        page = read_events(connection, position, min(_PAGE, end - position))
        if not page:
            break
        events += page
        position = page[-1].event_id
    return events


def _read_again(
    connection: Connection, wanted: Mapping[TableName, frozenset[str]], end: int
) -> dict[TableName, Loaded | None]:
    if not wanted:
        return {}
    _, found = read_loaded(connection, list(wanted))
    again: dict[TableName, Loaded | None] = {}
    for key, names in wanted.items():
        loaded = found.get(key)
        if loaded is not None and names and loaded.table.is_partitioned:
            there = find_partitions(connection, loaded.table, sorted(names))
            partitions = {name: there.get(name) for name in names}
            loaded = Loaded(loaded.table, loaded.write_ids, end, partitions)
        again[key] = loaded
    return again


def _read_open_writes(connection: Connection) -> OpenWrites:
    return OpenWrites((int(txn_id), TableName(db, name)) for txn_id, db, name in connection.execute(_OPEN_WRITES))
