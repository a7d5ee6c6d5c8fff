"""From Spark's failures to the errors of this package.

A condition found inside a running task (a value that does not fit, a file nobody expected) travels out as text: the
expression made by ``fail`` names a class of ``airflow_hive_acid.errors`` and the message, and ``explain`` finds both
again in whatever Spark wrapped around them. Everything else is recognised by Spark's own error conditions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException

from airflow_hive_acid.errors import (
    BadRecordError,
    CorruptTableError,
    HiveAcidError,
    InvalidArgumentsError,
    JobFailedError,
    SqlSyntaxError,
)
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs.errors import reported
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.outages import login_is_over, storage_is_silent
from airflow_hive_acid.spark.versions import FAILED_FILES, RAISED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

_MARKED = re.compile(rf"(?:{RAISED})\[hive-acid (\w+)\] (.*?) \[end hive-acid\]", re.DOTALL)
# Spark ends a condition's text with the SQLSTATE; what follows are details of the Java side.
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.*?)(?:\s*SQLSTATE: \w+|\n\s*at |\Z)", re.DOTALL)
_FAILED_FILE = [re.compile(pattern, re.DOTALL) for pattern in FAILED_FILES]
# Names that Spark suggests for a misspelt one; users never see these.
_OURS = re.compile(rf"(?:, )?`{schema.INTERNAL_PREFIX}\w+`")
_NOT_THE_CAUSE = ("FAILED_READ_FILE", "TASK_WRITE_FAILED", "FAILED_EXECUTE_UDF")
_FRAME = re.compile(r"\s+at \S+\(.*\)|\s*\.\.\. \d+ more|\s*Driver stacktrace:")
_LONGEST = 2000
_TOO_LARGE = ("java.lang.StackOverflowError", "FAILED_TO_PARSE_TOO_COMPLEX")
_TOO_LARGE_FOR_SPARK = (
    "the statement is too large for Spark, which goes down a Java stack for each AND, OR and UNION: write many values "
    "as IN (…), NOT IN (…) or a table that is joined, and many branches as several INSERTs; a thousand ANDs are read"
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A value of the row in a message of :func:`fail`.

    :param value: an expression of Spark SQL.
    """

    value: str


def fail(error: type[HiveAcidError], *message: str | Shown) -> str:
    """Spark SQL that ends the job with this error as soon as it is evaluated.

    :param message: its parts, texts and values. Texts are shown as they are: names in them may hold anything.
    """
    parts: list[str] = []
    text = f"[hive-acid {error.__name__}] "
    for part in message:
        if isinstance(part, Shown):
            parts += [schema.sql_text(text), f"coalesce(cast({part.value} as string), 'NULL')"]
            text = ""
        else:
            text += part
    return f"raise_error(concat({', '.join([*parts, schema.sql_text(text)])}, ' [end hive-acid]'))"


def explain(spark: SparkSession, failure: BaseException, tables: Iterable[str]) -> HiveAcidError:
    """The error of this package that a failure amounts to.

    :param tables: locations of the tables of the step: a file that cannot be read there is damage, elsewhere input.
    """
    if isinstance(failure, HiveAcidError):
        return failure
    if any(sign in str(failure) for sign in _TOO_LARGE):
        return InvalidArgumentsError(_TOO_LARGE_FOR_SPARK)
    if isinstance(failure, ParseException):
        return SqlSyntaxError(str(failure).strip()[:_LONGEST])
    if isinstance(failure, AnalysisException):
        said = _condition(str(failure)) or str(failure).partition("\n")[0]
        return InvalidArgumentsError(f"Spark cannot run the statement: {_OURS.sub('', said)}")
    text = full_text(spark, failure)
    marked = _MARKED.search(text)
    if marked is not None:
        # A user's own raise_error() may look the same.
        return reported(marked[1], marked[2])
    refused = login_is_over(text)
    if refused is not None:
        return JobFailedError(refused)
    damaged = _damaged_file(text, tables)
    if damaged is not None:
        silent = storage_is_silent(text)  # R17: then it is not known whether the file is damaged
        return damaged if silent is None else JobFailedError(silent)
    condition = _condition(text)
    if condition is not None and _is_about_values(text):
        return InvalidArgumentsError(f"an expression of the statement failed: {condition}")
    return JobFailedError((condition or _messages(text) or type(failure).__name__)[:_LONGEST])


def full_text(spark: SparkSession, failure: BaseException) -> str:
    """Message and causes, the whole Java chain in one call."""
    java: Any = None
    if isinstance(failure, Py4JJavaError):
        java = failure.java_exception
    elif isinstance(failure, PySparkException):
        java = getattr(failure, "_origin", None)
    if java is not None:
        try:
            return str(java_names(spark).org.apache.spark.util.Utils.exceptionString(java))
        except Py4JError:
            # The JVM is gone; what Python knows must do.
            return str(failure)
    return str(failure) or repr(failure)


def _damaged_file(text: str, tables: Iterable[str]) -> HiveAcidError | None:
    found = next((match for pattern in _FAILED_FILE if (match := pattern.search(text))), None)
    if found is None:
        return None
    file = found[1]
    cause = _last_cause(text)
    if any(paths.is_inside(table, file) for table in tables):
        return CorruptTableError(f"{file} is missing or cannot be read, and rows would be lost without it: {cause}")
    return BadRecordError(f"{file} cannot be read: {cause}")


def _messages(text: str) -> str:
    """What a Java chain says, each thing once, without the frames between: those are in the application's log."""
    said: list[str] = []
    for line in text.strip().splitlines():
        message = line.strip().removeprefix("Caused by: ")
        if message and not _FRAME.match(line) and not any(message in before for before in said):
            said.append(line.strip())
    return "\n".join(said)


def _last_cause(text: str) -> str:
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ")[:300] if causes else _condition(text) or "no cause given"


def _condition(text: str) -> str | None:
    """The innermost Spark condition that says something, in one line."""
    found = [m for m in _CONDITION.finditer(text) if not m[1].startswith(_NOT_THE_CAUSE)]
    if not found:
        return None
    return f"[{found[-1][1]}] {' '.join(found[-1][2].split())}"[:_LONGEST]


def _is_about_values(text: str) -> bool:
    """ANSI errors: a cast, an overflow, a division; the same statement on the same data fails again."""
    return any(
        name in text
        for name in (
            "SparkArithmeticException",
            "SparkNumberFormatException",
            "SparkDateTimeException",
            "SparkRuntimeException",
            "SparkIllegalArgumentException",
            "SparkArrayIndexOutOfBoundsException",
        )
    )
