"""Event counts from the footers of files that a real Hive wrote, and from none."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hive_acid.format.orc_tail import TAIL_BYTES, EventCounts, event_counts

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_hive_counts_its_inserts_and_deletes() -> None:
    stages = sorted(p.name for p in (FIXTURES / "unpart_dml").iterdir() if p.is_dir())
    tree = FIXTURES / "unpart_dml" / stages[-1] / "tree"
    inserts = [event_counts(p.read_bytes()[-TAIL_BYTES:]) for p in sorted(tree.glob("*/delta_*/bucket_*"))]
    deletes = [event_counts(p.read_bytes()) for p in sorted(tree.glob("*/delete_delta_*/bucket_*"))]
    assert inserts
    assert deletes
    for found in inserts:
        assert found is not None
        assert found.inserts > 0
        assert found.updates == found.deletes == 0
        assert not found.changes_in_place
    for found in deletes:
        assert found is not None
        assert found.deletes > 0
        assert found.updates == found.inserts == 0


@pytest.mark.parametrize(
    ("counts", "expected"),
    [((5, 0, 0), False), ((0, 0, 3), True), ((5, 1, 0), True), ((5, 0, 1), True), ((0, 2, 0), True)],
)
def test_updates_and_deletes_in_a_data_file_are_changes_in_place(counts: tuple[int, int, int], expected: bool) -> None:
    assert EventCounts(*counts).changes_in_place is expected


def test_what_is_no_footer_or_only_a_part_of_one_says_nothing() -> None:
    (file, *_) = (FIXTURES / "types" / "1_insert" / "tree").glob("t/delta_0000001_*/bucket_00000_0")
    whole = file.read_bytes()
    assert event_counts(whole) is not None
    for tail in (b"", b"x", b"nonsense" * 50, whole[:-1], whole[-40:], b"\x05ORC" + b"\xff" * 30):
        assert event_counts(tail) is None
