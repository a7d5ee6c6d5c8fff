"""Store assignment: a query's value becomes a column's value, or the job fails and says which column.

Hive converts implicitly and stores NULL where a value does not fit. Losing values silently is not something a table
with transactions should do, so a value that does not fit is an error here, with the column and the value in its text.
The check costs nothing where types agree, and one comparison with NULL where they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError
from airflow_hive_acid.spark.failures import fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from airflow_hive_acid.spark.schema import TableColumn

_LONGEST_SHOWN = 100
_COMPLEX = (T.ArrayType, T.MapType, T.StructType)
_STRINGS = (T.StringType, T.CharType, T.VarcharType)


def assigned(value: Column, given: T.DataType, column: TableColumn, table: str) -> Column:
    """``value`` of type ``given`` as the column stores it.

    :raises InvalidArgumentsError: when no value of that type can be converted.
    """
    text = _converted(value, given, column, table)
    if column.length is None:
        return text
    text = stored(text, column)
    fits = F.coalesce(F.length(text) <= F.lit(column.length), F.lit(True))
    # Blanks beyond the length are dropped, as the SQL standard has it; anything else would be lost.
    only_blanks = F.length(F.rtrim(text)) <= F.lit(column.length)
    too_long = _refusal(column, table, text, f"is longer than {column.length} characters")
    cut = F.when(only_blanks, F.substring(text, 1, column.length)).otherwise(too_long)
    return F.when(fits, text).otherwise(cut)


def stored(value: Column, column: TableColumn) -> Column:
    """A value of the column as files hold it: char without the blanks that readers add."""
    return F.rtrim(value) if column.is_char else value


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
    return fail(BadRecordError, f"column {column.name} of {table}: the value '", shown, f"' {complaint}")


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
