"""What there ought to be, beside what there is: when the two may be compared, and what is missed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.orc_tail import row_count
from airflow_hive_acid.format.row_counts import (
    CountedRows,
    Gone,
    count_live,
    counted_files,
    differs,
    is_of,
    missing_files,
)
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

if TYPE_CHECKING:
    from airflow_hive_acid.format.acid_state import AcidState


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


def state_of(high: int, *paths: str) -> AcidState:
    return acid_state([FileEntry(path, 9) for path in paths], ValidWriteIdList(high, table="db.t"), ValidTxnList(99))


BASE, DELTA, DELETES = "base_0000002/bucket_00000", "delta_0000003_0000003_0000/", "delete_delta_0000004_0000004_0000/"
BATCH = ("delta_0000003_0000004/bucket_00000", "delta_0000003_0000004/_orc_acid_version")
VERSIONS = ("base_0000002/_orc_acid_version", f"{DELTA}_orc_acid_version", f"{DELETES}_orc_acid_version")


@pytest.mark.parametrize(
    ("paths", "live"),
    [
        ((BASE, f"{DELTA}bucket_00000", f"{DELTA}bucket_00001", f"{DELETES}bucket_00000"), 20),
        ((BASE, f"{DELTA}bucket_00000", f"{DELETES}bucket_00000"), 10),
        ((BASE, f"{DELTA}bucket_00000", f"{DELTA}bucket_00001"), 30),
        ((BASE, f"{DELTA}bucket_00009"), None),
        ((f"{DELTA}000000_0", BASE), None),
        (("000000_0",), None),
        ((BASE, *BATCH), None),
        ((BASE, "base_0000001/bucket_00009"), 10),
    ],
    ids=["whole", "bucket gone", "deletes gone", "end unknown", "loaded", "original", "batch", "replaced"],
)  # fmt: skip
def test_rows_are_those_of_inserts_less_deletes_where_all_ends_tell(paths: tuple[str, ...], live: int | None) -> None:
    there = {path.partition("/")[0] for path in paths}
    state = state_of(9, *paths, *(version for version in VERSIONS if version.partition("/")[0] in there))
    assert count_live(state, lambda entry: None if entry.path.endswith("9") else 10) == live


def test_an_older_hives_deltas_do_not_say_how_many_rows_there_are() -> None:
    state = state_of(9, f"{DELTA}bucket_00000")
    assert count_live(state, lambda _: 10) is None
    assert count_live(state, lambda _: 10, insert_only=True) is None, "a file that no writer of such a table leaves"


def test_the_files_that_tell_are_those_of_buckets_outside_of_open_batches() -> None:
    paths = (BASE, f"{DELTA}bucket_00000", f"{DELETES}bucket_00000")
    batch = ("delta_0000005_0000006/bucket_00000", "delta_0000005_0000006/_orc_acid_version")
    state = state_of(9, *paths, f"{DELTA}000000_0", *VERSIONS, *batch)
    assert [entry.path for entry in counted_files(state)] == list(paths)


def test_other_rows_than_the_catalog_counts_are_told_with_what_may_be_gone() -> None:
    for counted, live in (
        (None, 3), (CountedRows(3, claimed=True), None), (CountedRows(3, claimed=False), 3), (None, None),
    ):  # fmt: skip
        assert differs(counted, live) is None
    wrong = "or its number is wrong (a writer that does not count, an aborted txn that a Hive has counted)"
    assert differs(CountedRows(1200, claimed=False), 3) == (
        "the catalog counts 1200 rows, the files hold 3: files with inserted rows (a base, a delta, a bucket of one) "
        f"may be gone, {wrong}"
    )
    assert differs(CountedRows(2, claimed=True), 3) == (
        "the catalog counts 2 rows and calls that exact, the files hold 3: files with delete events may be gone, and "
        f"deleted rows are back, {wrong}"
    )


def test_the_number_that_a_hive_has_kept_is_that_of_its_files() -> None:
    """Every unpartitioned table that Hive 4.1 left for the tests, with the number of rows in its own metastore."""
    compared, differ = 0, set()
    for script in sorted((Path(__file__).parents[2] / "fixtures").glob("*/*/metastore.sql")):
        stage, text = script.parent, script.read_text()
        if not (stage / "snapshot.json").exists():
            continue
        snapshot = json.loads((stage / "snapshot.json").read_text())
        tables = re.findall(r'public."TBLS" .*? VALUES \((\d+), .*?\'(\w+)\', \'MANAGED_TABLE\'', text)
        counts = dict(re.findall(r'"TABLE_PARAMS" .*? VALUES \((\d+), \'numRows\', \'(\d+)\'', text))
        for table_id, table in tables:
            root = stage / "tree" / table
            ids = ValidWriteIdList.parse(snapshot.get(table, {}).get("reader_write_ids", ""))
            if table_id not in counts or not root.exists() or ids.open_ids or any(root.glob("*=*")):
                continue
            files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
            listing = [FileEntry(path, file.stat().st_size) for path, file in files.items()]
            state = acid_state(listing, ids, ValidTxnList.parse(snapshot["valid_txn_list"]))
            live = count_live(state, lambda entry, files=files: row_count(files[entry.path].read_bytes()))  # type: ignore[misc]
            if live is not None:
                compared += 1
                if live != int(counts[table_id]):
                    differ.add(f"{stage.parent.name}/{stage.name} {table}")
    # A Hive that compacts what LOAD DATA brought calls the 0 rows of before exact.
    assert differ == {"load_data/3_minor_uncleaned t"}
    assert compared > 40


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
        ("base_0000002", ["_orc_acid_version", "bucket_00000"]),  # that marker tells no rows
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


def test_what_replaces_a_directory_covers_all_of_it() -> None:
    """A base of the same write id does, and a compaction that begins no later, also of a Hive before version 4, which
    notes no txn; what no writer calls so is passed over.

    Files of a UNION ALL lie one level deeper, and count by their own names.
    """
    union = "delta_0000009_0000009_0000"
    state = state_of(
        12, "base_0000003_v0000008/bucket_00000", "delta_0000005_0000006_v0000009/bucket_00000",
        f"{union}/HIVE_UNION_SUBDIR_1/000000_0", "delta_0000010_0000011/bucket_00000",
        "delta_0000012_0000012_0000/bucket_00000",
    )  # fmt: skip
    published = [
        ("_tmp_1", ["bucket_00000"]),
        ("delta_0000003_0000003_0000", ["bucket_00000"]),
        ("delta_0000004_0000004_0000", ["bucket_00000"]),
        ("delta_0000006_0000006_0000", ["bucket_00000"]),
        (union, ["000000_0", "000001_0"]),
        ("delta_0000011_0000011_0000", ["bucket_00000"]),
        ("delta_0000012_0000012_0001", ["bucket_00000"]),
    ]
    assert missing_files(state, published) == [
        Gone("delta_0000004_0000004_0000", is_file=False),
        Gone(f"{union}/000001_0", is_file=True),
        Gone("delta_0000012_0000012_0001", is_file=False),
    ]
