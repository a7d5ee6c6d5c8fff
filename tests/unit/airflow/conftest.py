"""A connection to the metastore of a test, and tables in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient


@pytest.fixture
def conn_id(monkeypatch: pytest.MonkeyPatch, metastore_url: str) -> str:
    """Its id; it holds nothing that Airflow's masker would hide while a test looks for it."""
    extra = {"metastore_url": metastore_url}
    monkeypatch.setenv("AIRFLOW_CONN_ACID", json.dumps({"conn_type": "hive_acid", "extra": extra}))
    return "acid"


@pytest.fixture
def tables(client: MetastoreClient, warehouse: str) -> MetastoreClient:
    """``db.t`` partitioned by k, ``db.u`` without partitions, ``db.x`` without transactions."""
    client.catalog.set_warehouse(warehouse)
    client.catalog.create_database("db")
    columns, acid = (Column("id", "int"),), {"transactional": "true"}
    client.catalog.create_table(TableDefinition("db", "t", columns, (Column("k", "string"),), properties=acid))
    client.catalog.create_table(TableDefinition("db", "u", columns, properties=acid))
    client.catalog.create_table(TableDefinition("db", "x", columns, external=True))
    client.catalog.add_partitions("db.t", ["k=a", "k=b"])
    return client
