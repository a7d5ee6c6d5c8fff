"""The rows ALTER changes: parameters, columns, statistics and the catalog's write id.

New columns get a descriptor of their own (CDS), as in Hive; the table's partitions, which share the old one, follow it,
because columns of ACID files are found by position in the table's list. Descriptors that nothing uses any more go.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, case, delete, select, update

from airflow_hive_acid.metastore.catalog.descriptors import (
    change_parameters,
    delete_unused_columns,
    described,
    insert_columns,
)
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    DATABASE_PARAMS,
    PART_COL_STATS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SORT_COLS,
    TAB_COL_STATS,
    TABLE_PARAMS,
    TBLS,
)
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.alteration import ColumnChange
    from airflow_hive_acid.metastore.catalog.model import Table

_ADVANCE = (
    update(TBLS)
    .where(TBLS.c.TBL_ID == bindparam("id"))
    # Never back: a statement that shared the table with a writer may commit after one with a higher id.
    .values(WRITE_ID=case((TBLS.c.WRITE_ID > bindparam("new"), TBLS.c.WRITE_ID), else_=bindparam("new")))
)


def lock_table_row(connection: Connection, table_id: int) -> None:
    """Let nobody else change the table's rows until the transaction ends."""
    connection.execute(select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID == table_id).with_for_update())


def write_parameters(connection: Connection, table: Table, properties: Mapping[str, str], user: str) -> None:
    """Replace a table's parameters, and note who changed it and when."""
    modified = str(now_ms(connection) // 1000)
    wanted = {
        **properties, "last_modified_by": user, "last_modified_time": modified, "transient_lastDdlTime": modified,
    }  # fmt: skip
    change_parameters(connection, TABLE_PARAMS, "TBL_ID", [(table.id, table.properties, wanted)])


def set_type(connection: Connection, table: Table, type: str) -> None:
    """Make a managed table of an external one, or the other way round."""
    if type != table.type:
        connection.execute(update(TBLS).where(TBLS.c.TBL_ID == table.id).values(TBL_TYPE=type))


def advance_write_id(connection: Connection, table_id: int, write_id: int | None) -> None:
    """Note the write id of the change in the catalog; nothing for tables without."""
    if write_id is not None:
        connection.execute(_ADVANCE, {"id": table_id, "new": write_id})


def write_columns(
    connection: Connection, table: Table, change: ColumnChange, columns_id: int, user: str, *, cascade: bool
) -> None:
    """Give a table other columns.

    :param columns_id: id of the new descriptor.
    :param cascade: let the partitions follow; otherwise they keep theirs, as Hive's RESTRICT.
    """
    insert_columns(connection, {columns_id: described(change.columns, change.comments)})
    partitions = select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.TBL_ID == table.id)
    of_table = SDS.c.SD_ID.in_(select(TBLS.c.SD_ID).where(TBLS.c.TBL_ID == table.id))
    storage = of_table | SDS.c.SD_ID.in_(partitions) if cascade else of_table
    old = list(connection.execute(select(SDS.c.CD_ID).distinct().where(storage)).scalars())
    connection.execute(update(SDS).where(storage).values(CD_ID=columns_id))
    delete_unused_columns(connection, old)
    for before, after in change.renamed.items():
        for target, column in ((BUCKETING_COLS, "BUCKET_COL_NAME"), (SORT_COLS, "COLUMN_NAME")):
            named: Any = target.c[column] == before
            everywhere = select(SDS.c.SD_ID).where(of_table | SDS.c.SD_ID.in_(partitions))
            connection.execute(update(target).where(target.c.SD_ID.in_(everywhere), named).values({column: after}))
    _forget_column_statistics(connection, table, change)
    write_parameters(connection, table, without_column_statistics(table.properties), user)


def write_database_parameters(
    connection: Connection, database_id: int, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Replace a database's parameters."""
    change_parameters(connection, DATABASE_PARAMS, "DB_ID", [(database_id, before, after)])


def _forget_column_statistics(connection: Connection, table: Table, change: ColumnChange) -> None:
    if not change.outdated:
        return
    names = sorted(change.outdated)
    of_partitions = select(PARTITIONS.c.PART_ID).where(PARTITIONS.c.TBL_ID == table.id)
    connection.execute(
        delete(TAB_COL_STATS).where(TAB_COL_STATS.c.TBL_ID == table.id, TAB_COL_STATS.c.COLUMN_NAME.in_(names))
    )
    connection.execute(
        delete(PART_COL_STATS).where(
            PART_COL_STATS.c.PART_ID.in_(of_partitions), PART_COL_STATS.c.COLUMN_NAME.in_(names)
        )
    )
    # It names columns; Hive makes it anew with the next statistics.
    connection.execute(
        delete(PARTITION_PARAMS).where(
            PARTITION_PARAMS.c.PART_ID.in_(of_partitions), PARTITION_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE
        )
    )


def without_column_statistics(properties: Mapping[str, str]) -> dict[str, str]:
    """The parameters, their statistics exact for the number of rows at most, as Hive leaves them."""
    kept = dict(properties)
    stated = kept.pop(STATISTICS_ACCURATE, None)
    try:
        exact = json.loads(stated) if stated else {}
    except json.JSONDecodeError:
        exact = {}
    if isinstance(exact, dict) and exact.get("BASIC_STATS") == "true":
        kept[STATISTICS_ACCURATE] = json.dumps({"BASIC_STATS": "true"}, separators=(",", ":"))
    return kept
