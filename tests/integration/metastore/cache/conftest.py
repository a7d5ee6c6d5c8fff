"""A reader through a cache whose follower looks when a test says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.cache.cache import CachedCatalog
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog.values.model import Partition, Table

T, X = "db.t", "db.x"


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Reader:
    """Reads through a cache as a query does: ids and lists first, in one round trip."""

    def __init__(self, client: MetastoreClient, cache: CachedCatalog) -> None:
        self.client = client
        self.cache = cache

    def table(self, name: str = T) -> Table:
        return self.cache.view([name]).get_table(name)

    def partitions(self, wanted: Any = None, name: str = T) -> list[Partition]:
        return self.cache.view([name]).list_partitions(name, wanted)

    def follow(self) -> None:
        self.cache.follower.look()

    def counted(self) -> dict[str, int]:
        """How the reads since the last look were answered."""
        found = {k: v for k, v in self.cache._counts.items() if v}
        self.cache._counts = dict.fromkeys(self.cache._counts, 0)
        return {verdict.value: number for verdict, number in found.items()}


@pytest.fixture
def client(client: MetastoreClient) -> MetastoreClient:
    client.catalog.set_warehouse("file:/wh")
    client.catalog.create_database("db")
    client.catalog.create_table(TableDefinition("db", "t", (Column("a", "int"),), (Column("p", "int"),)))
    client.catalog.create_table(TableDefinition("db", "x", (Column("a", "int"),), external=True))
    return client


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reader(client: MetastoreClient, clock: Clock) -> Iterator[Reader]:
    """A cache whose follower looks when a test says so, with both tables in memory."""
    cache = CachedCatalog(client, client.catalog, clock=clock)
    reader = Reader(client, cache)
    reader.follow()
    reader.table(T)
    reader.table(X)
    reader.counted()
    yield reader
    cache.close()
