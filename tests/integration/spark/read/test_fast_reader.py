"""The two ways of reading, through the optional jar and through Spark's own source, give the same rows."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import orc
from pyspark.sql import functions as F

from airflow_hive_acid.errors import CorruptTableError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from airflow_hive_acid.spark.failures import explain
from airflow_hive_acid.spark.read import fast_reader
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import TableSnapshot

pytestmark = [pytest.mark.crossing("two readers x kinds of tables"), pytest.mark.spark]

FIXTURES = Path(__file__).parents[3] / "fixtures"
TYPES = (
    "id int, t tinyint, s smallint, b bigint, f float, d double, p decimal(12,2), w decimal(30,10), o boolean, "
    "n string, c char(6), v varchar(5), y binary, day date, ts timestamp, a array<int>, m map<string,bigint>, "
    "r struct<x:int,y:struct<z:string,q:decimal(5,1)>>, l array<struct<k:string,u:array<double>>>"
)
# Every column is NULL in some rows; dates and timestamps reach back behind the change of calendars.
GENERATED = """select cast(id as int), cast(id % 100 as tinyint), if(id % 7 = 0, null, cast(id % 999 as smallint)),
    id * 10000000000, if(id % 11 = 0, float('nan'), cast(id / 3 as float)), if(id % 13 = 0, -0.0d, (id - 50) / 7d),
    if(id % 5 = 0, null, cast((id - 100) * 1.25 as decimal(12,2))), cast(id as decimal(30,10)) / 7,
    if(id % 3 = 0, null, id % 2 = 0), if(id % 17 = 0, null, concat('n', id % 40)), concat('c', id % 9),
    concat('\\uD83D\\uDE00', id % 6), cast(cast(id as string) as binary),
    date_add(date'0001-01-03', cast(id * 3650 as int)),
    if(id % 4 = 0, null, timestamp_micros(-62000000000000000 + id * 301234567890123)),
    if(id % 6 = 0, null, array(cast(id as int), null)), if(id % 8 = 0, null, map('k', id, concat('k', id), null)),
    if(id % 9 = 0, null, struct(cast(id as int),
        if(id % 2 = 0, null, struct(concat('z', id), cast(id % 50 as decimal(5,1)))))),
    if(id % 10 = 0, null, array(struct('k', array(id / 2d)), null))
    from range({low}, {high}, 1, 2)"""
PREDICATES = (
    "id = 57", "id between 20 and 40 or s > 900", "not (n > 'n3')", "n in ('n1', 'n39')", "d = 0", "d < 0", "f > 10",
    "isnan(f)", "p >= 31.25", "w < 3", "o", "not o", "c = 'c1'", "v like '%5'", "day < date'1500-01-01'",
    "day = date'2000-01-01' or day > date'1950-06-30'", "ts > timestamp'1985-01-01'", "ts < timestamp'0100-01-01'",
    "s is null", "r is null", "r.y.z = 'z21'", "a[0] = 3", "t <=> 5", "n is not null and b > 500000000000",
    "ts is null",
)  # fmt: skip


def other_way(spark: SparkSession, snapshot: TableSnapshot, row_ids: bool = False) -> DataFrame:
    """A snapshot by Spark's own source."""
    session = spark.newSession()
    session.conf.set(SESSION_KEY, "off")
    return read_snapshot(session, snapshot, row_ids)


def metric(frame: DataFrame, name: str) -> int:
    """A metric of the scan, after running the query; there is one scan."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    if plan.nodeName() == "AdaptiveSparkPlan":
        plan = plan.executedPlan()
    leaves = plan.collectLeaves()
    while leaves.apply(0).nodeName().endswith("QueryStage"):
        leaves = leaves.apply(0).plan().collectLeaves()
    assert leaves.size() == 1
    return int(leaves.apply(0).metrics().apply(name).value())


def scan_of(frame: DataFrame) -> str:
    """What gives a query its rows, without running it."""
    return str(frame._jdf.queryExecution().sparkPlan().collectLeaves().apply(0).nodeName())


def texts(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


@pytest.fixture
def jar(accelerator_jar: Path | None) -> None:
    """For tests about what only the jar does; without a Java compiler there is nothing to be tested."""
    if accelerator_jar is None:
        pytest.fail("these tests need the jar: install a JDK (openjdk-17-jdk-headless)")


def test_all_types_with_nulls_deletes_and_predicates_read_the_same(spark: SparkSession, acid_table: Callable) -> None:
    table = acid_table(TYPES)
    table.insert(GENERATED.format(low=0, high=120))
    table.insert(GENERATED.format(low=120, high=200))
    table.delete("id % 10 = 3")
    table.update("id % 10 = 4", n="concat(n, 'u')", r="null")
    table.delete("id between 150 and 160")
    table.aborted.add(table.high)
    one, other = read_snapshot(spark.newSession(), table.snapshot(), True), other_way(spark, table.snapshot(), True)
    assert one.schema == other.schema
    rows = texts(one)
    assert rows == texts(other)
    assert len(rows) == 180
    held = other.selectExpr("id", *[f"({p}) as p{i}" for i, p in enumerate(PREDICATES)]).collect()
    for i, predicate in enumerate(PREDICATES):
        expected = sorted(row.id for row in held if row[i + 1])
        assert sorted(row.id for row in one.where(predicate).select("id").collect()) == expected, predicate
    for columns in (["id"], ["r.y.q"], ["l.u"], ["row__id"], ["row__id.bucketid", "c"], ["m", "w"]):
        assert texts(one.select(*columns)) == texts(other.select(*columns)), columns


@pytest.mark.parametrize("column", ["c_ts", "c_date", "c_dec", "c_double", "c_str"])
def test_values_that_hive_wrote_are_found_by_themselves(
    spark: SparkSession, golden_snapshot: Callable, column: str
) -> None:
    """Statistics know nanoseconds that Spark does not; a row must not be skipped for them."""
    frame = read_snapshot(spark.newSession(), golden_snapshot(FIXTURES / "types" / "1_insert", "t"))
    texts_of = frame.selectExpr(f"cast({column} as string)").collect()
    values = Counter(row[0] for row in texts_of if row[0] is not None)
    assert values
    for value, count in values.items():
        constant = F.lit(value).cast(frame.schema[column].dataType)
        assert frame.where(F.col(column) == constant).count() == count, value


@pytest.mark.usefixtures("jar")
def test_predicates_skip_row_groups_and_columns_of_the_header(spark: SparkSession, acid_table: Callable) -> None:
    table = acid_table("id bigint, name string")
    table.insert("select id, concat('n', id) from range(0, 60000, 1, 1)")
    frame = read_snapshot(spark.newSession(), table.snapshot())
    found = frame.where("id = 20000")
    assert metric(found, "rowsDecoded") == 10_000
    assert [tuple(r) for r in found.collect()] == [(20000, "n20000")]
    assert metric(frame.where("id % 40001 = 20000"), "rowsDecoded") == 60_000
    table.delete("id between 20000 and 20004 or id % 1000 = 1")
    frame = read_snapshot(spark.newSession(), table.snapshot(), row_ids=True)
    found = frame.where("id between 19990 and 20005")
    assert [r.id for r in found.collect()] == [*range(19990, 20000), 20005]
    assert metric(found, "rowsDecoded") == 20_000
    assert metric(found, "rowsPassedOver") == 24
    assert found.first().row__id.rowid == 19990


@pytest.mark.usefixtures("jar")
def test_rows_are_counted_by_footers_as_long_as_all_are_live(spark: SparkSession, acid_table: Callable) -> None:
    table = acid_table("id int", partitioned_by="p int")
    table.insert("select cast(id as int), cast(id % 3 as int) from range(90)")
    session = spark.newSession()
    frame = read_snapshot(session, table.snapshot())
    frame.createOrReplaceTempView("v")
    counted = session.sql("select count(*), count(1) from v")
    assert scan_of(counted) == "LocalTableScan"
    assert tuple(counted.first()) == (90, 90)
    assert tuple(session.sql("select count(*) from v where p = 1").first()) == (30,)
    assert scan_of(session.sql("select count(*) from v where p = 1")) == "LocalTableScan"
    assert tuple(session.sql("select count(*) from v where p = 7").first()) == (0,)
    assert sorted(map(tuple, session.sql("select p, count(*) from v group by p").collect())) == [
        (0, 30), (1, 30), (2, 30)
    ]  # fmt: skip
    assert session.sql("select count(*) from v where id < 9").first()[0] == 9
    table.delete("id = 4")
    frame = read_snapshot(session, table.snapshot())
    assert frame.count() == 89
    assert scan_of(frame.groupBy().count()) != "LocalTableScan"
    assert frame.where("p <> 1").count() == 60


@pytest.mark.usefixtures("jar")
def test_rows_beside_deletes_are_counted_without_looking_at_them(spark: SparkSession, acid_table: Callable) -> None:
    table = acid_table("id int, name string", **{"orc.stripe.size": "200000"})
    table.insert("select cast(id as int), uuid() from range(0, 30000, 1, 1)")
    (file,) = table.root.glob("delta_*/bucket_00000")
    assert orc.ORCFile(file).nstripes > 3
    table.insert("select cast(id as int) + 30000, 'x' from range(0, 100, 1, 1)")
    for where, left in (("id = 0 or id = 29999", 30098), ("id between 5 and 20004", 10098), ("id >= 30000", 9998)):
        table.delete(where)
        session = spark.newSession()
        # Small splits: each counts the rows of its own stripes.
        for largest in ("128m", "50k"):
            session.conf.set("spark.sql.files.maxPartitionBytes", largest)
            frame = read_snapshot(session, table.snapshot())
            counted = frame.groupBy().count()
            assert metric(counted, "rowsDecoded") == 0
            assert counted.first()[0] == left == other_way(spark, table.snapshot()).count()
            assert metric(counted, "rowsPassedOver") == 30100 - left
    # Rows that a snapshot does not see yet, and those of a compaction, which has several write ids and gaps.
    assert read_snapshot(spark.newSession(), table.snapshot(write_ids=f"db.t:3:{2**63 - 1}::")).count() == 30098
    table.compact("major")
    table.delete("id = 20005")
    counted = read_snapshot(spark.newSession(), table.snapshot()).groupBy().count()
    assert counted.first()[0] == 9997 == other_way(spark, table.snapshot()).count()
    assert metric(counted, "rowsDecoded") == 9998


@pytest.mark.usefixtures("jar")
def test_many_partitions_are_one_scan_of_the_files_that_matter(spark: SparkSession, acid_table: Callable) -> None:
    table = acid_table("id int", partitioned_by="ds date, n string")
    table.insert(
        "select cast(id as int), date_add(date'2024-01-01', cast(id % 40 as int)), if(id % 40 = 7, null, 'x/y') "
        "from range(80)"
    )
    table.delete("id in (5, 47)")
    frame = read_snapshot(spark.newSession(), table.snapshot())
    assert texts(frame) == texts(other_way(spark, table.snapshot()))
    assert frame.count() == 78
    assert metric(frame.where("ds = date'2024-01-06'"), "rowsDecoded") == 2
    assert [r.id for r in frame.where("n is null").collect()] == [7]


def test_columns_added_renamed_and_widened_read_the_same(spark: SparkSession, acid_table: Callable) -> None:
    table = acid_table("a int, b string, c float, d decimal(5,2)")
    table.insert("select 1, 'one', 1.5, 9.25")
    table.columns = tuple(
        Column(*c) for c in [("a", "bigint"), ("bb", "string"), ("c", "double"), ("d", "decimal(12,4)"), ("e", "int")]
    )
    table.insert("select 5000000000, 'two', 2.5, 12345678.0625, 7")
    table.delete("bb = 'none'")
    frame = read_snapshot(spark.newSession(), table.snapshot(), True)
    assert texts(frame) == texts(other_way(spark, table.snapshot(), True))
    assert texts(frame.where("bb = 'one'").select("e", "a")) == ["Row(e=None, a=1)"]
    assert texts(frame.where("a > 4000000000 and d > 1").select("d")) == ["Row(d=Decimal('12345678.0625'))"]


def test_buckets_with_too_many_deletes_for_memory_are_joined(
    spark: SparkSession, acid_table: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = acid_table("id int")
    table.insert("select cast(id as int) from range(0, 100, 1, 2)")
    table.delete("id < 10")
    expected = texts(read_snapshot(spark.newSession(), table.snapshot(), True))
    monkeypatch.setattr(fast_reader, "MAX_DELETES_BYTES", 0)
    frame = read_snapshot(spark.newSession(), table.snapshot(), True)
    assert "Join LeftAnti" in frame._jdf.queryExecution().toString()
    assert texts(frame) == expected
    assert len(expected) == 90


@pytest.mark.parametrize("way", ["auto", "off"])
@pytest.mark.parametrize("damage", ["missing", "nonsense", "insert events"])
def test_damaged_delete_events_are_never_no_deletes(
    spark: SparkSession, acid_table: Callable, way: str, damage: str
) -> None:
    table = acid_table("id int")
    table.insert("select cast(id as int) from range(0, 20, 1, 1)")
    table.delete("id < 10")
    session = spark.newSession()
    session.conf.set(SESSION_KEY, way)
    frame = read_snapshot(session, table.snapshot())
    (file,) = table.root.glob("delete_delta*/bucket_00000")
    file.unlink()
    (file.parent / ".bucket_00000.crc").unlink(missing_ok=True)
    if damage == "nonsense":
        file.write_bytes(b"nonsense")
    elif damage == "insert events":
        (data,) = table.root.glob("delta*/bucket_00000")
        shutil.copy(data, file)
    with pytest.raises(Exception) as caught:
        frame.collect()
    error = explain(session, caught.value, [table.location])
    assert type(error) is CorruptTableError
    assert ("instead of 2" if damage == "insert events" else str(file)) in str(error)


def test_write_ids_that_are_not_seen_are_left_out_row_by_row(spark: SparkSession, acid_table: Callable) -> None:
    table = acid_table("id int")
    for i in range(4):
        table.insert(f"select {i} union all select {i + 10}")
    table.delete("id in (0, 11)")
    table.compact("minor")
    for hidden in ({2}, {5}, {2, 5}, {4, 1}):
        changed: dict[str, Any] = {"write_ids": f"db.t:5:{2**63 - 1}::{','.join(map(str, sorted(hidden)))}"}
        one = read_snapshot(spark.newSession(), table.snapshot(**changed), True)
        assert texts(one) == texts(other_way(spark, table.snapshot(**changed), True)), hidden
        live = 8 - 2 * len(hidden - {5}) - (0 if 5 in hidden else 2 - len({1, 2} & hidden))
        assert one.count() == live
