"""Whether a table can still be read as it was: by what lies there, and by how far a Cleaner may have come."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import HistoryGoneError, InvalidArgumentsError
from airflow_hive_acid.format.acid_state import FileEntry
from airflow_hive_acid.format.changes import as_of, lost_history
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.metastore.listing.history import TableHistory, list_at, parse_moment, shown_moment
from airflow_hive_acid.metastore.names.objects import TableName

NOW = ValidWriteIdList(9, frozenset(), frozenset({3}), None, "db.t")
TXNS = ValidTxnList(50)
KEY = TableName("db", "t")


def listing(*names: str) -> list[FileEntry]:
    return [FileEntry(f"{name}/bucket_00000", 10) for name in names]


@pytest.mark.parametrize(
    ("names", "last", "cleaned", "lost"),
    [
        (("delta_0000001_0000001_0000", "delta_0000002_0000002_0000"), 1, 0, None),
        (("delta_0000001_0000005_v0000010",), 2, 9, None),
        (("base_0000005_v0000010", "delta_0000001_0000001_0000"), 4, 0, 5),
        (("base_0000005_v0000010", "base_0000002_v0000008"), 4, 0, 5),
        (("base_0000005_v0000010",), 5, 9, None),
        (("base_0000005_v0000099", "delta_0000001_0000001_0000"), 4, 9, None),
        (("base_0000006", "delta_0000001_0000001_0000"), 4, 5, None),
        (("base_0000006", "delta_0000001_0000001_0000"), 4, 6, 6),
        (("base_0000006", "base_0000008_v0000020"), 4, 6, 8),
        (("base_0000006",), 6, 9, None),
    ],
)
def test_a_state_is_lost_behind_a_compactors_base_and_a_cleaned_overwrite(
    names: tuple[str, ...], last: int, cleaned: int, lost: int | None
) -> None:
    found = lost_history(listing(*names), as_of(NOW, last), TXNS, cleaned=cleaned)
    assert (found and found[0]) == lost


def test_rows_that_do_not_say_whose_they_are_cannot_be_divided() -> None:
    merged = listing("delta_0000001_0000004_v0000010")
    assert lost_history(merged, as_of(NOW, 2), TXNS, insert_only=True) == (
        4,
        "delta_0000001_0000004_v0000010 holds merged rows of the write ids 1 to 4",
    )
    assert lost_history(merged, as_of(NOW, 3), TXNS, insert_only=True) is not None
    # 3 was aborted, and no compaction merges rows of it.
    assert lost_history(merged, as_of(NOW, 4), TXNS, insert_only=True) is None
    without_2 = ValidWriteIdList(9, frozenset({2}), frozenset({3}), 2, "db.t")
    assert lost_history(merged, without_2, TXNS, insert_only=True) is not None
    assert lost_history(listing("delta_0000001_0000002_v0000010"), as_of(NOW, 2), TXNS, insert_only=True) is None


def test_what_was_committed_later_counts_as_open() -> None:
    times = {4: 100, 5: 300, 6: 200, 7: 200, 8: 400, 9: 150}
    then = list_at(KEY, TableHistory((), times, 0), NOW, 200)
    assert [w for w in range(1, 10) if then.is_valid(w)] == [1, 2, 4, 6, 7, 9]
    assert not then.is_valid_base(5)
    assert list_at(KEY, TableHistory((), {}, 0), NOW, 200) == NOW
    with pytest.raises(HistoryGoneError, match=r"when write id 7 of db\.t was committed is not known"):
        list_at(KEY, TableHistory((), {w: t for w, t in times.items() if w != 7}, 0), NOW, 200)
    given_up = TableHistory((), {w: t for w, t in times.items() if w != 7}, 0, aborted=frozenset({7}))
    assert list_at(KEY, given_up, NOW, 200).is_valid(7), "nothing is left of it, and nothing to be found"
    came_together = TableHistory((), {4: 100}, 0, runs=((5, 7, 150), (8, 9, 300)))
    assert [w for w in range(1, 10) if list_at(KEY, came_together, NOW, 200).is_valid(w)] == [1, 2, 4, 5, 6, 7]


def test_times_are_utc_unless_they_say_a_zone() -> None:
    assert parse_moment("2026-01-01") == 1767225600
    assert parse_moment(" 2026-01-01T01:00:00+01:00 ") == parse_moment("2026-01-01 00:00:00Z") == 1767225600
    assert shown_moment(parse_moment("2026-01-01 10:20:30.5")) == "2026-01-01 10:20:30"
    for wrong in ("", "yesterday", "2026-13-01"):
        with pytest.raises(InvalidArgumentsError, match="is no time"):
            parse_moment(wrong)
