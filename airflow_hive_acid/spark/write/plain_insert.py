"""INSERT into tables without row ids, and the compaction of insert-only tables.

An insert-only table gets a delta or, for an overwrite, a base with plain files in it. A plain table has no such
directories: its files wait in staging below the name ``files`` until the control plane moves them one by one.
In a bucketed table the number that a file's name begins with is its bucket, rows go there by Hive's hash, and lie in
the order of SORTED BY. As from Hive on Tez, a bucket without rows gets an empty file from an INSERT OVERWRITE whose
partitions are not dynamic, and otherwise none: readers find buckets by these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.names import PLAIN_FILES, base_name, delta_name, original_file_name, unique_file_name
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.read import plain
from airflow_hive_acid.spark.read.scan import PartitionValues, ScanFile
from airflow_hive_acid.spark.write.bucketing import buckets_of, in_buckets
from airflow_hive_acid.spark.write.insert import in_one_file_if_small, partition_of, partition_text, prepared
from airflow_hive_acid.spark.write.output import Destination
from airflow_hive_acid.spark.write.plain_output import empty_directory, with_empty_files, write_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_hive_acid.format.acid_state import StateDirectory
    from airflow_hive_acid.format.jobs import Compact, Insert, WrittenDirectory
    from airflow_hive_acid.spark.write.bucketing import Buckets
    from airflow_hive_acid.spark.write.output import Staging

_FILE_BYTES = 256 << 20
"""Compaction writes files of about this size."""


def insert(spark: SparkSession, step: Insert, staging: Staging) -> list[WrittenDirectory]:
    """Run an INSERT into a table without row ids.

    :return: as for ACID tables: nothing for an insert of no rows, an empty directory for an overwrite with none
        unless its partitions are dynamic.
    """
    target = step.target
    columns, partition_columns, static, dynamic, rows = prepared(spark, step)
    if not target.transactional:
        name = PLAIN_FILES
    elif step.overwrite:
        name = base_name(step.write_id)
    else:
        name = delta_name(step.write_id, step.write_id, step.statement_id)

    def place(dynamic_values: tuple[str, ...]) -> Destination:
        return Destination(*partition_of(partition_columns, static, dynamic_values), name)

    def file_name(task: int) -> str:
        if target.transactional:
            return original_file_name(task)
        return unique_file_name(task, step.statement_id, step.write_id)

    buckets = buckets_of(target)
    keys = [f"{schema.INTERNAL_PREFIX}p{i}" for i in range(len(dynamic))]
    texts = [f"{partition_text(c)} as {key}" for c, key in zip(dynamic, keys, strict=True)]
    rows = in_one_file_if_small(rows).selectExpr("*", *texts)
    rows = _ordered(rows, buckets, keys)
    data = [schema.quoted(c.name) for c in columns]
    written = write_rows(staging, rows.selectExpr(*data, *keys), columns, keys, place, target, file_name)
    if step.overwrite and not dynamic:
        written = written or [empty_directory(staging, place(()))]
        if buckets is not None:
            written = [with_empty_files(staging, written[0], map(file_name, range(buckets.count)))]
    return written


def _ordered(rows: DataFrame, buckets: Buckets | None, keys: Sequence[str] = ()) -> DataFrame:
    """Rows in the task of their bucket, sorted by the keys of their directory and then as the table asks for."""
    order: list[Column | str] = [*keys]
    if buckets is not None:
        rows = in_buckets(rows, buckets)
        order += buckets.order()
    return rows.sortWithinPartitions(*order) if order else rows


def compact(spark: SparkSession, step: Compact, staging: Staging) -> list[WrittenDirectory]:
    """Compact one partition of an insert-only table (Hive's MmMajorQueryCompactor and MmMinorQueryCompactor).

    Major: a base of all rows, an empty one when there are none. Minor: one delta over the range of the deltas.
    """
    target = step.target
    if len(target.partitions) != 1:
        raise InvalidArgumentsError(
            f"a compaction of {target.table} takes exactly one partition, not {len(target.partitions)}"
        )
    fs = HadoopFilesystem.of(spark)
    state = plain.insert_only_states(fs, target, compactor=True)[0]
    high = plain.compactor_write_ids(target).high_watermark
    partition = target.partitions[0]
    if step.type == "major":
        sources: Sequence[StateDirectory] = state.inserts
        name = base_name(high, step.visibility_txn_id)
        if len(sources) < 2:
            return []
    else:
        sources = [d for d in state.deltas if d.plain_files() and d.directory.min_write_id > step.above]
        if not sources:
            return []
        name = delta_name(min(d.directory.min_write_id for d in sources), high, None, step.visibility_txn_id)
    destination = Destination(partition.name, partition.values, name)
    root = plain.root_of(fs, target)
    files = [(f"{root}/{entry.path}", entry.size) for directory in sources for entry in directory.plain_files()]
    columns = schema.table_columns(target.columns, target.table)
    nowhere = PartitionValues((), ((),))
    rows = plain.rows(spark, target, columns, nowhere, [ScanFile(uri, 0) for uri, _ in files])
    if rows is None:
        return [empty_directory(staging, destination)]
    wanted = rows.selectExpr(*[schema.quoted(c.name) for c in columns])
    buckets = buckets_of(target)
    if buckets is None:
        wanted = wanted.coalesce(max(1, round(sum(size for _, size in files) / _FILE_BYTES)))
    wanted = _ordered(wanted, buckets)
    written = write_rows(staging, wanted, columns, (), lambda _: destination, target, original_file_name)
    return written or [empty_directory(staging, destination)]
