"""The fixtures ``hive_acid`` and ``run_dag``: name this module in ``pytest_plugins`` of your top ``conftest.py``.

Without ``AIRFLOW_HOME`` in the environment, Airflow gets a home of its own, which goes when pytest ends.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

if "AIRFLOW_HOME" not in os.environ and "airflow" not in sys.modules:
    # Before anything imports Airflow: a test must not change the database of the user's own Airflow.
    _home = tempfile.mkdtemp(prefix="hive-acid-airflow-")
    atexit.register(shutil.rmtree, _home, ignore_errors=True)
    os.environ |= {"AIRFLOW_HOME": _home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

from airflow_hive_acid.testing.testbed import HiveAcidTestbed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any


@pytest.fixture
def hive_acid(tmp_path: Path) -> Iterator[HiveAcidTestbed]:
    """A metastore and a warehouse of the test's own; Airflow's default connections name them meanwhile."""
    with HiveAcidTestbed(tmp_path / "hive-acid") as testbed:
        yield testbed


@pytest.fixture
def run_dag() -> Callable[..., Any]:
    """Runs a DAG in this process: ``run_dag(dag, key=value)`` returns the DAG run."""
    from airflow_hive_acid.testing.dags import run_dag

    return run_dag
