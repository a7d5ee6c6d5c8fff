"""What a table definition may say, and how names and types are spelt in the catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError, UnsafePathError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog.values.definitions import check_definition
from airflow_hive_acid.metastore.catalog.values.model import (
    FieldSchema,
    Storage,
    StorageIds,
    Table,
    TableDefinition,
    check_location,
)
from airflow_hive_acid.metastore.catalog.values.types import normalise_type
from tests.tables import flat_table

ID = (Column("id", "int"),)


def table(*keys: Column) -> Table:
    return flat_table("d", "t", 1, "file:/w/t", ID, keys, {}, None, "MANAGED_TABLE")


def test_what_is_asked_of_a_table_is_said_by_its_storage() -> None:
    fields = (FieldSchema("id", "int", ""), FieldSchema("v", "string", "a value"))
    storage = Storage(fields, None, "i", "o", (None, "s"), {"k": "v"}, 2, ("id",), (("id", 1), ("v", 0)))
    keys = (FieldSchema("p", "date", "a day"),)
    view = Table("d", "t", 1, None, "USER", 0, 0, 0, storage, keys, {}, "T", required=frozenset({"id"}))
    assert view.columns == (Column("id", "int", required=True), Column("v", "string"))
    assert view.partition_columns == (Column("p", "date"),)
    assert view.comments == {"v": "a value", "p": "a day"}
    assert (view.location, view.serde, view.serde_properties) == ("", "s", {"k": "v"})
    assert view.sort_columns == (("id", True), ("v", False))
    stored = replace(view, storage=replace(storage, ids=StorageIds(1, 2, 3)))
    assert stored == view, "where it was read is no part of what it is"


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("INT", "int"), ("Integer", "int"), (" bigint ", "bigint"), ("DECIMAL", "decimal(10,0)"),
        ("decimal( 12 , 2 )", "decimal(12,2)"), ("numeric(5)", "decimal(5,0)"), ("DOUBLE PRECISION", "double"),
        ("varchar(20)", "varchar(20)"), ("CHAR(3)", "char(3)"), ("array<INTEGER>", "array<int>"),
        ("MAP<string, array<DOUBLE>>", "map<string,array<double>>"),
        ("struct<A: int, `b`:struct<c:decimal(3,1)>>", "struct<a:int,b:struct<c:decimal(3,1)>>"),
        ("timestamp", "timestamp"), ("binary", "binary"),
    ],
)  # fmt: skip
def test_types_are_stored_as_hive_spells_them(written: str, stored: str) -> None:
    assert normalise_type(written) == stored


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "money", "decimal(39,2)", "decimal(5,6)", "decimal(", "varchar", "varchar(0)", "char(256)",
        "array<int", "array<>", "map<array<int>,int>", "struct<>", "struct<a int>", "struct<a:int,a:int>", "int int",
        "int; DROP TABLE t", "int\0", "uniontype<int,string>", "interval", "timestamp with local time zone",
        "array<" * 30 + "int" + ">" * 30, "x" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="column type"):
        normalise_type(text)


def test_a_table_is_full_acid_unless_it_says_otherwise() -> None:
    checked = check_definition(TableDefinition("Sales", "Orders", (Column("ID", "INTEGER"),), location="file:///w/o/"))
    assert (checked.db, checked.name, checked.columns) == ("sales", "orders", ID)
    assert checked.properties == {"transactional": "true", "transactional_properties": "default"}
    assert checked.location == "file:/w/o"
    insert_only = check_definition(TableDefinition("d", "t", ID, properties={
        "TRANSACTIONAL": "TRUE", "transactional_properties": "Insert_Only", "orc.compress": "ZSTD"}))  # fmt: skip
    assert insert_only.properties == {
        "transactional": "true", "transactional_properties": "insert_only", "orc.compress": "ZSTD"}  # fmt: skip


@pytest.mark.parametrize("name", ["", "a b", "a-b", "a'b", 'a"b', "..", "a/b", "a\0b", "é", "x" * 4000, "a%b", "a.b.c"])
def test_a_name_that_hive_would_not_accept_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"name"):
        check_definition(TableDefinition("d", name, ID))
    with pytest.raises(InvalidArgumentsError, match=r"name"):
        check_definition(TableDefinition(name, "t", ID))


@pytest.mark.parametrize("name", ["", " ", " a", "a.b", "a`b", "a'b", "a\0", "a\n", "x" * 768, "row__id", "ROW__ID"])
def test_a_column_name_that_breaks_things_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="column"):
        check_definition(TableDefinition("d", "t", (*ID, Column(name, "int"))))


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        (TableDefinition("d", "t", ()), "at least one column"),
        (TableDefinition("d", "t", (*ID, Column("ID", "int"))), "id twice"),
        (TableDefinition("d", "t", ID, ID), "id twice"),
        (TableDefinition("d", "t", ID, (Column("p", "array<int>"),)), "partition column p"),
        (TableDefinition("d", "t", ID, bucket_columns=("x",), bucket_count=2), "clustered by x"),
        (TableDefinition("d", "t", ID, bucket_columns=("id",)), "number of buckets"),
        (TableDefinition("d", "t", ID, bucket_count=4), "CLUSTERED BY"),
        (TableDefinition("d", "t", ID, bucket_columns=("id",), bucket_count=5000), "at most 4096"),
        (TableDefinition("d", "t", ID, sort_columns=(("id", True),)), "needs CLUSTERED BY"),
        (
            TableDefinition("d", "t", ID, bucket_columns=("id",), bucket_count=2, sort_columns=(("id", True),)),
            r"table d\.t cannot support full ACID functionality since it is sorted",
        ),
        (
            TableDefinition(
                "d",
                "t",
                ID,
                properties={"transactional": "false"},
                bucket_columns=("id",),
                bucket_count=2,
                sort_columns=(("x", True),),
            ),
            "sorted by x",
        ),
        (
            TableDefinition(
                "d",
                "t",
                ID,
                external=True,
                bucket_columns=("id",),
                bucket_count=2,
                sort_columns=(("id", True), ("ID", False)),
            ),
            "SORTED BY names a column twice",
        ),
        (TableDefinition("d", "t", ID, stored_as="avro"), "a transactional table is not made of AVRO files"),
        (
            TableDefinition("d", "t", ID, properties={"transactional_properties": "default"}, stored_as="parquet"),
            "must be stored using an ACID compliant format",
        ),
        (TableDefinition("d", "t", ID, properties={"transactional": "maybe"}), "'maybe'"),
        (TableDefinition("d", "t", ID, properties={"transactional_properties": "x"}), "insert_only"),
        (TableDefinition("d", "t", ID, properties={"": "x"}), "property"),
        (TableDefinition("d", "t", ID, properties={"transactional": "true"}, external=True), "leave out EXTERNAL"),
    ],
)
def test_a_definition_that_cannot_be_is_refused_with_what_is_wrong(definition: TableDefinition, said: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=said):
        check_definition(definition)


@pytest.mark.parametrize("location", ["w/t", "file:/w/../x", "/w/%2e%2e/x", "", "/w\0"])
def test_a_location_must_be_one_place(location: str) -> None:
    with pytest.raises(UnsafePathError):
        check_location(location)


def test_locations_are_written_as_hadoop_writes_them() -> None:
    assert check_location("/w//t/") == "file:/w/t"
    assert check_location("file:///w/ds=a%2Fb") == "file:/w/ds=a%2Fb"
    assert check_location("S3A://bucket/w/") == "s3a://bucket/w"


def test_a_partition_may_be_given_by_name_values_or_columns() -> None:
    t = table(Column("ds", "string"), Column("h", "int"))
    for spec in ("ds=a%2Fb c/h=1", ("a/b c", "1"), {"DS": "a/b c", "h": "1"}):
        assert t.partition_name(spec) == "ds=a%2Fb c/h=1"
    assert t.partition_name((None, "1")) == "ds=__HIVE_DEFAULT_PARTITION__/h=1"
    assert t.partition_name(("é漢", "-5")) == "ds=é漢/h=-5"


@pytest.mark.parametrize(
    "spec",
    ["ds=1", "h=1/ds=1", "ds=1/h=1/x=1", "ds", ("1",), ("1", "2", "3"), {"ds": "1"}, {"ds": "1", "x": "2"}, ("a", "b"),
     ("a", "007"), ("a\0", "1"), ("x" * 257, "1"), ("%" * 256, "1")],
)  # fmt: skip
def test_what_is_not_a_partition_of_the_table_is_refused(spec: object) -> None:
    with pytest.raises(InvalidArgumentsError):
        table(Column("ds", "string"), Column("h", "int")).partition_name(spec)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentsError, match="not partitioned"):
        table().partition_name("ds=1")


def test_dates_are_partitions_only_in_hives_spelling() -> None:
    t = table(Column("d", "date"))
    assert t.partition_name(("2024-01-05",)) == "d=2024-01-05"
    with pytest.raises(InvalidArgumentsError, match="yyyy-mm-dd"):
        t.partition_name(("2024-1-5",))
