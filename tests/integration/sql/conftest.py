"""Engines with a real Spark application, one for the whole session."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.metastore import MetastoreClient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.applications import OneApplication


@pytest.fixture
def real_engine(client: MetastoreClient, warehouse: str, spark_application: OneApplication) -> Iterator[Engine]:
    """An engine on a fresh metastore."""
    with _engine(client, spark_application, warehouse) as engine:
        yield engine


@dataclass(frozen=True)
class Prepared:
    """A metastore and a warehouse in files, with what a script left; they are put back for each test.

    :param place: their directory; what they were is kept beside them.
    """

    place: Path

    @property
    def metastore_url(self) -> str:
        return f"sqlite:///{self.place / 'now' / 'metastore.db'}"

    @property
    def warehouse(self) -> str:
        return (self.place / "now" / "warehouse").as_uri()

    def keep(self) -> None:
        """Take what there is now as what tests begin with."""
        shutil.copytree(self.place / "now", self.place / "kept")

    def put_back(self) -> None:
        """Under the same path, which the metastore names."""
        shutil.rmtree(self.place / "now")
        shutil.copytree(self.place / "kept", self.place / "now")


@pytest.fixture(scope="module")
def prepared(
    request: pytest.FixtureRequest,
    backend: str,
    schema_template: str,
    spark_application: OneApplication,
    tmp_path_factory: pytest.TempPathFactory,
) -> Prepared | None:
    """What the module's ``SETUP`` leaves, run once: its INSERTs are jobs. None where the database is no file."""
    if backend != "sqlite":
        return None
    found = Prepared(tmp_path_factory.mktemp("prepared"))
    (found.place / "now" / "warehouse").mkdir(parents=True)
    shutil.copy(schema_template, found.place / "now" / "metastore.db")
    with MetastoreClient(found.metastore_url) as client, _engine(client, spark_application, found.warehouse) as engine:
        engine.run(request.module.SETUP)
    found.keep()
    return found


@pytest.fixture
def prepared_engine(
    request: pytest.FixtureRequest, prepared: Prepared | None, spark_application: OneApplication
) -> Iterator[Engine]:
    """An engine on a metastore of its own in which the module's ``SETUP`` has been run."""
    if prepared is None:
        engine: Engine = request.getfixturevalue("real_engine")
        engine.run(request.module.SETUP)
        yield engine
        return
    prepared.put_back()
    with (
        MetastoreClient(prepared.metastore_url) as client,
        _engine(client, spark_application, prepared.warehouse) as engine,
    ):
        yield engine


def _engine(client: MetastoreClient, application: OneApplication, warehouse: str) -> Engine:
    return Engine(client, application, warehouse, agent_info="sql tests")  # type: ignore[arg-type]
