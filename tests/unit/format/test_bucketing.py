"""The bucket hash gives what Hive gave: its answers for values of every type, and the files that it wrote."""

from __future__ import annotations

import random
import time
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.bucketing import (
    HiveType,
    Instant,
    bucket_hash,
    bucket_of,
    known_version,
    murmur3,
    stored_version,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.mark.parametrize("version", [1, 2])
def test_hashes_are_hives(hashed_rows: list[Any], version: int) -> None:
    wrong = [
        (row.types, row.values, row.hashes[version], found)
        for row in hashed_rows
        if (found := bucket_hash(row.values, row.types, version)) != row.hashes[version]
    ]
    assert len(hashed_rows) > 700
    assert wrong == []


# The rows of tests/fixtures/bucketed_str with their v; Hive read five of them back.
STRINGS = [
    (("a", date(2024, 1, 1), datetime(2024, 1, 1), Decimal("1.5")), 1),
    (("b", date(1969, 12, 31), Instant(-1, 123456789), Decimal("-1.5")), 2),
    (("", None, None, None), 3),
    ((None, None, None, None), 4),
    (("héllo wörld 日本", date(1, 1, 1), datetime(1900, 6, 15, 12, 0, 0, 500000), Decimal("12345678901234.5678")), 5),
    (("k6", date(9999, 12, 31), Instant(9223372036, 854775807), Decimal(0)), 6),
    (("k7", date(2000, 2, 29), datetime(2000, 2, 29, 1, 2, 3), Decimal("100.0000")), 7),
]


def test_rows_are_in_the_files_that_hive_put_them_in(golden: Any) -> None:
    stage = golden("bucketed_str", "1_insert")
    rows = stage.expected
    column = [name.rpartition(".")[2] for name, _ in rows["columns"]]
    places = {
        row[column.index("v")]: int(row[column.index("input__file__name")].rpartition("bucket_")[2][:5])
        for row in rows["rows"]
    }
    types = ["string", "date", "timestamp", "decimal(18,4)"]
    assert len(places) == 5
    assert places.items() <= {v: bucket_of(values, types, 8) for values, v in STRINGS}.items()


def test_an_int_is_in_the_file_of_its_bucket(golden: Any) -> None:
    rows = golden("bucketed_dml", "2_dml").expected
    column = [name.rpartition(".")[2] for name, _ in rows["columns"]]
    for row in rows["rows"]:
        place = int(row[column.index("input__file__name")].rpartition("bucket_")[2][:5])
        assert bucket_of([row[column.index("id")]], ["int"], 4) == place


def test_hashes_are_ints_and_buckets_are_in_range() -> None:
    dice = random.Random(1)
    for _ in range(300):
        values = [dice.getrandbits(64) - 2**63, dice.randbytes(dice.randrange(20))]
        count = dice.randrange(1, 4097)
        for version in (1, 2):
            assert -(2**31) <= bucket_hash(values, ["bigint", "binary"], version) < 2**31
            assert 0 <= bucket_of(values, ["bigint", "binary"], count, version) < count


def test_murmur3_takes_the_last_bytes_as_signed() -> None:
    assert murmur3(b"ab\x7f") != murmur3(b"ab\xff")
    assert murmur3(b"") == bucket_hash([""], ["string"])


def test_a_local_timestamp_counts_by_its_instant() -> None:
    kind = ["timestamp with local time zone"]
    berlin = datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert bucket_hash([berlin], kind) == bucket_hash([datetime(2024, 1, 1, tzinfo=timezone.utc)], kind)


@pytest.mark.parametrize(
    ("properties", "version"),
    [({}, 1), ({"bucketing_version": "2"}, 2), ({"BUCKETING_VERSION": "1"}, 1), ({"orc.compress": "ZLIB"}, 1)],
)
def test_a_table_that_does_not_say_has_version_1(properties: dict[str, str], version: int) -> None:
    assert known_version(stored_version(properties), "db.t") == version


@pytest.mark.parametrize("value", ["3", "two", ""])
def test_a_version_that_hive_does_not_have_is_refused(value: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"db.t has bucketing_version=.*Hive has 1 and 2"):
        known_version(stored_version({"bucketing_version": value}), "db.t")


@pytest.mark.parametrize(
    ("values", "types", "buckets", "words"),
    [([1], ["int"], 0, "at least one bucket"), ([1], ["int"], -1, "at least one bucket")],
)
def test_no_buckets_are_refused(values: Sequence[Any], types: list[str], buckets: int, words: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=words):
        bucket_of(values, types, buckets)


@pytest.mark.parametrize("kind", ["uniontype<int,string>", "interval_day_time", "void", "", "1"])
def test_types_that_hive_does_not_store_are_refused(kind: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=f"type {kind}"):
        bucket_hash([1], [kind])


def test_what_is_wrong_with_a_bucketed_table_is_said() -> None:
    with pytest.raises(InvalidArgumentsError) as version:
        known_version("3", "db.t")
    assert str(version.value) == (
        "db.t has bucketing_version='3', and Hive has 1 and 2: its rows cannot be placed in buckets; "
        "set the property to the one its files were written with"
    )
    with pytest.raises(InvalidArgumentsError) as hashed:
        bucket_hash([1], ["int"], 3)
    assert str(hashed.value) == "bucketing version 3: Hive has 1 and 2"
    with pytest.raises(InvalidArgumentsError) as none:
        bucket_of([1], ["int"], 0)
    assert str(none.value) == "a bucketed table has at least one bucket, not 0"
    with pytest.raises(UnsupportedStatementError) as kind:
        bucket_hash([1], [" Void "])
    assert str(kind.value) == "rows cannot be placed in buckets by a value of type void"
    with pytest.raises(ValueError, match="zip"):
        bucket_hash([1, 2], ["int"])
    with pytest.raises(ValueError, match="zip"):
        bucket_hash([[1, 2]], ["struct<a:int>"])
    with pytest.raises(ValueError, match="zip"):
        bucket_hash([[1, 2]], ["struct<a:int>"], 1)


def test_a_type_is_taken_apart_with_the_names_of_its_fields() -> None:
    found = HiveType.parse(" Struct<`A` : array<INT>, b:map<string,decimal(10,2)>> ")
    assert found == HiveType(
        "struct",
        (HiveType("array", (HiveType("int"),)), HiveType("map", (HiveType("string"), HiveType("decimal")))),
        ("a", "b"),
    )
    assert HiveType.parse("timestamp(6) with local time zone") == HiveType("timestamp with local time zone")
    assert HiveType.parse("timestamp(6)") == HiveType("timestamp")
    for synonym, name in (
        ("integer", "int"),
        ("double precision", "double"),
        ("numeric(3)", "decimal"),
        ("dec", "decimal"),
    ):
        assert HiveType.parse(synonym) == HiveType(name)


def test_all_rows_are_in_the_bucket_of_a_table_that_has_one() -> None:
    assert {bucket_of([value], ["string"], 1) for value in ("a", "b", None)} == {0}


def test_a_bucket_goes_by_the_version_of_the_table() -> None:
    """In version 1 the hash of an int is the int."""
    assert [bucket_of([value], ["int"], 8, 1) for value in range(10)] == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]
    assert [bucket_of([value], ["int"], 8) for value in range(10)] != [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]


def test_half_a_character_counts_with_its_bytes() -> None:
    assert bucket_hash(["\ud800"], ["string"]) == murmur3(b"\xed\xa0\x80")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_the_clock_of_the_machine_changes_no_bucket(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timestamp counts by its own clock, one with a zone by its instant."""
    values = [datetime(2024, 7, 1, 12), datetime(2024, 7, 1, 12, tzinfo=timezone.utc)]
    types = ["timestamp", "timestamp with local time zone"]
    expected = bucket_hash([Instant(1719835200, 0)] * 2, types)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert bucket_hash(values, types) == expected
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(("nanos", "digits"), [(721_000_000, b"\x7f"), (821_000_000, b"\x8f\x80")], ids=["127", "128"])
def test_digits_of_a_fraction_take_one_byte_up_to_127(nanos: int, digits: bytes) -> None:
    """Hive writes the nine digits in reverse, as Hadoop's number of variable length."""
    assert bucket_hash([Instant(0, nanos)], ["timestamp"]) == murmur3(b"\x80\0\0\0" + digits)


@pytest.mark.parametrize("month", range(1, 13))
def test_version_1_counts_days_before_october_1582_by_the_julian_calendar(month: int) -> None:
    """In 1501 it was ten days behind: the day that a timestamp shows came ten days later by today's calendar."""
    seconds = int((datetime(1501, month, 15) + timedelta(days=10) - datetime(1970, 1, 1)).total_seconds())
    folded = (seconds << 30 >> 32 ^ seconds << 30) & 0xFFFFFFFF
    assert bucket_hash([datetime(1501, month, 15)], ["timestamp"], 1) == folded - (folded >> 31 << 32)
