"""Partition names: escaping and parsing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import (
    DEFAULT_PARTITION,
    escape_path_name,
    parse_partition_name,
    partition_name,
    unescape_path_name,
)

_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("2024-01-01", "2024-01-01"),
        ("a b/c=d:e%f", "a b%2Fc%3Dd%3Ae%25f"),  # as a real Hive named it (fixture part_dyn)
        ("\x01\x1f\x7f\n", "%01%1F%7F%0A"),
        ("\"#'*?\\{[]^", "%22%23%27%2A%3F%5C%7B%5B%5D%5E"),
        ("}~|<>&$!,;@+ .-_()`", "}~|<>&$!,;@+ .-_()`"),
        ("é漢😀", "é漢😀"),
        ("..", ".."),
        ("", DEFAULT_PARTITION),
    ],
)
def test_values_are_escaped_as_hive_does(value: str, escaped: str) -> None:
    assert escape_path_name(value) == escaped


def test_names_have_lower_case_keys_and_values_as_they_are() -> None:
    assert partition_name([("DS", "2024-01-01"), ("h", "A/b")]) == "ds=2024-01-01/h=A%2Fb"
    assert partition_name([("ds", None), ("h", "0")]) == "ds=__HIVE_DEFAULT_PARTITION__/h=0"


def test_a_name_gives_back_columns_and_values() -> None:
    assert parse_partition_name("ds=a b%2Fc%3Dd%3Ae%25f/h=2") == (("ds", "a b/c=d:e%f"), ("h", "2"))
    assert parse_partition_name("DS=__HIVE_DEFAULT_PARTITION__") == (("ds", DEFAULT_PARTITION),)
    assert parse_partition_name("p=100%") == (("p", "100%"),)
    assert parse_partition_name("p=x=y") == (("p", "x=y"),)


@given(_text)
def test_escaping_is_undone_and_never_adds_a_path_level(value: str) -> None:
    escaped = escape_path_name(value)
    assert "/" not in escaped
    assert unescape_path_name(escaped) == value


@given(st.lists(st.tuples(st.from_regex(r"[a-z_][a-z0-9_ ]{0,5}", fullmatch=True), _text), min_size=1, max_size=4))
def test_every_name_gives_back_its_values(values: list[tuple[str, str]]) -> None:
    assert parse_partition_name(partition_name(values)) == tuple(values)


@pytest.mark.parametrize("name", ["", "ds", "ds=", "=x", "ds=1/", "ds=1//h=2", "/ds=1"])
def test_what_is_no_partition_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="not of the form column=value"):
        parse_partition_name(name)


def test_a_name_without_columns_is_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match="at least one column"):
        partition_name([])
    with pytest.raises(InvalidArgumentsError, match="without a name"):
        partition_name([("", "x")])


def test_what_is_wrong_with_a_partition_name_is_said() -> None:
    with pytest.raises(InvalidArgumentsError) as part:
        parse_partition_name("a=1/b")
    assert str(part.value) == "partition name 'a=1/b': 'b' is not of the form column=value"
    with pytest.raises(InvalidArgumentsError) as key:
        partition_name([("", "x")])
    assert str(key.value) == "a partition column without a name (value 'x')"
    with pytest.raises(InvalidArgumentsError) as none:
        partition_name([])
    assert str(none.value) == "a partition name needs at least one column; unpartitioned tables have none"
