"""One Airflow for all tests here, with a metastore and a warehouse that it and the tests share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.testing import HiveAcidTestbed
from tests import postgresql_servers
from tests.live.processes import LiveAirflow

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.live)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the DAGs, the jobs and the tests leave signs for each other."""
    directory = tmp_path_factory.mktemp("live")
    (directory / "dags").mkdir()
    shutil.copy(HERE / "live_dags.py", directory / "dags" / "live_dags.py")
    shutil.copy(HERE / "job.py", directory / "job.py")
    return directory


@pytest.fixture(scope="module")
def testbed(directory: Path, postgresql_server: str) -> Iterator[HiveAcidTestbed]:
    """A metastore on PostgreSQL with the DAGs' tables; a task waits half a second itself before it defers."""
    testbed = HiveAcidTestbed(
        directory / "hive-acid",
        metastore_url=postgresql_servers.new_database(postgresql_server),
        spark_master="local[1]",
        settings={"hive.acid.lock.defer.after": "500ms"},
    )
    acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    tables = "; ".join(f"CREATE TABLE w.{name} (a INT) {acid}" for name in ("waited", "killed", "watched"))
    testbed.sql(f"CREATE DATABASE w; {tables}")
    yield testbed
    testbed.engine.close()
    testbed.client.close()


@pytest.fixture(scope="module")
def airflow(directory: Path, testbed: HiveAcidTestbed) -> Iterator[LiveAirflow]:
    """Scheduler, triggerer, DAG processor and API server."""
    home = directory / "airflow"
    home.mkdir()
    variables = {**testbed.connections, "LIVE_TEST_DIRECTORY": str(directory)}
    airflow = LiveAirflow(home, directory / "dags", variables)
    try:
        airflow.start()
        yield airflow
    finally:
        airflow.stop()
