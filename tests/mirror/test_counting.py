"""Changed rows are counted by the statement that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.spark.mirrors.counting import CountedRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.mirror
MERGE = """
MERGE INTO ice.counting.t t USING counted_changes s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET v = s.v
WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)
"""


class NoSecondLook:
    """Rows that nobody may read again."""

    def __init__(self, spark: SparkSession) -> None:
        self.sparkSession = spark

    def groupBy(self, *_: Any) -> None:
        raise AssertionError("they were counted by a query of its own")


def merged(spark: SparkSession, query: str, *, may_look: bool = False) -> dict[str, int]:
    counted = CountedRows(spark.sql(query))
    counted.rows.createOrReplaceTempView("counted_changes")
    command = spark.sql(MERGE)
    if not may_look:
        counted._rows = NoSecondLook(spark)  # type: ignore[assignment]
    return counted.counts(command)


def test_rows_are_counted_while_they_are_merged_and_none_where_none_are_read(mirror_spark: SparkSession) -> None:
    spark = mirror_spark
    spark.range(10).selectExpr("id", "id as v").writeTo("ice.counting.t").using("iceberg").createOrReplace()
    some = "SELECT id, 0L AS v, IF(id < 10, 'update', 'insert') AS _hive_acid_op FROM range(7, 12)"
    assert merged(spark, some) == {"insert": 2, "update": 3, "delete": 0}
    # Spark sees while it runs that there is nothing, and leaves out what would have counted.
    none = "SELECT id, 0L AS v, 'delete' AS _hive_acid_op FROM range(7) WHERE id < 0"
    assert sum(merged(spark, none, may_look=True).values()) == 0
