"""Rebalance compaction: all live rows in a new base, evenly over its buckets, with new ids.

As Hive 4 numbers them: the rows in the order of their ids, or in the order that was asked for, get the numbers 0 to
N - 1, which do not start again in each bucket; of n buckets each takes the next ceil(N / n) rows. Rows keep their write
ids, except in an order that was asked for: then all have the highest of them, because a file must be sorted by id.
The ids that a deleter has read are gone afterwards, so the Worker holds the table for itself (EXCL_WRITE) meanwhile.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.errors import ParseException
from pyspark.sql import functions as F

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.buckets import MAX_BUCKET, encode_bucket
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.events import task_row_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TASK = f"{schema.INTERNAL_PREFIX}task"
_NUMBER = f"{schema.INTERNAL_PREFIX}number"
_BUCKET = f"{schema.INTERNAL_PREFIX}bucket"
_VIEW = f"{schema.INTERNAL_PREFIX}rebalanced"
_ORDER_BY = re.compile(r"^\s*order\s+by\s+", re.IGNORECASE)


def rebalanced(
    spark: SparkSession, events: DataFrame, buckets: int, order_by: str | None, kept: list[DataFrame]
) -> DataFrame:
    """Live insert events with new ids, each in the task of its bucket and sorted.

    :param order_by: what follows ORDER BY, with or without these words.
    :param kept: takes the frame that is persisted, for the caller to release.
    """
    check_buckets(buckets)
    ordered = _ordered(spark, events, order_by).selectExpr(
        "spark_partition_id() as " + _TASK, f"{task_row_number()} as {_NUMBER}", *schema.HEADER, schema.ROW
    )
    # Kept, so that both looks at it see the same rows in the same tasks.
    ordered = ordered.persist(StorageLevel.MEMORY_AND_DISK)
    kept.append(ordered)
    found = ordered.groupBy(_TASK).agg(F.count("*").alias("n"), F.max(schema.ORIGINAL_WRITE_ID).alias("w")).collect()
    counts = {int(row[_TASK]): int(row["n"]) for row in found}
    starts, total = _starts(counts)
    if total == 0:
        return ordered.selectExpr(*schema.HEADER, schema.ROW)
    per_bucket = -(-total // buckets)
    highest = max(int(row["w"]) for row in found)
    number = f"element_at(array({', '.join(f'{s}L' for s in starts)}), {_TASK} + 1) + {_NUMBER}"
    write_id = f"{highest}L" if order_by else schema.ORIGINAL_WRITE_ID
    placed = (
        ordered.selectExpr(f"{number} as {_NUMBER}", f"{write_id} as {schema.ORIGINAL_WRITE_ID}", schema.ROW)
        .selectExpr("*", f"cast({_NUMBER} div {per_bucket} as int) as {_BUCKET}")
        .repartitionById(buckets, F.col(_BUCKET))
        .sortWithinPartitions(_NUMBER)
    )
    return placed.selectExpr(
        f"{schema.INSERTED} as {schema.OPERATION}",
        schema.ORIGINAL_WRITE_ID,
        f"{encode_bucket(0, 0)} | shiftleft({_BUCKET}, 16) as {schema.BUCKET}",
        f"{_NUMBER} as {schema.ROW_NUMBER}",
        f"{schema.ORIGINAL_WRITE_ID} as {schema.CURRENT_WRITE_ID}",
        schema.ROW,
    )


def check_buckets(buckets: int) -> None:
    """Refuse a number of buckets that a directory cannot have.

    :raises InvalidArgumentsError: with the limit.
    """
    if not 1 <= buckets <= MAX_BUCKET + 1:
        raise InvalidArgumentsError(
            f"a rebalance into {buckets} buckets: a directory has 1 to {MAX_BUCKET + 1}; say CLUSTERED INTO n BUCKETS"
        )


def _ordered(spark: SparkSession, events: DataFrame, order_by: str | None) -> DataFrame:
    if order_by is None:
        return events.orderBy(*schema.IDENTITY)
    columns = [schema.internal(name) for name in schema.HEADER]
    header = [f"{name} as {internal}" for name, internal in zip(schema.HEADER, columns, strict=True)]
    kept = schema.internal(schema.ROW)
    events.selectExpr(*header, f"{schema.ROW} as {kept}", f"{schema.ROW}.*").createOrReplaceTempView(_VIEW)
    # The ids decide between equals, so that a task that runs again finds the same order.
    ids = ", ".join(schema.internal(name) for name in schema.IDENTITY)
    text = _ORDER_BY.sub("", order_by, count=1)
    try:
        ordered = spark.sql(f"select * from {_VIEW} order by {text}, {ids}")  # noqa: S608
    except ParseException as error:
        raise InvalidArgumentsError(f"ORDER BY {text} of the rebalance cannot be read: {error}") from None
    back = [f"{internal} as {name}" for name, internal in zip(schema.HEADER, columns, strict=True)]
    return ordered.selectExpr(*back, f"{kept} as {schema.ROW}")


def _starts(counts: dict[int, int]) -> tuple[list[int], int]:
    """The number of the first row of each task, and of all rows."""
    starts: list[Any] = []
    total = 0
    for task in range(max(counts, default=-1) + 1):
        starts.append(total)
        total += counts.get(task, 0)
    return starts, total
