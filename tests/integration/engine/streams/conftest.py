"""A table for streams, and processes that answer them."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.settings import Settings, Source

from .applications import TABLE, Process


@pytest.fixture
def table(client, warehouse, fake):
    with Engine(client, fake, warehouse) as engine:
        fake.is_alive = True
        engine.run(f"CREATE DATABASE w; {TABLE.format('w.t')}")
    fake.is_alive, fake.application_id = True, "app-1"
    return Path(client.catalog.get_table("w.t").location.removeprefix("file:"))


@pytest.fixture
def process(metastore_url, tmp_path, table):
    """Starts servers; each has a spool of its own."""
    running = []

    def start(who="me", several=False, lease=None, **given):
        spool = tmp_path / f"spool{len(running)}"
        spool.mkdir()
        settings = Settings({Source.REQUEST: given})
        running.append(Process(metastore_url, f"file:{spool}", settings, who, several, lease))
        return running[-1]

    yield start
    for each in running:
        each.stop()
