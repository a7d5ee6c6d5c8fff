"""How compaction jobs are submitted: Hive's name, the queue, on whose behalf; nothing secret where others can look."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from airflow_hive_acid.engine.applications.launcher import SparkSubmitLauncher
from airflow_hive_acid.engine.applications.spark_conf import with_application
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.hooks import spark_launcher
from airflow_hive_acid.hooks.spark_launcher import AirflowSparkLauncher, spark_target
from airflow_hive_acid.maintenance.worker.jobs import Application

COMPACTION = Application(
    "host1-compactor-sales.t.day=1", {"spark.yarn.queue": "etl", "spark.executor.memory": "3072m"}, "ann"
)
KEYTAB = b"the-secret-of-the-keytab"


@pytest.fixture
def spark(monkeypatch):
    """A Spark connection on YARN with a queue, and a keytab for its principal."""
    extra = {"queue": "default", "keytab": base64.b64encode(KEYTAB).decode(), "principal": "airflow/host1@REALM"}
    fields = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps(fields))
    return AirflowSparkLauncher("spark_test", conf={"spark.hadoop.fs.s3a.secret.key": "hunter2"})


def command_of(launcher, application, tmp_path):
    """What spark-submit is called with, and the variables it gets besides."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=stat.S_IRWXU)
    hook = launcher._hook(
        spark_target("spark_test"), scratch, ["--spool", "file:///spool"], application, load_defaults=True
    )
    variables = hook.take_ticket(scratch) if application.user else {}
    return hook._build_spark_submit_command("/jobs/session.py"), variables


@pytest.fixture
def kinit(monkeypatch, tmp_path):
    """A kinit that writes down its arguments and the ticket cache it was told."""
    program = tmp_path / "kinit"
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" "$KRB5CCNAME" > {tmp_path}/said\n'
        f'[ -e {tmp_path}/refuse ] && echo "kinit: Preauthentication failed" >&2 && exit 1\nexit 0\n'
    )
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_compaction_is_named_queued_and_done_on_behalf_of_the_owner(spark, kinit, tmp_path):
    """Spark takes a keytab or somebody to act for, not both: the ticket is taken before, into a cache of its own."""
    command, variables = command_of(spark, COMPACTION, tmp_path)
    assert command[command.index("--name") + 1] == "host1-compactor-sales.t.day=1"
    assert command[command.index("--queue") + 1] == "etl"
    assert command[command.index("--proxy-user") + 1] == "ann"
    assert "--keytab" not in command
    assert "--principal" not in command
    assert variables == {"KRB5CCNAME": f"FILE:{tmp_path}/scratch/krb5cc"}
    *arguments, cache = (kinit / "said").read_text().splitlines()
    assert arguments[:3] == ["-k", "-t", arguments[2]]
    assert arguments[3:] == ["--", "airflow/host1@REALM"]
    assert Path(arguments[2]).read_bytes() == KEYTAB
    assert Path(arguments[2]).stat().st_mode & 0o777 == 0o600
    assert cache == variables["KRB5CCNAME"]
    seen = " ".join(command) + (kinit / "said").read_text()
    assert "hunter2" not in seen
    assert KEYTAB.decode() not in seen


def test_without_a_user_to_act_for_spark_gets_the_keytab_itself(spark, tmp_path):
    command, variables = command_of(spark, Application("host1-compactor-sales.t"), tmp_path)
    assert command[command.index("--principal") + 1] == "airflow/host1@REALM"
    assert Path(command[command.index("--keytab") + 1]).read_bytes() == KEYTAB
    assert command[command.index("--queue") + 1] == "default"
    assert "--proxy-user" not in command
    assert variables == {}


def test_login_that_is_refused_says_so_without_the_keytab(spark, kinit, tmp_path):
    (kinit / "refuse").touch()
    with pytest.raises(ConfigurationError, match=r"kinit for airflow/host1@REALM .*Preauthentication failed") as caught:
        command_of(spark, COMPACTION, tmp_path)
    assert KEYTAB.decode() not in str(caught.value)


def test_login_without_kinit_says_what_is_missing(spark, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="krb5-user"):
        command_of(spark, COMPACTION, tmp_path)


def test_keytab_that_is_none_is_refused_by_the_connections_name(spark, monkeypatch, tmp_path):
    fields = {"conn_type": "spark", "host": "yarn", "extra": {"keytab": "***", "principal": "a@R"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_TEST", json.dumps(fields))
    with pytest.raises(ConfigurationError, match=r"Spark connection 'spark_test' is no base64"):
        command_of(spark, COMPACTION, tmp_path)


def test_statement_keeps_the_name_and_queue_it_had(spark, tmp_path):
    command, _ = command_of(spark, Application(), tmp_path)
    assert command[command.index("--name") + 1] == "hive-acid"


def test_command_line_names_and_proxies_as_the_dag_does(tmp_path):
    launcher = SparkSubmitLauncher("yarn", conf={"spark.hadoop.fs.s3a.secret.key": "hunter2"})
    command = launcher._command("spark-submit", tmp_path / "p", COMPACTION, load_defaults=True)
    assert command[command.index("--name") + 1] == COMPACTION.name
    assert command[command.index("--proxy-user") + 1] == "ann"
    assert "hunter2" not in " ".join(command)
    assert "--proxy-user" not in launcher._command("spark-submit", tmp_path / "p", Application(), load_defaults=True)


def test_memory_of_executors_is_the_drivers_where_there_are_none():
    asked = Application(conf={"spark.executor.memory": "3072m"})
    assert with_application("local[2]", {"spark.driver.memory": "1g"}, asked)["spark.driver.memory"] == "3072m"
    assert with_application("yarn", {"spark.driver.memory": "1g"}, asked)["spark.driver.memory"] == "1g"


def test_shared_application_is_another_one_for_another_user_or_queue(spark, monkeypatch):
    keys = []
    monkeypatch.setattr(spark_launcher.shared_spark, "take", lambda key, start: keys.append(key))
    sharing = AirflowSparkLauncher("spark_test", share=True)
    for application in (Application(), Application("host1-compactor-a.b"), COMPACTION):
        sharing.start(application)
    assert keys[0] == keys[1] != keys[2]
