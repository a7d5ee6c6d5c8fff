"""Store assignment: a query's value becomes a column's value, or the job fails and says which column.

Hive converts implicitly and stores NULL where a value does not fit. Losing values silently is not something a table
with transactions should do, so a value that does not fit is an error here, with the column and the value in its text.
The check costs nothing where types agree, and one comparison with NULL where they do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import Shown, fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from airflow_hive_acid.spark.schema import TableColumn

_LONGEST_SHOWN = 100
_COMPLEX = (T.ArrayType, T.MapType, T.StructType)
_STRINGS = (T.StringType, T.CharType, T.VarcharType)


def assigned(value: str, given: T.DataType, column: TableColumn, table: str) -> str:
    """An expression of type ``given`` as the column stores it.

    :raises InvalidArgumentsError: when no value of that type can be converted.
    """
    text = _fitting(value, given, column, table)
    if not column.required:
        return text
    violated = f"NOT NULL constraint violated! column {column.name} of {table} takes no NULL; give it a value"
    return f"coalesce({text}, {fail(BadRecordError, violated)})"


def _fitting(value: str, given: T.DataType, column: TableColumn, table: str) -> str:
    text = _converted(value, given, column, table)
    if column.length is None:
        return text
    text = stored(text, column)
    # Blanks beyond the length are dropped, as the SQL standard has it; anything else would be lost.
    too_long = _refusal(column, table, text, f"is longer than {column.length} characters")
    cut = f"if(length(rtrim({text})) <= {column.length}, substring({text}, 1, {column.length}), {too_long})"
    return f"if(coalesce(length({text}), 0) <= {column.length}, {text}, {cut})"


def stored(value: str, column: TableColumn) -> str:
    """A value of the column as files hold it: char without the blanks that readers add."""
    return f"rtrim({value})" if column.is_char else value


def _converted(value: str, given: T.DataType, column: TableColumn, table: str) -> str:
    wanted = column.type
    if given == wanted or (isinstance(given, _STRINGS) and isinstance(wanted, T.StringType)):
        return value
    target = schema.sql_type(wanted)
    if isinstance(given, T.NullType):
        return f"cast({value} as {target})"
    if isinstance(given, _COMPLEX) or isinstance(wanted, _COMPLEX):
        if type(given) is not type(wanted):
            raise _no_conversion(given, column, table)
        # Element by element: here the error is Spark's own and does not name the column.
        return f"cast({value} as {target})"
    if _incompatible(given, wanted):
        raise _no_conversion(given, column, table)
    refusal = _refusal(column, table, value, f"is no {column.hive_type}")
    return f"coalesce(try_cast({value} as {target}), if({value} is null, null, {refusal}))"


def _refusal(column: TableColumn, table: str, value: str, complaint: str) -> str:
    shown = f"substring(cast({value} as string), 1, {_LONGEST_SHOWN})"
    return fail(BadRecordError, f"column {column.name} of {table}: the value '", Shown(shown), f"' {complaint}")


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


def assign_all(
    rows: DataFrame, columns: Sequence[TableColumn], table: str, *, more: Sequence[str] = (), by_name: bool = False
) -> DataFrame:
    """A query's columns, by position, as these columns store them.

    :param more: further expressions of the result.
    :param by_name: the rows have columns of these names, and perhaps others.
    :raises InvalidArgumentsError: when their numbers differ.
    """
    if by_name:
        types = {field.name.lower(): field.dataType for field in rows.schema.fields}
        values = [(schema.quoted(column.name), types[column.name], column) for column in columns]
        return rows.selectExpr(*[_stored_as(value, given, c, table) for value, given, c in values], *more)
    given = rows.schema.fields
    if len(given) != len(columns):
        raise InvalidArgumentsError(
            f"the query gives {len(given)} columns, but {table} takes {len(columns)}: "
            f"{', '.join(c.name for c in columns)}"
        )
    # By position: names may repeat or hold anything.
    positional = rows.toDF(*[f"c{i}" for i in range(len(given))])
    return positional.selectExpr(
        *[
            _stored_as(f"c{i}", field.dataType, column, table)
            for i, (field, column) in enumerate(zip(given, columns, strict=True))
        ],
        *more,
    )


def _stored_as(value: str, given: T.DataType, column: TableColumn, table: str) -> str:
    return f"{assigned(value, given, column, table)} as {schema.quoted(column.name)}"
