"""A triggerer that was silent for too long: another one has its triggers, and Airflow tells it that they were ended."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_hive_acid.triggers.base import MetastoreWaitTrigger
from airflow_hive_acid.triggers.compactions import CompactionFinishedTrigger
from airflow_hive_acid.triggers.granted import LocksGrantedTrigger
from airflow_hive_acid.triggers.leases import LeaseGrantedTrigger
from airflow_hive_acid.triggers.shared_transactions import TransactionKeptTrigger

pytestmark = pytest.mark.rule("R9")


class Waits(MetastoreWaitTrigger):
    """Says what it does."""

    def __init__(self) -> None:
        super().__init__()
        self.has_let_go = False

    async def let_go(self) -> None:
        self.has_let_go = True


def killed(monkeypatch: pytest.MonkeyPatch, told: Any, *, in_task: bool = True) -> bool:
    """Whether a trigger lets go when Airflow has this to tell of its task."""

    def states(**asked: Any) -> Any:
        assert asked == {"dag_id": "d", "task_ids": ["t"], "run_ids": ["r"], "map_index": 3}
        if isinstance(told, Exception):
            raise told
        return told

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", states)
    trigger = Waits()
    if in_task:
        trigger.task_instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=3)  # type: ignore[assignment]
    asyncio.run(trigger.on_kill())
    return trigger.has_let_go


@pytest.mark.parametrize("state", ["deferred", "scheduled", "queued", "running"])
def test_what_is_waited_for_elsewhere_or_gone_on_with_is_not_given_up(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """
    t1  a triggerer is silent for 30 s; another one takes its triggers over
    t2                 the request is granted there, and the task goes on
    t3  it wakes up: Airflow cancels its triggers as if somebody had ended their tasks
    """
    assert not killed(monkeypatch, {"r": {"t_3": state}})


@pytest.mark.parametrize("state", ["failed", "success", "skipped", "up_for_retry", None])
def test_who_ends_a_task_ends_what_it_waits_for(monkeypatch: pytest.MonkeyPatch, state: str | None) -> None:
    assert killed(monkeypatch, {"r": {"t_3": state}})


def test_a_run_that_was_deleted_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert killed(monkeypatch, {})


@pytest.mark.rule("R17")
def test_on_an_answer_that_is_none_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not killed(monkeypatch, ConnectionError("the supervisor is gone"))


def test_a_trigger_without_a_task_is_ended_by_whoever_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert killed(monkeypatch, {}, in_task=False)


def test_what_airflow_cancels_again_while_it_lets_go_is_let_go_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow cancels ``on_kill`` in each of its rounds until it has ended; the answer may take longer than one."""
    asked, answers = threading.Event(), threading.Event()

    def states(**_: Any) -> Any:
        asked.set()
        assert answers.wait(30)
        return {"r": {"t": "failed"}}

    async def triggerer(trigger: Waits) -> None:
        killing = asyncio.create_task(trigger.on_kill())
        assert await asyncio.to_thread(asked.wait, 30)
        killing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await killing
        answers.set()
        for _ in range(3000):
            if trigger.has_let_go:
                break
            await asyncio.sleep(0.01)

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", states)
    trigger = Waits()
    trigger.task_instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1)  # type: ignore[assignment]
    asyncio.run(triggerer(trigger))
    assert trigger.has_let_go


@pytest.mark.parametrize(
    "kind", [LocksGrantedTrigger, LeaseGrantedTrigger, TransactionKeptTrigger, CompactionFinishedTrigger]
)
def test_all_that_hold_something_ask_first(kind: type[MetastoreWaitTrigger]) -> None:
    assert kind.on_kill is MetastoreWaitTrigger.on_kill
    assert kind.let_go is not MetastoreWaitTrigger.let_go
