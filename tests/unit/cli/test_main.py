"""The command line's shape: options, sub-commands, exit codes."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from airflow_hive_acid import __version__
from airflow_hive_acid.cli.main import app, main
from airflow_hive_acid.errors import InvalidArgumentsError


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HIVE_ACID_HOME", str(tmp_path))
    for name in ("HIVE_ACID_METASTORE_URL", "HIVE_ACID_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["sql"], ["sql", "-e", "SELECT 1", "-f", "x"], ["nonsense"], ["show", "everything"], ["schema", "drop"],
        ["maintenance", "worker", "--limit", "0"], ["--set", "nonsense", "show", "locks"],
        ["sql", "-e", "SELECT 1", "--warehouse", "/w"],
    ],
)  # fmt: skip
def test_wrong_command_line_ends_with_2(arguments):
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (2, "")


def test_version_is_printed():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"hive-acid {__version__}\n"


def test_script_without_rows_prints_nothing():
    done = CliRunner().invoke(app, ["sql", "-e", "CREATE DATABASE w", "--format", "json"])
    assert (done.exit_code, done.stdout) == (0, "")
    assert "create database: done" in done.stderr


def test_file_that_is_missing_is_named():
    done = CliRunner().invoke(app, ["sql", "-f", "/nowhere.sql"])
    assert isinstance(done.exception, InvalidArgumentsError)
    assert "/nowhere.sql cannot be read: No such file" in str(done.exception)


@pytest.mark.parametrize(
    ("script", "message"),
    [("GRANT SELECT ON t TO x", "GRANT"), ("BEGIN; SELECT 1", "BEGIN without a COMMIT"), ("DROP TABLE w.t", "w")],
)
def test_failure_ends_with_1_and_its_text(monkeypatch, capsys, script, message):
    monkeypatch.setattr("sys.argv", ["hive-acid", "sql", "-e", script])
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "error: " in output.err
    assert message in output.err


@pytest.mark.parametrize("ours", [True, False])
def test_storage_without_credentials_is_named_without_a_traceback(monkeypatch, capsys, ours):
    """What is not known to be about the storage keeps its traceback: it is a fault of ours."""
    kind = type("NoCredentialsError", (Exception,), {"__module__": "elsewhere" if ours else "botocore.exceptions"})

    def fail(*_arguments, **_options):
        raise kind("Unable to locate credentials")

    monkeypatch.setattr("airflow_hive_acid.cli.session.CliSession.client", fail)
    monkeypatch.setattr("sys.argv", ["hive-acid", "schema", "check"])
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr("airflow_hive_acid.cli.session.CliSession.bare_client", fail)
    with pytest.raises(kind if ours else SystemExit):
        main()
    said = "the storage cannot be used: Unable to locate credentials (NoCredentialsError)"
    assert (said in capsys.readouterr().err) is not ours


def test_directory_that_cannot_be_written_is_named(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").touch()
    arguments = ["--warehouse", str(tmp_path / "file"), "sql", "-e", "CREATE DATABASE w"]
    monkeypatch.setattr("sys.argv", ["hive-acid", *arguments])
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert f"{tmp_path}/file" in capsys.readouterr().err


def test_command_that_needs_no_sql_does_not_pay_for_it():
    """Nor for Airflow or Spark, which no command imports."""
    code = (
        "import sys, airflow_hive_acid.cli.main, airflow_hive_acid.engine.queries.shows, airflow_hive_acid.metastore;"
        "print(sorted({'airflow', 'pyspark', 'sqlglot', 'fsspec', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_options_that_say_where_stand_before_the_command(tmp_path):
    url = f"sqlite:///{tmp_path}/other.db"
    done = CliRunner().invoke(app, ["--metastore-url", url, "--warehouse", str(tmp_path / "w"), "schema", "create"])
    assert done.exit_code == 0
    assert f"the metastore {url} is ready; warehouse file:{tmp_path}/w" in done.stderr


def test_settings_are_printed_with_their_source():
    done = CliRunner().invoke(app, ["--set", "hive.txn.timeout=77s", "settings", "--format", "json"])
    found = {row["setting"]: row for row in json.loads(done.stdout)}
    assert (found["hive.txn.timeout"]["value"], found["hive.txn.timeout"]["from"]) == ("77s", "request properties")
    assert found["hive.support.concurrency"]["from"] == "default"
    assert found["hive.support.concurrency"]["hive_default"] == "false"


def test_setting_that_is_unusable_is_named():
    done = CliRunner().invoke(app, ["--set", "hive.txn.timeout=soon", "show", "locks"])
    assert isinstance(done.exception, InvalidArgumentsError)
    assert "hive.txn.timeout" in str(done.exception)
