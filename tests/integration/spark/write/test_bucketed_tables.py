"""Rows of bucketed tables lie in the bucket that Hive's hash names, whatever statement put them there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.bucketing import bucket_of
from airflow_hive_acid.format.buckets import decode_bucket
from airflow_hive_acid.format.jobs import Assignment, Bucketing, MergeClause
from airflow_hive_acid.format.names import parse_bucket_file
from airflow_hive_acid.spark.write.bucketing import most_tasks, spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.integration.spark.conftest import AcidTable

    MakeTable = Callable[..., AcidTable]

pytestmark = pytest.mark.spark

NAMES = [(i, f"n{i}") for i in (-5, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 100)]
VALUES = "values " + ", ".join(f"({i}, '{name}')" for i, name in NAMES) + ", (null, 'none')"


def check_places(table: AcidTable, types: tuple[str, ...] = ("int",)) -> None:
    """Every row is in the file of its hash; the writer has already checked that file and ROW__ID agree."""
    bucketing = table.bucketing
    assert bucketing is not None
    for (_, bucket, _, _), values in table.ids().items():
        wanted = bucket_of(values[: len(types)], types, bucketing.count, int(bucketing.version))
        assert decode_bucket(bucket).bucket == wanted, values


def file_numbers(table: AcidTable) -> set[int]:
    files = [parse_bucket_file(name) for names in table.files().values() for name in names]
    return {file.bucket for file in files if file is not None}


@pytest.mark.parametrize("version", ["1", "2"])
def test_inserted_rows_are_in_the_buckets_of_their_hash(acid_table: MakeTable, version: str) -> None:
    table = acid_table("id int, name string")
    table.bucketing = Bucketing(("ID",), 4, version)
    table.insert(VALUES)
    check_places(table)
    assert file_numbers(table) <= set(range(4))
    assert table.rows() == sorted([*NAMES, (None, "none")], key=repr)


def test_a_bucketed_table_keeps_its_places_through_a_life(acid_table: MakeTable) -> None:
    """Update, delete, merge with all clauses, insert overwrite and both compactions."""
    table = acid_table("id int, name string")
    table.bucketing = Bucketing(("id",), 4, "2")
    table.insert(VALUES)
    table.update("id % 2 = 0", name="upper(name)")
    check_places(table)
    table.delete("id = 1")
    table.merge(
        "select * from values (2, 'two'), (3, 'gone'), (9, 'nine'), (10, 'ten') as s(id, name)",
        "t.id = s.id",
        MergeClause("delete", True, "s.name = 'gone'"),
        MergeClause("update", True, None, (Assignment("name", "s.name"),)),
        MergeClause("insert", False, None, (Assignment("id", "s.id"), Assignment("name", "s.name"))),
    )
    check_places(table)
    assert "delta_0000004_0000004_0001" in table.directories()
    assert "delta_0000004_0000004_0002" in table.directories()
    rows = [(i, n.upper() if i % 2 == 0 else n) for i, n in NAMES if i not in (1, 2, 3)]
    rows += [(2, "two"), (9, "nine"), (10, "ten"), (None, "none")]
    assert table.rows() == sorted(rows, key=repr)
    table.compact("minor")
    check_places(table)
    table.compact("major")
    check_places(table)
    assert table.rows() == sorted(rows, key=repr)
    table.insert("values (7, 'only'), (8, 'these')", overwrite=True)
    check_places(table)
    assert table.rows() == [(7, "only"), (8, "these")]


def test_dynamic_partitions_are_bucketed_each(acid_table: MakeTable) -> None:
    table = acid_table("id int, name string", "ds string")
    table.bucketing = Bucketing(("name", "id"), 3, "2")
    table.insert("select id, concat('é', id), if(id % 2 = 0, 'a', 'b') from (select cast(id as int) id from range(20))")
    for (_, bucket, _, _), (number, name, _) in table.ids().items():
        assert decode_bucket(bucket).bucket == bucket_of([name, number], ["string", "int"], 3)
    assert len(table.rows()) == 20


def test_updated_rows_of_all_partitions_stay_in_their_buckets(acid_table: MakeTable) -> None:
    table = acid_table("id int, name string", "ds string")
    table.bucketing = Bucketing(("id",), 3, "2")
    table.insert("select cast(id as int), 'x', if(id % 2 = 0, 'a', 'b') from range(20)")
    table.update("id % 3 > 0", name="concat(ds, id)")
    check_places(table)
    assert {name for i, name, ds in table.rows() if name != f"{ds}{i}"} == {"x"}


def test_partitions_may_have_different_bucket_counts(acid_table: MakeTable) -> None:
    """The count was altered between: rows go by the count the table has when they are written, as in Hive; whoever
    reads, changes or compacts goes by the bucket each row carries."""
    table = acid_table("id int, name string", "ds string")
    table.bucketing = Bucketing(("id",), 4, "2")
    table.insert("select cast(id as int), 'four', 'a' from range(20)")
    table.bucketing = Bucketing(("id",), 2, "2")
    table.insert("select cast(id as int), 'two', if(id < 25, 'a', 'b') from range(20, 30)")
    counts = {"four": 4, "two": 2}

    def check() -> None:
        found = {(decode_bucket(bucket).bucket, row[0], row[1]) for (_, bucket, _, _), row in table.ids().items()}
        assert found == {(bucket_of([i], ["int"], counts[name]), i, name) for i, name, _ in table.rows()}

    check()
    table.delete("id % 5 = 0")
    table.update("id = 7 or id = 27", name="'two'")
    check()
    rows = [(i, "two" if i in (7, *range(20, 30)) else "four", "b" if i >= 25 else "a") for i in range(30) if i % 5]
    assert table.rows() == sorted(rows, key=repr)
    for kind in ("minor", "major"):
        table.compact(kind, "ds=a")
        check()
    assert table.rows() == sorted(rows, key=repr)


def test_bucketing_that_the_table_does_not_allow_is_refused(acid_table: MakeTable) -> None:
    table = acid_table("id int, name string")
    for bucketing, words in (
        (Bucketing(("nobody",), 4, "2"), "CLUSTERED BY nobody INTO 4 BUCKETS"),
        (Bucketing(("id",), 5000, "2"), "1 to 4096 buckets"),
        (Bucketing(("id",), 4, "7"), "bucketing_version='7', and Hive has 1 and 2"),
    ):
        table.bucketing = bucketing
        with pytest.raises(InvalidArgumentsError, match=words):
            table.insert(VALUES)


def test_more_tasks_than_a_directory_has_files_are_merged(spark: SparkSession) -> None:
    many = spark.range(0, 10, 1, 5000)
    assert spread(many, None).rdd.getNumPartitions() == 4096
    joined = spark.sql("select /*+ REPARTITION(6000) */ id from range(10)")
    assert spread(joined, None).rdd.getNumPartitions() == 4096
    few = spark.range(0, 10, 1, 3)
    assert most_tasks(few) < 100
    assert spread(few, None) is few


def test_a_hint_of_the_query_says_how_many_tasks_write(spark: SparkSession) -> None:
    """Of rows that Spark knows nothing about, a coalesce to 4096 would take the place of the hint's."""
    unknown = spark.createDataFrame(spark.range(0, 10, 1, 5).rdd)
    assert most_tasks(unknown) > 4096
    one = unknown.hint("coalesce", 1).selectExpr("id + 1 as id").where("id > 3")
    assert most_tasks(one) == 1
    assert spread(one, None) is one


def test_rows_that_join_a_base_fill_the_buckets_that_are_left(spark: SparkSession) -> None:
    many = spark.range(0, 10, 1, 5000)
    assert spread(many, None, 4000).rdd.getNumPartitions() == 96
    few = spark.range(0, 10, 1, 3)
    assert spread(few, None, 4095).rdd.getNumPartitions() == 1
    with pytest.raises(InvalidArgumentsError, match="a directory holds 4096; commit"):
        spread(few, None, 4096)
