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
from airflow_hive_acid.spark.read.evolution import is_nameless

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

_ANY = (1 << 63) - 1


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
        nameless = file.uri in table.renamed and is_nameless(table.renamed[file.uri])
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
    return _frame(spark, package, table, files, outputs, _live(table))


def events(
    spark: SparkSession, package: Any, table: OpenTable, files: Sequence[EventFile], live: bool = False
) -> DataFrame:
    """Insert events as they are stored: the six columns, the partition ordinal and the partition values.

    :param live: only what the snapshot sees and no delete event hits.
    """
    return _frame(spark, package, table, files, _stored(table), _live(table) if live else _Rows())


def deleted_events(
    spark: SparkSession,
    package: Any,
    table: OpenTable,
    files: Sequence[EventFile],
    deletes: Sequence[EventFile],
    made_up_to: int,
) -> DataFrame:
    """Insert events that the snapshot sees and these delete events hit, each once.

    :param deletes: files of delete events.
    :param made_up_to: the newest write id of the rows.
    """
    hit = {(f.partition, f.bucket) for f in deletes}
    reached = [f for f in files if (f.partition, f.bucket) in hit]
    which = _Rows(frozenset(f.uri for f in reached), tuple(deletes), check=True, deleted=True, made_up_to=made_up_to)
    return _frame(spark, package, table, reached, _stored(table), which)


def delete_events(
    spark: SparkSession, package: Any, table: OpenTable, files: Sequence[EventFile], made_up_to: int
) -> DataFrame:
    """Delete events that the snapshot sees.

    :param made_up_to: the newest write id of the rows that they name.
    """
    which = _Rows(check=True, made_up_to=made_up_to)
    return _frame(spark, package, table, files, _stored(table), which, schema.DELETED)


class _Rows(NamedTuple):
    """Which events of files are wanted.

    :param filtered: files whose rows the delete events may hit, by their URI.
    :param deletes: files of these delete events.
    :param check: only events that the snapshot sees.
    :param deleted: those that are hit, instead of the others.
    :param made_up_to: the newest write id that has inserted the row; None for any. In this place it costs nothing; a
        number in an expression is compiled anew each time.
    """

    filtered: frozenset[str] = frozenset()
    deletes: tuple[EventFile, ...] = ()
    check: bool = False
    deleted: bool = False
    made_up_to: int | None = None


def _live(table: OpenTable) -> _Rows:
    hit = {(f.partition, f.bucket) for f in table.files.filtered}
    deletes = tuple(f for f in table.files.deletes if (f.partition, f.bucket) in hit)
    return _Rows(frozenset(f.uri for f in table.files.filtered), deletes, check=True)


def _stored(table: OpenTable) -> list[dict[str, Any]]:
    outputs = [_output(name, schema.header_type(name), "HEADER", i) for i, name in enumerate(schema.HEADER)]
    outputs.append(_output(schema.ROW, schema.row_type(table.columns), "ROW", 0))
    outputs.append(_output(schema.PARTITION, schema.header_type(schema.OPERATION), "ORDINAL", 0))
    names = table.partitions.internal_names
    outputs += [
        _output(name, column.type, "VALUE", i)
        for i, (name, column) in enumerate(zip(names, table.partition_columns, strict=True))
    ]
    return outputs


def _output(name: str, kind: Any, source: str, index: int) -> dict[str, Any]:
    return {"name": name, "type": kind.jsonValue(), "source": source, "index": index}


def _frame(
    spark: SparkSession,
    package: Any,
    table: OpenTable,
    files: Sequence[EventFile],
    outputs: Sequence[dict[str, Any]],
    which: _Rows,
    operation: int = schema.INSERTED,
) -> DataFrame:
    names: dict[tuple[str, ...], int] = {}
    entries = []
    for file in files:
        renamed = table.renamed.get(file.uri)
        index = -1 if renamed is None else names.setdefault(renamed, len(names))
        entries.append(
            _entry(file, check=which.check and file.check_rows, deletes=file.uri in which.filtered, names=index)
        )
    document = {
        "table": table.name,
        "row": schema.row_type(table.columns).jsonValue(),
        "outputs": list(outputs),
        "operation": operation,
        "deleted_only": which.deleted,
        "made_up_to": _ANY if which.made_up_to is None else which.made_up_to,
        "high_watermark": table.write_ids.high_watermark,
        "exceptions": _hidden(table, [*files, *which.deletes]),
        "partition_types": [c.type.jsonValue() for c in table.partition_columns],
        "partitions": [[None if v == DEFAULT_PARTITION else v for v in row] for row in table.partitions.values],
        "names": [list(found) for found in names],
        "files": entries,
        "deletes": [_entry(f, check=f.check_rows, deletes=False, names=-1) for f in which.deletes],
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
