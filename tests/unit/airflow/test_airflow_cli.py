"""``airflow hive-acid``: the commands on an Airflow connection."""

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from airflow_hive_acid import airflow_cli, airflow_session
from airflow_hive_acid.cli.main import app
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.metastore import MetastoreClient

# In Airflow 3.1 the words stand for the command of this package alone (docs/reference/compatibility.md).
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.skipif(
        importlib.util.find_spec("airflow.sdk.providers_manager_runtime") is None,
        reason="Airflow takes commands from providers since 3.2",
    ),
]


@pytest.fixture(autouse=True)
def connections(monkeypatch, tmp_path):
    extra = {"warehouse": str(tmp_path / "w"), "hive.txn.timeout": "77s", "spark_conn_id": "nowhere"}
    connection = {"conn_type": "hive_acid", "host": str(tmp_path / "metastore.db"), "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    # Restored afterwards: the command sets it.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    monkeypatch.setenv("HIVE_ACID_METASTORE_URL", "postgresql://nobody@127.0.0.1:1/other")
    monkeypatch.setattr("airflow_hive_acid.airflow_session.configure_logging", lambda **_: None)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)


def run(*arguments, conn_id="lake"):
    """The exit code."""
    with pytest.raises(SystemExit) as ended:
        airflow_session.run(argparse.Namespace(conn_id=conn_id, arguments=list(arguments)))
    return ended.value.code


def test_the_connection_says_where(capsys, tmp_path):
    assert run("sql", "-e", "CREATE DATABASE d") == 0
    assert (tmp_path / "w" / "d.db").is_dir()
    assert f"metastore.db is ready; warehouse file://{tmp_path}/w" in capsys.readouterr().err
    assert run("--set", "hive.lock.numretries=3", "settings", "--format", "json") == 0
    found = {row["setting"]: (row["value"], row["from"]) for row in json.loads(capsys.readouterr().out)}
    assert found["hive.txn.timeout"] == ("77s", "connection extra")
    assert found["hive.lock.numretries"] == ("3", "request properties")


def test_the_help_names_every_verb():
    verbs = typer.main.get_command(app).commands
    named = re.findall(r"[a-z]+", airflow_cli._ARGUMENTS.kwargs["help"].partition(" with its options")[0])
    assert set(named) - {"or"} == set(verbs)


def test_what_cannot_be_used_is_named(capsys):
    assert run("show", "locks", conn_id="nope") == 1
    assert "Airflow knows no connection 'nope'" in capsys.readouterr().err
    assert run("--warehouse", "/elsewhere", "show", "locks") == 2
    assert "--warehouse: the Airflow connection says that" in " ".join(capsys.readouterr().err.split())
    assert run("sql", "-e", "SELECT 1") == 1
    assert "there is no Spark connection 'nowhere'" in capsys.readouterr().err


def test_airflow_offers_the_command(tmp_path):
    """As a process: Airflow's own parser finds it through the provider information. Its log stays out of the rows."""
    with MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}") as client:
        client.create_schema()
    program = Path(sys.executable).parent / "airflow"
    done = subprocess.run(
        [str(program), "hive-acid", "--conn-id", "lake", "show", "transactions", "--format", "json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_the_connection_is_looked_up_once(monkeypatch):
    session = airflow_session.ConnectionSession(connection="lake")
    assert session.hook is session.hook
    with pytest.raises(ConfigurationError, match="airflow connections add nope"):
        airflow_session.ConnectionSession(connection="nope").settings()
