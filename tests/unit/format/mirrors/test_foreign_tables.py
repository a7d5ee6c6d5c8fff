"""What a foreign table is called, and what a directory must not be to count as plain files."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.mirrors.foreign_tables import ForeignTable, newest_delta_version, require_plain


@pytest.mark.parametrize(
    ("text", "format", "place"),
    [
        ("iceberg:lake.shop.items", "iceberg", "lake.shop.items"),
        ("delta:s3a://b/items/", "delta", "s3a://b/items"),
        ("parquet:/data/items/", "parquet", "/data/items"),
        ("orc:hdfs://one/data/a=b", "orc", "hdfs://one/data/a=b"),
    ],
)
def test_a_foreign_table_is_its_format_and_its_place(text: str, format: str, place: str) -> None:
    found = ForeignTable.parse(text)
    assert (found.format, found.place) == (format, place)
    assert ForeignTable.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "", None, 7, "/data", "csv:/data", "parquet:", "parquet:data", "parquet:/", "parquet:/a/../b", "orc:/a/*",
        "orc:/a\nb", "iceberg:items", "iceberg:a.b;c.d", "delta:relative", "PARQUET:/data", "parquet:/a/{b,c}",
    ],
)  # fmt: skip
def test_what_is_none_is_refused(text: object) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"source|target"):
        ForeignTable.parse(text)


def test_a_version_is_an_option_of_the_reader_that_has_versions() -> None:
    assert ForeignTable.parse("iceberg:a.b.c").options("5") == {"path": "a.b.c", "versionAsOf": "5"}
    assert ForeignTable.parse("delta:/d").options("0") == {"path": "/d", "versionAsOf": "0"}
    assert ForeignTable.parse("delta:/d").options(None) == {"path": "/d"}
    assert ForeignTable.parse("delta:/d").checked_version(7) == "7"
    for source, version in (("delta:/d", "-1"), ("delta:/d", "x"), ("delta:/d", True), ("orc:/d", 1)):
        with pytest.raises(InvalidArgumentsError, match="version"):
            ForeignTable.parse(source).checked_version(version)


def test_the_newest_version_of_a_delta_log_may_be_a_checkpoint() -> None:
    names = [f"{n:020d}.json" for n in (3, 11)] + ["_last_checkpoint", f"{12:020d}.checkpoint.parquet", "x.crc"]
    assert newest_delta_version(names) == 12
    assert newest_delta_version([f"{4:020d}.checkpoint.0000000001.0000000002.parquet"]) == 4
    assert newest_delta_version(["_last_checkpoint"]) is None


@pytest.mark.parametrize(
    ("names", "remedy"),
    [
        (["_delta_log", "part-0.parquet"], "delta:/d"),
        (["metadata", "data"], "iceberg:"),
        (["base_0000003"], "Hive ACID"),
        (["delta_0000001_0000001_0000", "part-0.orc"], "Hive ACID"),
    ],
)
def test_files_that_are_not_all_rows_are_refused(names: list[str], remedy: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=remedy):
        require_plain(ForeignTable.parse("parquet:/d"), names)


def test_plain_files_and_partitions_are_taken() -> None:
    require_plain(ForeignTable.parse("parquet:/d"), ["_SUCCESS", "part-0.parquet", "day=1", "data"])
