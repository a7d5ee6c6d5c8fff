"""Rows together with those that are deleted (Hive's ROW__IS__DELETED), for people who look for what is gone.

As long as no major compaction has come by, deleted rows are still in the files. They are shown as they were when their
delete event was written, and as Hive does it, ROW__ID then names the write id that deleted the row, not the one that
made it (VectorizedOrcAcidRowBatchReader with ``acid.fetch.deleted.rows``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.changes import BEFORE, DELETE, KIND
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.read import in_place, originals
from airflow_hive_acid.spark.read.changes import read_changes
from airflow_hive_acid.spark.read.open_tables import only_seen
from airflow_hive_acid.spark.read.reader import (
    data_columns,
    delete_events,
    insert_events,
    open_table,
    partition_values,
    project,
    read_snapshot,
)
from airflow_hive_acid.spark.read.scan import union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import TableSnapshot, View

IS_DELETED = "row__is__deleted"
_OF_DELETE = f"{schema.INTERNAL_PREFIX}of_delete_"


def read_view(spark: SparkSession, view: View) -> DataFrame:
    """A view of a job: its rows, those that are deleted if it asks for them, and the pseudo columns it asks for."""
    if view.changes is not None:
        rows = read_changes(spark, view.snapshot, view.changes)
        if not view.pseudo_columns:
            return rows.drop(schema.PSEUDO_COLUMN)
        return rows.selectExpr("*", f"{KIND} in ('{DELETE}', '{BEFORE}') as {IS_DELETED}")
    if view.shows_deleted_rows:
        rows = read_with_deleted(spark, view.snapshot)
        return rows if view.pseudo_columns else rows.drop(schema.PSEUDO_COLUMN, IS_DELETED)
    if not view.pseudo_columns or not view.snapshot.has_row_ids:
        return read_snapshot(spark, view.snapshot)
    return read_snapshot(spark, view.snapshot, row_ids=True).selectExpr("*", f"false as {IS_DELETED}")


def read_with_deleted(spark: SparkSession, snapshot: TableSnapshot) -> DataFrame:
    """All rows that the snapshot's files hold: data and partition columns, ``row__id`` and ``row__is__deleted``.

    :param snapshot: of an open txn, as for ``read_snapshot`` (R16).
    :return: ``row__id.writeid`` is that of the last event about the row: of its delete event if it is deleted.
    :raises UnsupportedStatementError: for a table without row ids, where nothing is ever marked as deleted.
    """
    if not snapshot.has_row_ids:
        raise UnsupportedStatementError(f"{snapshot.table} has no row ids, and so no deleted rows to show")
    table = open_table(spark, snapshot)
    if table.changing:
        raise UnsupportedStatementError(
            f"{table.name} holds updates in place of a Hive before version 3 ({min(table.changing)}), among which "
            "deleted rows are not told apart; run a major compaction first"
        )
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
    deleted, write_id = "false", schema.CURRENT_WRITE_ID
    if files.deletes:
        named = {schema.BUCKET: in_place.packed_bucket(table)}
        gone = delete_events(spark, table, files.deletes).selectExpr(
            *[f"{named.get(key, key)} as {_OF_DELETE}{key}" for key in keys],
            f"{schema.CURRENT_WRITE_ID} as {_OF_DELETE}by",
        )
        # An UPDATE by Hive's multi-statement transactions may have left a delete twice (R18): the rows must not double.
        gone = gone.groupBy(*[f"{_OF_DELETE}{key}" for key in keys]).agg(
            F.max(f"{_OF_DELETE}by").alias(f"{_OF_DELETE}by")
        )
        found = found.join(gone, F.expr(" and ".join(f"{k} = {_OF_DELETE}{k}" for k in keys)), "left")
        deleted = f"{_OF_DELETE}by is not null"
        write_id = f"coalesce({_OF_DELETE}by, {schema.CURRENT_WRITE_ID})"
    ids = f"'writeid', {write_id}, 'bucketid', {schema.BUCKET}, 'rowid', {schema.ROW_NUMBER}"
    return project(
        found,
        [
            *data_columns(table),
            *partition_values(table.partitions),
            f"named_struct({ids}) as {schema.PSEUDO_COLUMN}",
            f"{deleted} as {IS_DELETED}",
        ],
    )
