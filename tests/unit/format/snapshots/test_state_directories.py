"""Directories of a listing as they are found: which files are whose, and what a reader is told of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hive_acid.format.acid_state import FileEntry, acid_state, state_directories
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

ALL_TXNS = ValidTxnList(10**6)


def listing(*names: str) -> list[FileEntry]:
    return [FileEntry(f"{name}/bucket_00000", 100) for name in names]


def test_plain_files_have_any_name_and_begin_with_no_mark() -> None:
    name = "delta_0000001_0000001_0000"
    paths = ["X1", "_x", ".x", "000000_0", "sub/y"]
    (found,) = state_directories([*(FileEntry(f"{name}/{path}", 1) for path in paths), FileEntry(f"{name}/empty", 0)])
    assert [entry.path.removeprefix(f"{name}/") for entry in found.plain_files()] == ["000000_0", "X1", "sub/y"]


def test_a_directory_whose_rows_are_checked_is_otherwise_the_one_that_was_found() -> None:
    entries = listing("delta_0000001_0000003_v0000009")
    (found,) = state_directories(entries)
    assert found.compacted
    (read,) = acid_state(entries, ValidWriteIdList(3, aborted=frozenset({2})), ALL_TXNS).deltas
    assert read == replace(found, needs_row_check=True)


@pytest.mark.parametrize("name", ["base_-9223372036854775808_v0000001", "delta_0000001_0000002_v0000001"])
def test_the_very_first_txn_may_be_a_compactors(name: str) -> None:
    (found,) = state_directories(listing(name))
    assert found.compacted


def test_files_of_the_branches_of_a_union_count_by_their_own_names() -> None:
    name, branch = "delta_0000001_0000001_0000", "HIVE_UNION_SUBDIR_1"
    paths = [
        f"{name}/",
        f"{name}/{branch}/",
        *(f"{name}/{branch}/{file}" for file in ("bucket_00003", "_x", "000000_0")),
    ]
    (found,) = state_directories([FileEntry(path, 0 if path.endswith("/") else 9) for path in paths])
    assert [entry.path for entry in found.files] == [f"{name}/{branch}/000000_0", f"{name}/{branch}/bucket_00003"]
    assert [bucket.bucket for _, bucket in found.bucket_files()] == [3]
    assert [entry.path for entry in found.original_files()] == [f"{name}/{branch}/000000_0"]


def test_side_files_and_directories_beside_a_base_are_no_originals() -> None:
    entries = [FileEntry("_orc_acid_version", 1), FileEntry("sub/", 0), FileEntry("sub/000000_0", 9)]
    assert [entry.path for entry in acid_state(entries, ValidWriteIdList(1), ALL_TXNS).originals] == ["sub/000000_0"]
    hidden = acid_state([*entries, *listing("base_1")], ValidWriteIdList(1), ALL_TXNS).obsolete_originals
    assert [entry.path for entry in hidden] == ["sub/000000_0"]
