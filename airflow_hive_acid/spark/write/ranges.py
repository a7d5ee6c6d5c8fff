"""How many tasks share a bucket: a directory has one file for each bucket, and a table may have few of them.

The optional jar divides a large bucket into ranges of its rows, each the work of a task, and puts the stripes of their
files together (``accelerator/src/hiveacid/compact``). Every task costs a little, and its last stripe is smaller than
others, so small buckets are not divided, nor are those of which there are enough for all cores (decision 70).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.spark.conf import RANGE_BYTES, RANGE_BYTES_KEY
from airflow_hive_acid.spark.java_names import java_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_hive_acid.spark.read.files import SnapshotFiles

MOST_RANGES = 1000
"""Of one bucket: each is a file that another task has to open."""
MOST_GROUPS = 64
"""So many buckets of partitions, counted together, may be shared by the tasks of a statement."""
MOST_SHARES = 4096
"""So many tasks write a rebalance: each is told by where its rows begin, in one expression."""
CHANGES = 4
"""An UPDATE or DELETE shares a bucket from so many times the bytes on that a compaction does.

It decodes few columns and writes few rows: of 80 MB in one bucket, DELETE of 1 % took two tasks 1.0 s and one 0.7 s.
"""


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


def shares_of(size: int, buckets: int, cores: int, least: int) -> int:
    """How many tasks share each bucket of a rebalance, in which all buckets get as many rows.

    :param size: bytes of the files whose rows are dealt out.
    :param buckets: how many are made.
    :param cores: how many tasks run at the same time.
    :param least: bytes that a task has at least; 0: no bucket is shared.
    """
    tasks = ranges_of(dict.fromkeys(range(buckets), size // buckets), cores, least)[0]
    return max(1, min(tasks, MOST_SHARES // buckets))


def shares(spark: SparkSession, size: int, buckets: int) -> int:
    """The same for what runs in this session."""
    return shares_of(size, buckets, _cores(spark), range_bytes(spark))


def ranges_of_groups(spark: SparkSession, files: SnapshotFiles, buckets: Sequence[int]) -> dict[int, int]:
    """How many tasks may change rows of each group, a bucket of a partition; those of one are left out.

    :param buckets: all bucket numbers of the table, ascending; the i-th of partition p is group
        ``p * len(buckets) + i``.
    """
    sizes: Counter[int] = Counter()
    positions = {bucket: position for position, bucket in enumerate(buckets)}
    for file in files.inserts:
        sizes[file.partition * len(buckets) + positions[file.bucket]] += file.size
    for original in files.originals:
        sizes[original.partition * len(buckets) + positions[original.bucket]] += original.size
    # Many groups are many tasks anyway, and each would be named in the plan.
    if len(sizes) > MOST_GROUPS or max(sizes, default=0) > MOST_GROUPS:
        return {}
    least = CHANGES * range_bytes(spark)
    return {group: count for group, count in ranges_of(sizes, _cores(spark), least).items() if count > 1}


def range_bytes(spark: SparkSession) -> int:
    """Bytes of files that are worth a task of their own (``spark.hive.acid.range.bytes``).

    :raises InvalidArgumentsError: when the setting is no size.
    """
    text = spark.conf.get(RANGE_BYTES_KEY, str(RANGE_BYTES))
    try:
        return int(str(java_names(spark).org.apache.spark.network.util.JavaUtils.byteStringAsBytes(text)))
    except Exception as failure:
        raise InvalidArgumentsError(f"{RANGE_BYTES_KEY} is {text!r}; it takes a size as 32m, or 0") from failure


def _cores(spark: SparkSession) -> int:
    """How many tasks can run at once; with dynamic allocation, as many as there are."""
    context = spark.sparkContext
    if (context.getConf().get("spark.dynamicAllocation.enabled", "false") or "").lower() == "true":
        return 1 << 30
    return context.defaultParallelism
