"""FROM … INSERT … INSERT, TRUNCATE and CREATE TABLE … AS as values."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import SqlSyntaxError, UnsupportedStatementError
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.statements import CreateTable, MultiInsert, Select, TableName, Truncate


def text_of(statement, fragment):
    return " ".join(statement.script[begin:end] for begin, end in fragment.ranges)


def test_each_branch_is_an_insert_with_the_common_from_clause():
    (statement,) = parse_script(
        "FROM (SELECT id, name FROM src WHERE id > 0) s\n"
        "INSERT INTO TABLE a SELECT s.id, 'from; INSERT' WHERE name LIKE 'x%' GROUP BY s.id\n"
        "INSERT OVERWRITE TABLE db.p PARTITION (k='v') SELECT id\n"
        "INSERT INTO c (x) SELECT name LIMIT 3"
    )
    assert isinstance(statement, MultiInsert)
    common = "FROM (SELECT id, name FROM src WHERE id > 0) s"
    assert [(str(i.table), i.overwrite, i.partition, i.columns) for i in statement.inserts] == [
        ("default.a", False, (), ()),
        ("db.p", True, (("k", "v"),), ()),
        ("default.c", False, (), ("x",)),
    ]
    assert [text_of(statement, i.query) for i in statement.inserts] == [
        f"SELECT s.id, 'from; INSERT' {common} WHERE name LIKE 'x%' GROUP BY s.id",
        f"SELECT id {common}",
        f"SELECT name {common} LIMIT 3",
    ]


def test_a_query_that_begins_with_from_is_still_a_query():
    (statement,) = parse_script("FROM t SELECT id")
    assert isinstance(statement, Select)


@pytest.mark.parametrize(
    "common",
    [
        "(SELECT id, uuid() AS key FROM t) s",
        "(SELECT id, rand() < 0.5 AS half FROM t) s",
        "(SELECT id FROM t ORDER BY shuffle(tags)[0] LIMIT 5) s",
        "(SELECT id, monotonically_increasing_id() AS n FROM t) s",
        "t TABLESAMPLE (10 PERCENT) s",
    ],
)
def test_a_common_from_clause_that_each_branch_would_read_otherwise_is_refused(common):
    """A Hive reads it once: keys that two tables share, or halves that make a whole, would not be."""
    with pytest.raises(UnsupportedStatementError, match=r"each branch .* would get other rows"):
        parse_script(f"FROM {common} INSERT INTO a SELECT id INSERT INTO b SELECT id")
    (alone,) = parse_script(f"FROM {common} INSERT INTO a SELECT id")
    assert isinstance(alone, MultiInsert)


@pytest.mark.parametrize(
    "text",
    [
        "FROM (SELECT rand(7) AS r, s.uuid AS u, 'rand()' FROM t s) q INSERT INTO a SELECT u INSERT INTO b SELECT r",
        "FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (3) s INSERT INTO a SELECT id INSERT INTO b SELECT id",
        "FROM t INSERT INTO a SELECT id, uuid() INSERT INTO b SELECT id WHERE rand() < 0.5",
    ],
)
def test_what_is_the_same_for_each_branch_or_of_one_alone_is_not(text):
    (statement,) = parse_script(text)
    assert len(statement.inserts) == 2


def test_a_comparison_by_is_distinct_from_is_no_from_clause():
    (statement,) = parse_script("FROM t INSERT INTO a SELECT id IS DISTINCT FROM name WHERE id IS NOT DISTINCT FROM 1")
    assert [text_of(statement, i.query) for i in statement.inserts] == [
        "SELECT id IS DISTINCT FROM name FROM t WHERE id IS NOT DISTINCT FROM 1"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FROM t INSERT INTO a VALUES (1)", "expected SELECT"),
        ("FROM t INSERT INTO a SELECT id FROM u", "has a FROM clause already"),
        ("FROM t INSERT INTO a", "expected VALUES or SELECT"),
    ],
)
def test_a_branch_that_is_no_select_is_underlined(text, problem):
    with pytest.raises(SqlSyntaxError, match=problem):
        parse_script(text)


def test_truncate_names_a_table_and_perhaps_partitions():
    whole, some = parse_script("TRUNCATE TABLE db.t; TRUNCATE t PARTITION (k='a', n=1)")
    assert isinstance(whole, Truncate)
    assert (whole.table, whole.partition) == (TableName("db", "t"), ())
    assert some.partition == (("k", "a"), ("n", "1"))


def test_create_table_as_has_a_query_and_no_columns():
    (statement,) = parse_script(
        "CREATE TABLE IF NOT EXISTS db.t COMMENT 'x' STORED AS PARQUET TBLPROPERTIES ('a'='b') AS SELECT 1 AS id"
    )
    assert isinstance(statement, CreateTable)
    assert (statement.columns, statement.stored_as, statement.comment) == ((), "parquet", "x")
    assert text_of(statement, statement.query) == "SELECT 1 AS id"


@pytest.mark.parametrize(
    ("text", "kind", "problem"),
    [
        ("CREATE TABLE t (a INT) AS SELECT 1", SqlSyntaxError, "takes its columns from the query"),
        ("CREATE EXTERNAL TABLE t AS SELECT 1", UnsupportedStatementError, "CREATE EXTERNAL TABLE … AS"),
        ("TRUNCATE TABLE t COLUMNS (a)", UnsupportedStatementError, "COLUMNS is not supported"),
    ],
)
def test_what_cannot_be_is_refused(text, kind, problem):
    with pytest.raises(kind, match=problem):
        parse_script(text)
