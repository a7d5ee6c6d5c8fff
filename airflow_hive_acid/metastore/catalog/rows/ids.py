"""Ids of catalog objects, taken from SEQUENCE_TABLE in blocks of ten as Hive's DataNucleus does.

A running Hive keeps the rest of its block in memory, so ``MAX(id) + 1`` would collide with it sooner or later. Ids
have gaps and no order, here as there.
"""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from airflow_hive_acid.metastore.schema.hive_catalog import (
    CDS,
    DB_PRIVS,
    DBS,
    PART_COL_PRIVS,
    PART_COL_STATS,
    PART_PRIVS,
    PARTITIONS,
    SDS,
    SERDES,
    TAB_COL_STATS,
    TBL_COL_PRIVS,
    TBL_PRIVS,
    TBLS,
)
from airflow_hive_acid.metastore.schema.hive_server import GLOBAL_PRIVS, ROLE_MAP, ROLES
from airflow_hive_acid.metastore.schema.hive_transactions import SEQUENCE_TABLE

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.database.database import Database

BLOCK = 10
_PREFIX = "org.apache.hadoop.hive.metastore.model."


class IdKind(Enum):
    """Kinds of objects with ids; the value is the class whose name the sequence bears."""

    DATABASE = "MDatabase"
    TABLE = "MTable"
    STORAGE = "MStorageDescriptor"
    COLUMNS = "MColumnDescriptor"
    SERDE = "MSerDeInfo"
    PARTITION = "MPartition"
    ROLE = "MRole"
    ROLE_MEMBER = "MRoleMap"
    GLOBAL_PRIVILEGE = "MGlobalPrivilege"
    DATABASE_PRIVILEGE = "MDBPrivilege"
    TABLE_PRIVILEGE = "MTablePrivilege"
    COLUMN_PRIVILEGE = "MTableColumnPrivilege"
    PARTITION_PRIVILEGE = "MPartitionPrivilege"
    PARTITION_COLUMN_PRIVILEGE = "MPartitionColumnPrivilege"
    TABLE_STATISTICS = "MTableColumnStatistics"
    PARTITION_STATISTICS = "MPartitionColumnStatistics"


_KEYS = {
    IdKind.DATABASE: DBS.c.DB_ID,
    IdKind.TABLE: TBLS.c.TBL_ID,
    IdKind.STORAGE: SDS.c.SD_ID,
    IdKind.COLUMNS: CDS.c.CD_ID,
    IdKind.SERDE: SERDES.c.SERDE_ID,
    IdKind.PARTITION: PARTITIONS.c.PART_ID,
    IdKind.ROLE: ROLES.c.ROLE_ID,
    IdKind.ROLE_MEMBER: ROLE_MAP.c.ROLE_GRANT_ID,
    IdKind.GLOBAL_PRIVILEGE: GLOBAL_PRIVS.c.USER_GRANT_ID,
    IdKind.DATABASE_PRIVILEGE: DB_PRIVS.c.DB_GRANT_ID,
    IdKind.TABLE_PRIVILEGE: TBL_PRIVS.c.TBL_GRANT_ID,
    IdKind.COLUMN_PRIVILEGE: TBL_COL_PRIVS.c.TBL_COLUMN_GRANT_ID,
    IdKind.PARTITION_PRIVILEGE: PART_PRIVS.c.PART_GRANT_ID,
    IdKind.PARTITION_COLUMN_PRIVILEGE: PART_COL_PRIVS.c.PART_COLUMN_GRANT_ID,
    IdKind.TABLE_STATISTICS: TAB_COL_STATS.c.CS_ID,
    IdKind.PARTITION_STATISTICS: PART_COL_STATS.c.CS_ID,
}
_LOCK_SEQUENCE = (
    select(SEQUENCE_TABLE.c.NEXT_VAL).where(SEQUENCE_TABLE.c.SEQUENCE_NAME == bindparam("name")).with_for_update()
)
_ADVANCE_SEQUENCE = (
    update(SEQUENCE_TABLE)
    .where(SEQUENCE_TABLE.c.SEQUENCE_NAME == bindparam("name"))
    .values(NEXT_VAL=bindparam("next_value"))
)
_CREATE_SEQUENCE = insert(SEQUENCE_TABLE)


def allocate_ids(connection: Connection, kind: IdKind, count: int) -> range:
    """Take at least ``count`` new ids; what remains of the last block is given up.

    The sequence's row stays locked until the transaction ends: keep that short, a running Hive needs it too.
    """
    blocks = -(-count // BLOCK) * BLOCK
    if blocks == 0:
        return range(0)
    name = _PREFIX + kind.value
    first = connection.execute(_LOCK_SEQUENCE, {"name": name}).scalar()
    if first is None:
        first = _create(connection, kind, name)
    connection.execute(_ADVANCE_SEQUENCE, {"name": name, "next_value": first + blocks})
    return range(first, first + count)


class IdPool:
    """Ids for one process: blocks are fetched in short transactions of their own and used up over time.

    A transaction that takes ids reserves them before it begins. The row of the sequence is locked until its end if it
    has not, or if they went to another thread.

    Where a database has one writer, a transaction of its own would wait for the one it serves; there ids are taken
    inside that one, and none is kept, because a rollback gives them back.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rest: dict[IdKind, list[int]] = {}
        self._lock = threading.Lock()

    def reserve(self, kind: IdKind, count: int) -> None:
        """Fetch ids ahead of the transaction that will take them."""
        if self._database.backend.one_writer:
            return
        with self._lock:
            rest = self._rest.setdefault(kind, [])
            missing = -(-(count - len(rest)) // BLOCK) * BLOCK
            if missing > 0:
                rest.extend(self._database.run(lambda connection: allocate_ids(connection, kind, missing)))

    def take(self, connection: Connection, kind: IdKind, count: int) -> list[int]:
        """Ids for new objects; see :func:`allocate_ids`."""
        if self._database.backend.one_writer:
            return list(allocate_ids(connection, kind, count))
        with self._lock:
            rest = self._rest.get(kind, [])
            taken, self._rest[kind] = rest[:count], rest[count:]
        # What was not reserved, or went to a faster thread, is never fetched by a second connection: this one holds
        # locks meanwhile (R15).
        return [*taken, *allocate_ids(connection, kind, count - len(taken))]


def _create(connection: Connection, kind: IdKind, name: str) -> int:
    """A sequence appears on first use, above every id in the table; another process may be doing the same."""
    first = int(connection.execute(select(func.coalesce(func.max(_KEYS[kind]), 0))).scalar_one()) + 1
    try:
        with connection.begin_nested():
            connection.execute(_CREATE_SEQUENCE, {"SEQUENCE_NAME": name, "NEXT_VAL": first})
    except IntegrityError:
        return int(connection.execute(_LOCK_SEQUENCE, {"name": name}).scalar_one())
    return first
