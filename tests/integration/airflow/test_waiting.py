"""``dag.test()`` runs a task that waits for locks as Airflow does: it defers, a trigger waits, it goes on. No Spark."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_hive_acid.airflow_versions import AirflowFailException, TaskDeferred
from airflow_hive_acid.engine import Engine
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.operators.changes import HiveAcidInsertOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.testing import HiveAcidTestbed, assert_at_rest, assert_committed
from airflow_hive_acid.triggers.granted import LocksGrantedTrigger
from tests.integration.engine.conftest import FakeSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.airflow, pytest.mark.rule("R9")]

DEFERS_AT_ONCE = {"hive.acid.lock.defer.after": "0s"}


@pytest.fixture
def testbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HiveAcidTestbed]:
    """A metastore with the table w.t, and tasks that do not wait a moment themselves; Spark is made up."""
    testbed = HiveAcidTestbed(tmp_path, settings=DEFERS_AT_ONCE)
    for name, value in testbed.connections.items():
        monkeypatch.setenv(name, value)

    def engine(hook: HiveAcidHook, *, agent_info: str) -> Engine:
        return Engine(hook.get_conn(), FakeSpark(), hook.warehouse, agent_info=agent_info)

    monkeypatch.setattr(HiveAcidHook, "get_engine", engine)
    with Engine(testbed.client, FakeSpark(), testbed.warehouse.as_uri()) as made:
        made.run("CREATE DATABASE w; CREATE TABLE w.t (a INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    yield testbed
    testbed.client.close()


@pytest.fixture
def dag(registered: Callable[[DAG], DAG]) -> DAG:
    """One task, which wants w.t to itself."""
    with DAG("waits_for_locks", schedule=None) as dag:
        HiveAcidInsertOperator(task_id="replace", table="w.t", rows=[{"a": 1}], overwrite=True)
    return registered(dag)


@contextmanager
def meanwhile(does: Callable[[], None], begins: threading.Event) -> Iterator[None]:
    """Something that is done in a thread of its own, once it may begin; at the latest at the end."""

    def wait() -> None:
        begins.wait(300)
        does()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        begins.set()
        thread.join(60)


def waiting(testbed: HiveAcidTestbed) -> list[tuple[int, str]]:
    """Txn and agent of the requests that wait."""
    rows = testbed.client.show_locks()
    return [(row.txn_id, str(row.agent_info)) for row in rows if row.state.name == "WAITING"]


def test_dag_test_defers_a_wait_for_locks_and_goes_on_with_the_txn_that_waited(
    testbed: HiveAcidTestbed, dag: DAG, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  somebody writes w.t
    t2                        the task asks for all of it, and defers; its worker is done
    t3                        the trigger waits
    t4  the writer ends
    t5                        the task goes on in another process of Airflow's, as it were, with the same txn
    """
    writer = testbed.client.begin({"w.t": "insert"}, agent_info="a writer")
    trigger_waits = threading.Event()
    seen: list[list[tuple[int, str]]] = []
    run = LocksGrantedTrigger.run

    async def told(trigger):
        trigger_waits.set()
        async for event in run(trigger):
            yield event

    monkeypatch.setattr(LocksGrantedTrigger, "run", told)

    def release() -> None:
        seen.append(waiting(testbed))
        writer.abort("the writer has ended")

    with meanwhile(release, trigger_waits):
        finished = dag.test()
    (instance,) = finished.get_task_instances()
    assert str(instance.state) == "success"
    result = instance.xcom_pull(task_ids="replace")
    ((waited, agent),) = seen[0]
    assert agent == f"airflow/waits_for_locks/{finished.run_id}/replace#1"
    assert [statement["txn_id"] for statement in result["statements"]] == [waited]
    assert_committed(testbed, result)
    assert_at_rest(testbed)


def test_dag_test_fails_a_wait_that_takes_too_long_and_names_who_is_in_the_way(
    testbed: HiveAcidTestbed, dag: DAG, failures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is given up as Hive's clients give it up; nothing of the task stays in the queue."""
    hurried = {**DEFERS_AT_ONCE, "hive.lock.numretries": "1", "hive.lock.sleep.between.retries": "100ms"}
    name = "AIRFLOW_CONN_HIVE_ACID_DEFAULT"
    monkeypatch.setenv(name, HiveAcidTestbed(testbed.directory, settings=hurried).connections[name])
    with testbed.client.transaction(tables={"w.t": "insert"}) as writer:
        (instance,) = dag.test().get_task_instances()
        assert waiting(testbed) == []
        writer.abort("the writer has ended")
    assert str(instance.state) == "failed"
    assert "LockTimeoutError" in failures[0]
    assert f"behind txn {writer.txn_id}, open since" in failures[0]
    assert_at_rest(testbed)


STATEMENTS = {
    "a query": "SELECT a FROM w.t",
    "a column more": "ALTER TABLE w.t ADD COLUMNS (b INT)",
    "a drop": "DROP TABLE w.t",
    "a view, in front of which is a query": "SELECT 1 AS a; CREATE VIEW w.v AS SELECT a FROM w.t",
}


@pytest.mark.parametrize("what", STATEMENTS)
def test_queries_and_ddl_defer_as_writes_do(
    testbed: HiveAcidTestbed, registered: Callable[[DAG], DAG], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """
    t1  somebody has w.t to himself
    t2                               the task asks for it, and defers
    t3  he goes
    t4                               the task goes on with the same txn; nothing is done twice
    """
    with DAG("waits_with_what_it_has", schedule=None) as dag:
        HiveAcidOperator(task_id="run", sql=STATEMENTS[what])
    registered(dag)
    client = testbed.client
    held = client.lock([LockComponent("w", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)])
    trigger_waits = threading.Event()
    waited: list[LocksGrantedTrigger] = []
    run = LocksGrantedTrigger.run

    async def told(trigger):
        waited.append(trigger)
        trigger_waits.set()
        async for event in run(trigger):
            yield event

    monkeypatch.setattr(LocksGrantedTrigger, "run", told)
    with meanwhile(lambda: client.unlock(held.lock_id), trigger_waits):
        finished = dag.test()
    (instance,) = finished.get_task_instances()
    assert str(instance.state) == "success"
    (trigger,) = waited
    rows = client.show_transactions(include_committed=True)
    assert {row.txn_id: row.state.name for row in rows}[trigger.txn_id] == "COMMITTED"
    assert [row for row in rows if row.state.name != "COMMITTED"] == []
    result = instance.xcom_pull(task_ids="run")
    assert len(result["statements"]) == STATEMENTS[what].count(";") + 1
    if "SELECT a" in STATEMENTS[what] and "VIEW" not in STATEMENTS[what]:
        assert result["statements"][0]["txn_id"] == trigger.txn_id
    tables = client.catalog.find_tables(["w.t", "w.v"])
    assert ("w.t" in tables) == (what != "a drop")
    assert ("w.v" in tables) == ("VIEW" in STATEMENTS[what])
    if what == "a column more":
        assert [column.name for column in tables["w.t"].columns] == ["a", "b"]
    assert_at_rest(testbed)


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (HiveAcidOperator(task_id="run", sql="DROP TABLE FROM w.t"), "DROP TABLE FROM"),
        (HiveAcidInsertOperator(task_id="run", table="w.gone", rows=[[1]]), "w.gone"),
    ],
)
def test_a_task_that_fails_in_front_of_what_it_has_waited_for_withdraws_that(
    testbed: HiveAcidTestbed, then: HiveAcidOperator, words: str
) -> None:
    """
    t1  the task asks for w.t, and defers
    t2  the DAG file is changed: what it is to do now fails before it asks for anything
    """
    instance = SimpleNamespace(dag_id="d", run_id="r", task_id="run", map_index=-1, try_number=1, max_tries=0)
    context: Any = {"ti": instance}
    held = testbed.client.lock([LockComponent("w", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)])
    with pytest.raises(TaskDeferred) as deferred:
        HiveAcidOperator(task_id="run", sql="DROP TABLE w.t").execute(context)
    assert waiting(testbed) != []
    with pytest.raises(AirflowFailException, match=words):
        then.resume(context, {"status": "success"}, **deferred.value.kwargs)
    assert waiting(testbed) == []
    testbed.client.unlock(held.lock_id)
    assert_at_rest(testbed)


@pytest.mark.parametrize("what", ["a query", "a drop"])
def test_a_task_that_is_killed_while_it_waits_in_the_triggerer_leaves_no_request(
    testbed: HiveAcidTestbed,
    registered: Callable[[DAG], DAG],
    failures: list[str],
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    with DAG("is_killed_while_it_waits", schedule=None) as dag:
        HiveAcidOperator(task_id="run", sql=STATEMENTS[what])
    registered(dag)
    client = testbed.client
    held = client.lock([LockComponent("w", "t", None, LockType.EXCLUSIVE, Operation.NO_TXN)])
    run = LocksGrantedTrigger.run
    left: list[list[tuple[int, str]]] = []

    async def killed(trigger):
        left.append(await asyncio.to_thread(waiting, testbed))
        await trigger.on_kill()
        left.append(await asyncio.to_thread(waiting, testbed))
        async for event in run(trigger):
            yield event

    monkeypatch.setattr(LocksGrantedTrigger, "run", killed)
    (instance,) = dag.test().get_task_instances()
    assert str(instance.state) == "failed"
    assert left[0] != []
    assert left[1] == []
    assert client.catalog.find_tables(["w.t"]) != {}
    client.unlock(held.lock_id)
    assert_at_rest(testbed)
