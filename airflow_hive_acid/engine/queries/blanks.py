"""The blanks of CHAR columns in what a query shows. Statements compute without them, as Hive does."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.lineage.declared import declared_types
from airflow_hive_acid.sql.model.plans import SelectTemplate
from airflow_hive_acid.sql.model.statements import Select

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.format.jobs import View
    from airflow_hive_acid.sql.model.plans import Plan

_CHAR = re.compile(r"\bchar\(([0-9]+)\)")
_WORD = re.compile(r"\bchar(?:acter)?\b", re.IGNORECASE)


def with_blanks(context: Context, plan: Plan, views: Iterable[View], rows: Rows) -> Rows:
    """The rows of a SELECT as Hive shows them: values of a CHAR(n) are filled with blanks up to n characters.

    :param views: what the job has read of tables: without a CHAR in them the catalog is not asked.
    :param rows: as the job has read them; those of other statements stay as they are.
    """
    select = plan.statement
    if not isinstance(select, Select) or not isinstance(plan.template, SelectTemplate) or not rows.rows:
        return rows
    if not _may_have_chars(context, plan, views, select):
        return rows
    table_of = functools.cache(context.table)
    declared = declared_types(select, table_of, context.views, context.queries, parse_script)
    if len(declared) != len(rows.columns):
        return rows
    lengths: list[int | None] = []
    for column, (name, kind) in zip(rows.columns, declared, strict=True):
        found = None if kind is None or name not in ("", column.name.lower()) else _CHAR.fullmatch(kind)
        lengths.append(None if found is None else int(found[1]))
    if not any(lengths):
        return rows
    filled = [
        [v if n is None or not isinstance(v, str) else v.ljust(n) for v, n in zip(row, lengths, strict=True)]
        for row in rows.rows
    ]
    return replace(rows, rows=filled)


def _may_have_chars(context: Context, plan: Plan, views: Iterable[View], select: Select) -> bool:
    if _WORD.search(select.text) or plan.views_read or context.queries:
        return True
    of_tables = [column for view in views for column in (*view.snapshot.columns, *view.snapshot.partition_columns)]
    of_sources = [column for source in plan.sources for column in source.columns]
    return any(_CHAR.search(column.type) for column in (*of_tables, *of_sources))
