"""A DAG that changes two tables in four tasks and one transaction: others see all of it, or nothing.

Each task has a Spark job of its own, sees what the tasks before it wrote, and may be retried: its earlier try is undone
first. If a task fails for good, the group is aborted. Put it into your DAGs folder; it needs a connection
``hive_acid_default`` and the tables of its statements.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.sdk import DAG, task

from airflow_hive_acid.hooks import HiveAcidHook
from airflow_hive_acid.operators import (
    HiveAcidInsertOperator,
    HiveAcidRetryPolicy,
    HiveAcidUpdateOperator,
    hive_acid_transaction,
)

with DAG(
    "interest",
    start_date=datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    tags=["hive-acid"],
    default_args={"retries": 2, "retry_policy": HiveAcidRetryPolicy()},
) as dag:
    # All tables that any task of the group reads or writes, with the most that is done to them.
    tables = {"bank.accounts": "update", "bank.journal": "insert"}

    with hive_acid_transaction("book", tables=tables, max_age=timedelta(hours=2)) as txn:
        # Operators inside the group work in its transaction by themselves.
        add = HiveAcidUpdateOperator(
            task_id="add", table="bank.accounts", set={"amount": "amount * 1.01"}, everything=True
        )

        # It sees the new amounts, which nobody else does yet, and makes a partition of its own.
        note = HiveAcidInsertOperator(
            task_id="note",
            table="bank.journal",
            query="SELECT id, amount FROM bank.accounts",
            partition={"day": "2026-01-31"},
        )

        @task.hive_acid_pyspark(tables={"bank.accounts": "update", "bank.journal": "select"})
        def close(job):
            """PySpark of one's own: it reads the partition that was made a moment ago."""
            booked = job.read("bank.journal").where("day = '2026-01-31'")
            job.update("bank.accounts", {"closed": "true"}, where="amount > 0")
            return {"booked": booked.count()}

        @task
        def check(transaction):
            """A task function joins with the hook; an error in the block undoes what it wrote."""
            with HiveAcidHook() as hook, hook.join(transaction) as part:
                (accounts,) = part.query("SELECT sum(amount) FROM bank.accounts WHERE closed").rows
                (journal,) = part.query("SELECT sum(amount) FROM bank.journal").rows
                if accounts != journal:
                    raise ValueError(f"the journal says {journal[0]}, the accounts {accounts[0]}")
            return f"{journal[0]} booked"

        add >> note >> close() >> check(txn.output)

    @task
    def report(committed):
        """What follows the group follows its commit."""
        return f"txn {committed['txn_id']}: {committed['updated']} updated, {committed['inserted']} inserted"

    report(txn.commit.output)
