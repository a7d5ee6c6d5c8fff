"""The rules of the metastore cache, as pure functions: what an event touches, and who may read what from memory.

The source is the metastore-cache seed ("synchronised by ValidWriteIdList"). An entry holds what the catalog said at one
place of the notification log, together with the table's write ids at that place. Events never carry content into the
cache: they say which entries are no longer what the database holds, and the follower reads those again in the very
database snapshot in which it read the events. So an entry is exact for its place, whatever a server's messages hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.format.write_ids import RangeValidity

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_hive_acid.format.write_ids import ValidWriteIdList

_NO_IDS: frozenset[int] = frozenset()


class Age(Enum):
    """A reader's list beside the write ids of an entry."""

    SAME = "same"
    NEWER = "newer"
    OLDER = "older"


class Verdict(Enum):
    """From where a read is answered, and why.

    HIT: from memory. MISSING: there is no entry. NEWER: the reader knows of a commit that the log has not told the
    cache yet. OLDER: the reader's list is older than the entry, and no old versions are kept. UNCONFIRMED: the entry
    waits for the log, for a commit, or to be read again. REPLACED: the name belongs to a table with another id.
    BEHIND: the follower has not looked at the log for too long. OFF: there is no follower, or no log.
    """

    HIT = "hit"
    MISSING = "missing"
    NEWER = "newer"
    OLDER = "older"
    UNCONFIRMED = "unconfirmed"
    REPLACED = "replaced"
    BEHIND = "behind"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class WriteIds:
    """All write ids of a table at one place of the log.

    :param high_watermark: the largest that was given; nothing above it exists.
    :param open: those of open txns; ``aborted`` those of aborted ones that are still remembered. All others up to the
        mark are committed, or as good as that.
    """

    high_watermark: int = 0
    open: frozenset[int] = _NO_IDS
    aborted: frozenset[int] = _NO_IDS

    def is_committed(self, write_id: int) -> bool:
        """Whether the entry contains what this id changed."""
        return write_id <= self.high_watermark and write_id not in self.open and write_id not in self.aborted

    def commits_between(self, low: int, high: int) -> bool:
        """Whether any id of ``low``..``high``, both included, is committed."""
        high = min(high, self.high_watermark)
        if low > high:
            return False
        hidden = sum(1 for ids in (self.open, self.aborted) for write_id in ids if low <= write_id <= high)
        return hidden < high - low + 1


def compare(entry: WriteIds, reader: ValidWriteIdList) -> Age:
    """Whether a reader's list sees the same commits as an entry.

    Ids that neither sees do not count: a list made after an id was given and before its commit is the same as one made
    before both. NEWER wins where both hold: an entry may never be older than the reader's list.
    """
    mark = reader.high_watermark
    if mark == entry.high_watermark and reader.open == entry.open and reader.aborted == entry.aborted:
        return Age.SAME
    if any(reader.is_valid(write_id) for write_id in entry.open):
        return Age.NEWER
    if mark > entry.high_watermark:
        above = reader.range_validity(entry.high_watermark + 1, mark)
        if above is not RangeValidity.NONE:
            return Age.NEWER
    if any(entry.is_committed(write_id) for write_id in reader.exceptions):
        return Age.OLDER
    return Age.OLDER if entry.commits_between(mark + 1, entry.high_watermark) else Age.SAME


def pending_of(write_ids: WriteIds, written: Collection[int]) -> frozenset[int]:
    """Those of the ids that content was written under that are not committed yet: a real Hive changes the catalog
    before the txn ends. Until its commit event is read, the entry is not usable."""
    return frozenset(written) & write_ids.open


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far an entry can be trusted.

    :param as_of: the last event that the content includes.
    :param since: of an entry that must be read again: at this event or a later one; None while it is as the log says.
    :param pending: write ids of open txns under which content was written.
    """

    as_of: int
    since: int | None = None
    pending: frozenset[int] = _NO_IDS

    def is_usable(self, position: int) -> bool:
        """Whether readers may have it once the log was followed up to ``position``."""
        return self.since is None and self.as_of <= position and not self.pending


def decide(
    freshness: Freshness, position: int, write_ids: WriteIds, reader: ValidWriteIdList | None, *, floor: int = 0
) -> Verdict:
    """From where a read of an entry is answered.

    :param position: the last event the follower has processed.
    :param reader: the reader's list; None for a table without write ids, which is read as the log left it.
    :param floor: an event that an earlier read has seen the effects of: nothing before it is shown again.
    """
    if position < floor or not freshness.is_usable(position):
        if reader is not None and compare(write_ids, reader) is Age.NEWER:
            return Verdict.NEWER
        return Verdict.UNCONFIRMED
    if reader is None:
        return Verdict.HIT
    match compare(write_ids, reader):
        case Age.SAME:
            return Verdict.HIT
        case Age.NEWER:
            return Verdict.NEWER
        case Age.OLDER:
            return Verdict.OLDER


class Gap(Enum):
    """What is wrong with the events after a position.

    PURGED: some are gone, for example removed by age. BACKWARDS: the log ends before the position: another database,
    or an older backup of it. TOO_MANY: reading all anew is cheaper than following.
    """

    PURGED = "events between are gone"
    BACKWARDS = "the log ends before it"
    TOO_MANY = "too far behind"


def find_gap(position: int, end: int, found: Collection[int], most: int) -> Gap | None:
    """Whether the events after ``position`` tell everything up to ``end``; ids have no gaps.

    :param found: the ids that are there.
    :param most: follow at most so many.
    """
    if end < position:
        return Gap.BACKWARDS
    if end - position > most:
        return Gap.TOO_MANY
    if len(found) != end - position or (found and (min(found) != position + 1 or max(found) != end)):
        return Gap.PURGED
    return None
