"""Fencing what an import that was killed may still do to a table (R4); the reaper does the same, in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import JobsAliveError, WarehouseMissingError
from airflow_hive_acid.filesystem import fence_staging
from airflow_hive_acid.filesystem.plain_publishing import from_document, undo_fenced
from airflow_hive_acid.metastore.txns import DDL_KIND, JobState

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.metastore.txns import GivenUp, Job
    from airflow_hive_acid.replication.site import Site

_MAY_WRITE = (JobState.RUNNING, JobState.PUBLISHING)


def fence_dead_jobs_of(site: Site, table: TableName) -> None:
    """Fence the jobs of dead txns on a table that nobody else can be working on, and undo what they did.

    :raises JobsAliveError: where a file does not fence, and for a job whose txn is open.
    """
    jobs = site.client.jobs.unfenced_of(str(table))
    if not jobs:
        return
    decided = site.client.give_up_txns({job.txn_id for job in jobs}, "its table is imported", ended_only=True)
    fence_given_up(site, decided.given_up, str(table))
    for job in site.client.jobs.unfenced_of(str(table)):
        raise JobsAliveError(
            f"job {job.job_id} of txn {job.txn_id} may still put files into {table}: its txn is open. Wait for its "
            "end, or abort it, and try again"
        )


def fence_given_up(site: Site, given_up: tuple[GivenUp, ...], table: str | None = None) -> None:
    """Fence jobs of txns that cannot commit any more, and undo what they did, the last one first.

    :param table: only jobs on it.
    :raises JobsAliveError: where a file does not fence; then the reaper does, in time.
    """
    for job in reversed([job for each in given_up for job in each.jobs]):
        if job.state in _MAY_WRITE and (table is None or job.table == table):
            _fence(site, job)


def _fence(site: Site, job: Job) -> None:
    note = f"job {job.job_id} of txn {job.txn_id} on {job.table} was fenced: its table is imported"
    if job.kind == DDL_KIND:
        raise JobsAliveError(
            f"job {job.job_id} of txn {job.txn_id} has moved directories of {job.table} and was given up half way; run "
            "'hive-acid maintenance reaper --once', which brings them back, then import again"
        )

    def dropped() -> None:
        owner = site.client.catalog.owner_of_location(job.table_location, around=False)
        if owner is not None and not site.filesystem.exists(job.table_location):
            raise WarehouseMissingError(
                f"the directory {job.table_location} of {owner} is not there, so job {job.job_id} cannot be fenced; is "
                "its disk mounted?"
            )

    if job.staging is not None:
        manifest = None if job.manifest is None else from_document(job.manifest)
        if manifest is not None:
            fenced = undo_fenced(site.filesystem, job.staging, manifest, job.table_location, note, dropped)
        else:
            fenced = fence_staging(site.filesystem, job.staging, inside=job.table_location, note=note, absent=dropped)
        if not fenced and not site.client.jobs.mark_fenced_unless_publishing(job.job_id, note):
            raise JobsAliveError(
                f"job {job.job_id} of txn {job.txn_id} may still put files into {job.table}: a file does not fence on "
                "its storage. Run 'hive-acid maintenance reaper --once' until it is fenced, then import again"
            )
    site.client.jobs.mark_fenced(job.job_id, note)
