"""Fencing what an import that was killed may still do to a table (R4); the reaper does the same, in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import JobsAliveError
from airflow_hive_acid.filesystem import fence_staging
from airflow_hive_acid.filesystem.plain_publishing import from_document, undo_fenced

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.jobs import Job
    from airflow_hive_acid.replication.site import Site


def fence_dead_job(site: Site, job: Job) -> None:
    """Fence a job on a table that nobody else can be working on, and undo what it did.

    :raises JobsAliveError: where a file does not fence; then the reaper does, in time.
    """
    note = f"job {job.job_id} of txn {job.txn_id} on {job.table} was fenced: its table is imported"
    if job.staging is not None:
        manifest = None if job.manifest is None else from_document(job.manifest)
        if manifest is not None:
            fenced = undo_fenced(site.filesystem, job.staging, manifest, job.table_location, note)
        else:
            fenced = fence_staging(site.filesystem, job.staging, inside=job.table_location, note=note)
        if not fenced and not site.client.jobs.mark_fenced_unless_publishing(job.job_id, note):
            raise JobsAliveError(
                f"job {job.job_id} of txn {job.txn_id} may still put files into {job.table}: a file does not fence on "
                "its storage. Run 'hive-acid maintenance reaper --once' until it is fenced, then import again"
            )
    site.client.jobs.mark_fenced(job.job_id, note)
