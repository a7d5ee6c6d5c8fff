"""The demo starts clean, says so, and only ever touches its own."""

from __future__ import annotations

import json
import logging

import pytest

from airflow_hive_acid.dag_factories.demo import data, steps
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition

CONN = "hive_acid_default"


@pytest.fixture(autouse=True)
def connection(monkeypatch, tmp_path):
    """A new SQLite metastore and warehouse; nothing is unpacked."""
    extra = {"warehouse": str(tmp_path / "warehouse")}
    value = {"conn_type": "hive_acid", "host": str(tmp_path / "metastore.db"), "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(value))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')

    def unpack(directory):
        directory.mkdir()
        files = data.DemoFiles.below(directory)
        files.flights.write_text("year\n")
        return files

    monkeypatch.setattr(data, "unpack", unpack)


@pytest.fixture
def prepare(tmp_path, caplog):
    """Runs the step and returns what it said."""
    caplog.set_level(logging.INFO, logger="airflow_hive_acid.demo")

    def run() -> str:
        caplog.clear()
        steps.prepare(CONN, str(tmp_path / f"data-{len(list(tmp_path.iterdir()))}"))
        return caplog.text

    return run


def create_flights(properties: dict[str, str]) -> str:
    """A table demo.flights with a file in it, as an earlier run would have left it; returns its location."""
    with HiveAcidHook(CONN) as hook:
        catalog = hook.get_conn().catalog
        catalog.set_warehouse(hook.warehouse)
        catalog.create_database("demo", if_not_exists=True)
        table = catalog.create_table(
            TableDefinition(db="demo", name="flights", columns=(Column("a", "int"),), properties=properties)
        )
        hook.get_filesystem().make_directory(table.location)
        hook.get_filesystem().write_text(f"{table.location}/bucket_00000", "x")
        return table.location


def test_first_run_starts_clean_and_says_so(prepare):
    assert "no earlier demo was here: this run starts clean" in prepare()


def test_later_run_drops_the_tables_of_the_earlier_one_and_says_so(prepare):
    prepare()
    location = create_flights({"transactional": "true", steps.MARK: "true"})
    assert "an earlier demo was here: its tables are dropped, this run starts clean" in prepare()
    with HiveAcidHook(CONN) as hook:
        assert hook.get_conn().catalog.find_tables(["demo.flights"]) == {}
        assert not hook.get_filesystem().exists(location)


def test_reader_left_behind_by_a_run_that_was_killed_is_ended(prepare):
    """Time line:

    t1  a demo opens its reader and is killed
    t2  the next run wants to drop the table that the reader has locked: the reader is ended, the run goes on
    """
    prepare()
    create_flights({"transactional": "true", steps.MARK: "true"})
    with HiveAcidHook(CONN) as hook:
        client = hook.get_conn()
        left_behind = client.open_snapshot(["demo.flights"], agent_info=steps.AGENT)
        left_behind.release()
        other = client.open_txn(agent_info="somebody else")
    prepare()
    with HiveAcidHook(CONN) as hook:
        states = {txn.txn_id: txn.state.name for txn in hook.get_conn().show_transactions()}
    assert states[left_behind.txn_id] == "ABORTED"
    assert states[other] == "OPEN"


def test_table_of_somebody_else_is_refused_and_left_alone(prepare):
    prepare()
    location = create_flights({"transactional": "true"})
    with pytest.raises(ConfigurationError, match=r"demo\.flights exists and is not the demo's"):
        prepare()
    with HiveAcidHook(CONN) as hook:
        assert hook.get_filesystem().exists(f"{location}/bucket_00000")


def test_files_of_somebody_else_are_refused_and_left_alone(prepare, tmp_path):
    foreign = tmp_path / "warehouse" / "demo.db" / "planes"
    foreign.mkdir(parents=True)
    (foreign / "thesis.orc").write_text("x")
    with pytest.raises(ConfigurationError, match=r"planes is not empty \(it holds thesis\.orc\)"):
        prepare()
    assert (foreign / "thesis.orc").exists()


def test_missing_java_is_named_before_anything_is_made(prepare, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(ConfigurationError, match=r"has no bin/java\. Spark needs Java 17 or newer"):
        prepare()
    assert not (tmp_path / "metastore.db").exists()
