"""The hook: from a connection to a client, a launcher and an engine."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Connection

from airflow_hive_acid.engine.applications.service import WithService
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.hooks.spark_launcher import AirflowSparkLauncher
from airflow_hive_acid.maintenance.worker.jobs import Application
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation, TxnState
from airflow_hive_acid.metastore.locks.interface import LockComponent


@pytest.fixture
def sqlite_connection(monkeypatch, tmp_path):
    """Defines the connection ``hive_acid_default`` over a SQLite file that need not exist."""

    def define(**extra):
        value = {
            "conn_type": "hive_acid",
            "host": str(tmp_path / "metastore.db"),
            "extra": {"warehouse": str(tmp_path / "warehouse"), **extra},
        }
        monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(value))

    define()
    return define


@pytest.fixture
def spark_connection(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local[1]"}')


def test_client_has_the_url_and_the_settings_of_the_connection(sqlite_connection, tmp_path):
    sqlite_connection(**{"hive.txn.timeout": "77s"})
    with HiveAcidHook() as hook:
        client = hook.get_conn()
        client.create_schema()
        assert client is hook.get_conn()
        assert client.settings.seconds("hive.txn.timeout") == 77
        assert client.open_txn() == 1
    assert (tmp_path / "metastore.db").is_file()


def test_airflow_makes_the_hook_from_the_connection(sqlite_connection):
    hook = Connection.get("hive_acid_default").get_hook()
    assert isinstance(hook, HiveAcidHook)
    assert hook.hive_acid_conn_id == "hive_acid_default"


def test_uri_hides_the_password_and_the_log_masks_it(monkeypatch):
    value = {
        "conn_type": "hive_acid",
        "host": "db",
        "login": "u",
        "password": "hunter2-of-the-hook",
        "schema": "m",
        "extra": {"dialect": "postgresql"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps(value))
    from airflow_hive_acid.airflow_versions import redact

    assert HiveAcidHook().get_uri() == "postgresql://u:***@db/m"
    assert "hunter2-of-the-hook" not in redact("the password is hunter2-of-the-hook")


def test_test_button_says_what_it_found(sqlite_connection, spark_connection, tmp_path):
    with HiveAcidHook() as hook:
        hook.get_conn().create_schema()
    ok, text = HiveAcidHook().test_connection()
    assert (ok, text) == (
        True,
        f"metastore of Hive 4.1.0 at sqlite:///{tmp_path}/metastore.db; Spark runs on local[1]; "
        f"the warehouse is file://{tmp_path}/warehouse",
    )


def test_test_button_says_what_is_missing(sqlite_connection, monkeypatch):
    ok, text = HiveAcidHook().test_connection()
    assert not ok
    assert "SchemaVersionError" in text or "MetastoreUnavailableError" in text
    with HiveAcidHook() as hook:
        hook.get_conn().create_schema()
    ok, text = HiveAcidHook().test_connection()
    assert not ok
    assert "no Spark connection 'spark_default'" in text


def test_test_button_reports_a_connection_that_does_not_exist():
    ok, text = HiveAcidHook("no_such_connection").test_connection()
    assert not ok
    assert "no_such_connection" in text


def test_launcher_takes_connection_conf_and_the_tasks_own_wins(sqlite_connection, spark_connection):
    sqlite_connection(**{"spark.executor.memory": "1g", "spark.a": "1", "spool": "/shared/spool"})
    launcher = HiveAcidHook(spark_conf={"spark.executor.memory": "4g"}).get_launcher()
    assert launcher == AirflowSparkLauncher(
        "spark_default", {"spark.executor.memory": "4g", "spark.a": "1"}, spool="file:///shared/spool"
    )


def test_spark_connection_of_the_task_wins(sqlite_connection, monkeypatch):
    sqlite_connection(spark_conn_id="from_connection")
    monkeypatch.setenv("AIRFLOW_CONN_MINE", '{"conn_type": "spark", "host": "local[1]"}')
    assert HiveAcidHook(spark_conn_id="mine").get_launcher().spark_conn_id == "mine"
    with pytest.raises(ConfigurationError, match="'from_connection'"):
        HiveAcidHook().get_launcher()


def test_engine_is_refused_before_anything_happens_without_a_spark_connection(sqlite_connection):
    with HiveAcidHook() as hook, pytest.raises(ConfigurationError, match="never guessed"):
        hook.get_engine()


def test_killed_task_leaves_neither_an_open_txn_nor_a_request_in_the_queue(sqlite_connection):
    """Time line:

    t1  somebody locks db.t exclusively
    t2  a task opens a txn and waits for db.t
    t3  Airflow kills the task; its txn is withdrawn
    t4  the other one lets go: nobody is in the queue, and other tasks' txns are as they were
    """
    with HiveAcidHook() as hook:
        client = hook.get_conn()
        client.create_schema()
        holder = client.lock(LockComponent("db", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)).lock_id
        mine = client.open_txn(agent_info="airflow/d/r/t#1")
        other = client.open_txn(agent_info="airflow/d/r/t#2")
        part = LockComponent("db", "t", None, LockType.SHARED_WRITE, Operation.UPDATE)
        assert client.lock(part, txn_id=mine).state is LockState.WAITING
        assert hook.withdraw("airflow/d/r/t#1", "killed by Airflow") == [mine]
        client.unlock(holder)
        assert client.show_locks() == []
        states = {txn.txn_id: (txn.state, txn.abort_reason) for txn in client.show_transactions()}
        assert states == {mine: (TxnState.ABORTED, "killed by Airflow"), other: (TxnState.OPEN, None)}
        assert hook.withdraw("airflow/d/r/t#1", "again") == []


@pytest.mark.parametrize(
    ("extra", "asked", "used"),
    [
        ({}, None, None),
        ({"spark_service": "etl"}, None, "etl"),
        ({"hive.acid.spark.service": "night"}, None, "night"),
        ({"spark_service": "etl", "hive.acid.spark.service": "night"}, None, "etl"),
        ({"spark_service": "etl"}, "adhoc", "adhoc"),
        ({"spark_service": "etl", "hive.acid.spark.service": "night"}, "", None),
    ],
)
def test_who_says_which_spark_service_is_used(sqlite_connection, spark_connection, extra, asked, used):
    sqlite_connection(spool="/spool", **extra)
    launcher = HiveAcidHook(spark_service=asked).job_launcher()
    if used is None:
        assert isinstance(launcher, AirflowSparkLauncher)
    else:
        assert isinstance(launcher, WithService)
        assert launcher.uri == f"file:///spool/services/{used}"


def test_jobs_act_for_the_connections_user_unless_they_name_one(sqlite_connection, spark_connection):
    sqlite_connection(proxy_user="owner")
    launcher = HiveAcidHook().get_launcher()
    assert launcher._for_user(Application()).user == "owner"
    assert launcher._for_user(Application(user="ann")).user == "ann"
    sqlite_connection()
    assert HiveAcidHook().get_launcher()._for_user(Application()).user is None
