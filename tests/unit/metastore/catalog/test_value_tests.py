"""Comparisons of partition values in DROP PARTITION."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.names import ValueTest

NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("kind", "sign", "value", "true_of", "false_of"),
    [
        ("int", "<", "9", ["-1", "8", "08"], ["9", "10", "85"]),
        ("int", ">=", "+09", ["9", "10"], ["8"]),
        ("decimal(10,2)", "<", "10", ["9.99", "1.50", "-3"], ["10", "10.00", "11"]),
        ("decimal(10,2)", "=", "1.50", ["1.5", "1.50", "01.5"], ["1.51"]),
        ("decimal(10,2)", ">", "1.555", ["1.56"], ["1.55"]),
        ("decimal(10,2)", "<=", "1.555", ["1.55"], ["1.56"]),
        ("double", "<", "1e1", ["9.5", "2.5E-4"], ["10.0", "1.0E7"]),
        ("float", "<>", "1", ["1.1"], ["1.0", "1"]),
        ("timestamp", ">", "2024-01-02 10:00:00", ["2024-01-02 10:00:00.5", "2024-01-02 10:00:01"],
         ["2024-01-02 10:00:00", "2024-01-02 10:00:00.0", "2023-12-31 23:59:59"]),
        ("timestamp", ">=", "2024-1-2", ["2024-01-02 00:00:00"], ["2024-01-01 23:59:59.9"]),
        ("date", "<", "2024-1-10", ["2024-01-02", "2024-1-9"], ["2024-01-10", "2024-02-01"]),
        ("boolean", "<", "TRUE", ["false", "FALSE"], ["true"]),
        ("string", "<", "9", ["10", "85", ""], ["9", "a"]),
        ("varchar(5)", "<>", "a", ["a ", "b"], ["a"]),
        ("char(5)", "<=", "ab", ["ab   ", "ab", "a    "], ["abc  "]),
        ("char(5)", "=", "ab   ", ["ab   ", "ab"], ["abc  "]),
    ],
)  # fmt: skip
def test_values_compare_as_those_of_their_type(
    kind: str, sign: str, value: str, true_of: list[str], false_of: list[str]
) -> None:
    test = ValueTest.of("k", kind, sign, value)
    assert [test.holds(each) for each in true_of] == [True] * len(true_of)
    assert [test.holds(each) for each in (*false_of, NULL)] == [False] * (len(false_of) + 1)


@pytest.mark.parametrize("kind", ["int", "string", "date", "char(3)"])
def test_null_is_equal_to_itself_alone(kind: str) -> None:
    assert ValueTest.of("k", kind, "=", NULL).holds(NULL) is True
    assert ValueTest.of("k", kind, "=", NULL).holds("1") is False
    assert ValueTest.of("k", kind, "<>", NULL).holds(NULL) is False
    assert ValueTest.of("k", kind, "<>", NULL).holds("1") is True
    with pytest.raises(InvalidArgumentsError, match="nothing is > __HIVE_DEFAULT_PARTITION__, which stands for NULL"):
        ValueTest.of("k", kind, ">", NULL)


@pytest.mark.parametrize(("kind", "value"), [("int", "two"), ("int", ""), ("date", "today"), ("double", "NaN")])
def test_what_is_no_value_is_neither_compared_with_nor_judged(kind: str, value: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="no value of that type"):
        ValueTest.of("k", kind, "<", value)
    some = {"int": "1", "date": "2024-01-01", "double": "1"}[kind]
    assert ValueTest.of("k", kind, "<", some).holds(value) is None
