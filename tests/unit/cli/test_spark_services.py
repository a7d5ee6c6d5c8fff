"""``hive-acid show spark-services``."""

import json
import os
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from airflow_hive_acid import __version__
from airflow_hive_acid.cli.commands import show
from airflow_hive_acid.cli.main import app
from airflow_hive_acid.format.services import Caller, ServiceState, birth, place

STATE = ServiceState(
    incarnation="one", beat=1, application_id="app-1", package=__version__,
    python=f"{sys.version_info[0]}.{sys.version_info[1]}", spark="4.3.0", place=place(), pid=os.getpid(), started=5,
    places=2, max_callers=3, idle_seconds=0.0,
    callers=(Caller("dag/run/a", "INSERT"), Caller("dag/run/b", "UPDATE", True)), birth=birth(os.getpid()) or "",
)  # fmt: skip


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.setattr(show, "_LOOK_AGAIN_SECONDS", 0.01)

    def rows(**states):
        for name, state in states.items():
            (tmp_path / "services" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "services" / name / "state.json").write_text(state.to_json())
        done = CliRunner().invoke(app, ["show", "spark-services", "--spool", tmp_path.as_uri(), "--format", "json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return rows


def test_a_row_for_each_caller_and_one_for_who_has_none(rows):
    found = rows(etl=STATE, idle=replace(STATE, callers=(), idle_seconds=7.5))
    assert [(r["service"], r["caller"], r["statement"], r["turn"], r["idle_seconds"]) for r in found] == [
        ("etl", "dag/run/a", "INSERT", "runs", 0.0),
        ("etl", "dag/run/b", "UPDATE", "waits", 0.0),
        ("idle", "", "", "", 7.5),
    ]
    assert {r["state"] for r in found} == {"serves"}
    assert found[0]["versions"].startswith(f"{__version__}, Spark 4.3.0, Python ")


def test_why_one_is_not_used(rows):
    found = rows(
        a=replace(STATE, callers=(), package="0.1"),
        b=replace(STATE, callers=(), birth="1"),
        c=replace(STATE, callers=(), place="elsewhere"),  # and its beat stands still
    )
    assert [r["state"] for r in found] == [
        f"it is of airflow-hive-acid 0.1, and this is {__version__}",
        f"its process {os.getpid()} has ended",
        "it has given no sign of life for 0 s",
    ]


def test_none(rows, tmp_path):
    assert rows() == []
    done = CliRunner().invoke(app, ["show", "spark-services", "--spool", tmp_path.as_uri()])
    assert f"there is no Spark service in {tmp_path.as_uri()}/services" in done.stderr
