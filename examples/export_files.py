"""Files for people who do not read ACID tables: complete or not there at all."""

from __future__ import annotations

import os

from airflow.sdk import DAG

from airflow_hive_acid.operators import HiveAcidExportOperator

DATA = os.environ.get("EXAMPLE_DATA", "/data")

with DAG("example_export_files", schedule=None) as dag:
    HiveAcidExportOperator(
        task_id="orders",
        path=f"{DATA}/exports/orders",
        query="SELECT id, item, day FROM shop.orders WHERE day >= :first",
        parameters={"first": "2026-01-02"},
        format="csv",
        options={"header": "true"},
        partition_by=["day"],
        mode="overwrite",
    ) >> HiveAcidExportOperator(task_id="totals", path=f"{DATA}/exports/totals", table="shop.totals", mode="overwrite")
