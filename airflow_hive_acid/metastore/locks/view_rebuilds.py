"""Locks on materialized view rebuilds: one per view, outside HIVE_LOCKS (MATERIALIZATION_REBUILD_LOCKS).

The mutex MaterializationRebuild serialises requests, so the caller holds it around :func:`lock_rebuild`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.codes import LockState
from airflow_hive_acid.metastore.locks.interface import LockResponse
from airflow_hive_acid.metastore.schema.hive_transactions import MATERIALIZATION_REBUILD_LOCKS

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

MUTEX = "MaterializationRebuild"

_M = MATERIALIZATION_REBUILD_LOCKS.c
_HELD = select(_M.MRL_TXN_ID).where(_M.MRL_DB_NAME == bindparam("db"), _M.MRL_TBL_NAME == bindparam("tbl"))
_INSERT = insert(MATERIALIZATION_REBUILD_LOCKS).values(
    MRL_TXN_ID=bindparam("txn_id"),
    MRL_DB_NAME=bindparam("db"),
    MRL_TBL_NAME=bindparam("tbl"),
    MRL_LAST_HEARTBEAT=clock_ms(),
)
_HEARTBEAT = (
    update(MATERIALIZATION_REBUILD_LOCKS)
    .where(_M.MRL_TXN_ID == bindparam("txn_id"), _M.MRL_DB_NAME == bindparam("db"), _M.MRL_TBL_NAME == bindparam("tbl"))
    .values(MRL_LAST_HEARTBEAT=clock_ms())
)
_EXPIRE = delete(MATERIALIZATION_REBUILD_LOCKS).where(_M.MRL_LAST_HEARTBEAT < clock_ms() - bindparam("timeout"))


def lock_rebuild(connection: Connection, view: TableName, txn_id: int) -> LockResponse:
    """Take the lock for a rebuild: ACQUIRED, or NOT_ACQUIRED when somebody is at it."""
    held = connection.execute(_HELD, {"db": view.database, "tbl": view.name}).scalar()
    if held is not None:
        return LockResponse(txn_id, LockState.NOT_ACQUIRED, message=f"{view} is being rebuilt by txn {held}")
    connection.execute(_INSERT, {"txn_id": txn_id, "db": view.database, "tbl": view.name})
    return LockResponse(txn_id, LockState.ACQUIRED)


def heartbeat_rebuild(connection: Connection, view: TableName, txn_id: int) -> bool:
    """Keep the lock; false when it is gone."""
    found = connection.execute(_HEARTBEAT, {"txn_id": txn_id, "db": view.database, "tbl": view.name})
    return found.rowcount == 1


def expire_rebuild_locks(connection: Connection, timeout_ms: int) -> int:
    """Remove locks without heartbeat."""
    return connection.execute(_EXPIRE, {"timeout": timeout_ms}).rowcount
