"""Runs a Structured Streaming application whose micro-batches are committed exactly once (R14)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_hive_acid.errors import HiveAcidError, UnsupportedStatementError
from airflow_hive_acid.hooks import stats
from airflow_hive_acid.hooks.arguments import (
    Takes,
    check_parsed,
    many,
    optional_mapping,
    optional_text,
    refused,
)
from airflow_hive_acid.hooks.tasks import agent_info, fail_task, require_rendered, stop_on_kill, unique_scope
from airflow_hive_acid.operators.hive_acid import HiveAcidOperator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

    from airflow_hive_acid.engine.streams.runs import StreamRunner
    from airflow_hive_acid.sql.planning.named_tables import Touched


class HiveAcidStreamOperator(HiveAcidOperator):
    """Runs a streaming application with spark-submit, and commits the micro-batches of its ``hive_acid_sink(…)``.

    Either a program of your own (``application``), or a query that is described here: ``source_format``, ``table``,
    ``stream`` and ``checkpoint``. The task lasts as long as the query: until everything that is there was read
    (``availableNow``, the default), or, with ``interval`` or a trigger of your program, until somebody ends it. A retry
    goes on where the last commit was; the micro-batches of a try that is over are fenced.

    :param application: path or URI of a PySpark program that uses the sink. (templated)
    :param application_args: its arguments. (templated)
    :param source_format: Spark's name of the source: ``kafka``, ``parquet``, ``json``, ``delta``, …. (templated)
    :param source_options: the source's options; not shown, because they may hold secrets.
    :param source_schema: columns of a file source, as Spark's DDL. (templated)
    :param query: Spark SQL over ``source``, the rows of the source. (templated)
    :param table: the table to write. (templated)
    :param stream: name of the stream, unique in the metastore. (templated)
    :param checkpoint: URI of Spark's checkpoint directory. (templated)
    :param interval: go on for ever, with a micro-batch every so often, as Spark writes it: ``10 seconds``. (templated)
    :param sink: more arguments of ``hive_acid_sink``: ``mode``, ``keys``, ``delete_when``, ``on_new_column``, ….
    :raises ValueError: for arguments that do not go together, those of the sink and its condition among them.
    """

    template_fields: Sequence[str] = (
        "application", "application_args", "source_format", "source_schema", "query", "table", "stream", "checkpoint",
        "interval", "hive_acid_conn_id", "spark_conn_id",
    )  # fmt: skip
    template_ext: Sequence[str] = ()
    template_fields_renderers = {"query": "sql"}  # noqa: RUF012 - Airflow reads it from the class
    lineage_literals = False
    takes: ClassVar[Takes] = {
        **HiveAcidOperator.takes,
        "application": optional_text("a path or URI"),
        "application_args": many("a list of arguments", lambda each: each is not None),
        "source_format": optional_text("the name of a Spark source"),
        "source_options": optional_mapping("options of the source to their values"),
        "source_schema": optional_text("columns as Spark's DDL"),
        "query": optional_text("a SELECT"),
        "table": optional_text("[db.]table"),
        "stream": optional_text("the name of the stream"),
        "checkpoint": optional_text("a URI"),
        "interval": optional_text("a time as Spark writes it, 10 seconds for example"),
        "sink": optional_mapping("arguments of hive_acid_sink to their values"),
    }
    never_a_member: ClassVar[str | None] = "each micro-batch of a stream is a transaction of its own. Keep it outside"

    def __init__(
        self,
        *,
        application: str | None = None,
        application_args: Sequence[str] = (),
        source_format: str | None = None,
        source_options: Mapping[str, str] | None = None,
        source_schema: str | None = None,
        query: str | None = None,
        table: str | None = None,
        stream: str | None = None,
        checkpoint: str | None = None,
        interval: str | None = None,
        sink: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sql="", **kwargs)
        if self.lease is not None:
            raise refused(
                self,
                f"task {self.task_id}: lease would change nothing: the commits of a stream ask for none; leave it out",
            )
        described = {"source_format": source_format, "table": table, "stream": stream, "checkpoint": checkpoint}
        given = [name for name, value in described.items() if value is not None]
        if (application is None) == (not given):
            raise refused(
                self, f"task {self.task_id} must be given an application, or {', '.join(described)}; not both"
            )
        lacking = [name for name in described if name not in given]
        if application is None and lacking:
            raise refused(self, f"task {self.task_id} describes a query without {', '.join(lacking)}")
        more = {
            "source_options": source_options, "source_schema": source_schema, "query": query, "interval": interval,
            "sink": sink,
        }  # fmt: skip
        useless = [name for name, value in more.items() if value is not None]
        if application is not None and useless:
            raise refused(
                self, f"task {self.task_id}: {useless[0]} describes a query; an application has one of its own"
            )
        self.application = application
        self.application_args = application_args
        self.source_format = source_format
        self.source_options = source_options
        self.source_schema = source_schema
        self.query = query
        self.table = table
        self.stream = stream
        self.checkpoint = checkpoint
        self.interval = interval
        self.sink = sink
        self._runner: StreamRunner | None = None
        check_parsed(self, self.takes)
        if sink is None or isinstance(sink, Mapping):  # whatever else a mapped task is given is refused when it runs
            self._check_sink(sink or {})

    def _check_sink(self, sink: Mapping[str, Any]) -> None:
        from airflow_hive_acid.format.streams import check_sink

        twice = next((name for name in ("table", "stream") if name in sink), None)
        if twice is not None:
            raise refused(self, f"task {self.task_id}: sink names {twice}; give it as {twice}=")
        try:
            check_sink(sink)
            if sink.get("delete_when") is not None:
                # Imported for those who need it: the parser takes its time.
                from airflow_hive_acid.sql.parsing.builders import row_condition

                row_condition(sink["delete_when"], "delete_when")
        except HiveAcidError as problem:
            raise refused(self, f"task {self.task_id}, sink: {problem}") from None

    @property
    def _has_script(self) -> bool:
        """It runs a program."""
        return False

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the application to its end.

        :return: how many ``micro_batches`` were committed, in how many ``streams``.
        """
        from airflow_hive_acid.engine.streams.runs import StreamRunner
        from airflow_hive_acid.hooks.hive_acid import HiveAcidHook
        from airflow_hive_acid.hooks.transactions import EMPTY

        require_rendered(self, self.takes)
        spark_conf = self.lineage_conf(context, self.spark_conf or {})
        hook = HiveAcidHook(self.hive_acid_conn_id, spark_conn_id=self.spark_conn_id, spark_conf=spark_conf)
        # The tries of a task instance have one name: a later one takes over at once what an earlier one ran. Another
        # Airflow's task of the same names has another one.
        who = " / ".join(unique_scope(context))
        try:
            if self.transaction not in EMPTY:
                raise UnsupportedStatementError(f"{self.task_id} cannot work in a transaction: {self.never_a_member}")
            with hook:
                self._runner = StreamRunner(
                    hook.get_conn(), hook.get_launcher(), hook.settings, who,
                    warehouse=hook.warehouse,
                    # Five lines for each micro-batch would bury everything else.
                    on_event=lambda event: stats.tell_event(event, self.hive_acid_conn_id),
                    agent_info=agent_info(context),
                )  # fmt: skip
                done = self._runner.run(*self.program())
        except HiveAcidError as error:
            fail_task(error)
        finally:
            self._runner = None
        self.log.info("%s", done)
        return done.to_document()

    def program(self) -> tuple[str, list[str], dict[str, str]]:
        """What to submit, its arguments, and Spark settings for it."""
        from airflow_hive_acid import resources
        from airflow_hive_acid.format.streams import JOB

        if self.application is not None:
            return self.application, [str(each) for each in self.application_args], {}
        return str(resources.spark_job("stream")), [], {JOB: json.dumps(self.job())}

    def on_kill(self) -> None:
        """Stop the application; what it had begun is aborted."""
        runner = self._runner
        if runner is not None:
            stop_on_kill(runner.cancel)

    def job(self) -> dict[str, Any]:
        """The query as ``spark_jobs/stream.py`` reads it."""
        return {
            "format": self.source_format,
            "options": dict(self.source_options or {}),
            "schema": self.source_schema,
            "query": self.query,
            "checkpoint": self.checkpoint,
            "interval": self.interval,
            "sink": {**(self.sink or {}), "table": self.table, "stream": self.stream},
        }

    def lineage_touched(self) -> Touched:
        """The table that is described; of a program nobody knows."""
        from airflow_hive_acid.sql.parsing.builders import table_name
        from airflow_hive_acid.sql.planning.named_tables import Touched

        found = Touched()
        if self.table is not None:
            found.write(str(table_name(self.table)))
        return found
