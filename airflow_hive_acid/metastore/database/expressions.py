"""Expressions that each kind of database spells in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

if TYPE_CHECKING:
    from collections.abc import Iterable

_DIVISION_BY_ZERO = "22012"
"""SQLSTATE."""


class smaller(FunctionElement[int]):
    """The smaller of two numbers, each evaluated once; neither may be NULL."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(smaller)
def _(element: smaller, compiler: Any, **options: Any) -> str:
    return f"LEAST({compiler.process(element.clauses, **options)})"


@compiles(smaller, "sqlite")
def _(element: smaller, compiler: Any, **options: Any) -> str:
    return f"min({compiler.process(element.clauses, **options)})"


class bytewise(FunctionElement[str]):
    """Text that compares byte by byte."""

    type = sa.String()
    inherit_cache = True


@compiles(bytewise, "postgresql")
def _(element: bytewise, compiler: Any, **options: Any) -> str:
    return f'({compiler.process(element.clauses, **options)} COLLATE "C")'


@compiles(bytewise, "mysql")
def _(element: bytewise, compiler: Any, **options: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **options)} AS BINARY)"


@compiles(bytewise)
def _(element: bytewise, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


class as_double(FunctionElement[float]):
    """A text as a double. MySQL before 8.0.17 has no CAST to it; SQLAlchemy leaves it out and so compares texts."""

    type = sa.Double()
    inherit_cache = True


@compiles(as_double)
def _(element: as_double, compiler: Any, **options: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **options)} AS DOUBLE PRECISION)"


@compiles(as_double, "mysql")
def _(element: as_double, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)} + 0.0e0)"


# --- for batches that take one trip (PostgreSQL) ------------------------------------------------------------------


def halt_if(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    """1, or an error by which the batch ends, together with the COMMIT that travels in it.

    Nobody looks at an answer before that COMMIT arrives, so that only an error of the server can stop it. The server
    has no expression that raises one (RAISE belongs to functions, and we make none in somebody's metastore); a
    division by zero is one that no other statement of ours can meet.
    """
    one, zero = sa.literal(1, sa.Integer), sa.literal(0, sa.Integer)
    return one // sa.case((condition, zero), else_=1)


def was_halted(error: BaseException) -> bool:
    """Whether a batch ended because of :func:`halt_if`."""
    return getattr(error, "sqlstate", None) == _DIVISION_BY_ZERO


def within_ranges(number: Any, edges: sa.BindParameter[str]) -> sa.ColumnElement[bool]:
    """Whether a number is inside one of some ranges.

    :param edges: what :func:`range_edges` makes of them.
    """
    array = sa.cast(func.string_to_array(edges, sa.literal(",", sa.String)), ARRAY(sa.BigInteger))
    # Behind an odd number of edges, and before the next one, is inside.
    return func.width_bucket(number, array, type_=sa.Integer) % sa.literal(2, sa.Integer) != 0


def range_edges(edges: Iterable[int]) -> str:
    """The parameter of :func:`within_ranges`: where ranges begin and where what follows them begins, ascending."""
    return ",".join(map(str, edges))
