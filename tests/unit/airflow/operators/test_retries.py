"""Which errors are retried, and when."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from airflow_hive_acid import errors
from airflow_hive_acid.airflow_versions import AirflowException, RetryAction
from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.hooks.tasks import fail_task
from airflow_hive_acid.operators.retries import HiveAcidRetryPolicy, error_behind, pause_after

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, HiveAcidError) and kind is not errors.LocksPendingError
]
POLICY = HiveAcidRetryPolicy(delay=timedelta(seconds=8), longest=timedelta(seconds=40))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_of_ours_is_retried_exactly_if_that_can_help(kind):
    decision = POLICY.evaluate(kind("what happened"), 1, 3)
    assert decision.action is (RetryAction.RETRY if kind.retryable else RetryAction.FAIL)
    assert kind.__name__ in decision.reason


def test_the_error_that_caused_it_counts():
    """What an operator ends its task with has our error as its cause."""
    with pytest.raises(AirflowException) as raised:
        fail_task(errors.WriteConflictError("somebody was first"))
    assert isinstance(error_behind(raised.value), errors.WriteConflictError)
    assert POLICY.evaluate(raised.value, 1, 3).action is RetryAction.RETRY
    assert error_behind(ValueError("x")) is None
    assert POLICY.evaluate(ValueError("x"), 1, 3).action is RetryAction.DEFAULT


def test_pauses():
    conflict = errors.WriteConflictError("x")
    tasks = [
        {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id=f"t{i}", map_index=-1)} for i in range(50)
    ]  # fmt: skip
    first = {POLICY.evaluate(conflict, 1, 9, task).retry_delay for task in tasks}
    assert len(first) == 50
    assert timedelta(seconds=6) <= min(first) < timedelta(seconds=7)
    assert timedelta(seconds=9) < max(first) <= timedelta(seconds=10)
    assert POLICY.evaluate(conflict, 2, 9, tasks[0]).retry_delay > timedelta(seconds=11)
    assert POLICY.evaluate(conflict, 1000, 9, tasks[0]).retry_delay <= timedelta(seconds=40)
    assert pause_after(3, timedelta(seconds=1), timedelta(hours=1), "a") == pause_after(
        3, timedelta(seconds=1), timedelta(hours=1), "a"
    )
    assert POLICY.evaluate(errors.CommitStateUnknownError("x"), 4, 9).retry_delay == timedelta(seconds=5)
    assert POLICY.evaluate(errors.JobFailedError("x"), 4, 9).retry_delay is None


def test_what_a_user_says_goes_first():
    policy = HiveAcidRetryPolicy(fail_on=["TxnAbortedError"], delays={"JobFailedError": timedelta(minutes=3)})
    assert policy.evaluate(errors.WriteConflictError("a subclass"), 1, 9).action is RetryAction.FAIL
    assert policy.evaluate(errors.JobFailedError("x"), 1, 9).retry_delay == timedelta(minutes=3)
    again = HiveAcidRetryPolicy.deserialize(policy.serialize())
    assert again.serialize() == policy.serialize()
    for wrong in ({"fail_on": ["DeadLockError"]}, {"delays": {"os": timedelta(0)}}):
        with pytest.raises(InvalidArgumentsError, match=r"is no error of airflow_hive_acid\.errors"):
            HiveAcidRetryPolicy(**wrong)
