"""Where the command line works, from options, environment and defaults."""

from pathlib import Path

import pytest
import typer

from airflow_hive_acid.cli.session import CliSession, as_uri, home, parse_pairs
from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError


def test_home_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("HIVE_ACID_HOME", str(tmp_path))
    assert home() == tmp_path
    assert str(CliSession().url) == f"sqlite:///{tmp_path}/metastore.db"


def test_home_may_have_any_name(monkeypatch, tmp_path):
    """What means something in a URL is a letter like any other in the name of a directory."""
    monkeypatch.setenv("HIVE_ACID_HOME", str(tmp_path / "50% of ä?b#c@d"))
    session = CliSession()
    assert session.client().catalog.warehouse() == f"file:{tmp_path}/50% of ä?b#c@d/warehouse"
    session.close()
    assert (tmp_path / "50% of ä?b#c@d" / "metastore.db").stat().st_size > 0


def test_home_that_cannot_be_is_named_with_what_to_do(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HIVE_ACID_HOME", str(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match=rf"{tmp_path}/file.* cannot be made .*name another file"):
        CliSession().create_schema()


def test_home_is_in_the_users_directory_by_default(monkeypatch):
    monkeypatch.delenv("HIVE_ACID_HOME", raising=False)
    assert home() == Path.home() / ".hive-acid"


def test_options_win_over_the_home_directory():
    assert CliSession("postgresql://u@h/db").url == "postgresql://u@h/db"


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
    with pytest.raises(typer.BadParameter, match="'nonsense' is no setting; write --set key=value"):
        parse_pairs("--set", ["nonsense"])


def test_new_embedded_metastore_is_created_and_says_so(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HIVE_ACID_HOME", str(tmp_path))
    session = CliSession()
    assert session.client().catalog.warehouse() == f"file:{tmp_path}/warehouse"
    session.close()
    output = capsys.readouterr()
    assert output.err == (
        f"the metastore sqlite:///{tmp_path}/metastore.db is ready; warehouse file:{tmp_path}/warehouse\n"
    )
    assert output.out == ""
    again = CliSession()
    again.client()
    again.close()
    assert capsys.readouterr().err == ""


def test_other_warehouse_than_the_metastores_is_not_used_silently(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/m.db"
    first = CliSession(url, str(tmp_path / "one"))
    first.client()
    first.close()
    capsys.readouterr()
    second = CliSession(url, str(tmp_path / "two"))
    with second.engine():
        second.close()
    assert f"is file:{tmp_path}/one; --warehouse {tmp_path}/two is not used" in capsys.readouterr().err


def test_settings_come_from_hive_site_and_from_the_command_line(tmp_path):
    site = tmp_path / "hive-site.xml"
    site.write_text(
        "<configuration><property><name>hive.txn.timeout</name><value>77s</value></property>"
        "<property><name>hive.lock.numretries</name><value>5</value></property></configuration>"
    )
    session = CliSession(hive_site=site, hive_settings={"hive.lock.numretries": "3"})
    assert session.settings().seconds("hive.txn.timeout") == 77
    assert session.settings().integer("hive.lock.numretries") == 3
    with pytest.raises(InvalidArgumentsError, match=r"--set hive\.typo: .* no such setting; 'hive-acid settings'"):
        CliSession(hive_settings={"hive.typo": "1"}).settings()
    with pytest.raises(InvalidArgumentsError, match=r"did you mean hive\.txn\.timeout\?"):
        CliSession(hive_settings={"hive.txn.timeouts": "1s"}).settings()
    with pytest.raises(InvalidArgumentsError, match=f"^--hive-site {tmp_path}/none cannot be read: No such file"):
        CliSession(hive_site=tmp_path / "none").settings()
