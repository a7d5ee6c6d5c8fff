"""Ids kept as ranges are the same set as a frozenset of them, and a gap of any width costs nothing."""

from __future__ import annotations

import copy
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.format.id_ranges import NO_IDS, IdRanges
from airflow_hive_acid.format.write_ids import (
    ValidTxnList,
    ValidWriteIdList,
    fold_write_ids,
    read_txn_list,
)
from airflow_hive_acid.metastore.protocol.looks import with_own
from tests.folds import fold_open_txns

IDS = st.frozensets(st.integers(0, 40), max_size=30)
FAR = 5_000_000


@given(IDS, IDS, st.integers(-1, 42), st.integers(-1, 42))
def test_ranges_are_the_set_of_their_ids(some: frozenset[int], others: frozenset[int], low: int, high: int) -> None:
    ids, more = IdRanges.of(some), IdRanges.of(others)
    inside = {i for i in some if low <= i <= high}
    assert list(ids) == sorted(some)
    assert (len(ids), bool(ids), ids.first) == (len(some), bool(some), min(some, default=None))
    assert [i for i in range(-1, 42) if i in ids] == sorted(some)
    assert ids.between(low, high) == inside
    assert ids.count_between(low, high) == len(inside)
    assert ids.up_to(high) == {i for i in some if i <= high}
    assert [i for i in range(-1, 42) if sum(edge <= i for edge in ids.edges) % 2] == sorted(some)
    for other in (more, others):
        assert (ids | other) == (some | others) == (other | ids)
        assert (ids - other) == (some - others)
        assert (other - ids) == (others - some)
        assert (ids & other) == (some & others)
        assert ids.isdisjoint(other) == some.isdisjoint(others)
        assert (ids <= other) == (some <= others)
    assert (ids == more) == (some == others) == (ids == others)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8))
def test_runs_may_overlap_touch_and_be_empty(runs: list[tuple[int, int]]) -> None:
    """However the runs are told, the ranges neither overlap nor touch, so equal sets have equal ranges."""
    ids = IdRanges(runs)
    expected = frozenset(i for low, high in runs for i in range(low, high + 1))
    assert ids == expected
    assert ids == IdRanges.of(expected)
    assert hash(ids) == hash(expected)
    flat = [edge for run in ids.runs for edge in run]
    assert flat == sorted(flat)
    assert all(after - before > 1 for (_, before), (after, _) in zip(list(ids.runs), list(ids.runs)[1:], strict=False))


def test_the_value_survives_copying_and_says_what_it_is() -> None:
    ids = IdRanges([(1, 5), (9, 9)])
    assert copy.deepcopy(ids) == ids
    assert repr(ids) == "IdRanges(1-5,9)"
    assert IdRanges.of(ids) is ids
    assert not NO_IDS


def test_of_many_ranges_the_first_twenty_are_shown() -> None:
    """It stands in messages and logs."""
    odd = ",".join(map(str, range(1, 40, 2)))
    assert repr(IdRanges.of(range(1, 40, 2))) == f"IdRanges({odd})"
    assert repr(IdRanges.of(range(1, 42, 2))) == f"IdRanges({odd},…)"


def test_ranges_with_one_end_in_common_are_different_sets() -> None:
    assert IdRanges([(1, 5)]) != IdRanges([(1, 3)])
    assert IdRanges([(1, 5)]) != IdRanges([(3, 5)])


def test_what_is_no_whole_number_is_no_id() -> None:
    ids = IdRanges([(1, 5)])
    assert [other in ids for other in ("3", None, 2.5)] == [False] * 3
    assert 3 not in NO_IDS


def test_a_set_that_stays_the_same_is_not_copied() -> None:
    """A snapshot may have a hundred thousand ranges, and is cut at its mark for each table."""
    ids = IdRanges([(2, 5), (9, 9)])
    assert ids.between(2, 9) is ids
    assert ids.up_to(9) is ids
    assert ids | NO_IDS is ids
    assert NO_IDS | ids is ids
    assert [list(ids.between(*ends)) for ends in ((3, 9), (2, 8), (6, 9))] == [[3, 4, 5, 9], [2, 3, 4, 5], [9]]


@given(IDS, IDS, st.integers(0, 45))
def test_short_and_full_text_are_the_same_list(opened: frozenset[int], aborted: frozenset[int], mark: int) -> None:
    written = ValidWriteIdList(mark, opened, aborted - opened, None, "d.t")
    assert ValidWriteIdList.parse(written.short_text()) == written == ValidWriteIdList.parse(str(written))
    assert "-" not in str(written)


def test_a_jump_of_ids_costs_a_snapshot_nothing() -> None:
    """A seed of the ids, seen in its first second: all ids below are open, and are one range, in every step.

    t1  1 is open; the ids jump to 5,000,000, and that txn is young
    t2  the snapshot; its text; parsed again; the write ids of a table that jumped as well; its text for the job
    """
    tracemalloc.start()
    try:
        rows = [(0, "c", None, 9_000_000), (1, "o", 0, 9_000), (FAR, "o", 0, 1)]
        seen = ValidTxnList.parse(str(read_txn_list(fold_open_txns(rows, 1000))))
        assert str(seen) == f"{FAR}:1:1-{FAR}:"
        assert [seen.is_valid(i) for i in (0, 1, FAR // 2, FAR, FAR + 1)] == [True, False, False, False, False]
        before = read_txn_list(fold_open_txns(rows, 1000), current_txn=FAR)
        assert before.first_open_or_next == 1
        assert len(before.open) == FAR - 1
        own = with_own(fold_write_ids("d.t", [], seen, 3), FAR)
        assert ValidWriteIdList.parse(own.short_text()) == own
        assert own.short_text() == f"d.t:{FAR}:3:3-{FAR - 1}:"
        assert own.with_committed(FAR + 5).open == IdRanges([(3, FAR - 1), (FAR + 1, FAR + 4)])
        assert own.for_cleaner().is_range_aborted(3, FAR) is False
        assert own.for_compactor().high_watermark == 2
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
