"""SELECT: rows as JSON lines, one array per row, streamed to a file the control plane reads.

The text of every value is made inside Spark, so decimals keep all digits and a row costs Python one string. Dates and
timestamps are texts (``2024-02-29 12:34:56.5``), binary is hexadecimal, NaN and infinities are strings, nested values
are JSON objects and arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import types as T

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column as ResultColumn
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.parsed_texts import rows_of
from airflow_hive_acid.spark.schema import sql_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import Select

_AS_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType, T.BooleanType)
_AS_TEXTS = (T.DateType, T.TimestampType, T.TimestampNTZType)


class Selected(NamedTuple):
    """What a select found: its columns with Spark's type texts, and how many rows were written."""

    columns: tuple[ResultColumn, ...]
    rows: int


class Bounded:
    """Counts the lines of a result, and refuses what is too much for the worker that asked.

    :param most: bytes; None for no bound.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.rows = self._bytes = 0

    def line(self, text: str) -> str:
        """The text as it is to be written.

        :raises InvalidArgumentsError: when it is too much; says what to do.
        """
        self.rows += 1
        self._bytes += len(text.encode()) + 1
        if self._most is not None and self._bytes > self._most:
            raise InvalidArgumentsError(
                f"the rows of this SELECT take more than {self._most:,} bytes (row {self.rows:,} is the first that "
                "does not fit), and all of them would come into the memory of the process that asked. Write them to a "
                "table instead (INSERT INTO … SELECT, CREATE TABLE … AS SELECT) or to files (HiveAcidExportOperator), "
                "ask for fewer (WHERE, LIMIT), or raise hive.acid.select.max.bytes"
            )
        return text + "\n"


def select(spark: SparkSession, step: Select) -> Selected:
    """Run a query and write its rows."""
    return write_rows(spark, rows_of(spark, step.query), step)


def write_rows(spark: SparkSession, found: DataFrame, step: Select) -> Selected:
    """Write the rows of a query to where the step wants them.

    :raises InvalidArgumentsError: when they take more bytes than the step permits.
    """
    columns = tuple(ResultColumn(f.name, f.dataType.simpleString()) for f in found.schema.fields)
    if step.limit is not None:
        found = found.limit(step.limit)
    bounded = Bounded(step.max_bytes)
    with HadoopFilesystem.of(spark).writer(step.rows_uri) as writer:
        # Of its RDD, which is the same way. The jobs of a DataFrame's iterator begin after its query has ended, and
        # Spark 4.3 then remembers each of them, with its session, for ever.
        for row in json_lines(found).rdd.toLocalIterator(prefetchPartitions=True):
            writer.write(bounded.line(row[0]))
    return Selected(columns, bounded.rows)


def json_lines(rows: DataFrame) -> DataFrame:
    """One column: the row as a JSON array."""
    positional = rows.toDF(*[f"c{i}" for i in range(len(rows.columns))])
    values = [f"coalesce({json_value(f'c{i}', f.dataType)}, 'null')" for i, f in enumerate(rows.schema.fields)]
    return positional.selectExpr(f"concat('[', concat_ws(',', {', '.join(values)}), ']') as line")


def json_value(value: str, kind: T.DataType) -> str:
    """Spark SQL for the JSON text of a value, NULL for NULL."""
    text = f"cast({value} as string)"
    if isinstance(kind, _AS_NUMBERS):
        return text
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        return f"if({text} in ('NaN', 'Infinity', '-Infinity'), {_quoted(text)}, {text})"
    if isinstance(kind, _AS_TEXTS):
        return _quoted(text)
    if isinstance(kind, T.BinaryType):
        return _quoted(f"hex({value})")
    if isinstance(kind, (T.ArrayType, T.MapType, T.StructType)):
        given, told = sql_type(kind), sql_type(_with_texts(kind))
        return _inside_array(value if given == told else f"cast({value} as {told})")
    if isinstance(kind, (T.StringType, T.CharType, T.VarcharType)):
        return _inside_array(value)
    return _inside_array(text)


def _with_texts(kind: T.DataType) -> T.DataType:
    """The type with texts in the place of timestamps: JSON's formats know no fraction of as many digits as it has."""
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_with_texts(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(_with_texts(kind.keyType), _with_texts(kind.valueType))
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, _with_texts(f.dataType)) for f in kind.fields])
    return T.StringType() if isinstance(kind, (T.TimestampType, T.TimestampNTZType)) else kind


def _quoted(text: str) -> str:
    """Text without anything that JSON would escape."""
    return f"concat('\"', {text}, '\"')"


def _inside_array(value: str) -> str:
    """Spark's JSON writer takes only complex values: the text of a one-element array, without its brackets."""
    text = f"to_json(array({value}), map('ignoreNullFields', 'false'))"
    return f"if({value} is null, null, substring({text}, 2, length({text}) - 2))"
