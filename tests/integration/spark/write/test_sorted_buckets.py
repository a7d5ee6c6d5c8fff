"""Bucketed and sorted tables without row ids: every row in the file of Hive's hash, in the order of SORTED BY.

The places and orders written out here are those that Hive 4.1 gave the same rows; ``tests/interop`` compares more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.bucketing import bucket_of
from airflow_hive_acid.format.jobs import Bucketing
from airflow_hive_acid.format.names import parse_original_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.crossing("sorted buckets x kinds of tables"), pytest.mark.spark]

ORDERED = Bucketing(("a",), 4, "2", (("b", False), ("a", True)))
MANY = "select cast(id % 50 as int), if(id % 7 = 0, null, concat('b', id % 11)) from range(0, 200)"


@pytest.fixture
def make(acid_table: Callable) -> Callable:
    """An empty table without row ids; ``kind`` of its files, ``plain`` for one without transactions."""

    def made(
        kind: str = "orc", partitioned_by: str = "", *, plain: bool = False, bucketing: Bucketing = ORDERED
    ) -> Any:
        table = acid_table("a int, b string", partitioned_by)
        table.bucketing = bucketing
        usual = table.snapshot
        what = {"transactional": False} if plain else {"insert_only": True}
        object.__setattr__(table, "snapshot", lambda own=None, **more: usual(own, format=kind, **what, **more))
        return table

    return made


def names(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir() if not p.name.startswith("."))


def content(spark: SparkSession, file: Path, kind: str) -> list[tuple[Any, ...]]:
    """The rows of one file in their order."""
    if kind == "text":
        lines = file.read_text().splitlines()
        parts = [line.split("\x01") for line in lines]
        return [(int(a), None if b == "\\N" else b) for a, b in parts]
    return [tuple(row) for row in spark.read.format(kind).load(str(file)).coalesce(1).collect()]


def check(spark: SparkSession, directory: Path, kind: str = "orc", bucketing: Bucketing = ORDERED) -> int:
    """Each file holds the rows of its bucket, by b descending with NULL last, then by a; how many rows there are."""
    found = 0
    for name in names(directory):
        file = directory / name
        rows = content(spark, file, kind) if file.stat().st_size else []
        parsed = parse_original_file(name)
        assert parsed is not None
        assert {bucket_of(row[:1], ["int"], bucketing.count, int(bucketing.version)) for row in rows} <= {parsed.bucket}
        assert rows == sorted(rows, key=lambda row: (_rank(row[1]), row[0]))
        found += len(rows)
    return found


def _rank(text: str | None) -> tuple[bool, int]:
    """Descending with NULL last: MANY has the texts b0 to b10."""
    order = ["b9", "b8", "b7", "b6", "b5", "b4", "b3", "b2", "b10", "b1", "b0"]
    return text is None, 0 if text is None else order.index(text)


@pytest.mark.parametrize("kind", ["orc", "parquet", "text"])
def test_an_insert_fills_buckets_in_order_and_an_overwrite_makes_a_file_for_each(
    spark: SparkSession, make: Callable, kind: str
) -> None:
    t = make(kind)
    t.insert("values (1, 'x'), (2, null), (3, 'z')")
    delta = t.root / "delta_0000001_0000001_0000"
    assert names(delta) == ["000000_0", "000001_0", "000002_0"]
    assert content(spark, delta / "000000_0", kind) == [(2, None)]
    assert content(spark, delta / "000001_0", kind) == [(1, "x")]
    t.insert("values (1, 'x'), (1, null), (1, 'z')", overwrite=True)
    base = t.root / "base_0000002"
    assert names(base) == ["000000_0", "000001_0", "000002_0", "000003_0"]
    assert [(base / name).stat().st_size > 0 for name in names(base)] == [False, True, False, False]
    assert content(spark, base / "000001_0", kind) == [(1, "z"), (1, "x"), (1, None)]
    assert t.rows() == [(1, "x"), (1, "z"), (1, None)]
    t.insert(MANY)
    assert check(spark, t.root / "delta_0000003_0000003_0000", kind) == 200


@pytest.mark.parametrize("version", ["1", "2"])
def test_compaction_keeps_one_sorted_file_per_bucket(spark: SparkSession, make: Callable, version: str) -> None:
    bucketing = Bucketing(("a",), 3, version, ORDERED.sorting)
    t = make(bucketing=bucketing)
    for _ in range(3):
        t.insert(MANY)
    before = t.rows()
    t.compact("minor")
    assert check(spark, t.root / "delta_0000001_0000003_v0000101", bucketing=bucketing) == 600
    t.insert(MANY)
    t.compact("major")
    assert names(t.root / "base_0000004_v0000102") == ["000000_0", "000001_0", "000002_0"]
    assert check(spark, t.root / "base_0000004_v0000102", bucketing=bucketing) == 800
    assert len(t.rows()) == len(before) + 200


def test_dynamic_partitions_are_bucketed_and_sorted_each(spark: SparkSession, make: Callable) -> None:
    t = make(partitioned_by="p string")
    t.insert(MANY.replace(" from", ", concat('p', id % 3) from"), overwrite=True)
    found = [check(spark, t.root / f"p=p{i}" / "base_0000001") for i in range(3)]
    assert found == [67, 67, 66]


def test_plain_tables_name_their_buckets_too(spark: SparkSession, make: Callable) -> None:
    t = make(plain=True)
    t.insert(MANY, write_id=7, statement=2)
    assert names(t.root / "files") == [f"{i:06d}_2_copy_7" for i in range(4)]
    assert check(spark, t.root / "files") == 200


def test_an_overwrite_with_no_rows_makes_an_empty_file_for_each_bucket(make: Callable) -> None:
    t = make()
    t.insert("values (1, 'x')")
    t.insert("select 1, 'x' where false", overwrite=True)
    assert names(t.root / "base_0000002") == ["000000_0", "000001_0", "000002_0", "000003_0"]
    assert t.rows() == []


def test_an_order_by_what_the_table_has_not_is_refused(make: Callable) -> None:
    t = make(bucketing=Bucketing(("a",), 4, "2", (("nobody", True),)))
    with pytest.raises(InvalidArgumentsError, match="CLUSTERED BY a SORTED BY nobody INTO 4 BUCKETS"):
        t.insert(MANY)
