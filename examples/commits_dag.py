"""DAGs that follow a table: one runs for each commit to it, whoever commits; another waits for several things in turn.

The first DAG has a watcher: the triggerer reads the metastore's notification log, so that commits of a real Hive or of
any other engine on the same metastore count as well as ours. Nothing is lost while the triggerer is down.

Put it into your DAGs folder. It needs a connection ``hive_acid_default`` and the tables that it names.
"""

from __future__ import annotations

from datetime import datetime

from airflow.sdk import DAG, task

from airflow_hive_acid.hooks import commits
from airflow_hive_acid.operators import HiveAcidOperator
from airflow_hive_acid.sensors import HiveAcidLockReleasedSensor, HiveAcidTableCommitSensor
from airflow_hive_acid.triggers import watched_table

ORDERS = watched_table("sales.orders", operations=["insert", "update", "delete"])

# Commits that come while a run is busy are the next run's, all together.
with DAG("orders_changed", schedule=[ORDERS], catchup=False, max_active_runs=1, tags=["hive-acid"]) as orders_changed:

    @task
    def changed_partitions(triggering_asset_events=None):
        """What has changed since the last run; after a gap in the log, everything may have."""
        found = commits(triggering_asset_events)
        if any(commit["kind"] == "gap" or commit["partitions"] is None for commit in found):
            return ["*"]
        return sorted({partition for commit in found for partition in commit["partitions"]})

    changed_partitions()

with DAG(
    "orders_report", start_date=datetime(2026, 1, 1), schedule=None, catchup=False, tags=["hive-acid"]
) as orders_report:
    # Today's partition has been loaded three times: by three shops, each with a tool of its own.
    loaded = HiveAcidTableCommitSensor(
        task_id="loaded",
        table="sales.orders",
        partition="day={{ ds }}",
        after_write_id=0,
        commits=3,
        poke_interval=10,
        timeout=6 * 3600,
    )
    # Nobody may be rewriting it while the report reads. An hour later there is no report, and that is no failure.
    free = HiveAcidLockReleasedSensor(
        task_id="free",
        table="sales.orders",
        lock_types=["EXCL_WRITE", "EXCLUSIVE"],
        poke_interval=10,
        timeout=3600,
        soft_fail=True,
    )
    report = HiveAcidOperator(
        task_id="report", sql="SELECT count(*) AS orders FROM sales.orders WHERE day = '{{ ds }}'"
    )
    loaded >> free >> report
