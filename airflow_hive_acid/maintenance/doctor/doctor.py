"""Looks at a live warehouse for what :mod:`.rules` knows to be wrong; reads only, and holds nothing for long.

Locks, txns and compactions come from one view of the database each; directories are listed before the ids are read that
they are compared with, so that what is written meanwhile is never mistaken for something nobody knows.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, WarehouseMissingError
from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.filesystem.threads import in_threads
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.names import DirectoryKind, parse_directory
from airflow_hive_acid.format.orc_tail import TAIL_BYTES, damage_in, event_counts, row_count
from airflow_hive_acid.format.row_counts import count_live, counted_files
from airflow_hive_acid.maintenance.doctor.codecs import unpack
from airflow_hive_acid.maintenance.doctor.rules import (
    Check,
    Finding,
    is_bucket_file,
    is_overdue,
    judge_cleaning,
    judge_compaction,
    judge_damage,
    judge_directories,
    judge_legacy_locks,
    judge_lock,
    judge_old_files,
    judge_published,
    judge_rows,
    judge_timeout,
    judge_txn,
    judge_unfinished,
)
from airflow_hive_acid.maintenance.warehouse.ddl_work import is_of_others, places_left, what_of
from airflow_hive_acid.maintenance.warehouse.directories import entries
from airflow_hive_acid.maintenance.warehouse.expected import counted_of, published_of
from airflow_hive_acid.maintenance.warehouse.places import Places, require_directory
from airflow_hive_acid.metastore.compaction import CompactionFilter, CompactionState, stream_compactions
from airflow_hive_acid.metastore.database import TxnState, now_ms
from airflow_hive_acid.metastore.listing import LockFilter, stream_locks, stream_transactions
from airflow_hive_acid.metastore.locks import legacy_lock_manager
from airflow_hive_acid.settings import Source
from airflow_hive_acid.settings_table import DUMMY_TXN_MANAGER, EMBEDDED_LOCK_MANAGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.acid_state import AcidState, FileEntry
    from airflow_hive_acid.format.orc_tail import EventCounts
    from airflow_hive_acid.format.row_counts import CountedRows
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table

_PARTITIONS = 1000
"""Partitions looked at together."""
_SMALL_BYTES = 8 << 10
"""An ORC file without rows is smaller; of a larger delete delta nothing is read."""


def examine_metastore(
    client: MetastoreClient, hive_timeout_ms: int | None = None, filesystem: Filesystem | None = None
) -> list[Finding]:
    """Locks, txns, compactions and time-outs.

    :param hive_timeout_ms: ``hive.txn.timeout`` of the Hive on this metastore, None when it is not known.
    :param filesystem: looks whether what was dropped is deleted; without it that is told by the records alone.
    """
    timeout = client.settings.milliseconds("hive.txn.timeout")
    shared = client.database.path is None

    def look(connection: Connection) -> list[Finding]:
        now = now_ms(connection)
        found: list[Finding | None] = []
        open_txns: set[int] = set()
        for txn in stream_transactions(connection):
            if txn.state is TxnState.OPEN:
                open_txns.add(txn.txn_id)
            found.append(judge_txn(txn, now, timeout))
        found += [judge_lock(lock, open_txns, now, timeout) for lock in stream_locks(connection, LockFilter())]
        working = CompactionFilter(state=CompactionState.WORKING)
        found += [judge_compaction(request, open_txns) for request in stream_compactions(connection, working)]
        cleaned = CompactionFilter(state=CompactionState.READY_FOR_CLEANING)
        found += [judge_cleaning(request) for request in stream_compactions(connection, cleaned)]
        return [finding for finding in found if finding is not None]

    difference = judge_timeout(timeout, hive_timeout_ms, shared=shared)
    found = [*([difference] if difference else []), *client.database.read(look), *_legacy(client, timeout)]
    return [*found, *_unfinished(client, filesystem)]


def _unfinished(client: MetastoreClient, filesystem: Filesystem | None) -> Iterator[Finding]:
    """What committed txns have dropped or replaced and not deleted; the records stay until the reaper has passed."""
    now = client.database.read(now_ms)
    for job in client.jobs.to_finish():
        for place in places_left(job) if is_overdue(job, now) else ():
            if job.staging is None and is_of_others(client, place):
                continue
            seen = None if filesystem is None else _is_seen(filesystem, place)
            if seen is not False:
                yield judge_unfinished(job, what_of(job), place, now, seen=seen)


def _is_seen(filesystem: Filesystem, place: str) -> bool | None:
    """Whether something is there; None when the storage gives no answer."""
    try:
        return filesystem.exists(place)
    except OSError:
        return None


def _legacy(client: MetastoreClient, timeout: int) -> list[Finding]:
    """Of the locks of the Hive Concurrency Model: the configured manager's, else those in our own table."""
    settings = client.settings
    configured = settings.string("hive.txn.manager") == DUMMY_TXN_MANAGER
    if not configured:
        settings = settings.with_overrides(Source.REQUEST, {"hive.lock.manager": EMBEDDED_LOCK_MANAGER})
    if not client.database.read(lambda connection: client.database.features(connection).measures):
        return []
    with contextlib.closing(legacy_lock_manager(client.database, settings)) as manager:
        locks = manager.show_locks()
    txns = client.show_transactions()
    open_txns = {txn.txn_id for txn in txns if txn.state is TxnState.OPEN}
    return judge_legacy_locks(locks, open_txns, client.database.read(now_ms), timeout, configured=configured)


def examine_tables(
    client: MetastoreClient, filesystem: Filesystem, names: Iterable[str] | None = None
) -> Iterator[Finding]:
    """Whether tables are there, and the directories of those that are transactional.

    :param names: qualified tables; None for all there are.
    """
    places = Places(client, filesystem)
    for table in client.catalog.get_tables(names) if names is not None else _all_tables(client):
        try:
            places.require(table.db, table.location)
            require_directory(filesystem, table.qualified_name, table.location)
        except WarehouseMissingError as error:
            yield Finding(
                Check.MISSING, table.location, str(error), "mount it, or restore what is missing; delete nothing"
            )
            continue
        if not table.is_transactional:
            continue
        if not table.is_partitioned:
            yield from _examine(client, filesystem, table, {table.location: None})
            continue
        after: str | None = None
        while page := client.catalog.list_partitions(table.qualified_name, limit=_PARTITIONS, after=after):
            yield from _examine(client, filesystem, table, {p.location: p.name for p in page})
            after = page[-1].name


def _all_tables(client: MetastoreClient) -> Iterator[Table]:
    for database in client.catalog.list_databases():
        yield from client.catalog.find_tables(
            f"{database}.{name}" for name in client.catalog.list_tables(database)
        ).values()


def _examine(
    client: MetastoreClient, filesystem: Filesystem, table: Table, places: Mapping[str, str | None]
) -> Iterator[Finding]:
    name = table.qualified_name
    # Before the listing: what is compacted meanwhile is replaced in it.
    published = published_of(client, name)
    counted = _counted(client, table, places)
    listed = list_many(filesystem, places, descend=enter)
    # After the listing: an id that is given meanwhile makes a directory known, never the other way round.
    largest = client.max_allocated_write_id(name)
    txns = client.get_valid_txns()
    write_ids = client.get_valid_write_ids(name, txns)[name]
    for place, partition in places.items():
        held: Sequence[FileInfo] = listed[place] or ()
        found = entries(held)
        empty = () if table.is_insert_only else _without_rows(filesystem, place, found)
        yield from judge_directories(place, found, largest, txns.high_watermark, empty)
        try:
            state = acid_state(found, write_ids, txns)
        except HiveAcidError as error:
            yield Finding(Check.DAMAGED, place, str(error), "restore what is missing; leave everything else as it is")
            continue
        tails = _Tails(filesystem, place)
        yield from judge_published(place, state, published.get(place.rstrip("/"), ()))
        if not table.is_insert_only:
            yield from judge_damage(place, state, tails.damage_in)
            changing, unknown = _in_place(filesystem, place, state.files_of_older_hives)
            old = judge_old_files(name, partition, place, changing, unknown)
            if old is not None:
                yield old
        # A Hive counts the rows of a txn before it commits.
        if write_ids.open_ids:
            continue
        differs = judge_rows(place, counted.get(partition or ""), _live(table, state, tails))
        # A commit may have come between the looks; what is wrong looks the same again.
        if differs is not None and differs == _count_again(client, filesystem, table, place, partition):
            yield differs


def _counted(client: MetastoreClient, table: Table, places: Mapping[str, str | None]) -> dict[str, CountedRows]:
    """The catalog's numbers of rows, by partition name; a replica has its source's, whenever they come."""
    return counted_of(client, table, [name or "" for name in places.values()])


def _live(table: Table, state: AcidState, tails: _Tails) -> int | None:
    """How many rows there are; of an insert-only table only if its files are ORC."""
    if table.is_insert_only:
        if table.format != "orc":
            return None
        tails.damage_in(counted_files(state, insert_only=True))
    return count_live(state, tails.row_count, insert_only=table.is_insert_only)


def _count_again(
    client: MetastoreClient, filesystem: Filesystem, table: Table, place: str, partition: str | None
) -> Finding | None:
    """Whether a place has other rows than the catalog counts, by a second look at both."""
    counted = _counted(client, table, {place: partition}).get(partition or "")
    listed = list_many(filesystem, [place], descend=enter)[place] or ()
    txns = client.get_valid_txns()
    try:
        write_ids = client.get_valid_write_ids(table.qualified_name, txns)[table.qualified_name]
        state = acid_state(entries(listed), write_ids, txns)
    except HiveAcidError:
        return None
    if write_ids.open_ids:
        return None
    tails = _Tails(filesystem, place)
    if not table.is_insert_only:
        judge_damage(place, state, tails.damage_in)
    return judge_rows(place, counted, _live(table, state, tails))


def _without_rows(filesystem: Filesystem, place: str, found: Sequence[FileEntry]) -> set[str]:
    """Files of delete deltas that hold no event, as far as that is cheap to know."""
    small = (entry for entry in found if 0 < entry.size <= _SMALL_BYTES and is_bucket_file(entry))
    empty = set()
    for entry in small:
        directory = parse_directory(entry.path.partition("/")[0])
        if directory is not None and directory.kind is DirectoryKind.DELETE_DELTA:
            counts = _counts(filesystem, place, entry)
            if counts is not None and not any(counts):
                empty.add(entry.path)
    return empty


def _in_place(filesystem: Filesystem, place: str, files: Iterable[FileEntry]) -> tuple[str | None, list[str]]:
    """The first file that updates or deletes rows in place, and those before it of which that is not known."""
    unknown = []
    for entry in files:
        counts = _counts(filesystem, place, entry)
        if counts is None:
            unknown.append(entry.path)
        elif counts.changes_in_place:
            return entry.path, unknown
    return None, unknown


def _counts(filesystem: Filesystem, place: str, entry: FileEntry) -> EventCounts | None:
    """What the end of a file says; None where it says nothing, or cannot be read (it may be gone by now)."""
    tail = _tail(filesystem, place, entry)
    return None if tail is None else event_counts(tail, unpack)


def _tail(filesystem: Filesystem, place: str, entry: FileEntry) -> bytes | None:
    """The end of a file; None where it cannot be read (it may be gone by now)."""
    try:
        uri = f"{place.rstrip('/')}/{entry.path}"
        return filesystem.read_range(uri, max(0, entry.size - TAIL_BYTES), entry.size)
    except (OSError, HiveAcidError):
        return None


@dataclass(frozen=True, slots=True)
class _Tails:
    """The ends of the files of one place.

    :param rows: what they say of the numbers of rows, by path; of those that were looked at.
    """

    filesystem: Filesystem
    place: str
    rows: dict[str, int | None] = field(default_factory=dict)

    def row_count(self, entry: FileEntry) -> int | None:
        """How many rows a file has that was looked at; None where its end does not say."""
        return self.rows.get(entry.path)

    def damage_in(self, files: Sequence[FileEntry]) -> list[str | None]:
        """What is wrong with each of these files, as far as its end tells."""

        def look(entry: FileEntry) -> str | None:
            tail = _tail(self.filesystem, self.place, entry)
            self.rows[entry.path] = None if tail is None else row_count(tail, unpack)
            return None if tail is None else damage_in(tail, entry.size, unpack)

        return in_threads(look, files, "doctor")
