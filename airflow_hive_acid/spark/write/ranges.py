"""How many tasks share a bucket: a directory has one file for each bucket, and a table may have few of them.

The optional jar divides a large bucket into ranges of its rows, each the work of a task, and puts the stripes of their
files together (``accelerator/src/hiveacid/compact``). Every task costs a little, and its last stripe is smaller than
others, so small buckets are not divided, nor are those of which there are enough for all cores (decision 70).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.spark.conf import RANGE_BYTES, RANGE_BYTES_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

MOST_RANGES = 1000
"""Of one bucket: each is a file that another task has to open."""


def ranges_of(sizes: Mapping[int, int], cores: int, least: int) -> dict[int, int]:
    """How many ranges each bucket is divided into.

    :param sizes: bytes of each bucket's files.
    :param cores: how many tasks run at the same time.
    :param least: bytes that a range has at least; 0: nothing is divided.
    """
    if least <= 0:
        return dict.fromkeys(sizes, 1)
    # What each core gets when all of them have the same.
    share = max(least, -(-sum(sizes.values()) // max(cores, 1)))
    return {bucket: min(MOST_RANGES, max(1, round(size / share))) for bucket, size in sizes.items()}


def ranges(spark: SparkSession, sizes: Mapping[int, int]) -> dict[int, int]:
    """The same for what runs in this session."""
    return ranges_of(sizes, _cores(spark), range_bytes(spark))


def range_bytes(spark: SparkSession) -> int:
    """Bytes of files that are worth a task of their own (``spark.hive.acid.range.bytes``).

    :raises InvalidArgumentsError: when the setting is no size.
    """
    text = spark.conf.get(RANGE_BYTES_KEY, RANGE_BYTES) or RANGE_BYTES
    try:
        return int(str(spark._jvm.org.apache.spark.network.util.JavaUtils.byteStringAsBytes(text)))  # type: ignore[union-attr]
    except Exception as failure:
        raise InvalidArgumentsError(f"{RANGE_BYTES_KEY} is {text!r}; it takes a size as 32m, or 0") from failure


def _cores(spark: SparkSession) -> int:
    """How many tasks can run at once; with dynamic allocation, as many as there are."""
    context = spark.sparkContext
    if (context.getConf().get("spark.dynamicAllocation.enabled", "false") or "").lower() == "true":
        return 1 << 30
    return context.defaultParallelism
