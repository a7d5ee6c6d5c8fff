"""Which partition of the catalog is meant by values and by names, where CHAR values lack their blanks."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.metastore.names import Spellings

PADDED, BARE = "c=ab   ", "c=ab"


@pytest.mark.parametrize(
    ("value", "there", "by_value", "by_name"),
    [
        ("ab", (), PADDED, PADDED),
        ("ab", (PADDED,), PADDED, PADDED),
        ("ab", (BARE,), BARE, BARE),
        ("ab   ", (BARE,), BARE, BARE),
        ("ab ", (BARE,), BARE, BARE),
        ("ab ", ("c=ab ",), "c=ab ", "c=ab "),
        ("ab", (PADDED, BARE), None, BARE),
        ("ab ", (PADDED, BARE), None, None),
        ("ab   ", (PADDED, BARE), PADDED, PADDED),
    ],
)
def test_one_char_value(value: str, there: tuple[str, ...], by_value: str | None, by_name: str | None) -> None:
    for named, expected in ((False, by_value), (True, by_name)):
        spelled = Spellings.of([("c", "char(5)", value)], by_name=named)
        if expected is not None:
            assert spelled.choose("d.t", there) == expected
            continue
        with pytest.raises(InvalidArgumentsError, match=r"d\.t has 2 partitions of the same value"):
            spelled.choose("d.t", there)


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [("decimal(10,2)", "1.50", "1.5"), ("double", "1", "1.0"), ("boolean", "TRUE", "true"),
     ("timestamp", "2026-01-02 03:04:05.0", "2026-01-02 03:04:05")],
)  # fmt: skip
def test_a_number_or_time_is_the_partition_that_is_there(kind: str, value: str, stored: str) -> None:
    normal, given = (partition_name([("c", text)]) for text in (stored, value))
    spelled = Spellings.of([("c", kind, value)], by_name=False)
    assert spelled.names == (normal, given)
    assert spelled.choose("d.t", ()) == spelled.choose("d.t", {normal}) == normal
    assert spelled.choose("d.t", {given}) == given
    with pytest.raises(InvalidArgumentsError, match="2 partitions of the same value"):
        spelled.choose("d.t", {normal, given})
    assert Spellings.of([("c", kind, value)], by_name=True).choose("d.t", {normal, given}) == given
    assert Spellings.of([("c", kind, stored)], by_name=False).names == (normal,)
    assert Spellings.of([("c", kind, "nothing")], by_name=False).names == ("c=nothing",)


def test_several_columns_are_spelled_each_for_itself() -> None:
    values = [("c", "char(2)", "a"), ("d", "string", "x "), ("e", "char(3)", "b")]
    spelled = Spellings.of(values, by_name=False)
    assert spelled.names == ("c=a /d=x /e=b  ", "c=a /d=x /e=b", "c=a/d=x /e=b  ", "c=a/d=x /e=b")
    assert spelled.choose("d.t", {"c=a/d=x /e=b  "}) == "c=a/d=x /e=b  "


@pytest.mark.parametrize(
    ("kind", "value"), [("string", "ab"), ("varchar(5)", "ab "), ("int", "1"), ("char(2)", "ab"), ("char(3)", "   ")]
)
def test_values_with_one_spelling(kind: str, value: str) -> None:
    assert Spellings.of([("c", kind, value)], by_name=False).is_one
    assert Spellings.of([("c", "char(5)", "__HIVE_DEFAULT_PARTITION__")], by_name=False).is_one
