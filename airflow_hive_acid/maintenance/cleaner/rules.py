"""The Cleaner's rules as pure functions: when it may begin, for whom it waits, what it removes.

Both of Hive's history rules must allow a clean-up: no open txn may be older than the compaction's commit (the rule of
Hive 4.0 and 4.1, here without the equality that Hive tolerates), no open txn may have seen the compaction txn open
(MIN_HISTORY_LEVEL), and no reader may have registered a write id at or below the compacted ones (MIN_HISTORY_WRITE_ID,
Hive 4.2). What cannot be known is never deleted (R17).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.format.names import parse_directory
from airflow_hive_acid.format.write_ids import MAX_ID
from airflow_hive_acid.metastore.compaction import RegisteredReaders

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from airflow_hive_acid.filesystem import FileInfo
    from airflow_hive_acid.metastore.compaction import Compaction, Holder, Horizon

_NOBODY = RegisteredReaders()


class TxnFate(Enum):
    """What became of a compaction txn."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    FORGOTTEN = "forgotten"


class Verdict(Enum):
    """Whether a finished compaction may be cleaned up after."""

    CLEAN = "clean"
    WAIT = "wait"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class CleaningDecision:
    """Whether to clean, why, and who is in the way."""

    verdict: Verdict
    reason: str
    numbers: dict[str, int | float | str]
    holders: tuple[Holder, ...] = ()

    @property
    def blocked_by(self) -> tuple[str, ...]:
        """Who is in the way, for people."""
        return tuple(map(str, self.holders))


def may_clean(
    request: Compaction,
    horizon: Horizon,
    fate: TxnFate,
    registered: RegisteredReaders = _NOBODY,
) -> CleaningDecision:
    """Whether what a compaction replaced may be removed now.

    :param fate: what became of the compaction's txn.
    :param registered: the readers that registered history of the table.
    """
    numbers: dict[str, int | float | str] = {
        "watermark": horizon.watermark,
        "highest_write_id": request.highest_write_id or 0,
    }
    if horizon.min_seen_open != MAX_ID:
        numbers["min_seen_open"] = horizon.min_seen_open
    if request.next_txn_id is not None:
        numbers["next_txn_id"] = request.next_txn_id
    if registered.min_write_id is not None:
        numbers["min_registered_write_id"] = registered.min_write_id

    def decision(verdict: Verdict, reason: str, holders: Iterable[Holder] = ()) -> CleaningDecision:
        return CleaningDecision(verdict, reason, numbers, tuple(holders))

    unfinished = _unfinished(request, fate)
    if unfinished is not None:
        return decision(*unfinished)
    if request.next_txn_id is not None and request.next_txn_id >= horizon.watermark:
        older = [holder for holder in horizon.holders if holder.txn_id <= request.next_txn_id]
        if not older:
            return decision(Verdict.WAIT, "a txn opened during the commit may still appear; looking again soon")
        return decision(Verdict.WAIT, f"txns up to {request.next_txn_id} may read what was replaced", older)
    if request.txn_id is not None and request.txn_id >= horizon.safe:
        return decision(
            Verdict.WAIT, f"an open txn saw txn {horizon.min_seen_open} open, so it may not see the compaction",
            horizon.saw_oldest,
        )  # fmt: skip
    if registered.min_write_id is not None and registered.min_write_id <= (request.highest_write_id or 0):
        needed = f"a reader needs the history from write id {registered.min_write_id} on"
        return decision(Verdict.WAIT, needed, registered.holders)
    return decision(Verdict.CLEAN, "nobody can need what was replaced any more")


def _unfinished(request: Compaction, fate: TxnFate) -> tuple[Verdict, str] | None:
    """A compaction whose commit is missing must not be cleaned up after: its result is not visible to anybody."""
    if request.txn_id is None or request.next_txn_id is not None:
        return None  # committed; or a row of old, which has no txn and no result to hide
    if fate is TxnFate.OPEN:
        return Verdict.WAIT, f"compaction txn {request.txn_id} has not committed yet"
    if fate is TxnFate.ABORTED:
        return Verdict.FAIL, f"compaction txn {request.txn_id} was aborted before it committed; nothing was replaced"
    if fate is TxnFate.FORGOTTEN:
        return Verdict.FAIL, f"compaction txn {request.txn_id} is not known any more and left no commit"
    return None  # committed without a stamp: what older Hives do for rebalance


def retry_pause_ms(current_ms: int, first_ms: int) -> int:
    """The next pause after a failed clean-up: the first one, then doubling."""
    return first_ms if current_ms <= 0 else current_ms * 2


def attempts(current_ms: int, first_ms: int) -> int:
    """How many clean-ups have failed, from the pause they left behind."""
    count, pause = 0, first_ms
    while first_ms > 0 and pause <= current_ms:
        count, pause = count + 1, pause * 2
    return count


def write_ids_in_batches(listing: Iterable[FileInfo], write_ids: Collection[int]) -> frozenset[int]:
    """Those of the write ids of aborted txns whose rows may lie among rows of others, in the delta of a batch.

    Only a compaction takes them out, so until then they must not be forgotten (Hive's ``unCompactedAborts``).
    """
    entries = list(listing)
    dead = {entry.relative for entry in aborted_directories(entries, write_ids, ())}
    found: set[int] = set()
    for entry in entries:
        directory = parse_directory(entry.name) if entry.is_dir and entry.relative not in dead else None
        if directory is None or directory.visibility_txn_id or directory.name.startswith("base_"):
            continue
        if directory.min_write_id < directory.max_write_id:
            found |= {i for i in write_ids if directory.min_write_id <= i <= directory.max_write_id}
    return frozenset(found)


def aborted_directories(
    listing: Iterable[FileInfo], write_ids: Collection[int], txn_ids: Collection[int]
) -> list[FileInfo]:
    """Directories in which every row was written by an aborted txn.

    Only positive evidence counts: every write id in the name must be one of ``write_ids``, or the compaction txn in
    the name one of ``txn_ids``. Partition directories are looked into when the listing is recursive.
    """
    found = []
    for entry in listing:
        directory = parse_directory(entry.name) if entry.is_dir else None
        if directory is None:
            continue
        if directory.visibility_txn_id:
            dead = directory.visibility_txn_id in txn_ids
        elif directory.name.startswith("base_"):
            dead = directory.max_write_id in write_ids
        else:
            low, high = directory.min_write_id, directory.max_write_id
            dead = high - low < len(write_ids) and all(i in write_ids for i in range(low, high + 1))
        if dead:
            found.append(entry)
    return found
