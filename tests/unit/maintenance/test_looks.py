"""Answers that serve for as long as they took, once more."""

from __future__ import annotations

from airflow_hive_acid.maintenance.warehouse.looks import Looks


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_serves_as_long_as_it_took_and_not_longer() -> None:
    clock, looked = Clock(), []

    def look(place: str) -> int:
        looked.append(place)
        clock.now += 3
        return len(looked)

    looks = Looks(look, clock)
    assert looks.at("a") == 1
    clock.now += 2.9
    assert looks.at("a") == 1
    assert looks.at("b") == 2
    clock.now += 0.2
    assert looks.at("a") == 3
    assert looked == ["a", "b", "a"]


def test_a_look_that_takes_no_time_serves_once() -> None:
    looked: list[str] = []
    looks = Looks(looked.append, Clock())
    for _ in range(3):
        looks.at("a")
    assert looked == ["a", "a", "a"]


def test_no_answer_serves_longer_than_ten_seconds() -> None:
    clock, looked = Clock(), []

    def look(place: str) -> None:
        looked.append(place)
        clock.now += 60

    looks = Looks(look, clock)
    looks.at("a")
    clock.now += 9.9
    looks.at("a")
    assert looked == ["a"]
    clock.now += 0.1
    looks.at("a")
    assert looked == ["a", "a"]
