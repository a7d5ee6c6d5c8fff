"""SELECT: rows as JSON lines, one array per row, streamed to a file the control plane reads.

The text of every value is made inside Spark, so decimals keep all digits and a row costs Python one string. Dates and
timestamps are texts (``2024-02-29 12:34:56.5``), binary is hexadecimal, NaN and infinities are strings, nested values
are JSON objects and arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.format.jobs import Column as ResultColumn
from airflow_hive_acid.spark.hadoop import HadoopFilesystem

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import Select

_AS_NUMBERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType, T.BooleanType)
_AS_TEXTS = (T.DateType, T.TimestampType, T.TimestampNTZType)
_JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd HH:mm:ss[.SSSSSS]",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss[.SSSSSS]",
}


class Selected(NamedTuple):
    """What a select found: its columns with Spark's type texts, and how many rows were written."""

    columns: tuple[ResultColumn, ...]
    rows: int


def select(spark: SparkSession, step: Select) -> Selected:
    """Run a query and write its rows."""
    found = spark.sql(step.query)
    columns = tuple(ResultColumn(f.name, f.dataType.simpleString()) for f in found.schema.fields)
    if step.limit is not None:
        found = found.limit(step.limit)
    rows = 0
    with HadoopFilesystem(spark).writer(step.rows_uri) as writer:
        for row in json_lines(found).toLocalIterator(prefetchPartitions=True):
            writer.write(row[0] + "\n")
            rows += 1
    return Selected(columns, rows)


def json_lines(rows: DataFrame) -> DataFrame:
    """One column: the row as a JSON array."""
    positional = rows.toDF(*[f"c{i}" for i in range(len(rows.columns))])
    values = [
        F.coalesce(json_value(F.col(f"c{i}"), field.dataType), F.lit("null"))
        for i, field in enumerate(rows.schema.fields)
    ]
    return positional.select(F.concat(F.lit("["), F.concat_ws(",", *values), F.lit("]")).alias("line"))


def json_value(value: Column, kind: T.DataType) -> Column:
    """The JSON text of a value, NULL for NULL."""
    if isinstance(kind, _AS_NUMBERS):
        return value.cast("string")
    if isinstance(kind, (T.FloatType, T.DoubleType)):
        text = value.cast("string")
        finite = ~text.isin("NaN", "Infinity", "-Infinity")
        return F.when(finite, text).otherwise(_quoted(text))
    if isinstance(kind, _AS_TEXTS):
        return _quoted(value.cast("string"))
    if isinstance(kind, T.BinaryType):
        return _quoted(F.hex(value))
    if isinstance(kind, (T.StringType, T.CharType, T.VarcharType, T.ArrayType, T.MapType, T.StructType)):
        return F.when(value.isNotNull(), _inside_array(value))
    return F.when(value.isNotNull(), _inside_array(value.cast("string")))


def _quoted(text: Column) -> Column:
    """Text without anything that JSON would escape."""
    return F.concat(F.lit('"'), text, F.lit('"'))


def _inside_array(value: Column) -> Column:
    """Spark's JSON writer takes only complex values: the text of a one-element array, without its brackets."""
    text = F.to_json(F.array(value), _JSON_OPTIONS)
    return F.substring(text, F.lit(2), F.length(text) - F.lit(2))
