"""``@task.hive_acid_sql``: the function returns SQL. ``@task.hive_acid_pyspark``: the function gets a job.

The first runs in the worker like any task; the second runs in the Spark driver, as the function of a
:class:`~airflow_hive_acid.operators.spark.HiveAcidSparkOperator`: its text travels there, so it imports what it needs
itself and uses nothing else of the DAG file.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.decorator import DecoratedOperator, task_decorator_factory

from airflow_hive_acid.airflow_versions import AirflowFailException
from airflow_hive_acid.hooks.arguments import refused
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator
from airflow_hive_acid.operators.spark import HiveAcidSparkOperator

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from airflow.sdk import Context
    from airflow.sdk.bases.decorator import TaskDecorator

    from airflow_hive_acid.engine.statements.programs import Call

_HEAD = "from __future__ import annotations\n\n"


class _SqlDecorated(DecoratedOperator, HiveAcidOperator):
    """Runs the statements that a function returns; they are templates, too."""

    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *HiveAcidOperator.template_fields)
    template_fields_renderers = {  # noqa: RUF012 - Airflow reads it from the class
        **DecoratedOperator.template_fields_renderers,
        **HiveAcidOperator.template_fields_renderers,
    }
    custom_operator_name = "@task.hive_acid_sql"
    overwrite_rtif_after_execution = True

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(python_callable=python_callable, sql="", **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:
        """Call the function, then run what it returned."""
        self._ask(context)
        return HiveAcidOperator.execute(self, context)

    def resume(self, context: Context, event: dict[str, Any], waiting: dict[str, Any] | None = None) -> dict[str, Any]:
        """Go on after a wait; the function is asked again, and must say the same."""
        self._ask(context)
        return HiveAcidOperator.resume(self, context, event, waiting)

    def _ask(self, context: Context) -> None:
        sql = self.python_callable(*self.op_args, **self.op_kwargs)
        texts = sql if isinstance(sql, list) else [sql]
        if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
            raise AirflowFailException(
                f"{self.python_callable.__name__} must return SQL, a text or a list of texts, not {type(sql).__name__}"
            )
        self.sql = sql
        self.render_template_fields(context)


class _SparkDecorated(DecoratedOperator, HiveAcidSparkOperator):
    """Calls the function itself in the Spark driver."""

    template_fields: Sequence[str] = (
        *DecoratedOperator.template_fields, "tables", "lease", "transaction", "hive_acid_conn_id", "spark_conn_id",
    )  # fmt: skip
    template_fields_renderers = {  # noqa: RUF012 - Airflow reads it from the class
        **DecoratedOperator.template_fields_renderers,
        "tables": "json",
    }
    custom_operator_name = "@task.hive_acid_pyspark"

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        names = list(inspect.signature(python_callable).parameters)
        if names[:1] != ["job"]:
            raise refused(self, f"the first parameter of {python_callable.__name__} must be job, which it gets from us")
        # Airflow checks the call against the signature, and knows nothing of the job.
        super().__init__(
            python_callable=python_callable, op_args=[None, *(op_args or ())], op_kwargs=op_kwargs, **kwargs
        )

    def _check_source(self, application: str | None, module: str | None) -> None:
        if application is not None or module is not None:
            raise refused(
                self, f"task {self.task_id}: the function is the job; application and module do not go with it"
            )

    def call(self) -> Call:
        """The function's own text, without its decorators."""
        from airflow_hive_acid.engine.statements.programs import Call

        name = self.python_callable.__name__
        given = inspect.signature(self.python_callable).bind(*self.op_args, **self.op_kwargs)
        arguments = dict(given.arguments)
        del arguments["job"]
        for parameter in given.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                arguments |= arguments.pop(parameter.name, {})
        source = _HEAD + str(self.get_python_source())  # type: ignore[no-untyped-call]
        return Call(name, self.tables, source, None, name, arguments)


def hive_acid_sql_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """``@task.hive_acid_sql``: run the SQL that the function returns.

    :param kwargs: those of :class:`~airflow_hive_acid.operators.hive_acid.HiveAcidOperator`, without ``sql``.
    """
    return task_decorator_factory(python_callable=python_callable, decorated_operator_class=_SqlDecorated, **kwargs)


def hive_acid_pyspark_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """``@task.hive_acid_pyspark``: call the function in the Spark driver, with a job as its first argument.

    :param kwargs: those of :class:`~airflow_hive_acid.operators.spark.HiveAcidSparkOperator`: ``tables`` at least.
    """
    return task_decorator_factory(python_callable=python_callable, decorated_operator_class=_SparkDecorated, **kwargs)
