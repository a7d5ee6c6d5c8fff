"""Texts in quotes, read as Spark reads them, whatever sqlglot makes of them."""

from __future__ import annotations

import pytest

from airflow_hive_acid.errors import SqlSyntaxError
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.statements import Insert
from airflow_hive_acid.sql.text.literals import text_of
from airflow_hive_acid.sql.text.quoting import quoted
from airflow_hive_acid.sql.text.source import SourceText

READ = [
    (r"'plain'", "plain"),
    (r"'\U0001F600'", "\U0001f600"),
    (r"'\ud83d\ude00'", "\U0001f600"),
    (r"'\u263a'", "☺"),
    (r"'\ud83d!'", "?!"),
    (r"'\u12'", "u12"),
    (r"'\U0001'", "U0001"),
    (r"'\065\101'", "5A"),
    (r"'\377\08'", "377\x008"),
    (r"'a\%b\_c'", r"a\%b\_c"),
    (r"'\a\q\x41'", "aqx41"),
    (r"'\n\t\r\b\Z\0'", "\n\t\r\b\x1a\0"),
    (r"'\\n'", r"\n"),
    (r"'it\'s \"it\"'", 'it\'s "it"'),
    (r'"\u00e4"', "ä"),
    ("'a\\\nb'", "a\nb"),
    (r"r'\d+\n\'", "\\d+\\n\\"),
    (r"""R"it's \"""", "it's \\"),
]


@pytest.mark.parametrize(("literal", "text"), READ)
def test_a_literal_says_what_spark_reads(literal: str, text: str) -> None:
    assert text_of(literal) == text
    assert [token.text for token in SourceText(f"SELECT {literal} AS x").tokens][1] == text


@pytest.mark.parametrize("text", [text for _, text in READ])
def test_what_is_quoted_is_read_again(text: str) -> None:
    assert text_of(quoted(text)) == text


def test_a_raw_text_stands_where_a_text_stands() -> None:
    insert, query = parse_script(
        r"INSERT INTO t PARTITION (k = r'a\b') SELECT 1; "
        r"""SELECT r, x.r FROM t AS r WHERE r RLIKE R"\d; 'x\" AND r.k = r'\' -- r'"""
    )
    assert isinstance(insert, Insert)
    assert insert.partition == (("k", r"a\b"),)
    assert query.text.endswith(r"r.k = r'\'")
    with pytest.raises(SqlSyntaxError, match=r"column 28: this string is never closed"):
        parse_script(r"SELECT r'\' AS bar, x, r'\'' ")


def test_a_value_of_a_partition_clause_is_read_so_too() -> None:
    (statement,) = parse_script(r"INSERT INTO t PARTITION (k = '\U0001F600\065') SELECT 1")
    assert isinstance(statement, Insert)
    assert statement.partition == (("k", "\U0001f6005"),)
