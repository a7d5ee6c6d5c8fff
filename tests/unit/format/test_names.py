"""Directory and file names: what Hive calls them and what a name says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.names import (
    AcidDirectory,
    BucketFile,
    DirectoryKind,
    OriginalFile,
    base_name,
    bucket_file_name,
    delete_delta_name,
    delta_name,
    flushed_copy_name,
    is_hidden,
    looks_like_acid_directory,
    original_file_name,
    parse_bucket_file,
    parse_directory,
    parse_original_file,
    source_of_flushed_copy,
    staging_name,
    unique_file_name,
)

BASE, DELTA, DELETE_DELTA = DirectoryKind.BASE, DirectoryKind.DELTA, DirectoryKind.DELETE_DELTA
_ids = st.integers(0, 2**63 - 1)


@pytest.mark.conformance("D09")
def test_a_copy_of_a_streaming_delta_says_whose_it_is() -> None:
    unique = "0f8fad5b-d9cb-469f-a165-70867728950e"
    for delta in ("delta_0000001_0000010", "delete_delta_0000001_0000010", "delta_0000001_0000010_v0000007"):
        name = flushed_copy_name(delta, unique)
        assert is_hidden(name)
        assert source_of_flushed_copy(name) == delta
    for other in (f"_tmp_{unique}", "delta_0000001_0000010", f"_tmp_flushed-base_0000001-{unique}", "_tmp_flushed-"):
        assert source_of_flushed_copy(other) is None


def test_names_are_padded_like_hives() -> None:
    assert delete_delta_name(1, 10) == "delete_delta_0000001_0000010"
    assert delete_delta_name(1, 10, 5) == "delete_delta_0000001_0000010_0005"
    assert delta_name(3, 3, 0) == "delta_0000003_0000003_0000"
    assert delta_name(1, 4, visibility_txn_id=8) == "delta_0000001_0000004_v0000008"
    assert base_name(5) == "base_0000005"
    assert base_name(5, 123) == "base_0000005_v0000123"
    assert base_name(10000003, 19) == "base_10000003_v0000019"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base_0000005", AcidDirectory(BASE, 0, 5)),
        ("base_5", AcidDirectory(BASE, 0, 5)),
        ("base_0000005_v0000123", AcidDirectory(BASE, 0, 5, None, 123)),
        ("base_-9223372036854775808", AcidDirectory(BASE, -(2**63), -(2**63))),
        ("delta_0000003_0000003_0001", AcidDirectory(DELTA, 3, 3, 1)),
        ("delta_3_4", AcidDirectory(DELTA, 3, 4)),
        ("base_9223372036854775807", AcidDirectory(BASE, 0, 2**63 - 1)),
        (f"base_{'0' * 39}5", AcidDirectory(BASE, 0, 5)),
        ("delta_0000001_0000004_v0000008", AcidDirectory(DELTA, 1, 4, None, 8)),
        ("delta_10000001_10000001_0000", AcidDirectory(DELTA, 10000001, 10000001, 0)),
        ("delete_delta_0000002_0000002_0003_v0000009", AcidDirectory(DELETE_DELTA, 2, 2, 3, 9)),
    ],
)
def test_a_directory_name_says_what_is_inside(name: str, expected: AcidDirectory) -> None:
    assert parse_directory(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "base",
        "base_",
        "base_x",
        "base_5_",
        "delta_5",
        "delta_5_3",
        "delta_1_2_3_4",
        "xdelta_1_2",
        "delta_1_2\n",
        "delta_\u0661_\u0662",
        "base_0000005_v",
        "ds=1",
        "_tmp_1",
        f"base_{2**63}",
        f"base_-{2**63 + 1}",
        f"delta_1_{2**63}",
        f"delta_1_1_{2**63}",
        f"base_1_v{2**63}",
        f"base_{'0' * 40}5",
        f"delta_{'9' * 5000}_{'9' * 5000}",
    ],
)
def test_other_names_are_no_acid_directories(name: str) -> None:
    assert parse_directory(name) is None


def test_a_damaged_name_still_looks_like_an_acid_directory() -> None:
    assert looks_like_acid_directory("delta_5_3")
    assert looks_like_acid_directory("base_x")
    assert not looks_like_acid_directory("database_1")
    assert not looks_like_acid_directory("HIVE_UNION_SUBDIR_1")


@given(
    st.one_of(
        st.builds(lambda w, v: AcidDirectory(BASE, 0, w, None, v), _ids, _ids),
        st.builds(
            lambda kind, ids, statement, v: AcidDirectory(kind, min(ids), max(ids), statement, v),
            st.sampled_from([DELTA, DELETE_DELTA]),
            st.tuples(_ids, _ids),
            st.none() | st.integers(0, 4095),
            _ids,
        ),
    )
)
def test_every_directory_survives_its_name(directory: AcidDirectory) -> None:
    assert parse_directory(directory.name) == directory


def test_a_delta_needs_a_range() -> None:
    with pytest.raises(InvalidArgumentsError, match="from write id 5 to 3"):
        delta_name(5, 3)


def test_bucket_files_come_with_and_without_attempt() -> None:
    assert bucket_file_name(3) == "bucket_00003"
    assert bucket_file_name(123456) == "bucket_123456"
    assert parse_bucket_file("bucket_00003") == BucketFile(3)
    assert parse_bucket_file("bucket_00003_1") == BucketFile(3, 1)
    assert parse_bucket_file("bucket_00003_flush_length") is None
    assert parse_bucket_file("000000_0") is None


def test_original_files_carry_their_bucket_and_copy() -> None:
    assert parse_original_file("000002_0") == OriginalFile(2)
    assert parse_original_file("000001_0_copy_12") == OriginalFile(1, 12)
    assert parse_original_file("bucket_00000") is None
    assert parse_original_file("000000_0_copy_") is None


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("_tmp_4a", True),
        (".hive-staging_1", True),
        ("-tmp.delta_0000001_0000001_0000", True),
        (".bucket_00000.crc", True),
        ("_SUCCESS", True),
        ("_orc_acid_version", False),
        ("_metadata_acid", False),
        ("bucket_00000", False),
        ("delta_0000001_0000001", False),
    ],
)
def test_readers_skip_staging_and_checksums(name: str, hidden: bool) -> None:
    assert is_hidden(name) is hidden


def test_staging_is_hidden_and_one_segment() -> None:
    name = staging_name("0b5f6c1e-9a51-4a51-8f0e-6f1f0f6a3c11")
    assert name == "_tmp_0b5f6c1e-9a51-4a51-8f0e-6f1f0f6a3c11"
    assert is_hidden(name)
    with pytest.raises(InvalidArgumentsError, match=r"job id '\.\./x'"):
        staging_name("../x")


def test_names_that_only_this_statement_gives() -> None:
    assert original_file_name(3) == "000003_0"
    assert unique_file_name(3, 1, 42) == "000003_1_copy_42"
    assert parse_original_file(unique_file_name(3, 1, 42)) == OriginalFile(3, 42)
    assert staging_name("Az_0-9") == "_tmp_Az_0-9"
    with pytest.raises(InvalidArgumentsError) as job:
        staging_name("")
    assert str(job.value) == "job id '' must consist of letters, digits, '-' and '_', as a uuid does"
    with pytest.raises(InvalidArgumentsError) as empty:
        delete_delta_name(5, 3)
    assert str(empty.value) == "delete_delta from write id 5 to 3: the range must not be empty"
    assert delta_name(0, 0) == "delta_0000000_0000000"
    with pytest.raises(InvalidArgumentsError):
        delta_name(-1, 3)
