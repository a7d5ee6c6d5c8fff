"""Which files a table snapshot consists of, and which of them need a delete filter.

One listing per partition, many partitions at a time, then ``format.acid_state`` decides. A delete event can only hit
rows of its own partition, of its own bucket number and of write ids up to its own, so most files are known to be
untouched from names alone. What a listing shows to be damage (``format.damage``) is an error, never "no rows".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CorruptTableError, HistoryGoneError, WarehouseMissingError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import AcidState, FileEntry, StateDirectory, acid_state
from airflow_hive_acid.format.buckets import MAX_BUCKET, decode_bucket
from airflow_hive_acid.format.changes import lost_history
from airflow_hive_acid.format.damage import damage_of, suspected_copies
from airflow_hive_acid.format.names import PLACE_MARKER, AcidDirectory, DirectoryKind, is_hidden, parse_original_file
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.spark.read.data_files import EventFile, OriginalDataFile
from airflow_hive_acid.spark.read.flush_lengths import flushed
from airflow_hive_acid.spark.read.verification import verify

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from airflow_hive_acid.format.jobs import TableSnapshot
    from airflow_hive_acid.spark.hadoop import Entry, HadoopFilesystem


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """All files of a snapshot; ``clean`` files can be read without looking at deletes or write ids."""

    clean: tuple[EventFile, ...]
    filtered: tuple[EventFile, ...]
    originals: tuple[OriginalDataFile, ...]
    deletes: tuple[EventFile, ...]

    @property
    def inserts(self) -> tuple[EventFile, ...]:
        """All files with inserted rows."""
        return (*self.clean, *self.filtered)

    def buckets(self) -> tuple[int, ...]:
        """All bucket numbers that hold rows, ascending."""
        return tuple(sorted({f.bucket for f in self.inserts} | {f.bucket for f in self.originals}))


def list_partitions(fs: HadoopFilesystem, snapshot: TableSnapshot) -> list[list[FileEntry]]:
    """All visible files below each partition of the snapshot, in its order; a missing directory is empty."""
    roots = partition_roots(fs, snapshot)
    found: dict[str, list[FileEntry]] = {root: [] for root in roots}
    table = fs.qualify(snapshot.location.rstrip("/")) if snapshot.marked else ""
    level = [(root, root) for root in roots]
    while level:
        listed = dict(fs.list_many(directory for _, directory in level))
        missing = [root for root, directory in level if directory == root and listed[directory] is None]
        for root in missing:
            _require_table(fs, snapshot, root)
        if missing:  # R17: its disk may have been mounted between that look and this one
            listed |= fs.list_many(missing)
        deeper = []
        for root, directory in level:
            if snapshot.marked and directory == table and not _has_marker(listed[directory]):
                raise _missing(snapshot, root)
            for entry in listed[directory] or ():
                if is_hidden(entry.name):
                    continue
                if entry.is_directory:
                    deeper.append((root, entry.uri))
                found[root].append(_relative(root, entry))
        level = deeper
    return [found[root] for root in roots]


def _require_table(fs: HadoopFilesystem, snapshot: TableSnapshot, missing: str) -> None:
    """A partition that was never written has no directory; a table of the catalog has one, or is not mounted (R17).

    :raises WarehouseMissingError: naming the directory.
    """
    if paths.parse_location(snapshot.location).scheme in paths.OBJECT_STORE_SCHEMES:
        return
    table = fs.qualify(snapshot.location.rstrip("/"))
    gone = table if missing == table or not fs.exists(table) else None
    if gone is None and snapshot.marked and not fs.exists(f"{table}/{PLACE_MARKER}"):
        gone = table
    if gone is None and not missing.startswith(f"{table}/"):
        gone = missing
    if gone is not None:
        raise _missing(snapshot, gone)


def _has_marker(entries: Sequence[Entry] | None) -> bool:
    return any(entry.name == PLACE_MARKER for entry in entries or ())


def require_history(snapshot: TableSnapshot, ordinal: int, listing: Iterable[FileEntry]) -> None:
    """Refuse a partition that cannot be read as it was.

    :raises HistoryGoneError: naming the write id from which on it can.
    """
    past = snapshot.as_of
    if past is None:
        return
    name = snapshot.partitions[ordinal].name
    lost = lost_history(
        listing, ValidWriteIdList.parse(snapshot.write_ids), ValidTxnList.parse(snapshot.txns),
        cleaned=past.cleaned.get(name, 0), insert_only=snapshot.insert_only,
    )  # fmt: skip
    if lost is not None:
        place = f"{snapshot.table}/{name}" if name else snapshot.table
        raise HistoryGoneError(
            f"{snapshot.table} cannot be read as of {past.shown} any more: in {place} {lost[1]}. It can be read as of "
            f"write ids from {lost[0]} on (hive-acid history {snapshot.table}); a pin keeps a state: hive-acid pin add"
        )


def _missing(snapshot: TableSnapshot, gone: str) -> WarehouseMissingError:
    lacks = f" (it has no {PLACE_MARKER})" if snapshot.marked else ""
    return WarehouseMissingError(
        f"the directory {gone} of {snapshot.table} is not there{lacks}, and the catalog says that it was not dropped. "
        "Is its disk mounted on the machine of this job? Restore the directory; if its rows are meant to be gone, "
        "make it anew or drop the table"
    )


def snapshot_files(
    fs: HadoopFilesystem,
    snapshot: TableSnapshot,
    write_ids: ValidWriteIdList,
    only: Collection[int] | None = None,
    staging: str | None = None,
    *,
    whole: bool = True,
) -> SnapshotFiles:
    """List a table and decide what its snapshot reads.

    :param write_ids: the snapshot's list, or the compactor's variant of it.
    :param only: ordinals of the partitions that are looked at; None: all of them.
    :param staging: of the job, where copies of files that are open go; None: beside them.
    :param whole: ``write_ids`` is all that the snapshot sees: it is compared with what is expected of it.
    :raises CorruptTableError: when the layout contradicts itself.
    """
    txns = ValidTxnList.parse(snapshot.txns)
    roots = partition_roots(fs, snapshot)
    clean: list[EventFile] = []
    filtered: list[EventFile] = []
    originals: list[OriginalDataFile] = []
    deletes: list[EventFile] = []
    for ordinal, (root, listing) in enumerate(zip(roots, list_partitions(fs, snapshot), strict=True)):
        if only is not None and ordinal not in only:
            continue
        require_history(snapshot, ordinal, listing)
        state = acid_state(listing, write_ids, txns)
        _refuse_copies(fs, state, root)
        if whole:
            verify(fs, snapshot, snapshot.partitions[ordinal], root, state)
        aside = staging or root
        reach: dict[int, int] = {}
        for file in (f for d in state.deletes for f in flushed(fs, d, aside, event_files(d, root, ordinal))):
            deletes.append(file)
            reach[file.bucket] = max(file.max_write_id, reach.get(file.bucket, 0))
        for file in (f for d in state.inserts for f in flushed(fs, d, aside, event_files(d, root, ordinal))):
            hit = file.check_rows or reach.get(file.bucket, -1) >= file.min_write_id
            (filtered if hit else clean).append(file)
        originals.extend(_originals(state, root, ordinal))
    return SnapshotFiles(tuple(clean), tuple(filtered), tuple(originals), tuple(deletes))


def event_files(directory: StateDirectory, root: str, ordinal: int) -> list[EventFile]:
    """The ACID data files of one directory.

    :raises CorruptTableError: when a bucket number does not fit into the format, or comes twice, and for damage that
        the listing shows.
    """
    damage = damage_of(directory)
    if damage is not None:
        raise CorruptTableError(f"{paths.join(root, damage.path)} {damage.text}")
    named = directory.directory
    in_base = named.kind is DirectoryKind.BASE
    low = 0 if in_base else named.min_write_id
    files = []
    seen: dict[tuple[str, int], str] = {}
    for entry, bucket in directory.bucket_files():
        uri = paths.join(root, entry.path)
        # UNION ALL may leave directories of its own, each with a bucket 0.
        folder, _, name = entry.path.rpartition("/")
        if (folder, bucket.bucket) in seen:
            raise CorruptTableError(
                f"{uri} and {seen[folder, bucket.bucket]} are the same bucket of one statement: one is of a task that "
                "was given up, and its rows would be read twice; move the one away that is not in Hive's manifest"
            )
        seen[folder, bucket.bucket] = name
        if bucket.bucket > MAX_BUCKET:
            raise CorruptTableError(f"{uri}: bucket numbers end at {MAX_BUCKET}")
        # A batch: HDFS lists a file that is being written with fewer bytes than were flushed, at first with none.
        files.append(
            EventFile(
                uri,
                entry.size,
                ordinal,
                bucket.bucket,
                low,
                named.max_write_id,
                in_base,
                check_rows=directory.needs_row_check,
                statement_id=named.statement_id or 0,
                may_update=directory.may_update_in_place,
            )
        )
    return files


def _refuse_copies(fs: HadoopFilesystem, state: AcidState, root: str) -> None:
    """Look at files that may be copies of another statement's, by what their footers say.

    :raises CorruptTableError: for one whose rows are of another statement than its directory: they would count twice.
    """
    for directory, entry in suspected_copies(state.inserts):
        uri = paths.join(root, entry.path)
        summary = fs.footers.orc_summary(uri)
        values = [v for v in (summary.min_bucket, summary.max_bucket) if v is not None]
        of_directory = directory.directory.statement_id or 0
        wrong = [p.statement_id for p in map(decode_bucket, values) if p.version and p.statement_id != of_directory]
        if wrong:
            raise CorruptTableError(
                f"{uri} holds rows of statement {wrong[0]}, not of the statement of its directory: it is a copy, and "
                "rows would be read twice; move the directory away"
            )


def _originals(state: AcidState, root: str, ordinal: int) -> Iterable[OriginalDataFile]:
    for entry in state.originals:
        yield _original(entry, root, ordinal)
    for directory in state.inserts:
        named = directory.directory
        for entry in directory.original_files():
            yield _original(entry, root, ordinal, named)


def _original(entry: FileEntry, root: str, ordinal: int, directory: AcidDirectory | None = None) -> OriginalDataFile:
    uri = paths.join(root, entry.path)
    named = parse_original_file(entry.path.rpartition("/")[2])
    if named is None:
        raise CorruptTableError(
            f"{uri} is neither a bucket file nor named like one that Hive wrote (000000_0); "
            "its rows have no place in the table: move it away or rename it while no transaction is open"
        )
    if directory is None:
        return OriginalDataFile(uri, entry.size, ordinal, named.bucket, write_id=0)
    return OriginalDataFile(
        uri,
        entry.size,
        ordinal,
        named.bucket,
        directory.max_write_id,
        directory.statement_id or 0,
        in_delta=directory.kind is DirectoryKind.DELTA,
    )


def partition_roots(fs: HadoopFilesystem, snapshot: TableSnapshot) -> list[str]:
    """The partitions' locations as listings spell them; one call into the JVM unless partitions lie elsewhere."""
    table = snapshot.location.rstrip("/")
    qualified = fs.qualify(table)
    roots = []
    for partition in snapshot.partitions:
        location = partition.location.rstrip("/")
        if location == table:
            roots.append(qualified)
        elif location.startswith(table + "/"):
            roots.append(qualified + location[len(table) :])
        else:
            roots.append(fs.qualify(location))
    return roots


def _relative(root: str, entry: Entry) -> FileEntry:
    path = entry.uri[len(root) + 1 :]
    return FileEntry(path + "/" if entry.is_directory else path, entry.size)


def plain_files(fs: HadoopFilesystem, snapshot: TableSnapshot) -> list[tuple[str, int]]:
    """Data files of a table without transactions: (URI, ordinal of the partition)."""
    roots = partition_roots(fs, snapshot)
    listings = list_partitions(fs, snapshot)
    return [
        (paths.join(root, entry.path), ordinal)
        for ordinal, (root, listing) in enumerate(zip(roots, listings, strict=True))
        for entry in listing
        if entry.size and not entry.path.rpartition("/")[2].startswith(("_", "."))
    ]
