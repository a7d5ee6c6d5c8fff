"""What a write does to Hive's statistics: they stop being exact.

Hive answers ``count(*)`` from the catalog as long as COLUMN_STATS_ACCURATE says so, and a new table says so from the
start. A commit of ours that left the note in place would make Hive answer 0 rows for ever. The catalog's write id is
advanced together with it, as Hive's own statistics task does; when there is nothing to forget, nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    null,
    select,
    union_all,
    update,
)

from airflow_hive_acid.metastore.catalog_read import CATALOG
from airflow_hive_acid.metastore.catalog_rows import STATISTICS_ACCURATE
from airflow_hive_acid.metastore.schema_catalog import DBS, PARTITION_PARAMS, PARTITIONS, TABLE_PARAMS, TBLS
from airflow_hive_acid.metastore.schema_transactions import TXN_COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

_written = TXN_COMPONENTS.c
# No IN list: the statement travels in a batch, where lists are not expanded.
_of_txn = and_(_written.TC_TXNID == bindparam("txn_id"), _written.TC_OPERATION_TYPE != "c")
_tables = (
    select(TBLS.c.TBL_ID, cast(null(), BigInteger).label("PART_ID"), func.max(_written.TC_WRITEID).label("WRITE_ID"))
    .select_from(TXN_COMPONENTS)
    .join(DBS, and_(DBS.c.NAME == _written.TC_DATABASE, DBS.c.CTLG_NAME == CATALOG))
    .join(TBLS, and_(TBLS.c.DB_ID == DBS.c.DB_ID, TBLS.c.TBL_NAME == _written.TC_TABLE))
)
_partitions = (
    _tables.with_only_columns(TBLS.c.TBL_ID, PARTITIONS.c.PART_ID, func.max(_written.TC_WRITEID).label("WRITE_ID"))
    .join(PARTITIONS, and_(PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID, PARTITIONS.c.PART_NAME == _written.TC_PARTITION))
    .join(PARTITION_PARAMS, PARTITION_PARAMS.c.PART_ID == PARTITIONS.c.PART_ID)
)  # fmt: skip

SELECT_EXACT = union_all(
    _tables.join(TABLE_PARAMS, TABLE_PARAMS.c.TBL_ID == TBLS.c.TBL_ID)
    .where(_of_txn, TABLE_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE)
    .group_by(TBLS.c.TBL_ID),
    _partitions.where(_of_txn, PARTITION_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE).group_by(
        TBLS.c.TBL_ID, PARTITIONS.c.PART_ID
    ),
)
"""Tables and partitions written by ``txn_id`` whose statistics are still called exact: TBL_ID, PART_ID, WRITE_ID."""

_TABLE, _PARTITION = TBLS.c.TBL_ID == bindparam("id"), PARTITIONS.c.PART_ID == bindparam("id")
_NEW: BindParameter[int] = bindparam("new_write_id")
# Never back: an ALTER TABLE that shared the table with this writer may have committed first, with a higher id.
_ADVANCE_TABLE = update(TBLS).where(_TABLE).values(WRITE_ID=case((TBLS.c.WRITE_ID > _NEW, TBLS.c.WRITE_ID), else_=_NEW))
_ADVANCE_PARTITION = (
    update(PARTITIONS)
    .where(_PARTITION)
    .values(WRITE_ID=case((PARTITIONS.c.WRITE_ID > _NEW, PARTITIONS.c.WRITE_ID), else_=_NEW))
)
_FORGET_TABLE = delete(TABLE_PARAMS).where(
    TABLE_PARAMS.c.TBL_ID == bindparam("id"), TABLE_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE
)
_FORGET_PARTITION = delete(PARTITION_PARAMS).where(
    PARTITION_PARAMS.c.PART_ID == bindparam("id"), PARTITION_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE
)


def forget_statistics(connection: Connection, txn_id: int) -> None:
    """Note that what a committing txn has written to no longer has exact statistics.

    Must run before the txn's components are moved, in the same transaction as the commit.
    """
    forget(connection, connection.execute(SELECT_EXACT, {"txn_id": txn_id}).all())


def forget(connection: Connection, exact: Iterable[Sequence[Any]]) -> None:
    """The second half: with the rows of ``SELECT_EXACT``, for callers that fetch them in a batch of their own."""
    for table_id, part_id, write_id in exact:
        of_table = part_id is None
        parameters = {"id": table_id if of_table else part_id}
        connection.execute(_FORGET_TABLE if of_table else _FORGET_PARTITION, parameters)
        if write_id is not None:
            advance = _ADVANCE_TABLE if of_table else _ADVANCE_PARTITION
            connection.execute(advance, {**parameters, "new_write_id": write_id})
