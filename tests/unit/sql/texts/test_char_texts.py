"""Texts beside CHAR columns: the text that Spark runs has them without blanks at their ends, as the rows have."""

from __future__ import annotations

import pytest

from airflow_hive_acid.format.jobs import Column, Source
from airflow_hive_acid.sql import parse_script, plan
from airflow_hive_acid.sql.model.plans import DeleteTemplate, InsertTemplate, MergeTemplate, SelectTemplate
from airflow_hive_acid.sql.model.views import CreateTemporaryQuery
from airflow_hive_acid.sql.text.source import SourceText
from tests.unit.sql.catalog import Facts

COLUMNS = (Column("c", "char(5)"), Column("s", "string"))
TABLES = {"default.t": Facts("default.t", COLUMNS, (Column("k", "char(3)"),)), "default.u": Facts("default.u", COLUMNS)}
FILES = {"f": Source("f", "parquet", {}, COLUMNS)}


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("c = 'ab ' AND 'x ' <> t.c AND c <=> \"y  \"", "c = 'ab' AND 'x' <> t.c AND c <=> 'y'"),
        ("default.t.k IN ('a ', 'b') AND NOT k IN (' ')", "`t`.k IN ('a', 'b') AND NOT k IN ('')"),
        ("c NOT IN ('a ') OR c NOT BETWEEN 'a ' AND 'b '", "c NOT IN ('a') OR c NOT BETWEEN 'a ' AND 'b '"),
        ("(c) = 'a ' AND (('b ')) = ((c)) AND c IN ('a ', NULL)", "(c) = 'a' AND (('b')) = ((c)) AND c IN ('a', NULL)"),
        ("c = 'it\\'s '", "c = 'it\\'s'"),
        (
            "EXISTS (SELECT 1 FROM (SELECT 1 AS x) u WHERE c = 'a ')",
            "EXISTS (SELECT 1 FROM (SELECT 1 AS x) u WHERE c = 'a')",
        ),
        # Blanks of what is no CHAR, or is made of one, count.
        ("s = 'a ' OR s IN ('a ') OR concat(c, s) = 'a '", None),
        ("c = 'a ' || s OR s || c = 'a ' OR 'b' || 'a ' = c", None),
        (
            "EXISTS (SELECT 1 FROM (SELECT s AS c FROM t) u WHERE c = 'a ')",
            "EXISTS (SELECT 1 FROM (SELECT s AS c FROM ha1_t AS `t`) u WHERE c = 'a ')",
        ),
    ],
)
def test_blanks_at_the_end_do_not_count_beside_a_char(condition: str, text: str | None) -> None:
    (statement,) = parse_script(f"DELETE FROM t WHERE {condition}")  # noqa: S608 - texts of the test's own
    template = plan(statement, TABLES.__getitem__).template  # type: ignore[arg-type]
    assert isinstance(template, DeleteTemplate)
    assert template.where == (condition if text is None else text)


def test_chars_of_files_are_chars() -> None:
    (statement,) = parse_script("SELECT * FROM f, t WHERE f.c = 'a ' AND f.s = 'a ' AND c = 'a '")
    template = plan(statement, TABLES.__getitem__, FILES).template  # type: ignore[arg-type]
    assert isinstance(template, SelectTemplate)
    assert template.query.endswith("WHERE f.c = 'a' AND f.s = 'a ' AND c = 'a'")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT * FROM (SELECT s, c FROM t) q WHERE q.c = 'a '", "q.c = 'a'"),
        ("WITH w AS (SELECT *, 1 FROM t), v AS (SELECT w.* FROM w) SELECT 1 FROM v WHERE c IN ('a ')", "c IN ('a')"),
        ("SELECT 1 FROM (SELECT c AS x FROM t UNION ALL SELECT k FROM t) q(y) WHERE y = 'a '", "y = 'a'"),
        ("SELECT 1 FROM kept WHERE d = 'a ' AND s = 'a '", "d = 'a' AND s = 'a '"),
        # What is made of a CHAR, or is one in one branch alone, is a text.
        ("SELECT 1 FROM (SELECT upper(c) AS c FROM t) q WHERE c = 'a '", "c = 'a '"),
        ("SELECT 1 FROM (SELECT c FROM t UNION SELECT s FROM t) q WHERE c = 'a '", "c = 'a '"),
        ("SELECT 1 FROM (SELECT s AS c, c AS s FROM t) q WHERE c = 'a '", "c = 'a '"),
        ("SELECT 1 FROM (SELECT c, s FROM t) q(s, c) WHERE c = 'a ' AND s = 'a '", "c = 'a ' AND s = 'a'"),
    ],
)
def test_a_char_of_a_query_in_from_is_a_char(query: str, text: str) -> None:
    made, statement = parse_script("; ".join(["CREATE TEMPORARY VIEW kept AS SELECT c AS d, s FROM t", query]))
    assert isinstance(made, CreateTemporaryQuery)
    template = plan(statement, TABLES.__getitem__, FILES, queries={"kept": made}).template  # type: ignore[arg-type]
    assert isinstance(template, SelectTemplate)
    assert template.query.endswith(f" WHERE {text}")


def test_queries_in_queries_may_be_many_and_name_one_twice() -> None:
    twice, once = "w{1} AS (SELECT c FROM w{0} UNION ALL SELECT c FROM w{0})", "w{1} AS (SELECT * FROM w{0})"
    steps = ["w0 AS (SELECT c FROM t)", *((twice if i < 40 else once).format(i, i + 1) for i in range(999))]
    (statement,) = parse_script(" ".join(["WITH", ", ".join(steps), "SELECT 1 FROM w999 WHERE c = 'a '"]))
    template = plan(statement, TABLES.__getitem__).template  # type: ignore[arg-type]
    assert isinstance(template, SelectTemplate)
    assert template.query.endswith(" WHERE c = 'a'")


def test_a_char_of_the_query_of_a_merge_is_a_char() -> None:
    (statement,) = parse_script(
        "MERGE INTO t USING (SELECT c FROM t) q ON t.s = q.c AND q.c = 'a ' WHEN MATCHED AND q.c <> 'b ' THEN DELETE"
    )
    template = plan(statement, TABLES.__getitem__).template  # type: ignore[arg-type]
    assert isinstance(template, MergeTemplate)
    assert template.on == "t.s = q.c AND q.c = 'a'"


def test_the_words_of_an_insert_are_not_read_again_for_blanks(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands of rows in it."""
    (statement,) = parse_script("INSERT INTO u VALUES ('a ', 'b ')")
    monkeypatch.setattr(SourceText, "__init__", lambda *_: pytest.fail("was read again"))
    template = plan(statement, TABLES.__getitem__).template  # type: ignore[arg-type]
    assert isinstance(template, InsertTemplate)
    assert template.query == "VALUES ('a ', 'b ')"
