"""Airflow's own database, its DAGs, and connections to a metastore and to local Spark."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow.sdk import DAG


@pytest.fixture(scope="session")
def airflow_db() -> None:
    """Airflow's own database, made once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from airflow.utils import db

        db.initdb()


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
    extra = {"metastore_url": metastore_url, "warehouse": str(tmp_path / "warehouse")}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps({"conn_type": "hive_acid", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
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
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session  # noqa: TID251 - the test prepares Airflow's own database

    def register(dag: DAG) -> DAG:
        with create_session() as session:
            session.merge(DagBundleModel(name="tests"))
        bag = DagBag("/dev/null", collect_dags=False)
        bag.bag_dag(dag)
        sync_bag_to_db(bag, "tests", "1")
        return dag

    return register
