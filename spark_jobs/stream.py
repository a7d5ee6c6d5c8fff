"""A Structured Streaming query from a source into one ACID table, as ``HiveAcidStreamOperator`` describes it.

    spark-submit … stream.py

What to do is in the Spark setting ``spark.hive.acid.stream.job``, because options of a source may hold secrets, and
settings travel in a file that only its owner can read.
"""

from __future__ import annotations

from airflow_hive_acid.spark.session import session_builder
from airflow_hive_acid.spark.streaming.job import run_job


def main() -> None:
    """Run the query until its trigger, or whoever started it, ends it."""
    spark = session_builder(app_name="hive-acid stream").getOrCreate()
    try:
        run_job(spark)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
