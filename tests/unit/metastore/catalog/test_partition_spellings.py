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
    assert spelled.names[:2] == (normal, given)
    assert spelled.choose("d.t", ()) == spelled.choose("d.t", {normal}) == normal
    assert spelled.choose("d.t", {given}) == given
    with pytest.raises(InvalidArgumentsError, match="2 partitions of the same value"):
        spelled.choose("d.t", {normal, given})
    assert Spellings.of([("c", kind, value)], by_name=True).choose("d.t", {normal, given}) == given
    assert Spellings.of([("c", kind, stored)], by_name=False).names[0] == normal
    assert Spellings.of([("c", kind, "nothing")], by_name=False).names == ("c=nothing",)


@pytest.mark.parametrize(
    ("kind", "value", "others"),
    [
        ("int", "1", ["01", "001", "0001"]),
        ("bigint", "-1", ["-01", "-001", "-0001"]),
        ("smallint", "2026", []),
        ("date", "2026-01-02", ["2026-1-2"]),
        ("decimal(10,2)", "1.5", ["1.50"]),
        ("decimal(10,2)", "2", ["2.0", "2.00"]),
        ("double", "1.0", ["1"]),
        ("float", "1.25", []),
        ("boolean", "true", ["TRUE", "True"]),
        ("timestamp", "2026-01-02 00:00:00", ["2026-01-02 00%3A00%3A00.0", "2026-01-02"]),
        ("int", "__HIVE_DEFAULT_PARTITION__", []),
        ("decimal(10,2)", "1000", ["1000.0", "1000.00"]),
        ("double", "1.0E10", []),
    ],
)
def test_a_value_as_a_hive_writes_it_is_the_partition_that_another_program_called(
    kind: str, value: str, others: list[str]
) -> None:
    """A Hive's MSCK REPAIR takes the names of directories, ``hour=01``."""
    spelled = Spellings.of([("c", kind, value)], by_name=False)
    assert [name.removeprefix("c=") for name in spelled.names][1:] == others
    for other in others:
        assert spelled.choose("d.t", {f"c={other}"}) == f"c={other}"
    assert spelled.choose("d.t", set(spelled.names)) == spelled.names[0]


def test_of_many_columns_the_usual_names_are_looked_for() -> None:
    spelled = Spellings.of([(f"c{i}", "int", str(i)) for i in range(6)], by_name=False)
    assert len(spelled.names) <= 100
    assert {"c0=0/c1=1/c2=2/c3=3/c4=4/c5=5", "c0=00/c1=01/c2=02/c3=03/c4=04/c5=05"} <= set(spelled.names)


@pytest.mark.parametrize("others", [True, False])
def test_the_name_that_is_given_is_looked_for_however_many_columns_there_are(others: bool) -> None:
    given = [(f"c{i}", "int", f"0{i}") for i in range(8)]
    name = "c0=00/c1=01/c2=02/c3=03/c4=04/c5=05/c6=06/c7=07"
    assert Spellings.of(given, by_name=True, others=others).choose("d.t", {name}) == name
    assert name in Spellings.of(given, by_name=False, others=others).names


def test_several_columns_are_spelled_each_for_itself() -> None:
    values = [("c", "char(2)", "a"), ("d", "string", "x "), ("e", "char(3)", "b")]
    spelled = Spellings.of(values, by_name=False)
    assert spelled.names == ("c=a /d=x /e=b  ", "c=a /d=x /e=b", "c=a/d=x /e=b  ", "c=a/d=x /e=b")
    assert spelled.choose("d.t", {"c=a/d=x /e=b  "}) == "c=a/d=x /e=b  "


@pytest.mark.parametrize(
    ("kind", "value"), [("string", "ab"), ("varchar(5)", "ab "), ("int", "2026"), ("char(2)", "ab"), ("char(3)", "   ")]
)
def test_values_with_one_spelling(kind: str, value: str) -> None:
    assert Spellings.of([("c", kind, value)], by_name=False).is_one
    assert Spellings.of([("c", "char(5)", "__HIVE_DEFAULT_PARTITION__")], by_name=False).is_one
