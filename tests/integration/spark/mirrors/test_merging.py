"""What of a mirror needs neither Iceberg nor Delta: rows to operations, the MERGE's text, partitions, checksums."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError, MirrorKeyError
from airflow_hive_acid.format.jobs import Column, PartitionRef, TableSnapshot
from airflow_hive_acid.format.mirrors import MirrorTarget, SourceTable, TargetFormat, made_since
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import explain
from airflow_hive_acid.spark.mirrors.checksums import differences
from airflow_hive_acid.spark.mirrors.columns import MirrorColumns, mirror_columns
from airflow_hive_acid.spark.mirrors.merging import merge_statement, one_per_key
from airflow_hive_acid.spark.mirrors.partitions import changed_partitions
from airflow_hive_acid.spark.mirrors.run import open_target
from airflow_hive_acid.spark.mirrors.targets import OPERATION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COLUMNS = (
    Column("id", "int"), Column("b", "tinyint"), Column("c", "char(3)"), Column("l", "array<struct<a:smallint>>"),
    Column("w", "timestamp"), Column("i", "timestamp with local time zone"),
)  # fmt: skip


def snapshot(columns: tuple[Column, ...] = COLUMNS, partitions: tuple[str, ...] = (), **more: Any) -> TableSnapshot:
    keys = (Column("p", "date"), Column("q", "int")) if partitions else ()
    refs = tuple(
        PartitionRef(text, f"file:/w/{text}", tuple(part.partition("=")[2] for part in text.split("/")))
        for text in partitions
    )
    return TableSnapshot("w.t", "file:/w", columns, keys, refs, "", "", **more)


def rows(spark: SparkSession, values: str, names: str = "id, s, _hive_acid_op") -> DataFrame:
    return spark.sql(f"SELECT * FROM VALUES {values} AS v({names})")  # noqa: S608 - our own


def by_id() -> MirrorColumns:
    return MirrorColumns((("id", T.IntegerType()), ("s", T.StringType())), (), ("id",), hidden=False)


def test_columns_have_types_that_the_target_knows() -> None:
    iceberg = mirror_columns(snapshot(), ["id"], TargetFormat.ICEBERG)
    assert [(name, kind.simpleString()) for name, kind in iceberg.fields] == [
        ("id", "int"), ("b", "int"), ("c", "string"), ("l", "array<struct<a:int>>"),
        ("w", "timestamp_ntz"), ("i", "timestamp"),
    ]  # fmt: skip
    delta = mirror_columns(snapshot(), [], TargetFormat.DELTA)
    assert [(name, kind.simpleString()) for name, kind in delta.fields] == [
        ("id", "int"), ("b", "tinyint"), ("c", "string"), ("l", "array<struct<a:smallint>>"),
        ("w", "timestamp"), ("i", "timestamp"),
        ("_hive_acid_writeid", "bigint"), ("_hive_acid_bucket", "int"), ("_hive_acid_rowid", "bigint"),
    ]  # fmt: skip
    assert (delta.key, delta.user_fields) == (delta.names[6:], delta.fields[:6])
    # A row's id says nothing beyond its partition.
    parted = mirror_columns(snapshot(partitions=("p=2026-01-01/q=1",)), [], TargetFormat.DELTA)
    assert parted.key == ("p", "q", *delta.key)
    assert mirror_columns(snapshot(insert_only=True), [], TargetFormat.DELTA).key == ()


@pytest.mark.parametrize(
    ("columns", "key", "said"),
    [
        (COLUMNS, ["x"], "key names x, which is no column of w.t: id, b, c, l, w, i"),
        ((Column("m", "map<int,int>"),), ["m"], "key names m, a map"),
        ((Column("_hive_acid_rowid", "int"),), [], "names that begin with _hive_acid_"),
        ((Column("_Hive_Acid_op", "int"), Column("id", "int")), ["id"], "names that begin with _hive_acid_"),
    ],
)
def test_columns_that_cannot_be_mirrored_are_named(columns: Any, key: list[str], said: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=said):
        mirror_columns(snapshot(columns), key, TargetFormat.ICEBERG)


def test_a_deleted_and_an_inserted_row_of_a_key_are_an_update(spark: SparkSession) -> None:
    given = rows(spark, "(1, 'old', 'delete'), (1, 'new', 'insert'), (2, 'x', 'delete'), (2, 'x', 'delete'), "
                        "(3, 'y', 'insert'), (cast(null as int), 'n', 'insert'), (null, 'm', 'delete')")  # fmt: skip
    found = {tuple(row) for row in one_per_key(given, by_id(), "w.t").collect()}
    assert found == {(1, "new", "update"), (2, "x", "delete"), (3, "y", "insert"), (None, "n", "update")}


def test_two_inserted_rows_of_a_key_end_the_job(spark: SparkSession) -> None:
    given = one_per_key(rows(spark, "(7, 'a', 'insert'), (7, 'b', 'insert')"), by_id(), "w.t")
    with pytest.raises(PySparkException) as raised:
        given.groupBy(OPERATION).count().collect()
    error = explain(spark, raised.value, [])
    assert isinstance(error, MirrorKeyError)
    assert str(error).startswith("two rows of w.t have the key id = 7; a mirror by key needs one row of each: remove")


def test_names_cannot_leave_their_place_in_the_merge(spark: SparkSession) -> None:
    hostile = ("a`b", "{target}", "x'; DROP TABLE t", "{0.__class__}")
    columns = MirrorColumns(tuple((name, T.IntegerType()) for name in hostile), (), hostile[:2], hidden=False)
    text = merge_statement("w.t", columns, by_row_id=False).format(target="`cat`.`t`", changes="v")
    assert text.startswith(
        "MERGE INTO `cat`.`t` t USING v s\nON t.`a``b` <=> s.`a``b` AND t.`{target}` <=> s.`{target}`"
    )
    parser = spark._jsparkSession.sessionState().sqlParser()
    assert parser.parsePlan(text).getClass().getSimpleName() == "MergeIntoTable"
    for clause in [line for line in text.split("\n") if "UPDATE SET" in line]:
        # Of the target no column is read but those of the key.
        assert all(f"{schema.quoted(name)} = " in clause for name in hostile), clause
    without_nulls = merge_statement("w.t", columns, by_row_id=False, nulls=False).format(target="t", changes="v")
    assert "<=>" not in without_nulls
    by_row_id = merge_statement("w.t", columns, by_row_id=True).format(target="t", changes="v")
    assert "MirrorKeyError" in text
    assert "MirrorKeyError" not in by_row_id
    assert by_row_id.count("MirrorDivergedError") == 2


def test_partitions_are_compared_by_their_values(spark: SparkSession) -> None:
    """Beside the catalog's list: one is no more, one was made again, one is new, one is spelt otherwise."""
    columns = MirrorColumns(
        (("id", T.IntegerType()), ("p", T.DateType()), ("q", T.IntegerType())), ("p", "q"), ("id",), hidden=False
    )
    listed = ("p=2026-01-01/q=07", "p=2026-01-02/q=1", "p=2026-01-03/q=1", "p=__HIVE_DEFAULT_PARTITION__/q=2")
    ids = dict(zip(listed, (1, 9, 10, 3), strict=True))
    made = made_since(SourceTable("w.t", 1, (), (), 5, "", newest_partition=5), ids, dict.fromkeys(ids, 3))
    there = rows(
        spark,
        "(1, DATE '2026-01-01', 7), (2, DATE '2026-01-02', 1), (3, DATE '2025-12-31', 1), (4, null, 2), (5, null, 8)",
        "id, p, q",
    )
    found = changed_partitions(spark, snapshot(partitions=listed), there, columns, made)
    assert found.anew == {1, 2}
    assert sorted(row.id for row in found.gone.collect()) == [2, 3, 5]
    same = there.where("id in (1, 4)")
    kept = changed_partitions(spark, snapshot(partitions=(listed[0], listed[3])), same, columns, made)
    assert (kept.anew, kept.gone) == (frozenset(), None)
    assert changed_partitions(spark, snapshot(), same, by_id(), ()).gone is None


def test_checksums_do_not_depend_on_the_order_and_name_what_differs(spark: SparkSession) -> None:
    columns = MirrorColumns((("id", T.IntegerType()), ("d", T.DecimalType(9, 2)), ("m", T.MapType(T.StringType(),
              T.IntegerType())), ("p", T.IntegerType())), ("p",), ("id",), hidden=False)  # fmt: skip
    kind = T.StructType([T.StructField(name, kind) for name, kind in columns.fields])
    source = [(1, Decimal("1.50"), {"a": 1}, 1), (2, None, None, 1), (3, Decimal(0), {}, None), (4, None, None, 2)]

    def sides(left: list[Any], right: list[Any]) -> dict[str, Any]:
        return differences(
            spark.createDataFrame(left, kind).repartition(3), spark.createDataFrame(right, kind).coalesce(1), columns
        )

    assert sides(source, source[::-1]) == {"rows": [4, 4], "partitions": 3, "differ": 0, "different": []}
    # The number of rows is the same; a partition is missing, another one is too much.
    changed = [(1, Decimal("1.51"), {"a": 1}, 1), source[1], source[2], (4, None, None, 3)]
    assert sides(source, changed) == {
        "rows": [4, 4], "partitions": 4, "differ": 3,
        "different": [
            {"partition": "p=1", "source_rows": 2, "target_rows": 2},
            {"partition": "p=2", "source_rows": 1, "target_rows": 0},
            {"partition": "p=3", "source_rows": 0, "target_rows": 1},
        ],
    }  # fmt: skip
    assert sides(source, [*source, source[0], source[0]])["different"][0]["target_rows"] == 4


@pytest.mark.parametrize("target", ["iceberg:ice.db.t", "delta:/tmp/nowhere"])
def test_a_spark_without_the_jars_says_what_is_missing(spark: SparkSession, target: str) -> None:
    with pytest.raises(ConfigurationError, match=r"this Spark has no (Iceberg|Delta Lake).*spark\.jars\.packages"):
        open_target(spark, MirrorTarget.parse(target)).look()
