"""The rows ALTER changes besides those that say what a table or partition is: statistics and the catalog's write id.

New columns get a descriptor of their own (CDS), as in Hive; the table's partitions, which share the old one, follow it,
because columns of ACID files are found by position in the table's list. Descriptors that nothing uses any more go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, case, delete, select, update

from airflow_hive_acid.metastore.catalog.rows.objects import (
    change_parameters,
    delete_unused_columns,
    ids_of,
    update_partitions,
    update_tables,
)
from airflow_hive_acid.metastore.catalog.values.alteration import COUNTED, without_column_statistics
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.schema.hive_catalog import (
    BUCKETING_COLS,
    DATABASE_PARAMS,
    DBS,
    PART_COL_STATS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SORT_COLS,
    TAB_COL_STATS,
    TBLS,
)
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.rows.objects import TakeIds
    from airflow_hive_acid.metastore.catalog.values.alteration import ColumnChange
    from airflow_hive_acid.metastore.catalog.values.model import Table, WholePartition
    from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionChange


def _advance(rows: Any, key: Any) -> Any:
    # Never back: a statement that shared the table with a writer may commit after one with a higher id.
    highest = case((rows.c.WRITE_ID > bindparam("new"), rows.c.WRITE_ID), else_=bindparam("new"))
    return update(rows).where(key == bindparam("id")).values(WRITE_ID=highest)


_ADVANCE_TABLE, _ADVANCE_PARTITION = _advance(TBLS, TBLS.c.TBL_ID), _advance(PARTITIONS, PARTITIONS.c.PART_ID)


def lock_table_row(connection: Connection, table_id: int) -> None:
    """Let nobody else change the table's rows until the transaction ends."""
    connection.execute(select(TBLS.c.TBL_ID).where(TBLS.c.TBL_ID == table_id).with_for_update())


def advance_write_id(connection: Connection, table: Table, write_id: int | None, *parts: int) -> None:
    """Note the write id of the change in the catalog; nothing for tables without.

    :param parts: ids of the partitions that were changed.
    """
    if write_id is None:
        return
    connection.execute(_ADVANCE_TABLE, {"id": table.id, "new": write_id})
    if parts:
        connection.execute(_ADVANCE_PARTITION, [{"id": part, "new": write_id} for part in parts])


def write_table(connection: Connection, before: Table, after: Table, user: str, take_ids: TakeIds) -> Table:
    """Make a table what it shall be, and note who changed it and when.

    :return: the table with the ids of its rows.
    """
    noted = replace(after, properties=_noted(connection, after.properties, user))
    return update_tables(connection, [(before, noted, False)], take_ids)[0]


def write_columns(
    connection: Connection, table: Table, change: ColumnChange, user: str, take_ids: TakeIds, *, cascade: bool
) -> None:
    """Give a table other columns.

    :param cascade: let the partitions follow; otherwise they keep theirs, as Hive's RESTRICT.
    """
    properties = without_column_statistics(table.properties)
    after = replace(table, storage=change.made_of(table.storage), properties=properties)
    written = write_table(connection, table, after, user, take_ids)
    storages = SDS.c.SD_ID.in_(select(PARTITIONS.c.SD_ID).where(PARTITIONS.c.TBL_ID == table.id))
    if cascade and table.partition_keys:
        old = list(connection.execute(select(SDS.c.CD_ID).distinct().where(storages)).scalars())
        connection.execute(update(SDS).where(storages).values(CD_ID=ids_of(written.storage).columns))
        delete_unused_columns(connection, old)
    for old_name, new_name in change.renamed.items() if table.partition_keys else ():
        for target, column in ((BUCKETING_COLS, "BUCKET_COL_NAME"), (SORT_COLS, "COLUMN_NAME")):
            named: Any = target.c[column] == old_name
            of_partitions = select(SDS.c.SD_ID).where(storages)
            connection.execute(
                update(target).where(target.c.SD_ID.in_(of_partitions), named).values({column: new_name})
            )
    _forget_column_statistics(connection, table, change)


def forget_counted_rows(connection: Connection, table: Table) -> None:
    """Forget how many rows the partitions of a table have."""
    of_partitions = select(PARTITIONS.c.PART_ID).where(PARTITIONS.c.TBL_ID == table.id)
    connection.execute(
        delete(PARTITION_PARAMS).where(
            PARTITION_PARAMS.c.PART_ID.in_(of_partitions), PARTITION_PARAMS.c.PARAM_KEY.in_(COUNTED)
        )
    )


def write_partition(
    connection: Connection, table: Table, before: WholePartition, change: PartitionChange, user: str, take_ids: TakeIds
) -> None:
    """Give a partition what was decided, and note who changed it and when."""
    of_partition = PART_COL_STATS.c.PART_ID == before.id
    if change.is_moved(before):
        connection.execute(delete(PART_COL_STATS).where(of_partition))
    elif change.outdated:
        named = PART_COL_STATS.c.COLUMN_NAME.in_(sorted(change.outdated))
        connection.execute(delete(PART_COL_STATS).where(of_partition, named))
    write_partitions(connection, table, [(before, change.after)], user, take_ids)


def write_partitions(
    connection: Connection,
    table: Table,
    changes: Sequence[tuple[WholePartition, WholePartition]],
    user: str,
    take_ids: TakeIds,
) -> None:
    """Make partitions of a table what they shall be, and note who changed them and when.

    :param changes: each as it is and as it shall be; what is known of its columns stays.
    """
    noted = _noted(connection, {}, user)
    update_partitions(
        connection,
        [(table, before, replace(after, properties={**after.properties, **noted})) for before, after in changes],
        take_ids,
    )


def write_database_parameters(
    connection: Connection, database_id: int, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Replace a database's parameters."""
    change_parameters(connection, DATABASE_PARAMS, "DB_ID", [(database_id, before, after)])


def write_database(connection: Connection, database_id: int, changed: Mapping[str, str]) -> None:
    """Change columns of a database's own row."""
    if changed:
        connection.execute(update(DBS).where(DBS.c.DB_ID == database_id).values(**changed))


def _noted(connection: Connection, properties: Mapping[str, str], user: str) -> dict[str, str]:
    modified = str(now_ms(connection) // 1000)
    return {
        **properties, "last_modified_by": user, "last_modified_time": modified, "transient_lastDdlTime": modified,
    }  # fmt: skip


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
