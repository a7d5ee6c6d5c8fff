"""Files outside the warehouse as views whose every value is known to fit its column.

With declared columns a CSV is read as text and converted in the plan: one conversion per value, and the first that
fails ends the job. Only then a second pass over the files finds out which file, row and column it was. Values that a
statement does not use are converted too: a file either has the declared shape or is refused.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.errors import BadRecordError, InvalidArgumentsError
from airflow_hive_acid.format.jobs import DATAFRAME, RECORDS
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import Shown, fail
from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.read.reader import presented, project, without_blanks
from airflow_hive_acid.spark.read.scan import read_files_whole
from airflow_hive_acid.spark.versions import try_to_date

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrameReader, SparkSession

    from airflow_hive_acid.format.jobs import Source

_ROW = f"{schema.INTERNAL_PREFIX}source_number"
_MISFIT = f"{schema.INTERNAL_PREFIX}misfit"
_CORRUPT = f"{schema.INTERNAL_PREFIX}corrupt"
_TEXT_FORMATS = ("csv", "json")
_COMPLEX = (T.ArrayType, T.MapType, T.StructType)
_LARGEST_FILE = 1 << 50
_LONGEST_SHOWN = 100
_ABOUT_A_SOURCE = re.compile(r"hive-acid BadRecordError\] source |MALFORMED_(?:RECORD|CSV)|Malformed records")


def create_view(spark: SparkSession, source: Source) -> None:
    """Make a source visible to queries under its name.

    :raises InvalidArgumentsError: when it lacks a declared column or cannot be opened.
    """
    if source.format == DATAFRAME:
        spark.table(f"global_temp.{schema.quoted(source.options['view'])}").createOrReplaceTempView(source.name)
        return
    opened = _Opened(spark, source)
    view = without_blanks(opened.checked()) if source.columns else opened.reader().load()
    view.createOrReplaceTempView(source.name)


def may_be_a_record(failure_text: str) -> bool:
    """Whether a job may have failed because of a record in one of its sources."""
    return _ABOUT_A_SOURCE.search(failure_text) is not None


def find_bad_record(spark: SparkSession, sources: Iterable[Source]) -> BadRecordError | None:
    """The first record in the sources that does not fit, from a second pass over the files.

    :param spark: a session of its own: files are read whole in it.
    """
    for source in sources:
        in_files = source.columns and source.format != RECORDS
        found = _Opened(spark, source).first_bad_record() if in_files else None
        if found is not None:
            return found
    return None


class _Opened:
    """A source with declared columns."""

    def __init__(self, spark: SparkSession, source: Source) -> None:
        self._spark = spark
        self._source = source
        self._name = f"source {source.name}"
        self._columns = schema.table_columns(source.columns, self._name)
        self._format = "json" if source.format == RECORDS else source.format.lower()
        self._options = {key.lower(): value for key, value in source.options.items()}
        self._lines = self._options.pop("lines", "") if source.format == RECORDS else None

    def reader(self) -> DataFrameReader:
        return self._spark.read.format(self._format).options(**self._options)

    def checked(self) -> DataFrame:
        """The rows in their declared types; reading a row that does not fit fails."""
        rows = self._raw("FAILFAST")
        given = {f.name.lower(): f.dataType for f in rows.schema.fields}
        values = [f"{self._value_or_failure(c, given[c.name])} as {schema.quoted(c.name)}" for c in self._columns]
        # Refers to every column, so that none escapes its conversion. The row number keeps the optimizer from
        # moving the predicate below the projection, where each value would be converted a second time.
        numbered = rows.selectExpr(*values, f"monotonically_increasing_id() as {_ROW}")
        nulls = " + ".join(f"if({schema.quoted(c.name)} is null, 1, 0)" for c in self._columns)
        found = numbered.where(f"{_ROW} >= -({nulls})").drop(_ROW)
        # A char has its blanks, as one of a table: else the two would not be equal in a join.
        shown = [presented(schema.quoted(c.name), c) if c.is_char else schema.quoted(c.name) for c in self._columns]
        return project(found, shown) if any(c.is_char for c in self._columns) else found

    def first_bad_record(self) -> BadRecordError | None:
        """The first record, by file and position, that does not fit."""
        read_files_whole(self._spark, _LARGEST_FILE)
        rows = self._raw("PERMISSIVE", _CORRUPT)
        given = {f.name.lower(): f.dataType for f in rows.schema.fields}
        misfits, shown = [], []
        for i, column in enumerate(self._columns):
            value = schema.quoted(column.name)
            fits = _converted(value, given[column.name], column, self._options)
            misfits.append(f"when {value} is not null and ({fits}) is null then {i}")
            shown.append(f"when {i} then cast({value} as string)")
        broken = f"when {_CORRUPT} is not null then -1" if _CORRUPT in given else ""
        whole = f"when -1 then {_CORRUPT}" if _CORRUPT in given else ""
        located = rows.selectExpr(
            "*", f"case {' '.join(misfits)} {broken} end as {_MISFIT}", f"monotonically_increasing_id() as {_ROW}"
        ).selectExpr(
            "_metadata.file_path as file",
            f"{_ROW} as number",
            f"{_MISFIT} as misfit",
            f"substring(case {_MISFIT} {' '.join(shown)} {whole} end, 1, {_LONGEST_SHOWN}) as shown",
        )
        problem = F.expr("if(misfit is null, null, struct(number, misfit, shown))")
        first = (
            located.groupBy("file")
            .agg(F.min("number").alias("start"), F.min(problem).alias("problem"))
            .where(F.col("problem").isNotNull())
            .orderBy("file")
            .first()
        )
        return None if first is None else self._describe(first)

    def _describe(self, found: Any) -> BadRecordError:
        row = found["problem"]["number"] - found["start"] + 1
        index, shown = found["problem"]["misfit"], found["problem"]["shown"]
        where = f"{found['file']}, row {row}"
        if index < 0:
            return BadRecordError(
                f"{where}: the record does not have the {len(self._columns)} fields "
                f"{', '.join(c.name for c in self._columns)}: {shown!r}; nothing was written"
            )
        column = self._columns[index]
        return BadRecordError(f"{where}, column {column.name}: {shown!r} is no {column.hive_type}; nothing was written")

    def _raw(self, mode: str, corrupt: str | None = None) -> DataFrame:
        """The rows as they come: text for formats that are text, else whatever the files hold."""
        reader = self.reader()
        if self._format not in _TEXT_FORMATS:
            rows = reader.load()
            known = {name.lower() for name in rows.columns}
            missing = [c.name for c in self._columns if c.name not in known]
            if missing:
                found = ", ".join(rows.columns)
                raise InvalidArgumentsError(f"{self._name} has no column {missing[0]}; it has {found}")
            return rows
        fields = [
            T.StructField(c.name, c.type if isinstance(c.type, _COMPLEX) else T.StringType()) for c in self._columns
        ]
        if corrupt is not None:
            fields.append(T.StructField(corrupt, T.StringType()))
            reader = reader.option("columnNameOfCorruptRecord", corrupt)
        # Without pruning a record is taken apart as a whole, and a missing or surplus field is noticed.
        reader = reader.schema(T.StructType(fields)).option("mode", mode).option("columnPruning", "false")
        return reader.load() if self._lines is None else self._records(reader, self._lines)

    def _records(self, reader: DataFrameReader, text: str) -> DataFrame:
        """Lines that came with the job: they go to the executors with it, and nobody has to clean up after them."""
        jvm = java_names(self._spark)
        mapper, a_list = (
            jvm.com.fasterxml.jackson.databind.ObjectMapper(),
            jvm.java.lang.Class.forName("java.util.ArrayList"),
        )
        lines = mapper.readValue(json.dumps(text.split("\n")), a_list)
        found = self._spark._jsparkSession.createDataset(lines, jvm.org.apache.spark.sql.Encoders.STRING())
        return DataFrame(reader._jreader.json(found), self._spark)

    def _value_or_failure(self, column: schema.TableColumn, given: T.DataType) -> str:
        value = schema.quoted(column.name)
        if given == column.type and column.length is None:
            return value
        refusal = fail(
            BadRecordError,
            f"{self._name}, column {column.name}: '",
            Shown(f"substring(cast({value} as string), 1, {_LONGEST_SHOWN})"),
            f"' is no {column.hive_type}",
        )
        converted = _converted(value, given, column, self._options)
        return f"coalesce({converted}, if({value} is null, null, {refusal}))"


def _converted(value: str, given: T.DataType, column: schema.TableColumn, options: dict[str, str]) -> str:
    """The value in the column's type, NULL when it does not fit."""
    if column.length is not None:
        text = f"cast({value} as string)"
        return f"if(length(rtrim({text})) <= {column.length}, substring({text}, 1, {column.length}), null)"
    if given == column.type:
        return value
    if isinstance(given, T.StringType):
        if isinstance(column.type, T.DateType) and "dateformat" in options:
            return try_to_date(value, schema.sql_text(options["dateformat"]))
        if isinstance(column.type, T.TimestampType) and "timestampformat" in options:
            return f"try_to_timestamp({value}, {schema.sql_text(options['timestampformat'])})"
    keep = "cast" if isinstance(column.type, _COMPLEX) else "try_cast"
    return f"{keep}({value} as {schema.sql_type(column.type)})"
