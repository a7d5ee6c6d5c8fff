"""A real Hive 3.1.3 and our client on one metastore of its own schema."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.interop.hive3 import hive3
from tests.interop.oracle import oracle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def hive3_postgres() -> Iterator[oracle.Postgres]:
    """A PostgreSQL that Hive can reach; :file:`build/hive3` is up to date."""
    hive3.build()
    postgres = oracle.Postgres.start()
    yield postgres
    postgres.stop()


@pytest.fixture(scope="session")
def hive3_mysql() -> Iterator[str]:
    """A MySQL 8 that Hive can reach."""
    with hive3.mysql() as url:
        yield url


@pytest.fixture(scope="module")
def hive3_database() -> str:
    """Where the metastore of a module is; modules that are for several databases override it."""
    return "postgresql"


@pytest.fixture(scope="module")
def hive(
    hive3_database: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[hive3.Hive3]:
    """A running Hive 3.1.3 on a fresh metastore."""
    name = f"hive_three_{next(_numbers)}"
    if hive3_database == "mysql":
        url = hive3.create_mysql_metastore(request.getfixturevalue("hive3_mysql"), name)
    else:
        url = hive3.create_metastore(request.getfixturevalue("hive3_postgres"), name)
    with hive3.Hive3(url, tmp_path_factory.mktemp("hive3") / "warehouse") as running:
        yield running


@pytest.fixture(scope="module")
def client(hive: hive3.Hive3) -> Iterator[MetastoreClient]:
    """Our client on the metastore that Hive is using at the same moment, with our tables beside Hive's."""
    from airflow_hive_acid.metastore import MetastoreClient

    with MetastoreClient(hive.metastore_url) as made:
        made.upgrade_schema()
        yield made


@pytest.fixture(scope="module")
def engine(hive: hive3.Hive3, client: MetastoreClient) -> Iterator[Engine]:
    """Our engine on Hive's metastore and warehouse."""
    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher

    with Engine(client, SparkSubmitLauncher("local[2]"), hive.warehouse.as_uri()) as made:
        yield made
