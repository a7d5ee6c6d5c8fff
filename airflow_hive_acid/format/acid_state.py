"""Which directories and files of a table or partition a snapshot sees (Hive's AcidUtils.getAcidState).

A base hides everything before it, a wider delta hides the narrower ones inside it, a compactor's ``_vTXN`` directory
exists only for snapshots that see its txn. What is hidden for good is listed for the Cleaner. Pure: the listing comes
in, the decision goes out. Three deliberate differences from Hive, all on the safe side: an INSERT OVERWRITE base of an
open txn is never read (Hive reads it when it is the smallest open id), of two compactions of the same range only the
later one counts, and only a base that a snapshot sees can become obsolete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_hive_acid.errors import CorruptTableError, SnapshotTooOldError
from airflow_hive_acid.format.names import (
    ACID_VERSION_FILE,
    METADATA_FILE,
    AcidDirectory,
    BucketFile,
    DirectoryKind,
    is_hidden,
    looks_like_acid_directory,
    parse_bucket_file,
    parse_directory,
)
from airflow_hive_acid.format.write_ids import RangeValidity, ValidTxnList, ValidWriteIdList

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONG_MIN = -(2**63)


class FileEntry(NamedTuple):
    """One entry of a listing.

    :param path: relative to the table or partition directory; a directory of its own ends in ``/`` (only needed to
        learn of directories without files).
    :param size: bytes.
    """

    path: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """A base, delta or delete delta as found.

    :param name: its name on disk (leading zeros may differ from ``directory.name``).
    :param files: what readers may look at, the side files of the format included, by path.
    :param compacted: written by a compactor: it replaces other directories. (A minor compaction before Hive 4 left
        no trace of it in the name.)
    :param needs_row_check: some rows may belong to write ids the snapshot does not see; test ``currentTransaction``.
    """

    name: str
    directory: AcidDirectory
    files: tuple[FileEntry, ...]
    compacted: bool
    needs_row_check: bool = False

    def bucket_files(self) -> tuple[tuple[FileEntry, BucketFile], ...]:
        """The ACID data files, with what their names say."""
        parsed = ((entry, parse_bucket_file(_file_name(entry.path))) for entry in self.files)
        return tuple((entry, bucket) for entry, bucket in parsed if bucket is not None)

    @property
    def may_update_in_place(self) -> bool:
        """Whether an older Hive may have written it, with events that update and delete rows among its inserts.

        Hive 3 and later leave ``_orc_acid_version`` in every directory with bucket files, except in the base of a
        rebalance, which has a visibility txn id. Without both, the footers tell.
        """
        if self.directory.kind is DirectoryKind.DELETE_DELTA or self.directory.visibility_txn_id:
            return False
        return bool(self.bucket_files()) and all(_file_name(f.path) != ACID_VERSION_FILE for f in self.files)

    def plain_files(self) -> tuple[FileEntry, ...]:
        """The data files of a directory of an insert-only table: any name, also in nested directories of UNION ALL."""
        return tuple(
            entry for entry in self.files if entry.size and (name := _file_name(entry.path)) and name[0] not in "_."
        )

    def original_files(self) -> tuple[FileEntry, ...]:
        """Data files that are not in ACID format: LOAD DATA puts them into a delta or base as they are."""
        return tuple(
            entry
            for entry in self.files
            if not (name := _file_name(entry.path)).startswith(("_", "bucket_")) and name and entry.size
        )


@dataclass(frozen=True, slots=True)
class AcidState:
    """What one snapshot makes of a directory listing.

    :param base: the base to read, None when there is none yet.
    :param deltas: deltas and delete deltas to read, in Hive's order.
    :param originals: non-ACID files of a converted table, in path order (their row numbers run in it); empty as soon
        as there is a base.
    :param obsolete: directories that this snapshot does not need and no later one will.
    :param obsolete_originals: non-ACID files hidden by the base.
    :param aborted: directories of which nobody will ever see a row.
    """

    base: StateDirectory | None
    deltas: tuple[StateDirectory, ...]
    originals: tuple[FileEntry, ...]
    obsolete: tuple[StateDirectory, ...]
    obsolete_originals: tuple[FileEntry, ...]
    aborted: tuple[StateDirectory, ...]

    @property
    def inserts(self) -> tuple[StateDirectory, ...]:
        """Directories with rows: the base first, then the deltas."""
        rows = tuple(d for d in self.deltas if d.directory.kind is DirectoryKind.DELTA)
        return rows if self.base is None else (self.base, *rows)

    @property
    def deletes(self) -> tuple[StateDirectory, ...]:
        """Delete deltas."""
        return tuple(d for d in self.deltas if d.directory.kind is DirectoryKind.DELETE_DELTA)

    @property
    def files_of_older_hives(self) -> tuple[FileEntry, ...]:
        """Files that may update or delete rows in place; ``orc_tail.event_counts`` of each says whether it does.

        Only of a full ACID table; if one does, the table needs a major compaction.
        """
        return tuple(e for d in self.inserts if d.may_update_in_place for e, _ in d.bucket_files() if e.size)


def acid_state(listing: Iterable[FileEntry], write_ids: ValidWriteIdList, txns: ValidTxnList) -> AcidState:
    """Decide what a snapshot reads, and what has become useless.

    :param listing: all files below one unpartitioned table or one partition; hidden ones may be among them.
    :param write_ids: the reader's list, or a compactor's or Cleaner's.
    :param txns: decides which compacted directories exist for this reader.
    :raises SnapshotTooOldError: when the history this snapshot needs has been compacted away.
    :raises CorruptTableError: for a directory that is called like one of ours and is none.
    """
    directories, originals = _gather(listing)
    bases: list[StateDirectory] = []
    deltas: list[StateDirectory] = []
    aborted: list[StateDirectory] = []
    oldest_base: StateDirectory | None = None
    for found in directories:
        named = found.directory
        if named.visibility_txn_id and not txns.is_valid(named.visibility_txn_id):
            if txns.is_aborted(named.visibility_txn_id):
                aborted.append(found)
        elif named.kind is DirectoryKind.BASE:
            if oldest_base is None or _base_age(found) < _base_age(oldest_base):
                oldest_base = found
            if write_ids.is_aborted(named.max_write_id) and not found.compacted:
                aborted.append(found)
            elif _is_valid_base(found, write_ids):
                bases.append(found)
        elif write_ids.is_range_aborted(named.min_write_id, named.max_write_id):
            aborted.append(found)
        elif write_ids.range_validity(named.min_write_id, named.max_write_id) is not RangeValidity.NONE:
            deltas.append(found)
    bases.sort(key=_base_rank)
    base = bases.pop() if bases else None
    if base is None and oldest_base is not None and oldest_base.compacted:
        raise SnapshotTooOldError(
            f"the snapshot {_shorten(write_ids)} needs history that {oldest_base.name} has replaced; "
            "begin a new transaction (its txn was not open, or not registered, while compaction was cleaned up after)"
        )
    current, hidden = _choose_deltas(deltas, base, write_ids)
    return AcidState(
        base=base,
        deltas=tuple(current),
        originals=() if base else tuple(entry for entry in originals if entry.size),
        obsolete=(*bases, *hidden),
        obsolete_originals=tuple(originals) if base else (),
        aborted=tuple(aborted),
    )


def state_directories(listing: Iterable[FileEntry]) -> list[StateDirectory]:
    """All bases, deltas and delete deltas of a listing by name, whoever sees them.

    :raises CorruptTableError: for a directory that is called like one of ours and is none.
    """
    return _gather(listing)[0]


def _gather(listing: Iterable[FileEntry]) -> tuple[list[StateDirectory], list[FileEntry]]:
    """Sort a listing into ACID directories (by name) and files outside of them (by path)."""
    files: dict[str, list[FileEntry]] = {}
    parsed: dict[str, AcidDirectory] = {}
    originals: list[FileEntry] = []
    for entry in map(FileEntry._make, listing):
        segments = entry.path.split("/")
        if any(is_hidden(segment) for segment in segments):
            continue
        top = segments[0]
        if len(segments) == 1 or (top not in files and not looks_like_acid_directory(top)):
            if segments[-1] and not segments[-1].startswith("_"):
                originals.append(entry)
            continue
        if top not in files:
            directory = parse_directory(top)
            if directory is None:
                raise CorruptTableError(
                    f"directory {top!r} is called like a base or delta, but its name cannot be read; "
                    "move it out of the table if it is not part of it"
                )
            files[top], parsed[top] = [], directory
        if segments[-1]:
            files[top].append(entry)
    directories = [_found(name, parsed[name], tuple(sorted(entries))) for name, entries in sorted(files.items())]
    return directories, sorted(originals)


def _found(name: str, parsed: AcidDirectory, entries: tuple[FileEntry, ...]) -> StateDirectory:
    compacted = parsed.visibility_txn_id > 0
    if parsed.kind is DirectoryKind.BASE and not compacted:
        # Before Hive 4 a side file told a compactor's base from one of INSERT OVERWRITE. Alone in its directory it
        # is the mark of TRUNCATE, which like INSERT OVERWRITE counts only if its own write id is committed.
        names = {_file_name(entry.path) for entry in entries}
        compacted = METADATA_FILE in names and len(names - {METADATA_FILE, ACID_VERSION_FILE}) > 0
    return StateDirectory(name, parsed, entries, compacted)


def _is_valid_base(found: StateDirectory, write_ids: ValidWriteIdList) -> bool:
    write_id = found.directory.max_write_id
    if write_id == _LONG_MIN:
        return True
    return write_ids.is_valid_base(write_id) if found.compacted else write_ids.is_valid(write_id)


def _base_age(found: StateDirectory) -> tuple[int, bool]:
    """Lowest write id first; on a tie the compactor's base, which says that history is gone."""
    return (found.directory.max_write_id, not found.compacted)


def _base_rank(found: StateDirectory) -> tuple[int, bool, int]:
    """Highest write id first; on a tie the compactor's base, then the later compaction."""
    return (found.directory.max_write_id, found.compacted, found.directory.visibility_txn_id)


def _choose_deltas(
    deltas: list[StateDirectory], base: StateDirectory | None, write_ids: ValidWriteIdList
) -> tuple[list[StateDirectory], list[StateDirectory]]:
    """Walk the deltas from low to high: (those to read, those that a base or wider delta hides)."""
    chosen: list[StateDirectory] = []
    hidden: list[StateDirectory] = []
    reached = base.directory.max_write_id if base else 0
    statement: int | None = None
    previous: AcidDirectory | None = None
    for found in sorted(deltas, key=_delta_order):
        named = found.directory
        if named.max_write_id > reached:
            low = max(reached + 1, 1)
            if write_ids.range_validity(low, named.max_write_id) is RangeValidity.NONE:
                continue
            reached, statement = named.max_write_id, named.statement_id
        elif not (
            # More statements of the same txn; a minor compaction has none and hides them all.
            (named.max_write_id == reached and statement is not None)
            # The delete delta's twin: rows and deletes of one range are two directories.
            or (previous is not None and _same_range(named, previous))
        ):
            hidden.append(found)
            continue
        previous = named
        chosen.append(_with_row_check(found, write_ids))
    return chosen, hidden


def _delta_order(found: StateDirectory) -> tuple[int, int, int, int, str]:
    """Hive's order: wider first, then compacted before statements, later compaction first, deletes before rows."""
    named = found.directory
    statement = -1 if named.statement_id is None else named.statement_id
    return (named.min_write_id, -named.max_write_id, statement, -named.visibility_txn_id, found.name)


def _same_range(one: AcidDirectory, other: AcidDirectory) -> bool:
    return (one.min_write_id, one.max_write_id, one.statement_id, one.visibility_txn_id) == (
        other.min_write_id,
        other.max_write_id,
        other.statement_id,
        other.visibility_txn_id,
    )


def _with_row_check(found: StateDirectory, write_ids: ValidWriteIdList) -> StateDirectory:
    """One write id is seen or not as a whole; a range may contain ids the snapshot does not see."""
    low, high = found.directory.min_write_id, found.directory.max_write_id
    if low == high or write_ids.is_fully_valid(low, high):
        return found
    return StateDirectory(found.name, found.directory, found.files, found.compacted, needs_row_check=True)


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _shorten(write_ids: ValidWriteIdList) -> str:
    text = write_ids.short_text()
    return text if len(text) <= 80 else text[:80] + "…"
