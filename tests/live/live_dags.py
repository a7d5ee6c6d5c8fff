"""The DAGs of the tests with a whole Airflow; it reads this file from a copy in its DAGs folder."""

import os
import time
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from airflow_hive_acid.hooks.assets import commits
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.spark import HiveAcidSparkOperator
from airflow_hive_acid.operators.transaction_groups import hive_acid_transaction
from airflow_hive_acid.sensors.commits import HiveAcidTableCommitSensor
from airflow_hive_acid.sensors.locks import HiveAcidLockReleasedSensor
from airflow_hive_acid.sensors.transactions import HiveAcidTransactionSensor
from airflow_hive_acid.triggers.commits import watched_table

HERE = Path(os.environ["LIVE_TEST_DIRECTORY"])

with DAG("waits", schedule=None) as waits:

    @task
    def has_no_database():
        """A task of Airflow 3 has no way to Airflow's own database: what follows cannot have used one."""
        from airflow.settings import Session  # noqa: TID251 - to see that it is of no use

        try:
            Session().connection()
        except RuntimeError as error:
            return str(error)
        raise AssertionError("a task could open Airflow's own database")

    has_no_database() >> HiveAcidOperator(task_id="empty", sql="TRUNCATE TABLE w.waited")

with DAG("senses", schedule=None):
    HiveAcidTableCommitSensor(task_id="commit", table="w.waited", after_write_id="{{ dag_run.conf['after'] }}")
    HiveAcidLockReleasedSensor(task_id="lock", table="w.waited")
    HiveAcidTransactionSensor(task_id="txn", txn_id="{{ dag_run.conf['txn_id'] }}", expect="committed")

with DAG("killed", schedule=None):
    HiveAcidSparkOperator(
        task_id="load",
        tables={"w.killed": "insert"},
        application=str(HERE / "job.py"),
        arguments={"directory": str(HERE)},
        retries=8,
        retry_delay=timedelta(0),
    )

with DAG("shared", schedule=None), hive_acid_transaction("both", tables={"w.waited": "overwrite"}):

    @task
    def held():
        """Is at its work until the test says so."""
        for _ in range(600):
            if (HERE / "let_go").exists():
                return
            time.sleep(0.2)
        raise AssertionError("the test never let go")

    HiveAcidOperator(task_id="empty", sql="TRUNCATE TABLE w.waited") >> held()

# Paused, so that its watcher runs only in the test that is about it.
with DAG("follows", schedule=[watched_table("w.watched")], max_active_runs=1, is_paused_upon_creation=True):

    @task
    def told(triggering_asset_events=None):
        """The commits of this run."""
        return commits(triggering_asset_events)

    told()
