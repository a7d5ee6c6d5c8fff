"""Rows of SHOW LOCKS and SHOW TRANSACTIONS as values; ``shown`` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from airflow_hive_acid.format.partitions import from_lock_name
from airflow_hive_acid.metastore.database.codes import LockState, LockType, TxnState, TxnType
from airflow_hive_acid.metastore.locks.interface import LockRow
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, TXNS

_H = HIVE_LOCKS.c
SHOW_LOCKS = select(
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
SHOW_TXNS = select(
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


def lock_row(row: Any) -> LockRow:
    """A row of :data:`SHOW_LOCKS` as a value."""
    return LockRow(
        lock_id=row[0],
        internal_id=row[1],
        database=row[2],
        table=row[3],
        partition=None if row[4] is None else from_lock_name(row[4]),
        state=LockState(row[5]),
        type=LockType(row[6]),
        txn_id=row[7],
        last_heartbeat=row[8],
        acquired_at=row[9],
        user=row[10],
        host=row[11],
        agent_info=row[12],
        blocked_by=None if row[13] is None else f"{row[13]}.{row[14]}",
    )


def txn_row(row: Any) -> TxnRow:
    """A row of :data:`SHOW_TXNS` as a value."""
    return TxnRow(row[0], TxnState(row[1]), TxnType(row[2] or 0), row[3], row[4], row[5], row[6], row[7], row[8])
