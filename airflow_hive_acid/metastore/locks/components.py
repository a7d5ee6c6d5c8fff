"""TXN_COMPONENTS: what a txn writes, recorded when it is locked and made exact when partitions are known.

Only INSERT, UPDATE and DELETE on transactional tables leave rows. Writes whose partitions become known later leave one
row for the table; ``add_partitions`` replaces it, and must be called even when nothing was written (R12), so that an
update that matched nothing conflicts with nobody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.metastore.database.backend import Step, execute_batch
from airflow_hive_acid.metastore.database.codes import Operation
from airflow_hive_acid.metastore.names.objects import canonical_partition, shorten
from airflow_hive_acid.metastore.schema.hive_catalog import DBS, PARTITION_KEYS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS, TXN_TO_WRITE_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.locks.interface import LockComponent
    from airflow_hive_acid.metastore.names.objects import TableName

_TXN = bindparam("txn_id", type_=sa.BigInteger)
_DB, _TBL = bindparam("db", type_=sa.String), bindparam("tbl", type_=sa.String)
#: The write id, if it was allocated before the lock (as Hive's clients do); ours stamp it after the grant (R1).
_WRITE_ID = (
    select(TXN_TO_WRITE_ID.c.T2W_WRITEID)
    .where(
        TXN_TO_WRITE_ID.c.T2W_TXNID == _TXN, TXN_TO_WRITE_ID.c.T2W_DATABASE == _DB, TXN_TO_WRITE_ID.c.T2W_TABLE == _TBL
    )
    .scalar_subquery()
)
_INSERT = insert(TXN_COMPONENTS).values(
    TC_TXNID=_TXN,
    TC_DATABASE=_DB,
    TC_TABLE=_TBL,
    TC_PARTITION=bindparam("part"),
    TC_OPERATION_TYPE=bindparam("operation"),
    TC_WRITEID=_WRITE_ID,
)
_DELETE_TABLE_ROW = delete(TXN_COMPONENTS).where(
    TXN_COMPONENTS.c.TC_TXNID == _TXN,
    TXN_COMPONENTS.c.TC_DATABASE == _DB,
    TXN_COMPONENTS.c.TC_TABLE == _TBL,
    TXN_COMPONENTS.c.TC_PARTITION.is_(None),
)
_NAMED = select(TXN_COMPONENTS.c.TC_PARTITION, TXN_COMPONENTS.c.TC_OPERATION_TYPE).where(
    TXN_COMPONENTS.c.TC_TXNID == _TXN,
    TXN_COMPONENTS.c.TC_DATABASE == _DB,
    TXN_COMPONENTS.c.TC_TABLE == _TBL,
    TXN_COMPONENTS.c.TC_PARTITION.is_not(None),
)
_PARTITION_COLUMNS = (
    select(PARTITION_KEYS.c.PKEY_NAME)
    .select_from(
        TBLS.join(DBS, TBLS.c.DB_ID == DBS.c.DB_ID).join(
            PARTITION_KEYS, PARTITION_KEYS.c.TBL_ID == TBLS.c.TBL_ID, isouter=True
        )
    )
    .where(DBS.c.NAME == _DB, DBS.c.CTLG_NAME == "hive", TBLS.c.TBL_NAME == _TBL)
    .order_by(PARTITION_KEYS.c.INTEGER_IDX)
)


def component_steps(txn_id: int, components: Sequence[LockComponent]) -> list[Step]:
    """The statements that record what locked components write."""
    rows: list[tuple[str, str | None, str | None, str]] = []
    dynamic: dict[tuple[str, str | None], str] = {}
    for c in components:
        letter = c.operation.code
        if letter is None or not c.transactional:
            continue
        if c.dynamic_partitions:
            place = (c.database, c.table)
            changes = letter in ("u", "d") or dynamic.get(place) == "u"
            dynamic[place] = "u" if changes else "i"
        else:
            rows.append((c.database, c.table, c.partition, letter))
    rows += [(database, table, None, letter) for (database, table), letter in dynamic.items()]
    return [
        Step(_INSERT, {"txn_id": txn_id, "db": database, "tbl": table, "part": partition, "operation": letter})
        for database, table, partition, letter in rows
    ]


def add_partitions(
    connection: Connection,
    txn_id: int,
    table: TableName,
    partitions: Sequence[str],
    operation: Operation = Operation.UPDATE,
) -> None:
    """Replace the table's row by one per partition written (addDynamicPartitions); the txn's row must be locked.

    :param partitions: partition names; empty when nothing was written.
    """
    letter = operation.code
    if letter is None:
        raise InvalidArgumentsError(
            f"partitions of {table} cannot be written by {operation.value}; give insert, update or delete"
        )
    of_table = {"txn_id": txn_id, "db": table.database, "tbl": table.name}
    names = list(dict.fromkeys(canonical_partition(p) for p in partitions))
    _require_partitions_of(connection, table, names)
    known = {(row[0], row[1]) for row in connection.execute(_NAMED, of_table)}
    steps = [
        Step(_INSERT, {**of_table, "part": name, "operation": letter}) for name in names if (name, letter) not in known
    ]
    execute_batch(connection, [*steps, Step(_DELETE_TABLE_ROW, of_table)])


def _require_partitions_of(connection: Connection, table: TableName, names: Sequence[str]) -> None:
    """Where the catalog knows the table, its partitions must be named by its columns.

    :raises InvalidArgumentsError: names table, columns and the partition.
    """
    found = connection.execute(_PARTITION_COLUMNS, {"db": table.database, "tbl": table.name}).all() if names else []
    if not found:
        return  # Tables need not be in the catalog.
    columns = [row[0] for row in found if row[0] is not None]
    for name in names:
        given = [key for key, _ in parse_partition_name(name)]
        if given != columns:
            wanted = f"is partitioned by {', '.join(columns)}" if columns else "has no partitions"
            raise InvalidArgumentsError(f"{table} {wanted}, and {shorten(name)!r} is no partition of it")
