"""Names of tasks in the metastore, and errors as Airflow understands them."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException
from airflow_hive_acid.errors import InvalidArgumentsError, MetastoreUnavailableError, WriteConflictError
from airflow_hive_acid.hooks.tasks import Running, agent_info, fail_task, worker_id


def context(map_index=-1, run_id="manual__1", try_number=1):
    return {"ti": SimpleNamespace(dag_id="d", run_id=run_id, task_id="t", map_index=map_index, try_number=try_number)}


def test_agent_names_dag_run_task_and_try():
    assert agent_info(context()) == "airflow/d/manual__1/t#1"
    assert agent_info(context(map_index=0, try_number=2)) == "airflow/d/manual__1/t[0]#2"


def test_worker_is_the_same_at_a_retry_and_another_one_for_another_index():
    first, retry = worker_id(context(map_index=0)), worker_id(context(map_index=0, try_number=2))
    assert first == retry == "@airflow-d-manual__1-t[0]"
    assert worker_id(context(map_index=0)) != worker_id(context(map_index=1))


def test_long_names_fit_their_columns_and_stay_distinct():
    for name, length in ((worker_id, 90), (agent_info, 128)):
        first, second = (name(context(run_id="r" * 200 + end)) for end in "ab")
        assert len(first) == len(second) == length
        assert first != second


def test_retryable_error_lets_airflow_retry():
    with pytest.raises(AirflowException, match="WriteConflictError: txn 5") as caught:
        fail_task(WriteConflictError("txn 5 was first"))
    assert not isinstance(caught.value, AirflowFailException)


@pytest.mark.rule("R4")
def test_what_a_killed_task_holds_is_let_go_while_its_application_takes_its_time_to_stop():
    """
    t1  Airflow asks the task to end, and kills its process 5 s later
    t2                 its driver runs on a cluster, which takes longer than that to stop it
    t3  the txn is aborted before the process is killed: nobody waits for its locks until they time out
    """
    let_go, told = threading.Event(), []

    def cancel():
        assert let_go.wait(30)
        told.append("stopped")

    def withdraw():
        told.append("let go")
        let_go.set()
        return "aborted txns: 5"

    Running(SimpleNamespace(cancel=cancel), "txn 5", withdraw).stop()
    assert told == ["let go", "stopped"]


def test_an_application_is_stopped_although_what_it_holds_cannot_be_let_go(caplog):
    told = []

    def withdraw():
        raise MetastoreUnavailableError("nobody answers")

    Running(SimpleNamespace(cancel=lambda: told.append("stopped")), "txn 5", withdraw).stop()
    assert told == ["stopped"]
    assert "txn 5 could not be let go of and will time out: nobody answers" in caplog.text


def test_error_that_would_come_again_fails_at_once():
    with pytest.raises(AirflowFailException, match="InvalidArgumentsError: no such"):
        fail_task(InvalidArgumentsError("no such thing"))
