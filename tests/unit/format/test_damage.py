"""What a listing shows to be damage, and what writers do leave: kind of directory x what lies in it."""

from __future__ import annotations

import pytest

from airflow_hive_acid.format.acid_state import FileEntry, StateDirectory, state_directories
from airflow_hive_acid.format.damage import damage_of, suspected_copies

VERSION = "_orc_acid_version"
#: Directory name: whether a bucket of 0 bytes, a version file alone, and nothing at all are damage.
KINDS = {
    "delta_0000005_0000005_0000": (True, True, False),
    "delete_delta_0000005_0000005_0000": (True, True, True),
    "base_0000005": (True, False, False),
    "base_0000005_v0000009": (True, False, False),
    "delta_0000003_0000005_v0000009": (True, False, False),
    "delete_delta_0000003_0000005_v0000009": (True, True, True),
    "delta_0000003_0000005": (False, False, False),
}


def directory(name: str, **files: int) -> StateDirectory:
    entries = [FileEntry(f"{name}/"), *(FileEntry(f"{name}/{file}", size) for file, size in files.items())]
    (found,) = state_directories(entries)
    return found


@pytest.mark.parametrize("name", KINDS)
def test_damage_is_what_no_writer_leaves(name: str) -> None:
    empty, version_alone, nothing = KINDS[name]
    whole = directory(name, **{VERSION: 1, "bucket_00000": 700, "bucket_00001_0": 700})
    assert damage_of(whole) is None
    found = damage_of(directory(name, **{VERSION: 1, "bucket_00000": 700, "bucket_00001_0": 0}))
    assert (found is not None) is empty
    assert found is None or found.path == f"{name}/bucket_00001_0"
    for files, expected in (({VERSION: 1}, version_alone), ({}, nothing)):
        found = damage_of(directory(name, **files))
        assert (found is not None) is expected
        assert found is None or found.path == name


def test_empty_files_without_acid_columns_are_what_hive_leaves() -> None:
    """Hive's plain ORC writer closes a file without rows at 0 bytes, and LOAD DATA brings it in."""
    found = directory("delta_0000005_0000005_0000", **{"000000_0": 0})
    assert damage_of(found) is None
    assert found.original_files() == ()


def test_side_files_of_the_branches_of_a_union_are_no_rows_either() -> None:
    name = "delta_0000005_0000005_0000"
    found = damage_of(directory(name, **{f"HIVE_UNION_SUBDIR_1/{VERSION}": 1}))
    assert found is not None
    assert found.path == name
    assert (
        damage_of(directory(name, **{f"HIVE_UNION_SUBDIR_1/{VERSION}": 1, "HIVE_UNION_SUBDIR_1/bucket_00000": 9}))
        is None
    )


def test_only_files_that_may_be_copies_of_each_other_are_looked_at() -> None:
    listed = [
        directory("delta_0000005_0000005_0000", bucket_00000=700, bucket_00001=650),
        directory("delta_0000005_0000005_0001", bucket_00000=700, bucket_00001=651),
        directory("delta_0000006_0000006_0000", bucket_00000=700),
        directory("delta_0000003_0000005_v0000009", bucket_00000=700),
        directory("base_0000005", bucket_00000=700),
    ]
    assert [suspect.entry.path for suspect in suspected_copies(listed)] == [
        "delta_0000005_0000005_0000/bucket_00000",
        "delta_0000005_0000005_0001/bucket_00000",
    ]


def test_damage_is_told_with_what_would_be_lost() -> None:
    delta, delete = "delta_0000005_0000005_0000", "delete_delta_0000005_0000005_0000"
    rest = "it, or if it is certain that it never held"
    empty = (
        "has 0 bytes, and no writer leaves such a file: {} would {} without what was in it; restore {} anything, "
        "remove it"
    )
    assert damage_of(directory(delta, bucket_00000=0)) == (
        f"{delta}/bucket_00000", empty.format("rows", "be lost", rest))  # fmt: skip
    assert damage_of(directory(delete, bucket_00000=0)) == (
        f"{delete}/bucket_00000", empty.format("deleted rows", "come back", rest))  # fmt: skip
    assert damage_of(directory(delete)) == (
        delete,
        "holds no data file: its delete events are missing and deleted rows would come back; restore the directory",
    )
    assert damage_of(directory(delta, _orc_acid_version=1)) == (
        delta,
        "holds no data file, and no statement leaves such a directory: its rows are missing; restore the directory, "
        "or if it is certain that it never held rows, remove it",
    )
