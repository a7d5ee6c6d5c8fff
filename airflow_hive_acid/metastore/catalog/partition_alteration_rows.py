"""The rows ALTER … PARTITION changes: parameters, serde, columns, directory, statistics and the write id.

Columns equal to the table's are the table's descriptor (CDS), others get one of their own, as in Hive; a descriptor
that nothing uses any more goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, case, delete, select, update

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.alteration_rows import without_column_statistics
from airflow_hive_acid.metastore.catalog.descriptors import (
    change_parameters,
    delete_unused_columns,
    described,
    insert_columns,
)
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    PART_COL_STATS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SORT_COLS,
    TBLS,
)
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.alteration import ColumnChange
    from airflow_hive_acid.metastore.catalog.model import Table
    from airflow_hive_acid.metastore.catalog.partition_alteration import PartitionChange
    from airflow_hive_acid.metastore.catalog.thrift.objects import PartitionObject

_BY_ID = PARTITIONS.c.PART_ID == bindparam("id")
_SELECT_STORAGE = select(SDS.c.SD_ID, SDS.c.CD_ID, SDS.c.SERDE_ID).join(PARTITIONS, PARTITIONS.c.SD_ID == SDS.c.SD_ID)
_SELECT_TABLE_COLUMNS_ID = select(SDS.c.CD_ID).join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID)
_ADVANCE = (
    update(PARTITIONS)
    .where(_BY_ID)
    # Never back, as for tables.
    .values(WRITE_ID=case((PARTITIONS.c.WRITE_ID > bindparam("new"), PARTITIONS.c.WRITE_ID), else_=bindparam("new")))
)


def write_partition(
    connection: Connection,
    part_id: int,
    table: Table,
    before: PartitionObject,
    change: PartitionChange,
    columns_id: int | None,
    user: str,
) -> None:
    """Give a partition what was decided.

    :param columns_id: id for a descriptor of its own, when its columns change.
    :param user: who changed it.
    """
    storage = connection.execute(_SELECT_STORAGE.where(PARTITIONS.c.PART_ID == part_id)).one()
    properties = dict(change.properties)
    if change.location != before.storage.location:
        connection.execute(update(SDS).where(SDS.c.SD_ID == storage.SD_ID).values(LOCATION=change.location))
        # What they say was true of other files; Hive keeps them and answers from them.
        properties.pop(STATISTICS_ACCURATE, None)
        connection.execute(delete(PART_COL_STATS).where(PART_COL_STATS.c.PART_ID == part_id))
    if change.format is not None:
        formats = {"INPUT_FORMAT": change.format.input_format, "OUTPUT_FORMAT": change.format.output_format}
        connection.execute(update(SDS).where(SDS.c.SD_ID == storage.SD_ID).values(formats))
        connection.execute(update(SERDES).where(SERDES.c.SERDE_ID == storage.SERDE_ID).values(SLIB=change.format.serde))
    if change.columns is not None and columns_id is not None:
        _write_columns(connection, table, storage, change.columns, columns_id)
        connection.execute(
            delete(PART_COL_STATS).where(
                PART_COL_STATS.c.PART_ID == part_id, PART_COL_STATS.c.COLUMN_NAME.in_(sorted(change.columns.outdated))
            )
        )
        properties = without_column_statistics(properties)
    modified = str(now_ms(connection) // 1000)
    properties |= {"last_modified_by": user, "last_modified_time": modified, "transient_lastDdlTime": modified}
    change_parameters(connection, PARTITION_PARAMS, "PART_ID", [(part_id, before.parameters, properties)])
    serde = (storage.SERDE_ID, before.storage.serde_parameters, change.serde_properties)
    change_parameters(connection, SERDE_PARAMS, "SERDE_ID", [serde])


def advance_partition_write_id(connection: Connection, part_id: int, write_id: int | None) -> None:
    """Note the write id of the change; nothing for tables without."""
    if write_id is not None:
        connection.execute(_ADVANCE, {"id": part_id, "new": write_id})


def _write_columns(connection: Connection, table: Table, storage: Any, change: ColumnChange, columns_id: int) -> None:
    same = change.columns == tuple(Column(c.name, c.type) for c in table.columns) and all(
        change.comments.get(c.name) == table.comments.get(c.name) for c in change.columns
    )
    if same:
        columns_id = connection.execute(_SELECT_TABLE_COLUMNS_ID.where(TBLS.c.TBL_ID == table.id)).scalar_one()
    else:
        insert_columns(connection, {columns_id: described(change.columns, change.comments)})
    connection.execute(update(SDS).where(SDS.c.SD_ID == storage.SD_ID).values(CD_ID=columns_id))
    delete_unused_columns(connection, [storage.CD_ID])
    for old, new in change.renamed.items():
        for target, column in ((BUCKETING_COLS, "BUCKET_COL_NAME"), (SORT_COLS, "COLUMN_NAME")):
            named: Any = (target.c.SD_ID == storage.SD_ID) & (target.c[column] == old)
            connection.execute(update(target).where(named).values({column: new}))
