"""Scripts: dividing them, and reading statements that sqlglot is not needed for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_hive_acid.format.jobs import Column, Source
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.alterations import AlterProperties, Compact
from airflow_hive_acid.sql.model.statements import (
    Begin,
    ColumnDefinition,
    Commit,
    CreateDatabase,
    CreateTable,
    CreateTemporaryView,
    Delete,
    DropDatabase,
    DropTable,
    Insert,
    Merge,
    Rollback,
    Select,
    Show,
    ShowKind,
    TableName,
    Update,
)


def test_semicolons_in_strings_names_and_comments_divide_nothing() -> None:
    script = """-- first; comment
SELECT 'a;b', "c;d", `e;f` -- g;h
FROM t; /* i;
j */ ;;
  DELETE FROM t WHERE name = 'it\\'s;'
;"""
    first, second = parse_script(script)
    assert isinstance(first, Select)
    assert (first.line, first.text) == (2, "SELECT 'a;b', \"c;d\", `e;f` -- g;h\nFROM t")
    assert isinstance(second, Delete)
    assert (second.line, second.text) == (5, "DELETE FROM t WHERE name = 'it\\'s;'")


@pytest.mark.parametrize("script", ["", "  \n", ";", " ; -- nothing\n;/* or this */"])
def test_a_script_may_be_empty(script: str) -> None:
    assert parse_script(script) == []


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE DATABASE demo", CreateDatabase("demo")),
        (
            "create schema if not exists Demo comment 'x' location '/w/demo' with dbproperties ('a'='b')",
            CreateDatabase("demo", True, "x", "/w/demo", {"a": "b"}),
        ),
        ("DROP DATABASE IF EXISTS demo CASCADE", DropDatabase("demo", True, True)),
        ("DROP SCHEMA demo RESTRICT", DropDatabase("demo")),
        ("DROP TABLE demo.T", DropTable(TableName("demo", "t"))),
        ("DROP TABLE IF EXISTS t PURGE", DropTable(TableName("default", "t"), True, True)),
        ("BEGIN", Begin()),
        ("begin transaction", Begin()),
        ("START TRANSACTION", Begin()),
        ("COMMIT", Commit()),
        ("ROLLBACK WORK", Rollback()),
        ("SHOW LOCKS", Show(ShowKind.LOCKS)),
        ("SHOW LOCKS demo.t EXTENDED", Show(ShowKind.LOCKS, TableName("demo", "t"), extended=True)),
        (
            "SHOW LOCKS t PARTITION (ds = '2024-01-01', h=-1)",
            Show(ShowKind.LOCKS, TableName("default", "t"), (("ds", "2024-01-01"), ("h", "-1"))),
        ),
        ("show transactions", Show(ShowKind.TRANSACTIONS)),
        ("SHOW COMPACTIONS", Show(ShowKind.COMPACTIONS)),
        ("ALTER TABLE t COMPACT 'MAJOR'", Compact(TableName("default", "t"), "major")),
        (
            "ALTER TABLE d.t SET TBLPROPERTIES ('transactional'='true', 'EXTERNAL' = 'FALSE')",
            AlterProperties(TableName("d", "t"), {"transactional": "true", "EXTERNAL": "FALSE"}),
        ),
        ("ALTER TABLE t COMPACT 'rebalance'", Compact(TableName("default", "t"), "rebalance")),
        (
            "ALTER TABLE t COMPACT 'Rebalance' CLUSTERED INTO 3 BUCKETS AND WAIT ORDER BY a DESC, `b c`",
            Compact(TableName("default", "t"), "rebalance", (), True, 3, "ORDER BY a DESC, `b c`"),
        ),
        (
            "alter table demo.t partition (ds=date '2024-01-01') compact 'minor' and wait",
            Compact(TableName("demo", "t"), "minor", (("ds", "2024-01-01"),), True),
        ),
    ],
)
def test_statements_that_need_no_plan(sql: str, expected: object) -> None:
    (statement,) = parse_script(sql)
    assert statement.text == sql
    assert replace(statement, text="") == expected


def test_create_table_with_everything() -> None:
    (statement,) = parse_script(
        """CREATE TABLE IF NOT EXISTS demo.Orders (
             id INTEGER COMMENT 'the key; unique', `Net Amount` DECIMAL(12, 2),
             tags array<array<string>>, address struct<street:string, at:map<string,double>>
           ) COMMENT 'orders' PARTITIONED  BY (ds string COMMENT 'day', h int)
           CLUSTERED BY (id) INTO 4 BUCKETS STORED AS ORC LOCATION 's3a://b/orders'
           TBLPROPERTIES ('transactional'='true', 'orc.compress'='ZLIB')"""
    )
    assert isinstance(statement, CreateTable)
    assert statement.table == TableName("demo", "orders")
    assert statement.columns == (
        ColumnDefinition("id", "int", "the key; unique"),
        ColumnDefinition("net amount", "decimal(12,2)"),
        ColumnDefinition("tags", "array<array<string>>"),
        ColumnDefinition("address", "struct<street:string,at:map<string,double>>"),
    )
    assert statement.partition_columns == (ColumnDefinition("ds", "string", "day"), ColumnDefinition("h", "int"))
    assert (statement.bucket_columns, statement.bucket_count) == (("id",), 4)
    assert (statement.if_not_exists, statement.external, statement.comment) == (True, False, "orders")
    assert statement.location == "s3a://b/orders"
    assert statement.properties == {"transactional": "true", "orc.compress": "ZLIB"}


def test_the_order_inside_of_buckets() -> None:
    (statement,) = parse_script(
        "CREATE TABLE t (a int, b int) CLUSTERED BY (a) SORTED BY (B DESC, a ASC) INTO 2 BUCKETS"
    )
    assert isinstance(statement, CreateTable)
    assert statement.sort_columns == (("b", False), ("a", True))
    (statement,) = parse_script("CREATE TABLE t (a int) CLUSTERED BY (a) SORTED BY (a) INTO 2 BUCKETS")
    assert isinstance(statement, CreateTable)
    assert statement.sort_columns == (("a", True),)


def test_an_unbucketed_table_says_so_as_the_catalog_does() -> None:
    (statement,) = parse_script("CREATE TABLE t (id int)")
    assert isinstance(statement, CreateTable)
    assert (statement.bucket_columns, statement.bucket_count) == ((), -1)


def test_a_temporary_view_over_files() -> None:
    (statement,) = parse_script(
        "CREATE OR REPLACE TEMPORARY VIEW Late (id int, note varchar(10)) USING CSV "
        "OPTIONS (path '/in/late.csv', header true, 'sep' = '\\t', nullValue='NA', maxColumns 30, a.b 'c')"
    )
    assert isinstance(statement, CreateTemporaryView)
    assert statement.replace
    assert statement.source == Source(
        "late",
        "csv",
        {"path": "/in/late.csv", "header": "true", "sep": "\t", "nullValue": "NA", "maxColumns": "30", "a.b": "c"},
        (Column("id", "int"), Column("note", "varchar(10)")),
    )


def test_unqualified_tables_belong_to_the_default_database_of_the_script() -> None:
    (statement,) = parse_script("DELETE FROM t", default_database="Demo")
    assert isinstance(statement, Delete)
    assert statement.table == TableName("demo", "t")


def texts(statement: object, *names: str) -> list[str]:
    script = statement.script  # type: ignore[attr-defined]
    return [" | ".join(script[a:b] for a, b in getattr(statement, name).ranges) for name in names]


def test_insert_with_partition_columns_and_query() -> None:
    (statement,) = parse_script("INSERT INTO TABLE demo.days PARTITION (ds='a/b', H) (id, V) SELECT 1, 'x', 2")
    assert isinstance(statement, Insert)
    assert statement.partition == (("ds", "a/b"), ("h", None))
    assert (statement.columns, statement.overwrite) == (("id", "v"), False)
    assert texts(statement, "query") == ["SELECT 1, 'x', 2"]


@pytest.mark.parametrize(
    ("sql", "query"),
    [
        ("INSERT OVERWRITE TABLE t VALUES (1, 'a', 2.5), (2, 'b', 3)", "VALUES (1, 'a', 2.5), (2, 'b', 3)"),
        ("INSERT OVERWRITE t (SELECT 1, 2, 3)", "(SELECT 1, 2, 3)"),
        ("INSERT INTO t WITH q AS (SELECT 1) SELECT * FROM q", "WITH q AS (SELECT 1) SELECT * FROM q"),
        ("WITH q AS (SELECT 1) INSERT INTO t SELECT * FROM q", "WITH q AS (SELECT 1) | SELECT * FROM q"),
        ("INSERT INTO t FROM u SELECT id", "FROM u SELECT id"),
    ],
)
def test_the_query_of_an_insert(sql: str, query: str) -> None:
    (statement,) = parse_script(sql)
    assert isinstance(statement, Insert)
    assert texts(statement, "query") == [query]
    assert statement.columns == ()


def test_update_divides_its_assignments() -> None:
    (statement,) = parse_script(
        "UPDATE demo.t AS x SET a = CASE WHEN b = 1 THEN 2 ELSE 3 END, x.c = f(a, 'y, z'), d = (SELECT max(e) FROM u) "
        "WHERE id IN (SELECT id FROM v WHERE w = 1) AND a > 0"
    )
    assert isinstance(statement, Update)
    assert (statement.table, statement.alias) == (TableName("demo", "t"), "x")
    assert [(column, statement.script[slice(*value.ranges[0])]) for column, value in statement.assignments] == [
        ("a", "CASE WHEN b = 1 THEN 2 ELSE 3 END"),
        ("c", "f(a, 'y, z')"),
        ("d", "(SELECT max(e) FROM u)"),
    ]
    assert texts(statement, "where") == ["id IN (SELECT id FROM v WHERE w = 1) AND a > 0"]


def test_a_delete_may_have_an_alias_and_no_condition() -> None:
    with_alias, plain = parse_script("DELETE FROM demo.t x WHERE x.a = 1; DELETE FROM t")
    assert isinstance(with_alias, Delete)
    assert isinstance(plain, Delete)
    assert (with_alias.alias, plain.alias, plain.where) == ("x", "t", None)


def test_merge_with_several_clauses() -> None:
    (statement,) = parse_script(
        "MERGE INTO demo.t AS t USING (SELECT * FROM s) AS u ON t.id = u.id AND u.k = CASE WHEN t.a > 1 THEN 1 END "
        "WHEN MATCHED AND u.op = 'D' THEN DELETE "
        "WHEN MATCHED AND CASE WHEN u.op = 'U' THEN true END THEN UPDATE SET a = u.a, b = 'x' "
        "WHEN MATCHED THEN UPDATE SET b = NULL "
        "WHEN NOT MATCHED BY TARGET AND u.a > 1 THEN INSERT (id, a) VALUES (u.id, coalesce(u.a, 0)) "
        "WHEN NOT MATCHED THEN INSERT VALUES (u.id, 1, 2)"
    )
    assert isinstance(statement, Merge)
    assert (statement.alias, statement.source_alias) == ("t", "u")
    assert texts(statement, "source", "on") == [
        "SELECT * FROM s",
        "t.id = u.id AND u.k = CASE WHEN t.a > 1 THEN 1 END",
    ]
    script = statement.script
    assert [(w.matched, w.action, w.condition and script[slice(*w.condition.ranges[0])]) for w in statement.whens] == [
        (True, "delete", "u.op = 'D'"),
        (True, "update", "CASE WHEN u.op = 'U' THEN true END"),
        (True, "update", None),
        (False, "insert", "u.a > 1"),
        (False, "insert", None),
    ]
    assert [(c, script[slice(*v.ranges[0])]) for c, v in statement.whens[1].assignments] == [("a", "u.a"), ("b", "'x'")]
    inserted = statement.whens[3]
    assert inserted.columns == ("id", "a")
    assert [script[slice(*v.ranges[0])] for v in inserted.values] == ["u.id", "coalesce(u.a, 0)"]


def test_the_source_of_a_merge_may_be_a_table() -> None:
    (statement,) = parse_script("MERGE INTO t USING demo.s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert isinstance(statement, Merge)
    assert statement.source_alias == "s"
    assert texts(statement, "source") == ["demo.s"]


def test_end_is_a_name_where_no_case_is_open() -> None:
    """A window of Spark has a start and an end; each ended the brackets around it before."""
    (merge,) = parse_script(
        "MERGE INTO t USING (SELECT max(w.end) AS last, CASE WHEN a THEN concat(w.end, b) END c FROM s GROUP BY w) s "
        "ON t.a = s.last WHEN MATCHED THEN UPDATE SET b = concat(s.end, 'x'), c = t.case WHEN NOT MATCHED THEN INSERT *"
    )
    assert isinstance(merge, Merge)
    assert [column for column, _ in merge.whens[0].assignments] == ["b", "c"]
    assert merge.whens[1].star is not None
