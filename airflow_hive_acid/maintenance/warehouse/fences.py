"""Fencing the jobs of dead txns, so that what is forgotten cannot come back (R4).

Decide first: only what the database says cannot commit any more is fenced (``metastore.giving_up``). Then fence: the
staging directory becomes a file. Whoever forgets a txn then looks at the table again and removes what had been
published before. Shared by all who end txns of others; fencing twice does no harm.

On an object store a file does not fence. There the record of the job does (decision 11): Spark writes to staging only,
and whoever publishes has to record the manifest first, which is refused once the job is marked. If the manifest is
recorded already, publishing means copying objects out of staging, or putting uploads together: the objects are removed
and the uploads ended, so that no further copy or file can begin, and the job counts as fenced when those that had begun
must have ended.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem import fence_staging
from airflow_hive_acid.filesystem.absence import delete_or_prove
from airflow_hive_acid.filesystem.plain_publishing import from_document, undo_fenced
from airflow_hive_acid.filesystem.uploads import abort_left, abort_named
from airflow_hive_acid.maintenance.warehouse.ddl_work import finish, give_up
from airflow_hive_acid.maintenance.warehouse.places import absence_of
from airflow_hive_acid.maintenance.warehouse.uploads import MOST_ELSEWHERE
from airflow_hive_acid.metastore.replica import is_sync_under_way
from airflow_hive_acid.metastore.txns import COMPACT_KIND, DDL_KIND, JobState, left_open

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.filesystem.plain_publishing import PlainManifest
    from airflow_hive_acid.format.names import AcidDirectory
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.database import AbortReason
    from airflow_hive_acid.metastore.txns import AbortedTxns, GivenUp, Job

log = logging.getLogger(__name__)

_ABORTED = "its txn is aborted"
COPIES_SETTLE_MS = 15 * 60_000
"""Within this time an object store has carried out, or refused, a copy that was asked for."""
COPIED_AT_ONCE_BYTES = 5 * 1024**3
"""A larger object is copied in parts, whose last step needs no source any more."""


@dataclass(frozen=True, slots=True)
class FenceReport:
    """Which jobs were fenced.

    :param alive: jobs that could not be fenced, and why: their txns must not be forgotten.
    :param ended: txns that had been given up before, by somebody who did not get further, and are aborted now.
    :param deleted: of committed jobs, those which had left something that is deleted now.
    """

    fenced: tuple[Job, ...] = ()
    alive: tuple[tuple[Job, str], ...] = ()
    ended: tuple[int, ...] = ()
    deleted: tuple[Job, ...] = ()

    @property
    def alive_txns(self) -> frozenset[int]:
        """Txns with a job that may still write."""
        return frozenset(job.txn_id for job, _ in self.alive)


def fence_dead_jobs(client: MetastoreClient, filesystem: Filesystem) -> FenceReport:
    """Fence every job whose txn is aborted or gone, and end what others have given up and left."""
    dead = dict.fromkeys(job.txn_id for job in client.jobs.to_fence())
    decided = client.give_up_txns(dead, _ABORTED, ended_only=True)
    report = fence(client, filesystem, decided.given_up, _ABORTED)
    left = client.database.read(left_open)
    if not left:
        return report
    more = fence_jobs_of(client, filesystem, left, "its txn was given up")
    ended = client.abort_txns(left, "given up, and ended by the reaper").aborted
    return FenceReport((*report.fenced, *more.fenced), (*report.alive, *more.alive), ended)


def end_txns(
    client: MetastoreClient, filesystem: Filesystem, txn_ids: Iterable[int], why: AbortReason | str
) -> AbortedTxns:
    """Give txns up, fence their jobs, and abort them; what is committed stays as it is (R4, R17).

    :param why: kept with the txns.
    :return: what became of each; ``ending`` are those of which something could not be moved back yet.
    """
    ids = list(txn_ids)
    fence_jobs_of(client, filesystem, ids, why if isinstance(why, str) else why.value)
    return client.abort_txns(ids, why)


def fence_jobs_of(
    client: MetastoreClient, filesystem: Filesystem, txn_ids: Iterable[int], why: str, *, silent_only: bool = False
) -> FenceReport:
    """Give txns up and fence their jobs; those that are committed are left alone.

    :param silent_only: spare those whose owners have sent a heartbeat within the time-out.
    """
    decided = client.give_up_txns(txn_ids, why, silent_only=silent_only)
    return fence(client, filesystem, decided.given_up, why)


def fence_aborted(client: MetastoreClient, filesystem: Filesystem, txn_ids: Iterable[int]) -> tuple[FenceReport, bool]:
    """Fence the jobs of txns that are aborted or gone; others are left alone.

    :return: what was fenced, and whether there are jobs of all of them on record: without any it was somebody else's.
    """
    ids = set(txn_ids)
    given_up = client.give_up_txns(ids, _ABORTED, ended_only=True).given_up
    known = {each.txn_id for each in given_up if each.jobs} >= ids
    return fence(client, filesystem, given_up, _ABORTED), known


def fence(client: MetastoreClient, filesystem: Filesystem, given_up: Iterable[GivenUp], why: str) -> FenceReport:
    """Fence jobs of txns that cannot commit any more; one that cannot be fenced does not keep the others from it."""
    fenced: list[Job] = []
    alive: list[tuple[Job, str]] = []
    jobs = [job for each in given_up for job in each.jobs]
    # The last statement of a txn first: on a plain table it may have moved away what an earlier one had made.
    for job in sorted(jobs, key=lambda job: (job.txn_id, -job.statement)):
        if job.state in (JobState.FENCED, JobState.COMMITTED):
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


def finish_jobs(client: MetastoreClient, filesystem: Filesystem) -> FenceReport:
    """Remove what committed txns have left to remove: files that an overwrite of a plain table replaced, directories
    that DDL has moved out of the way. Its own process does so after its commit, unless it failed or died there.

    Records of compactions stay as long as a sync of a replica is under way: it has to find what it has not seen.

    :return: with those that could not be finished as ``alive``; their records stay.
    """
    unfinished: list[tuple[Job, str]] = []
    done: list[Job] = []
    deleted: list[Job] = []
    jobs = client.jobs.to_finish()
    # After the jobs were read: a sync that begins only now sees what they did.
    kept = any(job.kind == COMPACT_KIND for job in jobs) and client.database.read(partial(_is_watched, client))
    for job in jobs:
        found = False
        try:
            if job.kind == DDL_KIND:
                found = finish(client, filesystem, job)
            elif job.staging is not None:
                proof = absence_of(client, filesystem, job.table, job.table_location)
                found = delete_or_prove(filesystem, job.staging, inside=job.table_location, proof=proof)
        except (HiveAcidError, OSError) as error:
            log.warning("what job %s of txn %d replaced could not be removed: %s", job.job_id, job.txn_id, error)
            unfinished.append((job, f"{type(error).__name__}: {error}"))
        else:
            if not (kept and job.kind == COMPACT_KIND):
                client.jobs.finished(job.job_id)
                done.append(job)
            deleted += [job] if found else []
    return FenceReport(tuple(done), tuple(unfinished), deleted=tuple(deleted))


def _is_watched(client: MetastoreClient, connection: Connection) -> bool:
    return client.database.features(connection).replication and is_sync_under_way(connection)


def _fence(client: MetastoreClient, filesystem: Filesystem, job: Job, why: str) -> str | None:
    note = f"job {job.job_id} of txn {job.txn_id} on {job.table} was fenced: {why}"
    if job.kind == DDL_KIND:
        return give_up(client, filesystem, job, note)
    if job.staging is not None:
        manifest = _plain_manifest(client, job, note)
        # R17: "nothing is staged" is an answer only where the warehouse is.
        absent = absence_of(client, filesystem, job.table, job.table_location)
        if manifest is not None:
            fenced = undo_fenced(filesystem, job.staging, manifest, job.table_location, note, absent)
        else:
            fenced = fence_staging(filesystem, job.staging, inside=job.table_location, note=note, absent=absent)
        if not fenced:
            return _fence_by_record(client, filesystem, job, note, undoable=manifest is None)
    client.jobs.mark_fenced(job.job_id, note)
    return None


def _fence_by_record(
    client: MetastoreClient, filesystem: Filesystem, job: Job, note: str, *, undoable: bool
) -> str | None:
    """On an object store, where staging has been removed just now.

    :param undoable: whether removing directories of its write id undoes what it published.
    """
    is_marked = client.jobs.mark_fenced_unless_publishing(job.job_id, note)
    if job.write_id is not None or job.kind == COMPACT_KIND:
        # Of tasks that have died, or that the manifest does not name: nobody puts them together, but they cost money.
        abort_left(filesystem, job.table_location, partial(_is_of, job), _places_elsewhere(client, filesystem, job))
    if is_marked:
        return None
    application = job.application_id or "not known"
    by_hand = f"make sure that its process and its application ({application}) are dead, then mark it as fenced"
    if not undoable:
        return f"a file does not fence on this storage, and it may be moving files of a plain table; {by_hand}"
    published = client.jobs.get(job.job_id).manifest or {}
    # R4: all of them before the note from which it is counted how long one may take that is being ended as a file.
    abort_named(filesystem, published)
    if _largest_copied(published) > COPIED_AT_ONCE_BYTES:
        return f"a file does not fence on this storage, and it may be copying objects in parts; {by_hand}"
    if client.jobs.note_staging_removed(job.job_id, note, COPIES_SETTLE_MS):
        return None
    minutes = COPIES_SETTLE_MS // 60_000
    return f"it was publishing; its staging is removed, and it counts as fenced {minutes} minutes after that"


def _places_elsewhere(client: MetastoreClient, filesystem: Filesystem, job: Job) -> list[str]:
    """Directories of the partitions of a job's table that do not lie where their names say, as far as jobs are told."""
    if filesystem.uploads(job.table_location) is None:
        return []
    table = client.catalog.find_tables([job.table]).get(job.table)
    # Write ids of another table, which has the name now, are others.
    if table is None or not table.is_partitioned or table.location.rstrip("/") != job.table_location.rstrip("/"):
        return []
    return list(client.catalog.partitions_elsewhere(job.table, MOST_ELSEWHERE).values())


def _is_of(job: Job, directory: AcidDirectory) -> bool:
    """Whether a directory is of the writer, or of the compaction, that a job was for."""
    if job.write_id is None:
        return directory.visibility_txn_id == job.txn_id
    return directory.max_write_id == job.write_id and directory.visibility_txn_id == 0


def _largest_copied(manifest: Mapping[str, Any]) -> int:
    """Bytes of the largest file that is published by a copy; 0 if directories only are named, of small files."""
    directories = [d for d in manifest.get("directories", ()) if not isinstance(d, str)]
    return max((size for d in directories for n, size in d["files"] if n not in d.get("uploads", ())), default=0)


def _plain_manifest(client: MetastoreClient, job: Job, note: str) -> PlainManifest | None:
    """What a job on a plain table may have begun to move.

    One without a manifest is marked first: from then on it gets none, and what is in staging is nobody's data.
    """
    if job.write_id is None and job.manifest is None and job.kind == "insert":
        client.jobs.mark_fenced(job.job_id, note)
        job = client.jobs.get(job.job_id)
    return None if job.manifest is None else from_document(job.manifest)
