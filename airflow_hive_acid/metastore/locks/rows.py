"""Rows of HIVE_LOCKS as locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.locks.compatibility import Lock
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS

if TYPE_CHECKING:
    from collections.abc import Sequence

_H = HIVE_LOCKS.c
LOCK_COLUMNS = (
    _H.HL_LOCK_EXT_ID,
    _H.HL_LOCK_INT_ID,
    _H.HL_TXNID,
    _H.HL_DB,
    _H.HL_TABLE,
    _H.HL_PARTITION,
    _H.HL_LOCK_TYPE,
)


def lock_of(row: Sequence[Any]) -> Lock:
    """The lock of a row that begins with :data:`LOCK_COLUMNS`."""
    lock_id, internal_id, txn_id, database, table, partition, kind = row[: len(LOCK_COLUMNS)]
    return Lock(lock_id, internal_id, txn_id, database, table, partition, LockType(kind))
