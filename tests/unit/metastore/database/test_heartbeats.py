"""Background heartbeats, with a beat that only takes notes."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import MetastoreUnavailableError, NoSuchTxnError
from airflow_hive_acid.metastore.database.heartbeats import Heartbeater

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL = 0.2


class Notes:
    """What was beaten, by which thread; beats fail as told."""

    def __init__(self) -> None:
        self.beats: list[int] = []
        self.threads: set[str] = set()
        self.fail: dict[int, Exception] = {}
        self.hold = threading.Event()
        self.hold.set()
        self.inside = 0
        self.most_inside = 0

    def beat(self, txn_id: int) -> None:
        self.beats.append(txn_id)
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.hold.wait(5)
        self.inside -= 1
        if txn_id in self.fail:
            raise self.fail[txn_id]

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 10
        while len(self.beats) < count:
            assert time.monotonic() < deadline, f"{self.beats} after 10 s"
            time.sleep(0.005)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def heartbeater(notes: Notes) -> Iterator[Heartbeater]:
    heartbeater = Heartbeater(notes.beat, INTERVAL, threads=3)
    yield heartbeater
    notes.hold.set()
    heartbeater.close()


def test_every_txn_is_beaten_again_and_again(heartbeater: Heartbeater, notes: Notes) -> None:
    heartbeater.add(1)
    heartbeater.add(2)
    notes.wait_for(6)
    assert set(notes.beats) == {1, 2}
    assert notes.beats.count(1) >= 2


def test_a_txn_that_was_removed_is_left_alone(heartbeater: Heartbeater, notes: Notes) -> None:
    heartbeater.add(1)
    heartbeater.remove(1)
    time.sleep(2 * INTERVAL)
    assert notes.beats == []


def test_slow_beats_do_not_hold_up_the_others(heartbeater: Heartbeater, notes: Notes) -> None:
    notes.hold.clear()
    for txn_id in range(1, 6):
        heartbeater.add(txn_id)
    notes.wait_for(3)
    assert notes.most_inside == 3
    notes.hold.set()
    notes.wait_for(6)
    assert notes.most_inside == 3


def test_a_txn_that_is_gone_is_reported_and_dropped(heartbeater: Heartbeater, notes: Notes) -> None:
    notes.fail[1] = NoSuchTxnError("txn 1 is already committed")
    heartbeater.add(1)
    notes.wait_for(1)
    deadline = time.monotonic() + 10
    while heartbeater.lost(1) is None and time.monotonic() < deadline:
        time.sleep(0.005)
    assert heartbeater.lost(1) is notes.fail[1]
    time.sleep(2 * INTERVAL)
    assert notes.beats == [1]
    heartbeater.remove(1)
    assert heartbeater.lost(1) is None


def test_a_metastore_that_is_away_for_a_moment_is_asked_again_soon(heartbeater: Heartbeater, notes: Notes) -> None:
    notes.fail[1] = MetastoreUnavailableError("restarting")
    heartbeater.add(1)
    notes.wait_for(1)
    started = time.monotonic()
    notes.wait_for(3)
    assert time.monotonic() - started < 2 * INTERVAL
    assert heartbeater.lost(1) is None


def test_a_closed_heartbeater_can_be_used_again(heartbeater: Heartbeater, notes: Notes) -> None:
    heartbeater.add(1)
    notes.wait_for(1)
    heartbeater.close()
    beats = len(notes.beats)
    time.sleep(2 * INTERVAL)
    assert len(notes.beats) == beats
    heartbeater.add(2)
    notes.wait_for(beats + 1)
    assert notes.beats[-1] == 2


def test_adding_says_whether_the_txn_is_new(heartbeater: Heartbeater) -> None:
    assert heartbeater.add(1)
    assert not heartbeater.add(1)


def test_an_error_that_nobody_has_thought_of_fails_its_txn_and_no_other(heartbeater: Heartbeater, notes: Notes) -> None:
    notes.fail[1] = RuntimeError("a fault in a library")
    heartbeater.add(1)
    heartbeater.add(2)
    deadline = time.monotonic() + 10
    while heartbeater.lost(1) is None and time.monotonic() < deadline:
        time.sleep(0.005)
    lost = heartbeater.lost(1)
    assert isinstance(lost, MetastoreUnavailableError)
    assert "a fault in a library" in str(lost)
    before = len(notes.beats)
    notes.wait_for(before + 2)
    assert set(notes.beats[before:]) == {2}


def test_a_txn_that_cannot_be_ended_is_ended_when_the_database_answers_again(
    heartbeater: Heartbeater, notes: Notes
) -> None:
    answers: list[Exception | None] = [MetastoreUnavailableError("away"), MetastoreUnavailableError("away"), None]
    ended = threading.Event()

    def end() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        ended.set()

    heartbeater.end_later(1, end)
    assert ended.wait(10)
    heartbeater.add(2)
    notes.wait_for(2)
    assert set(notes.beats) == {2}
    assert answers == []


@pytest.mark.parametrize("failure", [NoSuchTxnError("txn 1 is committed"), RuntimeError("a fault")])
def test_a_txn_whose_end_is_refused_is_left_alone(heartbeater: Heartbeater, notes: Notes, failure: Exception) -> None:
    asked = []

    def end() -> None:
        asked.append(1)
        raise failure

    heartbeater.end_later(1, end)
    heartbeater.add(2)
    notes.wait_for(3)
    assert asked == [1]


def test_a_txn_that_stays_is_beaten_in_time_beside_many_that_come_and_go(
    notes: Notes, heartbeater: Heartbeater
) -> None:
    """The threads are not called for each of those, and must look early enough all the same."""
    heartbeater.add(1000)
    began = time.monotonic()
    for txn_id in range(300):
        heartbeater.add(txn_id)
        heartbeater.remove(txn_id)
    notes.wait_for(1)
    assert notes.beats[0] == 1000
    assert time.monotonic() - began < 5
    heartbeater.remove(1000)
    later = len(notes.beats)
    heartbeater.add(2000)
    notes.wait_for(later + 1)
    assert notes.beats[later] == 2000
