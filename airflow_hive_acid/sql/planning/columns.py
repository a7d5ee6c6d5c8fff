"""Column checks: a name that no relation offers is an error before anything runs, with the names it may have meant.

Only what is certain is refused: where a relation's columns are not known here, Spark will judge.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.sql.planning.scopes import PSEUDO_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_hive_acid.sql.model.plans import TableFacts
    from airflow_hive_acid.sql.planning.scopes import Scope, Scopes

# Words without parentheses that Spark reads as functions, units or (ORDER BY ALL) otherwise, not as columns.
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
_FUNCTIONS = ("current_date", "current_timestamp", "current_time", "current_user", "session_user", "user", "now")
_BARE_WORDS = frozenset((*_UNITS, *(f"{unit}s" for unit in _UNITS), *_FUNCTIONS, "grouping__id", "all"))


def column_names(facts: TableFacts) -> tuple[str, ...]:
    """All columns of a table, partition columns last."""
    return tuple(column.name for column in (*facts.columns, *facts.partition_columns))


def unknown_column(scopes: Scopes, column: exp.Column) -> str | None:
    """What is wrong with a column reference; None when nothing is, or nothing is certain."""
    around = scopes.around(column)
    parts = [part.name.lower() for part in column.parts if not isinstance(part, exp.Star)]
    if not around or not parts or isinstance(column.parent, exp.Kwarg | exp.PropertyEQ):
        return None
    for scope in around:
        relation = scope.by_alias(parts[0]) if len(parts) > 1 or column.is_star else None
        if relation is not None:
            if relation.is_open or len(parts) == 1 or relation.offers(parts[1]):
                return None
            what = relation.facts.qualified_name if relation.facts is not None else relation.alias
            return _no_column(what, parts[1], relation.columns or ())
    return _unknown_name(around, parts[0], qualified=len(parts) > 1 or column.is_star)


def no_such_column(facts: TableFacts, column: str) -> str:
    """The complaint that a table has no such column."""
    return _no_column(facts.qualified_name, column, column_names(facts))


def _unknown_name(around: Sequence[Scope], name: str, qualified: bool) -> str | None:
    """A column without qualifier, or one whose first part is no relation: then it must be a struct column."""
    offered: list[str] = []
    for scope in around:
        if scope.is_open or name in scope.names or any(relation.offers(name) for relation in scope.relations):
            return None
        offered.extend(column for relation in scope.relations for column in relation.columns or ())
    if name in PSEUDO_COLUMNS or name in _BARE_WORDS or not offered:
        return None
    aliases = [relation.alias for scope in around for relation in scope.relations]
    if qualified:
        return f"there is no table, alias or column {name!r} here{_near(name, [*aliases, *offered])}"
    what = [r.facts.qualified_name if r.facts is not None else r.alias for s in around for r in s.relations]
    if len(what) == 1:
        return _no_column(what[0], name, offered)
    return f"none of {', '.join(what)} has a column {name!r}{_near(name, offered)}"


def _no_column(what: str, column: str, known: Iterable[str]) -> str:
    names = list(known)
    listed = "" if difflib.get_close_matches(column, names, 1) else f"; its columns are {', '.join(names[:20])}"
    return f"{what} has no column {column!r}{_near(column, names)}{listed}"


def _near(name: str, known: Iterable[str]) -> str:
    near = list(dict.fromkeys(difflib.get_close_matches(name, list(known), 3)))
    return f"; did you mean {' or '.join(near)}?" if near else ""
