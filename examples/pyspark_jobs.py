"""One's own PySpark in a transaction: as a file, and as a function; and SQL that a function returns."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import DAG, task

from airflow_hive_acid.operators import HiveAcidSparkOperator

TABLES = """
CREATE TABLE IF NOT EXISTS shop.totals (total DECIMAL(20,2), orders BIGINT) PARTITIONED BY (day DATE) STORED AS ORC
TBLPROPERTIES ('transactional'='true');
CREATE TABLE IF NOT EXISTS shop.marks (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true');
"""

with DAG("example_pyspark_jobs", schedule=None) as dag:

    @task.hive_acid_sql
    def tables() -> str:
        """The SQL to run."""
        return TABLES

    totals = HiveAcidSparkOperator(
        task_id="totals",
        application=str(Path(__file__).parent / "jobs" / "totals.py"),
        tables={"shop.orders": "update", "shop.totals": "overwrite", "shop.marks": "insert"},
        arguments={"least": 2},
    )

    @task.hive_acid_pyspark(tables={"shop.totals": "merge", "shop.marks": "delete"})
    def correct(job, day: str, by: int):
        """Runs in the Spark driver: it imports what it needs itself."""
        from pyspark.sql import functions as F

        wrong = job.read("shop.totals").where(F.col("day") == day).withColumn("total", F.col("total") + by)
        job.merge("shop.totals", wrong, on="t.day = s.day", clauses=[{"action": "update", "set": {"total": "s.total"}}])
        job.delete("shop.marks", where="id = 4")
        return {"corrected": wrong.count()}

    tables() >> totals >> correct("2026-01-02", by=10)
