"""A streaming program, run whenever there is something new: each of its micro-batches is committed exactly once."""

import os
from datetime import datetime
from pathlib import Path

from airflow.sdk import DAG

from airflow_hive_acid.operators import HiveAcidOperator, HiveAcidStreamOperator

DATA = os.environ.get("EXAMPLE_DATA", "/data")

with DAG("streaming", start_date=datetime(2026, 1, 1), schedule=None, catchup=False) as dag:
    tables = HiveAcidOperator(
        task_id="tables",
        sql="""
        CREATE DATABASE IF NOT EXISTS shop;
        CREATE TABLE IF NOT EXISTS shop.orders (id BIGINT, customer STRING, amount DECIMAL(10,2))
        PARTITIONED BY (day DATE) STORED AS ORC TBLPROPERTIES ('transactional'='true');
        CREATE TABLE IF NOT EXISTS shop.customers (customer STRING, city STRING)
        STORED AS ORC TBLPROPERTIES ('transactional'='true')
        """,
    )
    stream = HiveAcidStreamOperator(
        task_id="stream",
        application=str(Path(__file__).with_name("stream_orders.py")),
        application_args=[f"{DATA}/orders", f"{DATA}/checkpoints"],
        retries=3,
    )
    tables >> stream
