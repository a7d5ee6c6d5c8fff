"""The first ten minutes (docs/tutorials/getting-started.md): wait for a commit by anybody, change rows, sum them up."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_hive_acid.operators import HiveAcidOperator, HiveAcidUpdateOperator
from airflow_hive_acid.sensors import HiveAcidTableCommitSensor

with DAG("getting_started", schedule=None) as dag:
    visited = HiveAcidTableCommitSensor(task_id="visited", table="shop.visits", after_write_id=0)
    correct = HiveAcidUpdateOperator(
        task_id="correct", table="shop.visits", set={"page": "lower(page)"}, everything=True
    )
    sum_up = HiveAcidOperator(
        task_id="sum_up",
        sql="INSERT OVERWRITE TABLE shop.per_page SELECT page, count(*) FROM shop.visits GROUP BY page",
    )
    visited >> correct >> sum_up
