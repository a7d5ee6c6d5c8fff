"""Tables whose files are not in ACID format: insert-only ones and those without transactions.

Rows have no ids, so a snapshot is a list of files and nothing is filtered. Of an insert-only table every file of the
directories that ``format.acid_state`` chooses counts, whatever its name is; of a plain table every visible file does.
Files are ORC, Parquet, Avro or lines of text. Columns of ORC, text and CSV are found by position, the others by name,
as Hive does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import types as T

from airflow_hive_acid.errors import CorruptTableError, UnsupportedStatementError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.names import parse_original_file
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.read.evolution import retyped_columns, stored_columns
from airflow_hive_acid.spark.read.files import list_partitions, partition_roots, plain_files, require_history
from airflow_hive_acid.spark.read.line_layouts import layout_of
from airflow_hive_acid.spark.read.scan import PATH, ScanFile, read_exactly, scan, scan_plain, union
from airflow_hive_acid.spark.read.text_files import lines_of_file, skipped_lines
from airflow_hive_acid.spark.read.verification import verify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.acid_state import AcidState, StateDirectory
    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.spark.read.line_layouts import CsvLayout, JsonLayout
    from airflow_hive_acid.spark.read.scan import PartitionValues, ReadFiles
    from airflow_hive_acid.spark.read.text_files import TextLayout

_HYBRID_CALENDAR = {"datetimeRebaseMode": "LEGACY", "int96RebaseMode": "LEGACY"}
"""How Hive writes days before 1582-10-15 into Parquet; files of Spark say themselves if it is otherwise."""


def rows(
    spark: SparkSession,
    snapshot: TableSnapshot,
    columns: Sequence[schema.TableColumn],
    partitions: PartitionValues,
    files: Sequence[ScanFile] | None = None,
) -> DataFrame | None:
    """The rows under their column names, with the partition columns under internal ones; None without a file.

    :param files: the files to read, by default those of the snapshot.
    """
    fs = HadoopFilesystem.of(spark)
    wanted = data_files(fs, snapshot) if files is None else files
    if not wanted:
        return None
    row = schema.row_type(columns)
    if snapshot.format == "orc":
        own = snapshot.transactional
        # Into a plain table anybody may have put a file, under whatever name.
        origins = [_origin(file) if own else file.uri for file in wanted]
        stored = stored_columns(fs, wanted, columns, altered=snapshot.altered, own=own, origins=origins)
        return scan_plain(spark, row, wanted, partitions, stored)
    if snapshot.format == "parquet" and snapshot.altered:
        return _scan_retyped(spark, row, wanted, partitions, retyped_columns(spark, fs, wanted, row))
    return scan(spark, row, wanted, partitions, reader_of(snapshot, columns))


def _origin(file: ScanFile) -> str:
    """Who may have written a file of an insert-only table: the statement of its directory, or LOAD DATA has brought it.

    That keeps the names of files, and has a directory of its own.
    """
    directory, _, name = file.uri.rpartition("/")
    return directory if parse_original_file(name) is not None else file.uri


def _scan_retyped(
    spark: SparkSession,
    row: T.StructType,
    files: Sequence[ScanFile],
    partitions: PartitionValues,
    stored: Mapping[str, T.StructType],
) -> DataFrame:
    """Read Parquet files, those with columns of other types than the table under their own."""
    groups: dict[str, list[ScanFile]] = {}
    for file in files:
        groups.setdefault(stored[file.uri].json() if file.uri in stored else "", []).append(file)
    parts = []
    for group in groups.values():
        found = scan(spark, stored.get(group[0].uri, row), group, partitions, _read_parquet)
        if group[0].uri in stored:
            columns = [
                f"{_as_type(schema.quoted(f.name), has.dataType, f.dataType)} as {schema.quoted(f.name)}"
                for f, has in zip(row.fields, stored[group[0].uri].fields, strict=True)
            ]
            found = found.selectExpr(*columns, PATH, schema.PARTITION, *partitions.internal_names)
        parts.append(found)
    return union(parts)


def _as_type(value: str, stored: T.DataType, wanted: T.DataType) -> str:
    text = f"cast({value} as {schema.sql_type(wanted)})"
    if isinstance(stored, T.DecimalType) and isinstance(wanted, T.StringType):
        # Hive's decimals have no trailing zeros.
        return f"if(contains({text}, '.'), rtrim('.', rtrim('0', {text})), {text})"
    return text


def data_files(fs: HadoopFilesystem, snapshot: TableSnapshot) -> list[ScanFile]:
    """The files of a snapshot, with the ordinals of their partitions."""
    if not snapshot.transactional:
        return [ScanFile(uri, ordinal) for uri, ordinal in plain_files(fs, snapshot)]
    roots = partition_roots(fs, snapshot)
    return [
        ScanFile(paths.join(root, entry.path), ordinal)
        for ordinal, (root, state) in enumerate(zip(roots, insert_only_states(fs, snapshot), strict=True))
        for directory in state.inserts
        for entry in directory.plain_files()
    ]


def insert_only_states(fs: HadoopFilesystem, snapshot: TableSnapshot, compactor: bool = False) -> list[AcidState]:
    """What the snapshot sees of each partition of an insert-only table.

    :raises CorruptTableError: for delete deltas, and for files outside of bases and deltas: Hive skips them unless
        ``hive.mm.allow.originals`` is on, so nobody can know whether they are rows of the table.
    """
    write_ids = compactor_write_ids(snapshot) if compactor else ValidWriteIdList.parse(snapshot.write_ids)
    txns = ValidTxnList.parse(snapshot.txns)
    states = []
    roots, listings = partition_roots(fs, snapshot), list_partitions(fs, snapshot)
    for ordinal, (partition, root, listing) in enumerate(zip(snapshot.partitions, roots, listings, strict=True)):
        require_history(snapshot, ordinal, listing)
        state = acid_state(listing, write_ids, txns)
        if state.deletes:
            raise CorruptTableError(
                f"{paths.join(root, state.deletes[0].name)}: {snapshot.table} is insert-only, and such a table has no "
                "delete deltas; was it a full ACID table once? Its deleted rows would come back"
            )
        if state.originals:
            raise CorruptTableError(
                f"{paths.join(root, state.originals[0].path)} lies outside of the bases and deltas of the insert-only "
                f"table {snapshot.table}; Hive skips such files. Move it away, or LOAD DATA it into the table"
            )
        for directory in state.inserts:
            _require_whole(directory, root, write_ids)
        verify(fs, snapshot, partition, root, state)
        states.append(state)
    return states


def compactor_write_ids(snapshot: TableSnapshot) -> ValidWriteIdList:
    """What a compaction of the snapshot may look at."""
    return ValidWriteIdList.parse(snapshot.write_ids).for_compactor()


def root_of(fs: HadoopFilesystem, snapshot: TableSnapshot) -> str:
    """The directory of a snapshot's only partition, as listings spell it."""
    return partition_roots(fs, snapshot)[0]


def reader_of(snapshot: TableSnapshot, columns: Sequence[schema.TableColumn]) -> ReadFiles:
    """What reads a list of files of this table, which are not ORC, with a given schema."""
    match snapshot.format:
        case "parquet":
            return _read_parquet
        case "avro":
            return _read_avro
        case _:
            layout = layout_of(snapshot.format, snapshot.table, columns, snapshot.serde, snapshot.properties)
            skipped = skipped_lines(snapshot.table, snapshot.properties)
            return lambda spark, _schema, uris: _read_lines(spark, layout, uris, skipped)


def _read_parquet(spark: SparkSession, file_schema: T.StructType, uris: Sequence[str]) -> DataFrame:
    return read_exactly(spark).schema(file_schema).options(**_HYBRID_CALENDAR).parquet(*uris)


def _read_avro(spark: SparkSession, file_schema: T.StructType, uris: Sequence[str]) -> DataFrame:
    try:
        return read_exactly(spark).schema(file_schema).format("avro").load(list(uris))
    except AnalysisException as failure:
        if "avro" not in str(failure).lower() or "find" not in str(failure).lower():
            raise
        jvm = java_names(spark)
        scala = ".".join(str(jvm.scala.util.Properties.versionNumberString()).split(".")[:2])
        raise UnsupportedStatementError(
            "files of Avro are read by a package that this Spark does not have: add "
            f"org.apache.spark:spark-avro_{scala}:{spark.version} to spark.jars.packages, or its jar to spark.jars"
        ) from None


def _read_lines(
    spark: SparkSession, layout: TextLayout | CsvLayout | JsonLayout, uris: Sequence[str], skipped: tuple[int, int]
) -> DataFrame:
    divided, values = layout.parsed()
    read = read_exactly(spark)
    # _metadata is resolved below the projection, so it must be carried through.
    if skipped == (0, 0):
        lines = read.text(list(uris))
    else:
        # Which lines are the first of a file shows where the file is one piece.
        lines = read.text(list(uris), wholetext=True).selectExpr("_metadata", lines_of_file(*skipped))
    return lines.selectExpr("_metadata", divided).selectExpr("_metadata", *values)


def _require_whole(directory: StateDirectory, root: str, write_ids: ValidWriteIdList) -> None:
    """Rows do not say by whom they were written, so a directory is read as a whole or not at all."""
    named = directory.directory
    if (
        not directory.needs_row_check
        or directory.compacted
        or not write_ids.may_come(named.min_write_id, named.max_write_id)
    ):
        # A compaction leaves aborted rows out, and whoever sees it sees all others. That of a Hive before version 4,
        # and one that has come by IMPORT, has no txn in its name; nobody else merges rows of several txns.
        return
    raise UnsupportedStatementError(
        f"{paths.join(root, directory.name)} holds rows of several transactions, of which the snapshot "
        f"{write_ids.short_text()} does not see all; read the table again when they have ended"
    )
