"""Which directories hold what a range of write ids has changed, and whether all of it is still there.

Deltas say by whom each row was written, and minor compaction keeps that; so a range can be read from them whatever has
been merged, until a major compaction passes it: its base knows only what is left. An INSERT OVERWRITE or TRUNCATE in
the range has deleted whatever was there before, which is in the directories it hides, for as long as no Cleaner has
come by. What cannot be known to be complete is refused, never guessed. Pure: listing and lists in, decision out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import ChangesNotCompleteError, InvalidArgumentsError
from airflow_hive_acid.format.acid_state import acid_state, state_directories
from airflow_hive_acid.format.names import DirectoryKind
from airflow_hive_acid.format.write_ids import RangeValidity, ValidWriteIdList

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.format.acid_state import FileEntry
    from airflow_hive_acid.format.write_ids import ValidTxnList

KIND, WRITE_ID, TXN_ID = "change__kind", "change__writeid", "change__txnid"
COLUMNS = (KIND, WRITE_ID, TXN_ID)
"""The columns that changes have besides those of the table."""
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_before", "update_after"
"""The kinds of changes; an update is two rows."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What was changed in a table by a range of write ids, instead of its rows.

    :param first: the first write id, and ``last`` the last one, both included; all of them have ended.
    :param net: leave out what the range itself made and undid.
    :param key: columns by which a deleted and an inserted row of one write id are the two halves of an update.
    :param cleaned: by partition name, the largest write id up to which a Cleaner may have removed what was replaced.
    :param txns: by write id (as text), its txn, where that is known.
    :param told: data columns that a deleted row is told with, the others are NULL; None for all. Without any, deleted
        rows need not be looked for. Net and with some, a row that was deleted twice (R18) may be told twice, and by
        which write id it was deleted is not told.
    """

    first: int
    last: int
    net: bool = False
    key: tuple[str, ...] = ()
    cleaned: dict[str, int] = field(default_factory=dict)
    txns: dict[str, int] = field(default_factory=dict)
    told: tuple[str, ...] | None = None


class PartKind(Enum):
    """How a part of a range is read."""

    EVENTS = "events"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a range, in one partition.

    :param kind: the events of deltas; or everything that was there before ``first`` replaced by what there was after
        ``last``, which is the write id of an overwrite.
    """

    kind: PartKind
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """What to read of one partition.

    :param parts: in order; None when something of the range may be gone.
    :param available_from: the smallest write id from which on all changes are there.
    :param why: what stands in the way of the range.
    """

    parts: tuple[Part, ...] | None
    available_from: int = 1
    why: str = ""


def complete_up_to(write_ids: ValidWriteIdList, first: int = 1) -> int:
    """The largest write id up to which all from ``first`` on have ended; those that are open may still be committed."""
    return (write_ids.open_ids.between(first, write_ids.high_watermark).first or write_ids.high_watermark + 1) - 1


def checked_range(table: str, write_ids: ValidWriteIdList, first: int, last: int | None) -> int:
    """The last write id of a range that is to be read.

    :param last: as asked for; None: as far as all write ids have ended, ``first - 1`` when there are none.
    :raises InvalidArgumentsError: for a range that is none.
    :raises ChangesNotCompleteError: when write ids of it have not ended.
    """
    if first < 1 or (last is not None and last < first):
        shown = f"{first} to {last}" if last is not None else f"{first} on"
        raise InvalidArgumentsError(f"changes from write id {shown}: write ids begin at 1, and a range goes upwards")
    complete = complete_up_to(write_ids, first)
    if last is None:
        return max(complete, first - 1)
    if last > complete:
        open_ids = list(islice(write_ids.open_ids.between(first, last), 5))
        what = f"write ids {', '.join(map(str, open_ids))} are open" if open_ids else "later ones are not given yet"
        now = f"read up to {complete} now" if complete >= first else "nothing of it can be read yet"
        raise ChangesNotCompleteError(
            f"changes of {table} up to write id {last} are not complete: {what}; {now}, or wait for their commit or "
            "abort"
        )
    return last


def as_of(write_ids: ValidWriteIdList, last: int) -> ValidWriteIdList:
    """What a reader saw when ``last`` was the newest write id."""
    return ValidWriteIdList(
        last,
        write_ids.open_ids.up_to(last),
        write_ids.aborted_ids.up_to(last),
        None,
        write_ids.table,
    )


def lost_history(
    listing: Iterable[FileEntry],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    *,
    cleaned: int = 0,
    insert_only: bool = False,
) -> tuple[int, str] | None:
    """Why one unpartitioned table or partition cannot be read as it was, with the write id from which on it can.

    Files of the past that are still there prove nothing: a Cleaner removes them one by one.

    :param write_ids: those that were committed then; all others count as open.
    :param cleaned: up to here a Cleaner may have removed what compactions and overwrites have replaced.
    :param insert_only: rows do not say by whom they were written.
    """
    lost: tuple[int, str] | None = None
    for found in state_directories(tuple(listing)):
        named = found.directory
        if named.visibility_txn_id and not txns.is_valid(named.visibility_txn_id):
            continue
        top, why = named.max_write_id, ""
        if named.kind is DirectoryKind.BASE:
            if found.compacted and not write_ids.is_valid_base(top):
                why = f"{found.name} knows only what is left of the write ids up to {top}"
            elif not found.compacted and not (write_ids.is_valid(top) or write_ids.is_aborted(top)) and top <= cleaned:
                why = f"what {found.name} has replaced may have been removed by the Cleaner"
        elif insert_only and _is_divided(named.min_write_id, top, write_ids):
            why = f"{found.name} holds merged rows of the write ids {named.min_write_id} to {top}"
        if why and (lost is None or top > lost[0]):
            lost = top, why
    return lost


def _is_divided(low: int, high: int, write_ids: ValidWriteIdList) -> bool:
    """Whether some of the write ids are seen, and others may be; of aborted ones a compaction has left out the rows."""
    return write_ids.range_validity(low, high) is not RangeValidity.NONE and write_ids.may_come(low, high)


def partition_changes(
    listing: Iterable[FileEntry],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    first: int,
    last: int,
    *,
    cleaned: int = 0,
    insert_only: bool = False,
    net: bool = False,
) -> PartitionChanges:
    """How the changes of ``first``..``last`` are read from one unpartitioned table or partition.

    :param listing: all files below it.
    :param write_ids: of an open reader, which sees the whole range.
    :param cleaned: up to here a Cleaner may have removed what compactions and overwrites have replaced.
    :param insert_only: rows do not say by whom they were written, so that what was merged is merged.
    :param net: several overwrites count as one.
    """
    files = tuple(listing)
    bases = [
        d
        for d in state_directories(files)
        if d.directory.kind is DirectoryKind.BASE
        and (not d.directory.visibility_txn_id or txns.is_valid(d.directory.visibility_txn_id))
    ]
    overwrites = sorted(
        {d.directory.max_write_id for d in bases if not d.compacted and write_ids.is_valid(d.directory.max_write_id)}
    )
    needed, why = 1, ""
    for found in bases:
        top = found.directory.max_write_id
        if found.compacted and write_ids.is_valid_base(top) and top >= needed:
            needed, why = top + 1, f"{found.name} knows only what is left of the write ids up to {top}"
        elif not found.compacted and top in overwrites and first <= top <= cleaned and top >= needed:
            needed, why = top + 1, f"what {found.name} has replaced may have been removed by the Cleaner"
    if needed > first:
        return PartitionChanges(None, needed, why)
    if insert_only:
        state = acid_state(files, as_of(write_ids, last), txns)
        for delta in state.deltas:
            low, high = delta.directory.min_write_id, delta.directory.max_write_id
            if low < high and low <= last and high >= first and not (first <= low and high <= last):
                # Merged rows do not say whose they are: the range can be read up to it, behind it, or around it.
                merged = (
                    f"{delta.name} holds merged rows of the write ids {low} to {high}, which belong to no single one"
                )
                return PartitionChanges(None, high + 1, merged)
    return PartitionChanges(_divided(first, last, [w for w in overwrites if first <= w <= last], net=net))


def _divided(first: int, last: int, overwrites: list[int], *, net: bool) -> tuple[Part, ...]:
    """A range, divided at the overwrites in it."""
    parts: list[Part] = []
    cursor = first
    if net and overwrites:
        parts.append(Part(PartKind.REPLACED, first, overwrites[-1]))
        cursor, overwrites = overwrites[-1] + 1, []
    for overwrite in overwrites:
        if cursor < overwrite:
            parts.append(Part(PartKind.EVENTS, cursor, overwrite - 1))
        parts.append(Part(PartKind.REPLACED, overwrite, overwrite))
        cursor = overwrite + 1
    if cursor <= last:
        parts.append(Part(PartKind.EVENTS, cursor, last))
    return tuple(parts)
