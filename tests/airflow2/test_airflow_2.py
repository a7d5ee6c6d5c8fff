"""A real Airflow 2.11, which has no part of this package, runs the DAG of examples/ with the command ``hive-acid``."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.metastore import MetastoreClient

ROOT = Path(__file__).parents[2]
AIRFLOW = Path(os.environ["HIVE_ACID_AIRFLOW_2"])
TABLES = """
CREATE DATABASE sales;
CREATE TABLE sales.orders (order_id BIGINT, amount DECIMAL(12,2), day STRING) STORED AS ORC
TBLPROPERTIES ('transactional'='true');
INSERT INTO sales.orders VALUES (1, 10.00, '2026-01-05'), (2, 20.00, '2026-01-05'), (3, 30.00, '2026-01-06');
"""

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def url(tmp_path):
    """A metastore with a table that has three rows."""
    url = f"sqlite:///{tmp_path / 'metastore.db'}"
    with MetastoreClient(url) as client:
        client.create_schema()
        client.catalog.set_warehouse((tmp_path / "warehouse").as_uri())
        with Engine(client, SparkSubmitLauncher("local[1]"), None) as engine:
            engine.run(TABLES)
    return url


@pytest.fixture
def airflow(url, tmp_path):
    """Runs a command of the other Airflow; what it has printed."""
    variables = {name: text for name, text in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    variables |= {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "HIVE_ACID_ENVIRONMENT": str(Path(sys.executable).parent.parent),
        "HIVE_ACID_METASTORE_URL": url,
        "HIVE_ACID_SPARK_MASTER": "local[1]",
    }

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(AIRFLOW), *arguments], env=variables, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    run("db", "migrate")
    return run


def test_the_example_runs_in_an_airflow_2_and_a_run_that_is_repeated_changes_nothing(airflow, url, tmp_path):
    assert "2.11." in airflow("version")
    dag = (
        "dags",
        "test",
        "hive_acid_from_airflow_2",
        "2026-01-05",
        "--subdir",
        str(ROOT / "examples/airflow_2_dag.py"),
    )
    assert "state=success" in airflow(*dag)
    assert _rows(url) == [(1, "20.00"), (2, "40.00"), (3, "30.00")]
    counted = json.loads(_xcom(tmp_path / "airflow" / "airflow.db"))
    assert counted == {"orders": 3, "total": "90.00"}
    # The run of a day has the same id when it is repeated.
    assert "state=success" in airflow(*dag)
    assert _rows(url) == [(1, "20.00"), (2, "40.00"), (3, "30.00")]


def test_nothing_of_this_package_is_in_the_environment_of_the_airflow_2():
    program = "import importlib.util as u, sqlalchemy; print(u.find_spec('airflow_hive_acid'), sqlalchemy.__version__)"
    python = AIRFLOW.parent / "python"
    done = subprocess.run([str(python), "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("None 1.4.")


def _rows(url: str) -> list[tuple[int, str]]:
    with MetastoreClient(url) as client, Engine(client, SparkSubmitLauncher("local[1]"), None) as engine:
        found = engine.query("SELECT order_id, amount FROM sales.orders ORDER BY order_id").rows
    return [(order, str(amount)) for order, amount in found]


def _xcom(database: Path) -> str:
    connection = sqlite3.connect(database)
    try:
        (value,) = connection.execute(
            "SELECT value FROM xcom WHERE task_id = 'count' AND key = 'return_value'"
        ).fetchone()
    finally:
        connection.close()
    return str(value if isinstance(value, str) else value.decode())
