"""What readers were shown of an object, and which looks at the database may still bring something older.

A server without a listener changes the catalog and writes no event. So two database snapshots with the same last event
can differ, and their place in the log does not say which one is later. What does: a look that begins after an answer
was given has a later snapshot than that answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.cache.entries import TableEntry

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.cache.entries import Entry


@dataclass(frozen=True, slots=True)
class Shown:
    """What was shown of an object last.

    :param given: the last look that had begun when it was shown; those up to it may have an earlier snapshot.
    :param as_of: the last event that it includes.
    :param content: a table, a database or names; something that equals nothing if two answers differ, and nobody can
        tell which one is later.
    :param partitions: the set of them that was shown; something that equals nothing if the answer was no set, None
        if it told of none.
    """

    given: int
    as_of: int
    content: object
    partitions: object | None = None

    @classmethod
    def of(cls, entry: Entry, given: int, partitions: object | None) -> Shown:
        """What a reader of an entry is shown; its partitions only if they are named."""
        return cls(given, entry.freshness.as_of, _content(entry), partitions)

    def may_be_later(self, entry: Entry, look: int) -> bool:
        """Whether what a look has read is something else, and may be older than this."""
        return look <= self.given and entry.freshness.as_of <= self.as_of and not self.is_told_by(entry)

    def is_told_by(self, entry: Entry) -> bool:
        """Whether who reads an entry is shown the same. An entry without partitions tells nothing of them."""
        if _content(entry) != self.content:
            return False
        if not isinstance(entry, TableEntry) or entry.partitions is None or self.partitions is None:
            return True
        return entry.partitions is self.partitions

    def then(self, other: Shown, look: int) -> Shown:
        """This, and what was shown after it.

        :param look: that of the other.
        """
        as_of = max(self.as_of, other.as_of)
        if look > self.given or other.as_of > self.as_of:
            partitions = self.partitions if other.partitions is None else other.partitions
            return Shown(other.given, as_of, other.content, partitions)
        if other.as_of < self.as_of:
            partitions = other.partitions if self.partitions is None else self.partitions
            return Shown(other.given, as_of, self.content, partitions)
        content = self.content if self.content == other.content else object()
        if self.partitions is None or other.partitions is None or self.partitions is other.partitions:
            partitions = other.partitions if self.partitions is None else self.partitions
        else:
            partitions = object()
        return Shown(other.given, as_of, content, partitions)


def _content(entry: Entry) -> object:
    return entry.table if isinstance(entry, TableEntry) else entry.value
