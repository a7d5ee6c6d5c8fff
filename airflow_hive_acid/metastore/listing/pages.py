"""Lists of the metastore in pages, for whoever shows them: txns, locks and compactions (tables and leases: see beside).

A page begins behind the key of the last row of the page before (a keyset), so that the thousandth page costs what the
first does, and rows that come and go in between shift nothing. Everything on a page is one moment. What is asked for
comes as values; filters, order and limit are the database's work.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy import and_, exists, func, or_, select

from airflow_hive_acid.metastore.compaction.listing import CompactionFilter, compaction_conditions
from airflow_hive_acid.metastore.compaction.model import DEFAULT_POOL, Compaction, CompactionState, CompactionType
from airflow_hive_acid.metastore.compaction.rows import compaction
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import LockState, LockType, TxnState
from airflow_hive_acid.metastore.locks.listing import SHOW_LOCKS, SHOW_TXNS, TxnRow, lock_row, txn_row
from airflow_hive_acid.metastore.names.partitions import in_locks, resolve_filter, within
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    HIVE_LOCKS,
    TXN_COMPONENTS,
    TXNS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.locks.interface import LockRow

T = TypeVar("T")
_T, _H, _TC = TXNS.c, HIVE_LOCKS.c, TXN_COMPONENTS.c
DAY_MS = 86_400_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Key:
    """One column of an order in which no two rows are equal."""

    column: sa.ColumnElement[Any]
    descends: bool = False


@dataclass(frozen=True, slots=True)
class Slice:
    """Which part of a list is wanted.

    :param limit: rows at most.
    :param after: the key of the last row of the page before; None for the first page, which also counts.
    """

    limit: int = 100
    after: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list.

    :param after: where the next page begins, None when this is the last.
    :param total: rows in the whole list; only the first page says it.
    :param now: the metastore's clock, ms.
    """

    items: tuple[T, ...]
    after: tuple[Any, ...] | None
    total: int | None
    now: int


def behind(keys: Sequence[Key], after: Sequence[Any]) -> sa.ColumnElement[bool]:
    """The rows that come after a key in this order."""
    alternatives = []
    equal: list[sa.ColumnElement[bool]] = []
    for key, value in zip(keys, after, strict=True):
        alternatives.append(and_(*equal, key.column < value if key.descends else key.column > value))
        equal.append(key.column == value)
    first, value = keys[0], after[0]
    # Said once more for the whole, so that an index of the first column is good for it.
    reached = first.column <= value if first.descends else first.column >= value
    return and_(reached, or_(*alternatives))


def fetch(
    connection: Connection,
    statement: sa.Select[Any],
    keys: Sequence[Key],
    part: Slice,
    make: Callable[[Any], T],
    key_of: Callable[[T], tuple[Any, ...]],
) -> Page[T]:
    """A page of what a statement finds.

    :param statement: with its filters, without an order.
    :param make: a row as a value, and ``key_of`` the key of that.
    """
    wanted = statement if part.after is None else statement.where(behind(keys, part.after))
    order = [key.column.desc() if key.descends else key.column.asc() for key in keys]
    rows = connection.execute(wanted.order_by(None).order_by(*order).limit(part.limit + 1)).all()
    items = tuple(make(row) for row in rows[: part.limit])
    after = key_of(items[-1]) if len(rows) > part.limit else None
    return Page(items, after, count(connection, statement) if part.after is None else None, now_ms(connection))


def count(connection: Connection, statement: sa.Select[Any]) -> int:
    """How many rows a statement finds."""
    return int(connection.execute(select(func.count()).select_from(statement.order_by(None).subquery())).scalar_one())


# --- txns -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TxnsWanted:
    """Which txns; None does not restrict.

    :param dag_id: of an Airflow task that opened it, or that works on its compaction.
    :param database: only those that write there, or into ``table`` of it.
    :param min_age_ms: since it was opened.
    """

    states: tuple[TxnState, ...] = (TxnState.OPEN, TxnState.ABORTED)
    user: str | None = None
    dag_id: str | None = None
    database: str | None = None
    table: str | None = None
    min_age_ms: int | None = None


def txns_page(connection: Connection, wanted: TxnsWanted, part: Slice, *, newest_first: bool = False) -> Page[TxnRow]:
    """Txns by their ids; committed ones as far as the metastore still lists them."""
    statement = SHOW_TXNS.where(_T.TXN_ID > 0, _T.TXN_STATE.in_([state.value for state in wanted.states]))
    if wanted.user is not None:
        statement = statement.where(_T.TXN_USER == wanted.user)
    if wanted.dag_id is not None:
        statement = statement.where(_of_dag(wanted.dag_id))
    if wanted.database is not None or wanted.table is not None:
        places = [_TC.TC_TXNID == _T.TXN_ID]
        for column, name in ((_TC.TC_DATABASE, wanted.database), (_TC.TC_TABLE, wanted.table)):
            if name is not None:
                places.append(column == name.lower())
        statement = statement.where(exists().where(*places))
    if wanted.min_age_ms is not None:
        statement = statement.where(_T.TXN_STARTED <= now_ms(connection) - wanted.min_age_ms)
    return fetch(connection, statement, (Key(_T.TXN_ID, newest_first),), part, txn_row, lambda txn: (txn.txn_id,))


def find_txn(connection: Connection, txn_id: int) -> TxnRow | None:
    """A txn that the metastore still lists."""
    row = connection.execute(SHOW_TXNS.where(_T.TXN_ID == txn_id, _T.TXN_ID > 0)).first()
    return None if row is None else txn_row(row)


def components_of(
    connection: Connection, txn_id: int, limit: int
) -> list[tuple[str, str | None, str | None, str, int]]:
    """What a txn has written so far: database, table, partition, operation's letter and write id."""
    columns = (_TC.TC_DATABASE, _TC.TC_TABLE, _TC.TC_PARTITION, _TC.TC_OPERATION_TYPE, _TC.TC_WRITEID)
    statement = select(*columns).where(_TC.TC_TXNID == txn_id).order_by(*columns[:4]).limit(limit)
    return [tuple(row) for row in connection.execute(statement)]


def _of_dag(dag_id: str) -> sa.ColumnElement[bool]:
    """Txns whose agent information names a DAG: of a task, or of a task that compacts."""
    return or_(
        _T.TXN_AGENT_INFO.startswith(f"airflow/{dag_id}/", autoescape=True),
        and_(
            _T.TXN_AGENT_INFO.startswith("compaction ", autoescape=True),
            _T.TXN_AGENT_INFO.contains(f" by @airflow-{dag_id}-", autoescape=True),
        ),
    )


# --- locks ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocksWanted:
    """Which locks; None does not restrict."""

    state: LockState | None = None
    type: LockType | None = None
    database: str | None = None
    table: str | None = None
    partition: str | None = None
    txn_id: int | None = None
    lock_id: int | None = None
    user: str | None = None


def locks_page(connection: Connection, wanted: LocksWanted, part: Slice) -> Page[LockRow]:
    """Locks by their ids: in the order in which they were asked for."""
    statement = SHOW_LOCKS
    for column, value in (
        (_H.HL_LOCK_STATE, None if wanted.state is None else wanted.state.value),
        (_H.HL_LOCK_TYPE, None if wanted.type is None else wanted.type.value),
        (_H.HL_DB, None if wanted.database is None else wanted.database.lower()),
        (_H.HL_TABLE, None if wanted.table is None else wanted.table.lower()),
        (_H.HL_TXNID, wanted.txn_id),
        (_H.HL_LOCK_EXT_ID, wanted.lock_id),
        (_H.HL_USER, wanted.user),
    ):
        if value is not None:
            statement = statement.where(column == value)
    if wanted.partition is not None:
        named = resolve_filter(connection, wanted.database, wanted.table, wanted.partition)
        statement = statement.where(within(_H.HL_PARTITION, named, in_locks))
    keys = (Key(_H.HL_LOCK_EXT_ID), Key(_H.HL_LOCK_INT_ID))
    return fetch(connection, statement, keys, part, lock_row, lambda lock: (lock.lock_id, lock.internal_id))


# --- compactions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CompactionsWanted(CompactionFilter):
    """Which compactions; None does not restrict.

    :param queued: only those in the queue, or only those of the history.
    """

    queued: bool | None = None


_HALVES = {True: (COMPACTION_QUEUE, "CQ"), False: (COMPLETED_COMPACTIONS, "CC")}


def compactions_page(connection: Connection, wanted: CompactionsWanted, part: Slice) -> Page[Compaction]:
    """Queue and history as one list, the newest request first."""
    pages = [_half(connection, queued, wanted, part) for queued in _HALVES if wanted.queued in (None, queued)]
    merged = list(heapq.merge(*(page.items for page in pages), key=lambda c: c.id, reverse=True))
    more = len(merged) > part.limit or any(page.after is not None for page in pages)
    items = tuple(merged[: part.limit])
    totals = [page.total for page in pages if page.total is not None]
    return Page(items, (items[-1].id,) if more else None, sum(totals) if totals else None, pages[0].now)


def find_compaction(connection: Connection, compaction_id: int) -> Compaction | None:
    """A compaction in the queue or in the history."""
    for queued, (table, prefix) in _HALVES.items():
        row = connection.execute(select(table).where(table.c[f"{prefix}_ID"] == compaction_id)).mappings().first()
        if row is not None:
            return _compaction(row, queued, prefix)
    return None


def newest_compactions(connection: Connection, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Compaction]:
    """The last finished compaction of each table, of whichever partition, by database and table."""
    if not places:
        return {}
    c = COMPLETED_COMPACTIONS.c
    real = c.CC_TYPE != CompactionType.ABORT_TXN_CLEANUP.value
    place = sa.tuple_(c.CC_DATABASE, c.CC_TABLE)
    newest = select(func.max(c.CC_ID)).where(place.in_(list(places)), real).group_by(c.CC_DATABASE, c.CC_TABLE)
    ids = list(connection.execute(newest).scalars())
    rows = connection.execute(select(COMPLETED_COMPACTIONS).where(c.CC_ID.in_(ids))).mappings()
    found = [_compaction(row, False, "CC") for row in rows]
    return {(one.resource.database, one.resource.table): one for one in found}


def _half(connection: Connection, queued: bool, wanted: CompactionsWanted, part: Slice) -> Page[Compaction]:
    table, prefix = _HALVES[queued]

    def column(name: str) -> sa.ColumnElement[Any]:
        return table.c[f"{prefix}_{name}"]

    statement = select(table).where(*compaction_conditions(connection, wanted, column))
    return fetch(
        connection, statement, (Key(column("ID"), True),), part,
        lambda row: _compaction(row._mapping, queued, prefix), lambda found: (found.id,),
    )  # fmt: skip


def _compaction(row: Any, queued: bool, prefix: str) -> Compaction:
    return replace(compaction(row, prefix), queued=queued)


@dataclass(frozen=True, slots=True)
class Duration:
    """How long the compactions of one hour or day took, by type and outcome; times in ms.

    :param start: when the hour or day began.
    :param mean: None when none of them was begun.
    """

    start: int
    type: CompactionType
    state: CompactionState
    count: int
    mean: int | None
    longest: int | None


def durations(
    connection: Connection, since: int, bucket_ms: int, database: str | None = None, table: str | None = None
) -> list[Duration]:
    """What the history says about durations, the earliest first.

    :param bucket_ms: an hour or a day.
    """
    c = COMPLETED_COMPACTIONS.c
    bucket = sa.cast(c.CC_END - c.CC_END % bucket_ms, sa.BigInteger).label("bucket")
    took = c.CC_END - c.CC_START
    statement = (
        select(bucket, c.CC_TYPE, c.CC_STATE, func.count(), func.avg(took), func.max(took))
        .where(c.CC_END >= since)
        .group_by(bucket, c.CC_TYPE, c.CC_STATE)
        .order_by(bucket, c.CC_TYPE, c.CC_STATE)
    )
    for column, name in ((c.CC_DATABASE, database), (c.CC_TABLE, table)):
        if name is not None:
            statement = statement.where(column == name.lower())
    return [
        Duration(
            int(start), CompactionType(kind), CompactionState(state), int(count),
            None if mean is None else round(mean), None if longest is None else int(longest),
        )
        for start, kind, state, count, mean, longest in connection.execute(statement)
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class QueueCount:
    """Requests of one pool in one state, and since when the oldest of them has been in the queue (ms)."""

    pool: str
    state: CompactionState
    count: int
    oldest: int | None


def queue_counts(connection: Connection) -> list[QueueCount]:
    """How full the queue is."""
    c = COMPACTION_QUEUE.c
    pool = func.coalesce(c.CQ_POOL_NAME, DEFAULT_POOL).label("pool")
    statement = (
        select(pool, c.CQ_STATE, func.count(), func.min(c.CQ_ENQUEUE_TIME))
        .where(c.CQ_TYPE != CompactionType.ABORT_TXN_CLEANUP.value)
        .group_by(pool, c.CQ_STATE)
        .order_by(pool, c.CQ_STATE)
    )
    return [
        QueueCount(name, CompactionState(state), int(count), oldest)
        for name, state, count, oldest in connection.execute(statement)
    ]


def oldest_to_clean(connection: Connection) -> Compaction | None:
    """The finished compaction that the Cleaner has left lying for longest."""
    c = COMPACTION_QUEUE.c
    statement = (
        select(COMPACTION_QUEUE)
        .where(c.CQ_STATE == CompactionState.READY_FOR_CLEANING.value)
        .order_by(func.coalesce(c.CQ_COMMIT_TIME, c.CQ_ENQUEUE_TIME, 0), c.CQ_ID)
        .limit(1)
    )
    row = connection.execute(statement).mappings().first()
    return None if row is None else _compaction(row, True, "CQ")
