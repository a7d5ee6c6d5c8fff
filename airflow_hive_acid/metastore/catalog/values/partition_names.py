"""How the names begin of the partitions that a condition can mean, so that an index finds them among very many.

Hive's schema has an index of the names and none of the values. A name holds the values in the order of the columns, so
a condition on the first columns is a range of names, or some. The ranges may hold more than the condition means, and
never less: whoever uses them asks for the condition, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from airflow_hive_acid.metastore.catalog.values.partition_conditions import (
    And,
    Between,
    Compare,
    Condition,
    In,
    Or,
    is_text,
    value_text,
    value_texts,
)
from airflow_hive_acid.metastore.names.partition_spellings import spelled
from airflow_hive_acid.metastore.names.partition_values import is_char

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.catalog.values.model import Table

MOST = 100
"""Ranges of one statement; of more it is one that holds all of them."""
_BOUNDS = ("<", "<=", ">", ">=")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]*")
"""What every program writes into a name as it is."""


class Beginning(NamedTuple):
    """How a text begins.

    :param whole: it is the whole text.
    """

    text: str
    whole: bool


class Range(NamedTuple):
    """Names from the first text, included, to before the second, by their bytes."""

    low: str
    high: str


def ranges_of(table: Table, condition: Condition) -> list[Range] | None:
    """Ranges of names that hold all partitions that a condition means; None when those may have any names."""
    return _ranges(table, lambda column: _beginnings(condition, column) if _by_text(column) else None)


def ranges_of_values(table: Table, values: Mapping[str, Sequence[str]]) -> list[Range] | None:
    """The same for values by column as the catalog holds them, of which any will do."""

    def of(column: Column) -> list[Beginning] | None:
        found = None if is_char(column.type) else values.get(column.name)
        if found is None:
            return None
        return [Beginning(text, whole=True) for value in found for text in spelled(column.type, value)]

    return _ranges(table, of)


def _ranges(table: Table, of: Callable[[Column], list[Beginning] | None]) -> list[Range] | None:
    begun = [""]
    for number, column in enumerate(table.partition_columns):
        found = of(column) if _PLAIN.fullmatch(column.name) else None
        if not found or len(begun) * len(found) > MOST:
            found = None if not found or number > 0 else [_common(found)]
        if not found:
            break
        plain = [_plain(each) for each in found]
        end = "" if number + 1 == len(table.partition_columns) else "/"
        begun = [f"{start}{column.name}={one.text}{end if one.whole else ''}" for start in begun for one in plain]
        if not all(one.whole for one in plain):
            break
    if begun == [""]:
        return None
    return [Range(text, text[:-1] + chr(ord(text[-1]) + 1)) for text in dict.fromkeys(begun)]


def _plain(beginning: Beginning) -> Beginning:
    """Up to the first character that programs may write in different ways."""
    found = _PLAIN.match(beginning.text)
    text = "" if found is None else found.group()
    return Beginning(text, beginning.whole and 0 < len(text) == len(beginning.text))


def _by_text(column: Column) -> bool:
    return is_text(column) and not is_char(column.type)


def _beginnings(condition: Condition, column: Column) -> list[Beginning] | None:
    """How values of a column begin that fulfil a condition; None when they may begin in any way."""
    match condition:
        case Compare(name, "=", value) if name.lower() == column.name:
            return [Beginning(text, whole=True) for text in value_texts(column, value)]
        case In(name, values) if name.lower() == column.name:
            return [Beginning(text, whole=True) for value in values for text in value_texts(column, value)]
        case Between(name, low, high) if name.lower() == column.name:
            return [_between(value_text(column, low), value_text(column, high))]
        case Or(conditions):
            found = [_beginnings(each, column) for each in conditions]
            return None if None in found else [one for each in found if each is not None for one in each]
        case And(conditions):
            alone = [each for c in conditions if (each := _beginnings(c, column)) is not None]
            bounds = _bounds(conditions, column)
            alone += [] if bounds is None else [[bounds]]
            # Each of them holds all that is meant: the one that says most.
            return min(alone, key=lambda each: (not all(one.whole for one in each), len(each)), default=None)
    return None


def _bounds(conditions: Sequence[Condition], column: Column) -> Beginning | None:
    """What AND leaves between one bound below and one above."""
    texts: dict[str, str] = {}
    for each in conditions:
        if isinstance(each, Compare) and each.column.lower() == column.name and each.operator in _BOUNDS:
            texts.setdefault(each.operator[0], value_text(column, each.value))
    return _between(texts[">"], texts["<"]) if {"<", ">"} <= texts.keys() else None


def _between(low: str, high: str) -> Beginning:
    """What lies between two texts begins as both of them do."""
    same = next((i for i, (one, other) in enumerate(zip(low, high, strict=False)) if one != other), None)
    return Beginning(min(low, high, key=len) if same is None else low[:same], whole=False)


def _common(found: Sequence[Beginning]) -> Beginning:
    texts = [one.text for one in found]
    return _between(min(texts), max(texts))
