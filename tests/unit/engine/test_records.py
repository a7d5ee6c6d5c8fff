"""Records are judged value by value, and what does not fit is named."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_hive_acid.engine.streams.records import RecordColumns, encoder, lines, static_partition
from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError
from airflow_hive_acid.format.jobs import RECORDS, Column

COLUMNS = RecordColumns("w.t", (Column("id", "int", True), Column("Name", "varchar(3)")))


def test_a_record_becomes_a_line_of_all_columns() -> None:
    made = list(lines(COLUMNS, [{"ID": 1, "name": "a\nb"}, {"id": 2, "NAME": None}]))
    assert made == ['{"id":1,"name":"a\\nb"}', '{"id":2,"name":null}']
    source = COLUMNS.source("v", "\n".join(made))
    assert (source.format, source.options["lines"].count("\n"), source.columns) == (RECORDS, 1, COLUMNS.columns)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"id": 1}, "record 7, column name: the field is missing; give every column of w.t, None for NULL"),
        ({"id": None, "name": "a"}, "record 7, column id: it is None, and the column is NOT NULL"),
        ({"id": 1, "name": "a", "more": 2}, "record 7, field more: w.t has no such column to fill; it has id, name"),
        ({"id": 1, "Name": "a", "NAME": "b"}, "record 7 for w.t names a column twice"),
        ({"id": 1, "name": "abcd"}, "record 7, column name: 'abcd' is no varchar(3): it is longer than 3 characters"),
        ({"id": 1, "name": "\ud800"}, "record 7, column name: '\\ud800' is no varchar(3): it is no valid Unicode text"),
        (["1", "a"], "record 7 for w.t must be a dict of values, not ["),
    ],
)
def test_what_does_not_fit_is_named(record: Any, says: str) -> None:
    with pytest.raises(BadRecordError) as failure:
        COLUMNS.line(record, 7)
    assert str(failure.value).startswith(says)


@pytest.mark.parametrize("records", [{"id": 1}, "text", b"bytes"])
def test_a_single_record_is_no_list_of_records(records: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="a list of dicts"):
        list(lines(COLUMNS, records))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("array<decimal(5,2)>", [Decimal("1.50"), None, 3], ["1.50", None, "3"]),
        ("map<string,array<int>>", {"a": [1], "b": None}, {"a": [1], "b": None}),
        ("struct<x:double,y:struct<d:date,b:binary>>", {"X": 1, "y": {"d": date(2026, 1, 31), "b": b"\x00"}},
         {"x": 1.0, "y": {"d": "2026-01-31", "b": "AA=="}}),
        ("array<float>", [float("nan"), float("-inf"), 0.5], ["NaN", "-Infinity", 0.5]),
        ("timestamp with local time zone", "2026-11-22T14:05:00+01:00", "2026-11-22 14:05:00+01:00"),
        ("array<timestamp>", [datetime(2026, 11, 22, 14, 5)], ["2026-11-22 14:05:00"]),
    ],
)  # fmt: skip
def test_nested_values_become_what_spark_reads_in_the_declared_type(kind: str, value: Any, expected: Any) -> None:
    made = encoder(kind)(value)
    assert made == expected
    assert json.loads(json.dumps(made)) == made


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ("array<int>", "12", r"give a list for array<int>"),
        ("array<int>", [1, "x"], "give an int"),
        ("array<decimal(3,1)>", ["100"], "more than 2 digits before the point"),
        ("timestamp with local time zone", datetime(2026, 1, 1), "with a time zone"),
        ("map<string,int>", {1: 1}, "give text"),
        ("map<string,int>", [1], "give a dict"),
        ("struct<a:int,b:int>", {"a": 1}, "its field b is missing"),
        ("struct<a:int>", {"a": 1, "c": 1}, "its field c is unknown"),
        ("struct<a:int>", [1], "give a dict"),
    ],
)
def test_nested_values_are_checked_down_to_their_leaves(kind: str, value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        encoder(kind)(value)


@pytest.mark.parametrize("kind", ["map<int,string>", "uniontype<int,string>", "array<interval_day_time>"])
def test_types_that_records_cannot_fill_are_refused_at_once(kind: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="cannot fill"):
        encoder(kind)


def test_static_partition_values_are_text_in_the_order_of_the_columns() -> None:
    given = {"H": 7, "day": date(2026, 11, 22), "flag": True, "none": None}
    names = ["day", "h", "flag", "none", "other"]
    assert static_partition(names, given, "w.t") == (
        ("day", "2026-11-22"), ("h", "7"), ("flag", "true"), ("none", "__HIVE_DEFAULT_PARTITION__"),
    )  # fmt: skip
    assert static_partition(names, None, "w.t") == ()
    with pytest.raises(InvalidArgumentsError, match=r"partition names x, and w\.t is partitioned by day"):
        static_partition(["day"], {"x": 1}, "w.t")
    with pytest.raises(InvalidArgumentsError, match="partition column day must be text, a number or a date"):
        static_partition(["day"], {"day": 1.5}, "w.t")
