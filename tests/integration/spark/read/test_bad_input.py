"""What may lie in a table directory and should not: each is a clear error, or exactly what Hive makes of it."""

from __future__ import annotations

import functools
import shutil
import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_hive_acid.errors import CorruptTableError, HiveAcidError, JobFailedError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from airflow_hive_acid.spark.failures import explain
from airflow_hive_acid.spark.read.deleted_rows import read_with_deleted
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIRST, SECOND = "delta_0000001_0000001_0000", "delta_0000002_0000002_0000"


def two_deltas(acid_table: Callable) -> Any:
    """One row each."""
    t = acid_table("id int, name string")
    t.insert("select 1, 'one'")
    t.insert("select 2, 'two'")
    return t


@pytest.fixture
def table(begun: Callable) -> Any:
    return begun(two_deltas)


def uncached(path: Any, content: bytes) -> None:
    """Replace a file and forget its checksum, as a broken copy would."""
    path.write_bytes(content)
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def rows_of(table: Any) -> list[Any]:
    """The rows, with failures inside of Spark's tasks explained as a job would."""
    return rows_of_frame(table.spark.newSession(), table)


def rows_of_frame(session: SparkSession, table: Any) -> list[Any]:
    try:
        found: list[Any] = read_snapshot(session, table.snapshot()).collect()
    except HiveAcidError:
        raise
    except Exception as failure:
        raise explain(session, failure, [table.location]) from failure
    return found


def test_a_truncated_file_is_damage_and_named(table: Any) -> None:
    file = table.root / SECOND / "bucket_00000"
    uncached(file, file.read_bytes()[:-20])
    with pytest.raises(CorruptTableError, match=rf"{SECOND}/bucket_00000"):
        rows_of(table)


@pytest.mark.parametrize("place", [FIRST, SECOND])
def test_a_file_without_acid_columns_inside_a_delta_is_damage_and_not_rows_of_nulls(
    spark: SparkSession, table: Any, tmp_path: Any, place: str
) -> None:
    spark.sql("select 7 as id, 'seven' as name").coalesce(1).write.orc(str(tmp_path / "flat"))
    (flat,) = (tmp_path / "flat").glob("part-*.orc")
    uncached(table.root / place / "bucket_00000", flat.read_bytes())
    with pytest.raises(CorruptTableError, match=r"ACID columns|six columns"):
        rows_of(table)


@pytest.mark.parametrize("way", ["auto", "off"], ids=["jar", "spark"])
def test_a_column_of_another_kind_inside_a_delta_is_an_error_that_names_the_file(
    spark: SparkSession, table: Any, tmp_path: Any, way: str
) -> None:
    query = (
        "select 0 as operation, 2L as originalTransaction, 536870912 as bucket, 0L as rowId, 2L as currentTransaction, "
        "named_struct('id', array(1, 2), 'name', 'two') as row"
    )
    spark.sql(query).coalesce(1).write.orc(str(tmp_path / "other"))
    (made,) = (tmp_path / "other").glob("part-*.orc")
    uncached(table.root / SECOND / "bucket_00000", made.read_bytes())
    session = spark.newSession()
    session.conf.set(SESSION_KEY, way)
    with pytest.raises(HiveAcidError) as caught:
        rows_of_frame(session, table)
    if way == "off" and pyspark.__version__.startswith("3."):
        # Without the jar Spark 3.5 does not say in which file it was.
        assert type(caught.value) is JobFailedError
        assert "ORC does not support type conversion" in str(caught.value)
        return
    assert type(caught.value) is CorruptTableError
    assert f"{SECOND}/bucket_00000" in str(caught.value)


@pytest.mark.parametrize(
    "way",
    ["auto", pytest.param("off", marks=pytest.mark.repeats("values of partitions, read without the jar"))],
    ids=["jar", "spark"],
)
def test_partition_values_of_all_kinds_are_found_by_value_and_lead_nowhere_else(
    spark: SparkSession, acid_table: Callable, way: str
) -> None:
    values = ["../x", "a/b", "%2F", "ünï 日本", ".", "..", "__HIVE_DEFAULT_PARTITION__", "x=y", " "]
    t = acid_table("id int", partitioned_by="p string")
    literals = ", ".join(f"({i}, '{v}')" for i, v in enumerate(values))
    t.insert(f"select * from values {literals}, (20, ''), (21, null) as v(id, p)")  # noqa: S608
    t.delete("id = 0")
    t.insert("select 30, '../x'")
    session = spark.newSession()
    session.conf.set(SESSION_KEY, way)
    frame = read_snapshot(session, t.snapshot())
    # Each by a condition of its own, in one query.
    looks = [frame.where(F.col("p") == value).select("id", F.lit(value)) for value in values]
    looks.append(frame.where("p is null").select("id", F.lit(None)))
    found = sorted(map(tuple, functools.reduce(DataFrame.unionAll, looks).collect()), key=repr)
    expected = [(30 if i == 0 else i, value) for i, value in enumerate(values) if i != 6]
    assert found == sorted([*expected, *((i, None) for i in (6, 20, 21))], key=repr)
    inside = {path.resolve() for path in t.root.rglob("bucket_*")}
    assert len(inside) == len([*t.root.rglob("bucket_*")])
    assert all(t.root.resolve() in path.parents for path in inside)
    assert [p.name for p in t.root.parent.iterdir()] == [t.root.name]


def test_a_partition_that_lies_elsewhere_or_behind_a_link_is_read_there(acid_table: Callable, tmp_path: Any) -> None:
    t = acid_table("id int", partitioned_by="p string")
    t.insert("select cast(id as int), concat('v', id) from range(3)")
    elsewhere = tmp_path / "elsewhere"
    (t.root / "p=v0").rename(elsewhere)
    (t.root / "p=v1").rename(tmp_path / "behind")
    (t.root / "p=v1").symlink_to(tmp_path / "behind")
    moved = [replace(p, location=f"file:{elsewhere}") if p.name == "p=v0" else p for p in t.snapshot().partitions]
    found = read_snapshot(t.spark.newSession(), t.snapshot(partitions=tuple(moved)), row_ids=True)
    assert sorted((r.id, r.p) for r in found.collect()) == [(0, "v0"), (1, "v1"), (2, "v2")]


def test_foreign_directories_are_ignored_if_empty_or_hidden_and_named_otherwise(table: Any) -> None:
    for name in ("empty", "_logs", ".hive-staging_hive_2026", "-tmp.delta_0000003_0000003_0000"):
        (table.root / name).mkdir()
    for name in ("_logs", ".hive-staging_hive_2026", "-tmp.delta_0000003_0000003_0000"):
        (table.root / name / "bucket_00000").write_text("x")
    assert table.rows() == [(1, "one"), (2, "two")]
    (table.root / "backup").mkdir()
    shutil.copy(table.root / FIRST / "bucket_00000", table.root / "backup" / "old.orc")
    with pytest.raises(CorruptTableError, match=r"backup/old\.orc is neither a bucket file nor named like one"):
        table.rows()
    shutil.rmtree(table.root / "backup")
    (table.root / "delta_1_x").mkdir()
    with pytest.raises(CorruptTableError, match="'delta_1_x' is called like a base or delta"):
        table.rows()


def test_two_files_of_one_bucket_are_named_and_not_read_twice(table: Any) -> None:
    shutil.copy(table.root / FIRST / "bucket_00000", table.root / FIRST / "bucket_00000_1")
    with pytest.raises(CorruptTableError, match="bucket_00000_1 and bucket_00000 are the same bucket"):
        table.rows()


def test_the_base_of_an_uncommitted_overwrite_hides_nothing(table: Any) -> None:
    table.insert("select 9, 'nine'", overwrite=True)
    table.open.add(3)
    assert table.rows() == [(1, "one"), (2, "two")]


def test_foreign_files_are_ignored_if_hidden_and_named_otherwise(table: Any) -> None:
    (table.root / "_SUCCESS").write_text("x")
    (table.root / ".part.crc").write_text("x")
    (table.root / FIRST / "_temporary").write_text("x")
    assert table.rows() == [(1, "one"), (2, "two")]
    (table.root / "notes.txt").write_text("x")
    with pytest.raises(CorruptTableError, match=r"notes\.txt is neither a bucket file nor named like one"):
        table.rows()


def test_row_numbers_beyond_two_to_the_31_are_read_and_deleted(spark: SparkSession, table: Any, tmp_path: Any) -> None:
    high = 2**31 + 5
    rows = spark.range(3).selectExpr(
        "0 as operation",
        "1L as originalTransaction",
        f"{1 << 29} as bucket",
        f"{high}L + id as rowId",
        "1L as currentTransaction",
        "named_struct('id', cast(id as int), 'name', 'x') as row",
    )
    rows.coalesce(1).write.orc(str(tmp_path / "high"))
    (made,) = (tmp_path / "high").glob("part-*.orc")
    uncached(table.root / FIRST / "bucket_00000", made.read_bytes())
    assert sorted(key[2] for key in table.ids()) == [0, high, high + 1, high + 2]
    table.delete("id = 1")
    assert sorted(key[2] for key in table.ids()) == [0, high, high + 2]
    for kind in ("minor", "major"):
        table.compact(kind)
        assert sorted(key[2] for key in table.ids()) == [0, high, high + 2]


def test_a_table_location_that_is_a_symbolic_link_is_read_and_written_through_it(table: Any, tmp_path: Any) -> None:
    link = tmp_path / "link"
    link.symlink_to(table.root)
    table.root = link
    table.insert("select 3, 'three'")
    table.delete("id = 1")
    assert table.rows() == [(2, "two"), (3, "three")]


def test_an_unfinished_streaming_file_ends_where_its_side_file_says(table: Any) -> None:
    delta = table.root / "delta_0000003_0000005"
    shutil.copytree(table.root / SECOND, delta)
    shutil.rmtree(table.root / SECOND)
    file, table.high = delta / "bucket_00000", 5
    whole = file.read_bytes()
    uncached(file, whole + b"rows of a transaction that is not committed")
    side = delta / "bucket_00000_flush_length"
    side.write_bytes(struct.pack(">qq", 3, len(whole)))
    (delta / "bucket_00001").touch()  # begun, and nothing was flushed into it
    assert table.rows() == [(1, "one"), (2, "two")]
    side.write_bytes(struct.pack(">q", 0))
    assert table.rows() == [(1, "one")]
    side.write_bytes(struct.pack(">q", len(whole) + 1000))
    with pytest.raises(CorruptTableError, match="were flushed into it: rows of committed transactions are missing"):
        table.rows()


def test_updates_in_place_in_a_directory_of_version_2_are_damage(
    spark: SparkSession, table: Any, tmp_path: Any
) -> None:
    query = (
        "select 1 as operation, 1L as originalTransaction, 0 as bucket, 0L as rowId, 2L as currentTransaction, "
        "named_struct('id', 1, 'name', 'changed') as row"
    )
    spark.sql(query).coalesce(1).write.orc(str(tmp_path / "old"))
    (made,) = (tmp_path / "old").glob("part-*.orc")
    uncached(table.root / SECOND / "bucket_00000", made.read_bytes())
    with pytest.raises(CorruptTableError, match=r"kind 1 instead of 0: .*does not belong here; move it away"):
        rows_of(table)


def test_nested_union_directories_and_empty_deltas_are_read(table: Any) -> None:
    for number in (1, 2):
        nested = table.root / FIRST / f"HIVE_UNION_SUBDIR_{number}"
        nested.mkdir()
    (table.root / FIRST / "bucket_00000").rename(table.root / FIRST / "HIVE_UNION_SUBDIR_1" / "bucket_00000")
    (table.root / "delta_0000003_0000003_0000").mkdir()
    table.high = 3
    assert table.rows() == [(1, "one"), (2, "two")]


def test_names_in_other_cases_null_structs_and_old_dates_come_back(acid_table: Callable) -> None:
    t = acid_table("Id int, info struct<a:int,b:string>, day date, at timestamp")
    t.insert("select 1, null, date'1500-02-28', timestamp'0001-01-01 00:00:00'")
    t.insert("select 2, named_struct('a', null, 'b', null), date'1582-10-04', null")
    t.update("id = 1", ID="10")
    found = t.frame().selectExpr("ID", "info is null", "info.a is null", "cast(DAY as string)", "cast(at as string)")
    assert sorted(map(tuple, found.collect())) == [
        (2, False, True, "1582-10-04", None),
        (10, True, True, "1500-02-28", "0001-01-01 00:00:00"),
    ]


def test_deleted_rows_are_shown_on_request(spark: SparkSession, acid_table: Callable) -> None:
    t = acid_table("id int", partitioned_by="k string")
    t.insert("select cast(id as int), if(id < 2, 'a', 'b') from range(4)")
    t.delete("id in (1, 2)")
    frame = read_with_deleted(spark.newSession(), t.snapshot())
    assert sorted((r["id"], r["k"], r["row__is__deleted"], r["row__id"]["writeid"]) for r in frame.collect()) == [
        (0, "a", False, 1), (1, "a", True, 2), (2, "b", True, 2), (3, "b", False, 1),
    ]  # fmt: skip
    assert read_snapshot(spark.newSession(), t.snapshot()).count() == 2
    with pytest.raises(UnsupportedStatementError, match="no deleted rows to show"):
        read_with_deleted(spark, t.snapshot(transactional=False))


def test_types_without_a_counterpart_are_refused_by_name(acid_table: Callable) -> None:
    t = acid_table("id int")
    columns = (Column("at", "uniontype<int,string>"),)
    with pytest.raises(UnsupportedStatementError, match=r"column at of db\.t has the type 'uniontype<int,string>'"):
        read_snapshot(t.spark, t.snapshot(columns=columns))


def test_two_statements_of_one_transaction_delete_a_row_once(acid_table: Callable, spark: SparkSession) -> None:
    t = acid_table("id int")
    t.insert("select cast(id as int) from range(4)")
    own = t.next_write_id()
    t.delete("id < 2", write_id=own, statement=0)
    t.delete("id < 3", write_id=own, statement=1)
    events = spark.read.orc([str(p) for p in t.root.glob("delete_delta_*/bucket_*")])
    assert sorted(r["rowId"] for r in events.collect()) == [0, 1, 2]
    assert t.rows() == [(3,)]


def test_a_union_of_queries_writes_one_bucket_per_file(acid_table: Callable) -> None:
    t = acid_table("id int")
    one = "select /*+ coalesce(1) */ cast(id as int) from range(0, 10, 1, 2)"
    t.insert(" union all ".join([one, one, "select cast(id as int) from range(0, 10, 1, 2)"]))
    assert len(t.ids()) == 30
    t.insert("select 99")
    before = t.ids()
    t.compact("major")
    assert t.ids() == before


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_compaction_of_damaged_files_fails_and_names_them(acid_table: Callable, kind: str) -> None:
    """A delta cut short, one that cannot be read, and deletes that are gone: compacting on would make it final."""
    t = acid_table("id int")
    t.insert("select id from range(3)")
    t.insert("select id + 3 from range(3)")
    t.delete("id = 1")
    t.delete("id = 4")
    (deletes,) = t.root.glob("delete_delta_0000003_*/bucket_00000")
    whole = deletes.read_bytes()
    uncached(t.root / SECOND / "bucket_00000", (t.root / SECOND / "bucket_00000").read_bytes()[:-20])
    with pytest.raises(CorruptTableError, match=rf"{SECOND}/bucket_00000"):
        t.compact(kind)
    shutil.rmtree(t.root / SECOND)
    uncached(deletes, whole[:100])
    with pytest.raises(CorruptTableError, match=r"delete_delta_0000003_0000003_0000/bucket_00000"):
        t.compact(kind)
    deletes.unlink()
    with pytest.raises(CorruptTableError, match="delete_delta_0000003_0000003_0000 holds no data file"):
        t.compact(kind)
