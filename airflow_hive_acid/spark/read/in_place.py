"""Files of older Hives, in which events update and delete rows in place (version 1 of the ACID format).

Before Hive 3 a delta was one file with inserts (0), updates (1) and deletes (2) mixed; an update carries the identity
of the row it replaces. Of all events with one identity the one of the latest write id counts, then that of the later
statement, as in Hive's OrcRawRecordMerger. Bucket values there are plain bucket numbers (version 0 of BucketCodec), and
events about files from before the table had transactions name them by that number, while Hive 3 and we give such rows
the packed value. Only buckets in which such events occur take this way; a major compaction ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hive_acid.format.buckets import encode_bucket
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.hadoop import in_threads
from airflow_hive_acid.spark.read.scan import scan_events, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.spark.hadoop import HadoopFilesystem
    from airflow_hive_acid.spark.read.data_files import EventFile
    from airflow_hive_acid.spark.read.open_tables import OpenTable

OPERATIONS = (schema.INSERTED, schema.UPDATED, schema.DELETED)
_STATEMENT = f"{schema.INTERNAL_PREFIX}statement"
_RANK = f"{schema.INTERNAL_PREFIX}rank"
_OF_CHANGE = f"{schema.INTERNAL_PREFIX}of_change_"
# Version 1 of the codec for rows of files without ACID columns: bucket in the bits from 16 on, statement 0.
_PACKED = f"{encode_bucket(0, 0)} | shiftleft({schema.BUCKET}, 16)"


def changing_files(fs: HadoopFilesystem, files: Iterable[EventFile]) -> frozenset[str]:
    """The files that hold updates or deletes among their inserts; only those that may are opened.

    :return: URIs; empty for every table that Hive 3 or later has compacted, or has written from the start.
    :raises CorruptTableError: when a footer cannot be read.
    """
    asked = [f.uri for f in files if f.may_update]
    found = zip(asked, in_threads(fs.footers.orc_events, asked), strict=True)
    return frozenset(uri for uri, events in found if events.rows and events.max_operation != schema.INSERTED)


def groups(files: Iterable[EventFile], changing: frozenset[str]) -> frozenset[tuple[int, int]]:
    """Partition and bucket of every file that changes rows: all that its events can be about."""
    return frozenset((f.partition, f.bucket) for f in files if f.uri in changing)


def newest(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """Rows of these files that are left: inserted and never changed, or as their latest update has them.

    They come as insert events. Delete deltas are not looked at, as for any file.
    """
    inserted = _events(spark, table, files).where(f"coalesce({schema.OPERATION}, 0) = {schema.INSERTED}")
    kept = unchanged(spark, table, inserted, files)
    changed = _last_changes(_changes(spark, table, files)).where(f"{schema.OPERATION} = {schema.UPDATED}")
    replaced = {schema.OPERATION: f"{schema.INSERTED} as {schema.OPERATION}"}
    return union([kept, changed.selectExpr(*[replaced.get(name, name) for name in _columns(table)])])


def unchanged(spark: SparkSession, table: OpenTable, rows: DataFrame, files: Iterable[EventFile]) -> DataFrame:
    """Drop the rows that an update or delete in one of these files is about."""
    changing = [f for f in files if f.uri in table.changing]
    if not changing:
        return rows
    keys = [*schema.IDENTITY, schema.PARTITION]
    changes = _changes(spark, table, changing).selectExpr(*[f"{k} as {_OF_CHANGE}{k}" for k in keys])
    return rows.join(changes, F.expr(" and ".join(f"{k} = {_OF_CHANGE}{k}" for k in keys)), "left_anti")


def packed_bucket(table: OpenTable) -> str:
    """Spark SQL for the bucket value in an event, as rows of files without ACID columns have it.

    Where there are no such files, values are stored as they are compared.
    """
    partitions = sorted({f.partition for f in table.files.originals})
    if not partitions:
        return schema.BUCKET
    inside = f"{schema.PARTITION} in ({', '.join(map(str, partitions))})"
    plain = f"{schema.ORIGINAL_WRITE_ID} = 0 and shiftrightunsigned({schema.BUCKET}, 29) = 0 and {inside}"
    return f"if({plain}, {_PACKED}, {schema.BUCKET})"


def _changes(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """The updates and deletes in these files that the snapshot sees, and the statement that made each."""
    by_statement: dict[int, list[EventFile]] = {}
    for file in files:
        if file.uri in table.changing:
            by_statement.setdefault(file.statement_id, []).append(file)
    columns = _columns(table)
    columns[columns.index(schema.BUCKET)] = f"{packed_bucket(table)} as {schema.BUCKET}"
    return union(
        [
            _events(spark, table, group)
            .where(f"coalesce({schema.OPERATION}, 0) <> {schema.INSERTED}")
            .selectExpr(*columns, f"{statement} as {_STATEMENT}")
            for statement, group in by_statement.items()
        ]
    )


def _last_changes(changes: DataFrame) -> DataFrame:
    keys = ", ".join([schema.PARTITION, *schema.IDENTITY])
    latest = f"{schema.CURRENT_WRITE_ID} desc, {_STATEMENT} desc, {schema.OPERATION} desc"
    rank = f"row_number() over (partition by {keys} order by {latest}) as {_RANK}"
    return changes.selectExpr("*", rank).where(f"{_RANK} = 1")


def _events(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """All events of these files that the snapshot sees, by Spark's own source."""
    row = schema.row_type(table.columns)
    found = scan_events(spark, row, files, table.partitions, OPERATIONS, table.renamed)
    return table.seen(found, files).select(*_columns(table))


def _columns(table: OpenTable) -> list[str]:
    return [*schema.HEADER, schema.ROW, schema.PARTITION, *table.partitions.internal_names]
