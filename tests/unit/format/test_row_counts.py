"""What there ought to be, beside what there is: when the two may be compared, and what is missed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.orc_tail import row_count
from airflow_hive_acid.format.row_counts import Gone, count_live, counted_files, is_of, missing_files
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList


@pytest.mark.parametrize(
    ("seen", "now", "own", "same"),
    [
        ("5", "5", None, True),
        ("5::3", "5::3", None, True),
        ("5", "6", None, False),
        ("6", "5", None, False),
        ("5:3", "5", None, False),
        ("5", "5:3", None, False),
        ("5:3", "5:3", None, False),
        ("5::3", "5", None, False),
        ("5", "5::3", None, False),
        ("5", "6:6", 6, True),
        ("6", "6:6", 6, True),
        ("6", "6:6", None, False),
        ("7:6", "7:6,7", 7, False),
        ("8:6", "8:8", 8, False),
        ("5", "7:7", 7, False),
    ],
    ids=[
        "the same", "aborted in both", "one more since", "one less", "ended since", "open now", "open in both",
        "forgotten since", "aborted since", "my own, above", "my own, seen", "that of somebody else",
        "mine and another",
        "committed while I waited", "committed before mine",
    ],
)  # fmt: skip
def test_a_number_is_of_a_snapshot_if_nothing_was_open_or_has_ended_since(
    seen: str, now: str, own: int | None, same: bool
) -> None:
    """``high water mark:open ids:aborted ids``."""

    def listed(text: str) -> ValidWriteIdList:
        high, *ids = text.split(":")
        groups = [frozenset(int(i) for i in group.split(",") if i) for group in (*ids, "", "")[:2]]
        return ValidWriteIdList(int(high), *groups)

    assert is_of(listed(seen), listed(now), own) is same


def test_rows_of_an_insert_only_table_are_those_of_its_files_if_a_writer_has_named_them() -> None:
    paths = ["base_0000002/000000_0", "delta_0000003_0000003_0000/000000_0", "delta_0000003_0000003_0000/1/000000_0"]
    entries = [FileEntry(path, 9) for path in (*paths, "delta_0000001_0000001_0000/000000_0")]
    state = acid_state(entries, ValidWriteIdList(9), ValidTxnList(99))
    assert [entry.path for entry in counted_files(state, insert_only=True)] == paths
    assert count_live(state, lambda _: 10, insert_only=True) == 30
    assert count_live(state, lambda entry: None if "/1/" in entry.path else 10, insert_only=True) is None
    loaded = acid_state(
        [*entries, FileEntry("delta_0000004_0000004_0000/mine.orc", 9)], ValidWriteIdList(9), ValidTxnList(99)
    )
    assert count_live(loaded, lambda _: 10, insert_only=True) is None, "LOAD DATA counts nothing"


def test_the_number_that_a_hive_has_kept_of_an_insert_only_table_is_that_of_its_files() -> None:
    """Those of ORC that Hive 4.1 left for the tests, with the number of rows in its own metastore."""
    compared = 0
    for script in sorted((Path(__file__).parents[2] / "fixtures/insert_only").glob("*/metastore.sql")):
        snapshot, text = json.loads((script.parent / "snapshot.json").read_text()), script.read_text()
        for table_id, table in re.findall(r'public."TBLS" .*? VALUES \((\d+), .*?\'(\w+)\', \'MANAGED_TABLE\'', text):
            root = script.parent / "tree" / table
            (number,) = re.findall(rf"VALUES \({table_id}, 'numRows', '(\d+)'", text)
            files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
            if not all(path.read_bytes()[:3] == b"ORC" for path in files.values()):
                continue
            ids = ValidWriteIdList.parse(snapshot[table]["reader_write_ids"])
            listing = [FileEntry(path, file.stat().st_size) for path, file in files.items()]
            state = acid_state(listing, ids, ValidTxnList.parse(snapshot["valid_txn_list"]))
            ends = {path: row_count(file.read_bytes()) for path, file in files.items()}
            assert count_live(state, lambda entry, ends=ends: ends[entry.path], insert_only=True) == int(number)  # type: ignore[misc]
            compared += 1
    assert compared == 3


def test_what_a_manifest_names_is_missed_unless_something_replaces_it() -> None:
    listing = [
        "base_0000002/bucket_00000",
        "delta_0000003_0000003_0000/bucket_00001",
        "delta_0000005_0000006_v0000009/bucket_00000",
    ]
    state = acid_state([FileEntry(path, 9) for path in listing], ValidWriteIdList(9), ValidTxnList(99))
    published = [
        ("base_0000002", ["bucket_00000"]),
        ("delta_0000001_0000001_0000", ["bucket_00000"]),
        ("delta_0000003_0000003_0000", ["bucket_00000", "bucket_00001", "bucket_00002"]),
        ("delta_0000005_0000005_0000", ["bucket_00000"]),
        ("delete_delta_0000007_0000007_0000", ["bucket_00000"]),
    ]
    assert missing_files(state, published) == [
        Gone("delta_0000003_0000003_0000/bucket_00000", is_file=True),
        Gone("delta_0000003_0000003_0000/bucket_00002", is_file=True),
        Gone("delete_delta_0000007_0000007_0000", is_file=False),
    ]
