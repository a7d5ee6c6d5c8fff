"""A query's rows as files outside of the warehouse.

They are written to a directory that nobody knows; once all of it is there the control plane gives it its name. Rows
are counted while they are written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.parsed_texts import rows_of
from airflow_hive_acid.spark.read.select import Selected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import Export


def export(spark: SparkSession, step: Export) -> Selected:
    """Write the files; their number of rows goes to where the step wants it."""
    counted = Observation()
    rows = rows_of(spark, step.query).observe(counted, F.count(F.lit(1)).alias("rows"))
    writer = rows.write.mode("error").format(step.format).options(**step.options)
    (writer.partitionBy(*step.partition_by) if step.partition_by else writer).save(step.uri)
    with HadoopFilesystem.of(spark).writer(step.rows_uri) as answer:
        answer.write(json.dumps([int(counted.get["rows"])]) + "\n")
    return Selected((Column("rows", "bigint"),), 1)
