"""Conditions that the catalog keeps as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.text.source import SourceText

if TYPE_CHECKING:
    from collections.abc import Collection


def unknown_in_condition(text: str | None, columns: Collection[str]) -> str | None:
    """A column of a condition that is none of these; None when it is about these alone."""
    source = SourceText(f"SELECT {text}")
    for column in source.parse(source.tokens).find_all(exp.Column):
        if column.parts[0].name.lower() not in columns:
            return column.parts[0].name.lower()
    return None
