"""Timestamps with local time zone: instants, which Spark shows in UTC.

Hive 4.1 writes its own as 1970-01-01 00:00:00 and then fails to read the column, whichever ORC type the file gives it
("Unknown type TIMESTAMP_INSTANT"), so there is nothing of Hive's to compare with but the types of its file.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import orc

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.jobs import Column, PartitionRef
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.accelerator import SESSION_KEY
from airflow_hive_acid.spark.read import reader
from airflow_hive_acid.spark.read.reader import read_snapshot
from airflow_hive_acid.spark.read.text_files import TextLayout
from airflow_hive_acid.spark.versions import READS_INSTANTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIXTURES = Path(__file__).parents[3] / "fixtures"
COLUMNS = (
    Column("id", "int"),
    Column("at", "timestamp with local time zone"),
    Column("all", "array<struct<a:timestamp with local time zone>>"),
)


@pytest.fixture(params=["auto", *(["off"] if READS_INSTANTS else [])])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> SparkSession:
    made = spark.newSession()
    made.conf.set(SESSION_KEY, request.param)
    return made


def texts(frame: Any, column: str = "at") -> dict[int, str | None]:
    return {row[0]: row[1] for row in frame.selectExpr("id", f"cast({column} as string)").collect()}


def instants(file: Path, values: dict[int, datetime | None]) -> None:
    """An ACID file of write id 1 whose timestamps are ORC's TIMESTAMP_INSTANT, as Hive's are."""
    instant = pa.timestamp("us", tz="UTC")
    row = pa.struct([("id", pa.int32()), ("at", instant), ("all", pa.list_(pa.struct([("a", instant)])))])
    rows = [{"id": i, "at": v, "all": [{"a": v}]} for i, v in values.items()]
    n = len(rows)
    table = {
        "operation": pa.array([0] * n, pa.int32()),
        "originalTransaction": pa.array([1] * n, pa.int64()),
        "bucket": pa.array([1 << 29] * n, pa.int32()),
        "rowId": pa.array(range(n), pa.int64()),
        "currentTransaction": pa.array([1] * n, pa.int64()),
        "row": pa.array(rows, row),
    }
    file.parent.mkdir(parents=True)
    orc.write_table(pa.table(table), str(file), compression="zlib")
    (file.parent / "_orc_acid_version").write_text("2")


def test_what_hive_wrote_is_read_as_it_is_in_the_file(session: SparkSession, acid_table: Callable) -> None:
    root = FIXTURES / "types_tsltz" / "1_insert" / "tree" / "t"
    table = acid_table("id int")
    changes = {
        "columns": (Column("id", "int"), Column("c", "timestamp with local time zone")),
        "location": f"file://{root}",
        "partitions": (PartitionRef("", f"file://{root}"),),
        "write_ids": f"db.t:1:{2**63 - 1}::",
    }
    epoch = "1970-01-01 00:00:00"
    frame = read_snapshot(session, table.snapshot(**changes))
    assert texts(frame, "c") == {1: epoch, 2: epoch, 3: None, 4: epoch}


def test_instants_of_others_and_of_ours_are_read_written_compared_and_compacted(
    session: SparkSession, acid_table: Callable
) -> None:
    table = acid_table("id int")
    table.columns, table.spark = COLUMNS, session
    table.high = 1
    instants(
        table.root / "delta_0000001_0000001_0000" / "bucket_00000",
        {
            1: datetime(2024, 2, 29, 17, 34, 56, 500000, timezone.utc),
            2: datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc),
            3: None,
            4: datetime(1883, 11, 18, 12, 0, tzinfo=timezone.utc),
        },
    )
    table.insert("select 5, timestamp'2021-03-28 02:30:00 America/New_York', null")
    expected = {
        1: "2024-02-29 17:34:56.5",
        2: "1969-12-31 23:59:59",
        3: None,
        4: "1883-11-18 12:00:00",
        5: "2021-03-28 06:30:00",
    }
    frame = read_snapshot(session, table.snapshot())
    assert texts(frame) == expected
    assert texts(frame, "all[0].a") == {**expected, 5: None}
    assert [r.id for r in frame.where("at = timestamp'2024-02-29 12:34:56.5 America/New_York'").collect()] == [1]
    assert [r.id for r in frame.where("at < timestamp'1900-01-01'").collect()] == [4]
    table.update("id = 2", at="timestamp'2000-01-01 00:00:00+02:00'")
    table.delete("id = 4")
    expected = {1: expected[1], 2: "1999-12-31 22:00:00", 3: None, 5: expected[5]}
    assert texts(read_snapshot(session, table.snapshot())) == expected
    table.compact("major")
    assert texts(read_snapshot(session, table.snapshot())) == expected


def test_a_spark_that_cannot_read_instants_by_itself_says_what_helps(
    spark: SparkSession, acid_table: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark older than 4.2 without the jar."""
    table = acid_table("id int")
    table.columns, table.high = COLUMNS, 1
    instants(table.root / "delta_0000001_0000001_0000" / "bucket_00000", {1: None})
    monkeypatch.setattr(reader, "READS_INSTANTS", False)
    session = spark.newSession()
    session.conf.set(SESSION_KEY, "off")
    with pytest.raises(UnsupportedStatementError, match=r"column at of db\.t .* only with the optional jar"):
        read_snapshot(session, table.snapshot())


def test_texts_name_the_zone_so_that_hive_does_not_take_its_own(spark: SparkSession) -> None:
    column = schema.table_columns([Column("at", "timestamp with local time zone")], "db.t")
    layout = TextLayout("db.t", column, {}, {})
    line = spark.sql("select timestamp'2024-02-29 12:34:56.5 America/New_York' as at").selectExpr(layout.line())
    assert line.first() == ("2024-02-29 17:34:56.5 UTC",)
    divided, values = layout.parsed()
    lines = "select explode(array('2024-02-29 17:34:56.5 UTC', '2024-02-29 17:34:56.5 Asia/Tokyo', '\\\\N')) as value"
    read = spark.sql(lines).selectExpr("*", divided).selectExpr(*values).selectExpr("cast(at as string)")
    assert [r[0] for r in read.collect()] == ["2024-02-29 17:34:56.5", "2024-02-29 08:34:56.5", None]
