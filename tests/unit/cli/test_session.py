"""Where the command line works, from options, environment and defaults."""

from pathlib import Path

import pytest

from airflow_hive_acid.cli.session import CliSession, as_uri, home, parse_pairs
from airflow_hive_acid.errors import InvalidArgumentsError


def test_home_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HIVE_ACID_HOME", str(tmp_path))
    assert home() == tmp_path
    assert CliSession().url == f"sqlite:///{tmp_path}/metastore.db"
    assert CliSession().warehouse_uri() == f"file:{tmp_path}/warehouse"


def test_home_is_in_the_users_directory_by_default(monkeypatch):
    monkeypatch.delenv("HIVE_ACID_HOME", raising=False)
    assert home() == Path.home() / ".hive-acid"


def test_options_win_over_the_home_directory():
    session = CliSession("postgresql://u@h/db", "hdfs://nn/warehouse/")
    assert session.url == "postgresql://u@h/db"
    assert session.warehouse_uri() == "hdfs://nn/warehouse"


@pytest.mark.parametrize(
    ("given", "uri"),
    [("/a/b", "file:/a/b"), ("file:///a/b", "file:///a/b"), ("s3a://bucket/w/", "s3a://bucket/w")],
)
def test_warehouse_becomes_a_uri(given, uri):
    assert as_uri(given) == uri


def test_relative_warehouse_is_below_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert as_uri("w/x:y") == f"file:{tmp_path}/w/x:y"


def test_settings_are_pairs():
    assert parse_pairs("--set", ["a=b", "c=d=e", "f="]) == {"a": "b", "c": "d=e", "f": ""}
    with pytest.raises(InvalidArgumentsError, match="'nonsense' is no setting; write --set key=value"):
        parse_pairs("--set", ["nonsense"])
