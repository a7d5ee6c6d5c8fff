"""A DAG that keeps everybody else from a table while it rebuilds it, over several tasks and outside tools.

Other writers of these DAGs wait for the lease, first come first served; a real Hive on the same metastore waits for it,
too. Readers go on. If a task hangs past the end of the lease, somebody else may take it: what the hanging task then
tries to commit under it is refused.

Put it into your DAGs folder. It needs a connection ``hive_acid_default`` and the tables of its statements.
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_hive_acid.operators import HiveAcidDropLeaseOperator, HiveAcidGrabLeaseOperator, HiveAcidOperator, lease_on
from airflow_hive_acid.sensors import HiveAcidLeaseSensor

TABLES = ["sales.orders", "sales.returns"]

with DAG("sales_rebuild", start_date=datetime(2026, 1, 1), schedule=None, catchup=False, tags=["hive-acid"]) as dag:
    # All of the tables or none; waits up to two hours, without a worker slot.
    grab = HiveAcidGrabLeaseOperator(task_id="grab", objects=TABLES, duration=1800, wait=7200)

    # They pass the lease, commit only while it is held, and extend it while they run.
    orders = HiveAcidOperator(
        task_id="orders", lease=grab.output, sql="INSERT OVERWRITE TABLE sales.orders SELECT * FROM sales.new_orders"
    )
    returns = HiveAcidOperator(task_id="returns", lease=grab.output, sql="DELETE FROM sales.returns WHERE id < 0")

    # A teardown: it runs as well when one of the tasks failed.
    drop = HiveAcidDropLeaseOperator(task_id="drop", lease=grab.output)
    grab >> orders >> returns >> drop.as_teardown(setups=grab)

    @task
    @lease_on("sales.report", type="x", wait=600)
    def report(lease=None):
        """One task that needs a lease only for itself; an outside system can be given the token's number."""
        return {"fencing_token": lease.lease_id}

    # Nobody may be at work on the report's partitions when the next DAG reads them.
    free = HiveAcidLeaseSensor(task_id="free", objects="sales.report", type="s", poke_interval=10)
    returns >> report() >> free
