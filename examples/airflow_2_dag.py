"""A DAG for Airflow 2.11: the command ``hive-acid`` in an environment of its own, which has no part of this Airflow.

Variables of the worker say where: ``HIVE_ACID_ENVIRONMENT`` is the directory of that environment,
``HIVE_ACID_METASTORE_URL`` the metastore; more of them are in docs/reference/cli.md. Nothing of the package is imported
where DAG files are read.
"""

from __future__ import annotations

import os
from datetime import datetime

from airflow import DAG
from airflow.decorators import task
from airflow.operators.bash import BashOperator

ENVIRONMENT = os.environ.get("HIVE_ACID_ENVIRONMENT", "/opt/hive-acid")
# The same for each try of a task of a run: a statement that an earlier try has committed is not applied again.
ONCE = "{{ dag.dag_id }}/{{ run_id }}/{{ task.task_id }}"

with DAG(
    "hive_acid_from_airflow_2",
    start_date=datetime(2026, 1, 1),
    schedule=None,
    catchup=False,
    tags=["hive-acid"],
) as dag:
    # The values come as variables of the process, never as text of the shell command.
    correct = BashOperator(
        task_id="correct",
        bash_command='"$HIVE_ACID" sql --once "$ONCE" --hivevar day="$DAY" --execute "$SQL"',
        env={
            "HIVE_ACID": f"{ENVIRONMENT}/bin/hive-acid",
            "ONCE": ONCE,
            "DAY": "{{ ds }}",
            "SQL": "UPDATE sales.orders SET amount = amount * 2 WHERE day = '${hivevar:day}'",
        },
        append_env=True,
        retries=2,
    )

    @task.external_python(python=f"{ENVIRONMENT}/bin/python", expect_airflow=False)
    def count() -> dict[str, object]:
        """Runs in the other environment, so it imports what it needs itself; what it returns goes into the XCom."""
        import os

        from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
        from airflow_hive_acid.metastore import MetastoreClient

        spark = SparkSubmitLauncher(os.environ.get("HIVE_ACID_SPARK_MASTER", "local[*]"))
        with MetastoreClient(os.environ["HIVE_ACID_METASTORE_URL"]) as client, Engine(client, spark, None) as engine:
            (row,) = engine.query("SELECT count(*), sum(amount) FROM sales.orders").rows
        return {"orders": row[0], "total": str(row[1])}

    correct >> count()
