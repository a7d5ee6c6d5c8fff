"""Two sites, a primary and a replica, each with a metastore and a warehouse of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.replication.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _site(url: str, warehouse: Path, name: str) -> Iterator[Site]:
    from airflow_hive_acid.metastore import MetastoreClient

    warehouse.mkdir()
    with MetastoreClient(url) as client:
        client.catalog.set_warehouse(warehouse.as_uri())
        yield Site(client, name=name)


@pytest.fixture
def primary(metastore_url: str, tmp_path: Path) -> Iterator[Site]:
    """Where things happen."""
    yield from _site(metastore_url, tmp_path / "primary", "primary")


@pytest.fixture
def replica(replica_metastore_url: str, tmp_path: Path) -> Iterator[Site]:
    """Where they happen again."""
    yield from _site(replica_metastore_url, tmp_path / "replica", "replica")
