"""Results of jobs: the files that were written, what was counted, or the error."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_hive_acid.format.jobs.specs import CopiedFile  # noqa: TC001 - fields' types, looked up when JSON is read
from airflow_hive_acid.format.jobs.tables import Column  # noqa: TC001 - fields' types, looked up when JSON is read


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A data file in staging: its final name (``bucket_00000``), rows and bytes.

    :param staged: where it lies below staging if publishing has to give it its name: on an object store, where each
        name costs a copy. Empty: it has its name, in its directory.
    :param upload: id of the multi-part upload that becomes the file, under its final name, when publishing ends it;
        empty: the file is there.
    """

    name: str
    rows: int
    bytes: int
    staged: str = ""
    upload: str = ""


@dataclass(frozen=True, slots=True)
class WrittenDirectory:
    """A finished directory in staging.

    :param partition: escaped partition name, empty for an unpartitioned table.
    :param values: partition values as the catalog holds them.
    :param name: final directory name, for example ``delta_0000005_0000005_0000``.
    """

    partition: str
    values: tuple[str, ...]
    name: str
    files: tuple[WrittenFile, ...]


@dataclass(frozen=True, slots=True)
class JobError:
    """Why a job failed: the name of a class of ``airflow_hive_acid.errors`` and its message."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job did.

    :param inserted: rows inserted, updated and deleted, as a user counts them (an update is one update).
    :param columns: columns of a select, in order, with Spark's type text.
    :param rows: number of rows of a select.
    :param seconds: wall time in the driver, without start-up.
    :param copied: files of a copy.
    """

    job_id: str
    application_id: str
    error: JobError | None = None
    directories: tuple[WrittenDirectory, ...] = ()
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    columns: tuple[Column, ...] = ()
    rows: int = 0
    seconds: float = 0.0
    copied: tuple[CopiedFile, ...] = ()

    def counts(self) -> dict[str, int]:
        """Rows by what became of them."""
        return {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}
