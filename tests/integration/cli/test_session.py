"""Which metastores the command line creates by itself."""

import pytest

from airflow_hive_acid.cli.session import CliSession
from airflow_hive_acid.errors import SchemaVersionError
from airflow_hive_acid.metastore.setup.schema import EXTENSION_VERSION


@pytest.fixture
def session(database_url):
    session = CliSession(database_url)
    yield session
    session.close()


def test_only_an_embedded_metastore_is_created_by_the_way(session, backend, monkeypatch, tmp_path):
    monkeypatch.setenv("HIVE_ACID_HOME", str(tmp_path))
    if backend == "sqlite":
        assert session.client().check_schema().extension_version == EXTENSION_VERSION
    else:
        with pytest.raises(SchemaVersionError, match="schema create"):
            session.client()


def test_only_an_embedded_metastore_gets_a_warehouse_untold(session, backend, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("HIVE_ACID_HOME", str(tmp_path))
    session.create_schema()
    if backend == "sqlite":
        assert session.client().catalog.warehouse() == f"file:{tmp_path}/warehouse"
    else:
        assert "give --warehouse" in capsys.readouterr().err
        assert session.client().catalog.warehouse() is None


def test_schema_is_created_only_once(session, capsys):
    session.warehouse = "/somewhere"
    session.create_schema()
    session.create_schema()
    assert session.client().catalog.warehouse() == "file:/somewhere"
