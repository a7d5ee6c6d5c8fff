"""The demo as a newcomer runs it: one command, real flights, checked against pandas; and a second time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.story("make demo"), pytest.mark.timeout(1500)]

SCRIPT = Path(__file__).parents[3] / "scripts" / "run_dag.py"


def run_demo(state: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "hive_acid_demo", "--state", str(state)],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )


def test_demo_succeeds_tells_its_story_and_its_tables_equal_what_pandas_computed(tmp_path):
    done = run_demo(tmp_path / "state")
    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        "this run starts clean",
        "336,776 inserted",
        "WriteConflictError",
        "demo.flights: 333,474 rows, the same on both sides",
        "the reader from before: 336,776 flights",
        "a reader of now: 333,474 flights",
        "after everything: 333,474 flights",
        "where to go next",
        "hive_acid_demo succeeded in",
    ):
        assert words in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_demo_without_java_ends_with_code_1_and_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    done = run_demo(tmp_path / "state")
    assert done.returncode == 1
    assert "prepare FAILED  ConfigurationError: JAVA_HOME is" in done.stderr
    assert "apt-get install openjdk-17-jre-headless" in done.stderr
    assert "Traceback" not in done.stderr
    assert "hive_acid_demo failed after" in done.stderr
