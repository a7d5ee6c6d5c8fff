"""Casts to CHAR and VARCHAR, which Spark takes for STRING: the text that Spark runs cuts them."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.sql import parse_script, plan
from airflow_hive_acid.sql.model.plans import InsertTemplate, SelectTemplate, UpdateTemplate
from airflow_hive_acid.sql.model.statements import MultiInsert
from tests.unit.sql.catalog import Facts

TABLES = {"default.t": Facts("default.t", (Column("a", "string"), Column("s", "struct<f:string>")))}
VIEW = "SELECT CAST(a AS CHAR(2)) FROM default.t"
SEEN = Facts("default.seen", (Column("_c0", "char(2)"),), type="VIRTUAL_VIEW", view_text=VIEW)


def planned(query: str) -> str:
    (statement,) = parse_script(query)
    template = plan(statement, {**TABLES, "default.seen": SEEN}.__getitem__, parse=parse_script).template  # type: ignore[arg-type]
    assert isinstance(template, SelectTemplate)
    return template.query


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT CAST('ab' AS VARCHAR(3))", "SELECT substring(CAST('ab' AS STRING), 1, 3)"),
        ("SELECT cast(1 as char ( 3 )) x", "SELECT rtrim(substring(cast(1 as STRING), 1, 3)) x"),
        ("SELECT try_cast('(' AS Character(2))", "SELECT rtrim(substring(try_cast('(' AS STRING), 1, 2))"),
        (
            "SELECT CAST(CAST(1 AS CHAR(2)) AS VARCHAR(1)), 1",
            "SELECT substring(CAST(rtrim(substring(CAST(1 AS STRING), 1, 2)) AS STRING), 1, 1), 1",
        ),
        # Spark calls such a column by the column in it.
        ("SELECT CAST(a AS VARCHAR(2)) FROM t", "SELECT substring(CAST(a AS STRING), 1, 2) AS `a` FROM ha1_t AS `t`"),
        (
            "SELECT b FROM (SELECT CAST(t.a AS VARCHAR(2)) AS b FROM t WHERE CAST(a AS CHAR(1)) = 'x') q",
            "SELECT b FROM (SELECT substring(CAST(t.a AS STRING), 1, 2) AS b FROM ha1_t AS `t` "
            "WHERE rtrim(substring(CAST(a AS STRING), 1, 1)) = 'x') q",
        ),
        (
            "SELECT * FROM seen",
            "SELECT * FROM (SELECT * FROM (SELECT rtrim(substring(CAST(a AS STRING), 1, 2)) AS `_c0` "
            "FROM ha1_t AS `t`) AS `seen`(`_c0`)) AS `seen`",
        ),
        (
            "FROM (SELECT CAST(a AS CHAR(2)) AS b FROM t) q SELECT CAST(b AS VARCHAR(1)) AS c",
            "FROM (SELECT rtrim(substring(CAST(a AS STRING), 1, 2)) AS b FROM ha1_t AS `t`) q "
            "SELECT substring(CAST(b AS STRING), 1, 1) AS c",
        ),
        ("SELECT CAST(1 AS STRING), 'CAST(1 AS CHAR(2))', `char`(65)", None),
        ("SELECT CAST(array(a) AS ARRAY<VARCHAR(3)>), DATE '2024-01-01' FROM values ('x') v(a)", None),
    ],
)
def test_a_cast_is_cut_to_the_length_of_its_type(query: str, text: str | None) -> None:
    assert planned(query) == (query if text is None else text)


def test_expressions_of_changes_are_cut_too() -> None:
    (statement,) = parse_script("UPDATE t SET a = CAST('abc' AS CHAR(2)) WHERE CAST(a AS VARCHAR(1)) = 'x'")
    template = plan(statement, TABLES.__getitem__).template  # type: ignore[arg-type]
    assert isinstance(template, UpdateTemplate)
    assert template.assignments[0].expression == "rtrim(substring(CAST('abc' AS STRING), 1, 2))"
    assert template.where == "substring(CAST(a AS STRING), 1, 1) = 'x'"


def test_branches_of_one_insert_are_cut_and_what_they_read() -> None:
    (statement,) = parse_script(
        "FROM (SELECT CAST(a AS CHAR(2)) AS b FROM t) q INSERT INTO t SELECT CAST(b AS VARCHAR(1)), NULL "
        "INSERT INTO t SELECT b, NULL"
    )
    assert isinstance(statement, MultiInsert)
    templates = [plan(insert, TABLES.__getitem__).template for insert in statement.inserts]  # type: ignore[arg-type]
    texts = [template.query for template in templates if isinstance(template, InsertTemplate)]
    source = "FROM (SELECT rtrim(substring(CAST(a AS STRING), 1, 2)) AS b FROM ha1_t AS `t`) q"
    assert texts == [f"SELECT substring(CAST(b AS STRING), 1, 1) AS `b`, NULL {source}", f"SELECT b, NULL {source}"]


def test_a_double_colon_does_not_tell_where_its_value_begins() -> None:
    with pytest.raises(UnsupportedStatementError, match=r"line 1, column 11: write CAST\(… AS CHAR\(n\)\)"):
        planned("SELECT a::varchar(3) FROM t")
    assert planned("SELECT '1'::int") == "SELECT '1'::int"
