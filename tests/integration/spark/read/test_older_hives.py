"""Tables of Hives before version 3: updates and deletes in place, plain bucket numbers, no statement ids."""

from __future__ import annotations

import functools
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.read.deleted_rows import read_with_deleted
from airflow_hive_acid.spark.read.reader import open_table, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.crossing("tables of older Hives x readers and compaction"), pytest.mark.spark]

INSERT, UPDATE, DELETE = 0, 1, 2
EVENT = pa.schema(
    [
        ("operation", pa.int32()),
        ("originalTransaction", pa.int64()),
        ("bucket", pa.int32()),
        ("rowId", pa.int64()),
        ("currentTransaction", pa.int64()),
        ("row", pa.struct([("id", pa.int32()), ("name", pa.string())])),
    ]
)
ROW = pa.schema([("id", pa.int32()), ("name", pa.string())])


def events(file: Path, *rows: tuple[int, int, int, int, int, tuple[int, str] | None]) -> None:
    """An ACID file of these events, as a Hive before version 3 left it: without ``_orc_acid_version``."""
    file.parent.mkdir(parents=True, exist_ok=True)
    values = [(*head, None if row is None else dict(zip(("id", "name"), row, strict=True))) for *head, row in rows]
    columns = [pa.array([v[i] for v in values], EVENT.field(i).type) for i in range(len(EVENT))]
    orc.write_table(pa.table(columns, EVENT), str(file), compression="zlib")


def original(file: Path, *rows: tuple[int, str], names: tuple[str, str] = ("id", "name")) -> None:
    """A file from before the table had transactions, or one of LOAD DATA."""
    file.parent.mkdir(parents=True, exist_ok=True)
    columns = [pa.array([r[i] for r in rows], ROW.field(i).type) for i in range(2)]
    orc.write_table(pa.table(columns, list(names)), str(file), compression="zlib")


def one_way(table: Any, spark: SparkSession, way: str) -> Any:
    """The table read and written with the optional jar, or without it."""
    table.spark = spark.newSession()
    table.spark.conf.set(SESSION_KEY, way)
    table.run = functools.partial(table.run, **{SESSION_KEY: way})
    table.frame = lambda row_ids=False, own=None: read_snapshot(table.spark, table.snapshot(own), row_ids)
    return table


WITHOUT_THE_JAR = pytest.param("off", id="spark", marks=pytest.mark.repeats("events of old Hives, without the jar"))
BOTH = pytest.mark.parametrize("table", ["auto", "off"], ids=["jar", "spark"], indirect=True)


@pytest.fixture(params=[pytest.param("auto", id="jar"), WITHOUT_THE_JAR])
def table(request: pytest.FixtureRequest, spark: SparkSession, acid_table: Callable) -> Any:
    """A table whose base and deltas are of Hive 1 and 2.

    Bucket 0: base up to 5, in which row 1 was updated before its compaction; txn 6 updates row 0, deletes row 2 and
    inserts; two statements of txn 7 update row 3; of the stream 8 to 9 txn 9 is aborted. Bucket 1 has inserts only.
    """
    t = one_way(acid_table("id int, name string"), spark, request.param)
    events(
        t.root / "base_0000005" / "bucket_00000",
        (INSERT, 1, 0, 0, 1, (0, "zero")),
        (UPDATE, 1, 0, 1, 4, (1, "one, changed")),
        (INSERT, 3, 0, 0, 3, (2, "two")),
        (INSERT, 3, 0, 1, 3, (3, "three")),
    )
    events(t.root / "base_0000005" / "bucket_00001", (INSERT, 1, 1, 0, 1, (10, "ten")))
    events(
        t.root / "delta_0000006_0000006" / "bucket_00000",
        (UPDATE, 1, 0, 0, 6, (0, "zero of 6")),
        (DELETE, 3, 0, 0, 6, None),
        (INSERT, 6, 0, 0, 6, (6, "six")),
    )
    events(t.root / "delta_0000007_0000007_0000" / "bucket_00000", (UPDATE, 3, 0, 1, 7, (3, "first of 7")))
    events(t.root / "delta_0000007_0000007_0001" / "bucket_00000", (UPDATE, 3, 0, 1, 7, (3, "second of 7")))
    events(
        t.root / "delta_0000008_0000009" / "bucket_00000",
        (UPDATE, 1, 0, 0, 8, (0, "zero of 8")),
        (DELETE, 6, 0, 0, 9, None),
        (INSERT, 8, 0, 0, 8, (8, "eight")),
        (INSERT, 9, 0, 0, 9, (9, "nine")),
    )
    t.high = 9
    t.aborted.add(9)
    return t


LEFT = {
    (1, 0, 0): (0, "zero of 8"),
    (1, 0, 1): (1, "one, changed"),
    (1, 1, 0): (10, "ten"),
    (3, 0, 1): (3, "second of 7"),
    (6, 0, 0): (6, "six"),
    (8, 0, 0): (8, "eight"),
}


def ids(table: Any) -> dict[tuple[int, int, int], tuple[Any, ...]]:
    return {key[:3]: row for key, row in table.ids().items()}


@BOTH
def test_the_latest_event_about_a_row_counts(table: Any) -> None:
    assert ids(table) == LEFT
    assert sorted(table.rows()) == sorted(LEFT.values())
    assert table.frame().count() == len(LEFT)


def test_a_snapshot_sees_the_updates_of_its_time(table: Any) -> None:
    table.high = 7
    (table.root / "delta_0000008_0000009").rename(table.root / ".later")
    assert ids(table)[1, 0, 0] == (0, "zero of 6")
    table.aborted = {7}
    assert ids(table)[3, 0, 1] == (3, "three")
    table.aborted = {6, 7}
    assert ids(table)[3, 0, 0] == (2, "two")
    assert ids(table)[1, 0, 0] == (0, "zero")


@BOTH
def test_predicates_do_not_bring_back_what_was_replaced(table: Any) -> None:
    frame = table.frame(row_ids=True)
    assert frame.where("name = 'zero'").collect() == []
    assert frame.where("name like 'zero%'").selectExpr("name", "row__id.rowid").collect() == [("zero of 8", 0)]
    assert frame.where("id between 2 and 3").selectExpr("name").collect() == [("second of 7",)]


@BOTH
def test_statements_of_ours_change_such_rows_and_a_major_compaction_ends_it(table: Any, spark: SparkSession) -> None:
    table.update("id in (0, 10)", name="upper(name)")
    table.delete("id = 1")
    expected = sorted([(0, "ZERO OF 8"), (3, "second of 7"), (6, "six"), (8, "eight"), (10, "TEN")])
    assert sorted(table.rows()) == expected
    before = ids(table)
    table.compact("major")
    assert ids(table) == before
    opened = open_table(spark, table.snapshot())
    assert not opened.changing
    assert {f.may_update for f in opened.files.inserts} == {False}
    table.delete("id = 3")
    table.compact("minor")
    table.compact("major")
    assert sorted(table.rows()) == [row for row in expected if row[0] != 3]


def test_a_base_of_an_older_hive_alone_is_compacted_once_more(table: Any, spark: SparkSession) -> None:
    for delta in table.root.glob("delta_*"):
        shutil.rmtree(delta)
    table.high, table.aborted = 5, set()
    before = ids(table)
    assert before[1, 0, 1] == (1, "one, changed")
    assert table.compact("major").directories[0].name.startswith("base_0000005_v")
    assert not open_table(spark, table.snapshot()).changing
    assert ids(table) == before
    assert table.compact("major").directories == ()


@BOTH
def test_what_cannot_be_told_apart_is_refused_with_the_remedy(table: Any) -> None:
    with pytest.raises(UnsupportedStatementError, match="minor compaction cannot merge; run a major one"):
        table.compact("minor")
    with pytest.raises(UnsupportedStatementError, match="run a major compaction first"):
        read_with_deleted(table.spark, table.snapshot())


def test_buckets_without_updates_in_place_are_read_as_ever(table: Any, spark: SparkSession) -> None:
    opened = open_table(spark, table.snapshot())
    assert opened.mixed == {(0, 0)}
    assert [f.bucket for f in opened.files.clean] == [1]
    fs = HadoopFilesystem.of(spark)
    assert fs.footers.orc_events(f"{table.location}/base_0000005/bucket_00001") == (1, INSERT, INSERT)


@pytest.mark.parametrize("way", [pytest.param("auto", id="jar"), WITHOUT_THE_JAR])
def test_rows_of_files_from_before_the_table_had_transactions_are_changed_by_their_plain_bucket(
    spark: SparkSession, acid_table: Callable, way: str
) -> None:
    """Hive 1 and 2 call row 2 of bucket 1 (0, 1, 2); Hive 3 calls it (0, 536936448, 2), and so do we."""
    t = one_way(acid_table("id int, name string", partitioned_by="p string"), spark, way)
    t.partitions = {"p=a": ("a",), "p=b": ("b",)}
    original(t.root / "p=a" / "000000_0", (0, "zero"), (1, "one"))
    original(t.root / "p=a" / "000001_0", (10, "ten"), (11, "eleven"))
    original(t.root / "p=a" / "000001_0_copy_1", (12, "twelve"), (13, "thirteen"))
    events(
        t.root / "p=a" / "delta_0000004_0000004" / "bucket_00001",
        (UPDATE, 0, 1, 0, 4, (10, "ten, changed")),
        (DELETE, 0, 1, 2, 4, None),
    )
    # Compacted by Hive 2: the plain bucket is in the base and in what came after it.
    events(t.root / "p=b" / "base_0000003" / "bucket_00001", (INSERT, 0, 1, 0, 0, (20, "twenty")))
    events(t.root / "p=b" / "delta_0000004_0000004" / "bucket_00001", (UPDATE, 0, 1, 0, 4, (20, "twenty, changed")))
    t.high = 4
    bucket_1 = (1 << 29) | (1 << 16)
    assert {(key[:3], row[1]) for key, row in t.ids().items()} == {
        ((0, 1 << 29, 0), "zero"),
        ((0, 1 << 29, 1), "one"),
        ((0, bucket_1, 0), "ten, changed"),
        ((0, bucket_1, 1), "eleven"),
        ((0, bucket_1, 3), "thirteen"),
        ((0, 1, 0), "twenty, changed"),
    }
    t.delete("id in (10, 13, 20)")
    assert [r[0] for r in t.rows()] == [0, 1, 11]
    before = t.ids()
    t.compact("major", partition="p=a")
    t.compact("major", partition="p=b")
    assert t.ids() == before


@pytest.mark.parametrize("way", [pytest.param("auto", id="jar"), WITHOUT_THE_JAR])
def test_loaded_files_whose_columns_are_called_otherwise_are_rows_all_the_same(
    spark: SparkSession, acid_table: Callable, way: str
) -> None:
    """LOAD DATA of a Hive moves files of somebody else into a delta as they are, and finds their columns by place."""
    t = one_way(acid_table("id int, name string"), spark, way)
    usual = t.snapshot
    t.snapshot = lambda own=None, **more: usual(own, altered=False, **more)
    original(t.root / "delta_0000001_0000001_0000" / "000000_0", (0, "zero"), (1, "one"))
    original(t.root / "delta_0000002_0000002_0000" / "000000_0", (2, "two"), names=("number", "label"))
    original(t.root / "delta_0000002_0000002_0000" / "000000_0_copy_1", (3, "three"), names=("key", "text"))
    t.high = 2
    expected = [(0, "zero"), (1, "one"), (2, "two"), (3, "three")]
    assert t.rows() == expected
    t.delete("id = 1")
    assert t.rows() == [expected[0], *expected[2:]]
    t.compact("major")
    assert t.rows() == [expected[0], *expected[2:]]


@pytest.mark.parametrize("way", [pytest.param("auto", id="jar"), WITHOUT_THE_JAR])
def test_hive_2_tables_with_separate_deletes_need_nothing_special(
    spark: SparkSession, acid_table: Callable, way: str
) -> None:
    t = one_way(acid_table("id int, name string"), spark, way)
    original(t.root / "000000_0", (0, "zero"), (1, "one"))
    events(
        t.root / "delta_0000001_0000001_0000" / "bucket_00001",
        (INSERT, 1, 1, 0, 1, (10, "ten")),
        (INSERT, 1, 1, 1, 1, (11, "eleven")),
    )
    events(t.root / "delete_delta_0000002_0000002_0000" / "bucket_00000", (DELETE, 0, 0, 1, 2, None))
    events(t.root / "delete_delta_0000002_0000002_0000" / "bucket_00001", (DELETE, 1, 1, 0, 2, None))
    t.high = 2
    assert not open_table(t.spark, t.snapshot()).mixed
    assert sorted(r.id for r in t.frame().collect()) == [0, 11]
    shown = {r.id: r.row__is__deleted for r in read_with_deleted(t.spark, t.snapshot()).collect()}
    assert shown == {0: False, 1: True, 10: True, 11: False}
