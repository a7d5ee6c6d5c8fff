"""Fencing the jobs of dead txns, so that what is forgotten cannot come back (R4).

Fence first: the staging directory becomes a file. Whoever forgets a txn then looks at the table again and removes what
had been published before. Shared by reaper and Cleaner; fencing twice does no harm.

On an object store a file does not fence. There the record of the job does (decision 11): Spark writes to staging only,
and whoever publishes has to record the manifest first, which is refused once the job is marked. If the manifest is
recorded already, publishing means copying objects out of staging: they are removed, so that no further copy can begin,
and the job counts as fenced when copies that had begun must have ended.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem import fence_staging
from airflow_hive_acid.filesystem.plain_publishing import from_document, undo_fenced
from airflow_hive_acid.metastore.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.filesystem.plain_publishing import PlainManifest
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.jobs import Job

log = logging.getLogger(__name__)

COPIES_SETTLE_MS = 15 * 60_000
"""Within this time an object store has carried out, or refused, a copy that was asked for."""
COPIED_AT_ONCE_BYTES = 5 * 1024**3
"""A larger object is copied in parts, whose last step needs no source any more."""


@dataclass(frozen=True, slots=True)
class FenceReport:
    """Which jobs were fenced.

    :param alive: jobs that could not be fenced, and why: their txns must not be forgotten.
    """

    fenced: tuple[Job, ...] = ()
    alive: tuple[tuple[Job, str], ...] = ()

    @property
    def alive_txns(self) -> frozenset[int]:
        """Txns with a job that may still write."""
        return frozenset(job.txn_id for job, _ in self.alive)


def fence_dead_jobs(client: MetastoreClient, filesystem: Filesystem) -> FenceReport:
    """Fence every job whose txn is aborted or gone."""
    return fence_jobs(client, filesystem, client.jobs.to_fence(), "its txn is aborted")


def fence_jobs_of(client: MetastoreClient, filesystem: Filesystem, txn_ids: Iterable[int], why: str) -> FenceReport:
    """Fence the jobs of txns that are being given up."""
    jobs = [job for txn_id in txn_ids for job in client.jobs.of_txn(txn_id)]
    return fence_jobs(client, filesystem, jobs, why)


def fence_jobs(client: MetastoreClient, filesystem: Filesystem, jobs: Iterable[Job], why: str) -> FenceReport:
    """Fence jobs; one that cannot be fenced does not keep the others from it."""
    fenced: list[Job] = []
    alive: list[tuple[Job, str]] = []
    # The last statement of a txn first: on a plain table it may have moved away what an earlier one had made.
    for job in sorted(jobs, key=lambda job: (job.txn_id, -job.statement)):
        if job.state is JobState.FENCED:
            continue
        try:
            problem = _fence(client, filesystem, job, why)
        except (HiveAcidError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem is None:
            fenced.append(job)
        else:
            log.warning("job %s of txn %d on %s may still write: %s", job.job_id, job.txn_id, job.table, problem)
            alive.append((job, problem))
    return FenceReport(tuple(fenced), tuple(alive))


def _fence(client: MetastoreClient, filesystem: Filesystem, job: Job, why: str) -> str | None:
    note = f"job {job.job_id} of txn {job.txn_id} on {job.table} was fenced: {why}"
    if job.staging is not None:
        manifest = _plain_manifest(client, job, note)
        if manifest is not None:
            fenced = undo_fenced(filesystem, job.staging, manifest, job.table_location, note)
        else:
            fenced = fence_staging(filesystem, job.staging, inside=job.table_location, note=note)
        if not fenced:
            return _fence_by_record(client, job, note, undoable=manifest is None)
    client.jobs.mark_fenced(job.job_id, note)
    return None


def _fence_by_record(client: MetastoreClient, job: Job, note: str, *, undoable: bool) -> str | None:
    """On an object store, where staging has been removed just now.

    :param undoable: whether removing directories of its write id undoes what it published.
    """
    if client.jobs.mark_fenced_unless_publishing(job.job_id, note):
        return None
    application = job.application_id or "not known"
    by_hand = f"make sure that its process and its application ({application}) are dead, then mark it as fenced"
    if not undoable:
        return f"a file does not fence on this storage, and it may be moving files of a plain table; {by_hand}"
    if _largest(client.jobs.get(job.job_id)) > COPIED_AT_ONCE_BYTES:
        return f"a file does not fence on this storage, and it may be copying objects in parts; {by_hand}"
    if client.jobs.note_staging_removed(job.job_id, note, COPIES_SETTLE_MS):
        return None
    minutes = COPIES_SETTLE_MS // 60_000
    return f"it was publishing; its staging is removed, and it counts as fenced {minutes} minutes after that"


def _largest(job: Job) -> int:
    """Bytes of the largest file it was about to publish; 0 if it named directories only, of small files."""
    directories = (job.manifest or {}).get("directories", ())
    return max((size for d in directories if not isinstance(d, str) for _, size in d["files"]), default=0)


def _plain_manifest(client: MetastoreClient, job: Job, note: str) -> PlainManifest | None:
    """What a job on a plain table may have begun to move.

    One without a manifest is marked first: from then on it gets none, and what is in staging is nobody's data.
    """
    if job.write_id is None and job.manifest is None and job.kind == "insert":
        client.jobs.mark_fenced(job.job_id, note)
        job = client.jobs.get(job.job_id)
    return None if job.manifest is None else from_document(job.manifest)
