"""Which columns of a query have a CHAR or VARCHAR of a table, as Hive keeps it in CREATE TABLE … AS and in views."""

from __future__ import annotations

import pytest

from airflow_hive_acid.format.jobs import Column, Source
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.lineage.declared import declared_types, without_lengths
from airflow_hive_acid.sql.model.statements import Select
from tests.unit.sql.catalog import VIEWS, Facts

NESTED = "struct<a:varchar(4),b:array<char(2)>>"
TABLES = {
    table.qualified_name: table
    for table in (
        Facts("default.t", (Column("id", "int"), Column("c", "char(5)"), Column("v", "varchar(7)"),
                            Column("n", NESTED), Column("s", "string")), (Column("k", "char(3)"),)),
        Facts("default.u", (Column("id", "int"), Column("c", "char(9)"), Column("v", "varchar(7)"),
                            Column("n", "struct<a:varchar(5),b:array<char(2)>>"))),
        Facts("default.seen", (Column("x", "string"),), type="VIRTUAL_VIEW", view_text="SELECT c AS y FROM default.t"),
    )
}  # fmt: skip


SEEN = {**VIEWS, "kept": Source("kept", "parquet", {}, (Column("a", "char(4)"), Column("b", "string")))}


def types(query: str) -> list[str | None]:
    (select,) = parse_script(query)
    assert isinstance(select, Select)
    return [kind for _, kind in declared_types(select, TABLES.__getitem__, SEEN, {}, parse_script)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("SELECT * FROM t", [None, "char(5)", "varchar(7)", NESTED, None, "char(3)"]),
        ("SELECT c AS a, (v), t.k FROM t", ["char(5)", "varchar(7)", "char(3)"]),
        ("SELECT trim(c), concat(v), CAST(c AS STRING), n.a, c || '', greatest(c, k) FROM t", [None] * 6),
        (
            "SELECT upper(c), lower(nullif(v, c)), nullif(s, c), nullif(NULL, c) FROM t",
            ["char(5)", "varchar(7)", None, None],
        ),
        (
            "SELECT CAST(s AS CHAR(3)), try_cast(id AS varchar(2)), nvl(c, CAST('a' AS CHAR(5))), CAST(n AS STRING), "
            "concat(CAST(s AS CHAR(3)), s), CAST(NULL AS CHAR(4)) FROM t",
            ["char(3)", "varchar(2)", "char(5)", None, None, "char(4)"],
        ),
        ("SELECT c FROM t UNION ALL SELECT CAST('a' AS CHAR(9))", ["char(9)"]),
        ("SELECT NULL UNION ALL SELECT c FROM t UNION SELECT NULL", ["char(5)"]),
        ("SELECT NULL, if(id = 1, NULL, v) FROM t UNION ALL SELECT v, NULL FROM t", ["varchar(7)"] * 2),
        ("SELECT NULL, nvl(NULL, NULL)", [None, None]),
        ("SELECT c FROM t UNION ALL SELECT concat(c, NULL) FROM t", [None]),
        ("SELECT q.a FROM (SELECT c AS a FROM t) q", ["char(5)"]),
        ("WITH q(a) AS (SELECT v FROM t) SELECT a FROM q", ["varchar(7)"]),
        ("SELECT x FROM seen", ["char(5)"]),
        ("SELECT c, count(*) FROM t GROUP BY c", ["char(5)", None]),
        ("SELECT DISTINCT t.c, u.c FROM t LEFT JOIN u ON t.id = u.id", ["char(5)", "char(9)"]),
        ("SELECT id, c FROM t FULL JOIN u USING (id, c)", [None, "char(9)"]),
        ("SELECT c, v, n FROM t UNION ALL SELECT c, v, n FROM u", ["char(9)", "varchar(7)", None]),
        ("SELECT c FROM t UNION SELECT v FROM u", [None]),
        ("SELECT c FROM t UNION ALL SELECT s FROM t", [None]),
        # A constant, or what is made of a column, may be longer.
        ("SELECT c FROM t UNION ALL SELECT 'longer'", [None]),
        ("SELECT 'longer' UNION ALL SELECT c FROM t", [None]),
        ("SELECT c FROM t UNION ALL SELECT concat(c, c) FROM t", [None]),
        ("SELECT a FROM (SELECT c AS a FROM t UNION ALL SELECT 'longer') q", [None]),
        ("SELECT c FROM t INTERSECT SELECT 'x'", ["char(5)"]),
        ("SELECT CASE WHEN id = 1 THEN c ELSE 'longer' END FROM t", [None]),
        ("SELECT coalesce(c, 'longer') FROM t", [None]),
        ("SELECT CASE id WHEN 1 THEN c WHEN 2 THEN NULL END, if(v = '', v, (NULL)) FROM t", ["char(5)", "varchar(7)"]),
        (
            "SELECT coalesce(t.v, u.v), nvl(t.c, t.c), CASE WHEN true THEN nvl(t.v, u.v) ELSE u.v END FROM t JOIN u",
            ["varchar(7)", "char(5)", "varchar(7)"],
        ),
        # Of two lengths, which in a UNION are the larger one, Hive makes a STRING here.
        ("SELECT coalesce(t.c, u.c), if(t.id = 1, t.c, t.v), nvl(s, c) FROM t JOIN u", [None] * 3),
        ("SELECT nvl(trim(c), c), coalesce(c, id), CASE WHEN c = '' THEN 'a' ELSE NULL END FROM t", [None] * 3),
        ("SELECT nvl(c, c) FROM t UNION ALL SELECT c FROM u", ["char(9)"]),
        (
            "SELECT max(c), min(v), max(trim(c)), max(nvl(v, v)) FILTER (WHERE id > 1) FROM t",
            ["char(5)", "varchar(7)", None, "varchar(7)"],
        ),
        (
            "SELECT first_value(c) OVER (ORDER BY id), lag(v, 1, 'none') OVER w, lead(v) OVER w FROM t WINDOW w AS ()",
            ["char(5)", None, "varchar(7)"],
        ),
        (
            "SELECT last_value(c, true) OVER w, first_value(v) IGNORE NULLS OVER w, max(DISTINCT c), lag(NULL) OVER w "
            "FROM t WINDOW w AS ()",
            ["char(5)", "varchar(7)", "char(5)", None],
        ),
        (
            "SELECT * FROM u CHANGES BETWEEN 1 AND 2",
            [None, "char(9)", "varchar(7)", TABLES["default.u"].columns[3].type] + [None] * 3,
        ),
        ("SELECT a, b, nvl(b, a) FROM kept", ["char(4)", None, None]),
        ("SELECT carrier FROM src", [None]),
        ("SELECT e FROM t LATERAL VIEW explode(n.b) w AS e", [None]),
        ("SELECT l.a FROM t, LATERAL (SELECT c AS a) l", ["char(5)"]),
        ("SELECT * FROM raw", []),
    ],
)
def test_a_column_that_nothing_was_made_of_keeps_its_length(query: str, found: list[str | None]) -> None:
    assert types(query) == found


def test_a_type_without_lengths_is_what_spark_computes_with() -> None:
    assert without_lengths(NESTED) == "struct<a:string,b:array<string>>"
    assert without_lengths("map<varchar(3),int>") == "map<string,int>"
    assert without_lengths("decimal(10,2)") == "decimal(10,2)"
