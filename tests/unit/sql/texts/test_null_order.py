"""Where NULLs stand in an order that does not say it: the text that Spark runs says what Hive 4 means."""

from __future__ import annotations

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.sql import parse_script, plan
from airflow_hive_acid.sql.model.plans import DeleteTemplate, SelectTemplate
from tests.unit.sql.catalog import Facts

NAMES = ("start", "end", "rows", "limit", "nulls", "desc", "case")
TABLES = {
    "default.t": Facts("default.t", (Column("a", "int"), Column("b", "string"), *(Column(n, "int") for n in NAMES)))
}


def planned(query: str) -> str:
    (statement,) = parse_script(query)
    template = plan(statement, TABLES.__getitem__).template  # type: ignore[arg-type]
    assert isinstance(template, SelectTemplate)
    return template.query.replace("ha1_t AS `t`", "t")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a NULLS LAST"),
        (
            "SELECT a FROM t ORDER BY a DESC, concat(b, 'x, y') ASC, 1 LIMIT 3 -- the end",
            "SELECT a FROM t ORDER BY a DESC NULLS FIRST, concat(b, 'x, y') ASC NULLS LAST, 1 NULLS LAST LIMIT 3",
        ),
        (
            "SELECT a FROM t ORDER BY CASE WHEN a IN (1, 2) THEN b END desc, b IS DISTINCT FROM 'x'",
            "SELECT a FROM t ORDER BY CASE WHEN a IN (1, 2) THEN b END desc NULLS FIRST, "
            "b IS DISTINCT FROM 'x' NULLS LAST",
        ),
        (
            "SELECT row_number() OVER (PARTITION BY b ORDER BY a DESC), sum(a) OVER w FROM t "
            "WINDOW w AS (ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            "SELECT row_number() OVER (PARTITION BY b ORDER BY a DESC NULLS FIRST), sum(a) OVER w FROM t "
            "WINDOW w AS (ORDER BY b NULLS LAST ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        ),
        (
            "SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 1) q DISTRIBUTE BY a SORT BY a",
            "SELECT a FROM (SELECT a FROM t ORDER BY a NULLS LAST LIMIT 1) q DISTRIBUTE BY a SORT BY a NULLS LAST",
        ),
        ("SELECT a AS `desc` FROM t ORDER BY `desc`", "SELECT a AS `desc` FROM t ORDER BY `desc` NULLS LAST"),
        ("FROM t SELECT a ORDER BY a UNION SELECT 1", "FROM t SELECT a ORDER BY a NULLS LAST UNION SELECT 1"),
        # Columns may be called like words that end an order.
        (
            "SELECT a FROM t ORDER BY t.end, end DESC, t.limit, t.rows, t.case, t.nulls, t.desc, limit LIMIT 1",
            "SELECT a FROM t ORDER BY t.end NULLS LAST, end DESC NULLS FIRST, t.limit NULLS LAST, t.rows NULLS LAST, "
            "t.case NULLS LAST, t.nulls NULLS LAST, t.desc NULLS LAST, limit NULLS LAST LIMIT 1",
        ),
        (
            "SELECT sum(a) OVER (ORDER BY start, end ROWS 1 PRECEDING) FROM t ORDER BY abs(end - start), a + rows",
            "SELECT sum(a) OVER (ORDER BY start NULLS LAST, end NULLS LAST ROWS 1 PRECEDING) FROM t "
            "ORDER BY abs(end - start) NULLS LAST, a + rows NULLS LAST",
        ),
        (
            "SELECT a FROM t ORDER BY CASE WHEN NOT end > 1 AND (end = 2) THEN end ELSE end END, "
            "a IS NOT DISTINCT FROM 1",
            "SELECT a FROM t ORDER BY CASE WHEN NOT end > 1 AND (end = 2) THEN end ELSE end END NULLS LAST, "
            "a IS NOT DISTINCT FROM 1 NULLS LAST",
        ),
        ("FROM t |> ORDER BY a |> LIMIT 3", "FROM t |> ORDER BY a NULLS LAST |> LIMIT 3"),
        # Who says it means it; an aggregate leaves NULLs out.
        ("SELECT a FROM t ORDER BY a NULLS FIRST, b DESC NULLS LAST", None),
        ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a), 'ORDER BY a' FROM t CLUSTER BY a", None),
    ],
)
def test_nulls_stand_where_hive_has_them(query: str, text: str | None) -> None:
    assert planned(query) == (query if text is None else text)


def test_the_first_rows_of_a_delete_are_those_of_a_query() -> None:
    (statement,) = parse_script("DELETE FROM t ORDER BY a, b DESC, a DESC NULLS LAST LIMIT 2")
    template = plan(statement, TABLES.__getitem__).template  # type: ignore[arg-type]
    assert isinstance(template, DeleteTemplate)
    assert template.first is not None
    assert template.first.order == "(a) ASC NULLS LAST, (b) DESC NULLS FIRST, (a) DESC NULLS LAST"
