"""Table snapshots as DataFrames.

The data files are read as they are; only those that a delete event may hit, or that hold write ids the snapshot does
not see, pass through a filter. With the optional jar that happens inside its reader (``fast_reader``); without it
deletes are applied with a broadcast anti-join. The base is never shuffled.
A snapshot belongs to an open, registered txn (R16): this module does not check that, it is given the lists.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.accelerator import accelerator
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.read import fast_reader, in_place, originals, plain
from airflow_hive_acid.spark.read.evolution import renamed_columns, stored_columns
from airflow_hive_acid.spark.read.files import snapshot_files
from airflow_hive_acid.spark.read.open_tables import OpenTable, only_seen
from airflow_hive_acid.spark.read.scan import PartitionValues, scan_events, union
from airflow_hive_acid.spark.versions import READS_INSTANTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.spark.read.data_files import EventFile, OriginalDataFile

BROADCAST_DELETES_BYTES = 64 << 20
"""Compressed size of delete files up to which their events are broadcast; a delete event takes 1 to 4 bytes there."""
IDENTITY = tuple(schema.internal(name) for name in schema.IDENTITY)
"""The columns that ``table_rows`` adds: write id, bucket value and row number."""
ROW_ID = (
    f"named_struct('writeid', {IDENTITY[0]}, 'bucketid', {IDENTITY[1]}, 'rowid', {IDENTITY[2]})"
    f" as {schema.PSEUDO_COLUMN}"
)
"""The pseudo column ``row__id``, from the identity columns."""
_DELETED = f"{schema.INTERNAL_PREFIX}deleted_"
_DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
_NO_COLUMN = T.StructType([T.StructField(f"{schema.INTERNAL_PREFIX}nothing", T.BooleanType())])


def open_table(
    spark: SparkSession,
    snapshot: TableSnapshot,
    compactor: bool = False,
    *,
    seen: ValidWriteIdList | None = None,
    only: Collection[int] | None = None,
    staging: str | None = None,
) -> OpenTable:
    """List a transactional table.

    :param compactor: look at it as a compactor does: no further than the first open write id.
    :param seen: what of the snapshot's write ids is looked at; by default all.
    :param only: ordinals of the partitions that are looked at; by default all.
    :param staging: of the job, where copies of files that are open go: it may not be allowed to write elsewhere.
    :raises CorruptTableError: when its layout contradicts itself.
    :raises UnsupportedStatementError: for tables and types this version does not read.
    """
    columns = schema.table_columns(snapshot.columns, snapshot.table)
    partition_columns = schema.table_columns(snapshot.partition_columns, snapshot.table)
    if not snapshot.has_row_ids or snapshot.format != "orc":
        raise UnsupportedStatementError(
            f"{snapshot.table} has no row ids; only rows of full ACID tables (stored as ORC, without "
            "transactional_properties=insert_only) can be changed"
        )
    write_ids = seen or ValidWriteIdList.parse(snapshot.write_ids)
    if compactor:
        write_ids = write_ids.for_compactor()
    fs = HadoopFilesystem.of(spark)
    files = snapshot_files(fs, snapshot, write_ids, only, staging, whole=seen is None)
    partitions = PartitionValues(partition_columns, tuple(p.values for p in snapshot.partitions))
    renamed = renamed_columns(fs, files.inserts, columns, altered=snapshot.altered)
    # Whoever has made the files that LOAD DATA brings may have called their columns otherwise.
    origins = [f.uri if f.write_id else None for f in files.originals]
    stored = stored_columns(fs, files.originals, columns, altered=snapshot.altered, origins=origins)
    changing = in_place.changing_files(fs, files.inserts)
    mixed = in_place.groups(files.inserts, changing)
    if mixed:
        hit = [f for f in files.clean if (f.partition, f.bucket) in mixed]
        clean = tuple(f for f in files.clean if (f.partition, f.bucket) not in mixed)
        files = replace(files, clean=clean, filtered=(*files.filtered, *hit))
    return OpenTable(
        snapshot, write_ids, columns, partition_columns, partitions, files, renamed, stored, changing, mixed
    )


def read_snapshot(spark: SparkSession, snapshot: TableSnapshot, row_ids: bool = False) -> DataFrame:
    """The rows of a table as a snapshot sees them: data columns, then partition columns.

    :param snapshot: of an open txn that is registered and heart-beaten for as long as the DataFrame is used (R16).
    :param row_ids: add ``row__id``, a struct of writeid, bucketid and rowid.
    :raises CorruptTableError: when files are missing or contradict their names.
    """
    if not snapshot.has_row_ids:
        return _read_plain(spark, snapshot)
    table = open_table(spark, snapshot)
    rows = table_rows(spark, table, identity=row_ids)
    if not row_ids:
        return rows
    names = [schema.quoted(c.name) for c in (*table.columns, *table.partition_columns)]
    return rows.selectExpr(*names, ROW_ID)


def table_rows(
    spark: SparkSession,
    table: OpenTable,
    identity: bool = False,
    *,
    inserts: Sequence[EventFile] | None = None,
    loaded: Sequence[OriginalDataFile] | None = None,
) -> DataFrame:
    """The live rows under their column names.

    :param identity: add the internal identity columns and the partition ordinal.
    :param inserts: of these files, and ``loaded``, all files of their buckets, without ACID columns; by default of all.
    """
    files = table.files
    loaded = files.originals if loaded is None else loaded
    ids = [f"{name} as {schema.internal(name)}" for name in schema.IDENTITY] + [schema.PARTITION]
    columns = [*data_columns(table), *partition_values(table.partitions), *(ids if identity else [])]
    fast, slow = _divided(spark, table, files.inserts if inserts is None else inserts)
    parts = []
    if fast:
        found = fast_reader.rows(spark, accelerator(spark), table, fast)
        data = [presented(schema.quoted(c.name), c) for c in table.columns]
        values = [_partition_value(schema.quoted(c.name), c) for c in table.partition_columns]
        internal = [*IDENTITY, schema.PARTITION] if identity else []
        parts.append(project(found, [*data, *values, *internal]))
    hit = set(files.filtered)
    if clean := [f for f in slow if f not in hit]:
        parts.append(project(insert_events(spark, table, clean), columns))
    if filtered := [f for f in slow if f in hit]:
        parts.append(project(live_events(spark, table, filtered), columns))
    if loaded:
        parts.append(project(live_originals(spark, table, loaded, identity), columns))
    if not parts:
        return _no_rows(spark, (*table.columns, *table.partition_columns), identity)
    return union(parts)


def insert_events(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """All insert events in these files."""
    fast, slow = _divided(spark, table, files)
    parts = [fast_reader.events(spark, accelerator(spark), table, fast)] if fast else []
    if slow:
        parts.append(_scanned(spark, table, slow))
    return union(parts)


def live_events(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """Insert events that the snapshot sees and that no delete event hits, header included."""
    fast, slow = _divided(spark, table, files)
    parts = [fast_reader.events(spark, accelerator(spark), table, fast, live=True)] if fast else []
    if mixed := [f for f in slow if table.is_mixed(f)]:
        events = in_place.newest(spark, table, mixed)
        parts.append(without_deleted(spark, table, events, {f.partition for f in mixed}, packed=True))
    if split := [f for f in slow if not table.is_mixed(f)]:
        events = only_seen(_scanned(spark, table, split), table, split)
        parts.append(without_deleted(spark, table, events, {f.partition for f in split}))
    return union(parts)


def live_originals(
    spark: SparkSession, table: OpenTable, files: Sequence[OriginalDataFile], identity: bool
) -> DataFrame:
    """Rows of files without ACID columns that no event deletes or changes, as insert events.

    :param files: all files of their buckets.
    """
    needed = identity or bool(table.files.deletes) or any(map(table.is_mixed, files))
    found = originals.rows(spark, table, files, identity=needed)
    if table.files.deletes:
        found = without_deleted(spark, table, found, {f.partition for f in files}, packed=True)
    changing = [f for f in table.files.inserts if f.uri in table.changing]
    return in_place.unchanged(spark, table, found, changing)


def _divided(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> fast_reader.Divided:
    """Files for the optional jar, and files for Spark's own source: all, when the jar is not there."""
    if accelerator(spark) is None:
        return fast_reader.Divided((), tuple(files))
    return fast_reader.divide(table, files)


def _scanned(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """Insert events by Spark's own source."""
    instants = [c.name for c in table.columns if c.has_instants]
    if instants and not READS_INSTANTS:
        raise UnsupportedStatementError(
            f"column {instants[0]} of {table.name} is a timestamp with local time zone, which Spark {spark.version} "
            "reads only with the optional jar (hive.acid.spark.accelerator); use the jar, or a newer Spark"
        )
    row = schema.row_type(table.columns)
    found = scan_events(spark, row, files, table.partitions, renamed=table.renamed)
    return found.select(*schema.HEADER, schema.ROW, schema.PARTITION, *table.partitions.internal_names)


def without_deleted(
    spark: SparkSession, table: OpenTable, events: DataFrame, ordinals: set[int], packed: bool = False
) -> DataFrame:
    """Drop the events whose row a delete event names, in these partitions.

    :param packed: bucket values of files without ACID columns are those of Hive 3, whatever Hive wrote the delete.
    """
    deletes = [f for f in table.files.deletes if f.partition in ordinals]
    if not deletes:
        return events
    keys = [*schema.IDENTITY, *([schema.PARTITION] if len(ordinals) > 1 else [])]
    values = {schema.BUCKET: in_place.packed_bucket(table)} if packed else {}
    named = [f"{values.get(k, k)} as {_DELETED}{k}" for k in keys]
    found = delete_events(spark, table, deletes).selectExpr(*named)
    if are_sent_to_all_tasks(deletes):
        found = F.broadcast(found)
    return events.join(found, F.expr(" and ".join(f"{k} = {_DELETED}{k}" for k in keys)), "left_anti")


def are_sent_to_all_tasks(deletes: Iterable[EventFile]) -> bool:
    """Whether the deletes go to where the rows are; else both are exchanged, and rows change their tasks and order."""
    return sum(f.size for f in deletes) <= BROADCAST_DELETES_BYTES


def delete_events(spark: SparkSession, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """Delete events that the snapshot sees; their ``row`` is reduced to one column, all NULL.

    The column is one that no file has: one of the table may have another type in a file that was written before
    columns were renamed, and orc-core does not read the one as the other, NULL or not.
    """
    found = scan_events(spark, _NO_COLUMN, files, table.partitions, (schema.DELETED,))
    return only_seen(found, table, files)


def data_columns(table: OpenTable) -> list[str | Column]:
    """The data columns of events, under their own names."""
    return [presented(schema.quoted(schema.ROW, c.name), c) for c in table.columns]


def partition_values(partitions: PartitionValues) -> list[str | Column]:
    """The partition columns under their own names."""
    named = zip(partitions.internal_names, partitions.columns, strict=True)
    return [_partition_value(name, column) for name, column in named]


def _partition_value(value: str, column: schema.TableColumn) -> str | Column:
    # Only what has to be is around a value, for Spark to see through: a Hive has cut a varchar when it stored it.
    return presented(value, column) if column.is_char else f"{value} as {schema.quoted(column.name)}"


def presented(value: str, column: schema.TableColumn) -> str | Column:
    """A stored value as readers see it: char is padded, varchar cut, to the declared length (Hive does both).

    Spark compares a char column with texts of any padding if it knows the declared type.
    """
    name = schema.quoted(column.name)
    if column.length is None:
        return f"{value} as {name}"
    cut = f"substring({value}, 1, {column.length})"
    if not column.is_char:
        return f"{cut} as {name}"
    padded = F.expr(f"rpad({cut}, {column.length}, ' ')")
    return padded.alias(column.name, metadata={_DECLARED_TYPE: column.hive_type})


def without_blanks(rows: DataFrame) -> DataFrame:
    """Rows as statements compute with them: a CHAR has no blanks at its end, as in Hive, whatever is made of it."""
    chars = {field.name for field in rows.schema.fields if field.metadata.get(_DECLARED_TYPE, "").startswith("char")}
    if not chars:
        return rows
    names = [(name, schema.quoted(name)) for name in rows.columns]
    return rows.selectExpr(*[f"rtrim({text}) as {text}" if name in chars else text for name, text in names])


def project(frame: DataFrame, columns: Sequence[str | Column]) -> DataFrame:
    """Like ``selectExpr``, for texts and columns."""
    texts = [c for c in columns if isinstance(c, str)]
    if len(texts) == len(columns):
        return frame.selectExpr(*texts)
    return frame.select(*[F.expr(c) if isinstance(c, str) else c for c in columns])


def _no_rows(spark: SparkSession, columns: Sequence[schema.TableColumn], identity: bool) -> DataFrame:
    values = [presented(f"cast(null as {schema.sql_type(c.type)})", c) for c in columns]
    if identity:
        values += [
            f"cast(null as {schema.header_type(n).simpleString()}) as {schema.internal(n)}" for n in schema.IDENTITY
        ]
        values.append(f"cast(null as int) as {schema.PARTITION}")
    return project(spark.range(0), values)


def _read_plain(spark: SparkSession, snapshot: TableSnapshot) -> DataFrame:
    """A table without row ids: files of any format, in its directories or in bases and deltas."""
    columns = schema.table_columns(snapshot.columns, snapshot.table)
    partition_columns = schema.table_columns(snapshot.partition_columns, snapshot.table)
    partitions = PartitionValues(partition_columns, tuple(p.values for p in snapshot.partitions))
    rows = plain.rows(spark, snapshot, columns, partitions)
    if rows is None:
        return _no_rows(spark, (*columns, *partition_columns), identity=False)
    data = [presented(schema.quoted(c.name), c) for c in columns]
    return project(rows, [*data, *partition_values(partitions)])
