"""Removing what aborted txns have written, without any compaction (Hive's clean-up of aborts).

Fence, delete, look again, forget: the components of an aborted txn go only when its jobs are fenced and none of its
directories is left (R4). Only directories whose names prove that every row in them is aborted are touched.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.filesystem.absence import list_or_prove
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import parse_directory
from airflow_hive_acid.format.partitions import readings
from airflow_hive_acid.maintenance.cleaner.rules import aborted_directories, retry_pause_ms, write_ids_in_batches
from airflow_hive_acid.maintenance.cleaner.staying import staying
from airflow_hive_acid.maintenance.cleaner.subject import find_subject
from airflow_hive_acid.maintenance.decisions import CleaningOutcome, Kind
from airflow_hive_acid.maintenance.warehouse.fences import fence_aborted
from airflow_hive_acid.maintenance.warehouse.places import require_directory
from airflow_hive_acid.metastore.compaction import Resource, read_aborted, read_holder
from airflow_hive_acid.metastore.database import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.maintenance.cleaner.look import Look
    from airflow_hive_acid.maintenance.cleaner.staying import Hold
    from airflow_hive_acid.maintenance.decisions import Number
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import AbortedTxn, AbortedWrites

log = logging.getLogger(__name__)


def clean_aborted_writes(look: Look, writes: AbortedWrites) -> CleaningOutcome:
    """Remove what aborted txns have left in one table or partition; a failure is recorded for a later try."""
    client, resource = look.client, writes.resource
    numbers: dict[str, Number] = {"components": writes.components}
    try:
        pause = _pause_left(client, writes)
        if pause > 0:
            reason = f"it failed before; trying again in {pause // 1000} s"
            return CleaningOutcome(resource, Kind.WAITING, reason, numbers)
        return _clean(look, writes, numbers)
    except Exception as error:
        if not isinstance(error, HiveAcidError | OSError):
            log.exception("removing aborted writes of %s failed", resource)
        reason = f"{type(error).__name__}: {error}"
        current = writes.retry.retry_retention if writes.retry is not None else 0
        try:
            client.compactions.retry_aborted(writes, reason, retry_pause_ms(current, look.thresholds.retry_pause_ms))
        except HiveAcidError as problem:
            log.warning("the failure for %s could not be recorded: %s", resource, problem)
        return CleaningOutcome(resource, Kind.ERROR, reason, numbers)


def _pause_left(client: MetastoreClient, writes: AbortedWrites) -> int:
    """How long to wait after an earlier failure; measured from the first one, as in Hive."""
    if writes.retry is None or writes.retry.commit_time is None:
        return 0
    return writes.retry.commit_time + writes.retry.retry_retention - client.database.read(now_ms)


def _clean(look: Look, writes: AbortedWrites, numbers: dict[str, Number]) -> CleaningOutcome:
    client, resource = look.client, writes.resource
    aborted = client.database.read(lambda connection: read_aborted(connection, resource))
    due = [txn for txn in aborted if writes.min_open_txn is None or txn.txn_id < writes.min_open_txn]
    numbers["txns"] = len(due)
    if not due:
        writer = client.database.read(lambda connection: read_holder(connection, writes.min_open_txn or 0))
        reason = f"txn {writes.min_open_txn}, which is open and older, writes here"
        holders = (writer,) if writer is not None else ()
        blocked_by = tuple(map(str, holders)) or (f"txn {writes.min_open_txn}",)
        return CleaningOutcome(resource, Kind.WAITING, reason, numbers, (), blocked_by, holders=holders)
    whole = Resource(resource.database, resource.table)
    subject = find_subject(client, whole)
    if subject.table is None:
        return _remove_due(look, writes, due, numbers, None, None)
    find = partial(find_subject, client, whole)
    with staying(client, f"aborted writes of {resource}"[:128], subject.table, subject, find) as hold:
        if hold.problem:
            reason = f"{resource.table_name} {hold.problem}; looking again soon"
            return CleaningOutcome(resource, Kind.WAITING, reason, numbers)
        return _remove_due(look, writes, due, numbers, subject.table, hold)


def _remove_due(
    look: Look,
    writes: AbortedWrites,
    due: Sequence[AbortedTxn],
    numbers: dict[str, Number],
    table: Table | None,
    hold: Hold | None,
) -> CleaningOutcome:
    """Fence, delete, look again, forget.

    :param table: None: the catalog knows none of that name.
    :param hold: keeps the table where it is.
    """
    client, filesystem, resource = look.client, look.filesystem, writes.resource
    if table is not None:
        # R17: what is not found on a disk that is not mounted, or on a wrong one, is not gone.
        look.places.require(table.db, table.location, again=False)
        require_directory(filesystem, table.qualified_name, table.location)
    fences, have_jobs = fence_aborted(client, filesystem, [txn.txn_id for txn in due])
    # One listing suffices where all that could write is fenced; others may have come back while we deleted (R4).
    must_look_again = not have_jobs or bool(fences.alive)
    places = _places(look, writes, due, table)
    found = _find(look, places, due, table)
    removed = _remove(filesystem, found.dead, hold)
    if must_look_again:
        found = _find(look, places, due, table)
    left = found.dead if must_look_again else []
    mixed = [txn for txn in due if txn.write_id in found.mixed]
    kept = fences.alive_txns | {txn.txn_id for txn in mixed}
    forgotten = [txn.txn_id for txn in due if txn.txn_id not in kept]
    numbers["removed"] = len(removed)
    if left:
        shown = ", ".join(entry.relative for _, entry in left[:5])
        raise FileExistsError(f"{shown} came back while the aborted writes of {resource} were removed")
    if forgotten:
        numbers["forgotten_components"] = client.compactions.forget_aborted(writes, forgotten)
    gone = tuple(entry.path for _, entry in removed)
    if fences.alive:
        jobs = tuple(f"job {job.job_id} of txn {job.txn_id}" for job, _ in fences.alive)
        return CleaningOutcome(resource, Kind.KEPT, "jobs may still write here", numbers, gone, jobs)
    if mixed:
        numbers["in_batches"] = len(mixed)
        reason = f"rows of {len(mixed)} aborted txns may lie in deltas of transaction batches, among others; compaction"
        return CleaningOutcome(resource, Kind.KEPT, f"{reason} takes them out", numbers, gone)
    reason = f"{len(removed)} directories of {len(due)} aborted txns were removed"
    return CleaningOutcome(resource, Kind.CLEANED, reason, numbers, gone)


@dataclass(frozen=True, slots=True)
class _Places:
    """Where directories of aborted txns may be.

    :param direct: directories to look for them in.
    :param below: directories to look for them in at any depth.
    :param required: the one without which nothing can be said: what is not there may be somewhere else.
    """

    direct: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    required: str | None = None


def _places(look: Look, writes: AbortedWrites, due: Sequence[AbortedTxn], table: Table | None) -> _Places:
    """Where the aborted txns may have written: the partition, or those of a table that their jobs were to publish into.

    The jobs of a txn say it all (R5): they record a manifest before their first rename, and after the fence they get
    none. Every partition is looked at for a txn without jobs (a Hive's, or one that a program of its own wrote in), and
    when something of a manifest is not in its place: it was not published, or the partition has another name by now.
    A table that the catalog does not know was dropped, and its files with it.
    """
    client, resource = look.client, writes.resource
    if table is None:
        return _Places()
    if resource.partition is not None:
        return _places_of_partition(client, table, resource.partition)
    if not table.is_partitioned:
        return _Places((table.location,))
    jobs = [client.jobs.of_txn(txn.txn_id) for txn in due]
    if all(jobs):
        manifests = [
            job.manifest for found in jobs for job in found if job.table == str(resource.table_name) and job.manifest
        ]
        published = {_published(d) for manifest in manifests for d in manifest.get("directories", ())}
        direct = tuple(sorted({place for place, _ in published if paths.is_inside(table.location, place)}))
        listed = list_many(look.filesystem, direct, recursive=False)
        if published <= {(place, entry.name) for place, found in listed.items() for entry in found or ()}:
            return _Places(direct)
    return _everywhere(client, table)


def _places_of_partition(client: MetastoreClient, table: Table, stored: str) -> _Places:
    """Where a partition lies that is named in a component: each that the name may mean, as a Hive spells it or as we.

    Whoever is looked for in one place only, and is not known there, is forgotten while the rows lie in another. So a
    name that the catalog does not know (the txn was to make it, it was dropped, or somebody spells it in a way of its
    own) is looked for everywhere.
    """
    names = readings(stored)
    known = client.catalog.find_partitions(table.qualified_name, names) if table.is_partitioned else {}
    if not known:
        return replace(_everywhere(client, table), required=table.location)
    # The other meaning may be that of a partition that never made it into the catalog: it lies where Hive would put it.
    return _Places(tuple(known[n].location if n in known else f"{table.location}/{n}" for n in names))


def _everywhere(client: MetastoreClient, table: Table) -> _Places:
    elsewhere = {partition.location for partition in client.catalog.list_partitions(table.qualified_name)}
    inside = f"{table.location}/"
    return _Places(below=(table.location, *sorted(place for place in elsewhere if not place.startswith(inside))))


def _published(directory: Mapping[str, Any] | str) -> tuple[str, str]:
    """Place and name of a directory in a manifest; that of a dropped partition is its URI alone."""
    if isinstance(directory, str):
        place, _, name = directory.rpartition("/")
        return place, name
    return directory["place"], directory["name"]


class _Found(NamedTuple):
    """What lies where aborted txns may have written.

    :param dead: directories in which every row is aborted, and the places they are in.
    :param mixed: write ids whose rows may be among those of others.
    """

    dead: list[tuple[str, FileInfo]]
    mixed: frozenset[int]


def _find(look: Look, places: _Places, due: Sequence[AbortedTxn], table: Table | None) -> _Found:
    """What of aborted txns lies there.

    :raises WarehouseMissingError: when something is not found, and the table, or its warehouse, is not there either.
    """

    def proof() -> None:
        if table is not None:
            look.places.require_table(table)

    write_ids = {txn.write_id for txn in due if txn.write_id is not None}
    compactions = {txn.txn_id for txn in due if txn.is_compaction}
    found: list[tuple[str, FileInfo]] = []
    mixed: frozenset[int] = frozenset()
    for recursive, chosen in ((False, places.direct), (True, places.below)):
        listings = list_or_prove(look.filesystem, chosen, proof, recursive, descend=_is_on_the_way)
        for location, listing in listings.items():
            if listing is None and location == places.required:
                raise FileNotFoundError(
                    f"{location} is not there, and the catalog does not know the partition; what aborted txns wrote in "
                    "it may be somewhere else, so they are not forgotten"
                )
            found += [(location, entry) for entry in aborted_directories(listing or (), write_ids, compactions)]
            mixed |= write_ids_in_batches(listing or (), write_ids)
    return _Found(found, mixed)


def _is_on_the_way(info: FileInfo) -> bool:
    """Whether partitions may lie below a directory: not below a base or delta."""
    return enter(info) and parse_directory(info.name) is None


def _remove(filesystem: Filesystem, found: list[tuple[str, FileInfo]], hold: Hold | None) -> list[tuple[str, FileInfo]]:
    for location, entry in found:
        if hold is not None:
            hold.beat()
        filesystem.delete(entry.path, inside=location)
    return found
