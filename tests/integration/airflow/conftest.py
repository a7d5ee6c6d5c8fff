"""Airflow's own database, its DAGs, and connections to a metastore and to local Spark."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.testing import HiveAcidTestbed
from airflow_hive_acid.testing.dags import make_database, register
from tests import postgresql_servers
from tests.integration.engine.conftest import FakeSpark

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
        from airflow_hive_acid.airflow_versions import DagBag
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
def postgresql_testbed(
    postgresql_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[HiveAcidTestbed]:
    """A metastore on PostgreSQL whatever ``--backend`` says, and Airflow's connections to it and to local Spark."""
    testbed = HiveAcidTestbed(tmp_path, metastore_url=postgresql_servers.new_database(postgresql_server))
    for name, value in testbed.connections.items():
        monkeypatch.setenv(name, value)
    yield testbed
    testbed.client.close()


@pytest.fixture
def sales(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MetastoreClient]:
    """A metastore with three tables in ``sales``, and ``hive_acid_default`` over it."""
    url, warehouse = f"sqlite:///{tmp_path / 'metastore.db'}", (tmp_path / "warehouse").as_uri()
    extra = {"metastore_url": url, "warehouse": warehouse}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps({"conn_type": "hive_acid", "extra": extra}))
    acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    with MetastoreClient(url, user="somebody") as client:
        client.create_schema()
        client.catalog.set_warehouse(warehouse)
        with Engine(client, FakeSpark(), warehouse) as engine:
            engine.run(
                f"CREATE DATABASE sales; CREATE TABLE sales.orders (id INT) {acid}; CREATE TABLE sales.returns (id INT)"
                f" {acid}; CREATE TABLE sales.new_orders (id INT) {acid}"
            )
        yield client


@pytest.fixture
def fake_spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    """Takes the place of Spark in the tasks."""
    fake = FakeSpark()
    monkeypatch.setattr(
        HiveAcidHook,
        "get_engine",
        lambda hook, *, agent_info: Engine(hook.get_conn(), fake, hook.warehouse, agent_info=agent_info),
    )
    return fake


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


def listener_manager() -> Any:
    """Who tells listeners what becomes of tasks; before 3.2 it is the scheduler's."""
    try:
        from airflow.sdk.listener import get_listener_manager
    except ModuleNotFoundError:
        from airflow.listeners.listener import get_listener_manager
    return get_listener_manager()


@pytest.fixture
def failures() -> Iterator[list[str]]:
    """The errors of tasks that fail, as Airflow tells them to listeners.

    A task's ``on_failure_callback`` would do, too, but for Airflow 3.1: in its ``dag.test()`` the context of a callback
    has no ``exception``, other than in its workers.
    """
    from airflow.listeners import hookimpl

    told: list[str] = []

    class OfFailures:
        @hookimpl
        def on_task_instance_failed(self, previous_state: Any, task_instance: Any, error: Any) -> None:
            told.append(str(error))

    listener, manager = OfFailures(), listener_manager()
    manager.add_listener(listener)
    yield told
    manager.pm.unregister(listener)


@pytest.fixture
def lineage_events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The events of tasks that OpenLineage's provider writes to a file, in their order.

    The provider's listener is as it is, except that it works in a thread: by default it forks, and a fork beside the
    threads of a test may never end. Its events of whole DAG runs are left out, which it sends from a forked pool.
    """
    # Imported while nothing is configured, the provider's plugin registers no listener of its own beside ours.
    import airflow.providers.openlineage.plugins.openlineage

    assert airflow.providers.openlineage.plugins.openlineage.OpenLineageProviderPlugin.listeners == []
    file = tmp_path / "lineage.jsonl"
    transport = {"type": "file", "log_file_path": str(file), "append": True}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__EXECUTE_IN_THREAD", "True")
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT", "300")
    from airflow.providers.openlineage.plugins.listener import OpenLineageListener

    class OfTasks(OpenLineageListener):
        on_dag_run_running = on_dag_run_success = on_dag_run_failed = on_starting = before_stopping = None

    listener, manager = OfTasks(), listener_manager()
    manager.add_listener(listener)
    yield lambda: [json.loads(line) for line in file.read_text().splitlines()]
    manager.pm.unregister(listener)
