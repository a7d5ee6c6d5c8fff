"""A sink for Structured Streaming: each micro-batch becomes one transaction, exactly once.

    query = rows.writeStream.foreachBatch(hive_acid_sink("shop.orders", stream="orders")).option(
        "checkpointLocation", "/checkpoints/orders").start()

The sink writes the rows itself, in this application, and asks the process beside it (an operator, or ``hive-acid
stream``) for everything that the metastore decides: it never sees the metastore. Spark repeats a micro-batch that may
not have come to its end; by stream and number it is recognised, and committed once (R14).
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from airflow_hive_acid.errors import BadRecordError, ConfigurationError, HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.format.jobs import Insert, JobError, JobResult, JobSpec, Merge
from airflow_hive_acid.format.jobs.documents import spec_from_json, to_json
from airflow_hive_acid.format.streams import CHOICES, NO_QUERY, SPOOL, StreamOptions, check_sink, open_question
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.failures import explain
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.java_names import java_names
from airflow_hive_acid.spark.jobs import run
from airflow_hive_acid.spark.session import require_utc, step_session
from airflow_hive_acid.spark.streaming.channel import Conversation
from airflow_hive_acid.spark.streaming.deletes import Deletion
from airflow_hive_acid.spark.streaming.rows import Misfits, keys_as_stored, one_per_key, without_moves
from airflow_hive_acid.spark.versions import dataset_class
from airflow_hive_acid.spark.write import insert
from airflow_hive_acid.spark.write.output import Staging, rows_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.format.jobs import TableSnapshot

_QUERY_ID = "sql.streaming.queryId"
_RUN = "spark.jobGroup.id"
"""Local property by which Spark tells the runs of a query apart: one run gives out each micro-batch once."""
_IDLE_SECONDS = 60.0

_written: dict[str, tuple[str, int]] = {}
"""By stream, the run and the micro-batch that its sinks in this process have written last."""


def hive_acid_sink(
    table: str,
    *,
    stream: str,
    mode: str = "append",
    keys: Sequence[str] = (),
    latest_by: str | None = None,
    delete_when: str | None = None,
    partition: Mapping[str, Any] | None = None,
    on_new_column: str = "fail",
    on_missing_column: str = "fail",
    on_type_change: str = "fail",
    on_bad_record: str = "fail",
    quarantine: str | None = None,
    on_gap: str = "fail",
    start_over: bool = False,
    spool: str | None = None,
) -> HiveAcidSink:
    """A function for ``foreachBatch`` that writes each micro-batch in one transaction, exactly once.

    :param table: ``database.table``, full ACID or insert-only; columns are matched by name.
    :param stream: name of the stream, unique in the metastore and the same whenever it is started again.
    :param mode: ``append``, or ``upsert``: rows whose ``keys`` are there change them, the others are new.
    :param keys: columns that tell rows apart, for ``upsert``.
    :param latest_by: of several rows of a micro-batch with the same keys the one with the largest value counts;
        without it they are an error.
    :param delete_when: for ``upsert``, a condition in Spark SQL over the columns of the stream: a row for which it is
        true deletes the row with its keys, and the others upsert. Of such a row nothing but the keys matters.
    :param partition: value by partition column, for those that are the same for all rows.
    :param on_new_column: what a column that the table does not have does: ``fail``, ``add`` it, or ``ignore`` it;
        those of ``latest_by`` and ``delete_when`` are left out, whatever it says.
    :param on_missing_column: what a column that the stream does not have does: ``fail``, ``null``, or its ``default``.
    :param on_type_change: what a type that may not fit does: ``fail``, or ``convert``, value by value.
    :param on_bad_record: what a value that does not fit does: ``fail``, which stops the stream with the row named, or
        ``quarantine``: such rows go there as JSON lines, the others into the table.
    :param quarantine: URI of a directory for them.
    :param on_gap: what a start behind micro-batches that the stream has not committed does: ``fail``, or ``ignore`` for
        a program that leaves some out itself.
    :param start_over: accept a new checkpoint under the name of an old stream; all of it is applied.
    :param spool: where the process beside it listens; by default what the Spark setting
        ``spark.hive.acid.stream.spool`` says.
    :raises InvalidArgumentsError: for arguments that do not go together, and if there is a session already for a
        ``delete_when`` that is no condition; what is wrong with its columns, the first micro-batch says.
    """
    given: dict[str, Any] = {
        "mode": mode, "keys": keys, "latest_by": latest_by, "delete_when": delete_when, "partition": partition,
        "on_new_column": on_new_column, "on_missing_column": on_missing_column, "on_type_change": on_type_change,
        "on_bad_record": on_bad_record, "quarantine": quarantine, "on_gap": on_gap, "start_over": start_over,
        "spool": spool,
    }  # fmt: skip
    if not isinstance(stream, str) or not 0 < len(stream) <= 200 or not stream.isprintable():
        raise InvalidArgumentsError(f"stream must be a name of 1 to 200 printable characters, not {stream!r}")
    check_sink(given)
    condition = None if delete_when is None else Deletion(delete_when, stream)
    if condition is not None and (session := SparkSession.getActiveSession()) is not None:
        condition.check_syntax(session)
    options = StreamOptions(
        stream, table, "", keys=tuple(keys), partition=dict(partition or {}), start_over=start_over,
        deletes=condition is not None, **{name: given[name] for name in CHOICES},
    )  # fmt: skip
    return HiveAcidSink(options, latest_by, quarantine, spool, condition)


class HiveAcidSink:
    """See :func:`hive_acid_sink`."""

    def __init__(
        self,
        options: StreamOptions,
        latest_by: str | None,
        quarantine: str | None,
        spool: str | None,
        deletion: Deletion | None = None,
    ) -> None:
        self._options = replace(options, view=f"hive_acid_{uuid.uuid4().hex}")
        self._latest_by = latest_by
        self._quarantine = quarantine
        self._spool = spool
        self._deletion = deletion
        self._aside: tuple[list[list[str]], list[str]] = ([], [])
        self._conversation: Conversation | None = None
        self._session: SparkSession | None = None
        self._dataset: Any = None

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write one micro-batch; when it returns, the micro-batch is committed."""
        source = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if self._conversation is None or self._options.source != (source or NO_QUERY):
            self._open(rows.sparkSession, source or NO_QUERY)
        given = [[field.name, field.dataType.simpleString()] for field in rows.schema.fields]
        aside = self._set_aside(rows, given)
        run = rows.sparkSession.sparkContext.getLocalProperty(_RUN)
        self._require_first_call(run, batch_id)
        begin = {"ask": "begin", "batch": batch_id, "columns": given, "aside": aside}
        # Also of one that seems to be committed: with which rows, only the record of the stream can tell.
        answer = self._ask(begin | {"offsets": _offsets(rows.sparkSession, self._options.source)})
        while answer["is"] == "step":
            answer = self._ask(self._done(spec_from_json(answer["spec"]), rows, batch_id))
        if run:
            _written[self._options.stream] = (run, batch_id)

    def close(self) -> None:
        """Let another process go on with the stream at once; otherwise it has to wait until this one counts as dead."""
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.close()

    def _open(self, spark: SparkSession, source: str) -> None:
        self.close()
        require_utc(spark)
        spool = self._spool or spark.conf.get(SPOOL, None)
        if not spool:
            raise ConfigurationError(
                f"stream {self._options.stream} does not know whom to ask: give spool=, or set {SPOOL}"
            )
        self._options = replace(self._options, source=source, application_id=spark.sparkContext.applicationId)
        self._session = step_session(spark, {})
        conversation = Conversation.of(spark, spool, _IDLE_SECONDS)
        conversation.open(open_question(self._options))
        self._conversation = conversation

    def _set_aside(self, rows: DataFrame, given: list[list[str]]) -> list[str]:
        """Columns that say what is to be done with a row, and so need no place in the table; the same for a schema.

        :raises InvalidArgumentsError: when the condition is none of these rows; the other side is told.
        """
        if self._aside[0] != given:
            names = [] if self._latest_by is None else [self._latest_by]
            if self._deletion is not None:
                try:
                    names += self._deletion.columns(rows)
                except HiveAcidError as problem:
                    self._refuse(problem)
                    raise
            self._aside = (given, sorted({name.lower() for name in names}))
        return self._aside[1]

    def _require_first_call(self, run: str | None, batch: int) -> None:
        """Refuse other rows under the number of a micro-batch: they would be taken for its repetition and dropped.

        :param run: None outside of a query.
        :raises InvalidArgumentsError: the other side is told.
        """
        stream = self._options.stream
        if run and _written.get(stream) == (run, batch):
            problem = InvalidArgumentsError(
                f"stream {stream} is called twice for micro-batch {batch}: the rows of its first call are committed, "
                "those of this call are not written. Give each call of the function a sink with a stream name of its "
                "own, and start the query again: it writes them then"
            )
            self._refuse(problem)
            raise problem

    def _refuse(self, problem: HiveAcidError) -> None:
        self._ask({"ask": "refuse", "type": type(problem).__name__, "message": str(problem)})

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._conversation is None:
            raise InvalidArgumentsError(f"stream {self._options.stream} is closed")
        try:
            return self._conversation.ask(question)
        except HiveAcidError:
            # Nobody knows what became of it; the next micro-batch, or the same one again, begins a new conversation.
            self.close()
            raise

    def _done(self, spec: JobSpec, rows: DataFrame, batch: int) -> dict[str, Any]:
        """Run the step of a micro-batch."""
        started = time.monotonic()
        quarantined = 0
        if self._deletion is not None:
            rows = self._deletion.decided(rows)
        try:
            result, quarantined = self._written(spec, rows, batch)
        except HiveAcidError as problem:
            application = rows.sparkSession.sparkContext.applicationId
            result = JobResult(spec.job_id, application, JobError(type(problem).__name__, str(problem)))
        result = replace(result, seconds=time.monotonic() - started)
        answer = {"ask": "result", "result": to_json(result), "quarantined": quarantined}
        return answer | {"offsets": _offsets(rows.sparkSession, self._options.source)}

    def _written(self, spec: JobSpec, rows: DataFrame, batch: int) -> tuple[JobResult, int]:
        """The result, and how many rows were set aside."""
        try:
            return self._run(spec, rows), 0
        except InvalidArgumentsError:
            if self._deletion is not None:
                self._deletion.check_values(rows)
            raise
        except BadRecordError as bad:
            if not isinstance(spec.step, Insert | Merge):
                raise
            columns = _columns(spec.step.target)
            misfits = Misfits.of(rows, columns, self._options.keys, self._options.stream, batch)
            if self._quarantine is None:
                raise misfits.named(rows, bad) from bad
            aside = misfits.set_aside(rows, self._quarantine)
            _clear(HadoopFilesystem.of(rows.sparkSession), str(spec.staging))
            return self._run(spec, misfits.fitting(rows)), aside

    def _run(self, spec: JobSpec, rows: DataFrame) -> JobResult:
        if self._session is None:
            raise AssertionError("a step before the stream was opened")
        step = spec.step
        if isinstance(step, Merge):
            rows = keys_as_stored(rows, _columns(step.target), self._options.keys, step.target.table)
            rows = one_per_key(rows, self._options.keys, self._latest_by, self._options.stream)
            spec = replace(spec, step=without_moves(step, rows, self._options.keys, self._options.stream))
        if not isinstance(step, Insert) or not step.target.has_row_ids:
            rows.createOrReplaceGlobalTempView(self._options.view)
            return run.run_step(self._session, spec)
        # A session for all micro-batches, and no views and no SQL: they would cost as much as the writing.
        try:
            staging = Staging(HadoopFilesystem.of(self._session), str(spec.staging))
            written = insert.insert(self._session, step, staging, self._ours(rows))
        except HiveAcidError:
            raise
        except Exception as failure:
            raise explain(self._session, failure, [step.target.location]) from failure
        application = self._session.sparkContext.applicationId
        return JobResult(spec.job_id, application, directories=tuple(written), inserted=rows_in(written))

    def _ours(self, rows: DataFrame) -> DataFrame:
        """The rows in the session with our settings; those of the query's own session are the user's."""
        session: Any = self._session
        if self._dataset is None:
            self._dataset = dataset_class(session)
        return DataFrame(self._dataset.ofRows(session._jsparkSession, rows._jdf.queryExecution().analyzed()), session)


def _columns(target: TableSnapshot) -> tuple[schema.TableColumn, ...]:
    return schema.table_columns((*target.columns, *target.partition_columns), target.table)


def _clear(fs: HadoopFilesystem, staging: str) -> None:
    """What the first attempt left would stand in the way of the second. R4: a fence in the place of it stays."""
    if fs.is_directory(staging):
        for entry in fs.entries(fs.qualify(staging)) or ():
            fs.delete(entry.uri)


def _offsets(spark: SparkSession, source: str) -> dict[str, Any] | None:
    """Up to where the sources of a query are read with this micro-batch, None when Spark does not tell.

    ``sources`` is for people; ``ends`` is the same in every repetition, whatever the sources are called.
    """
    if source == NO_QUERY:
        return None
    jvm = java_names(spark)
    session: Any = spark._jsparkSession
    try:
        # The query belongs to the session that started it; this one is a copy, and what both share knows it.
        query = session.sharedState().activeStreamingQueries().get(jvm.java.util.UUID.fromString(source))
        if query is None:
            return None
        progress = query.availableOffsets()
        offsets, ends = progress.valuesIterator(), []
        while offsets.hasNext():
            ends.append(str(offsets.next().json()))
    except Py4JError:
        return None
    return {"sources": progress.toString(), "ends": sorted(ends)}
