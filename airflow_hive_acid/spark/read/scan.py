"""Scans of a given list of ORC files, each row with the partition its file belongs to.

Partition columns must not come from Spark's own discovery: it appends them to the reader schema, and orc-core takes a
schema that is not exactly the six ACID columns for the row and wraps it once more. So values are literals, one branch
per partition, or looked up by file name when there are many. ``keep_header`` guards the six columns against pruning
for the same reason.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.errors import CorruptTableError, JobFailedError
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import Shown, fail
from airflow_hive_acid.spark.read.evolution import (
    by_names,
    is_nameless,
    plain_columns_of_table,
    plain_row_in_file,
    row_in_file,
    row_of_table,
    whole_row,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from airflow_hive_acid.spark.read.data_files import EventFile
    from airflow_hive_acid.spark.read.evolution import FileNames, StoredColumn

MAX_BRANCHES = 32
"""Up to so many partitions a scan is a union of branches with literals; beyond, planning would cost too much."""

PATH = f"{schema.INTERNAL_PREFIX}path"
"""The file of a row, as ``_metadata`` spells it."""
NOTHING_RENAMED: Mapping[str, FileNames] = MappingProxyType({})

_FILE_PATH = f"_metadata.file_path as {PATH}"
_KNOWN_PATH = f"{schema.INTERNAL_PREFIX}known_path"
_QUOTED = re.compile(r"[^A-Za-z0-9_\-!.~'()*:@&=+$,;/\u0080-\U0010ffff]")
_LOWEST_WRITE_ID = -(1 << 62)


@dataclass(frozen=True, slots=True)
class PartitionValues:
    """Partition columns and, per ordinal of the snapshot, their values as the catalog holds them."""

    columns: tuple[schema.TableColumn, ...]
    values: tuple[tuple[str, ...], ...]

    @property
    def internal_names(self) -> list[str]:
        """Names that cannot clash with columns of the file."""
        return [f"{schema.INTERNAL_PREFIX}p{i}" for i in range(len(self.columns))]

    def nullable(self, ordinal: int) -> list[str | None]:
        """The values of one partition as text, None for NULL."""
        return list(_nullable(self.values[ordinal]))

    def literals(self, ordinal: int) -> list[str]:
        """The values of one partition as typed constants."""
        texts = ["null" if v is None else schema.sql_text(v) for v in self.nullable(ordinal)]
        return [
            f"try_cast({text} as {schema.sql_type(column.type)}) as {name}"
            for text, column, name in zip(texts, self.columns, self.internal_names, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A file and the ordinal of its partition."""

    uri: str
    partition: int


class ReadFiles(Protocol):
    """Reads exactly these files with a given schema; ``_metadata`` can be asked for."""

    def __call__(self, spark: SparkSession, file_schema: T.StructType, uris: Sequence[str], /) -> DataFrame: ...


def scan(
    spark: SparkSession,
    file_schema: T.StructType,
    files: Sequence[ScanFile],
    partitions: PartitionValues,
    read: ReadFiles | None = None,
) -> DataFrame:
    """Read files with a given schema.

    Adds the file's path as ``_metadata`` spells it, the partition ordinal and the partition values, all under internal
    names; a path that is not used costs nothing.

    :param read: for files that are not ORC.
    """
    read = read or read_orc
    by_partition: dict[int, list[str]] = {}
    for file in files:
        by_partition.setdefault(file.partition, []).append(file.uri)
    if len(by_partition) > MAX_BRANCHES:
        return _looked_up(spark, file_schema, files, partitions, read)
    names = [schema.quoted(name) for name in file_schema.names]
    branches = [
        read(spark, file_schema, uris).selectExpr(
            *names, _FILE_PATH, f"{ordinal} as {schema.PARTITION}", *partitions.literals(ordinal)
        )
        for ordinal, uris in by_partition.items()
    ]
    return union(branches)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns."""
    return reduce(lambda one, other: one.union(other), frames)


def read_orc(spark: SparkSession, file_schema: T.StructType, uris: Sequence[str]) -> DataFrame:
    """Read exactly these files: names are no patterns, nothing is inferred, nothing missing is forgiven."""
    return read_exactly(spark).schema(file_schema).orc(list(uris))


def read_exactly(spark: SparkSession) -> DataFrameReader:
    """A reader of whatever format for which names are no patterns and nothing missing is forgiven."""
    return (
        spark.read.option("__globPaths__", "false")
        .option("recursiveFileLookup", "true")
        .option("ignoreMissingFiles", "false")
        .option("ignoreCorruptFiles", "false")
        .option("mergeSchema", "false")
    )


def read_files_whole(spark: SparkSession, largest: int) -> None:
    """From now on one task per file, no file split: for rows that are counted or whose order matters.

    Spark has no such setting per scan; every step has a session of its own.

    :param largest: size of the largest file.
    """
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(largest + 1))
    spark.conf.set("spark.sql.files.openCostInBytes", str(largest + 1))


def scan_events(
    spark: SparkSession,
    row: T.StructType,
    files: Sequence[EventFile],
    partitions: PartitionValues,
    operations: tuple[int, ...] = (schema.INSERTED,),
    renamed: Mapping[str, FileNames] = NOTHING_RENAMED,
) -> DataFrame:
    """Read ACID files: the six columns, the partition ordinal and the partition values.

    :param operations: the kinds of events that the files may hold.
    :param renamed: names of the columns in files that have others than the table.
    """
    parts = []
    for names, group in by_names(files, renamed).items():
        found = row if names is None else row_in_file(row, names)
        wanted = [ScanFile(file.uri, file.partition) for file in group]
        events = keep_header(scan(spark, schema.event_schema(found), wanted, partitions), found, operations)
        if names is not None:
            others = [PATH, schema.PARTITION, *partitions.internal_names]
            if is_nameless(names):
                events = events.selectExpr(*schema.HEADER, whole_row(), *others)
            events = events.selectExpr(*schema.HEADER, row_of_table(row, names), *others)
        parts.append(events)
    return union(parts)


def scan_plain(
    spark: SparkSession,
    row: T.StructType,
    files: Sequence[ScanFile],
    partitions: PartitionValues,
    stored: Mapping[str, tuple[StoredColumn, ...]],
) -> DataFrame:
    """Read ORC files without ACID columns, as :func:`scan` does.

    :param row: the columns of the table.
    :param stored: what they are in the files where Spark does not find them by itself.
    """
    groups: dict[tuple[StoredColumn, ...], list[ScanFile]] = {}
    for file in files:
        groups.setdefault(stored.get(file.uri, ()), []).append(file)
    parts = []
    for columns, group in groups.items():
        if not columns:
            parts.append(scan(spark, row, group, partitions))
            continue
        found = scan(spark, plain_row_in_file(row, columns), group, partitions)
        others = [PATH, schema.PARTITION, *partitions.internal_names]
        parts.append(found.selectExpr(*plain_columns_of_table(row, columns), *others))
    return union(parts)


def keep_header(events: DataFrame, row: T.StructType, operations: tuple[int, ...]) -> DataFrame:
    """Refer to all six columns in a predicate that holds for every row and that the optimizer cannot remove.

    ``coalesce`` keeps it from being pushed down: orc-core looks names up inside ``row``, so a pushed
    ``operation = 0`` would be tested against a column of the user's. ``row`` is referred to through its cheapest
    column, so that its other columns can still be pruned.
    """
    cheapest = schema.cheapest_column(row)
    witness = schema.ROW if cheapest is None or operations == (schema.DELETED,) else f"row.{schema.quoted(cheapest)}"
    kinds = ", ".join(map(str, operations))
    # Updates in place (1) occur only where no _orc_acid_version says that a later Hive wrote the directory.
    unreadable = fail(
        CorruptTableError,
        "a data file holds events of kind ",
        Shown(schema.OPERATION),
        f" instead of {kinds}: it has no ACID columns, or is of another directory, and does not belong here; move it "
        "away",
    )
    return events.where(
        f"if(coalesce(operation, -1) in ({kinds}), true, {unreadable})"
        f" and coalesce(originalTransaction, 0L) >= {_LOWEST_WRITE_ID}L"
        " and coalesce(bucket, 0) >= 0"
        " and coalesce(currentTransaction, 0L) >= -1L"
        f" and coalesce(rowId, 0L) >= if({witness} is null, -1L, 0L)"
    )


def bucket_number(bucket: str) -> str:
    """Spark SQL for the bucket number in a ``bucket`` value, of version 1 or 0."""
    return f"if(shiftrightunsigned({bucket}, 29) = 1, shiftright({bucket}, 16) & 4095, {bucket})"


def lookup_table(spark: SparkSession, rows: Sequence[dict[str, object]], columns: T.StructType) -> DataFrame:
    """A small table made of a constant: no file, no Python worker, known to be small enough to broadcast."""
    text = json.dumps(rows, ensure_ascii=False)
    return spark.range(1).select(F.inline(F.from_json(F.lit(text), T.ArrayType(columns))))


def metadata_path(uri: str) -> str:
    """A qualified URI the way ``_metadata.file_path`` spells it: quoted by java.net.URI."""
    scheme, colon, path = uri.partition(":")
    return scheme + colon + _QUOTED.sub(lambda m: f"%{ord(m[0]):02X}", path)


def _looked_up(
    spark: SparkSession,
    file_schema: T.StructType,
    files: Sequence[ScanFile],
    partitions: PartitionValues,
    read: ReadFiles,
) -> DataFrame:
    """One scan of all files, joined with what is known about each of them."""
    texts = [f"v{i}" for i in range(len(partitions.columns))]
    rows: list[dict[str, object]] = [
        {
            _KNOWN_PATH: metadata_path(file.uri),
            schema.PARTITION: file.partition,
            **dict(zip(texts, _nullable(partitions.values[file.partition]), strict=True)),
        }
        for file in files
    ]
    columns = T.StructType(
        [
            T.StructField(_KNOWN_PATH, T.StringType()),
            T.StructField(schema.PARTITION, T.IntegerType()),
            *[T.StructField(text, T.StringType()) for text in texts],
        ]
    )
    known = lookup_table(spark, rows, columns).selectExpr(
        _KNOWN_PATH,
        schema.PARTITION,
        *[
            f"try_cast({text} as {schema.sql_type(column.type)}) as {name}"
            for text, column, name in zip(texts, partitions.columns, partitions.internal_names, strict=True)
        ],
    )
    data = [schema.quoted(name) for name in file_schema.names]
    found = read(spark, file_schema, [f.uri for f in files]).selectExpr(*data, _FILE_PATH)
    joined = found.join(F.broadcast(known), F.expr(f"{PATH} = {_KNOWN_PATH}"), "left")
    names = [schema.quoted(name) for name in (*file_schema.names, PATH)]
    ordinal = found_or_fail(schema.PARTITION, "no partition is known for file")
    return joined.selectExpr(*names, f"{ordinal} as {schema.PARTITION}", *partitions.internal_names)


def found_or_fail(name: str, complaint: str) -> str:
    """A column of a looked-up row; a file that the lookup does not know must not vanish silently.

    :param complaint: what is said of the file, whose path follows.
    """
    return f"coalesce({name}, {fail(JobFailedError, f'{complaint} ', Shown(PATH))})"


def _nullable(values: Sequence[str]) -> list[str | None]:
    """Catalog values; what does not fit the column's type reads as NULL, as in Hive, and so does the default."""
    return [None if value == DEFAULT_PARTITION else value for value in values]
