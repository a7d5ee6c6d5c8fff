"""Store assignment: a query's value becomes a column's value, or the job fails and says which column.

Hive converts implicitly and stores NULL where a value does not fit. Losing values silently is not something a table
with transactions should do, so a value that does not fit is an error here, with the column and the value in its text.
The check costs nothing where types agree, and one comparison with NULL where they do not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from airflow_hive_acid.spark.schema import TableColumn

_MARK = "[hive-acid value] "
_MARKED = re.compile(r"\[hive-acid value\] (.*?) \[end\]", re.DOTALL)
_LONGEST_SHOWN = 100
_COMPLEX = (T.ArrayType, T.MapType, T.StructType)
_STRINGS = (T.StringType, T.CharType, T.VarcharType)


def assigned(value: Column, given: T.DataType, column: TableColumn, table: str) -> Column:
    """``value`` of type ``given`` as the column stores it.

    :raises InvalidArgumentsError: when no value of that type can be converted.
    """
    stored = _converted(value, given, column, table)
    if column.length is None:
        return stored
    if column.is_char:
        stored = F.rtrim(stored)
    # Blanks beyond the length are dropped, as the SQL standard has it; anything else would be lost.
    fits = F.length(F.rtrim(stored)) <= F.lit(column.length)
    return F.when(
        F.coalesce(F.length(stored) <= F.lit(column.length), F.lit(True)), stored
    ).otherwise(
        F.when(fits, F.substring(stored, 1, column.length)).otherwise(
            _refusal(column, table, stored, f"is longer than {column.length} characters")
        )
    )


def _converted(value: Column, given: T.DataType, column: TableColumn, table: str) -> Column:
    wanted = column.type
    if given == wanted or (isinstance(given, _STRINGS) and isinstance(wanted, T.StringType)):
        return value
    if isinstance(given, T.NullType):
        return value.cast(wanted)
    if isinstance(given, _COMPLEX) or isinstance(wanted, _COMPLEX):
        if type(given) is not type(wanted):
            raise _no_conversion(given, column, table)
        # Element by element: here the error is Spark's own and does not name the column.
        return value.cast(wanted)
    if _incompatible(given, wanted):
        raise _no_conversion(given, column, table)
    refusal = _refusal(column, table, value, f"is no {column.hive_type}")
    return F.coalesce(value.try_cast(wanted), F.when(value.isNotNull(), refusal.cast(wanted)))


def _refusal(column: TableColumn, table: str, value: Column, complaint: str) -> Column:
    shown = F.substring(value.cast("string"), 1, _LONGEST_SHOWN)
    return F.raise_error(
        F.concat(F.lit(f"{_MARK}column {column.name} of {table}: the value '"), shown, F.lit(f"' {complaint} [end]"))
    )


def _incompatible(given: T.DataType, wanted: T.DataType) -> bool:
    """Conversions that SQL does not have at all; Spark would say so without naming the column."""
    times = (T.DateType, T.TimestampType, T.TimestampNTZType)
    numbers = (T.NumericType, T.BooleanType)
    if isinstance(given, T.BinaryType) or isinstance(wanted, T.BinaryType):
        other = wanted if isinstance(given, T.BinaryType) else given
        return not isinstance(other, _STRINGS)
    if isinstance(given, times):
        return isinstance(wanted, numbers)
    return isinstance(given, numbers) and isinstance(wanted, times)


def _no_conversion(given: T.DataType, column: TableColumn, table: str) -> InvalidArgumentsError:
    return InvalidArgumentsError(
        f"column {column.name} of {table} is {column.hive_type}; a value of type {given.simpleString()} cannot be "
        "stored in it: convert it in the query"
    )


def refused_value(text: str) -> str | None:
    """The complaint about a value inside the text of a failure, None when it is about something else."""
    match = _MARKED.search(text)
    return None if match is None else match[1]


def assign_all(rows: DataFrame, columns: Sequence[TableColumn], table: str) -> DataFrame:
    """A query's columns, by position, as these columns store them.

    :raises InvalidArgumentsError: when their numbers differ.
    """
    given = rows.schema.fields
    if len(given) != len(columns):
        raise InvalidArgumentsError(
            f"the query gives {len(given)} columns, but {table} takes {len(columns)}: "
            f"{', '.join(c.name for c in columns)}"
        )
    # By position: names may repeat or hold anything.
    positional = rows.toDF(*[f"c{i}" for i in range(len(given))])
    return positional.select(
        *[
            assigned(F.col(f"c{i}"), field.dataType, column, table).alias(column.name)
            for i, (field, column) in enumerate(zip(given, columns, strict=True))
        ]
    )
