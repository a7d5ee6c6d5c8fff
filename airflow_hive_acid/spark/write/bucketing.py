"""How the rows of an insert are spread over its tasks: task N writes the file of bucket N.

Rows of a bucketed table go to the task of their bucket by Hive's hash (:mod:`airflow_hive_acid.format.bucketing` says
which that is, :mod:`airflow_hive_acid.spark.write.hive_hash` computes it), so nothing may move them between this and
the write. Rows of other tables stay where they are, in no more tasks than a directory can have files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.bucketing import known_version
from airflow_hive_acid.format.buckets import MAX_BUCKET
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.versions import repartition_by_id
from airflow_hive_acid.spark.write.hive_hash import hive_hash

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import TableSnapshot

_MOST_TASKS = MAX_BUCKET + 1
_SHUFFLES = re.compile(r"\b(?:Join|Aggregate|Sort|Window|Distinct|RepartitionByExpression|RebalancePartitions)\b")
_GIVEN_TASKS = re.compile(r"^[\s:+|-]*(?:Repartition|RepartitionByExpression|Range) .*$", re.MULTILINE)
_REPARTITIONED = re.compile(r"(?:[\s:+|-]*(?:Project|Filter) .*\n)*[\s:+|-]*Repartition ([0-9]+), ")
_NUMBER = re.compile(r"\b[0-9]+\b")


@dataclass(frozen=True, slots=True)
class Buckets:
    """How the rows of a bucketed table are spread.

    :param types: Hive's types of the columns.
    :param version: of the hash.
    :param sorting: columns in whose order the rows of a bucket lie, and whether it is ascending.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    count: int
    version: int
    sorting: tuple[tuple[str, bool], ...] = ()

    def order(self) -> list[Column]:
        """The order inside of a bucket; NULL is less than everything, as in Hive."""
        return [
            F.asc_nulls_first(schema.quoted(c)) if ascending else F.desc_nulls_last(schema.quoted(c))
            for c, ascending in self.sorting
        ]

    def number(self, spark: SparkSession) -> Column:
        """The bucket number of a row that has the bucketing columns by name."""
        values = [(schema.quoted(c), t) for c, t in zip(self.columns, self.types, strict=True)]
        positive = hive_hash(spark, values, self.version).bitwiseAND(F.lit(0x7FFFFFFF))
        return (positive % F.lit(self.count)).cast("int")


def buckets_of(table: TableSnapshot) -> Buckets | None:
    """The bucketing of a table, None when it has none.

    :raises InvalidArgumentsError: when the catalog's facts contradict each other, or name a hash that Hive has not.
    """
    given = table.bucketing
    if given is None:
        return None
    known = {c.name.lower(): c.type for c in table.columns}
    columns = tuple(c.lower() for c in given.columns)
    sorting = tuple((c.lower(), ascending) for c, ascending in given.sorting)
    if not columns or not {*columns, *dict(sorting)} <= set(known) or not 1 <= given.count <= _MOST_TASKS:
        order = f" SORTED BY {', '.join(dict(sorting))}" if sorting else ""
        raise InvalidArgumentsError(
            f"{table.table} is CLUSTERED BY {', '.join(columns)}{order} INTO {given.count} BUCKETS: it takes "
            f"columns of the table, which are {', '.join(known)}, and 1 to {_MOST_TASKS} buckets"
        )
    version = known_version(given.version, table.table)
    return Buckets(columns, tuple(known[c] for c in columns), given.count, version, sorting)


def spread(rows: DataFrame, buckets: Buckets | None, offset: int = 0) -> DataFrame:
    """The rows of an insert in the tasks that write them.

    :param offset: bucket of the first task, of rows that join a base; bucketed tables have none.
    :raises InvalidArgumentsError: when a directory can have no file more.
    """
    if buckets is not None:
        return in_buckets(rows, buckets)
    left = _MOST_TASKS - offset
    if left < 1:
        raise InvalidArgumentsError(
            f"this transaction has overwritten the table or partition and filled {offset} buckets of the base, and a "
            f"directory holds {_MOST_TASKS}; commit, and go on in a new transaction"
        )
    # A coalesce costs the tasks their common code, so it is there only where it may be needed.
    return rows.coalesce(left) if most_tasks(rows) > left else rows


def in_buckets(rows: DataFrame, buckets: Buckets) -> DataFrame:
    """Rows of a bucketed table: task N has those of bucket N."""
    return repartition_by_id(rows, buckets.count, buckets.number(rows.sparkSession))


def most_tasks(rows: DataFrame) -> int:
    """How many tasks may compute these rows: an upper bound from the plan, which runs nothing."""
    spark = rows.sparkSession
    plan = rows._jdf.queryExecution().optimizedPlan()
    text = str(plan.toString())
    last = _REPARTITIONED.match(text)
    if last is not None:
        # A hint of the query, of which another coalesce behind it would make nothing.
        return int(last[1])
    shuffled = int(spark.conf.get("spark.sql.shuffle.partitions") or 200) * len(_SHUFFLES.findall(text))
    given = sum(max(map(int, _NUMBER.findall(line)), default=0) for line in _GIVEN_TASKS.findall(text))
    leaves = plan.collectLeaves()
    count = int(leaves.size())
    size = sum(int(str(leaves.apply(i).stats().sizeInBytes())) for i in range(count))
    # A task reads this much, in which each file counts some megabytes more than it has.
    per_task = int(spark._jsparkSession.sessionState().conf().filesMaxPartitionBytes())
    return shuffled + given + 2 * size // per_task + count * 2 * spark.sparkContext.defaultParallelism
