"""Engines with a real Spark application, one for the whole session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from tests.acceptance.conftest import OneApplication

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.metastore import MetastoreClient


@pytest.fixture(scope="session")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneApplication]:
    """Starts a real Spark application, the same one again and again."""
    one = OneApplication(SparkSubmitLauncher("local[2]", log_directory=tmp_path_factory.mktemp("spark-logs")))
    yield one
    one.stop()


@pytest.fixture
def real_engine(client: MetastoreClient, warehouse: str, application: OneApplication) -> Iterator[Engine]:
    """An engine on a fresh metastore."""
    with Engine(client, application, warehouse, agent_info="sql tests") as engine:  # type: ignore[arg-type]
        yield engine
