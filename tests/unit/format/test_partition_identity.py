"""One partition under all of its spellings: names that a Hive escapes twice, and names of all columns or of some."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import (
    PartitionValues,
    escaped_twice,
    every_spelling,
    from_lock_name,
    is_escaped_twice,
    may_be_among,
    may_be_same,
    name_covers,
    names_overlap,
    parse_partition_name,
    partition_name,
    readings,
    spellings,
)

HOSTILE = ["a b", "a'b", 'a"b', "100%", "a%2Fb", "a%252Fb", "a/b", "a=b", "a:b", "é", "..", ".a", "b ", "{x}", "%", "~"]
VALUES = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(blacklist_categories=("Cs",)), min_size=1))
SPECS = st.lists(VALUES, min_size=1, max_size=3).map(lambda values: tuple(zip("abc", values, strict=False)))


def lock_name(name: str) -> str:
    """What a Hive makes of a name in a lock request: each part is escaped as if it were a value."""
    return partition_name([tuple(part.split("=")) for part in name.split("/")])  # type: ignore[misc]


@settings(deadline=None)
@given(SPECS)
def test_a_name_is_read_and_written_without_loss(values: tuple[tuple[str, str], ...]) -> None:
    name = partition_name(values)
    assert partition_name(parse_partition_name(name)) == name
    assert PartitionValues.of(name).name == name
    assert parse_partition_name(name) == values


@settings(deadline=None)
@given(SPECS)
def test_the_second_spelling_is_that_of_a_hive(values: tuple[tuple[str, str], ...]) -> None:
    name = partition_name(values)
    assert escaped_twice(name) == lock_name(name)
    assert spellings(name) == tuple(dict.fromkeys((name, lock_name(name))))


@settings(deadline=None)
@given(SPECS)
def test_a_name_is_found_again_under_each_of_its_spellings(values: tuple[tuple[str, str], ...]) -> None:
    name = partition_name(values)
    for stored in spellings(name):
        assert name in readings(stored)
        assert may_be_same(name, stored)
        assert may_be_same(stored, name)
        assert all(stored in spellings(meant) for meant in readings(stored))
    assert from_lock_name(lock_name(name)) == name


@settings(deadline=None)
@given(SPECS, SPECS)
def test_names_in_hives_locks_are_equal_for_the_same_partition_and_for_no_other(
    one: tuple[tuple[str, str], ...], other: tuple[tuple[str, str], ...]
) -> None:
    names = partition_name(one), partition_name(other)
    assert (escaped_twice(names[0]) == escaped_twice(names[1])) == (one == other)


def test_two_partitions_share_a_spelling_only_when_a_hive_spells_one_as_the_other_is_called() -> None:
    mixed_up = []
    for one, other in itertools.combinations(HOSTILE, 2):
        names = partition_name([("k", one)]), partition_name([("k", other)])
        if set(spellings(names[0])) & set(spellings(names[1])):
            mixed_up.append((one, other))
    assert mixed_up == [("a%2Fb", "a%252Fb"), ("a%2Fb", "a/b")]


@pytest.mark.parametrize(
    ("stored", "meant"),
    [
        ("ds=1", ("ds=1",)),
        ("ds=a%2Fb", ("ds=a%2Fb",)),
        ("ds=a%252Fb", ("ds=a%252Fb", "ds=a%2Fb")),
        ("ds=a%25252Fb", ("ds=a%25252Fb", "ds=a%252Fb")),
        ("ds=100%25", ("ds=100%25",)),
        ("ds=100%2525", ("ds=100%2525", "ds=100%25")),
        ("ds=100%252G", ("ds=100%252G",)),
        ("DS=a%2fb", ("ds=a%2Fb",)),
        ("d=x%252Fy/h=2", ("d=x%252Fy/h=2", "d=x%2Fy/h=2")),
        ("nonsense", ()),
        ("", ()),
    ],
)
def test_what_a_name_of_the_txn_tables_may_mean(stored: str, meant: tuple[str, ...]) -> None:
    assert readings(stored) == meant
    assert is_escaped_twice(stored) == (len(meant) == 2)


def test_a_name_in_a_lock_that_was_escaped_once_is_the_catalogs() -> None:
    assert from_lock_name("ds=100%25") == "ds=100%25"
    assert from_lock_name("ds=100%2525") == "ds=100%25"


def test_names_with_escapes_are_the_same_only_if_one_is_the_other_escaped_again() -> None:
    assert may_be_same("ds=a%2Fb", "ds=a%252Fb")
    assert not may_be_same("ds=a%2Fb", "ds=c")
    assert not may_be_same("ds=a%2Fb", "ds=a%2Fc")


def test_a_name_is_looked_for_among_many_as_it_is_compared_with_each() -> None:
    names = [stored for value in HOSTILE for stored in spellings(partition_name([("a", value)]))]
    for stored, name in itertools.product(names, repeat=2):
        assert may_be_among(stored, every_spelling([name])) is may_be_same(stored, name), (stored, name)
    assert not may_be_among("a=1", every_spelling([]))


def test_specs_overlap_unless_they_give_one_column_two_values() -> None:
    """Every name of some of three columns against every other, in every order, beside the rule in words."""
    partitions = [dict(zip("abc", values, strict=True)) for values in itertools.product("12", repeat=3)]
    names: list[tuple[str, dict[str, str]]] = [("", {})]
    for count in (1, 2, 3):
        for keys in itertools.permutations("abc", count):
            for values in itertools.product("12", repeat=count):
                pairs = tuple(zip(keys, values, strict=True))
                names.append((partition_name(pairs), dict(pairs)))
    for (one, ones), (other, others) in itertools.product(names, repeat=2):
        mine = [p for p in partitions if ones.items() <= p.items()]
        theirs = [p for p in partitions if others.items() <= p.items()]
        assert names_overlap(one, other) == any(p in theirs for p in mine), (one, other)
        assert name_covers(one, other) == all(p in mine for p in theirs), (one, other)


def test_a_column_named_twice_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"'a=1/A=2' gives a column two values; name each once"):
        PartitionValues.of("a=1/A=2")


def test_a_column_named_twice_is_told_with_the_name() -> None:
    with pytest.raises(InvalidArgumentsError) as twice:
        PartitionValues.of("a=1/A=2")
    assert str(twice.value) == "partition name 'a=1/A=2' gives a column two values; name each once"


@pytest.mark.parametrize(
    ("one", "other", "covers", "overlaps"),
    [
        ("", "a=1", True, True), ("a=1", "", False, True), ("", "", True, True), ("a=1", "a=1", True, True),
        ("a=1", "a=1/b=2", True, True), ("a=1/b=2", "a=1", False, True), ("b=2", "a=1/b=2", True, True),
        ("a=1", "a=2", False, False), ("a=1", "b=2", False, True), ("x", "x", True, True), ("x", "a=1", False, False),
        ("a=1", "x", False, False),
    ],
)  # fmt: skip
def test_a_name_covers_what_has_its_values_and_overlaps_what_contradicts_none(
    one: str, other: str, covers: bool, overlaps: bool
) -> None:
    assert name_covers(one, other) is covers
    assert names_overlap(one, other) is overlaps
