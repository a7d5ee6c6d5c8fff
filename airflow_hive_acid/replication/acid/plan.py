"""What of one table or partition has to travel, so that the replica sees the rows of one snapshot of the source.

Pure: listings and lists of write ids come in, directories come out. Write ids of the replica equal the source's; what
the replica has already stays there, whatever the source has compacted since. Visibility txn ids never travel (R4):
a compacted directory gets that of the txn of this sync. Rows of open and aborted write ids never travel either, so an
aborted id may be forgotten at the replica. Directories whose names cover what the replica has as well are not copied:
a Spark job carries the rows of the new write ids out of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CorruptTableError, ReplicaDivergedError, SnapshotTooOldError
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.names import AcidDirectory, DirectoryKind, is_hidden, parse_directory
from airflow_hive_acid.format.write_ids import RangeValidity, ValidTxnList, ValidWriteIdList
from airflow_hive_acid.replication.acid.arrivals import Arrival, Carry, Copy, EmptyBase, Plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from airflow_hive_acid.format.acid_state import AcidState, StateDirectory


@dataclass(frozen=True, slots=True)
class SourceView:
    """One table or partition at the source, as one snapshot sees it.

    :param listing: all files below it.
    :param write_ids: of the snapshot, with the txns it sees in ``txns``.
    :param uncleaned: compaction txns after whose results nothing was removed yet: what they replaced is complete.
    :param has_row_ids: false for insert-only tables, of whose files no row can be told from another.
    """

    listing: Sequence[FileEntry]
    write_ids: ValidWriteIdList
    txns: ValidTxnList
    uncleaned: frozenset[int] = frozenset()
    has_row_ids: bool = True


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """The same table or partition at the replica.

    :param listing: all files below it.
    :param known: the source's list as of the last sync, with every aborted id since: what came here. Its high-water
        mark is 0 before the first sync.
    :param txns: the replica's txn list, which decides which compacted directories exist there.
    :param own_txns: txns of syncs that have not ended: what carries them was left behind by one that was killed.
    :param is_new: nobody can read here yet: the partition is not in the catalog, the table was never synced.
    """

    listing: Sequence[FileEntry]
    known: ValidWriteIdList
    txns: ValidTxnList
    own_txns: frozenset[int] = frozenset()
    is_new: bool = False


def plan(source: SourceView, replica: ReplicaView) -> Plan:
    """Decide what travels.

    :raises ReplicaDivergedError: when no set of directories makes the replica equal to the snapshot; the remedy is to
        bootstrap the table again.
    :raises CorruptTableError: when a layout contradicts itself.
    """
    return _Planner(source, replica).plan()


def leftovers(listing: Iterable[FileEntry], known: ValidWriteIdList, own_txns: Collection[int]) -> tuple[str, ...]:
    """Directories at the replica that only a sync can have made and that belong to none that ended.

    The replica's compactions stop below its first open id, and nobody else writes there.

    :param known: what came here; of its open ids those that have a txn here that is still open.
    """
    names = sorted({e.path.split("/")[0] for e in listing if "/" in e.path})
    return tuple(name for name in names if is_left_behind(name, known, own_txns))


def is_left_behind(name: str, known: ValidWriteIdList, own_txns: Collection[int]) -> bool:
    """Whether a directory is one of :func:`leftovers`."""
    directory = None if is_hidden(name) else parse_directory(name)
    if directory is None:
        return False
    low, high = max(1, directory.min_write_id), directory.max_write_id
    unknown = high > known.high_watermark or any(low <= w <= high for w in known.open)
    return unknown or (directory.visibility_txn_id > 0 and directory.visibility_txn_id in own_txns)


_NOTHING = ValidWriteIdList(0)


class _Planner:
    def __init__(self, source: SourceView, replica: ReplicaView) -> None:
        self._source, self._replica = source, replica
        self._ids, self._known = source.write_ids, replica.known
        self._leftovers = leftovers(replica.listing, replica.known, replica.own_txns)
        self._there = self._state_of_replica()
        # Of a partition that nobody can read here yet nothing has come, also not with write ids of which other
        # partitions have come: it may have had another name until now.
        self._here = _NOTHING if replica.is_new and self._there is None else self._known
        self._peeled_txns: set[int] = set()
        self._state = self._peeled()
        self._reasons: list[str] = []

    def plan(self) -> Plan:
        base = self._state.base
        self._require_place(base)
        self._require_kept()
        copies: list[Copy] = []
        reached = 0
        if (merged := self._merged()) is not None:
            reached = merged.arrival.directory.max_write_id
            self._require_whole(reached)
            copies.append(merged)
        elif base is not None and self._has_new(1, base.directory.max_write_id, base):
            reached = base.directory.max_write_id
            self._require_whole(reached)
            if base.compacted and self._here.high_watermark:
                self._reasons.append(f"{base.name} travels whole: a Cleaner has been at what it replaced")
            copies.append(self._copy(base))
        carried: dict[tuple[int, int], list[str]] = {}
        for found in self._state.deltas:
            low, high = found.directory.min_write_id, found.directory.max_write_id
            if not self._has_new(low, high) or high <= reached:
                continue
            if low <= reached:
                raise CorruptTableError(f"{found.name} reaches into the base of write id {reached} below it")
            if self._may_copy(found):
                copies.append(self._copy(found))
            elif not self._source.has_row_ids and self._may_replace(found):
                self._reasons.append(f"{found.name} takes the place of what is here of its write ids")
                copies.append(self._copy(found))
            else:
                for run in self._runs(low, high):
                    carried.setdefault(run, []).append(found.name)
                self._reasons.append(f"{found.name} holds write ids that are here already, or not committed yet")
        carries = tuple(
            Carry(*run, tuple(names), frozenset(self._peeled_txns)) for run, names in sorted(carried.items())
        )
        return Plan(
            tuple(copies), carries, None if reached else self._emptied(), self._originals(),
            self._leftovers, tuple(self._reasons),
        )  # fmt: skip

    def _require_place(self, base: StateDirectory | None) -> None:
        """What a partition brings along from its former name does not fit in beside what was dropped under this one.

        A base without rows would hide both.
        """
        if not self._replica.is_new or self._there is None or not self._known.high_watermark:
            return
        brought = [
            d for d in self._state.deltas if _holds(self._known, d.directory.min_write_id, d.directory.max_write_id)
        ]
        if base is not None:
            reached = base.directory.max_write_id
            brought = [d for d in brought if d.directory.max_write_id > reached]
            brought += [] if self._has_new(1, reached, base) else [base]
        if brought:
            raise ReplicaDivergedError(
                f"{brought[0].name} came here under another name of the partition, and under this one there still are "
                "files of a partition that was dropped; let the replica's Cleaner remove them, or bootstrap the table "
                "again"
            )

    def _require_kept(self) -> None:
        """What came before is still here in some form: its own directories, or what was made of them.

        Whoever knows of no replica may have taken it away without a write id, also at an old primary before it follows:
        a Hive that drops a partition and adds it again, and leaves no base. Of a batch in which txns were aborted the
        others may have had no rows.
        """
        for found in (self._state.base, *self._state.deltas):
            if found is None or not _has_data(found):
                continue
            low, high = max(1, found.directory.min_write_id), found.directory.max_write_id
            is_base = found.directory.kind is DirectoryKind.BASE
            if not (is_base or self._is_whole(found)):
                continue
            if self._has_new(low, high, found if is_base else None) or not _holds(self._here, low, high):
                continue
            if self._there is None or not _tells_of(self._there, found):
                raise ReplicaDivergedError(
                    f"{found.name} of the source has come here before, and nothing is left of it: somebody has removed "
                    "it, as by dropping and adding its partition; bootstrap the table again"
                )

    # --- both sides ------------------------------------------------------------------------------------------------

    def _peeled(self) -> AcidState:
        """What the snapshot reads, without compactions after which nothing was removed: single deltas travel best."""
        listing = list(self._source.listing)
        state = acid_state(listing, self._ids, self._source.txns)
        while True:
            newest = max(
                (d.directory.visibility_txn_id for d in (state.base, *state.deltas)
                 if d is not None and d.directory.visibility_txn_id in self._source.uncleaned
                 and self._has_new(max(1, d.directory.min_write_id), d.directory.max_write_id, d)),
                default=0,
            )  # fmt: skip
            if not newest:
                return state
            listing = [e for e in listing if _visibility(e) != newest]
            try:
                state = acid_state(listing, self._ids, self._source.txns)
            except SnapshotTooOldError:
                return state
            self._peeled_txns.add(newest)

    def _state_of_replica(self) -> AcidState | None:
        gone = set(self._leftovers)
        listing = [e for e in self._replica.listing if e.path.split("/")[0] not in gone]
        return acid_state(listing, self._known, self._replica.txns) if listing else None

    def _has_new(self, low: int, high: int, base: StateDirectory | None = None) -> bool:
        """Whether one of these write ids is committed in the snapshot and did not come here before."""
        if base is not None and base.directory.kind is DirectoryKind.BASE and not base.compacted:
            low = high  # an INSERT OVERWRITE holds rows of its own write id, and hides those below
        if low < 1 <= high:
            low = 1
        if any(low <= w <= high and self._ids.is_valid(w) for w in self._here.open):
            return True
        first = max(low, self._here.high_watermark + 1)
        return first <= high and self._ids.range_validity(first, high) is not RangeValidity.NONE

    def _may_copy(self, found: StateDirectory) -> bool:
        """Whether a delta holds nothing that is here already, or that the snapshot does not see."""
        low, high = found.directory.min_write_id, found.directory.max_write_id
        if low == high:
            return True
        if _holds(self._here, low, high):
            return False
        if high > self._ids.high_watermark or any(low <= w <= high for w in self._ids.open):
            return False
        return self._is_whole(found)

    def _is_whole(self, found: StateDirectory) -> bool:
        """Whether all rows of a delta are committed: a compaction has dropped those of aborted ids, a streaming delta
        still has them."""
        low, high = found.directory.min_write_id, found.directory.max_write_id
        return found.directory.visibility_txn_id > 0 or self._ids.is_fully_valid(low, high)

    def _merged(self) -> Copy | None:
        """All rows of an insert-only table up to some write id, as one base.

        Of the rows of a compacted delta none can be told from another. So where it does not hide as a whole what both
        sides have of its write ids, because the replica has compacted others than the source, all there is travels.
        """
        if self._source.has_row_ids or self._there is None:
            return None
        high = max((d.directory.max_write_id for d in self._state.deltas if self._overlaps(d)), default=0)
        if not high:
            return None
        base = self._state.base
        merged = [d for d in self._state.deltas if d.directory.max_write_id <= high]
        files = [f for d in (*(() if base is None else (base,)), *merged) for f in d.plain_files()]
        self._reasons.append(
            f"all rows up to write id {high} travel as one base: the replica has compacted others than the source"
        )
        arrival = Arrival(AcidDirectory(DirectoryKind.BASE, 0, high), True)
        return Copy(f"merged_{high}", arrival, (*self._state.originals, *files), of_several=True)

    def _overlaps(self, found: StateDirectory) -> bool:
        """Whether a delta brings new rows, and neither fits in beside what is here nor hides all it overlaps with."""
        low, high = found.directory.min_write_id, found.directory.max_write_id
        base = None if self._there is None else self._there.base
        if not self._has_new(low, high) or self._may_copy(found):
            return False
        there = [d.directory for d in (self._there.deltas if self._there is not None else ())]
        across = any(d.min_write_id <= high and low <= d.max_write_id
                     and not low <= d.min_write_id <= d.max_write_id <= high for d in there)  # fmt: skip
        return self._may_replace(found) and (across or (base is not None and low <= base.directory.max_write_id))

    def _may_replace(self, found: StateDirectory) -> bool:
        """Whether a delta of an insert-only table has all rows of its write ids, and nothing else.

        :raises ReplicaDivergedError: when it has not: of its rows none can be told from another.
        """
        if not found.directory.visibility_txn_id:
            raise ReplicaDivergedError(
                f"{found.name} of an insert-only table overlaps with what is not committed, and its rows do not say "
                "which write id they are of; bootstrap the table again"
            )
        return True

    def _runs(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Ranges of new write ids with nothing between their ends that is here already or may come later.

        As few as can be, because each is a job: of a batch that was open at the last sync all ids come with one.
        """
        first = last = 0
        for write_id in range(max(low, 1), min(high, self._ids.high_watermark) + 1):
            is_new = write_id > self._here.high_watermark or write_id in self._here.open
            if is_new and self._ids.is_valid(write_id):
                first, last = first or write_id, write_id
            elif first and (write_id in self._ids.open or (not is_new and self._here.is_valid(write_id))):
                yield first, last
                first = 0
        if first:
            yield first, last

    def _copy(self, found: StateDirectory) -> Copy:
        arrival = Arrival(replace(found.directory, visibility_txn_id=0), found.directory.visibility_txn_id > 0)
        if found.directory.kind is DirectoryKind.BASE and found.compacted:
            arrival = replace(arrival, is_mapped=True)  # before Hive 4 a side file told it from an INSERT OVERWRITE
        return Copy(found.name, arrival, found.files)

    # --- what the replica has ----------------------------------------------------------------------------------------

    def _require_whole(self, write_id: int) -> None:
        """A base hides a delta of the replica or it does not; it cannot hide half of one, whose rows would double.

        It cannot happen: what the replica compacts ends below each id that is still to come, and so does what the
        source compacts.
        """
        for found in self._there.deltas if self._there is not None else ():
            if found.directory.min_write_id <= write_id < found.directory.max_write_id:
                raise CorruptTableError(f"{found.name} of the replica reaches across the source's base of {write_id}")

    def _emptied(self) -> EmptyBase | None:
        """A base without rows, when the source lost its rows without a write id (TRUNCATE, DROP and ADD PARTITION)."""
        if self._there is None:
            return None
        data = [d for d in (self._there.base, *self._there.deltas) if d is not None and _has_data(d)]
        lost = [d for d in data if not _tells_of(self._state, d)]
        originals_lost = bool(self._there.originals) and self._state.base is None and not self._state.originals
        if not lost and not originals_lost:
            return None
        mark = self._known.high_watermark
        names = ", ".join(d.name for d in lost[:3]) or "files without write ids"
        late = [w for w in self._known.open if self._ids.is_valid(w) or w in self._ids.open]
        if len(lost) < len(data) or late or mark < 1:
            raise ReplicaDivergedError(
                f"the source no longer has {names}, and no write id says why, while other rows of that age are there; "
                "bootstrap the table again"
            )
        self._reasons.append(f"the source was emptied without a write id: {names} are gone there")
        return EmptyBase(mark)

    def _originals(self) -> tuple[FileEntry, ...]:
        files = self._state.originals
        if not files or self._replica.is_new:
            return files
        if self._there is not None and (self._there.base is not None or set(files) <= set(self._there.originals)):
            return ()
        raise ReplicaDivergedError(
            f"the source has files without write ids that the replica has not ({files[0].path}): the table became "
            "transactional after it was replicated, or they were put there by hand; bootstrap the table again"
        )


def _has_data(found: StateDirectory) -> bool:
    return any(f.size for f in found.files) and bool(found.bucket_files() or found.plain_files())


def _tells_of(state: AcidState, found: StateDirectory) -> bool:
    """Whether one side has something that tells of the write ids of a directory of the other one."""
    low, high = max(1, found.directory.min_write_id), found.directory.max_write_id
    base = state.base
    if base is not None and high <= base.directory.max_write_id:
        return True
    if found.directory.kind is DirectoryKind.BASE and state.originals:
        return True
    return any(
        d.directory.min_write_id <= high and low <= d.directory.max_write_id
        for d in (*state.deltas, *(() if base is None else (base,)))
    )


def _holds(known: ValidWriteIdList, low: int, high: int) -> bool:
    """Whether rows of one of these write ids have come."""
    mark = min(high, known.high_watermark)
    return low <= mark and known.range_validity(low, mark) is not RangeValidity.NONE


def _visibility(entry: FileEntry) -> int:
    directory = parse_directory(entry.path.split("/")[0])
    return 0 if directory is None else directory.visibility_txn_id
