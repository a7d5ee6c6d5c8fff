"""Which errors a job may report: a closed list of names.

A job runs users' SQL and programs, so what it says is input. An error of the control plane's own in its mouth would be
acted on: after ``CommitStateUnknownError`` nothing is cleaned up (R17), ``LocksPendingError`` defers a task. A name
that is not on the list is a job that failed, and its text says the name.
"""

from __future__ import annotations

from airflow_hive_acid import errors
from airflow_hive_acid.errors import HiveAcidError, JobFailedError

REPORTED: dict[str, type[HiveAcidError]] = {
    error.__name__: error
    for error in (
        errors.BadRecordError,
        errors.CardinalityViolationError,
        errors.ChangesNoLongerAvailableError,
        errors.ChangesNotCompleteError,
        errors.ConfigurationError,
        errors.CopyFailedError,
        errors.CorruptDumpError,
        errors.CorruptTableError,
        errors.FilesGoneError,
        errors.HistoryGoneError,
        errors.InvalidArgumentsError,
        errors.JobFailedError,
        errors.MirrorConflictError,
        errors.MirrorDivergedError,
        errors.MirrorKeyError,
        errors.MirrorNullKeyError,
        errors.MirrorRefusedError,
        errors.SnapshotTooOldError,
        errors.SqlSyntaxError,
        errors.UnsafePathError,
        errors.UnsupportedStatementError,
    )
}


def reported(name: str, message: str) -> HiveAcidError:
    """The exception that a job's error stands for.

    :param name: of a class, as the job says it.
    :return: of that class if a job may report it, else a ``JobFailedError`` that says the name.
    """
    known = REPORTED.get(name)
    return JobFailedError(f"{name[:100]}: {message}") if known is None else known(message)
