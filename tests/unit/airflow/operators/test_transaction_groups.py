"""How a transaction across tasks looks as a TaskGroup, and what DAG authors are told at once."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, TaskGroup, task

from airflow_hive_acid.airflow_versions import AirflowFailException, AirflowSkipException, TaskDeferred
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.transactions import JoinedTransaction, is_final, read_transaction
from airflow_hive_acid.operators.export import HiveAcidExportOperator
from airflow_hive_acid.operators.foreign_tables import HiveAcidImportForeignTableOperator
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.transaction_groups import (
    hive_acid_transaction,
    hive_acid_transaction_tries,
    pause_before,
)
from airflow_hive_acid.operators.transactions import (
    HiveAcidBeginTransactionOperator,
    HiveAcidTransactionOutcomeOperator,
)
from airflow_hive_acid.triggers.shared_transactions import PauseTrigger, TransactionKeptTrigger, TurnTrigger

TABLES = {"sales.orders": "insert"}
DOCUMENT = {"version": 1, "txn_id": 7, "tables": TABLES}


def insert(task_id, **kwargs):
    return HiveAcidOperator(task_id=task_id, sql="INSERT INTO sales.orders VALUES (1)", **kwargs)


def test_group_has_a_begin_a_keeper_a_commit_and_an_end():
    """Tasks of nested groups and mapped ones take part, who opts out does not; what follows waits for the commit."""
    with DAG("d", schedule=None) as dag:

        @task
        def before():
            return 1

        @task
        def after():
            return 1

        with hive_acid_transaction("load", tables=TABLES) as txn:
            first = insert("first")
            with TaskGroup("inner"):
                inner = insert("inner")
                mapped = HiveAcidOperator.partial(task_id="mapped").expand(sql=["SELECT 1", "SELECT 2"])
            alone = insert("alone", transaction=False)
            first >> inner
        before() >> txn >> after()

    dag.validate()
    begin, commit, end, keeper = (dag.get_task(f"load.{name}") for name in ("begin", "commit", "end", "keeper"))
    assert (begin.is_setup, end.is_teardown) == (True, True)
    assert begin.downstream_task_ids == {
        "load.first", "load.inner.mapped", "load.alone", "load.keeper", "load.end",
    }  # fmt: skip
    assert begin.upstream_task_ids == {"before"}
    assert commit.upstream_task_ids == {"load.inner.inner", "load.inner.mapped", "load.alone"}
    assert commit.downstream_task_ids == {"load.end", "after"}
    assert (keeper.downstream_task_ids, keeper.priority_weight) == (set(), 10_000)
    assert "absolute" in str(keeper.weight_rule).lower()  # before Airflow 3.2 it has no short name
    rendered = "{{ ti.xcom_pull(task_ids='load.begin') | tojson }}"
    assert [first.transaction, inner.transaction, mapped.partial_kwargs["transaction"]] == [rendered] * 3
    assert alone.transaction is False
    from airflow.serialization import serialized_objects

    # Before Airflow 3.2 the serialised DAG reads and writes itself.
    serialization = getattr(serialized_objects, "DagSerialization", serialized_objects.SerializedDAG)
    again = serialization.deserialize_dag(serialization.serialize_dag(dag))
    assert set(again.task_dict) == set(dag.task_dict)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("all_done", "all_success"), ("one_success", "all_success"), ("none_failed", "none_failed"),
        ("none_failed_min_one_success", "none_failed_min_one_success"),
    ],
)  # fmt: skip
def test_default_args_commit_nothing_over_a_task_that_failed(given, rule):
    """A check of the author's own is no member: only the commit's rule keeps it from being committed over."""
    default_args = {"trigger_rule": given, "do_xcom_push": False}
    with DAG("d", schedule=None, default_args=default_args) as dag, hive_acid_transaction("load", tables=TABLES):
        insert("first")
    rules = {name: dag.get_task(f"load.{name}").trigger_rule.value for name in ("first", "commit", "keeper")}
    assert rules == {"first": given, "commit": rule, "keeper": "all_success"}
    assert [dag.get_task(f"load.{name}").do_xcom_push for name in ("begin", "commit", "end")] == [True] * 3
    assert dag.get_task("load.first").do_xcom_push is False


def test_tries_follow_each_other_and_an_outcome_comes_last():
    with DAG("d", schedule=None) as dag:
        tries = hive_acid_transaction_tries("load", tables=TABLES, tries=3, retry_delay=timedelta(seconds=9))
        for txn in tries:
            with txn:
                insert("first")
    dag.validate()
    second = dag.get_task("load.try_2.begin")
    assert second.upstream_task_ids == {"load.try_1.end"}
    assert (second.trigger_rule, second.pause, second.after) == (
        "all_done", 9.0, ("load.try_1.begin", "load.try_1.end"),
    )  # fmt: skip
    assert dag.get_task("load.try_3.begin").pause == 18.0
    assert [t.task_id for t in dag.leaves if not t.is_teardown] == ["load.outcome"]
    assert pause_before(99, timedelta(seconds=9)) == timedelta(minutes=10)


def test_what_cannot_be_in_a_transaction_is_refused_when_the_dag_is_parsed():
    def group(make):
        with DAG("d", schedule=None), hive_acid_transaction("load", tables=TABLES):
            make()

    cases = [
        (lambda: None, "has no tasks"),
        (lambda: HiveAcidExportOperator(task_id="out", path="/x", table="t"), "export after the group"),
        (
            lambda: HiveAcidImportForeignTableOperator(task_id="in", source="orc:/x", table="t"),
            "import before the group",
        ),
        (lambda: insert("leased", lease="x"), "works under none"),
        (lambda: insert("elsewhere", hive_acid_conn_id="other"), "another hive_acid_conn_id"),
    ]
    for make, words in cases:
        with pytest.raises(ValueError, match=words):
            group(make)
    with DAG("d", schedule=None):
        with pytest.raises(ValueError, match="must be 1 or more"):
            next(hive_acid_transaction_tries("load", tables=TABLES, tries=0))
        with pytest.raises(InvalidArgumentsError, match="retry_on names 'Deadlock'"):
            next(hive_acid_transaction_tries("load", tables=TABLES, retry_on=["Deadlock"]))


@pytest.mark.parametrize("given", [DOCUMENT, json.dumps(DOCUMENT), str(DOCUMENT)], ids=["value", "json", "template"])
def test_document_is_read_in_every_form_that_templates_give_it(given):
    assert read_transaction(given) == 7


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**DOCUMENT, "version": 0}, "has version 0, and this release reads version 1"),
        ({"version": 1}, "must be what the task returned"),
        ("'; DROP TABLE TXNS;--", "must be what the task returned"),
        ({**DOCUMENT, "txn_id": "7"}, "must be what the task returned"),
        ([7], "must be what the task returned"),
        ("[" * 100_000, "must be what the task returned"),
    ],
)
def test_document_of_another_version_or_none_at_all_is_refused(given, words):
    with pytest.raises(InvalidArgumentsError, match=words):
        read_transaction(given)


def test_rows_that_were_too_many_to_be_kept_are_not_made_up():
    """The task died after it had finished: its results are given again, and these are not among them."""

    def joined(rows):
        engine = SimpleNamespace(run=lambda _sql: [SimpleNamespace(rows=rows)])
        return JoinedTransaction(engine, SimpleNamespace(is_done=True))

    assert joined([[1]]).query("SELECT 1") == [[1]]
    with pytest.raises(InvalidArgumentsError, match="'SELECT 1' were too many to be kept"):
        joined(None).query("SELECT 1")


def test_which_failure_is_the_last():
    def final(try_number, failure):
        return is_final({"ti": SimpleNamespace(try_number=try_number, max_tries=1)})(failure)

    assert [final(1, ValueError()), final(2, ValueError())] == [False, True]
    assert [final(1, AirflowFailException()), final(2, AirflowSkipException())] == [True, False]
    assert final(1, InvalidArgumentsError("x"))


def test_triggers_survive_their_journey():
    for trigger in (TransactionKeptTrigger(7), TurnTrigger(7, "m", 1.5), PauseTrigger(1.5)):
        path, arguments = trigger.serialize()
        assert path.rpartition(".")[2] == type(trigger).__name__
        assert type(trigger)(**arguments).serialize() == (path, arguments)


class Instance(SimpleNamespace):
    """A task instance with XComs.

    :ivar states: of tasks that have not succeeded.
    """

    dag_id, run_id, map_index, states = "d", "r", -1, {}

    def xcom_pull(self, task_ids, key="return_value", *, map_indexes):
        assert map_indexes == self.map_index
        return self.xcoms.get((task_ids, key))

    def get_task_states(self, dag_id, task_ids, run_ids):
        assert (dag_id, run_ids) == (self.dag_id, [self.run_id])
        told = {name for name, _ in self.xcoms} & set(task_ids)
        return {self.run_id: {**dict.fromkeys(told, "success"), **self.states}}


def test_next_try_begins_after_a_conflict_only_and_after_a_pause():
    begin = HiveAcidBeginTransactionOperator(task_id="begin", tables=TABLES, after=("b", "e"), pause=60)

    def run(ended):
        begin.execute({"ti": Instance(xcoms={("e", "return_value"): ended})})

    ended = {"txn_id": 7, "state": "aborted", "error": "JobFailedError", "reason": "why"}
    for given, words in (
        (None, "b has begun nothing"),
        ({**ended, "state": "committed"}, "is committed"),
        (ended, "JobFailedError is none of WriteConflictError, DeadlockError: why"),
    ):
        with pytest.raises(AirflowSkipException, match=words):
            run(given)
    with pytest.raises(TaskDeferred) as deferred:
        run({**ended, "error": "WriteConflictError"})
    assert isinstance(deferred.value.trigger, PauseTrigger)


def test_next_try_does_not_begin_for_what_the_one_before_told_before_it_was_cleared():
    """
    t1  try 1 meets a conflict, try 2 commits; somebody clears the group with what comes before it
    t2  what comes before it fails: try 1 does not begin, and what its end had told in t1 is still there
    """
    begin = HiveAcidBeginTransactionOperator(task_id="begin", tables=TABLES, after=("b", "e"), pause=60)
    ended = {"txn_id": 7, "state": "aborted", "error": "WriteConflictError", "reason": "why"}
    with pytest.raises(AirflowSkipException, match="b has begun nothing"):
        begin.execute({
            "ti": Instance(xcoms={("e", "return_value"): ended}, states={"e": "upstream_failed"})
        })  # fmt: skip


def test_outcome_says_which_try_was_committed_or_why_none_was():
    outcome = HiveAcidTransactionOutcomeOperator(task_id="outcome", tries=[("b1", "c1", "e1"), ("b2", "c2", "e2")])

    def run(**xcoms):
        return outcome.execute({"ti": Instance(xcoms={(name, "return_value"): value for name, value in xcoms.items()})})

    ended = {"error": "WriteConflictError", "reason": "why"}
    assert run(e1=ended, c2={"txn_id": 8}) == {"try": 2, "txn_id": 8}
    with pytest.raises(AirflowFailException, match="not committed; try 1: WriteConflictError: why"):
        run(e1=ended)
    with pytest.raises(AirflowFailException, match="none of its tries has begun"):
        run()
    skipped = {("b1", "hive_acid_skipped"): True}
    with pytest.raises(AirflowSkipException, match="committed before"):
        outcome.execute({"ti": Instance(xcoms=skipped, states={"b1": "skipped"})})
    with pytest.raises(AirflowFailException, match="none of its tries has begun"):
        outcome.execute({"ti": Instance(xcoms=skipped, states={"b1": "upstream_failed"})})


def test_outcome_does_not_tell_what_was_committed_before_the_group_was_cleared():
    """
    t1  try 1 commits; somebody clears the group, to apply it again
    t2  a task of it fails: the commit does not run, and what it had returned in t1 is still there
    """
    outcome = HiveAcidTransactionOutcomeOperator(task_id="outcome", tries=[("b1", "c1", "e1")])
    ended = {"error": "JobFailedError", "reason": "why"}
    xcoms = {("c1", "return_value"): {"txn_id": 7}, ("e1", "return_value"): ended}
    with pytest.raises(AirflowFailException, match="not committed; try 1: JobFailedError: why"):
        outcome.execute({"ti": Instance(xcoms=xcoms, states={"c1": "upstream_failed"})})
    with pytest.raises(AirflowFailException, match="none of its tries has begun"):
        outcome.execute({"ti": Instance(xcoms=xcoms, states={"c1": "upstream_failed", "e1": "upstream_failed"})})
    mapped = Instance(xcoms=xcoms, map_index=2, states={"c1_2": "success", "e1_2": "success"})
    assert outcome.execute({"ti": mapped})["txn_id"] == 7
