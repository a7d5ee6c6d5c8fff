"""Locations: joining, and whether one lies inside another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError, UnsafePathError
from airflow_hive_acid.format.paths import (
    Location,
    heads,
    is_inside,
    join,
    parse_location,
    relative_to,
    require_inside,
    spellings,
    spellings_around,
)


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/w/t", "/w/t/delta_1"),
        ("/w/t/", "file:/w/t/delta_1"),
        ("file:///w/t", "/w/t/ds=1/delta_1"),
        ("file:/w//t", "file://localhost/w/t//x"),
        ("FILE:///w/t", "file:///w/./t/x"),
        ("hdfs://nn:8020/w/t", "hdfs://nn:8020/w/t/x"),
        ("s3a://bucket", "s3a://bucket/w"),
        ("s3a://bucket/w t", "s3a://bucket/w t/x%2Fy"),
        ("/w/t", "/w/t/p=..%2F../x"),
        ("/w/t", "/w/t/..."),
        ("/", "/w"),
        ("/w/a%20b", "/w/a%20b/c"),
    ],
)
def test_inside(root: str, path: str) -> None:
    assert is_inside(root, path)
    require_inside(root, path)


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/w/t", "/w/t"),
        ("/w/t", "/w/t/"),
        ("/w/t", "/w/t2/x"),
        ("/w/t", "/w"),
        ("/w/t", "/w/t/../u"),
        ("/w/t", "/w/t/x/../y"),
        ("/w/t", "/w/t/%2e%2E/u"),
        ("/w/t", "/w/t/%2E/u"),
        ("/w/../w/t", "/w/t/x"),
        ("/w/t", "hdfs://nn/w/t/x"),
        ("hdfs://nn/w/t", "hdfs://other/w/t/x"),
        ("hdfs://nn/w/t", "hdfs:///w/t/x"),
        ("s3a://bucket/w", "s3a://bucket2/w/x"),
        ("/w/t", "w/t/x"),
        ("w", "w/x"),
        ("/w/t", "//w/t/x"),
        ("/w/a b", "/w/a%20b/c"),
        ("/w/T", "/w/t/x"),
        ("/w/t", "/w/t/x\0"),
        ("/w/t", ""),
        ("", "/w/t"),
        ("file:w", "file:w/x"),
    ],
)
def test_not_inside(root: str, path: str) -> None:
    assert not is_inside(root, path)
    with pytest.raises(UnsafePathError, match="nothing was touched"):
        require_inside(root, path)


def test_a_path_seen_from_its_root() -> None:
    assert relative_to("file:///w/t", "/w/t/ds=a%2Fb/delta_1/bucket_00000") == "ds=a%2Fb/delta_1/bucket_00000"
    assert relative_to("/w/t", "file:/w/t/") == ""
    assert relative_to("/w/t", "/w/u") is None


def test_joining_adds_segments_and_keeps_the_spelling() -> None:
    assert join("file:///w/t/", "ds=a%2Fb/h=1", "delta_1") == "file:///w/t/ds=a%2Fb/h=1/delta_1"
    assert join("/w") == "/w"
    assert join("s3a://b", "x") == "s3a://b/x"
    assert join("/w/X//", "x") == "/w/X/x"


@pytest.mark.parametrize("part", ["", "/x", "x/", "x//y", "..", "x/../y", "."])
def test_joining_something_that_is_no_name_is_refused(part: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="every segment must be a name"):
        join("/w", part)


_segment = st.text("abc=%2F .-_", min_size=1, max_size=6).filter(lambda s: s.strip(".") and s not in (".", ".."))


@given(st.lists(_segment, max_size=4), st.lists(_segment, min_size=1, max_size=4))
def test_what_is_joined_lies_inside(root: list[str], parts: list[str]) -> None:
    above = "/" + "/".join(root)
    below = join(above, *parts)
    assert is_inside(above, below)
    assert relative_to("file:" + above, below) == "/".join(parts)
    assert not is_inside(below, above)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("//w/t", "'//w/t' starts with two slashes: a host for Hadoop, a directory for others"),
        ("w/t", "'w/t' is not an absolute location; write it as scheme://authority/path or /path"),
        ("s3://", "'s3://' is not an absolute location; write it as scheme://authority/path or /path"),
        ("/w/%2e./t", "'/w/%2e./t' contains the segment '%2e.'; give the location it leads to"),
    ],
)
def test_what_is_wrong_with_a_location_is_said(path: str, message: str) -> None:
    with pytest.raises(UnsafePathError) as refused:
        parse_location(path)
    assert str(refused.value) == message


def test_a_location_is_taken_apart() -> None:
    assert parse_location("HDFS://NN:8020/w//./t/") == Location("hdfs", "NN:8020", ("w", "t"))
    assert parse_location("file://localhost/w") == parse_location("/w") == Location("file", "", ("w",))
    assert parse_location("s3a://localhost/w") == Location("s3a", "localhost", ("w",))
    assert parse_location("s3a://b") == Location("s3a", "b", ())
    with pytest.raises(UnsafePathError) as outside:
        require_inside("/w/t", "/w/u")
    assert str(outside.value) == "'/w/u' does not lie inside '/w/t'; nothing was touched"
    with pytest.raises(InvalidArgumentsError) as part:
        join("/w/", "a", "b//c")
    assert str(part.value) == "cannot append 'b//c' to /w/: every segment must be a name"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/w/t", ("file:", "", "file:/localhost")),
        ("file://localhost/w", ("file:", "", "file:/localhost")),
        ("file://nas/w", ("file:/nas",)),
        ("s3://b/w", ("s3a:/b", "s3:/b", "s3n:/b")),
        ("abfs://c@account/w", ("abfss:/c@account", "abfs:/c@account")),
        ("wasb://c@account", ("wasbs:/c@account", "wasb:/c@account")),
        ("gs://b/w", ("gs:/b",)),
        ("hdfs:///w", ("hdfs:",)),
        ("hdfs://nn/w", ("hdfs:/nn", "hdfs:/nn:8020")),
        ("hdfs://nn:8020/w", ("hdfs:/nn", "hdfs:/nn:8020")),
        ("hdfs://NN:8020/w", ("hdfs:/nn", "hdfs:/nn:8020", "hdfs:/NN:8020")),
        ("hdfs://nn:9000/w", ("hdfs:/nn:9000",)),
        ("hdfs://NN:9000/w", ("hdfs:/nn:9000", "hdfs:/NN:9000")),
        ("viewfs://Cluster/w", ("viewfs:/Cluster",)),
    ],
)
def test_one_place_has_several_heads_slashes_counted_once(location: str, expected: tuple[str, ...]) -> None:
    """Schemes of one store, with and without the port that HDFS has if none is told, in the usual letters first."""
    assert heads(location) == expected


def test_a_place_is_spelled_with_each_head_and_one_slash_at_its_end() -> None:
    assert spellings("/w//t/") == ("file:/w/t/", "/w/t/", "file:/localhost/w/t/")
    assert spellings("hdfs://nn/w/ds=a%2Fb") == ("hdfs:/nn/w/ds=a%2Fb/", "hdfs:/nn:8020/w/ds=a%2Fb/")
    assert spellings("gs://b") == ("gs:/b/",)
    with pytest.raises(UnsafePathError):
        spellings("w/t")


def test_around_a_place_are_all_directories_above_it_and_not_itself() -> None:
    assert spellings_around("gs://b/w/t/ds=1") == ("gs:/b/", "gs:/b/w/", "gs:/b/w/t/")
    assert spellings_around("/w/t") == (
        "file:/", "file:/w/", "/", "/w/", "file:/localhost/", "file:/localhost/w/",
    )  # fmt: skip
    assert spellings_around("gs://b") == ()
