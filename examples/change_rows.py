"""Insert rows of a query, of files and of Python values; update, delete and merge them, with values kept out of SQL."""

from __future__ import annotations

import os
from datetime import date
from decimal import Decimal

from airflow.sdk import DAG

from airflow_hive_acid.operators import HiveAcidOperator
from airflow_hive_acid.operators.changes import (
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidMergeOperator,
    HiveAcidUpdateOperator,
)

DATA = os.environ.get("EXAMPLE_DATA", "/data")
TABLES = """
CREATE DATABASE IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (id BIGINT, item STRING, amount DECIMAL(10,2), ordered TIMESTAMP, photo BINARY)
PARTITIONED BY (day DATE) STORED AS ORC TBLPROPERTIES ('transactional'='true');
CREATE TABLE IF NOT EXISTS shop.prices (item STRING, price DECIMAL(10,2)) STORED AS ORC
TBLPROPERTIES ('transactional'='true');
"""

with DAG("example_change_rows", schedule=None, params={"customer_says": "it's ${cold}; --"}) as dag:
    tables = HiveAcidOperator(task_id="tables", sql=TABLES)
    rows = HiveAcidInsertOperator(
        task_id="rows",
        table="shop.orders",
        rows=[
            {"id": 1, "item": "tea", "amount": Decimal("3.50"), "ordered": "2026-01-01 08:00:00", "day": "2026-01-01"},
            {"id": 2, "item": "coffee", "photo": b"\x00\xff", "day": date(2026, 1, 1)},
            {"id": 3, "item": None, "amount": 5, "day": "2026-01-02"},
        ],
    )
    files = HiveAcidInsertOperator(
        task_id="files",
        table="shop.prices",
        files=f"{DATA}/prices/*.csv",
        format="csv",
        options={"header": "true"},
        schema={"item": "STRING", "price": "DECIMAL(10,2)"},
        overwrite=True,
    )
    query = HiveAcidInsertOperator(
        task_id="query",
        table="shop.orders",
        query="SELECT 4, item, price FROM shop.prices WHERE item = :item",
        parameters={"item": "cake"},
        columns=["id", "item", "amount"],
        partition={"day": "2026-01-02"},
    )
    update = HiveAcidUpdateOperator(
        task_id="update",
        table="shop.orders",
        set={"amount": "coalesce(amount, 0) + 1"},
        values={"item": "{{ params.customer_says }}"},  # whatever it is, it is a value
        where="id = :id",
        parameters={"id": 3},
    )
    delete = HiveAcidDeleteOperator(task_id="delete", table="shop.orders", where="id = 1 AND day < DATE '2026-06-01'")
    merge = HiveAcidMergeOperator(
        task_id="merge",
        target="shop.orders",
        source="SELECT 5 AS id, item, price FROM shop.prices",
        on="t.item = s.item",
        clauses=[
            {"action": "update", "condition": "t.amount IS NULL", "set": {"amount": "s.price"}},
            {"action": "insert", "condition": "s.price > 3", "set": {"id": "s.id", "item": "s.item"},
             "values": {"day": date(2026, 1, 3)}},
        ],
    )  # fmt: skip
    tables >> [rows, files] >> query >> update >> delete >> merge
