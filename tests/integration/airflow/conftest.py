"""Airflow's own database, its DAGs, and connections to a metastore and to local Spark."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.testing import HiveAcidTestbed
from airflow_hive_acid.testing.dags import make_database, register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow.sdk import DAG


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """Airflow's own database, made once."""
    make_database()


@pytest.fixture(autouse=True)
def quiet_airflow() -> Iterator[None]:
    """What Airflow warns about in its own code does not fail our tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.fixture(scope="session")
def dags(airflow_db: None) -> dict[str, DAG]:
    """The DAGs of dags/, by id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from airflow.dag_processing.dagbag import DagBag

        from airflow_hive_acid.resources import dags_folder

        bag = DagBag(str(dags_folder()))
    assert bag.import_errors == {}
    return dict(bag.dags)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch, metastore_url: str, tmp_path: Path) -> str:
    """``hive_acid_default`` over a fresh metastore on each backend, and ``spark_default`` on this machine."""
    for name, value in HiveAcidTestbed(tmp_path, metastore_url=metastore_url).connections.items():
        monkeypatch.setenv(name, value)
    return metastore_url


@pytest.fixture
def run(airflow_db: None) -> Callable[[DAG], dict[str, str]]:
    """Runs a DAG in this process; returns the state of the run under ``""`` and of each task."""

    def run_dag(dag: DAG, **conf: object) -> dict[str, str]:
        finished = dag.test(run_conf=conf)
        states = {instance.task_id: str(instance.state) for instance in finished.get_task_instances()}
        return {"": str(finished.state), **states}

    return run_dag


@pytest.fixture
def registered(airflow_db: None) -> Callable[[DAG], DAG]:
    """Makes a DAG that is not in dags/ known to Airflow, as ``dag.test()`` wants it."""
    return register
