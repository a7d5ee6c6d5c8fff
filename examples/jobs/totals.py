"""A PySpark job: totals of the orders by day. Runs in the Spark driver, see examples/pyspark_jobs.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from airflow_hive_acid.spark.jobs.program import Job


def main(job: Job, least: float) -> dict[str, int]:
    """Make the totals anew, and mark the orders that went into them.

    :param least: orders below are left out.
    :return: goes into the task's XCom.
    """
    orders = job.read("shop.orders").where(F.col("amount") >= least)
    totals = orders.groupBy("day").agg(F.sum("amount").alias("total"), F.count("id").alias("orders"))
    job.overwrite("shop.totals", totals.select("total", "orders", "day"))
    job.insert("shop.marks", orders.select("id").where("id < 100"))
    job.update("shop.orders", {"item": "upper(item)"}, where="amount >= :least", parameters={"least": least})
    return {"days": totals.count()}
