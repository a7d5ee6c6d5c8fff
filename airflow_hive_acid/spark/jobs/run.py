"""One job spec to one result document: the only entrance to this room for jobs.

The job writes below ``spec.staging`` and nowhere else, except for uploads that only the control plane can end as files
(decision 74); whatever it wrote before it failed is the control plane's to remove. A failure is a result too, with the
name of an error class and its text, so that a session can go on.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.jobs import (
    Append,
    CloseBatch,
    Compact,
    Copy,
    Delete,
    Export,
    Insert,
    JobError,
    JobResult,
    Merge,
    Program,
    Select,
    Update,
    Uploads,
)
from airflow_hive_acid.python_versions import assert_never
from airflow_hive_acid.spark.accelerator import accelerator
from airflow_hive_acid.spark.failures import explain, full_text
from airflow_hive_acid.spark.guards import check_sources, guard, refusal
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.jobs import program
from airflow_hive_acid.spark.parsed_texts import check_texts
from airflow_hive_acid.spark.read import counts, select, sources
from airflow_hive_acid.spark.read.deleted_rows import read_view
from airflow_hive_acid.spark.read.reader import open_table, without_blanks
from airflow_hive_acid.spark.session import require_utc, step_session
from airflow_hive_acid.spark.write import batches, change, compact, copies, export, insert, merge, plain_insert
from airflow_hive_acid.spark.write.output import Staging, rows_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import JobSpec, TableSnapshot, WrittenDirectory


def execute(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Run one step; its failure is in the result, not raised.

    :param spark: any session of the application; the step gets a fresh one beside it.
    """
    try:
        return run_step(spark, spec)
    except HiveAcidError as error:
        failure = JobError(type(error).__name__, str(error))
    return JobResult(spec.job_id, spark.sparkContext.applicationId, error=failure)


def run_step(spark: SparkSession, spec: JobSpec) -> JobResult:
    """Run one step.

    :raises HiveAcidError: the reason why it could not be done, whatever Spark calls it.
    """
    started = time.monotonic()
    require_utc(spark)
    session = step_session(spark, spec.conf)
    # None takes the name of the step before away.
    spark.sparkContext.setJobDescription(spec.name)  # type: ignore[arg-type]
    try:
        if not isinstance(spec.step, Program):
            guard(session)
        check_sources(session, spec.sources)
        check_texts(session, spec)
        result = _dispatch(session, spec)
    except HiveAcidError:
        raise
    except Exception as failure:
        raise _reason(session, spec, failure) from failure
    return replace(result, seconds=time.monotonic() - started)


def _reason(spark: SparkSession, spec: JobSpec, failure: Exception) -> HiveAcidError:
    if sources.may_be_a_record(full_text(spark, failure)):
        record = sources.find_bad_record(step_session(spark, spec.conf), spec.sources)
        if record is not None:
            return record
    return refusal(spark, failure) or explain(spark, failure, [table.location for table in _tables(spec)])


def _dispatch(spark: SparkSession, spec: JobSpec) -> JobResult:
    step = spec.step
    if isinstance(step, Select) and accelerator(spark) is None:
        counted = counts.counted(spark, step.query, spec.views)
        if counted is not None:
            return _answer(spark, spec, select.write_rows(spark, counted, step))
    if isinstance(step, Program | CloseBatch | Copy):
        return _without_views(spark, spec, step)
    _create_views(spark, spec)
    if not isinstance(step, Select | Export | Insert | Compact):
        _require_row_ids(step.target)
    match step:
        case Select():
            return _answer(spark, spec, select.select(spark, step))
        case Export():
            return _answer(spark, spec, export.export(spark, step))
        case Insert() | Append():
            written = _insert(spark, step, _staging(spark, spec))
            return replace(_result(spark, spec, written), inserted=rows_in(written))
        case Update():
            written = change.update(spark, step, open_table(spark, step.target), _staging(spark, spec))
            return replace(_result(spark, spec, written), updated=rows_in(written, "delete_delta"))
        case Delete():
            written = change.delete(spark, step, open_table(spark, step.target), _staging(spark, spec))
            return replace(_result(spark, spec, written), deleted=rows_in(written))
        case Merge():
            outcome = merge.merge(spark, step, _staging(spark, spec))
            updated = rows_in(outcome.directories, "delta") - outcome.inserted
            deleted = rows_in(outcome.directories, "delete_delta") - updated
            result = _result(spark, spec, outcome.directories)
            return replace(result, inserted=outcome.inserted, updated=updated, deleted=deleted)
        case Compact():
            compacts = plain_insert.compact if step.target.insert_only else compact.compact
            return _result(spark, spec, compacts(spark, step, _staging(spark, spec)))
        case _:
            assert_never(step)


def _without_views(spark: SparkSession, spec: JobSpec, step: Program | CloseBatch | Copy) -> JobResult:
    if isinstance(step, Program):
        return _answer(spark, spec, program.call(spark, step, spec.views))
    if isinstance(step, Copy):
        return replace(_result(spark, spec, ()), copied=copies.copy(spark, step))
    return _result(spark, spec, batches.close(step))


def _insert(spark: SparkSession, step: Insert | Append, staging: Staging) -> list[WrittenDirectory]:
    if isinstance(step, Append):
        return batches.append(spark, step, staging)
    return (insert.insert if step.target.has_row_ids else plain_insert.insert)(spark, step, staging)


def _create_views(spark: SparkSession, spec: JobSpec) -> None:
    for view in spec.views:
        without_blanks(read_view(spark, view)).createOrReplaceTempView(view.name)
    for source in spec.sources:
        sources.create_view(spark, source)


def _require_row_ids(target: TableSnapshot) -> None:
    if not target.has_row_ids:
        kind = "an insert-only table" if target.insert_only else "a table without transactions"
        raise UnsupportedStatementError(
            f"{target.table} is {kind}; only rows of full ACID tables can be changed: create it with "
            "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        )


def _result(spark: SparkSession, spec: JobSpec, written: Sequence[WrittenDirectory]) -> JobResult:
    return JobResult(spec.job_id, spark.sparkContext.applicationId, directories=tuple(written))


def _answer(spark: SparkSession, spec: JobSpec, found: select.Selected) -> JobResult:
    return replace(_result(spark, spec, ()), columns=found.columns, rows=found.rows)


def _staging(spark: SparkSession, spec: JobSpec) -> Staging:
    if spec.staging is None:
        raise InvalidArgumentsError(f"job {spec.job_id}: a step that writes needs a staging directory")
    files, told = HadoopFilesystem.of(spark), spec.uploads
    if told is None or not files.can_upload(told.location):
        return Staging(files, spec.staging)
    elsewhere = {name: files.qualify(place) if place else "" for name, place in told.elsewhere.items()}
    return Staging(files, spec.staging, Uploads(files.qualify(told.location), elsewhere))


def _tables(spec: JobSpec) -> list[TableSnapshot]:
    """All tables a step reads or writes."""
    target = [] if isinstance(spec.step, Select | Export | Program | CloseBatch | Copy) else [spec.step.target]
    return [*target, *(view.snapshot for view in spec.views)]
