"""Store assignment: a query's value becomes a column's value, or the job fails and says which column.

Hive converts implicitly and stores NULL where a value does not fit. Losing values silently is not something a table
with transactions should do, so a value that does not fit is an error here, with the column and the value in its text.
So is a text that Spark would take for another value than Hive does. The check costs nothing where types agree, and one
comparison with NULL where they do not.
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
_DAY = "'^ *[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}'"
"""How a text begins that is a day to Hive. To Spark ``2024`` is one, too, and ``03:04`` is a time of today."""
_BELOW_MICROSECONDS = "'[.][0-9]{6}[0-9]*[1-9]'"


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
    if isinstance(given, T.BooleanType) and isinstance(wanted, T.StringType):
        return f"upper(cast({value} as string))"  # Hive's text of it; Spark's is in lower case.
    if isinstance(given, T.NullType):
        return f"cast({value} as {target})"
    if isinstance(given, _COMPLEX) or isinstance(wanted, _COMPLEX):
        if type(given) is not type(wanted):
            raise _no_conversion(given, column, table)
        # Element by element: here the error is Spark's own and does not name the column.
        return f"cast({value} as {target})"
    if _incompatible(given, wanted):
        raise _no_conversion(given, column, table)
    converted, complaint = f"try_cast({value} as {target})", f"is no {column.hive_type}"
    if isinstance(given, _STRINGS):
        alike, example = _read_alike(value, column)
        if alike:
            converted, complaint = f"if({alike}, {converted}, null)", f"{complaint} ({example})"
    refusal = _refusal(column, table, value, complaint)
    return f"coalesce({converted}, if({value} is null, null, {refusal}))"


def _read_alike(text: str, column: TableColumn) -> tuple[str, str]:
    """When Spark, if it can convert a text at all, makes the value of it that Hive does.

    :return: the condition, empty where that is always so, and what such a text is like.
    """
    match column.type:
        case T.BooleanType():
            # 'f' and 'n', which are false to Spark, are true to Hive.
            return f"try_cast({text} as boolean) or lower({text}) in ('false', 'no', '0')", "such as 'true', 'false'"
        case T.DateType():
            return f"{text} rlike {_DAY}", "such as '2024-05-31'"
        case T.TimestampType() if not column.is_instant:
            # Hive leaves a zone out of account, Spark moves the time; of nanoseconds Spark keeps a part.
            local = f"cast(try_cast({text} as timestamp_ntz) as timestamp)"
            whole = f"{text} rlike {_DAY} and not {text} rlike {_BELOW_MICROSECONDS}"
            like = "such as '2024-05-31 12:30:00.5': with a day, without a time zone, no finer than microseconds"
            return f"{whole} and try_cast({text} as timestamp) = {local}", like
    return "", ""


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
