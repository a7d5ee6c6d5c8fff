"""The whole way with real spark-submit; one Spark application serves all tests of the session."""

from __future__ import annotations

import pytest

from airflow_hive_acid.engine import Engine


@pytest.fixture
def engine(client, warehouse, spark_application):
    """An engine on a fresh metastore."""
    with Engine(client, spark_application, warehouse, agent_info="acceptance") as engine:
        yield engine


@pytest.fixture
def other(client, warehouse, spark_application):
    """A second engine on the same metastore."""
    with Engine(client, spark_application, warehouse, agent_info="other") as engine:
        yield engine
