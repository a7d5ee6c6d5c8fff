"""Txn and write-id lists: texts, tests and variants."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.id_ranges import IdRanges
from airflow_hive_acid.format.write_ids import (
    MAX_ID,
    RangeValidity,
    ValidCompactorWriteIdList,
    ValidTxnList,
    ValidWriteIdList,
)

ALL, SOME, NONE = RangeValidity.ALL, RangeValidity.SOME, RangeValidity.NONE


def ids(*values: int) -> frozenset[int]:
    return frozenset(values)


@st.composite
def lists(draw: st.DrawFn) -> ValidWriteIdList:
    mark = draw(st.integers(0, 30))
    exceptions = draw(st.sets(st.integers(1, mark))) if mark else set()
    aborted = frozenset(i for i in sorted(exceptions) if draw(st.booleans()))
    return ValidWriteIdList(mark, frozenset(exceptions) - aborted, aborted, table="default.t")


@pytest.mark.conformance("T24")
def test_a_txn_list_without_exceptions_prints_no_smallest_open_id() -> None:
    assert str(ValidTxnList(25)) == "25:9223372036854775807::"


@pytest.mark.conformance("T25")
def test_a_txn_list_with_an_open_and_an_aborted_txn() -> None:
    txns = ValidTxnList(25, ids(7), ids(4))
    assert str(txns) == "25:7:7:4"
    assert ValidTxnList.parse("25:7:7:4") == txns
    assert txns.min_open == 7
    assert not txns.is_valid(7)
    assert not txns.is_valid(4)
    assert txns.is_aborted(4)
    assert not txns.is_aborted(7)
    assert txns.is_valid(25)
    assert not txns.is_valid(26)


@pytest.mark.conformance("T25")
def test_runs_of_five_are_written_as_ranges_in_txn_lists_only() -> None:
    txns = ValidTxnList(60, ids(10, 11, 12, 13, 14, 20), ids(30, 31))
    assert str(txns) == "60:10:10-14,20:30,31"
    assert ValidTxnList.parse("60:10:10-14,20:30,31") == txns
    assert str(ValidTxnList(9, ids(1, 2, 3, 4))) == "9:1:1,2,3,4:"
    assert str(ValidWriteIdList(9, ids(1, 2, 3, 4, 5), table="d.t")) == "d.t:9:1:1,2,3,4,5:"


@pytest.mark.conformance("T27")
@pytest.mark.parametrize(("text", "mark"), [("1:", 1), ("5:9223372036854775807::", 5), ("", MAX_ID), ("7", 7)])
def test_short_and_empty_txn_lists_are_accepted(text: str, mark: int) -> None:
    txns = ValidTxnList.parse(text)
    assert txns == ValidTxnList(mark)
    assert txns.is_valid(min(mark, 10**15))


@pytest.mark.conformance("T28")
def test_a_write_id_list_names_its_table() -> None:
    written = ValidWriteIdList(8, ids(6), ids(3), table="default.t")
    assert str(written) == "default.t:8:6:6:3"
    assert ValidWriteIdList.parse("default.t:8:6:6:3") == written
    assert str(ValidWriteIdList(8)) == "null:8:9223372036854775807::"
    assert ValidWriteIdList.parse("null:8:9223372036854775807::").table is None
    assert str(ValidWriteIdList(0, table="default.t")) == "default.t:0:9223372036854775807::"
    assert ValidWriteIdList.parse("") == ValidWriteIdList(MAX_ID)


@pytest.mark.conformance("T29")
def test_ranges_are_valid_wholly_partly_or_not_at_all() -> None:
    txns = ValidTxnList(20, ids(10, 11), ids(12, 15))
    assert txns.range_validity(1, 9) is ALL
    assert txns.range_validity(21, 30) is NONE
    assert txns.range_validity(10, 12) is NONE
    assert txns.range_validity(9, 12) is SOME
    assert txns.range_validity(16, 20) is ALL
    assert txns.range_validity(16, 21) is SOME
    assert txns.range_validity(15, 15) is NONE


def test_an_empty_range_is_a_mistake() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"the range 5\.\.4 is empty"):
        ValidTxnList(20).range_validity(5, 4)


@given(lists(), st.integers(1, 35), st.integers(1, 35))
def test_range_validity_equals_counting(written: ValidWriteIdList, one: int, other: int) -> None:
    low, high = min(one, other), max(one, other)
    valid = [written.is_valid(i) for i in range(low, high + 1)]
    expected = ALL if all(valid) else SOME if any(valid) else NONE
    assert written.range_validity(low, high) is expected
    assert written.is_fully_valid(low, high) == all(valid)
    assert written.is_range_aborted(low, high) == all(i in written.aborted for i in range(low, high + 1))


@given(lists())
def test_every_list_survives_its_text(written: ValidWriteIdList) -> None:
    assert ValidWriteIdList.parse(str(written)) == written
    txns = ValidTxnList(written.high_watermark, written.open, written.aborted)
    assert ValidTxnList.parse(str(txns)) == txns


def test_a_base_is_valid_below_the_first_open_id() -> None:
    written = ValidWriteIdList(8, ids(6), ids(3))
    assert written.is_valid_base(3)
    assert written.is_valid_base(5)
    assert not written.is_valid_base(6)
    assert not written.is_valid_base(7)
    assert ValidWriteIdList(8).is_valid_base(8)
    assert not ValidWriteIdList(8).is_valid_base(9)


def test_the_compactors_list_stops_below_the_first_open_id() -> None:
    reader = ValidWriteIdList.parse("default.t:6:4:4:2")  # recorded from a real Hive (fixture aborted/2_one_open)
    compactor = reader.for_compactor()
    assert str(compactor) == "default.t:3:4::2"
    assert compactor.range_validity(1, 3) is ALL
    assert compactor.range_validity(1, 4) is NONE
    assert not compactor.is_valid(2)
    assert not compactor.is_fully_valid(1, 3)
    assert str(ValidCompactorWriteIdList.parse("default.t:3:4::2")) == "default.t:3:4::2"
    assert str(ValidWriteIdList.parse("default.t:2:2:2:").for_compactor()) == "default.t:1:9223372036854775807::"


def test_the_cleaners_list_stops_at_the_compaction_it_cleans_up_after() -> None:
    reader = ValidWriteIdList(9, ids(8), ids(3, 7), table="d.t")
    cleaner = reader.for_cleaner(6)
    assert cleaner.high_watermark == 6
    assert cleaner.aborted == ids(3)
    assert cleaner.range_validity(5, 7) is NONE
    assert cleaner.range_validity(1, 6) is SOME
    assert cleaner.range_validity(4, 6) is ALL
    assert str(cleaner) == "d.t:6:8::3", "the smallest open id is told although it is above the mark"
    assert str(reader.for_cleaner()) == "d.t:9:8:8:3,7"


def test_history_is_needed_from_the_first_open_or_next_id() -> None:
    assert ValidWriteIdList(8, ids(6)).min_open_or_next() == 6
    assert ValidWriteIdList(8).min_open_or_next() == 9


@pytest.mark.parametrize("text", ["d.t:a:b", "d.t:5:1:2:3:4", "d.t:5:6:7,,8:", "d.t:5:6:7:8x"])
def test_unreadable_lists_say_what_was_expected(text: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"expected .*highWatermark:minOpen"):
        ValidWriteIdList.parse(text)


def test_a_list_of_a_hundred_thousand_exceptions_counts_right() -> None:
    text = "d.t:400000:4:" + ",".join(map(str, range(4, 300004, 3))) + ":"
    written = ValidWriteIdList.parse(text)
    assert len(written.exceptions) == 100_000
    assert str(written) == text
    assert sum(map(written.is_valid, range(1, 300_001))) == 300_000 - 99_999
    pairs = itertools.islice(range(1, 300_000), 0, None, 1000)
    assert {written.range_validity(i, i + 5) for i in pairs} == {SOME}


def test_a_reader_that_has_written_sees_its_own_write_id_and_no_other_new_one() -> None:
    before = ValidWriteIdList(5, frozenset({3}), frozenset({4}), table="d.t")
    assert str(before.with_committed(8)) == "d.t:8:3:3,6,7:4"
    assert str(before.with_committed(6)) == "d.t:6:3:3:4"
    assert str(before.with_committed(3)) == "d.t:5:9223372036854775807::4"
    assert str(before.with_committed(4)) == "d.t:5:3:3:"


@pytest.mark.parametrize("length", [120, 121])
def test_an_unreadable_list_is_shown_from_its_beginning(length: int) -> None:
    text = "x" * length
    with pytest.raises(InvalidArgumentsError) as refused:
        ValidTxnList.parse(text)
    assert str(refused.value) == (
        f"{text if length == 120 else text[:120] + '…'!r} is no list of valid ids; expected "
        "[db.table:]highWatermark:minOpen:open,…:aborted,…"
    )


def test_ids_that_come_as_a_set_are_kept_as_ranges() -> None:
    """Made once, and not for each question."""
    for written in (ValidTxnList(9, ids(1, 2, 3), ids(5, 6)), ValidWriteIdList(9, ids(1, 2, 3), ids(5, 6))):
        assert (written.open, written.aborted) == (IdRanges([(1, 3)]), IdRanges([(5, 6)]))
        assert written.open_ids is written.open
        assert written.aborted_ids is written.aborted


def test_what_is_aborted_never_comes() -> None:
    ids = ValidWriteIdList(7, frozenset({5}), frozenset({2, 6}), 5, "db.t")
    assert [ids.may_come(*found) for found in ((1, 4), (2, 2), (6, 7), (5, 5), (4, 6), (6, 8))] == [
        False, False, False, True, True, True,
    ]  # fmt: skip
