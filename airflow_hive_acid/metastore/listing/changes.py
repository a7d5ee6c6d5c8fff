"""What the metastore knows about a range of write ids: which txns they are, and whether something of it may be gone.

Directories of the range say most of it (``format.changes``); they do not say how far a Cleaner has come where an INSERT
OVERWRITE hides what was there before, and nothing is left of a partition that was dropped or has another name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, select

from airflow_hive_acid.errors import ChangesNoLongerAvailableError, InvalidArgumentsError
from airflow_hive_acid.format.write_ids import MAX_ID
from airflow_hive_acid.metastore.catalog.thrift.parser import parse_partition, parse_table
from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType
from airflow_hive_acid.metastore.listing.commit_events import ALLOCATIONS, hear
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.notifications.events import EventType
from airflow_hive_acid.metastore.notifications.log import LoggedEvent
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    NEXT_WRITE_ID,
    NOTIFICATION_LOG,
    TXN_TO_WRITE_ID,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features

MOST_TXNS = 10_000
"""Txns of so many write ids are looked up; those of a longer range are not known."""
_CLEANED = (CompactionState.SUCCEEDED.value, CompactionState.FAILED.value)
_L = NOTIFICATION_LOG.c
_PAGE = 200
_EVENTS = (
    select(
        _L.EVENT_ID, _L.EVENT_TIME, _L.EVENT_TYPE, _L.CAT_NAME, _L.DB_NAME, _L.TBL_NAME, _L.MESSAGE, _L.MESSAGE_FORMAT
    )
    .where(
        _L.DB_NAME == bindparam("db"),
        _L.TBL_NAME == bindparam("tbl"),
        _L.EVENT_ID < bindparam("before"),
        _L.EVENT_TYPE.in_(
            [
                EventType.DROP_PARTITION.value,
                EventType.ALTER_PARTITION.value,
                EventType.ALTER_TABLE.value,
                EventType.CREATE_TABLE.value,
                EventType.DROP_TABLE.value,
                ALLOCATIONS,
            ]
        ),
    )
    .order_by(_L.EVENT_ID.desc())
    .limit(_PAGE)
)


def cleaned_up_to(connection: Connection, table: TableName) -> dict[str, int]:
    """By partition name, the largest write id up to which a Cleaner may have removed what was replaced.

    Asked by a reader whose txn is open: what is compacted from now on is not cleaned up after before it ends.
    """
    q, c = COMPACTION_QUEUE.c, COMPLETED_COMPACTIONS.c
    waiting = select(q.CQ_PARTITION, func.max(func.coalesce(q.CQ_HIGHEST_WRITE_ID, MAX_ID))).where(
        q.CQ_DATABASE == table.database, q.CQ_TABLE == table.name, q.CQ_TYPE != CompactionType.ABORT_TXN_CLEANUP.value,
        q.CQ_STATE == CompactionState.READY_FOR_CLEANING.value,
    ).group_by(q.CQ_PARTITION)  # fmt: skip
    done = select(c.CC_PARTITION, func.max(func.coalesce(c.CC_HIGHEST_WRITE_ID, MAX_ID))).where(
        c.CC_DATABASE == table.database, c.CC_TABLE == table.name, c.CC_STATE.in_(_CLEANED),
    ).group_by(c.CC_PARTITION)  # fmt: skip
    found: dict[str, int] = {}
    for statement in (waiting, done):
        for partition, highest in connection.execute(statement):
            found[partition or ""] = max(int(highest), found.get(partition or "", 0))
    return found


def txns_of(connection: Connection, table: TableName, first: int, last: int) -> dict[int, int]:
    """Txns by write id, of those that are still known; they began in the order of their numbers."""
    if last - first >= MOST_TXNS:
        return {}
    t, c = TXN_TO_WRITE_ID.c, COMPLETED_TXN_COMPONENTS.c
    known = select(t.T2W_WRITEID, t.T2W_TXNID).where(
        t.T2W_DATABASE == table.database, t.T2W_TABLE == table.name, t.T2W_WRITEID.between(first, last)
    )
    completed = select(c.CTC_WRITEID, c.CTC_TXNID).where(
        c.CTC_DATABASE == table.database, c.CTC_TABLE == table.name, c.CTC_WRITEID.between(first, last)
    )
    return {int(w): int(t) for statement in (completed, known) for w, t in connection.execute(statement)}


def require_partitions_kept(connection: Connection, features: Features, table: TableName, first: int) -> None:
    """Refuse a range in which, or behind which, a partition was dropped, renamed or given another directory.

    Of one that was dropped neither rows nor changes are left; the rows of one that was renamed have other values, by no
    write id.

    :raises ChangesNoLongerAvailableError: naming the write ids that were given after it.
    """
    found = lost_partition(connection, features, table, first)
    if found is not None:
        why, available = found
        raise ChangesNoLongerAvailableError(
            f"the changes of {table} from write id {first} on cannot be told any more: {why}. Those of write ids from "
            f"{available} on are available; read the table as a whole, and go on from there"
        )


def lost_partition(connection: Connection, features: Features, table: TableName, first: int) -> tuple[str, int] | None:
    """How a partition has gone since a write id was given, and the write id from which on nothing has.

    :param first: None when nothing has gone since it was given.
    """
    lost = _last_loss(connection, table, first) if features.notifications else None
    if lost is None:
        return None
    following = select(NEXT_WRITE_ID.c.NWI_NEXT).where(
        NEXT_WRITE_ID.c.NWI_DATABASE == table.database, NEXT_WRITE_ID.c.NWI_TABLE == table.name
    )
    available = int(connection.execute(following).scalar() or 1) if lost.next_write_id is None else lost.next_write_id
    if first >= available:
        return None
    return f"a partition was {lost.what} since (event {lost.event_id}), and its rows with it", available


def altered_after(
    connection: Connection, table: TableName, *, time: int | None = None, event_id: int = 0
) -> str | None:  # fmt: skip
    """What has happened to a table or its partitions that no write id tells of; None when nothing has.

    :param time: seconds since 1970; what happened later counts.
    :param event_id: what later events tell of counts.
    """
    before = MAX_ID
    while True:
        rows = connection.execute(_EVENTS, {"db": table.database, "tbl": table.name, "before": before}).all()
        for row in rows:
            event, before = LoggedEvent(*row), row[0]
            if event.event_id <= event_id or (time is not None and event.time <= time):
                return None
            if event.type == EventType.DROP_PARTITION.value:
                return "a partition was dropped"
            if event.type == EventType.ALTER_PARTITION.value and _is_moved(event):
                return "a partition was renamed or moved"
            if event.type in (EventType.CREATE_TABLE.value, EventType.DROP_TABLE.value):
                return "the table was made anew"
            if event.type == EventType.ALTER_TABLE.value and _former_name(event, table) is not None:
                return "the table was renamed"
        if len(rows) < _PAGE:
            return None


@dataclass(frozen=True, slots=True)
class _Loss:
    """An event with which rows have come or gone by no write id.

    :param next_write_id: the smallest one that was given after it; None: none was.
    """

    event_id: int
    what: str
    next_write_id: int | None


def _last_loss(connection: Connection, table: TableName, first: int) -> _Loss | None:
    """Look back in the log, as far as ``first`` was not given yet, and through the table's former names."""
    name, before, given = table, MAX_ID, None
    while True:
        rows = connection.execute(_EVENTS, {"db": name.database, "tbl": name.name, "before": before}).all()
        for row in rows:
            event = LoggedEvent(*row)
            before = event.event_id
            if event.type == EventType.DROP_PARTITION.value:
                return _Loss(event.event_id, "dropped", given)
            if event.type == EventType.ALTER_PARTITION.value and _is_moved(event):
                return _Loss(event.event_id, "renamed or moved", given)
            if event.type in (EventType.CREATE_TABLE.value, EventType.DROP_TABLE.value):
                return None  # what is older was another table
            if event.type == EventType.ALTER_TABLE.value and (former := _former_name(event, name)) is not None:
                name = former
                break
            if event.type == ALLOCATIONS and (written := _write_ids(event, name)):
                if max(written) < first:
                    return None
                given = min(written)
        else:
            if len(rows) < _PAGE:
                return None


def _write_ids(event: LoggedEvent, table: TableName) -> list[int]:
    try:
        heard = hear(event)
    except InvalidArgumentsError:
        return []
    return [] if heard is None else [w for (_, written), w in heard.write_ids.items() if written == table]


def _is_moved(event: LoggedEvent) -> bool:
    """Whether a partition has other values or lies elsewhere since; one that cannot be read may have been that."""
    try:
        message = event.message()
        columns = parse_table(message["tableObjJson"]).partition_columns
        before, after = (parse_partition(message[f"partitionObj{when}Json"], columns) for when in ("Before", "After"))
    except (InvalidArgumentsError, KeyError, TypeError, ValueError):
        return True
    return (before.values, before.storage.location) != (after.values, after.storage.location)


def _former_name(event: LoggedEvent, table: TableName) -> TableName | None:
    """The name that a table had before, if it was renamed."""
    try:
        old = parse_table(event.message()["tableObjBeforeJson"])
    except (InvalidArgumentsError, KeyError, TypeError, ValueError):
        return None  # the names of partitions do not depend on it
    former = TableName(old.db.lower(), old.name.lower())
    return None if former == table else former
