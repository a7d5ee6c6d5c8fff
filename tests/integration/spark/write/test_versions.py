"""What stands in for what an older Spark lacks, on the Spark there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from airflow_hive_acid.spark import versions
from airflow_hive_acid.spark.versions import repartition_by_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("count", [1, 2, 7, 50])
def test_each_row_goes_to_the_task_of_its_number_without_repartition_by_id_of_newer_sparks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(versions, "_HAS_REPARTITION_BY_ID", False)
    rows = spark.range(2 * count).selectExpr(f"cast(id % {count} as int) as task")
    placed = repartition_by_id(rows, count, F.col("task"))
    found = placed.selectExpr("task", "spark_partition_id() as placed").collect()
    assert sorted((row.task, row.placed) for row in found) == sorted([(i, i) for i in range(count)] * 2)
