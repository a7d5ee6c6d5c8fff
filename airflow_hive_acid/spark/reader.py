"""Table snapshots as DataFrames.

The data files are read as they are; only those that a delete event may hit, or that hold write ids the snapshot does
not see, pass through a filter, and deletes are applied with a broadcast anti-join, so the base is never shuffled.
A snapshot belongs to an open, registered txn (R16): this module does not check that, it is given the lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.spark import originals, schema
from airflow_hive_acid.spark.files import SnapshotFiles, plain_files, snapshot_files
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.scan import PartitionValues, ScanFile, scan, scan_events, union

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.spark.files import EventFile

BROADCAST_DELETES_BYTES = 64 << 20
"""Compressed size of delete files up to which their events are broadcast; a delete event takes 1 to 4 bytes there."""
_INSERT_ONLY = "transactional_properties"


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A snapshot whose files are listed.

    :param write_ids: what the snapshot sees; for a compaction the compactor's variant.
    :param columns: data columns; ``partition_columns`` come after them in rows.
    """

    snapshot: TableSnapshot
    write_ids: ValidWriteIdList
    columns: tuple[schema.TableColumn, ...]
    partition_columns: tuple[schema.TableColumn, ...]
    partitions: PartitionValues
    files: SnapshotFiles

    @property
    def name(self) -> str:
        """``db.table``."""
        return self.snapshot.table


def open_table(spark: SparkSession, snapshot: TableSnapshot, compactor: bool = False) -> OpenTable:
    """List a transactional table.

    :param compactor: look at it as a compactor does: no further than the first open write id.
    :raises CorruptTableError: when its layout contradicts itself.
    :raises UnsupportedStatementError: for tables and types this version does not read.
    """
    columns = schema.table_columns(snapshot.columns, snapshot.table)
    partition_columns = schema.table_columns(snapshot.partition_columns, snapshot.table)
    if snapshot.properties.get(_INSERT_ONLY, "").lower() == "insert_only":
        raise UnsupportedStatementError(
            f"{snapshot.table} is an insert-only table; only full ACID tables (stored as ORC, "
            "without transactional_properties=insert_only) can be read and written"
        )
    write_ids = ValidWriteIdList.parse(snapshot.write_ids)
    if compactor:
        write_ids = write_ids.for_compactor()
    return OpenTable(
        snapshot,
        write_ids,
        columns,
        partition_columns,
        PartitionValues(partition_columns, tuple(p.values for p in snapshot.partitions)),
        snapshot_files(HadoopFilesystem(spark), snapshot, write_ids),
    )


def read_snapshot(spark: SparkSession, snapshot: TableSnapshot, row_ids: bool = False) -> DataFrame:
    """The rows of a table as a snapshot sees them: data columns, then partition columns.

    :param snapshot: of an open txn that is registered and heart-beaten for as long as the DataFrame is used (R16).
    :param row_ids: add ``row__id``, a struct of writeid, bucketid and rowid.
    :raises CorruptTableError: when files are missing or contradict their names.
    """
    if not snapshot.transactional:
        return _read_plain(spark, snapshot)
    table = open_table(spark, snapshot)
    rows = table_rows(spark, table, identity=row_ids)
    names = [F.col(f"`{c.name}`") for c in (*table.columns, *table.partition_columns)]
    return rows.select(*names, *([row_id_column()] if row_ids else []))


def row_id_column() -> Column:
    """The pseudo column ``row__id``, from the internal identity columns."""
    write_id, bucket, number = identity_columns()
    return F.struct(write_id.alias("writeid"), bucket.alias("bucketid"), number.alias("rowid")).alias(
        schema.PSEUDO_COLUMN
    )


def identity_columns() -> list[Column]:
    """The internal columns that ``table_rows`` adds: write id, bucket value and row number."""
    return [F.col(internal(name)) for name in schema.IDENTITY]


def internal(name: str) -> str:
    """Name of a header column among user columns."""
    return f"{schema.INTERNAL_PREFIX}{name}"


def table_rows(spark: SparkSession, table: OpenTable, identity: bool = False) -> DataFrame:
    """The live rows under their column names.

    :param identity: add the internal identity columns and the partition ordinal.
    """
    files = table.files
    ids = [F.col(name).alias(internal(name)) for name in schema.IDENTITY] + [F.col(schema.PARTITION)]
    columns = [*_data_columns(table), *table.partitions.outputs(), *(ids if identity else [])]
    row = schema.row_type(table.columns)
    parts = []
    if files.clean:
        parts.append(scan_events(spark, row, files.clean, table.partitions).select(*columns))
    if files.filtered:
        parts.append(live_events(spark, table, files.filtered).select(*columns))
    if files.originals:
        found = originals.rows(spark, table, files.originals, identity=identity or bool(files.deletes))
        if files.deletes:
            found = without_deleted(spark, table, found, {f.partition for f in files.originals})
        parts.append(found.select(*columns))
    if not parts:
        return _no_rows(spark, (*table.columns, *table.partition_columns), identity)
    return union(parts)


def live_events(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """Insert events that the snapshot sees and that no delete event hits, header included."""
    events = scan_events(spark, schema.row_type(table.columns), files, table.partitions)
    events = only_seen(events, table, files)
    return without_deleted(spark, table, events, {f.partition for f in files})


def only_seen(events: DataFrame, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """Drop events of write ids that the snapshot does not see, where directories hold several write ids."""
    checked = [f for f in files if f.check_rows]
    if not checked:
        return events
    seen = table.write_ids
    low, high = min(f.min_write_id for f in checked), max(f.max_write_id for f in checked)
    # coalesce: must not be pushed down into the ORC reader, which would look for a user's column of that name.
    current = F.coalesce(F.col(schema.CURRENT_WRITE_ID), F.lit(0).cast("long"))
    hidden = [i for i in seen.exceptions if low <= i <= high]
    kept = events.where(current <= F.lit(seen.high_watermark))
    return kept.where(~current.isin(hidden)) if hidden else kept


def without_deleted(spark: SparkSession, table: OpenTable, events: DataFrame, ordinals: set[int]) -> DataFrame:
    """Drop the events whose row a delete event names, in these partitions."""
    deletes = [f for f in table.files.deletes if f.partition in ordinals]
    if not deletes:
        return events
    keys = [*schema.IDENTITY, *([schema.PARTITION] if len(ordinals) > 1 else [])]
    found = delete_events(spark, table, deletes).select(*[F.col(k).alias(f"__acid_deleted_{k}") for k in keys])
    if sum(f.size for f in deletes) <= BROADCAST_DELETES_BYTES:
        found = F.broadcast(found)
    same = [events[k] == found[f"__acid_deleted_{k}"] for k in keys]
    return events.join(found, same, "left_anti")


def delete_events(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """Delete events that the snapshot sees; their ``row`` is reduced to one column, all NULL."""
    row = schema.row_type(table.columns)
    cheapest = schema.cheapest_column(row) or row.names[0]
    narrow = schema.row_type([c for c in table.columns if c.name == cheapest])
    return only_seen(scan_events(spark, narrow, files, table.partitions, schema.DELETED), table, files)


def _data_columns(table: OpenTable) -> list[Column]:
    return [presented(F.col(schema.ROW)[c.name], c).alias(c.name, **_char_metadata(c)) for c in table.columns]


def presented(value: Column, column: schema.TableColumn) -> Column:
    """A stored value as readers see it: char is padded, varchar cut, to the declared length (Hive does both)."""
    if column.length is None:
        return value
    cut = F.substring(value, 1, column.length)
    return F.rpad(cut, column.length, " ") if column.is_char else cut


def _char_metadata(column: schema.TableColumn) -> dict[str, dict[str, str]]:
    """Spark compares a char column with literals of any padding when it knows the declared type."""
    return {"metadata": {"__CHAR_VARCHAR_TYPE_STRING": column.hive_type}} if column.is_char else {}


def _no_rows(spark: SparkSession, all_columns: Sequence[schema.TableColumn], identity: bool) -> DataFrame:
    columns = [F.lit(None).cast(c.type).alias(c.name, **_char_metadata(c)) for c in all_columns]
    if identity:
        columns += [F.lit(None).cast(schema.header_type(n)).alias(internal(n)) for n in schema.IDENTITY]
        columns.append(F.lit(None).cast("int").alias(schema.PARTITION))
    return spark.range(0).select(*columns)


def _read_plain(spark: SparkSession, snapshot: TableSnapshot) -> DataFrame:
    """A table without transactions: ORC files in its directories."""
    columns = schema.table_columns(snapshot.columns, snapshot.table)
    partition_columns = schema.table_columns(snapshot.partition_columns, snapshot.table)
    partitions = PartitionValues(partition_columns, tuple(p.values for p in snapshot.partitions))
    fs = HadoopFilesystem(spark)
    found = [ScanFile(uri, ordinal) for uri, ordinal in plain_files(fs, snapshot)]
    if not found:
        return _no_rows(spark, (*columns, *partition_columns), identity=False)
    rows = scan(spark, schema.row_type(columns), found, partitions)
    data = [presented(F.col(f"`{c.name}`"), c).alias(c.name, **_char_metadata(c)) for c in columns]
    return rows.select(*data, *partitions.outputs())
