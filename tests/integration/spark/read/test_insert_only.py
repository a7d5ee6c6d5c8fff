"""Insert-only tables in Spark jobs: Hive's own, and what we write; ORC, Parquet and text."""

from __future__ import annotations

import datetime
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import BadRecordError, CorruptTableError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import Delete, Insert
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[3] / "fixtures" / "insert_only"
FORMATS = {"t": "orc", "q": "parquet", "x": "text"}
TYPES = "id int, name string, amount decimal(12,2), day date, at timestamp, flag boolean, raw binary, c char(4)"
ROW = (
    "cast(7 as int), 'é漢', cast(1.5 as decimal(12,2)), date'2024-02-29', timestamp'2024-02-29 12:34:56.5', true, "
    "X'00FF', 'ab'"
)
STORED = (
    7, "é漢", Decimal("1.50"), datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 34, 56, 500000), True,
    bytearray(b"\x00\xff"), "ab  ",
)  # fmt: skip


@pytest.fixture
def insert_only(acid_table: Callable) -> Callable:
    """Make an empty insert-only table of a format; it is an ``AcidTable`` whose snapshots say so."""

    def make(columns: str, kind: str = "orc", partitioned_by: str = "") -> Any:
        table = acid_table(columns, partitioned_by)
        usual = table.snapshot
        object.__setattr__(
            table, "snapshot", lambda own=None, **more: usual(own, format=kind, insert_only=True, **more)
        )
        return table

    return make


def never_altered(table: Any) -> Any:
    """The table as the catalog knows one of which no ALTER TABLE has been seen."""
    usual = table.snapshot
    object.__setattr__(table, "snapshot", lambda own=None, **more: usual(own, altered=False, **more))
    return table


@pytest.mark.parametrize("stage", ["1_insert", "2_overwrite", "3_major"])
@pytest.mark.parametrize("table", ["t", "q", "x"])
def test_hives_insert_only_tables_are_read_in_every_format(
    spark: SparkSession, golden_snapshot: Callable, stage: str, table: str
) -> None:
    snapshot = golden_snapshot(GOLDEN / stage, table, insert_only=True, format=FORMATS[table])
    recorded = json.loads((GOLDEN / stage / f"expected_{table}.json").read_text())["rows"]
    found = read_snapshot(spark, snapshot)
    assert sorted(map(tuple, found.collect())) == sorted(tuple(row[1:]) for row in recorded)


@pytest.mark.parametrize("kind", ["orc", "parquet", "text"])
def test_an_insert_makes_a_delta_of_plain_files_and_an_overwrite_a_base(insert_only: Callable, kind: str) -> None:
    t = insert_only(TYPES, kind)
    result = t.insert(f"select {ROW} union all select {', '.join(['null'] * 8)}")
    assert result.inserted == 2
    assert t.rows() == sorted([STORED, (None,) * 8], key=repr)
    assert t.directories() == ["delta_0000001_0000001_0000"]
    delta = t.root / "delta_0000001_0000001_0000"
    assert [p.name for p in sorted(delta.iterdir()) if not p.name.startswith(".")] == ["000000_0"]
    t.insert(f"select {ROW}", overwrite=True)
    assert t.rows() == [STORED]
    assert t.directories() == ["base_0000002", "delta_0000001_0000001_0000"]
    nothing = t.insert(f"select {ROW} limit 0", overwrite=True)
    assert nothing.inserted == 0
    assert t.rows() == []


AGAIN = pytest.mark.repeats("another format, which the tests above write and read")


@pytest.mark.parametrize("kind", ["orc", pytest.param("parquet", marks=AGAIN)])
def test_dynamic_partitions_of_an_insert_only_table(insert_only: Callable, kind: str) -> None:
    t = insert_only("id int", kind, partitioned_by="k string")
    t.insert("select cast(id as int), case id % 3 when 0 then 'a/b' when 1 then null else 'é' end from range(9)")
    t.insert("select 100", static_partition=(("k", "a/b"),), overwrite=True)
    assert sorted(t.partitions) == ["k=__HIVE_DEFAULT_PARTITION__", "k=a%2Fb", "k=é"]
    expected = [(100, "a/b"), *[(i, None) for i in (1, 4, 7)], *[(i, "é") for i in (2, 5, 8)]]
    assert t.rows() == sorted(expected, key=repr)


@pytest.mark.parametrize("kind", ["orc", pytest.param("parquet", marks=AGAIN), "text"])
def test_compactions_of_insert_only_tables_keep_the_rows(insert_only: Callable, kind: str) -> None:
    t = insert_only("id int, name string", kind)
    for i in range(3):
        t.insert(f"select {i}, 'n{i}'")
    t.aborted.add(2)
    expected = [(0, "n0"), (2, "n2")]
    (part,) = t.compact("minor", above=1).directories  # one of several partial compactions
    assert (part.name, sum(file.rows for file in part.files)) == ("delta_0000003_0000003_v0000101", 1)
    shutil.rmtree(t.root / part.name)
    t.txn = 100
    minor = t.compact("minor")
    assert [d.name for d in minor.directories] == ["delta_0000001_0000003_v0000101"]
    assert t.rows() == expected
    t.insert("select 9, 'n9'")
    major = t.compact("major")
    assert [d.name for d in major.directories] == ["base_0000004_v0000102"]
    assert t.rows() == sorted([*expected, (9, "n9")], key=repr)
    assert [p.name for p in (t.root / "base_0000004_v0000102").iterdir() if p.name[0] != "."] == ["000000_0"]


def test_merged_rows_are_read_though_their_directory_does_not_say_who_has_merged_them(insert_only: Callable) -> None:
    """A minor compaction of a Hive before version 4, and one that has come by IMPORT; write id 2 is aborted."""
    t = insert_only("id int")
    for i in (1, 2, 3):
        t.insert(f"select {i}")
    t.aborted.add(2)
    (merged,) = t.compact("minor").directories
    (t.root / merged.name).rename(t.root / "delta_0000001_0000003")
    for name in t.directories():
        if name != "delta_0000001_0000003":
            shutil.rmtree(t.root / name)
    assert t.rows() == [(1,), (3,)]
    t.insert("select 4")
    t.compact("major")
    assert t.rows() == [(1,), (3,), (4,)]
    shutil.rmtree(t.root / "base_0000004_v0000102")
    t.high = 2
    with pytest.raises(UnsupportedStatementError, match="rows of several transactions"):
        t.rows()


def test_a_major_compaction_of_nothing_but_aborted_rows_leaves_an_empty_base(insert_only: Callable) -> None:
    t = insert_only("id int")
    t.insert("select 1")
    t.insert("select 2 where false", overwrite=True)
    t.insert("select 3 where false", overwrite=False)
    t.insert("select 4")
    t.aborted.add(4)
    assert t.rows() == []
    assert t.compact("major").directories == ()  # one empty base: nothing to merge


def test_rows_of_an_insert_only_table_cannot_be_changed(insert_only: Callable) -> None:
    t = insert_only("id int")
    t.insert("select 1")
    with pytest.raises(UnsupportedStatementError, match="insert-only table; only rows of full ACID"):
        t.run(Delete(t.snapshot(2), "t", None, 2, 0))


def test_loaded_files_whose_columns_are_called_otherwise_are_rows_all_the_same(
    insert_only: Callable, tmp_path: Path
) -> None:
    """LOAD DATA of a Hive moves files of somebody else into a delta as they are, and finds their columns by place."""
    t = never_altered(insert_only("id int, name string"))
    t.insert("select 1, 'one'")
    for write_id, name in ((2, "000000_0"), (3, "part-00000.orc")):
        place = tmp_path / str(write_id)
        t.spark.sql(f"select {write_id} as number, 'called otherwise' as label").coalesce(1).write.orc(str(place))
        delta = t.root / f"delta_000000{write_id}_000000{write_id}_0000"
        delta.mkdir()
        shutil.copy(next(place.glob("part-*.orc")), delta / name)
    t.high = 3
    expected = [(1, "one"), (2, "called otherwise"), (3, "called otherwise")]
    assert t.rows() == expected
    t.txn = 100
    t.compact("major")
    assert t.rows() == expected


def test_files_below_union_sub_directories_are_rows_of_their_delta(insert_only: Callable) -> None:
    t = insert_only("id int")
    t.insert("select 1")
    delta = t.root / "delta_0000001_0000001_0000"
    for number in (1, 2):
        nested = delta / f"HIVE_UNION_SUBDIR_{number}"
        nested.mkdir()
        (nested / "000000_0").write_bytes((delta / "000000_0").read_bytes())
    (delta / "000000_0").unlink()
    assert t.rows() == [(1,), (1,)]


def test_a_file_outside_of_bases_and_deltas_is_named_and_a_delete_delta_too(insert_only: Callable) -> None:
    t = insert_only("id int")
    t.insert("select 1")
    stray = t.root / "000000_0"
    stray.write_bytes((t.root / "delta_0000001_0000001_0000" / "000000_0").read_bytes())
    with pytest.raises(CorruptTableError, match=r"000000_0 lies outside of the bases and deltas"):
        t.rows()
    stray.rename(t.root / "_hidden")
    assert t.rows() == [(1,)]
    (t.root / "delete_delta_0000001_0000001_0000").mkdir()
    (t.root / "delete_delta_0000001_0000001_0000" / "bucket_00000").write_text("x")
    with pytest.raises(CorruptTableError, match="insert-only, and such a table has no delete deltas"):
        t.rows()


def test_text_fields_read_as_hive_reads_them(insert_only: Callable) -> None:
    t = insert_only("id int, flag boolean, amount double, day date, name string", "text")
    t.high = 1
    delta = t.root / "delta_0000001_0000001_0000"
    delta.mkdir()
    lines = [
        "1\x01TRUE\x011.5\x012024-02-29\x01x\x01surplus",
        "12.7\x01yes\x01abc\x01no",
        " 1\x01\\N\x01\x01\x01\\N",
        "",
    ]
    (delta / "000000_0").write_text("\n".join(lines) + "\n")
    assert t.rows() == sorted(
        [
            (1, True, 1.5, datetime.date(2024, 2, 29), "x"),
            (12, None, None, None, None),
            (None, None, None, None, None),
            (None, None, None, None, None),
        ],
        key=repr,
    )


def test_text_that_a_text_file_cannot_hold_is_refused(insert_only: Callable) -> None:
    t = insert_only("id int, name string", "text")
    with pytest.raises(BadRecordError, match=r"(?s)column name of db.t: .* holds a delimiter or line break"):
        t.run(Insert(t.snapshot(1), r"select 1, 'a\nb'", 1, 0))
    nested = insert_only("id int, tags array<int>", "text")
    with pytest.raises(UnsupportedStatementError, match=r"tags of db\.t is array<int>; of text tables only columns"):
        nested.run(Insert(nested.snapshot(1), "select 1, array(1)", 1, 0))


def test_a_compaction_takes_one_partition(insert_only: Callable) -> None:
    t = insert_only("id int", partitioned_by="k int")
    t.insert("select cast(id as int), cast(id % 2 as int) from range(4)")
    t.insert("select cast(id + 4 as int), cast(id % 2 as int) from range(4)")
    done = t.compact("major", "k=1")
    assert [(d.partition, d.name) for d in done.directories] == [("k=1", "base_0000002_v0000101")]
    assert t.rows() == sorted([(i, i % 2) for i in range(8)], key=repr)
