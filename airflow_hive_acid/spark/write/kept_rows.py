"""Whether rows that a statement keeps between its jobs are still those that it has numbered.

Spark makes a block of kept rows anew when the executor that had it is lost, and behind a shuffle they may come in
another order then. The numbers that a MERGE has given the rows of its source belong to others from there on: of the
rows that match nothing some would not be inserted, and some that match would be. So where that can happen each row
carries the time at which it was made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.versions import Expressions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MADE = f"{schema.INTERNAL_PREFIX}made"
_BLOCK = f"{schema.INTERNAL_PREFIX}block"


def can_be_lost(spark: SparkSession) -> bool:
    """Whether kept rows lie with executors, and not in the driver."""
    context: Any = spark.sparkContext
    return not context._jsc.sc().isLocal()


def with_time(rows: DataFrame) -> DataFrame:
    """The rows, each with the time at which it was made; before they are kept."""
    jvm = java_names(rows.sparkSession)
    return rows.select("*", Expressions(jvm).nano_time().alias(_MADE))


def times(rows: DataFrame) -> dict[int, int]:
    """For each block of kept rows when its first one was made; other times are other rows, perhaps.

    :param rows: kept, and made by :func:`with_time`.
    """
    blocks = rows.select(F.spark_partition_id().alias(_BLOCK), _MADE).groupBy(_BLOCK).agg(F.min(_MADE))
    return {int(block): int(made) for block, made in blocks.collect()}
