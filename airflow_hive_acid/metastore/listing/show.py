"""SHOW LOCKS and SHOW TRANSACTIONS as streams: filtered, ordered and limited by the database."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from sqlalchemy import case

from airflow_hive_acid.metastore.database.codes import LockState, LockType, TxnState
from airflow_hive_acid.metastore.database.row_stream import stream_rows
from airflow_hive_acid.metastore.locks.listing import SHOW_LOCKS, SHOW_TXNS, TxnRow, lock_row, txn_row
from airflow_hive_acid.metastore.names.partitions import in_locks, resolve_filter, within
from airflow_hive_acid.metastore.schema.hive_transactions import (
    HIVE_LOCKS,
    TXNS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.locks.interface import LockRow

_H = HIVE_LOCKS.c


@dataclasses.dataclass(frozen=True, slots=True)
class LockFilter:
    """Which locks; None does not restrict.

    :param partition: its name, in any spelling that means it; of some of the partition columns: all with these values.
    """

    database: str | None = None
    table: str | None = None
    partition: str | None = None
    txn_id: int | None = None


def stream_locks(connection: Connection, wanted: LockFilter, limit: int | None = None) -> Iterator[LockRow]:
    """Locks held and wanted: acquired first, then the more restrictive, then in order of request."""
    statement = SHOW_LOCKS
    for column, name in ((_H.HL_DB, wanted.database), (_H.HL_TABLE, wanted.table)):
        if name is not None:
            statement = statement.where(column == name.lower())
    if wanted.partition is not None:
        named = resolve_filter(connection, wanted.database, wanted.table, wanted.partition)
        statement = statement.where(within(_H.HL_PARTITION, named, in_locks))
    if wanted.txn_id is not None:
        statement = statement.where(_H.HL_TXNID == wanted.txn_id)
    strength = case({t.value: t.strength for t in LockType}, value=_H.HL_LOCK_TYPE, else_=0)
    waits = case((_H.HL_LOCK_STATE == LockState.WAITING.value, 1), else_=0)
    ordered = statement.order_by(waits, strength.desc(), _H.HL_LOCK_EXT_ID, _H.HL_LOCK_INT_ID)
    return map(lock_row, stream_rows(connection, ordered, limit))


def stream_transactions(
    connection: Connection, *, include_committed: bool = False, limit: int | None = None
) -> Iterator[TxnRow]:
    """Open and aborted txns, ascending; with ``include_committed`` also those that are committed and still listed."""
    statement = SHOW_TXNS
    if not include_committed:
        statement = statement.where(TXNS.c.TXN_STATE.in_((TxnState.OPEN.value, TxnState.ABORTED.value)))
    return map(txn_row, stream_rows(connection, statement, limit))


def locks(database: Database, wanted: LockFilter = LockFilter(), limit: int | None = None) -> Iterator[LockRow]:
    """:func:`stream_locks` in a transaction that lasts as long as the iteration."""
    with database.reading() as connection:
        yield from stream_locks(connection, wanted, limit)


def transactions(database: Database, *, include_committed: bool = False, limit: int | None = None) -> Iterator[TxnRow]:
    """:func:`stream_transactions` in a transaction that lasts as long as the iteration."""
    with database.reading() as connection:
        yield from stream_transactions(connection, include_committed=include_committed, limit=limit)
