"""Two sites and a place for a dump."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.replication.site import Site


@pytest.fixture
def dump(tmp_path: Path) -> str:
    return (tmp_path / "dump").as_uri()


@pytest.fixture
def pair(primary: Site, replica: Site) -> tuple[Site, Site]:
    replica.client.catalog.create_database("w")
    return primary, replica
