"""scripts/run_dag.py: the state directory and the environment it gives Airflow."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[4] / "scripts" / "run_dag.py"


@pytest.fixture(scope="module")
def run_dag():
    spec = importlib.util.spec_from_file_location("run_dag", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_new_state_is_made_and_recognised_the_second_time(run_dag, tmp_path):
    state = tmp_path / "a" / "state"
    assert run_dag.prepare_state(state) is False
    (state / "warehouse").mkdir()
    assert run_dag.prepare_state(state) is True


def test_empty_directory_may_be_used(run_dag, tmp_path):
    assert run_dag.prepare_state(tmp_path) is False


def test_directory_with_other_peoples_files_is_refused_and_untouched(run_dag, tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(run_dag.UnusableStateError, match=r"is not empty.*thesis\.txt.*nothing was touched"):
        run_dag.prepare_state(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_file_in_the_place_of_the_state_is_refused(run_dag, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(run_dag.UnusableStateError, match="is a file"):
        run_dag.prepare_state(file)


def test_state_that_another_run_uses_is_refused(run_dag, tmp_path):
    run_dag.prepare_state(tmp_path)
    with run_dag.hold_state(tmp_path), pytest.raises(run_dag.UnusableStateError, match="another run uses"):
        run_dag.hold_state(tmp_path)
    run_dag.hold_state(tmp_path).close()


def test_refusal_ends_with_code_2_before_airflow_is_imported(tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "hive_acid_demo", "--state", str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "/nowhere"},
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "is not empty" in done.stderr


def test_connections_that_are_set_already_stay(run_dag, tmp_path):
    given = {"AIRFLOW_CONN_SPARK_DEFAULT": "spark://master:7077"}
    variables = run_dag.environment(tmp_path, given)
    assert "AIRFLOW_CONN_SPARK_DEFAULT" not in variables
    connection = json.loads(variables["AIRFLOW_CONN_HIVE_ACID_DEFAULT"])
    assert connection["host"] == str(tmp_path / "metastore.db")
    assert variables["AIRFLOW_HOME"] == str(tmp_path / "airflow")
