"""Runs of write ids that came with one sync: what of them can be told, and how many are kept."""

from __future__ import annotations

import pytest

from airflow_hive_acid.metastore.replica.overwritten import MOST_RUNS, cut_run, runs_of, text_of

RUNS = ((2, 5), (9, 12))


@pytest.mark.parametrize(
    ("first", "last", "cut"),
    [
        (1, 1, None), (1, 5, None), (2, 5, None), (2, 8, None), (6, 8, None), (1, 20, None), (13, 13, None),
        (2, 2, (2, 5)), (1, 4, (2, 5)), (3, 20, (2, 5)), (5, 5, (2, 5)), (6, 9, (9, 12)), (12, 12, (9, 12)),
    ],
)  # fmt: skip
def test_a_range_neither_begins_nor_ends_within_a_run(first: int, last: int, cut: tuple[int, int] | None) -> None:
    assert cut_run(RUNS, first, last) == cut


def test_runs_are_kept_as_text() -> None:
    assert text_of(RUNS) == "2-5,9-12"
    assert runs_of("2-5,9-12") == RUNS
    assert runs_of(None) == runs_of("") == ()


def test_of_too_many_runs_the_oldest_become_one_that_refuses_more() -> None:
    many = tuple((10 * i, 10 * i + 5) for i in range(1, MOST_RUNS + 3))
    kept = runs_of(text_of(many))
    assert len(kept) == MOST_RUNS
    assert (kept[0], kept[1:]) == ((10, 35), many[3:])
    assert len(text_of(tuple((10**12 + i, 10**12 + i + 1) for i in range(MOST_RUNS)))) < 4000
