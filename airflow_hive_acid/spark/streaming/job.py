"""A streaming query that is described by values: source, transformation, trigger, sink."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Source
from airflow_hive_acid.format.streams import JOB
from airflow_hive_acid.spark import guards
from airflow_hive_acid.spark.parsed_texts import check_query
from airflow_hive_acid.spark.streaming.sink import hive_acid_sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SOURCE = "source"


def run_job(spark: SparkSession) -> None:
    """Run the query of the Spark setting and wait for its end.

    :raises InvalidArgumentsError: when there is no such setting.
    """
    text = spark.conf.get(JOB, None)
    if not text:
        raise InvalidArgumentsError(f"{JOB} says what to do, and is not set")
    job: dict[str, Any] = json.loads(text)
    sink = hive_acid_sink(**job["sink"])
    try:
        writer = rows_of(spark, job).writeStream.queryName(job["sink"]["stream"]).foreachBatch(sink)
        writer = writer.option("checkpointLocation", job["checkpoint"])
        interval = job.get("interval")
        trigger = writer.trigger(processingTime=interval) if interval else writer.trigger(availableNow=True)
        trigger.start().awaitTermination()
    finally:
        sink.close()


def rows_of(spark: SparkSession, job: dict[str, Any]) -> DataFrame:
    """The rows of the source, through the query if there is one.

    :raises UnsupportedStatementError: when the source is outside of what the application allows, or the query names
        anything but the source then, and when it calls a function that the application refuses.
    """
    options = {key: str(value) for key, value in (job.get("options") or {}).items()}
    guards.check_sources(spark, [Source("of the stream", job["format"], options)])
    reader = spark.readStream.format(job["format"]).options(**job.get("options") or {})
    if job.get("schema"):
        reader = reader.schema(job["schema"])
    rows = reader.load()
    if not job.get("query"):
        return rows
    rows.createOrReplaceTempView(_SOURCE)
    if guards.bounds_sources(spark):
        check_query(spark, job["query"], {_SOURCE})
        guards.guard(spark)
    else:
        guards.refuse_functions(spark)
    try:
        return spark.sql(job["query"])
    except AnalysisException as failure:
        raise (guards.refusal(spark, failure) or failure) from failure
