"""A real Apache Hive for the interop tests: built once, one PostgreSQL per session, one Hive per test module."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from .hive import Hive
from .oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def hive_postgres() -> Iterator[oracle.Postgres]:
    """A PostgreSQL that Hive can reach; :file:`build/oracle` is up to date."""
    oracle.build()
    postgres = oracle.Postgres.start()
    yield postgres
    postgres.stop()


@pytest.fixture(scope="session")
def hive_schema(hive_postgres: oracle.Postgres) -> str:
    """Name of a database with the schema of Hive's own scripts, to be copied."""
    hive_postgres.create_hive_metastore("hive_schema")
    return "hive_schema"


@pytest.fixture(scope="module")
def hive_metastore_url(hive_postgres: oracle.Postgres, hive_schema: str) -> str:
    """URL of a fresh metastore made by Hive's own schema."""
    return hive_postgres.create_database(f"metastore_{next(_numbers)}", template=hive_schema)


@pytest.fixture(scope="module")
def hive(hive_metastore_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """A running Hive on a fresh metastore; the first statement of a module pays for its start."""
    hive = Hive(hive_metastore_url, tmp_path_factory.mktemp("hive") / "warehouse").start()
    yield hive
    hive.close()


@pytest.fixture
def hive_database(hive: Hive) -> Iterator[str]:
    """A database of Hive's own making for one test."""
    name = f"d{next(_numbers)}"
    hive.run(f"create database {name}")
    yield name
    hive.rollback_all()


@pytest.fixture(scope="module")
def client(hive: Hive) -> Iterator[MetastoreClient]:
    """Our client on the metastore that Hive is using at the same moment."""
    from airflow_hive_acid.metastore import MetastoreClient

    with MetastoreClient(hive.metastore_url) as client:
        yield client


@pytest.fixture(scope="module")
def engine(hive: Hive, client: MetastoreClient) -> Iterator[Engine]:
    """Our engine on Hive's metastore and warehouse."""
    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher

    client.upgrade_schema()
    with Engine(client, SparkSubmitLauncher("local[2]"), hive.warehouse.as_uri()) as engine:
        yield engine
