"""Writing files that are not in ACID format: for insert-only and plain tables, and for compactions of the former.

Spark's ``part-NNNNN…`` files become ``00000N_0`` below ``data/[<partition>/]<directory>/``, as Hive's tasks name them;
a plain table's get a number of their txn besides, so that no two statements ever choose the same name. What is
without a row is left behind. Nothing leaves staging here: publishing is the control plane's (R4, R5).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from airflow_hive_acid.errors import JobFailedError, UnsupportedStatementError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import WrittenDirectory, WrittenFile
from airflow_hive_acid.format.partitions import unescape_path_name
from airflow_hive_acid.spark.hadoop import in_threads
from airflow_hive_acid.spark.read.line_layouts import layout_of
from airflow_hive_acid.spark.read.scan import metadata_path, read_exactly
from airflow_hive_acid.spark.read.text_files import skipped_lines
from airflow_hive_acid.spark.write.output import Destination

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame, DataFrameWriter

    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.spark.hadoop import Entry
    from airflow_hive_acid.spark.schema import TableColumn
    from airflow_hive_acid.spark.write.output import Staging

_TASK = re.compile(r"part-([0-9]+)-.*")
_LARGEST_TASK = 999_999


class _PartFile(NamedTuple):
    """A file that a task wrote, and the values of its key columns."""

    entry: Entry
    keys: tuple[str, ...]

    @property
    def task(self) -> int:
        match = _TASK.fullmatch(self.entry.name)
        if match is None or int(match[1]) > _LARGEST_TASK:
            raise JobFailedError(f"{self.entry.uri}: expected a file part-NNNNN-… of at most {_LARGEST_TASK + 1} tasks")
        return int(match[1])


def write_rows(
    staging: Staging,
    rows: DataFrame,
    columns: Sequence[TableColumn],
    keys: Sequence[str],
    place: Callable[[tuple[str, ...]], Destination],
    table: TableSnapshot,
    name: Callable[[int], str],
) -> list[WrittenDirectory]:
    """Write rows and arrange them as finished directories.

    :param rows: columns of the table's types, then the key columns, sorted by these within a task.
    :param keys: columns that become directories in Spark's output.
    :param place: from the values of the keys (unescaped) to where their files belong.
    :param name: the final name of the file of a task.
    """
    scratch = staging.scratch("write_1")
    writer = _writer(rows, columns, keys, table)
    (writer.partitionBy(*keys) if keys else writer).save(scratch)
    try:
        files = _part_files(staging, staging.fs.qualify(scratch), len(keys))
        return _arranged(staging, files, _counts(rows, files, staging, table.format), place, name)
    finally:
        staging.fs.delete(scratch)


def empty_directory(staging: Staging, destination: Destination) -> WrittenDirectory:
    """A directory without a file: for an overwrite or a compaction, the empty table."""
    staging.fs.make_directories(staging.directory(destination))
    return WrittenDirectory(destination.partition, destination.values, destination.name, ())


def with_empty_files(staging: Staging, written: WrittenDirectory, names: Iterable[str]) -> WrittenDirectory:
    """A directory with an empty file under each of these names that it has not got."""
    directory = staging.directory(Destination(written.partition, written.values, written.name))
    missing = sorted(set(names) - {file.name for file in written.files})
    for name in missing:
        staging.fs.write_text(paths.join(directory, name), "")
    files = sorted([*written.files, *(WrittenFile(name, 0, 0) for name in missing)], key=lambda file: file.name)
    return replace(written, files=tuple(files))


def _writer(
    rows: DataFrame, columns: Sequence[TableColumn], keys: Sequence[str], table: TableSnapshot
) -> DataFrameWriter:
    properties = {key.lower(): value for key, value in table.properties.items()}
    if table.format == "avro":
        raise UnsupportedStatementError(
            f"{table.table} is stored as Avro, which is read here and not written; write it in Hive, or INSERT into a "
            "table STORED AS ORC or PARQUET"
        )
    if table.format in ("text", "csv", "json"):
        if skipped_lines(table.table, table.properties) != (0, 0):
            raise UnsupportedStatementError(
                f"{table.table} has skip.header.line.count or skip.footer.line.count: the first or last rows of what "
                "is written would be taken for no rows. Unset the property, or INSERT into a table without it"
            )
        line = layout_of(table.format, table.table, columns, table.serde, table.properties).line()
        writer = rows.selectExpr(line, *keys).write.format("text")
    elif table.format == "parquet":
        # What Hive's readers of all versions understand, days before 1582 included.
        for key, value in (
            ("writeLegacyFormat", "true"),
            ("outputTimestampType", "INT96"),
            ("int96RebaseModeInWrite", "LEGACY"),
            ("datetimeRebaseModeInWrite", "LEGACY"),
        ):
            rows.sparkSession.conf.set(f"spark.sql.parquet.{key}", value)
        codec = properties.get("parquet.compression", "snappy").lower()
        writer = rows.write.format("parquet").option("compression", codec)
    else:
        options = {key: value for key, value in properties.items() if key.startswith("orc.")}
        codec = options.pop("orc.compress", "zlib").lower()
        writer = rows.write.format("orc").options(**options).option("compression", codec)
    return writer.mode("error").option("maxRecordsPerFile", "0")


def _counts(rows: DataFrame, files: Sequence[_PartFile], staging: Staging, kind: str) -> list[int]:
    """Rows in each file: from the footers, of text by counting."""
    uris = [f.entry.uri for f in files]
    if kind == "orc":
        return in_threads(staging.fs.footers.orc_rows, uris)
    if kind == "parquet":
        return in_threads(staging.fs.footers.parquet_rows, uris)
    if not uris:
        return []
    lines = read_exactly(rows.sparkSession).text(uris).groupBy(F.col("_metadata.file_path").alias("path")).count()
    found = {str(row["path"]): int(row["count"]) for row in lines.collect()}
    return [found.get(metadata_path(uri), 0) for uri in uris]


def _arranged(
    staging: Staging,
    files: Sequence[_PartFile],
    counts: Sequence[int],
    place: Callable[[tuple[str, ...]], Destination],
    name: Callable[[int], str],
) -> list[WrittenDirectory]:
    written: dict[Destination, dict[str, tuple[Entry, int]]] = {}
    for file, rows in zip(files, counts, strict=True):
        if rows == 0:
            continue
        final = name(file.task)
        others = written.setdefault(place(file.keys), {})
        if final in others:
            raise JobFailedError(
                f"two files of one task for one directory: {others[final][0].name} and {file.entry.name}; "
                "spark.sql.files.maxRecordsPerFile must be 0. Nothing is published"
            )
        others[final] = (file.entry, rows)
    for destination in written:
        staging.fs.make_directories(staging.directory(destination))
    staging.fs.rename_all(
        (entry.uri, paths.join(staging.directory(destination), final))
        for destination, named in written.items()
        for final, (entry, _) in named.items()
    )
    return [
        WrittenDirectory(
            destination.partition,
            destination.values,
            destination.name,
            tuple(WrittenFile(final, rows, entry.size) for final, (entry, rows) in sorted(named.items())),
        )
        for destination, named in sorted(written.items())
    ]


def _part_files(staging: Staging, scratch: str, depth: int) -> list[_PartFile]:
    """Spark's output files below ``depth`` levels of ``key=value`` directories."""
    level: list[tuple[str, tuple[str, ...]]] = [(scratch, ())]
    for _ in range(depth):
        listed = staging.fs.list_many(directory for directory, _ in level)
        level = [
            (entry.uri, (*values, unescape_path_name(entry.name.partition("=")[2])))
            for directory, values in level
            for entry in listed[directory] or ()
            if entry.is_directory and "=" in entry.name
        ]
    listed = staging.fs.list_many(directory for directory, _ in level)
    return [
        _PartFile(entry, values)
        for directory, values in level
        for entry in listed[directory] or ()
        if not entry.is_directory and not entry.name.startswith(("_", "."))
    ]
