"""Reading through the optional jar (``accelerator/src/hiveacid/read``): the same rows for less.

Spark's own ORC source must read all six columns of an ACID file and cannot skip row groups, and deletes are a join. The
jar opens the files with orc-core itself: only the columns that are asked for, predicates down to the row groups,
count(*) from footers, deleted rows passed over by bitmaps. Which files a snapshot consists of is decided before, here
as there, so both ways see the same snapshot. Files that the jar is not for are left to Spark's source.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame

from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.spark import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import SparkSession

    from airflow_hive_acid.spark.read.data_files import EventFile
    from airflow_hive_acid.spark.read.open_tables import OpenTable

MAX_DELETES_BYTES = 64 << 20
"""Compressed size of the delete files of one bucket up to which their events are kept as bitmaps by a task.

An event takes 1 to 4 bytes in the file and about 2 in the bitmap, so this is at most some 130 MB; beyond it the bucket
is joined with its deletes by Spark, which can spill.
"""


class Divided(NamedTuple):
    """Files for the jar, and those that only Spark's own source reads."""

    fast: tuple[EventFile, ...]
    slow: tuple[EventFile, ...]


def divide(table: OpenTable, files: Iterable[EventFile]) -> Divided:
    """Which files the jar can read."""
    deletes: dict[tuple[int, int], int] = {}
    for file in table.files.deletes:
        deletes[file.partition, file.bucket] = deletes.get((file.partition, file.bucket), 0) + file.size
    heavy = {group for group, size in deletes.items() if size > MAX_DELETES_BYTES}
    fast: list[EventFile] = []
    slow: list[EventFile] = []
    for file in files:
        # Files whose columns have no names (_col0, …) are resolved by position, which does not bear leaving some out.
        nameless = any(name.startswith("_col") for name in table.renamed.get(file.uri, ()))
        others = nameless or table.is_mixed(file) or (file.partition, file.bucket) in heavy
        (slow if others else fast).append(file)
    return Divided(tuple(fast), tuple(slow))


def rows(spark: SparkSession, package: Any, table: OpenTable, files: Sequence[EventFile]) -> DataFrame:
    """Live rows: data columns, partition columns, the identity columns and the partition ordinal."""
    outputs = [_output(c.name, c.type, "COLUMN", i) for i, c in enumerate(table.columns)]
    outputs += [_output(c.name, c.type, "VALUE", i) for i, c in enumerate(table.partition_columns)]
    outputs += [
        _output(schema.internal(name), schema.header_type(name), "HEADER", schema.HEADER.index(name))
        for name in schema.IDENTITY
    ]
    outputs.append(_output(schema.PARTITION, schema.header_type(schema.OPERATION), "ORDINAL", 0))
    return _frame(spark, package, table, files, outputs, schema.INSERTED, live=True)


def events(
    spark: SparkSession,
    package: Any,
    table: OpenTable,
    files: Sequence[EventFile],
    operation: int = schema.INSERTED,
    live: bool = False,
) -> DataFrame:
    """Events as they are stored: the six columns, the partition ordinal and the partition values.

    :param live: only what the snapshot sees and no delete event hits.
    """
    outputs = [_output(name, schema.header_type(name), "HEADER", i) for i, name in enumerate(schema.HEADER)]
    outputs.append(_output(schema.ROW, schema.row_type(table.columns), "ROW", 0))
    outputs.append(_output(schema.PARTITION, schema.header_type(schema.OPERATION), "ORDINAL", 0))
    names = table.partitions.internal_names
    outputs += [
        _output(name, column.type, "VALUE", i)
        for i, (name, column) in enumerate(zip(names, table.partition_columns, strict=True))
    ]
    return _frame(spark, package, table, files, outputs, operation, live)


def _output(name: str, kind: Any, source: str, index: int) -> dict[str, Any]:
    return {"name": name, "type": kind.jsonValue(), "source": source, "index": index}


def _frame(
    spark: SparkSession,
    package: Any,
    table: OpenTable,
    files: Sequence[EventFile],
    outputs: Sequence[dict[str, Any]],
    operation: int,
    live: bool,
) -> DataFrame:
    names: dict[tuple[str, ...], int] = {}
    hit = {(f.partition, f.bucket) for f in table.files.filtered} if live else set()
    filtered = {f.uri for f in table.files.filtered}
    entries = []
    for file in files:
        renamed = table.renamed.get(file.uri)
        index = -1 if renamed is None else names.setdefault(renamed, len(names))
        entries.append(_entry(file, check=live and file.check_rows, deletes=live and file.uri in filtered, names=index))
    deletes = [f for f in table.files.deletes if (f.partition, f.bucket) in hit]
    document = {
        "table": table.name,
        "row": schema.row_type(table.columns).jsonValue(),
        "outputs": list(outputs),
        "operation": operation,
        "high_watermark": table.write_ids.high_watermark,
        "exceptions": _hidden(table, [*files, *deletes]),
        "partition_types": [c.type.jsonValue() for c in table.partition_columns],
        "partitions": [[None if v == DEFAULT_PARTITION else v for v in row] for row in table.partitions.values],
        "names": [list(found) for found in names],
        "files": entries,
        "deletes": [_entry(f, check=f.check_rows, deletes=False, names=-1) for f in deletes],
    }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    found = package.read.SnapshotTable.frame(spark._jsparkSession, text)
    return DataFrame(found, spark)


def _hidden(table: OpenTable, files: Sequence[EventFile]) -> list[int]:
    """Ids that are not seen and that the files can hold: a wide gap of ids holds no files."""
    if not files:
        return []
    low, high = min(f.min_write_id for f in files), max(f.max_write_id for f in files)
    return list(table.write_ids.exceptions.between(low, high))


def _entry(file: EventFile, check: bool, deletes: bool, names: int) -> list[Any]:
    return [file.uri, file.size, file.partition, file.bucket, check, deletes, names]
