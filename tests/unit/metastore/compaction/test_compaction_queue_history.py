"""What is kept of past compactions, and when a table that keeps failing is left alone."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.compaction.history import Retention, is_failing, select_for_purge
from airflow_hive_acid.metastore.compaction.model import (
    Compaction,
    CompactionState,
    CompactionType,
    Resource,
    format_properties,
    parse_properties,
)

DAY = 86_400_000
NOW = 100 * DAY
S, F, A, R, X = (CompactionState(code) for code in "sfacx")


def row(id_: int, state: CompactionState, *, days_ago: float = 0, partition: str | None = None,
        kind: CompactionType = CompactionType.MAJOR) -> Compaction:  # fmt: skip
    when = NOW - int(days_ago * DAY)
    return Compaction(id_, Resource("d", "t", partition), kind, state, queued=False, start=when, enqueue_time=when)


def purged(rows: list[Compaction], retention: Retention | None = None) -> list[int]:
    return [p.compaction.id for p in select_for_purge(rows, retention or Retention(), NOW)]


@pytest.mark.conformance("C10")
def test_the_newest_of_each_state_are_kept_separately() -> None:
    assert purged([row(i, S) for i in (1, 2, 3, 4)]) == [1]
    mixed = [row(1, S), row(2, F), row(3, R), row(4, A), row(5, S), row(6, F), row(7, R), row(8, A), row(9, S),
             row(10, F), row(11, R), row(12, A), row(13, S), row(14, F), row(15, R)]  # fmt: skip
    assert purged(mixed) == [1, 2, 3, 4]


def test_each_partition_has_a_history_of_its_own() -> None:
    rows = [row(i, S, partition=f"p={i % 2}") for i in range(1, 9)]
    assert purged(rows) == [1, 2]


def test_the_newest_rebalance_is_kept_for_replicas_and_mirrors_that_have_not_looked_yet() -> None:
    rebalance = CompactionType.REBALANCE
    rows = [row(1, S, kind=rebalance), row(2, S, kind=rebalance), row(3, F, kind=rebalance),
            *(row(i, S) for i in range(4, 8))]  # fmt: skip
    assert purged(rows) == [1, 4]


def test_aborted_requests_are_kept_for_ever() -> None:
    assert purged([row(i, X, days_ago=99) for i in range(1, 20)]) == []


@pytest.mark.parametrize("state", [F, A, R])
def test_an_old_failure_goes_once_a_later_compaction_succeeded(state: CompactionState) -> None:
    assert purged([row(1, state, days_ago=8), row(2, S)]) == [1]
    assert purged([row(1, state, days_ago=6), row(2, S)]) == []
    assert purged([row(1, S), row(2, state, days_ago=8)]) == []


def test_a_later_minor_success_makes_only_minor_failures_pointless() -> None:
    minor = CompactionType.MINOR
    assert purged([row(1, F, days_ago=8), row(2, S, kind=minor)]) == []
    assert purged([row(1, F, days_ago=8, kind=minor), row(2, S, kind=minor)]) == [1]


def test_every_row_says_why_it_goes() -> None:
    rows = [row(1, F, days_ago=8), *(row(i, S) for i in (2, 3, 4, 5))]
    reasons = {p.compaction.id: p.reason for p in select_for_purge(rows, Retention(), NOW)}
    assert reasons == {
        1: "8 days old, and a later compaction succeeded", 2: "3 newer ones that succeeded are kept"}  # fmt: skip


@pytest.mark.conformance("C09")
def test_a_table_is_given_up_after_failures_in_a_row_and_tried_again_later() -> None:
    week = 7 * DAY
    assert is_failing([row(3, F), row(2, F), row(1, S)], 2, week, NOW)
    assert not is_failing([row(3, F, days_ago=8), row(2, F, days_ago=9)], 2, week, NOW)
    assert is_failing([row(3, F, days_ago=8), row(2, F, days_ago=9)], 2, 0, NOW)
    assert not is_failing([row(3, F), row(2, S), row(1, F)], 2, week, NOW)
    assert not is_failing([row(3, F), row(2, X), row(1, F)], 2, week, NOW)
    assert not is_failing([row(1, F)], 2, week, NOW)
    assert not is_failing([], 0, week, NOW)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"foo": "bar"}, "1:3:foo3:bar"),
        ({"a": "", "b": "x:y"}, "2:1:a0:1:b3:x:y"),
        ({"k": "é😀"}, "1:1:k3:é😀"),
        ({}, None),
    ],
)
def test_properties_are_written_as_hive_writes_them(properties: dict[str, str], text: str | None) -> None:
    assert format_properties(properties) == text
    assert parse_properties(text) == properties


@pytest.mark.parametrize("text", ["x", "1:", "1:3:fo", "2:3:foo3:bar", "1:3:foo99:bar", "1:a:foo3:bar", ":"])
def test_what_are_no_properties_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentsError):
        parse_properties(text)


def test_properties_that_do_not_fit_the_column_are_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match="2048"):
        format_properties({"k": "x" * 2048})


def test_a_missing_value_of_hive_reads_as_empty() -> None:
    assert parse_properties("1:3:foo-1:") == {"foo": ""}
