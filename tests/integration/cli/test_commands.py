"""Commands that need no Spark, on each database."""

import json

import pytest
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app


@pytest.fixture
def call(metastore_url):
    return lambda *arguments: CliRunner().invoke(app, ["--metastore-url", metastore_url, *arguments])


def test_what_goes_on_is_shown(call, client):
    with client.begin({"w.t": "insert"}, agent_info="the test") as txn:
        locks = call("show", "locks", "--format", "json")
        table = call("show", "transactions")
    assert [(r["database"], r["table"], r["type"], r["agent_info"]) for r in json.loads(locks.stdout)] == [
        ("w", "t", "shared_write", "the test")
    ]
    assert str(txn.txn_id) in table.stdout.splitlines()[2]
    assert table.stdout.endswith("(1 row)\n")
    assert call("show", "compactions", "--format", "json").stdout == "[]\n"


@pytest.mark.parametrize("service", ["initiator", "worker", "cleaner", "reaper", "history-purge"])
def test_maintenance_looks_once(call, service):
    done = call("maintenance", service, "--once")
    assert (done.exit_code, done.stdout) == (0, ""), done.output


def test_schema_is_checked(call):
    done = call("schema", "check")
    assert done.exit_code == 0
    assert "Hive schema 4.1.0, our tables version 1" in done.stderr
