"""Rows together with those that are deleted (Hive's ROW__IS__DELETED), for people who look for what is gone.

As long as the Cleaner has not come by, deleted rows are still in the files. They are shown as they were when their
delete event was written; after a major compaction they are gone for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.spark import originals, schema
from airflow_hive_acid.spark.reader import delete_events, insert_events, only_seen, open_table
from airflow_hive_acid.spark.scan import union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import TableSnapshot

IS_DELETED = "row__is__deleted"
_OF_DELETE = f"{schema.INTERNAL_PREFIX}of_delete_"


def read_with_deleted(spark: SparkSession, snapshot: TableSnapshot) -> DataFrame:
    """All rows that the snapshot's files hold: data and partition columns, ``row__id`` and ``row__is__deleted``.

    :param snapshot: of an open txn, as for ``read_snapshot`` (R16).
    :raises UnsupportedStatementError: for a table without row ids, where nothing is ever marked as deleted.
    """
    if not snapshot.has_row_ids:
        raise UnsupportedStatementError(f"{snapshot.table} has no row ids, and so no deleted rows to show")
    table = open_table(spark, snapshot)
    files = table.files
    keys = [*schema.IDENTITY, schema.PARTITION]
    wanted = [*schema.HEADER, schema.ROW, schema.PARTITION, *table.partitions.internal_names]
    parts = []
    if files.inserts:
        parts.append(only_seen(insert_events(spark, table, files.inserts), table, files.inserts).select(*wanted))
    if files.originals:
        parts.append(originals.rows(spark, table, files.originals, identity=True).select(*wanted))
    if not parts:
        columns = [*table.columns, *table.partition_columns]
        nothing = [f"cast(null as {schema.sql_type(c.type)}) as {schema.quoted(c.name)}" for c in columns]
        row_id = "cast(null as struct<writeid:bigint,bucketid:int,rowid:bigint>)"
        return spark.range(0).selectExpr(*nothing, f"{row_id} as {schema.PSEUDO_COLUMN}", f"true as {IS_DELETED}")
    found = union(parts)
    deleted = "false"
    if files.deletes:
        names = [f"{key} as {_OF_DELETE}{key}" for key in keys]
        events = delete_events(spark, table, files.deletes).selectExpr(*names).distinct()
        found = found.join(events, F.expr(" and ".join(f"{k} = {_OF_DELETE}{k}" for k in keys)), "left")
        deleted = f"{_OF_DELETE}{keys[0]} is not null"
    ids = ", ".join(f"'{name}', {key}" for name, key in zip(("writeid", "bucketid", "rowid"), keys, strict=False))
    return found.selectExpr(
        *[f"{schema.quoted(schema.ROW, c.name)} as {schema.quoted(c.name)}" for c in table.columns],
        *table.partitions.outputs(),
        f"named_struct({ids}) as {schema.PSEUDO_COLUMN}",
        f"{deleted} as {IS_DELETED}",
    )
