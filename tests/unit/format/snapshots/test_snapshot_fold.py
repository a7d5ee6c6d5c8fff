"""From rows of TXNS and TXN_TO_WRITE_ID to snapshots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.format.id_ranges import NO_IDS
from airflow_hive_acid.format.write_ids import (
    OpenTxns,
    ValidTxnList,
    ValidWriteIdList,
    fold_write_ids,
    read_txn_list,
)
from tests.folds import fold_open_txns

OLD, YOUNG = 5000, 10
SEED = (0, "c", None, 1_700_000_000_000)
Row = tuple[int, str, int | None, int]


def fold(*rows: Row) -> OpenTxns:
    return fold_open_txns(rows, gap_timeout_ms=1000)


@pytest.mark.conformance("T01")
def test_a_fresh_schema_has_no_txns() -> None:
    assert fold(SEED) == OpenTxns(NO_IDS, NO_IDS, 0, None, 0)
    assert fold() == fold(SEED)


@pytest.mark.conformance("T02")
def test_a_committed_txn_leaves_the_list() -> None:
    folded = fold(SEED, (1, "o", 0, YOUNG), (2, "c", 0, YOUNG), (3, "o", 0, YOUNG))
    assert (folded.open, folded.aborted) == ({1, 3}, set())
    assert (folded.high_watermark, folded.min_open) == (3, 1)


@pytest.mark.conformance("T03")
def test_an_aborted_txn_stays_in_the_list() -> None:
    folded = fold(SEED, (1, "o", 0, OLD), (2, "a", 0, OLD), (3, "o", 0, OLD))
    assert folded.aborted == {2}
    assert str(read_txn_list(folded)) == "3:1:1,3:2"


def test_ids_missing_below_a_young_row_count_as_open() -> None:
    folded = fold(SEED, (1, "c", 0, OLD), (5, "c", 0, YOUNG))
    assert folded.open == {2, 3, 4}
    assert folded.min_open == 2
    assert str(read_txn_list(folded)) == "5:2:2,3,4:"
    assert fold(SEED, (1, "o", 0, OLD), (5, "c", 0, YOUNG)).min_open == 1, "the smallest stays the smallest"
    assert fold(SEED, (1, "c", 0, YOUNG), (2, "c", 0, YOUNG)).min_open is None, "none is missing"


@pytest.mark.parametrize(("age", "opened"), [(999, {1, 2}), (1000, set())])
def test_a_row_is_young_until_it_is_as_old_as_the_timeout(age: int, opened: set[int]) -> None:
    assert fold(SEED, (3, "c", 0, age)).open == opened


def test_ids_missing_below_an_old_row_never_were() -> None:
    folded = fold(SEED, (1, "c", 0, OLD), (5, "c", 0, OLD), (7, "o", 0, YOUNG))
    assert folded.open == {6, 7}
    assert folded.low_boundary == 5


def test_read_only_txns_are_left_out_but_hold_back_the_smallest_open_id() -> None:
    folded = fold(SEED, (1, "o", 2, OLD), (2, "o", None, OLD))
    assert folded.open == {2}
    assert folded.min_open == 1


@pytest.mark.conformance("T30")
def test_a_reader_sees_its_own_txn_and_none_after_it() -> None:
    folded = fold(SEED, (3, "a", 0, OLD), (5, "o", 0, OLD), (6, "o", 0, OLD), (8, "o", 0, OLD))
    mine = read_txn_list(folded, current_txn=6)
    assert str(mine) == "6:5:5:3"
    assert mine.is_valid(6)
    assert not mine.is_valid(8)
    first = fold(SEED, (1, "o", 0, OLD), (2, "o", 0, OLD))
    assert str(read_txn_list(first, current_txn=1)) == "1:9223372036854775807::"
    assert str(read_txn_list(first)) == "2:1:1,2:"


@st.composite
def txn_rows(draw: st.DrawFn) -> list[Row]:
    present = draw(st.sets(st.integers(1, 25)))
    state, kind = st.sampled_from("oac"), st.sampled_from([0, 1, 2, None])
    return [SEED] + [(i, draw(state), draw(kind), draw(st.sampled_from([YOUNG, OLD]))) for i in sorted(present)]


@given(txn_rows())
def test_folding_equals_hives_loop(rows: list[Row]) -> None:
    """The loop of the original, step by step."""
    expected: list[tuple[int, bool]] = []
    bound = mark = 0
    for txn_id, state, kind, age in rows:
        mark = txn_id
        if age < 1000:
            bound += 1
            while txn_id > bound:
                expected.append((bound, False))
                bound += 1
            bound = txn_id
        else:
            bound = txn_id
        if state in "oa" and kind != 2:
            expected.append((txn_id, state == "a"))
    folded = fold(*rows)
    assert list(folded.open) == [txn_id for txn_id, aborted in expected if not aborted]
    assert list(folded.aborted) == [txn_id for txn_id, aborted in expected if aborted]
    assert folded.high_watermark == mark


@pytest.mark.conformance("T37")
def test_a_table_never_written_has_no_ids() -> None:
    assert str(fold_write_ids("d.t", [], ValidTxnList(9), None)) == "d.t:0:9223372036854775807::"


@pytest.mark.conformance("T38")
def test_open_and_aborted_writers_become_exceptions() -> None:
    txns = ValidTxnList(14, frozenset({12}), frozenset({13}))
    rows = [(11, 1), (12, 2), (13, 3), (14, 4)]
    assert str(fold_write_ids("d.t", rows, txns, 5)) == "d.t:4:2:2:3"


@pytest.mark.conformance("T39")
def test_purged_rows_are_valid_up_to_the_last_allocated_id() -> None:
    assert str(fold_write_ids("d.t", [], ValidTxnList(99), 8)) == "d.t:7:9223372036854775807::"


@pytest.mark.conformance("T41")
def test_an_id_of_a_later_txn_counts_as_open() -> None:
    """Write id 2 belongs to txn 20, opened after the snapshot, but lies below write id 3 of txn 10."""
    rows = [(9, 1), (20, 2), (10, 3), (21, 4)]
    assert str(fold_write_ids("d.t", rows, ValidTxnList(10), 5)) == "d.t:3:2:2:"


def test_without_any_valid_id_nothing_above_the_lowest_exception_is_shown() -> None:
    txns = ValidTxnList(14, frozenset({12}), frozenset({11}))
    assert str(fold_write_ids("d.t", [(11, 5), (12, 6)], txns, 7)) == "d.t:5:9223372036854775807::5"
    assert str(fold_write_ids("d.t", [(12, 5), (11, 6)], txns, 7)) == "d.t:5:5:5:"
    for opened, aborted, mark in (({11, 12}, set(), "5:5:5:"), (set(), {11, 12}, "5:9223372036854775807::5")):
        txns = ValidTxnList(14, frozenset(opened), frozenset(aborted))
        assert str(fold_write_ids("d.t", [(11, 5), (12, 6)], txns, 7)) == f"d.t:{mark}", "all of one kind"


def test_the_first_write_id_of_a_table_is_a_mark_like_any_other() -> None:
    """Write id 2 is given to a txn that the snapshot is older than."""
    assert str(fold_write_ids("d.t", [(9, 1), (20, 2)], ValidTxnList(10), 3)) == "d.t:1:9223372036854775807::"


@pytest.mark.rule("R11")
def test_a_writer_the_snapshot_did_not_see_counts_as_open() -> None:
    """
    t1  A gets txn id 6, its row is not visible yet
    t2            B opens 7, takes its snapshot: sees 7, not 6
    t3  A's row appears, A allocates write id 1 of d.t
    t4            B reads d.t for the first time: write id 1 must stay hidden
    """
    rows = [(5, 1), (6, 2)]
    assert fold_write_ids("d.t", rows, ValidTxnList(7), 3).is_valid(2)
    assert str(fold_write_ids("d.t", rows, ValidTxnList(7), 3, unseen_txns={6})) == "d.t:2:2:2:"


@given(st.permutations(range(1, 9)), st.integers(0, 9), st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9)))
def test_a_write_id_is_valid_exactly_when_its_txn_is(
    txn_ids: list[int], mark: int, opened: set[int], aborted: set[int]
) -> None:
    """Given a visible writer, nothing but the txn decides; without one, nothing is shown at all."""
    txns = ValidTxnList(mark, frozenset(opened - aborted), frozenset(aborted))
    rows = [(txn_id, write_id) for write_id, txn_id in enumerate(txn_ids, start=1)]
    folded = fold_write_ids("d.t", rows, txns, 9)
    if any(txn_id <= mark for txn_id in txn_ids):
        assert {w for _, w in rows if folded.is_valid(w)} == {w for t, w in rows if txns.is_valid(t)}
    assert isinstance(folded, ValidWriteIdList)
