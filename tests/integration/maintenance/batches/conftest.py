"""A writer of batches, on a model of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.maintenance.batch_model import ModelSpark

from .world import TABLES, engine_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0"}


@pytest.fixture
def spark() -> ModelSpark:
    return ModelSpark()


@pytest.fixture
def engine(client: MetastoreClient, spark: ModelSpark, warehouse: str) -> Iterator[Engine]:
    with engine_of(client, spark, warehouse) as engine:
        engine.run(TABLES)
        yield engine
