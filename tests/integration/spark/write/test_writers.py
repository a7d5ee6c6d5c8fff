"""Files written by the optional jar hold what Spark's own source would have written, and what Hive adds to its own."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.format.buckets import encode_bucket
from airflow_hive_acid.format.jobs import Assignment, MergeClause
from airflow_hive_acid.format.orc_tail import TAIL_BYTES, damage_in, event_counts, row_count
from airflow_hive_acid.maintenance.doctor.codecs import unpack
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from tests.orc_footers import footer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = (
    "id bigint, t tinyint, s smallint, i int, b boolean, f float, d double, n decimal(12,2), w decimal(38,10), "
    "v string, c char(6), vc varchar(4), bin binary, dt date, ts timestamp, a array<int>, m map<string,decimal(5,1)>, "
    "st struct<x:int,y:array<struct<z:string,e:date>>>"
)
# Values around every rule of the formats: both calendars, before the epoch, halves of microseconds, NULLs everywhere.
QUERY = """
select id,
  if(id % 11 = 1, null, cast(id - 50 as tinyint)), cast(id * 300 as smallint), cast(id as int), id % 2 = 0,
  cast(id / 3 as float), if(id % 5 = 0, double('NaN'), id / 7), cast((id - 50) / 100 as decimal(12,2)),
  if(id % 3 = 0, null, cast(concat(id - 50, '2345678901234567890.0123456789') as decimal(38,10))),
  if(id % 9 = 4, null, concat('é漢😀', repeat('x', cast(id % 40 as int)))), concat('c', id), 'abcd',
  if(id % 4 = 0, null, encode(concat('bin', id), 'utf-8')),
  date_add(date'1582-10-10', cast(id * 40 - 2000 as int)),
  if(id % 13 = 7, null, timestamp'1582-10-20 11:12:13.123456' + make_interval(id * 9 - 300, 0, 0, id)),
  if(id % 6 = 0, null, transform(sequence(1, cast(id % 4 as int) + 1), x -> if(x = 2, null, x))),
  if(id % 7 = 0, null, map('k', cast(id / 10 as decimal(5,1)), concat('k', id), null)),
  if(id % 8 = 0, null, named_struct('x', cast(id as int), 'y', if(id % 3 = 0, null,
    array(named_struct('z', cast(id as string), 'e', date'0001-01-01'), null))))
from range(0, 100, 1, 1)
"""


# What goes through an UPDATE and a MERGE: the kinds that are written each in a way of its own.
MOVED = "id bigint, n decimal(12,2), v string, c char(6), ts timestamp, m map<string,int>, st struct<x:int,y:string>"
MOVED_QUERY = """
select id, cast((id - 50) / 100 as decimal(12,2)), if(id % 9 = 4, null, concat('é漢😀', id)), concat('c', id),
  if(id % 13 = 7, null, timestamp'1582-10-20 11:12:13.123456' + make_interval(id * 9 - 300, 0, 0, id)),
  if(id % 7 = 0, null, map('k', cast(id as int), concat('k', id), null)),
  if(id % 8 = 0, null, named_struct('x', cast(id as int), 'y', if(id % 3 = 0, null, 'z'))),
  if(id % 2 = 0, 'a b/c', null), cast(id % 3 as int)
from range(0, 100, 1, 1)
"""


@pytest.fixture
def both(
    acid_table: Callable[..., Any], accelerator_jar: Path | None, pytestconfig: pytest.Config
) -> Callable[..., tuple[Any, Any]]:
    """Two tables alike: written by the jar, and by Spark's own source."""
    if pytestconfig.getoption("--accelerator") == "off":
        pytest.skip("compares the jar with Spark's own source")
    if accelerator_jar is None:
        pytest.fail("the accelerator is not built; it needs a JDK (Debian: apt-get install openjdk-17-jdk-headless)")

    def make(*arguments: str, **properties: str) -> tuple[Any, Any]:
        fast, stock = acid_table(*arguments, **properties), acid_table(*arguments, **properties)
        stock.run = functools.partial(stock.run, **{SESSION_KEY: "off"})
        return fast, stock

    return make


def events(spark: SparkSession, table: Any) -> list[str]:
    """All events of a table as its files hold them."""
    files = [str(p) for p in sorted(table.root.rglob("bucket_*"))]
    assert files
    whole = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    return sorted(r[0] for r in spark.read.orc(files).selectExpr(whole).collect())


def test_both_writers_store_the_same_values_of_every_type(both: Callable[..., Any], spark: SparkSession) -> None:
    properties = {"orc.compress": "SNAPPY", "orc.bloom.filter.columns": "id,v", "orc.row.index.stride": "1000"}
    fast, stock = both(COLUMNS, **properties)
    for table in (fast, stock):
        table.insert(QUERY)
    assert fast.files() == stock.files() == {"delta_0000001_0000001_0000": ["bucket_00000"]}
    assert events(spark, fast) == events(spark, stock)
    one, other = (footer(spark, t.root / "delta_0000001_0000001_0000" / "bucket_00000") for t in (fast, stock))
    spark_version = other.pop("metadata")
    assert one.pop("metadata") == {
        **spark_version,
        "hive.acid.key.index": "1,536870912,99;",
        "hive.acid.stats": "100,0,0",
        "hive.acid.version": "2",
    }
    assert one == other
    assert one["compression"] == "SNAPPY"
    assert repr(fast.rows()) == repr(stock.rows())
    for table in (fast, stock):
        table.delete("id % 10 = 9")
        table.compact("rebalance", buckets=2)
    assert fast.directories() == stock.directories()
    (base,) = fast.root.glob("base_*")
    assert sorted(p.name for p in base.glob("bucket_*")) == ["bucket_00000", "bucket_00001"]
    assert _of_base(spark, fast) == _of_base(spark, stock)
    found = footer(spark, base / "bucket_00001")["metadata"]
    assert found["hive.acid.key.index"] == f"1,{encode_bucket(1, 0)},89;"
    assert found["hive.acid.stats"] == "45,0,0"


def _of_base(spark: SparkSession, table: Any) -> list[str]:
    (base,) = table.root.glob("base_*")
    whole = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    return sorted(r[0] for r in spark.read.orc(str(base / "bucket_*")).selectExpr(whole).collect())


def test_both_writers_move_rows_alike(both: Callable[..., Any], spark: SparkSession) -> None:
    """New rows of a task are the bucket of its number, wherever they get: of an UPDATE, and of a MERGE that inserts."""
    tables = both(MOVED, "p string, q int")
    move = MergeClause("update", True, "s.k < 80", (Assignment("p", "'far'"), Assignment("v", "'merged'")))
    delete = MergeClause("delete", True, None, ())
    insert = MergeClause(
        "insert", False, None, (Assignment("id", "s.k"), Assignment("p", "'far'"), Assignment("q", "7"))
    )
    states = []
    for table in tables:
        table.insert(MOVED_QUERY)
        moved = table.update("id % 5 = 1", p="if(id % 2 = 0, 'new', p)", q="q + 1", c="'yy'")
        assert (moved.updated, moved.inserted, moved.deleted) == (20, 0, 0)
        merged = table.merge("select id + 70 as k from range(0, 40)", "t.id = s.k", move, delete, insert)
        assert (merged.updated, merged.inserted, merged.deleted) == (10, 10, 20)
        # As text: a NaN is not itself.
        before = sorted(table.ids().items(), key=repr)
        states.append(repr(sorted((row for _, row in before), key=repr)))
        assert len(before) == 90
        # Where rows have got to, by a MERGE and by an UPDATE, and where they were taken away.
        for partition in ("p=far/q=1", "p=new/q=1", "p=__HIVE_DEFAULT_PARTITION__/q=1"):
            table.compact("major", partition)
        assert repr(sorted(table.ids().items(), key=repr)) == repr(before)
    assert states[0] == states[1]
    for path in (tables[0].root / "p=far").rglob("delta_*/bucket_*"):
        assert footer(spark, path)["metadata"]["hive.acid.key.index"].endswith(";")


def test_both_writers_change_and_compact_alike(both: Callable[..., Any], spark: SparkSession) -> None:
    tables = both("id bigint, v string, c char(4)", "p string")
    update = MergeClause("update", True, "s.k < 320", (Assignment("v", "concat(t.v, '-merged')"),))
    delete = MergeClause("delete", True, None, ())
    insert = MergeClause(
        "insert", False, None,
        (Assignment("id", "s.k"), Assignment("v", "'new'"), Assignment("p", "concat('p', s.k % 3)")),
    )  # fmt: skip
    states = []
    for table in tables:
        table.insert("select /*+ REPARTITION(2) */ id, 'a', 'x', concat('p', id % 2) from range(0, 400)")
        table.update("id % 5 = 1", v="concat(v, '!')", c="'yy'")
        table.delete("id % 7 = 3")
        source = "select id + 300 as k from range(0, 150)"
        table.merge(source, "t.id = s.k", update, delete, insert)
        before = table.ids()
        seen = [sorted(before.values(), key=repr)]
        # One after the other, and each alone where the other has not been.
        for kind, partitions in (("minor", ("p=p0", "p=p2")), ("major", ("p=p0", "p=p1"))):
            for partition in partitions:
                table.compact(kind, partition)
                seen.append([d for d in table.directories(partition) if "_v" in d])
            assert table.ids() == before
        states.append(seen)
    assert states[0] == states[1]
    # Not matched: 50 source rows beyond the table, and those whose rows the DELETE took.
    assert sum(r[1] == "new" for r in states[0][0]) == 50 + sum(i % 7 == 3 for i in range(300, 400))
    base = sorted((tables[0].root / "p=p0").glob("base*/bucket_*"))[0]
    found = footer(spark, base)["metadata"]
    assert found["hive.acid.stats"] == f"{footer(spark, base)['rows']},0,0"
    assert found["hive.acid.key.index"].endswith(";")


def test_key_index_names_the_last_row_of_each_stripe(both: Callable[..., Any], spark: SparkSession) -> None:
    table, _ = both("id bigint, v string", **{"orc.stripe.size": "100000", "orc.compress": "NONE"})
    table.insert("select id, sha2(cast(id as string), 512) from range(0, 20000, 1, 1)")
    (path,) = table.root.glob("delta*/bucket_*")
    found = footer(spark, path)
    assert len(found["stripes"]) > 2
    last, expected = -1, []
    for rows in found["stripes"]:
        last += rows
        expected.append(f"1,536870912,{last}")
    assert found["metadata"]["hive.acid.key.index"] == ";".join([*expected, ""])
    table.delete("id % 10 = 0")
    before = table.ids()
    table.compact("major")
    (path,) = table.root.glob("base*/bucket_*")
    keys = footer(spark, path)["metadata"]["hive.acid.key.index"].split(";")[:-1]
    assert keys[-1] == "1,536870912,19999"
    assert table.ids() == before
    assert table.frame().where("id between 9990 and 9999").count() == 9


def test_a_table_whose_codec_changes_keeps_its_rows(both: Callable[..., Any], spark: SparkSession) -> None:
    """Files of both codecs lie side by side until a compaction; what is written has that of the day."""
    tables = both("id bigint, v string")
    for table in tables:
        table.insert("select /*+ REPARTITION(2) */ id, concat('a', id) from range(0, 3000)")
        table.properties = {**table.properties, "orc.compress": "ZSTD"}
        table.update("id % 100 = 7", v="concat(v, '!')")
        table.delete("id % 100 = 8")
        expected = [(i, f"a{i}!" if i % 100 == 7 else f"a{i}") for i in range(3000) if i % 100 != 8]
        assert sorted(table.rows()) == expected
        assert codecs(spark, table, "delta_0000001*") == {"ZLIB"}
        assert codecs(spark, table, "*delta_000000[23]*") == {"ZSTD"}
        table.compact("major")
        assert codecs(spark, table, "base*") == {"ZSTD"}
        assert sorted(table.rows()) == expected


@pytest.mark.parametrize("codec", ["SNAPPY", "LZ4", "ZSTD"])
def test_the_doctor_reads_the_ends_of_files_of_each_codec(
    both: Callable[..., Any], spark: SparkSession, codec: str
) -> None:
    columns = ", ".join(f"a_column_{i} bigint" for i in range(40))
    query = " ".join(("select", ", ".join(["id"] * 40), "from range(0, 300)"))
    # Spark's own source leaves no note of events.
    for table, counts in zip(both(columns, **{"orc.compress": codec}), ((300, 0, 0), None), strict=True):
        table.insert(query)
        (path,) = table.root.glob("delta_*/bucket_*")
        assert footer(spark, path)["compression"] == codec
        tail = path.read_bytes()[-TAIL_BYTES:]
        assert row_count(tail) is None
        assert (row_count(tail, unpack), event_counts(tail, unpack)) == (300, counts)
        assert damage_in(tail, len(tail), unpack) is None


def codecs(spark: SparkSession, table: Any, pattern: str) -> set[str]:
    """How the files in some directories are packed."""
    return {footer(spark, path)["compression"] for path in table.root.glob(f"{pattern}/bucket_*")}
