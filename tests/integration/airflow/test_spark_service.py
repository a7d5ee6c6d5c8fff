"""A task that is a Spark service, and DAGs whose tasks run in it."""

from __future__ import annotations

import importlib.util
import json
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from airflow_hive_acid.airflow_versions import AirflowException
from airflow_hive_acid.dag_factories import spark_service_dags
from airflow_hive_acid.engine.applications.found_services import find_services
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.hooks.spark_launcher import AirflowSparkLauncher
from airflow_hive_acid.operators import HiveAcidSparkServiceOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import DAG

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.backends("sqlite")]

EXAMPLES = Path(__file__).parents[3] / "examples"


class Task:
    """The operator in a thread, as long as it serves."""

    def __init__(self, spool: str, **arguments: object) -> None:
        self.spool = spool
        self.operator = HiveAcidSparkServiceOperator(task_id="serve", service="etl", **arguments)
        self.failures: list[BaseException] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        deadline = time.monotonic() + 120
        while not find_services(spool):
            assert self.thread.is_alive(), self.failures
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _run(self) -> None:
        try:
            self.operator.execute({})
        except AirflowException as error:
            self.failures.append(error)

    def join(self) -> None:
        self.thread.join(60)
        assert not self.thread.is_alive()


@pytest.fixture
def serve(connections: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Task]]:
    """Serve for a connection whose tasks use the service; where a task starts a Spark of its own, that fails."""
    spool = (tmp_path / "spool").as_uri()
    extra = {"metastore_url": connections, "warehouse": str(tmp_path / "warehouse")}
    extra |= {"spool": spool, "spark_service": "etl"}
    monkeypatch.setenv("AIRFLOW_CONN_HIVE_ACID_DEFAULT", json.dumps({"conn_type": "hive_acid", "extra": extra}))

    def own(*_: object) -> None:
        raise AssertionError("a Spark of its own")

    monkeypatch.setattr(AirflowSparkLauncher, "start", own)
    running: list[Task] = []

    def start(**arguments: object) -> Task:
        running.append(Task(spool, **arguments))
        return running[-1]

    yield start
    for task in running:
        task.operator.on_kill()
        task.join()
    assert find_services(spool) == []


@pytest.mark.crossing("a service of Spark x the DAGs of the first ten minutes")
def test_the_first_ten_minutes_in_a_service(serve: Callable[..., Task], registered: Callable[[DAG], DAG]) -> None:
    """The statements and the DAG of docs/tutorials/getting-started.md; nothing of them starts a Spark."""
    task = serve()
    page = (EXAMPLES.parent / "docs" / "tutorials" / "getting-started.md").read_text()
    tables, insert, query = re.findall(r'hive-acid sql -e "([^"]*)"', page)
    with HiveAcidHook() as hook, hook.get_engine() as engine:
        engine.run(tables)
        engine.run(insert)
    spec = importlib.util.spec_from_file_location("example_getting_started", EXAMPLES / "getting_started.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    finished = registered(module.dag).test()
    assert str(finished.state) == "success"
    with HiveAcidHook() as hook, hook.get_engine() as engine:
        assert engine.query(query).rows == [["/cake", 1], ["/tea", 2]]
    task.operator.on_kill()
    task.join()
    assert task.failures == []


def test_a_service_that_nobody_calls_ends_and_one_that_dies_fails_its_task(serve: Callable[..., Task]) -> None:
    task = serve(max_idle=0.2)
    task.join()
    assert task.failures == []
    task = serve()
    # Its Java; other tests of this process may have a Spark of theirs.
    (found,) = find_services(task.spool)
    psutil.Process(found.state.pid).parent().kill()
    task.join()
    # The second one where it is found, and killed, before it has said that it is ready.
    ended = "the Spark service 'etl' has ended|the Spark application ended with code .* while it started"
    assert re.search(ended, str(task.failures[0]))


def test_dags_of_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark_service_dags() == []
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__SPARK_SERVICES", "etl, adhoc etl")
    dags = spark_service_dags()
    assert [dag.dag_id for dag in dags] == ["hive_acid_spark_service_etl", "hive_acid_spark_service_adhoc"]
    (task,) = dags[1].tasks
    assert (task.service, dags[1].max_active_runs, task.retries) == ("adhoc", 1, 10)
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__SPARK_SERVICES", "../etl")
    with pytest.raises(InvalidArgumentsError, match=r"\[hive_acid\] spark_services: '../etl' cannot be the name"):
        spark_service_dags()
