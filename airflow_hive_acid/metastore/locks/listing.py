"""SHOW LOCKS and SHOW TRANSACTIONS as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import select

from airflow_hive_acid.metastore.codes import LockState, LockType, TxnState, TxnType
from airflow_hive_acid.metastore.locks.interface import LockRow
from airflow_hive_acid.metastore.schema_transactions import HIVE_LOCKS, TXNS

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_H = HIVE_LOCKS.c
_SHOW_LOCKS = select(
    _H.HL_LOCK_EXT_ID,
    _H.HL_LOCK_INT_ID,
    _H.HL_DB,
    _H.HL_TABLE,
    _H.HL_PARTITION,
    _H.HL_LOCK_STATE,
    _H.HL_LOCK_TYPE,
    _H.HL_TXNID,
    _H.HL_LAST_HEARTBEAT,
    _H.HL_ACQUIRED_AT,
    _H.HL_USER,
    _H.HL_HOST,
    _H.HL_AGENT_INFO,
    _H.HL_BLOCKEDBY_EXT_ID,
    _H.HL_BLOCKEDBY_INT_ID,
)
_SHOW_TXNS = select(
    TXNS.c.TXN_ID,
    TXNS.c.TXN_STATE,
    TXNS.c.TXN_TYPE,
    TXNS.c.TXN_STARTED,
    TXNS.c.TXN_LAST_HEARTBEAT,
    TXNS.c.TXN_USER,
    TXNS.c.TXN_HOST,
    TXNS.c.TXN_AGENT_INFO,
    TXNS.c.TXN_META_INFO,
).order_by(TXNS.c.TXN_ID)


@dataclass(frozen=True, slots=True)
class TxnRow:
    """A row of SHOW TRANSACTIONS; times are milliseconds by the database's clock.

    :param abort_reason: why it was aborted.
    """

    txn_id: int
    state: TxnState
    type: TxnType
    started: int
    last_heartbeat: int
    user: str
    host: str
    agent_info: str | None
    abort_reason: str | None


def show_locks(
    conn: Connection,
    database: str | None = None,
    table: str | None = None,
    partition: str | None = None,
    txn_id: int | None = None,
) -> list[LockRow]:
    """Locks held and wanted: acquired first, then the more restrictive, then in order of request."""
    statement = _SHOW_LOCKS
    for column, value in ((_H.HL_DB, database), (_H.HL_TABLE, table)):
        if value is not None:
            statement = statement.where(column == value.lower())
    if partition is not None:
        statement = statement.where(_H.HL_PARTITION == partition)
    if txn_id is not None:
        statement = statement.where(_H.HL_TXNID == txn_id)
    rows = [
        LockRow(
            lock_id=r[0],
            internal_id=r[1],
            database=r[2],
            table=r[3],
            partition=r[4],
            state=LockState(r[5]),
            type=LockType(r[6]),
            txn_id=r[7],
            last_heartbeat=r[8],
            acquired_at=r[9],
            user=r[10],
            host=r[11],
            agent_info=r[12],
            blocked_by=None if r[13] is None else f"{r[13]}.{r[14]}",
        )
        for r in conn.execute(statement)
    ]
    return sorted(rows, key=lambda r: (r.state is LockState.WAITING, -r.type.strength, r.lock_id, r.internal_id))


def show_transactions(conn: Connection, *, include_committed: bool = False) -> list[TxnRow]:
    """Open and aborted txns, ascending; with ``include_committed`` also those that are committed and still listed."""
    statement = _SHOW_TXNS
    if not include_committed:
        statement = statement.where(TXNS.c.TXN_STATE.in_(("o", "a")))
    return [
        TxnRow(r[0], TxnState(r[1]), TxnType(r[2] or 0), r[3], r[4], r[5], r[6], r[7], r[8])
        for r in conn.execute(statement)
    ]
