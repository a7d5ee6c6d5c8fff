"""Transactions across tasks, run by Airflow on a real metastore and an engine whose Spark is made up."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, task, task_group

from airflow_hive_acid.airflow_versions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
from airflow_hive_acid.metastore.records.shared_rules import SharedState
from airflow_hive_acid.operators.changes import HiveAcidInsertOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.transaction_groups import hive_acid_transaction, hive_acid_transaction_tries
from airflow_hive_acid.operators.transactions import (
    HiveAcidBeginTransactionOperator,
    HiveAcidCommitTransactionOperator,
    HiveAcidEndTransactionOperator,
    HiveAcidKeepTransactionOperator,
)
from airflow_hive_acid.triggers.shared_transactions import TransactionKeptTrigger
from tests.integration.engine.conftest import FakeSpark

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.airflow

TABLES = {"sales.orders": "update", "sales.returns": "insert"}


@pytest.fixture
def client(sales: MetastoreClient) -> MetastoreClient:
    return sales


@pytest.fixture
def spark(fake_spark: FakeSpark) -> FakeSpark:
    return fake_spark


@pytest.fixture
def finished(registered: Callable[[DAG], DAG]) -> Callable[[DAG], tuple[dict[str, str], dict[str, Any]]]:
    """Runs a DAG: states of the run (under "") and of its tasks, and what the tasks returned."""

    def run(dag: DAG) -> tuple[dict[str, str], dict[str, Any]]:
        done = registered(dag).test()
        instances = done.get_task_instances()
        states = {i.task_id: str(i.state) for i in instances}
        # One value each: those of a mapped task as a whole cannot be pulled from here with Airflow 3.1.
        told = {i.task_id: i.xcom_pull(task_ids=i.task_id, map_indexes=i.map_index) for i in instances}
        return {"": str(done.state), **states}, told

    return run


def states(client: MetastoreClient) -> list[str]:
    """Of the txns that wrote."""
    return [
        row.state.name for row in client.show_transactions(include_committed=True) if "begin" in (row.agent_info or "")
    ]


def visible(client: MetastoreClient, table: str) -> bool:
    return client.get_valid_write_ids([table])[table].is_valid(1)


def test_group_commits_two_tables_and_its_tasks_see_each_other(client: Any, spark: Any, finished: Any) -> None:
    with DAG("shared_commit", schedule=None) as dag:
        with hive_acid_transaction("load", tables=TABLES) as txn:
            orders = HiveAcidOperator(task_id="orders", sql="INSERT INTO sales.orders VALUES (1)")
            more = HiveAcidOperator.partial(task_id="more").expand(sql=["INSERT INTO sales.orders VALUES (2)"] * 2)
            returns = HiveAcidInsertOperator(task_id="returns", table="sales.returns", rows=[[1]])

            @task
            def check(transaction: Any) -> dict[str, Any]:
                with HiveAcidHook() as hook, hook.join(transaction) as part:
                    return {"rows": part.query("SELECT count(*) FROM sales.orders").rows, "sees": part.snapshot}

            orders >> more >> returns >> check(txn.output)

        @task
        def after() -> str:
            return "after"

        txn >> after()

    spark.answer = [[1]]
    how, told = finished(dag)
    assert set(how.values()) == {"success"}
    begun, committed = told["load.begin"], told["load.commit"]
    assert begun["tables"] == TABLES
    assert (committed["txn_id"], committed["inserted"]) == (begun["txn_id"], 4)
    assert [s["kind"] for s in committed["statements"]] == ["insert"] * 4 + ["select"]
    assert told["load.check"]["rows"] == [[1]]
    assert told["load.end"] == {"txn_id": begun["txn_id"], "state": "committed", "error": None, "reason": None}
    assert told["load.keeper"]["state"] == "not kept"
    assert states(client) == ["COMMITTED"]
    (view,) = spark.specs[-1].views
    assert begun["write_ids"]["sales.orders"] == 1
    assert view.snapshot.write_ids.startswith("sales.orders:1:")
    assert client.show_locks() == []


def test_each_index_of_a_mapped_task_group_has_a_transaction_of_its_own(
    client: Any, spark: Any, registered: Any
) -> None:
    """A task of index 1 fails; index 0 commits, and nobody ends what is not his."""

    @task
    def breaks(number: int) -> None:
        if number == 1:
            raise ValueError("a reason of its own")

    @task_group
    def each(number: int) -> None:
        for txn in hive_acid_transaction_tries("load", tables=TABLES, tries=2, retry_delay=timedelta()):
            with txn:
                HiveAcidOperator(task_id="orders", sql="INSERT INTO sales.orders VALUES (1)") >> breaks(number)

    with DAG("shared_mapped_group", schedule=None) as dag:
        each.expand(number=[0, 1])
    instances = {(i.task_id, i.map_index): i for i in registered(dag).test().get_task_instances()}
    state = {key: str(instance.state) for key, instance in instances.items()}
    assert [state["each.load.outcome", index] for index in (0, 1)] == ["success", "failed"]
    assert [state[f"each.load.try_{number}.commit", 0] for number in (1, 2)] == ["success", "skipped"]
    assert [state[f"each.load.try_{number}.commit", 1] for number in (1, 2)] == ["upstream_failed", "skipped"]
    # Which index begins first is Airflow's choice.
    begin = "each.load.try_1.begin"
    begun = [instances[begin, index].xcom_pull(task_ids=begin, map_indexes=index)["txn_id"] for index in (0, 1)]
    ended = {row.txn_id: row.state.name for row in client.show_transactions(include_committed=True)}
    assert [ended[txn_id] for txn_id in begun] == ["COMMITTED", "ABORTED"]
    assert len(states(client)) == 2
    assert client.show_locks() == []


@pytest.mark.rule("R2")
@pytest.mark.rule("R14")
def test_group_is_tried_again_as_a_whole_after_a_conflict(client: Any, spark: Any, finished: Any) -> None:
    """
    t1  try 1: a task fails in Spark, is tried again in the same transaction, and succeeds
    t2                  somebody else changes the same table, and commits
    t3  try 1: the commit is refused, and gives up at once; its keeper and end know why
    t4  try 2 begins with a snapshot of its own, and commits; try 3 is skipped
    """
    failures: list[Any] = []

    def fail_once(spec: Any) -> None:
        if not failures:
            failures.append(spec)
            raise JobFailedError("out of memory")

    spark.meanwhile = fail_once

    @task
    def rival(attempt: int) -> None:
        if attempt == 1:
            with Engine(client, FakeSpark(), "", agent_info="airflow/rival/run/task#1") as engine:
                engine.run("UPDATE sales.orders SET id = 2")

    with DAG("shared_tries", schedule=None) as dag:
        groups = hive_acid_transaction_tries("load", tables=TABLES, tries=3, retry_delay=timedelta())
        for number, txn in enumerate(groups, start=1):
            with txn:
                update = HiveAcidOperator(
                    task_id="update", sql="UPDATE sales.orders SET id = 1", retries=1, retry_delay=timedelta()
                )
                update >> rival(number)

    spark.is_alive = True
    how, told = finished(dag)
    assert how[""] == "success"
    assert [how[f"load.try_{n}.commit"] for n in (1, 2, 3)] == ["failed", "success", "skipped"]
    assert [how[f"load.try_{n}.end"] for n in (1, 2, 3)] == ["success", "success", "skipped"]
    assert how["load.outcome"] == "success"
    ended = told["load.try_1.end"]
    assert (ended["state"], ended["error"]) == ("aborted", "WriteConflictError")
    assert "airflow/rival/run/task#1" in ended["reason"]
    assert told["load.outcome"]["try"] == 2
    assert told["load.outcome"]["txn_id"] == told["load.try_2.begin"]["txn_id"]
    # The failed try of the member was undone within the transaction: its retry wrote under other statement ids.
    assert failures
    assert states(client) == ["ABORTED", "COMMITTED"]
    assert client.show_locks() == []


def test_group_with_a_task_that_fails_shows_nothing(client: Any, spark: Any, finished: Any) -> None:
    """The end is a teardown: it runs, and aborts, although the task that failed is none of our operators."""
    with DAG("shared_failure", schedule=None) as dag, hive_acid_transaction("load", tables=TABLES):
        orders = HiveAcidOperator(task_id="orders", sql="INSERT INTO sales.orders VALUES (1)")

        @task
        def broken() -> None:
            raise ValueError("a reason of its own")

        late = HiveAcidOperator(task_id="late", sql="INSERT INTO sales.returns VALUES (1)")
        orders >> broken() >> late

    how, told = finished(dag)
    assert {name: how[name] for name in ("", "load.orders", "load.late", "load.commit", "load.end")} == {
        "": "failed", "load.orders": "success", "load.late": "upstream_failed", "load.commit": "upstream_failed",
        "load.end": "success",
    }  # fmt: skip
    assert told["load.end"]["reason"] == "a task of its group failed, timed out or was skipped"
    assert client.shared_txns.get(told["load.begin"]["txn_id"]).state is SharedState.ABORTED
    assert states(client) == ["ABORTED"]
    assert not visible(client, "sales.orders")
    assert client.show_locks() == []


def context_of(task_id: str, try_number: int = 1) -> Any:
    """What Airflow tells a task."""
    ti = SimpleNamespace(
        dag_id="dag", run_id="run", task_id=task_id, map_index=-1, try_number=try_number, max_tries=1,
        xcom_push=lambda **_kwargs: None,
    )  # fmt: skip
    return {"ti": ti}


@pytest.mark.rule("R9")
def test_keeper_and_members_wait_without_a_worker_slot(client: Any, spark: Any) -> None:
    """
    t1  begin; the keeper leaves for the triggerer, and beats
    t2  a member is at work: another one, whose turn comes later, leaves for the triggerer, too
    t3  the first has finished: the trigger of the other fires, and it goes on
    t4  commit: the keeper's trigger fires
    """
    begun = HiveAcidBeginTransactionOperator(task_id="load.begin", tables=TABLES).execute(context_of("load.begin"))
    with pytest.raises(TaskDeferred) as kept:
        HiveAcidKeepTransactionOperator(task_id="keeper", transaction=begun).execute(context_of("keeper"))
    keeper: Any = kept.value.trigger
    assert keeper.check(client) is None
    assert client.shared_txns.get(begun["txn_id"]).kept is not None

    scope = ("airflow", "dag", "run", "first", "-1")
    second = HiveAcidOperator(task_id="second", sql="INSERT INTO sales.orders VALUES (1)", transaction=begun)
    with Engine(client, FakeSpark(), "") as engine, engine.joined(begun["txn_id"], scope) as joined:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AIRFLOW__HIVE_ACID__HIVE_ACID_LOCK_DEFER_AFTER", "0s")
            with pytest.raises(TaskDeferred) as turn:
                second.execute(context_of("second"))
        trigger: Any = turn.value.trigger
        assert trigger.check(client) is None
        engine.run("INSERT INTO sales.returns VALUES (1)")
        assert not joined.is_done
    event = {"status": "success", **trigger.check(client)}
    assert second.resume(context_of("second"), event)["inserted"] == 1
    trigger.until = 0.0
    assert trigger.check(client) == {"txn_id": begun["txn_id"]}

    # A worker that died after its work: the retry returns what was done, and applies nothing.
    specs = len(spark.specs)
    assert second.execute(context_of("second", 2))["inserted"] == 1
    assert len(spark.specs) == specs

    commit = HiveAcidCommitTransactionOperator(task_id="commit", transaction=json.dumps(begun))
    assert [commit.execute(context_of("commit", n))["inserted"] for n in (1, 2)] == [2, 2]
    event = {"status": "success", **keeper.check(client)}
    ended = HiveAcidKeepTransactionOperator(task_id="k", transaction=begun).ended(context_of("k"), event)
    assert ended["state"] == "committed"
    with pytest.raises(AirflowFailException, match="its age"):
        HiveAcidKeepTransactionOperator(task_id="k", transaction=begun).ended(
            context_of("k"), {"status": "success", "limit": True, "reason": "its age"}
        )


def test_operator_that_is_given_a_transaction_that_was_not_begun_is_skipped(client: Any, spark: Any) -> None:
    """Of a begin that was skipped the output is None; whom nobody gave a transaction works alone, as ever."""
    statement = "INSERT INTO sales.orders VALUES (1)"
    for given in ("null", "None"):
        with pytest.raises(AirflowSkipException, match="was not begun"):
            HiveAcidOperator(task_id="m", sql=statement, transaction=given).execute(context_of("m"))
    member = HiveAcidOperator(task_id="m", sql=statement, transaction="{{ nobody }}")
    member.transaction = None
    with pytest.raises(AirflowSkipException, match="was not begun"):
        member.execute(context_of("m"))
    assert spark.specs == []
    for given in (None, False):
        operator = HiveAcidOperator(task_id=f"alone_{given}", sql=statement, transaction=given)
        assert operator.execute(context_of(operator.task_id))["inserted"] == 1


@pytest.mark.rule("R14")
def test_commit_without_the_work_of_tasks_that_were_not_cleared_is_refused(client: Any, spark: Any) -> None:
    """
    t1  a and b work in a transaction; b fails for good, and it is given up
    t2  somebody clears b: Airflow clears the begin with it, and a, which has succeeded, does not run again
    t3  b works in the new transaction; its commit would show b's part alone
    """

    def begun(life: int = 1) -> dict[str, Any]:
        context = context_of("load.begin")
        context["ti"].max_tries = life
        return HiveAcidBeginTransactionOperator(task_id="load.begin", tables=TABLES).execute(context)

    def work(task_id: str, transaction: Any) -> None:
        table = {"a": "sales.orders", "b": "sales.returns"}[task_id]
        HiveAcidOperator(task_id=task_id, sql=f"INSERT INTO {table} VALUES (1)", transaction=transaction).execute(  # noqa: S608
            context_of(task_id)
        )

    def commit(transaction: Any, **states: str) -> Any:
        def told(dag_id: str, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
            assert (dag_id, task_ids, run_ids) == ("dag", ["a"], ["run"])
            return {"run": states}

        context = context_of("commit")
        context["ti"].get_task_states = told
        return HiveAcidCommitTransactionOperator(task_id="commit", transaction=transaction).execute(context)

    first = begun()
    work("a", first)
    spark.meanwhile = lambda spec: fail()
    with pytest.raises(AirflowException):
        work("b", first)
    spark.meanwhile, spark.is_alive = None, True
    HiveAcidEndTransactionOperator(task_id="end", transaction=first).execute(context_of("end"))

    second = begun(life=2)
    work("b", second)
    with pytest.raises(AirflowFailException, match="task a has succeeded in an earlier transaction of this run"):
        commit(second, a="success")
    assert not visible(client, "sales.returns")
    # Had it been left out this time, by a branch, or were it cleared with the others, nothing would be missing.
    assert commit(second, a="skipped")["inserted"] == 1
    third = begun(life=3)
    work("a", third)
    work("b", third)
    assert commit(third)["inserted"] == 2


def fail() -> None:
    raise JobFailedError("out of memory")


@pytest.mark.rule("R9")
def test_who_ends_the_keeper_ends_the_transaction(client: Any, spark: Any) -> None:
    """Marking it as failed in Airflow aborts the transaction, and nobody works in it any more."""
    begun = HiveAcidBeginTransactionOperator(task_id="load.begin", tables=TABLES).execute(context_of("load.begin"))
    asyncio.run(TransactionKeptTrigger(begun["txn_id"]).on_kill())
    assert states(client) == ["ABORTED"]
    member = HiveAcidOperator(task_id="m", sql="INSERT INTO sales.orders VALUES (1)", transaction=begun)
    with pytest.raises(AirflowFailException, match="its keeper was ended or cleared in Airflow"):
        member.execute(context_of("m"))
    end = HiveAcidEndTransactionOperator(task_id="end", transaction=begun).execute(context_of("end"))
    assert end is not None
    assert (end["state"], end["error"]) == ("aborted", "TransactionLimitError")
    assert HiveAcidEndTransactionOperator(task_id="end", transaction="None").execute(context_of("end")) is None
