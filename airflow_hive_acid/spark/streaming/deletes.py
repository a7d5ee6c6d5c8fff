"""Which rows of a change-data-capture stream delete: a condition of the user's in Spark SQL, over one row.

Spark itself reads the condition, as an expression and never as part of a statement, so no text can end it and go on
with something else. What it may look at is checked on the analysed plan: a projection of the micro-batch, nothing
beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.streams import DELETED
from airflow_hive_acid.spark.failures import explain
from airflow_hive_acid.spark.java_names import java_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Deletion:
    """The condition ``delete_when`` of a stream.

    :param text: Spark SQL.
    :param stream: the stream's name, for messages.
    """

    def __init__(self, text: str, stream: str) -> None:
        self._text = text
        self._stream = stream

    def check_syntax(self, spark: SparkSession) -> None:
        """Whether it is one expression, and asks no table.

        :raises InvalidArgumentsError: if it is not.
        """
        session: Any = spark._jsparkSession
        try:
            found = session.sessionState().sqlParser().parseExpression(self._text)
        except AnalysisException as problem:
            raise self._wrong(f"is not one condition: {_said(problem)}") from None
        if found.getClass().getSimpleName().endswith("Alias"):
            raise self._wrong("is not one condition: it gives a name to something")
        self._refuse_queries(spark, found)

    def columns(self, rows: DataFrame) -> list[str]:
        """Names of the columns that it looks at.

        :raises InvalidArgumentsError: when it is no condition over one of these rows.
        """
        spark = rows.sparkSession
        self.check_syntax(spark)
        try:
            found = rows.select(F.expr(self._text).alias(DELETED))
        except AnalysisException as problem:
            raise self._wrong(f"cannot be asked of its columns {', '.join(rows.columns)}: {_said(problem)}") from None
        plan, own = (frame._jdf.queryExecution().analyzed() for frame in (found, rows))
        # Aggregates, window functions and explode() would be a plan of another form.
        if plan.nodeName() != "Project" or not plan.child().equals(own):
            raise self._wrong("must be about one row by itself: no aggregate, window function or explode()")
        condition = plan.expressions().head()
        self._refuse_queries(spark, condition)
        kind = found.schema.fields[0].dataType
        if not isinstance(kind, T.BooleanType):
            raise self._wrong(f"is {kind.simpleString()}, and must be true or false: compare it with a value")
        if not condition.deterministic():
            raise self._wrong("must say the same of a row whenever it is asked: no rand() or the like")
        named = condition.references().toSeq()
        return [str(named.apply(i).name()) for i in range(named.size())]

    def decided(self, rows: DataFrame) -> DataFrame:
        """The rows with the column :data:`DELETED`; a condition that is NULL is not true."""
        return rows.select("*", F.coalesce(F.expr(self._text), F.lit(False)).alias(DELETED))

    def check_values(self, rows: DataFrame) -> None:
        """After a failure: whether the condition itself fails on one of the rows, as ``'d' = 1`` does.

        :param rows: as :meth:`decided` made them.
        :raises InvalidArgumentsError: if it does.
        """
        try:
            rows.selectExpr(f"max({DELETED})").collect()
        except (PySparkException, Py4JJavaError) as failure:
            said = explain(rows.sparkSession, failure, [])
            if isinstance(said, InvalidArgumentsError):
                raise self._wrong(f"failed on a row: {str(said).rstrip('.')}") from failure

    def _refuse_queries(self, spark: SparkSession, expression: Any) -> None:
        jvm = java_names(spark)
        queries = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION()
        if expression.containsPattern(queries):
            raise self._wrong("must not ask tables: no subquery. Join what it needs in the stream's own query")

    def _wrong(self, what: str) -> InvalidArgumentsError:
        return InvalidArgumentsError(
            f"delete_when={self._text!r} of stream {self._stream} {what}. It takes one condition in Spark SQL over the "
            "stream's columns, such as \"op = 'd'\""
        )


def _said(problem: AnalysisException) -> str:
    """Spark's message in one line, without the statement around it."""
    text = str(problem).strip().partition("\n\n== SQL")[0].partition(";\n")[0].partition(" SQLSTATE")[0]
    return " ".join(text.split())
