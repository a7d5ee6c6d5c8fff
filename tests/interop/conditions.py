"""Conditions and expressions of random programs: their text, and what they are worth by SQL's three-valued logic.

The text means the same in Hive and in Spark; the value is computed in Python, from the SQL standard alone.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Value = int | str | None
Record = dict[str, Value]

#: Types of the columns that programs use.
TYPES = {"id": "int", "name": "string", "amount": "int", "day": "string", "hour": "int"}

_OPERATORS: dict[str, Callable[[object, object], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
NULL_SAFE = "<=>"
COMPARISONS = (*_OPERATORS, NULL_SAFE)


def literal(value: Value, type_name: str | None = None) -> str:
    """A value as SQL; where nothing else tells the type of a NULL, ``type_name`` does."""
    if value is None:
        return "NULL" if type_name is None else f"cast(NULL as {type_name})"
    return f"'{value}'" if isinstance(value, str) else str(value)


class Condition(Protocol):
    """True, False or, as None, unknown."""

    def sql(self, of: str) -> str:
        """The text; ``of`` goes before each column, such as ``t.``."""

    def holds(self, row: Mapping[str, Value]) -> bool | None:
        """What it is for a row."""


@dataclass(frozen=True)
class Compare:
    """``column op value``: unknown where a side is NULL, but for ``<=>``."""

    column: str
    operator: str
    value: Value

    def sql(self, of: str) -> str:
        return f"{of}{self.column} {self.operator} {literal(self.value, TYPES[self.column])}"

    def holds(self, row: Mapping[str, Value]) -> bool | None:
        value = row[self.column]
        if self.operator == NULL_SAFE:
            return value == self.value
        if value is None or self.value is None:
            return None
        return _OPERATORS[self.operator](value, self.value)


@dataclass(frozen=True)
class Remainder:
    """``column % divisor = remainder``."""

    column: str
    divisor: int
    remainder: int

    def sql(self, of: str) -> str:
        return f"{of}{self.column} % {self.divisor} = {self.remainder}"

    def holds(self, row: Mapping[str, Value]) -> bool | None:
        value = row[self.column]
        assert not isinstance(value, str)
        # SQL's remainder has the sign of the dividend, Python's that of the divisor.
        return None if value is None else math.fmod(value, self.divisor) == self.remainder


@dataclass(frozen=True)
class IsNull:
    """``column IS NULL``: never unknown."""

    column: str

    def sql(self, of: str) -> str:
        return f"{of}{self.column} IS NULL"

    def holds(self, row: Mapping[str, Value]) -> bool | None:
        return row[self.column] is None


@dataclass(frozen=True)
class OneOf:
    """``column IN (values)``."""

    column: str
    values: tuple[Value, ...]

    def sql(self, of: str) -> str:
        return f"{of}{self.column} IN ({', '.join(map(literal, self.values))})"

    def holds(self, row: Mapping[str, Value]) -> bool | None:
        value = row[self.column]
        return None if value is None else value in self.values


@dataclass(frozen=True)
class Not:
    """The opposite; of unknown, unknown."""

    condition: Condition

    def sql(self, of: str) -> str:
        return f"NOT ({self.condition.sql(of)})"

    def holds(self, row: Mapping[str, Value]) -> bool | None:
        holds = self.condition.holds(row)
        return None if holds is None else not holds


@dataclass(frozen=True)
class And:
    """False if one is; else unknown if one is."""

    left: Condition
    right: Condition

    def sql(self, of: str) -> str:
        return f"({self.left.sql(of)} AND {self.right.sql(of)})"

    def holds(self, row: Mapping[str, Value]) -> bool | None:
        sides = (self.left.holds(row), self.right.holds(row))
        return False if False in sides else None if None in sides else True


@dataclass(frozen=True)
class Or:
    """True if one is; else unknown if one is."""

    left: Condition
    right: Condition

    def sql(self, of: str) -> str:
        return f"({self.left.sql(of)} OR {self.right.sql(of)})"

    def holds(self, row: Mapping[str, Value]) -> bool | None:
        sides = (self.left.holds(row), self.right.holds(row))
        return True if True in sides else None if None in sides else False


@dataclass(frozen=True)
class Known:
    """A condition of which unknown counts as false."""

    condition: Condition

    def sql(self, of: str) -> str:
        return f"coalesce({self.condition.sql(of)}, false)"

    def holds(self, row: Mapping[str, Value]) -> bool | None:
        return self.condition.holds(row) is True


class Expression(Protocol):
    """A value made from a row."""

    def sql(self, of: str) -> str:
        """The text; ``of`` goes before each column."""

    def value(self, row: Mapping[str, Value]) -> Value:
        """What it is for a row."""


@dataclass(frozen=True)
class Literal:
    """A constant."""

    constant: Value
    type_name: str

    def sql(self, of: str) -> str:
        return literal(self.constant, self.type_name)

    def value(self, row: Mapping[str, Value]) -> Value:
        return self.constant


@dataclass(frozen=True)
class Plus:
    """``column + number``: NULL stays NULL."""

    column: str
    number: int

    def sql(self, of: str) -> str:
        return f"{of}{self.column} + {self.number}"

    def value(self, row: Mapping[str, Value]) -> Value:
        value = row[self.column]
        assert not isinstance(value, str)
        return None if value is None else value + self.number


@dataclass(frozen=True)
class Suffixed:
    """``concat(column, text)``: NULL stays NULL."""

    column: str
    text: str

    def sql(self, of: str) -> str:
        return f"concat({of}{self.column}, {literal(self.text)})"

    def value(self, row: Mapping[str, Value]) -> Value:
        value = row[self.column]
        return None if value is None else f"{value}{self.text}"
