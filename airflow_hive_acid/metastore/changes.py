"""What the metastore knows about a range of write ids: which txns they are, and whether something of it may be gone.

Directories of the range say most of it (``format.changes``); they do not say how far a Cleaner has come where an INSERT
OVERWRITE hides what was there before, and nothing is left of a partition that was dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from airflow_hive_acid.errors import ChangesNoLongerAvailableError
from airflow_hive_acid.format.write_ids import MAX_ID
from airflow_hive_acid.metastore.commit_events import ALLOCATIONS, hear
from airflow_hive_acid.metastore.compaction_queue_model import CompactionState, CompactionType
from airflow_hive_acid.metastore.events import EventType
from airflow_hive_acid.metastore.notifications import LoggedEvent
from airflow_hive_acid.metastore.schema_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    NEXT_WRITE_ID,
    NOTIFICATION_LOG,
    TXN_TO_WRITE_ID,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database import Features
    from airflow_hive_acid.metastore.objects import TableName

MOST_TXNS = 10_000
"""Txns of so many write ids are looked up; those of a longer range are not known."""
_CLEANED = (CompactionState.SUCCEEDED.value, CompactionState.FAILED.value)
_L = NOTIFICATION_LOG.c


def cleaned_up_to(conn: Connection, table: TableName) -> dict[str, int]:
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
        for partition, highest in conn.execute(statement):
            found[partition or ""] = max(int(highest), found.get(partition or "", 0))
    return found


def txns_of(conn: Connection, table: TableName, first: int, last: int) -> dict[int, int]:
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
    return {int(w): int(t) for statement in (completed, known) for w, t in conn.execute(statement)}


def require_no_partition_dropped(conn: Connection, features: Features, table: TableName, first: int) -> None:
    """Refuse a range in which, or behind which, a partition was dropped: neither its rows nor its changes are left.

    :raises ChangesNoLongerAvailableError: naming the write ids that were given after it.
    """
    if not features.notifications:
        return
    here = (_L.DB_NAME == table.database, _L.TBL_NAME == table.name)
    drop = select(func.max(_L.EVENT_ID)).where(*here, _L.EVENT_TYPE == EventType.DROP_PARTITION.value)
    event_id = conn.execute(drop).scalar()
    if event_id is None:
        return
    available = _first_after(conn, table, here, int(event_id))
    if first < available:
        raise ChangesNoLongerAvailableError(
            f"the changes of {table} from write id {first} on cannot be told any more: a partition was dropped since "
            f"(event {event_id}), and its rows with it. Those of write ids from {available} on are available; read the "
            "table as a whole, and go on from there"
        )


def _first_after(conn: Connection, table: TableName, here: tuple[Any, ...], event_id: int) -> int:
    """The smallest write id that was given after an event."""
    given = (
        select(
            _L.EVENT_ID,
            _L.EVENT_TIME,
            _L.EVENT_TYPE,
            _L.CAT_NAME,
            _L.DB_NAME,
            _L.TBL_NAME,
            _L.MESSAGE,
            _L.MESSAGE_FORMAT,
        )
        .where(*here, _L.EVENT_TYPE == ALLOCATIONS, _L.EVENT_ID > event_id)
        .order_by(_L.EVENT_ID)
        .limit(1)
    )
    for row in conn.execute(given):
        heard = hear(LoggedEvent(*row))
        if heard is not None and heard.write_ids:
            return min(w for (_, written), w in heard.write_ids.items() if written == table)
    following = select(NEXT_WRITE_ID.c.NWI_NEXT).where(
        NEXT_WRITE_ID.c.NWI_DATABASE == table.database, NEXT_WRITE_ID.c.NWI_TABLE == table.name
    )
    return int(conn.execute(following).scalar() or 1)
