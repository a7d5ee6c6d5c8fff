"""A query's rows as files outside of the warehouse.

They are written to a directory that nobody knows; once all of it is there the control plane gives it its name. Rows
are counted while they are written.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from airflow_hive_acid.format.jobs import HIVE_TEXT, Column
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.parsed_texts import rows_of
from airflow_hive_acid.spark.read.select import Selected
from airflow_hive_acid.spark.read.text_files import TextLayout
from airflow_hive_acid.spark.schema import TableColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import Export


def export(spark: SparkSession, step: Export) -> Selected:
    """Write the files; their number of rows goes to where the step wants it."""
    counted = Observation()
    rows = rows_of(spark, step.query)
    if step.format == HIVE_TEXT:
        rows = _lines(rows, step)
    rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    if step.format == HIVE_TEXT:
        writer = rows.write.mode("error").format("text")
    else:
        writer = rows.write.mode("error").format(step.format).options(**step.options)
    (writer.partitionBy(*step.partition_by) if step.partition_by else writer).save(step.uri)
    with HadoopFilesystem.of(spark).writer(step.rows_uri) as answer:
        answer.write(json.dumps([int(counted.get["rows"])]) + "\n")
    return Selected((Column("rows", "bigint"),), 1)


def _lines(rows: DataFrame, step: Export) -> DataFrame:
    """The rows as lines of Hive's text files."""
    kinds = [field.dataType for field in rows.schema.fields]
    columns = [TableColumn(f"c{i}", kind.simpleString(), kind) for i, kind in enumerate(kinds)]
    layout = TextLayout(f"the directory {step.uri}", columns, step.options, {})
    return rows.toDF(*[column.name for column in columns]).selectExpr(layout.line())
