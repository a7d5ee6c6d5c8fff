"""Names and texts as SQL writes them, in Hive's dialect."""

from __future__ import annotations

from sqlglot import exp

from airflow_hive_acid.format.identifiers import quoted_name
from airflow_hive_acid.sql.text.source import HiveSql


def identifier(name: str) -> str:
    """A name in backquotes."""
    return quoted_name(name)


def quoted(value: str) -> str:
    """A text in quotes."""
    return exp.Literal.string(value).sql(dialect=HiveSql)
