"""SELECT by Spark jobs: rows as JSON lines that lose nothing."""

from __future__ import annotations

import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import CorruptTableError, InvalidArgumentsError, SqlSyntaxError
from airflow_hive_acid.format.jobs import Column, JobSpec, Select, View
from airflow_hive_acid.spark.jobs.run import execute, run_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def query(spark: SparkSession, folder: Path, sql: str, limit: int | None = None, *views: View) -> Any:
    uri = f"file:{folder}/rows {uuid.uuid4()}.jsonl"
    result = run_step(spark, JobSpec(str(uuid.uuid4()), Select(sql, uri, limit), tuple(views)))
    lines = Path(uri.removeprefix("file:")).read_text().split("\n")
    assert lines.pop() == ""
    return result, [json.loads(line, parse_float=Decimal) for line in lines]


@pytest.mark.parametrize("ids", [10, 10_000])
def test_more_rows_than_the_asker_has_room_for_are_an_error_that_says_what_to_do(
    spark: SparkSession, tmp_path: Path, ids: int
) -> None:
    """Ten rows of 24 bytes, ``["v-0000…"]`` and the end of the line: 240 fit into 240 and not into 239."""
    asked = f"select concat('v-', lpad(cast(id as string), 17, '0')) v from range({ids})"  # noqa: S608

    def run(most: int) -> Any:
        return run_step(spark, JobSpec("j", Select(asked, f"file:{tmp_path}/{most}.jsonl", None, most)))

    if ids == 10:
        assert run(240).rows == 10
    with pytest.raises(InvalidArgumentsError, match=r"more than 239 bytes \(row 10 .*hive.acid.select.max.bytes"):
        run(239)


def test_every_type_has_a_text_that_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    result, rows = query(
        spark,
        tmp_path,
        "select cast(-1 as tinyint) a, 9223372036854775807 b, "
        "cast('12345678901234567890.123456789012345678' as decimal(38,18)) c, cast('nan' as double) d, "
        "cast(1.5 as float) e, double('-Infinity') f, true g, "
        "concat('q\"\\\\', char(9), char(10), 'ü日😀') h, cast('bin' as binary) i, date'0001-01-01' j, "
        "timestamp'2024-02-29 12:34:56.5' k, array(1, null) l, map('k', cast(1.50 as decimal(5,2))) m, "
        "named_struct('x', null, 'y', date'2024-01-01', 'z', timestamp'2024-01-01 00:00:00', "
        "'w', map(timestamp'2024-01-01 00:00:00.25', array(timestamp_ntz'2024-01-01 01:00:00.5', null))) n, null o, "
        "cast(0 as decimal(20,18)) p, timestamp_ntz'2024-01-01 01:00:00' q",
    )
    assert rows == [
        [
            -1,
            9223372036854775807,
            Decimal("12345678901234567890.123456789012345678"),
            "NaN",
            Decimal("1.5"),
            "-Infinity",
            True,
            'q"\\\t\nü日😀',
            "62696E",
            "0001-01-01",
            "2024-02-29 12:34:56.5",
            [1, None],
            {"k": Decimal("1.50")},
            {
                "x": None,
                "y": "2024-01-01",
                "z": "2024-01-01 00:00:00",
                "w": {"2024-01-01 00:00:00.25": ["2024-01-01 01:00:00.5", None]},
            },
            None,
            Decimal("0.000000000000000000"),
            "2024-01-01 01:00:00",
        ]
    ]
    assert result.rows == 1
    assert [c.name for c in result.columns] == list("abcdefghijklmnopq")
    assert result.columns[2] == Column("c", "decimal(38,18)")
    assert result.columns[11] == Column("l", "array<int>")
    assert result.application_id == spark.sparkContext.applicationId


def test_order_and_limit_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    _, rows = query(spark, tmp_path, "select id, id as id from range(1000) order by -id", 3)
    assert rows == [[999, 999], [998, 998], [997, 997]]
    result, rows = query(spark, tmp_path, "select * from range(0, 5000, 1, 4)")
    assert (result.rows, rows) == (5000, [[i] for i in range(5000)])


def test_no_rows_leave_an_empty_file(spark: SparkSession, tmp_path: Path) -> None:
    result, rows = query(spark, tmp_path, "select 1 as a where false")
    assert (result.rows, rows, result.columns) == (0, [], (Column("a", "int"),))


def test_views_show_partition_columns_and_on_request_virtual_ones(
    spark: SparkSession, acid_table: Callable, tmp_path: Path
) -> None:
    table = acid_table("id int, c char(4)", partitioned_by="p int")
    table.insert("select 1, 'x', 7 union all select 2, 'y', 8")
    _, rows = query(
        spark, tmp_path, "select *, row__id.rowid from v where c = 'x'", None, View("v", table.snapshot(), True)
    )
    assert rows == [[1, "x", 7, {"writeid": 1, "bucketid": 536870912, "rowid": 0}, False, 0]]
    _, rows = query(spark, tmp_path, "select * from v where p > 7", None, View("v", table.snapshot()))
    assert rows == [[2, "y", 8]]


def test_no_column_and_any_column_can_be_read_alone(spark: SparkSession, acid_table: Callable, tmp_path: Path) -> None:
    """orc-core wraps the reader schema once more as soon as one of the six ACID columns is pruned from it."""
    table = acid_table("a array<int>, b string, c int, d struct<x:int,y:string>, operation int")
    table.insert("select array(1), 'b', 3, named_struct('x', 4, 'y', 'q'), 5")
    table.insert("select array(2), 'B', 30, named_struct('x', 40, 'y', 'Q'), 50")
    table.delete("c = 30")
    view = View("v", table.snapshot(), pseudo_columns=True)
    looks = [
        ("count(*)", "", 1),
        ("a[0]", "", 1),
        ("b", "", "b"),
        ("d.y", "", "q"),
        ("operation", "where operation = 5", 5),
        ("row__id.writeid", "", 1),
        ("count(1)", "where c is null", 0),
        ("max(c)", "where b like 'b%' and d.x in (4, 40)", 3),
    ]
    # In one query, of which each part reads the table for itself.
    parts = [f"select {n}, cast({what} as string) from v {where}" for n, (what, where, _) in enumerate(looks)]  # noqa: S608
    _, rows = query(spark, tmp_path, " union all ".join(parts), None, view)
    assert sorted(rows) == [[n, str(expected)] for n, (_, _, expected) in enumerate(looks)]


def test_columns_that_are_all_complex_can_be_read(spark: SparkSession, acid_table: Callable, tmp_path: Path) -> None:
    table = acid_table("a array<int>, m map<string,int>")
    table.insert("select array(1, 2), map('k', 1)")
    table.insert("select null, null")
    table.delete("a is null")
    _, rows = query(spark, tmp_path, "select m['k'], count(*) from v group by 1", None, View("v", table.snapshot()))
    assert rows == [[1, 1]]


def test_what_cannot_be_run_is_explained(spark: SparkSession, acid_table: Callable, tmp_path: Path) -> None:
    with pytest.raises(SqlSyntaxError, match="PARSE_SYNTAX_ERROR"):
        query(spark, tmp_path, "selec 1")
    with pytest.raises(InvalidArgumentsError, match=r"Spark cannot run .*UNRESOLVED_COLUMN.* `nope`"):
        query(spark, tmp_path, "select nope from range(1)")
    with pytest.raises(InvalidArgumentsError, match="DIVIDE_BY_ZERO"):
        query(spark, tmp_path, "select 1 / (id - id) from range(1)")
    with pytest.raises(InvalidArgumentsError, match="CAST_INVALID_INPUT"):
        query(spark, tmp_path, "select cast(concat('x', id) as int) from range(1)")
    table = acid_table("id int")
    table.insert("select 1")
    view = View("v", table.snapshot())
    (file,) = table.root.glob("delta*/bucket_00000")
    file.unlink()
    file.write_bytes(b"nonsense")
    with pytest.raises(CorruptTableError, match="delta_0000001_0000001_0000/bucket_00000"):
        query(spark, tmp_path, "select * from v", None, view)


def test_a_failed_step_is_a_result_with_the_class_of_its_error(spark: SparkSession, tmp_path: Path) -> None:
    result = execute(spark, JobSpec("j", Select("select nope", f"file:{tmp_path}/x")))
    assert result.error is not None
    assert (result.job_id, result.error.type) == ("j", "InvalidArgumentsError")
    assert "nope" in result.error.message
