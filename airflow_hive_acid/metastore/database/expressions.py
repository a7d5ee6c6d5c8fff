"""Expressions that not every database spells alike: the way of most stands here, the others with their backends."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class smaller(FunctionElement[int]):
    """The smaller of two numbers, each evaluated once; neither may be NULL."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(smaller)
def _(element: smaller, compiler: Any, **options: Any) -> str:
    return f"LEAST({compiler.process(element.clauses, **options)})"


class bytewise(FunctionElement[str]):
    """Text that compares byte by byte."""

    type = sa.String()
    inherit_cache = True


@compiles(bytewise)
def _(element: bytewise, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


class is_at(FunctionElement[Any]):
    """``is_at(column, number)``: whether they are equal, as two bounds: an ORDER BY of the column keeps its index."""

    #: Not a Boolean, which SQLite and MySQL would compare with 1: no index finds anything by that.
    type = sa.types.NullType()
    inherit_cache = True


@compiles(is_at)
def _(element: is_at, compiler: Any, **options: Any) -> str:
    column, number = (compiler.process(part, **options) for part in element.clauses)
    return f"({column} >= {number} AND {column} <= {number})"


class if_number(FunctionElement[str]):
    """A text; NULL instead of one that is no number where a cast of it would be an error."""

    type = sa.String()
    inherit_cache = True


@compiles(if_number)
def _(element: if_number, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


class as_whole(FunctionElement[int]):
    """A text as a whole number."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(as_whole)
def _(element: as_whole, compiler: Any, **options: Any) -> str:
    return str(compiler.process(sa.cast(next(iter(element.clauses)), sa.BigInteger()), **options))


class as_decimal(FunctionElement[Any]):
    """A text as a decimal."""

    #: Room for every decimal of 38 digits that is compared with another; MySQL has no wider one.
    type = sa.Numeric(65, 27)
    inherit_cache = True


@compiles(as_decimal)
def _(element: as_decimal, compiler: Any, **options: Any) -> str:
    return str(compiler.process(sa.cast(next(iter(element.clauses)), as_decimal.type), **options))


class as_double(FunctionElement[float]):
    """A text as a double."""

    type = sa.Double()
    inherit_cache = True


@compiles(as_double)
def _(element: as_double, compiler: Any, **options: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **options)} AS DOUBLE PRECISION)"


# --- only where a batch takes one trip (Backend.one_trip) ---------------------------------------------------------


class halt_if(FunctionElement[int]):
    """1, or where a condition holds an error: it ends the batch, and the COMMIT that travels in it is not done.

    Whether that was it, :meth:`Backend.was_halted
    <airflow_hive_acid.metastore.database.backend.Backend.was_halted>` tells.
    """

    type = sa.Integer()
    inherit_cache = True


class within_ranges(FunctionElement[bool]):
    """Whether a number is inside one of some ranges: ``within_ranges(number, edges)``.

    The edges are one text of numbers, ascending, with commas between: where a range begins, and where what follows it
    begins.
    """

    type = sa.Boolean()
    inherit_cache = True
