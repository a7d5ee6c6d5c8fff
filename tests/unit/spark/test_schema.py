"""Hive type texts as Spark types, and the SQL texts made of names, types and constants."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.spark import schema


def one(text: str) -> schema.TableColumn:
    (column,) = schema.table_columns([Column("C", text)], "db.t")
    return column


@pytest.mark.parametrize(
    ("hive", "spark"),
    [
        ("tinyint", "tinyint"),
        ("INT", "int"),
        ("double precision", "double"),
        ("decimal", "decimal(10,0)"),
        ("decimal(38, 18)", "decimal(38,18)"),
        ("numeric(5)", "decimal(5,0)"),
        ("timestamp", "timestamp"),
        ("array<timestamp with local time zone>", "array<timestamp>"),
        ("array<map<string,array<int>>>", "array<map<string,array<int>>>"),
        ("struct<x:int,y:struct<a b:string,z:decimal(3,1)>>", "struct<x:int,y:struct<a b:string,z:decimal(3,1)>>"),
        ("map<varchar(5),char(3)>", "map<string,string>"),
    ],
)
def test_hive_types_have_spark_types(hive: str, spark: str) -> None:
    assert one(hive).type.simpleString() == spark


def test_char_and_varchar_keep_their_length() -> None:
    assert (one("char(5)").length, one("char(5)").is_char) == (5, True)
    assert (one("varchar(7)").length, one("varchar(7)").is_char) == (7, False)
    assert (one("array<char(5)>").length, one("string").length) == (None, None)


@pytest.mark.parametrize("text", ["uniontype<int,string>", "interval_day_time"])
def test_types_that_hive_would_not_read_back_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedStatementError, match=r"column c of db\.t has the type"):
        one(text)


@pytest.mark.parametrize("text", ["", "array<int", "struct<int>", "int>", "map<string>"])
def test_texts_that_are_no_type_name_the_place(text: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"column c of db\.t: the type .* at character"):
        one(text)


def test_reserved_names_are_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match="start with __acid_"):
        schema.table_columns([Column("__ACID_x", "int")], "db.t")


def test_the_cheapest_column_keeps_a_scan_narrow() -> None:
    columns = schema.table_columns(
        [Column("s", "string"), Column("a", "array<int>"), Column("n", "bigint"), Column("b", "boolean")], "db.t"
    )
    assert schema.cheapest_column(schema.row_type(columns)) == "b"
    assert schema.cheapest_column(schema.row_type(columns[:2])) == "s"
    assert schema.cheapest_column(schema.row_type(columns[1:2])) is None


def test_events_have_exactly_six_columns_in_hives_order() -> None:
    row = T.StructType([T.StructField("id", T.IntegerType())])
    assert schema.event_schema(row).simpleString() == (
        "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,"
        "row:struct<id:int>>"
    )


def test_names_types_and_texts_are_quoted() -> None:
    assert schema.quoted("t", "a`b") == "`t`.`a``b`"
    assert schema.sql_text("it's a \\ path") == "'it\\'s a \\\\ path'"
    kind = T.StructType([T.StructField("a b", T.ArrayType(T.MapType(T.StringType(), T.DecimalType(5, 2))))])
    assert schema.sql_type(kind) == "struct<`a b`:array<map<string,decimal(5,2)>>>"
