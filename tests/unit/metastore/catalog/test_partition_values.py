"""Values of partition columns, as a Hive 4.1 was seen to store them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.names.partition_values import insertable_value, normal_value

TRIED = [
    ("int", "02", "2"), ("int", "+3", "3"), ("int", "-0", "0"), ("bigint", "-007", "-7"),
    ("date", "2026-1-2", "2026-01-02"), ("date", "2026-01-02", "2026-01-02"),
    ("date", "2026-01-02 00:00:00", "2026-01-02"),
    ("boolean", "TRUE", "true"), ("boolean", "T", "true"), ("boolean", "false", "false"),
    ("decimal(10,2)", "1.50", "1.5"), ("decimal(10,2)", "01.5", "1.5"), ("decimal(10,2)", "1", "1"),
    ("decimal(10,2)", "1.555", "1.56"), ("decimal(10,2)", "1.00", "1"), ("decimal(10,2)", "-0.001", "0"),
    ("double", "1", "1.0"), ("double", "1.0", "1.0"), ("double", "1e3", "1000.0"), ("double", "01.50", "1.5"),
    ("double", "12345678", "1.2345678E7"), ("double", "0.0001", "1.0E-4"), ("double", "0.1", "0.1"),
    ("float", "1", "1.0"), ("float", "1.10", "1.1"), ("float", "0.1", "0.1"),
    ("timestamp", "2026-01-02 03:04:05", "2026-01-02 03:04:05"),
    ("timestamp", "2026-01-02 03:04:05.0", "2026-01-02 03:04:05"),
    ("timestamp", "2026-01-02 03:04:05.120", "2026-01-02 03:04:05.12"),
    ("timestamp", "2026-01-02", "2026-01-02 00:00:00"),
    ("varchar(3)", "abcd", "abc"), ("varchar(3)", "ab ", "ab "),
    ("string", "02", "02"), ("string", " ab", " ab"), ("string", "%2F", "%2F"), ("char(5)", "ab", "ab   "),
    ("char(5)", "ab  ", "ab   "), ("char(5)", "abcdef", "abcde"),
    ("int", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "written", "stored"), TRIED)
def test_a_value_is_written_as_a_hive_stores_it(kind: str, written: str, stored: str) -> None:
    assert normal_value("k", kind, written) == stored
    assert normal_value("k", kind, stored) == stored


@pytest.mark.parametrize(
    ("kind", "written"),
    [("int", " 4"), ("int", "four"), ("int", "1.0"), ("date", "today"), ("boolean", "maybe"), ("decimal(4,1)", "x"),
     ("decimal(4,1)", "NaN"), ("decimal(4,1)", "1e999"), ("double", "one"), ("double", "inf"), ("timestamp", "noon")],
)  # fmt: skip
def test_what_is_no_value_of_the_type_is_refused(kind: str, written: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"partition column k is .*; .* is no value of that type"):
        normal_value("k", kind, written)


@pytest.mark.parametrize(("kind", "written", "stored"), [t for t in TRIED if t[1] not in ("abcd", "abcdef")])
def test_a_value_is_inserted_as_a_hive_stores_it(kind: str, written: str, stored: str) -> None:
    assert insertable_value("k", kind, written) == stored


@pytest.mark.parametrize(
    ("kind", "written"),
    [("tinyint", "128"), ("int", "-2147483649"), ("bigint", "9223372036854775808"), ("date", "2026-02-29"),
     ("date", "0000-01-01"), ("timestamp", "2026-01-02 24:00:00"), ("decimal(4,2)", "99.995"), ("decimal", "1e10"),
     ("varchar(3)", "abcd"), ("char(3)", "abcd"), ("boolean", "2")],
)  # fmt: skip
def test_what_would_be_read_as_another_value_is_not_inserted(kind: str, written: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"column k is .*; .*(does not fit|no value of that type)"):
        insertable_value("k", kind, written)


@settings(deadline=None)
@given(st.sampled_from(["int", "date", "boolean", "decimal(10,2)", "double", "float", "timestamp"]), st.text())
def test_any_text_has_one_normal_form_or_is_refused(kind: str, text: str) -> None:
    try:
        stored = normal_value("k", kind, text)
    except InvalidArgumentsError:
        return
    assert normal_value("k", kind, stored) == stored


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_the_same_number_afterwards(number: float) -> None:
    assert float(normal_value("k", "double", repr(number))) == number
