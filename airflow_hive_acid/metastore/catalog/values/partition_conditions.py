"""Conditions on partition values that the database evaluates: comparisons, IN, BETWEEN, AND, OR.

The catalog holds values as text; a condition compares them as their column's type: ``h < 10`` finds 9, not 85. NULL
(``__HIVE_DEFAULT_PARTITION__``) fulfils no comparison, as in SQL; ``IsNull`` finds it. Text is compared byte by byte,
as Hive compares strings, whatever the database's collation.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import and_, case, or_

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.database.expressions import as_decimal, as_double, as_whole, bytewise, if_number
from airflow_hive_acid.metastore.names.objects import shorten
from airflow_hive_acid.metastore.names.partition_values import as_stored, is_char

if TYPE_CHECKING:
    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.catalog.values.model import Table

Value: TypeAlias = str | int | float | bool | decimal.Decimal | datetime.date
"""A partition value; text is read as the column's type."""

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
MAX_VALUES = 10_000
MAX_DEPTH = 50
MAX_PARTS = 400
"""Comparisons of one condition; SQLite takes a tree of a thousand levels, and two for each that AND joins."""
_WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATS = frozenset({"float", "double"})
_WRITTEN_IN_SEVERAL_WAYS = frozenset({"boolean", "date", "timestamp"})
"""Types that are compared as texts, of which one value has several."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")


class Condition:
    """A condition; ``a & b`` and ``a | b`` combine them."""

    __slots__ = ()

    def __and__(self, other: Condition) -> Condition:
        return And((self, other))

    def __or__(self, other: Condition) -> Condition:
        return Or((self, other))


@dataclass(frozen=True, slots=True)
class Compare(Condition):
    """``column <operator> value``; operators are ``= <> < <= > >=``."""

    column: str
    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class In(Condition):
    """``column IN (values)``."""

    column: str
    values: Sequence[Value]


@dataclass(frozen=True, slots=True)
class Between(Condition):
    """``column BETWEEN low AND high``, both included."""

    column: str
    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class IsNull(Condition):
    """``column IS NULL``."""

    column: str


@dataclass(frozen=True, slots=True)
class And(Condition):
    """All of the conditions; of none, always true."""

    conditions: Sequence[Condition]


@dataclass(frozen=True, slots=True)
class Or(Condition):
    """At least one of the conditions; of none, never true."""

    conditions: Sequence[Condition]


PartitionFilter: TypeAlias = Condition | Mapping[str, "str | Sequence[str | None] | None"]
"""A condition, or per partition column one value or several, any of which will do; None is NULL."""


def columns_of(table: Table, condition: Condition) -> list[int]:
    """Positions of the partition columns a condition asks for.

    :raises InvalidArgumentsError: when it names a column that is no partition column, or is nested too deeply.
    """
    names = list(_names(condition, 0))
    if len(names) > MAX_PARTS:
        raise InvalidArgumentsError(
            f"a condition of {len(names):,} comparisons on partitions of {table.qualified_name}; at most {MAX_PARTS}: "
            f"say IN, which takes {MAX_VALUES:,} values, or ask in several calls"
        )
    return sorted({_position(table, name) for name in names})


def to_sql(table: Table, condition: Condition, stored: Mapping[int, Any]) -> sa.ColumnElement[bool]:
    """The condition as SQL.

    :param stored: the SQL column that holds the text of each partition column asked for, by position.
    :raises InvalidArgumentsError: when a value does not fit its column.
    """
    match condition:
        case And(conditions):
            return and_(sa.true(), *(to_sql(table, c, stored) for c in conditions))
        case Or(conditions):
            return or_(sa.false(), *(to_sql(table, c, stored) for c in conditions))
        case IsNull(name):
            return _same(stored[_position(table, name)], DEFAULT_PARTITION)
        case Compare(name, operator, value):
            return _compare(*_typed(table, name, stored), operator, value)
        case Between(name, low, high):
            column, text = _typed(table, name, stored)
            return and_(_compare(column, text, ">=", low), _compare(column, text, "<=", high))
        case In(name, values):
            column, text = _typed(table, name, stored)
            if len(values) > MAX_VALUES:
                raise InvalidArgumentsError(
                    f"IN of {len(values)} values of {column.name}; at most {MAX_VALUES}: ask in several calls"
                )
            plain = is_text(column) and not is_char(column.type)
            left = text if plain else _comparable(column, text)
            wanted: list[Any] = (
                [one for v in values for one in value_texts(column, v)]
                if plain
                else [_literal(column, v) for v in values]
            )
            some = (left.in_(part) for part in chunks(wanted))
            return and_(text != DEFAULT_PARTITION, or_(sa.false(), *some))
    raise InvalidArgumentsError(f"{shorten(repr(condition))} is no condition on partitions")


def _typed(table: Table, name: str, stored: Mapping[int, Any]) -> tuple[Column, Any]:
    position = _position(table, name)
    return table.partition_columns[position], stored[position]


def _compare(column: Column, text: Any, operator: str, value: Value) -> sa.ColumnElement[bool]:
    if operator not in OPERATORS:
        raise InvalidArgumentsError(
            f"{shorten(repr(operator))} is no comparison of {column.name}; use one of {' '.join(OPERATORS)}"
        )
    if operator in ("=", "<>") and is_text(column) and not is_char(column.type):
        texts = value_texts(column, value)
        if operator == "=":
            # Without anything around it, so that the planner can use what it knows of the column.
            return and_(text != DEFAULT_PARTITION, or_(*(_same(text, one) for one in texts)))
        return and_(text != DEFAULT_PARTITION, *(_differs(text, one) for one in texts))
    left, right = _comparable(column, text), _literal(column, value)
    result: sa.ColumnElement[bool] = left.op("!=" if operator == "<>" else operator, is_comparison=True)(right)
    return and_(text != DEFAULT_PARTITION, result)


def _same(text: Any, value: str) -> sa.ColumnElement[bool]:
    same: sa.ColumnElement[bool] = text == value
    return same


def _differs(text: Any, value: str) -> sa.ColumnElement[bool]:
    other = bytewise(sa.literal(value, sa.String))
    differs: sa.ColumnElement[bool] = bytewise(text).op("!=", is_comparison=True)(other)
    return differs


def _comparable(column: Column, text: Any) -> sa.ColumnElement[Any]:
    """The stored text as the column's type; CASE keeps NULL's name from being cast."""
    if is_char(column.type):
        return bytewise(sa.func.rtrim(text))  # with the blanks of a Hive, or of an earlier version of this package
    if is_text(column):
        return bytewise(text)
    return case((text == DEFAULT_PARTITION, sa.null()), else_=_number_of(column, if_number(text)))


def _literal(column: Column, value: Value) -> sa.ColumnElement[Any]:
    given = value_text(column, value)
    text = sa.literal(given.rstrip(" ") if is_char(column.type) else given, sa.String)
    return bytewise(text) if is_text(column) else _number_of(column, text)


def is_text(column: Column) -> bool:
    """Whether values of a partition column are compared as text."""
    return column.type not in _WHOLE and column.type not in _FLOATS and not column.type.startswith("decimal")


def _number_of(column: Column, text: Any) -> sa.ColumnElement[Any]:
    if column.type in _FLOATS:
        return as_double(text)
    return as_whole(text) if column.type in _WHOLE else as_decimal(text)


def value_texts(column: Column, value: Value) -> list[str]:
    """The texts that the catalog may hold of a value: as a Hive writes it, and as it is given.

    :raises InvalidArgumentsError: when it is no value of the column's type.
    """
    text = value_text(column, value)
    given = value if isinstance(value, str) and column.type in _WRITTEN_IN_SEVERAL_WAYS else text
    return list(dict.fromkeys((text, given)))


def value_text(column: Column, value: Value) -> str:
    """A value as a Hive's catalog would hold it.

    :raises InvalidArgumentsError: when it is no value of the column's type.
    """
    if value is None:
        raise InvalidArgumentsError(f"nothing compares with NULL; ask for IsNull({column.name!r})")
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, datetime.datetime):
        text = value.isoformat(" ").removesuffix("+00:00")
    else:
        text = str(value)
    if len(text) > 4000 or "\0" in text:
        raise _misfit(column, value, "at most 4000 characters without NUL can be compared")
    one_way = column.type in _WHOLE or column.type in _WRITTEN_IN_SEVERAL_WAYS
    if one_way and (column.type != "date" or _DAY.fullmatch(text)):  # of a date, no time is left out in silence
        text = as_stored(column.type, text)
    if column.type in _WHOLE:
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not -(2**63) <= int(text) < 2**63:
            raise _misfit(column, value, "give a whole number of 64 bits")
    elif column.type in _FLOATS or column.type.startswith("decimal"):
        _require_number(column, value, text)
    elif column.type == "date" and not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise _misfit(column, value, "write a date as yyyy-mm-dd")
    elif column.type == "boolean":
        text = text.lower()
    return as_stored(column.type, text) if is_char(column.type) else text


def _require_number(column: Column, value: Value, text: str) -> None:
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise _misfit(column, value, "give a number") from None
    if not number.is_finite() or not math.isfinite(float(number)):
        raise _misfit(column, value, "give a finite number")
    if column.type.startswith("decimal") and number.adjusted() >= 38:
        raise _misfit(column, value, "a decimal has at most 38 digits")


def _misfit(column: Column, value: object, remedy: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(
        f"partition column {column.name} is {column.type}; {shorten(repr(value))} does not compare with it: {remedy}"
    )


def _names(condition: object, depth: int) -> Iterable[str]:
    if depth > MAX_DEPTH:
        raise InvalidArgumentsError(f"a condition nested more than {MAX_DEPTH} levels deep; And and Or take many parts")
    match condition:
        case And(conditions) | Or(conditions):
            for part in conditions:
                yield from _names(part, depth + 1)
        case Compare(column) | In(column) | Between(column) | IsNull(column):
            yield column
        case _:
            raise InvalidArgumentsError(f"{shorten(repr(condition))} is no condition on partitions")


def _position(table: Table, name: str) -> int:
    names = [column.name for column in table.partition_columns]
    if not isinstance(name, str) or name.lower() not in names:
        raise InvalidArgumentsError(
            f"{shorten(repr(name))} is no partition column of {table.qualified_name}; those are "
            f"{', '.join(sorted(names))}"
        )
    return names.index(name.lower())
