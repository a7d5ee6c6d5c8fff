"""What differs between the versions of Spark that the data plane runs on, 3.5 to 4.3: nothing else asks for a version.

A driver's Python files and jars are of one version (``engine/applications/spark_version.py`` refuses others), so the
version of PySpark is that of the JVM. Decision 49 says why versions are compared here, and not what a Spark has.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import pyspark
from pyspark.sql import functions as F

from airflow_hive_acid.spark.java_names import java_names

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import Column, DataFrame, SparkSession

_MASK = 0xFFFFFFFF


def version_of(text: str) -> tuple[int, int]:
    """The first two numbers of a version: ``(4, 1)`` of ``4.1.4``."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


_VERSION = version_of(pyspark.__version__)
_HAS_CLASSIC = _VERSION >= (4, 0)
_HAS_REPARTITION_BY_ID = _VERSION >= (4, 1)
_HAS_CONDITIONS = _VERSION >= (4, 0)
_HAS_TRY_TO_DATE = _VERSION >= (4, 1)
_HAS_PATHS_OF_FUNCTIONS = _VERSION >= (4, 2)

READS_INSTANTS = _VERSION >= (4, 2)
"""Whether Spark's own ORC source reads timestamps with local time zone as Hive writes them, or ends with an error."""

RAISED = r"\[USER_RAISED_EXCEPTION\] " + ("" if _HAS_CONDITIONS else r"|java\.lang\.RuntimeException: ")
"""What stands in front of the text of ``raise_error``, as a regular expression. Our jar always says the first."""

FAILED_FILES = (
    (r"\[FAILED_READ_FILE[.A-Z_]*\].*?file:? ?((?:[a-z0-9]+:)?/\S.*?)\. {1,2}",)
    if _HAS_CONDITIONS
    # Up to 3.5 Spark names no file; what stands in front of the first dot and a space, or of the end of the line, does.
    else (
        r"FileNotFoundException: File ((?:[a-z0-9]+:)?/\S.*?) does not exist",
        r"(?:Not a valid ORC file|Malformed ORC file) ((?:[a-z0-9]+:)?/\S.*?)(?:\. |\s|\Z)",
    )
)
"""How a file is named that could not be read, as regular expressions."""


def repartition_by_id(rows: DataFrame, count: int, task: Column) -> DataFrame:
    """Rows of which task N has those whose number is N.

    Spark has this from 4.1 on. Before, it places a row by ``pmod(murmur3(value), count)``: for each task there is a
    value that goes there, so rows are shuffled by that value of their task.

    :param count: how many tasks; some may have no rows.
    :param task: an int from 0 to ``count - 1``.
    """
    if _HAS_REPARTITION_BY_ID:
        return rows.repartitionById(count, task)
    values = F.expr(f"array({', '.join(map(str, _values_of_tasks(count)))})")
    return rows.repartition(count, F.element_at(values, task + 1))


def rows_of_plan(spark: SparkSession, plan: Any) -> Any:
    """The Java ``Dataset`` of a logical plan, in this session."""
    java: Any = spark._jsparkSession
    return dataset_class(spark).ofRows(java, plan)


def dataset_class(spark: SparkSession) -> Any:
    """The class ``Dataset`` of the JVM: from 4.0 on that of the application itself, not of Spark Connect."""
    sql = java_names(spark).org.apache.spark.sql
    return sql.classic.Dataset if _HAS_CLASSIC else sql.Dataset


def try_to_date(value: str, pattern: str) -> str:
    """Spark SQL for a text as a date, NULL where it is none.

    :param value: an expression.
    :param pattern: of Spark, as a literal.
    """
    return (
        f"try_to_date({value}, {pattern})"
        if _HAS_TRY_TO_DATE
        else f"cast(try_to_timestamp({value}, {pattern}) as date)"
    )


def drop_function(spark: SparkSession, name: str) -> bool:
    """Take one of Spark's functions from a session; whether there was one.

    :param name: in lower case.
    """
    jvm = java_names(spark)
    state = cast("Any", spark)._jsparkSession.sessionState()
    identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    if _HAS_PATHS_OF_FUNCTIONS:
        known = identifier(name, jvm.scala.Some("builtin"), jvm.scala.Some("system"))
    else:
        known = identifier(name)
    # A generator is in both.
    dropped = [registry.dropFunction(known) for registry in (state.functionRegistry(), state.tableFunctionRegistry())]
    return any(dropped)


class Expressions:
    """Catalyst's expressions as columns and back.

    :param jvm: of the application.
    """

    def __init__(self, jvm: Any) -> None:
        # Each is a call: look classes up once.
        sql = jvm.org.apache.spark.sql
        self._utils = sql.classic.ExpressionUtils if _HAS_CLASSIC else None
        self._java_column = sql.Column
        self._static = sql.catalyst.expressions.objects.StaticInvoke
        self._more = (jvm.scala.Option.apply(None),) if _HAS_CLASSIC else ()
        self._jvm = jvm

    def expression(self, column: Column) -> Any:
        """The expression of a column."""
        java = cast("Any", column)._jc
        return java.expr() if self._utils is None else self._utils.expression(java)

    def column(self, expression: Any) -> Column:
        """An expression as a column."""
        java = self._java_column(expression) if self._utils is None else self._utils.column(expression)
        return cast("Column", _column_class()(java))

    def static(self, java_class: Any, kind: Any, method: str, arguments: Any, types: Any) -> Any:
        """A call of a static method, NULL when an argument is.

        :param kind: the type of what it returns.
        :param arguments: a Scala sequence of expressions.
        :param types: a Scala sequence of their types; empty: as they are.
        """
        return self._static(java_class, kind, method, arguments, types, True, True, True, *self._more)

    def nano_time(self) -> Column:
        """The clock of the JVM, read for each row whenever that is computed."""
        jvm = self._jvm
        clock = jvm.java.lang.Class.forName("java.lang.System")
        kind = jvm.org.apache.spark.sql.types.DataType.fromDDL("bigint")
        none = jvm.org.apache.spark.api.python.PythonUtils.toSeq(jvm.java.util.ArrayList())
        # Not deterministic, or the optimizer would read the clock once for all.
        return self.column(self._static(clock, kind, "nanoTime", none, none, True, True, False, *self._more))


def error_condition(failure: PySparkException) -> tuple[str, dict[str, str]]:
    """The name of an error in Spark's list, for example ``UNRESOLVED_ROUTINE``, and its parameters; empty without."""
    java: Any = failure
    name = java.getCondition() if _HAS_CONDITIONS else java.getErrorClass()
    # A Java map in 3.5.
    return str(name or ""), {str(key): str(value) for key, value in dict(java.getMessageParameters() or {}).items()}


@lru_cache(maxsize=1)
def _column_class() -> Any:
    if _HAS_CLASSIC:
        from pyspark.sql.classic.column import Column as JavaColumn

        return JavaColumn
    from pyspark.sql import Column

    return Column


@lru_cache(maxsize=64)
def _values_of_tasks(count: int) -> tuple[int, ...]:
    """For each task an int that Spark's hash partitioning of ``count`` tasks puts there."""
    return tuple(_unhashed(task) for task in range(count))


def _unhashed(hashed: int) -> int:
    """The int whose Murmur3 hash, as Spark computes it (seed 42), is this one: each step of it can be undone."""
    h = hashed ^ (hashed >> 16)
    h = h * pow(0xC2B2AE35, -1, 1 << 32) & _MASK
    h ^= (h >> 13) ^ (h >> 26)
    h = h * pow(0x85EBCA6B, -1, 1 << 32) & _MASK
    h ^= (h >> 16) ^ 4  # the length of an int in bytes
    h = (h - 0xE6546B64) * pow(5, -1, 1 << 32) & _MASK
    k = _rotated(h, 19) ^ 42
    k = k * pow(0x1B873593, -1, 1 << 32) & _MASK
    k = _rotated(k, 17) * pow(0xCC9E2D51, -1, 1 << 32) & _MASK
    return k - (1 << 32) if k >= 1 << 31 else k


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK
