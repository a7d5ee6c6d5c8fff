"""Which directories hold what a range of write ids has changed, and what is refused because it may be gone."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import ChangesNotCompleteError, InvalidArgumentsError
from airflow_hive_acid.format.acid_state import FileEntry
from airflow_hive_acid.format.changes import (
    Part,
    PartitionChanges,
    PartKind,
    as_of,
    checked_range,
    complete_up_to,
    partition_changes,
)
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

TXNS = ValidTxnList(200, frozenset({150}), frozenset({160}))
SEEN = ValidWriteIdList(20, frozenset(), frozenset({7}), table="d.t")


def found(*names: str, first: int = 5, last: int = 9, **more: bool | int) -> PartitionChanges:
    listing = [FileEntry(f"{name}/bucket_00000", 100) for name in names]
    return partition_changes(listing, SEEN, TXNS, first, last, **more)  # type: ignore[arg-type]


def events(first: int, last: int) -> Part:
    return Part(PartKind.EVENTS, first, last)


def replaced(first: int, last: int | None = None) -> Part:
    return Part(PartKind.REPLACED, first, last or first)


def test_deltas_of_any_width_hold_the_events_of_a_range() -> None:
    names = ["base_0000004_v0000100", "delta_0000001_0000012_v0000101", "delete_delta_0000001_0000012_v0000101"]
    assert found(*names).parts == (events(5, 9),)
    assert found("delta_0000005_0000005_0000", "delta_0000008_0000008_0000").parts == (events(5, 9),)


def test_a_major_compaction_ends_what_it_has_passed_as_soon_as_it_is_seen() -> None:
    names = ["base_0000006_v0000120", "delta_0000005_0000005_0000", "delta_0000008_0000008_0000"]
    refused = found(*names)
    assert refused.parts is None
    assert refused.available_from == 7
    assert "base_0000006_v0000120 knows only what is left of the write ids up to 6" in refused.why
    assert found(*names, first=7).parts == (events(7, 9),)


@pytest.mark.parametrize("txn", [150, 160, 201], ids=["open", "aborted", "later"])
def test_a_compaction_that_the_reader_does_not_see_ends_nothing(txn: int) -> None:
    assert found(f"base_0000006_v0000{txn}", "delta_0000005_0000005_0000").parts == (events(5, 9),)


def test_an_overwrite_divides_the_range() -> None:
    names = ["delta_0000005_0000005_0000", "base_0000006", "base_0000008", "delta_0000009_0000009_0000"]
    assert found(*names).parts == (events(5, 5), replaced(6), Part(PartKind.EVENTS, 7, 7), replaced(8), events(9, 9))
    assert found(*names, net=True).parts == (replaced(5, 8), events(9, 9))
    assert found(*names, first=9).parts == (events(9, 9),)
    assert found("base_0000007", "delta_0000008_0000008_0000").parts == (events(5, 9),), "7 is aborted"


def test_what_an_overwrite_has_replaced_is_gone_once_a_cleaner_may_have_come_by() -> None:
    names = ["delta_0000005_0000005_0000", "base_0000006"]
    assert found(*names, cleaned=5).parts is not None
    refused = found(*names, cleaned=6)
    assert (refused.parts, refused.available_from) == (None, 7)
    assert "may have been removed by the Cleaner" in refused.why
    assert found(*names, cleaned=6, first=7).parts == (events(7, 9),)
    later = found("base_0000018", cleaned=19)
    assert (later.parts, later.available_from) == (None, 19), "the overwrite comes after the range, and hides it"


def test_merged_rows_of_an_insert_only_table_are_read_together_or_not_at_all() -> None:
    names = ["delta_0000005_0000012_v0000101"]
    assert found(*names, last=12, insert_only=True).parts == (events(5, 12),)
    refused = found(*names, insert_only=True)
    assert (refused.parts, refused.available_from) == (None, 13)
    assert "merged rows of the write ids 5 to 12" in refused.why
    assert found("delta_0000001_0000004_v0000101", insert_only=True).parts == (events(5, 9),)


def test_a_range_ends_below_the_first_open_write_id() -> None:
    seen = ValidWriteIdList(20, frozenset({12, 15}), frozenset({7}), 12, "d.t")
    assert complete_up_to(seen) == 11
    assert checked_range("d.t", seen, 5, None) == 11
    assert checked_range("d.t", seen, 5, 11) == 11
    assert checked_range("d.t", seen, 12, None) == 11, "nothing can be read yet"
    assert checked_range("d.t", seen, 13, None) == 14, "what is open below is no part of it"
    assert checked_range("d.t", seen, 13, 13) == 13
    assert checked_range("d.t", seen, 30, None) == 29, "no write id of it is given yet"
    with pytest.raises(ChangesNotCompleteError, match=r"up to write id 14 .* write ids 12 are open; read up to 11 now"):
        checked_range("d.t", seen, 5, 14)
    with pytest.raises(ChangesNotCompleteError, match="later ones are not given yet; read up to 20 now"):
        checked_range("d.t", SEEN, 5, 21)
    for first, last in ((0, 4), (5, 4), (-1, None)):
        with pytest.raises(InvalidArgumentsError, match="write ids begin at 1"):
            checked_range("d.t", SEEN, first, last)


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (0, 4, "changes from write id 0 to 4: write ids begin at 1, and a range goes upwards"),
        (5, 4, "changes from write id 5 to 4: write ids begin at 1, and a range goes upwards"),
        (0, None, "changes from write id 0 on: write ids begin at 1, and a range goes upwards"),
    ],
)
def test_a_range_that_is_none_is_told(first: int, last: int | None, message: str) -> None:
    with pytest.raises(InvalidArgumentsError) as refused:
        checked_range("d.t", SEEN, first, last)
    assert str(refused.value) == message
    assert checked_range("d.t", SEEN, 1, 1) == 1


def test_a_range_that_is_not_complete_is_told_with_what_is_open() -> None:
    seen = ValidWriteIdList(30, frozenset(range(12, 19)), table="d.t")
    with pytest.raises(ChangesNotCompleteError) as some:
        checked_range("d.t", seen, 11, 17)
    assert str(some.value) == (
        "changes of d.t up to write id 17 are not complete: write ids 12, 13, 14, 15, 16 are open; read up to 11 now, "
        "or wait for their commit or abort"
    )
    with pytest.raises(ChangesNotCompleteError) as one:
        checked_range("d.t", seen, 18, 18)
    assert str(one.value) == (
        "changes of d.t up to write id 18 are not complete: write ids 18 are open; nothing of it can be read yet, "
        "or wait for their commit or abort"
    )
    assert complete_up_to(ValidWriteIdList(9, frozenset({1}), table="d.t")) == 0


def test_what_a_reader_saw_earlier_ends_at_that_write_id() -> None:
    seen = ValidWriteIdList(20, frozenset({5, 7, 9}), frozenset({4, 8, 10}), table="d.t")
    assert str(as_of(seen, 7)) == "d.t:7:5:5,7:4"
    assert str(as_of(seen, 8)) == "d.t:8:5:5,7:4,8"


def test_overwrites_at_the_ends_of_a_range_belong_to_it() -> None:
    assert found("base_0000005", "base_0000009").parts == (replaced(5), events(6, 8), replaced(9))
    assert found("base_0000006", "base_0000008", "base_0000009", net=True).parts == (replaced(5, 9),)
    assert found("base_0000005", cleaned=5).parts is None
    assert found("base_0000001", first=1, cleaned=1).available_from == 2
    assert found("base_0000001", first=1).parts == (replaced(1), Part(PartKind.EVENTS, 2, 9))
    assert found("base_0000001_v0000100", first=1).available_from == 2
    assert found() == PartitionChanges((events(5, 9),), 1, "")


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [(4, 5, True), (9, 10, True), (5, 9, False), (3, 4, False), (10, 11, False), (6, 8, False), (8, 8, False)],
)
def test_merged_rows_stand_in_the_way_when_they_reach_over_an_end_of_the_range(low: int, high: int, ends: bool) -> None:
    changes = found(f"delta_{low:07d}_{high:07d}_v0000100", last=9, insert_only=True)
    assert (changes.parts is None) is ends
    if ends:
        assert changes.available_from == high + 1
