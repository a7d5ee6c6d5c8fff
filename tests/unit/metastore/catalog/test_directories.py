"""Directories that share files, found by name, against the comparison of two; and where the database has to look."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.format.paths import is_inside, relative_to
from airflow_hive_acid.metastore.catalog.rows.places import share_files
from airflow_hive_acid.metastore.catalog.rows.sharing import Directories, _containing

HEADS = ["", "file:", "file://", "file://localhost", "s3://b", "s3a://b", "s3a://c", "hdfs://n", "hdfs://n:8020"]
SEGMENTS = st.lists(st.sampled_from(["a", "b", "a b", "k=1", "k=a%2Fb", "A"]), max_size=4)
SLASHES = st.sampled_from(["/", "//"])


@st.composite
def locations(draw: st.DrawFn) -> str:
    """Places near each other, as metastores spell them."""
    segments, head = draw(SEGMENTS), draw(st.sampled_from(HEADS))
    path = "".join(("/" if number == 0 else draw(SLASHES)) + each for number, each in enumerate(segments))
    return f"{head}{path}{draw(st.sampled_from(['', '/'])) if segments else '/'}"


@given(st.lists(locations(), min_size=1, max_size=6), locations())
def test_those_that_share_are_those_that_share_one_by_one(known: list[str], place: str) -> None:
    found = Directories(enumerate(known)).sharing(place)
    assert sorted(found) == [number for number, each in enumerate(known) if share_files(each, place)]


@given(st.lists(locations(), min_size=1, max_size=6), locations())
def test_what_lies_in_a_place_can_be_left_out(known: list[str], place: str) -> None:
    """Of what is left each is the place or lies around it, and so around whatever is new there."""
    found = Directories(enumerate(known)).sharing(place, around=False)
    new = f"{place.rstrip('/')}/new"
    assert sorted(found) == [number for number, each in enumerate(known) if share_files(each, new)]


def test_a_place_in_a_dropped_directory_is_told_from_one_around_it() -> None:
    directories = Directories([("one", "/t/k=1"), ("ten", "/t/k=10")])
    assert directories.sharing("file:///t/k=1/delta_1") == ["one"]
    assert directories.sharing("file:/t/k=10") == ["ten"]
    assert directories.sharing("/t") == ["one", "ten"]
    assert directories.sharing("/t", around=False) == []
    assert directories.sharing("/t/k=") == []


@given(st.sets(locations(), min_size=1, max_size=40))
def test_the_database_looks_in_few_directories_which_contain_all(wanted: set[str]) -> None:
    roots = _containing(wanted)
    assert len(roots) <= 8
    assert all(any(is_inside(root, each) or relative_to(root, each) == "" for root in roots) for each in wanted)


def test_few_directories_are_looked_for_as_they_are() -> None:
    assert _containing(["/a/b", "s3a://c/d/"]) == ["file:///a/b", "s3a://c/d"]
    assert _containing([f"/t/k={number}/l=1" for number in range(9)]) == ["file:///t"]
