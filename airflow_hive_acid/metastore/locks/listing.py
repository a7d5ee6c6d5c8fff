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
    (
        lock_id, internal_id, database, table, partition, state, kind, txn_id, last_heartbeat, acquired_at, user, host,
        agent_info, blocking_id, blocking_internal_id,
    ) = row  # fmt: skip
    return LockRow(
        lock_id=lock_id,
        internal_id=internal_id,
        database=database,
        table=table,
        partition=None if partition is None else from_lock_name(partition),
        state=LockState(state),
        type=LockType(kind),
        txn_id=txn_id,
        last_heartbeat=last_heartbeat,
        acquired_at=acquired_at,
        user=user,
        host=host,
        agent_info=agent_info,
        blocked_by=None if blocking_id is None else f"{blocking_id}.{blocking_internal_id}",
    )


def txn_row(row: Any) -> TxnRow:
    """A row of :data:`SHOW_TXNS` as a value."""
    txn_id, state, kind, *rest = row
    return TxnRow(txn_id, TxnState(state), TxnType(kind or 0), *rest)
