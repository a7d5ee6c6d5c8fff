"""The helpers for tests of users: they see what is there, and say so when it is something else."""

import os

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.testing import HiveAcidTestbed, assert_aborted, assert_at_rest, assert_committed, assert_rows

pytest_plugins = ["airflow_hive_acid.testing.pytest_plugin"]


def test_connections_name_the_testbed_while_it_is_open(tmp_path):
    before = os.environ.get("AIRFLOW_CONN_HIVE_ACID_DEFAULT")
    with HiveAcidTestbed(tmp_path / "new" / "place", settings={"hive.txn.timeout": "60s"}) as testbed:
        connection = os.environ["AIRFLOW_CONN_HIVE_ACID_DEFAULT"]
        assert str(tmp_path / "new" / "place" / "metastore.db") in connection
        assert '"hive.txn.timeout": "60s"' in connection
        assert "local[2]" in os.environ["AIRFLOW_CONN_SPARK_DEFAULT"]
        assert testbed.client.catalog.warehouse() == f"file:{tmp_path}/new/place/warehouse"
    assert os.environ.get("AIRFLOW_CONN_HIVE_ACID_DEFAULT") == before


def test_catalog_statements_need_no_spark(hive_acid):
    hive_acid.sql("CREATE DATABASE w; CREATE TABLE w.t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    assert hive_acid.client.catalog.get_table("w.t").is_transactional


def test_open_txns_and_locks_are_named(hive_acid):
    assert_at_rest(hive_acid)
    txn = hive_acid.client.begin({"w.t": "insert"}, agent_info="somebody")
    with pytest.raises(AssertionError, match=rf"open txns: {txn.txn_id} \(somebody\)"):
        assert_at_rest(hive_acid)
    with pytest.raises(AssertionError, match=rf"txn {txn.txn_id} is open; expected committed"):
        assert_committed(hive_acid, {"statements": [{"txn_id": txn.txn_id}, {"txn_id": None}]})
    txn.commit()
    assert_at_rest(hive_acid)
    assert_committed(hive_acid, {"statements": [{"txn_id": txn.txn_id}]})
    with pytest.raises(AssertionError, match="is committed; expected aborted"):
        assert_aborted(hive_acid, txn.txn_id)
    with pytest.raises(AssertionError, match="names no txn"):
        assert_committed(hive_acid, {"statements": [{"txn_id": None}]})


def test_rows_are_compared_in_order_only_where_the_query_has_one(hive_acid, monkeypatch):
    columns = (Column("a", "int"), Column("b", "string"))
    monkeypatch.setattr(Engine, "query", lambda self, sql: Rows(columns, [[2, "y"], [1, None]]))
    assert_rows(hive_acid, "SELECT a, b FROM w.t", [[1, None], [2, "y"]])
    assert_rows(hive_acid, "SELECT a, b FROM w.t", [{"a": 1, "b": None}, {"a": 2, "b": "y"}])
    assert_rows(hive_acid, "SELECT a, b FROM w.t ORDER BY a DESC", [(2, "y"), (1, None)])
    with pytest.raises(AssertionError, match=r"gives    \[\[2, 'y'\], \[1, None\]\]"):
        assert_rows(hive_acid, "SELECT a, b FROM w.t ORDER BY a DESC", [[1, None], [2, "y"]])
    with pytest.raises(AssertionError, match=r"expected \[\]"):
        assert_rows(hive_acid, "SELECT a, b FROM w.t", [])
