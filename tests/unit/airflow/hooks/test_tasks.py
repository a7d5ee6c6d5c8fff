"""Names of tasks in the metastore, and errors as Airflow understands them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from airflow_hive_acid.airflow_versions import AirflowException, AirflowFailException
from airflow_hive_acid.errors import InvalidArgumentsError, WriteConflictError
from airflow_hive_acid.hooks.tasks import agent_info, fail_task, worker_id


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


def test_error_that_would_come_again_fails_at_once():
    with pytest.raises(AirflowFailException, match="InvalidArgumentsError: no such"):
        fail_task(InvalidArgumentsError("no such thing"))
