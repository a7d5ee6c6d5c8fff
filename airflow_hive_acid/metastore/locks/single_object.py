"""The common case of a lock request in one round trip: one object, and nothing there that could be in the way.

Only where a batch takes one trip. The queue's row is what all clients wait for, so what counts is how briefly it is
held: no answer is awaited while it is. R3 holds: the row is locked by a statement of its own, and the one that decides
comes after it. It decides more strictly than the queue does: any lock of a type that could block the request, on the
table or its database, sends the caller the long way.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, exists, insert, or_, select, update

from airflow_hive_acid.metastore.database.backend import Step, at_once
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.locks.compatibility import BLOCKING
from airflow_hive_acid.metastore.names.objects import info, lock_partition
from airflow_hive_acid.metastore.schema.hive_transactions import (
    HIVE_LOCKS,
    MIN_HISTORY_WRITE_ID,
    NEXT_LOCK_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.txns.history import REGISTERED_COLUMNS, SMALLEST_NEEDED

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.codes import LockType
    from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest

_H, _T2W = HIVE_LOCKS.c, TXN_TO_WRITE_ID.c
_TXN = bindparam("txn_id", type_=sa.BigInteger)
_DB, _TBL = bindparam("db", type_=sa.String), bindparam("tbl", type_=sa.String)
_LETTER = bindparam("type", type_=sa.CHAR(1))


#: Locks both rows; what it returns are their latest values, and it decides nothing else (R3).
TXN_AND_NEXT_ID = (
    select(TXNS.c.TXN_STATE, TXNS.c.TXN_TYPE, TXNS.c.TXN_META_INFO, NEXT_LOCK_ID.c.NL_NEXT)
    .select_from(TXNS.join(NEXT_LOCK_ID, sa.true()))
    .where(TXNS.c.TXN_ID == bindparam("txn_id"))
    .with_for_update()
)


def grant_at_once(connection: Connection, request: LockRequest, component: LockComponent) -> int | None:
    """Grant a request and end the transaction; returns the lock's id, or None when it has to go the long way."""
    granted = at_once(connection, lambda: grant_steps(request, component))
    return None if granted is None else int(granted[0][0])


def grant_steps(request: LockRequest, component: LockComponent, *, pins: bool = False) -> list[Step]:
    """The statements that grant a request of a txn. The last one returns the lock's id; without a row nothing is done.

    :param pins: register what the txn needs of the table in the same breath (R10); the row holds the write id as well.
    """
    return [Step(TXN_AND_NEXT_ID, {"txn_id": request.txn_id}), _grant_step(request, component, pins=pins)]


def _grant_step(request: LockRequest, component: LockComponent, *, pins: bool) -> Step:
    letter = component.operation.code if component.transactional else None
    if letter is not None and component.dynamic_partitions:
        letter = "u" if letter in ("u", "d") else "i"
    parameters: dict[str, Any] = {
        "txn_id": request.txn_id,
        "db": component.database,
        "tbl": component.table,
        "part": lock_partition(component.partition),
        "type": component.type.value,
        "user": info(request.user),
        "host": info(request.host),
        "agent": info(request.agent_info) or None,
    }
    if letter is not None:
        parameters |= {
            "operation": letter,
            "written_part": None if component.dynamic_partitions else component.partition,
        }
    statement = _grant(component.type, whole_database=component.table is None, writes=letter is not None, pins=pins)
    return Step(statement, parameters)


@cache
def _grant(kind: LockType, *, whole_database: bool, writes: bool, pins: bool) -> sa.Select[Any]:
    """Take the next id and insert lock and component, if the txn is open and nothing can be in the way."""
    blocking = [_H.HL_DB == _DB, _H.HL_TXNID != _TXN, or_(*(_H.HL_LOCK_TYPE == t.value for t in BLOCKING[kind]))]
    # One look for each kind of place: with an OR the server would rather read all locks of the database.
    places = [sa.true()] if whole_database else [_H.HL_TABLE.is_(None), _H.HL_TABLE == _TBL]
    free = (
        select(NEXT_LOCK_ID.c.NL_NEXT)
        .where(
            exists().where(TXNS.c.TXN_ID == _TXN, TXNS.c.TXN_STATE == "o"),
            *(~exists().where(*blocking, place) for place in places),
        )
        .cte("free")
    )
    advance = update(NEXT_LOCK_ID).where(NEXT_LOCK_ID.c.NL_NEXT == free.c.NL_NEXT).values(NL_NEXT=free.c.NL_NEXT + 1)
    parts = [advance.cte("advance"), _lock(free).cte("lock")]
    if writes:
        parts.append(_component(free).cte("component"))
    if not pins:
        return select(free.c.NL_NEXT).add_cte(*parts)
    pinned = (
        insert(MIN_HISTORY_WRITE_ID)
        .from_select(REGISTERED_COLUMNS, select(_TXN, _DB, _TBL, SMALLEST_NEEDED).select_from(free))
        .returning(MIN_HISTORY_WRITE_ID.c.MH_WRITEID)
        .cte("pinned")
    )
    return select(free.c.NL_NEXT, pinned.c.MH_WRITEID).join(pinned, sa.true()).add_cte(*parts)


def _lock(free: sa.CTE) -> sa.Insert:
    columns: dict[str, sa.ColumnElement[Any]] = {
        "HL_LOCK_EXT_ID": free.c.NL_NEXT,
        "HL_LOCK_INT_ID": sa.literal(1, sa.BigInteger),
        "HL_TXNID": _TXN,
        "HL_DB": _DB,
        "HL_TABLE": _TBL,
        "HL_PARTITION": bindparam("part", type_=sa.String),
        "HL_LOCK_STATE": sa.literal("a", sa.CHAR(1)),
        "HL_LOCK_TYPE": _LETTER,
        "HL_LAST_HEARTBEAT": sa.literal(0, sa.BigInteger),
        "HL_ACQUIRED_AT": clock_ms(),
        "HL_USER": bindparam("user", type_=sa.String),
        "HL_HOST": bindparam("host", type_=sa.String),
        "HL_AGENT_INFO": bindparam("agent", type_=sa.String),
    }
    return insert(HIVE_LOCKS).from_select(list(columns), select(*columns.values()))


def _component(free: sa.CTE) -> sa.Insert:
    write_id = (
        select(_T2W.T2W_WRITEID)
        .where(_T2W.T2W_TXNID == _TXN, _T2W.T2W_DATABASE == _DB, _T2W.T2W_TABLE == _TBL)
        .scalar_subquery()
    )
    columns: dict[str, sa.ColumnElement[Any]] = {
        "TC_TXNID": _TXN,
        "TC_DATABASE": _DB,
        "TC_TABLE": _TBL,
        "TC_PARTITION": bindparam("written_part", type_=sa.String),
        "TC_OPERATION_TYPE": bindparam("operation", type_=sa.CHAR(1)),
        "TC_WRITEID": write_id,
    }
    return insert(TXN_COMPONENTS).from_select(list(columns), select(*columns.values()).select_from(free))
