"""Which tasks are the same piece of work (R14): who runs, by what became of the run before."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.hooks.lives import LIFE_KEY, deployment_id, run_life
from airflow_hive_acid.hooks.tasks import once_of, unique_scope, worker_id
from airflow_hive_acid.metastore.records.claim_rules import Wish

DEPLOYMENT = "AIRFLOW__HIVE_ACID__DEPLOYMENT_ID"


class Airflow:
    """What an Airflow keeps of its DAG runs: the rows of the task state store hang on the run's row."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.run = 0

    def delete_run_and_make_it_again(self) -> None:
        self.run += 1

    def at(self, max_tries: int, *, retries: int, clears: int) -> Any:
        """A try, with what the DAG says now, and how often something of the run was cleared."""
        known = {"task": SimpleNamespace(retries=retries), "dag_run": SimpleNamespace(clear_number=clears)}
        return {**self.task(max_tries=max_tries), **known}

    def task(self, task_id: str = "t", map_index: int | None = -1, max_tries: int = 1, run_id: str = "r") -> Any:
        row = self.kept.setdefault((self.run, run_id, task_id, map_index), {})
        store = SimpleNamespace(get=row.get, set=lambda key, value, retention: row.update({key: value}))
        ti = SimpleNamespace(dag_id="d", run_id=run_id, task_id=task_id, map_index=map_index, max_tries=max_tries)
        return {"ti": ti, "task_state_store": store}


def key_of(context: Any) -> tuple[str, ...]:
    return once_of(context, "apply").scope


def test_all_tries_of_a_task_instance_are_one_piece_of_work_cleared_ones_too() -> None:
    airflow = Airflow()
    first, retry, cleared = (once_of(airflow.task(max_tries=tries), "apply") for tries in (1, 1, 3))
    assert first == retry
    assert cleared.scope == first.scope
    assert cleared.life != first.life  # decision 18: that tells the clear


def test_a_task_that_is_cleared_with_fewer_retries_than_before_begins_another_life() -> None:
    """
    t1  retries=1: the task succeeds in its first try, of 2 at most (max_tries=1)
    t2  the DAG says retries=0; the task is cleared: one try was, and none is to follow (max_tries=1)
    t3  its retry, should there be one, is of the same life
    t4  it is cleared again: two tries were (max_tries=2)
    """
    airflow = Airflow()
    first = once_of(airflow.at(1, retries=1, clears=0), "apply").life
    cleared = once_of(airflow.at(1, retries=0, clears=1), "apply").life
    retry = once_of(airflow.at(1, retries=0, clears=1), "apply").life
    again = once_of(airflow.at(2, retries=0, clears=2), "apply").life
    assert first == "1"
    assert retry == cleared
    assert len({first, cleared, again}) == 3


def test_a_retry_is_of_the_same_life_whatever_else_happens_to_its_run_and_its_dag() -> None:
    """Another task of the run is cleared, or the DAG gets other retries: neither begins a life of this one."""
    airflow = Airflow()
    tries = [(1, 0), (1, 1), (0, 1), (0, 2), (3, 2)]
    lives = [once_of(airflow.at(1, retries=retries, clears=clears), "apply").life for retries, clears in tries]
    assert lives == ["1"] * len(tries)


def test_a_life_that_an_earlier_release_has_begun_goes_on() -> None:
    airflow = Airflow()
    assert once_of(airflow.task(max_tries=3), "apply").life == "3"
    assert once_of(airflow.at(3, retries=3, clears=4), "apply").life == "3"


@pytest.mark.parametrize(
    "other", [{"task_id": "u"}, {"map_index": 0}, {"map_index": 1}, {"run_id": "s"}], ids=lambda changed: str(changed)
)
def test_other_tasks_and_runs_are_other_work(other: dict[str, Any]) -> None:
    airflow = Airflow()
    assert key_of(airflow.task()) != key_of(airflow.task(**other))


@pytest.mark.parametrize("map_index", [-1, None, 0])
def test_a_run_that_was_deleted_and_made_again_is_other_work(map_index: int | None) -> None:
    """
    t1  the run commits
    t2  it is deleted in the UI; the scheduler makes it again: same ids, same dates, max_tries as at first
    """
    airflow = Airflow()
    before = key_of(airflow.task(map_index=map_index))
    airflow.delete_run_and_make_it_again()
    again = key_of(airflow.task(map_index=map_index))
    assert again != before
    assert again == key_of(airflow.task(map_index=map_index))


def test_the_same_run_of_another_airflow_is_other_work() -> None:
    assert key_of(Airflow().task()) != key_of(Airflow().task())


def test_a_worker_and_a_stream_of_another_airflow_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two Airflows that run the Worker's DAG have runs of the same ids: neither ends what the other works on."""
    here, there = Airflow(), Airflow()
    here.kept[0, "r", "t", -1], there.kept[0, "r", "t", -1] = {LIFE_KEY: "a"}, {LIFE_KEY: "b"}
    for name in (worker_id, unique_scope):
        assert name(here.task()) == name(here.task())
        assert name(here.task()) != name(there.task())
    assert re.fullmatch("@airflow-d-r-t~[0-9a-f]{4}", worker_id(here.task()))
    context = {"ti": Airflow().task()["ti"]}
    assert worker_id(context) == "@airflow-d-r-t"
    monkeypatch.setenv(DEPLOYMENT, "staging")
    assert re.fullmatch("@airflow-d-r-t~[0-9a-f]{4}", worker_id(context))
    assert unique_scope(context) == ("airflow", "d", "r", "t", "-1", "staging")


def test_without_a_store_the_deployment_tells_airflows_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    context = {"ti": Airflow().task()["ti"]}
    assert run_life(context) == ""
    unnamed = key_of(context)
    monkeypatch.setenv(DEPLOYMENT, "staging")
    assert deployment_id() == "staging"
    assert key_of(context) == (*unnamed, "staging")


def test_of_two_tries_that_begin_a_life_at_once_both_have_the_one_that_stayed() -> None:
    airflow = Airflow()
    context = airflow.task()
    row = airflow.kept[0, "r", "t", -1]
    store = SimpleNamespace(get=row.get, set=lambda key, _value, retention: row.update({key: "theirs"}))
    assert run_life({**context, "task_state_store": store}) == "theirs" == row[LIFE_KEY]


def test_a_try_that_airflow_has_given_up_does_not_begin_a_life() -> None:
    """Airflow knows the id of a try that is over no more: the error ends the task before anything is claimed."""

    def refused(*_: Any, **__: Any) -> None:
        raise LookupError("no such task instance")

    store = SimpleNamespace(get=lambda _key: None, set=refused)
    with pytest.raises(LookupError):
        once_of({**Airflow().task(), "task_state_store": store}, "apply")


def test_messages_name_the_task_and_not_its_life() -> None:
    wish = Wish(key_of(Airflow().task()), 0, "digest")
    assert str(wish) == "statement 0 of airflow / d / r / t / -1"


@pytest.mark.parametrize("text", ["a b", "ä", "x" * 65, "a/b"])
def test_a_deployment_id_that_is_no_name_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(DEPLOYMENT, text)
    with pytest.raises(ConfigurationError, match="deployment_id"):
        deployment_id()
