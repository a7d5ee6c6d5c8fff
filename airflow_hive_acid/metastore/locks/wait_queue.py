"""The lock queue read from the metastore: the wait-for graph for people, and the victims of deadlocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, func, select

from airflow_hive_acid.metastore.database.codes import LockState
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.locks.deadlocks import (
    Party,
    QueuedLock,
    Victim,
    Wait,
    Work,
    edges,
    find_victims,
    wait_for,
)
from airflow_hive_acid.metastore.locks.interface import describe_object
from airflow_hive_acid.metastore.locks.rows import LOCK_COLUMNS, lock_of
from airflow_hive_acid.metastore.locks.wait_graph import WaitGraph, wait_graph
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_ACID_JOB, HIVE_LOCKS, TXN_COMPONENTS, TXNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features

_H = HIVE_LOCKS.c
_WAITING_DATABASES = select(_H.HL_DB).where(_H.HL_LOCK_STATE == "w").distinct().subquery()
_WAITING_PLACES = select(_H.HL_DB, _H.HL_TABLE).where(_H.HL_LOCK_STATE == "w").distinct()
_LOCKS_WITH_TXNS = select(
    *LOCK_COLUMNS,
    _H.HL_LOCK_STATE,
    _H.HL_AGENT_INFO,
    _H.HL_USER,
    TXNS.c.TXN_STARTED,
    TXNS.c.TXN_AGENT_INFO,
    TXNS.c.TXN_USER,
).join(TXNS, sa.and_(TXNS.c.TXN_ID == _H.HL_TXNID, _H.HL_TXNID > 0), isouter=True)
#: Only databases in which somebody waits can hold an edge.
_QUEUE = _LOCKS_WITH_TXNS.where(_H.HL_DB.in_(select(_WAITING_DATABASES.c.HL_DB))).order_by(
    _H.HL_LOCK_EXT_ID, _H.HL_LOCK_INT_ID
)
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
#: Hive leaves TXN_AGENT_INFO empty and we never do: it tells our txns from others.
_OURS = select(TXNS.c.TXN_ID).where(
    TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE == "o", TXNS.c.TXN_AGENT_INFO.is_not(None)
)
_JOBS = (
    select(HIVE_ACID_JOB.c.HAJ_TXNID, func.count())
    .where(HIVE_ACID_JOB.c.HAJ_TXNID.in_(_IDS))
    .group_by(HIVE_ACID_JOB.c.HAJ_TXNID)
)
_WRITES = (
    select(TXN_COMPONENTS.c.TC_TXNID, func.count())
    .where(TXN_COMPONENTS.c.TC_TXNID.in_(_IDS))
    .group_by(TXN_COMPONENTS.c.TC_TXNID)
)


@dataclass(frozen=True, slots=True)
class PartyInfo:
    """Who a party of the wait-for graph is: what its txn says, else what its locks say.

    :param since: when its txn was opened, ms; None outside txns.
    """

    user: str
    agent_info: str | None
    since: int | None


def read_wait_graph(connection: Connection) -> tuple[WaitGraph, dict[Party, PartyInfo]]:
    """The wait-for graph for drawing, and who its parties are; only places where somebody waits are read."""
    places = set(connection.execute(_WAITING_PLACES).all())
    whole = sorted({database for database, table in places if table is None})
    tables = sorted((database, table) for database, table in places if table is not None and database not in whole)
    rows: dict[tuple[int, int], Any] = {}
    databases = sorted({database for database, _ in tables})
    for part in chunks(whole):
        _collect(rows, connection.execute(_LOCKS_WITH_TXNS.where(_H.HL_DB.in_(list(part)))))
    for part in chunks(databases):
        _collect(rows, connection.execute(_LOCKS_WITH_TXNS.where(_H.HL_DB.in_(list(part)), _H.HL_TABLE.is_(None))))
    for some in chunks(tables):
        _collect(rows, connection.execute(_LOCKS_WITH_TXNS.where(sa.tuple_(_H.HL_DB, _H.HL_TABLE).in_(list(some)))))
    queue = _queue(list(rows.values()))
    about = {
        Party.of(q.lock): PartyInfo(r.TXN_USER or r.HL_USER, r.TXN_AGENT_INFO or r.HL_AGENT_INFO, r.TXN_STARTED)
        for q, r in zip(queue, rows.values(), strict=True)
    }
    return wait_graph(queue), about


def _collect(rows: dict[tuple[int, int], Any], found: Iterable[Any]) -> None:
    for row in found:
        rows[(row.HL_LOCK_EXT_ID, row.HL_LOCK_INT_ID)] = row


def read_waits(connection: Connection) -> list[Wait]:
    """Who waits for whom, for what, since when, and on whose behalf."""
    rows = connection.execute(_QUEUE).all()
    queue = _queue(rows)
    about = {Party.of(q.lock): (r.HL_AGENT_INFO or r.HL_USER, r.TXN_STARTED) for q, r in zip(queue, rows, strict=True)}
    waits: dict[tuple[Party, Party], Wait] = {}
    for waiter, other in edges(queue):
        pair = (Party.of(waiter), Party.of(other))
        place = describe_object(*waiter.object)
        waits.setdefault(pair, Wait(*pair, place, about[pair[0]][1], about[pair[0]][0], about[pair[1]][0]))
    return list(waits.values())


def deadlock_victims(connection: Connection, features: Features) -> list[Victim]:
    """The txns of ours that must give way now."""
    graph = wait_for(_queue(connection.execute(_QUEUE).all()))
    waiting = sorted(p.txn_id for p in graph if p.txn_id)
    if not waiting:
        return []
    ours: set[int] = set()
    jobs: dict[int, int] = {}
    writes: dict[int, int] = {}
    for part in chunks(waiting):
        ids = {"ids": list(part)}
        ours.update(connection.execute(_OURS, ids).scalars())
        writes.update(connection.execute(_WRITES, ids).all())
        if features.extensions:
            jobs.update(connection.execute(_JOBS, ids).all())
    work = {txn_id: Work(jobs.get(txn_id, 0), writes.get(txn_id, 0)) for txn_id in ours}
    return find_victims(graph, ours, work)


def _queue(rows: Sequence[Any]) -> list[QueuedLock]:
    return [QueuedLock(lock_of(row), row.HL_LOCK_STATE == LockState.WAITING.value) for row in rows]
