"""The state machine of the metastore cache: events and loads in, entries out. It does no I/O and knows no clock.

What happens between two rounds of the follower: readers that miss load a table in a database snapshot of their own and
offer it (:meth:`CacheState.offer`). What happens in a round: the follower reads the events up to the log's end and, in
the same database snapshot, again what they touched (:meth:`plan`), and everything takes effect at once (:meth:`apply`).
A round that fails half-way has changed nothing.

Readers and rounds look at the database side by side. What comes back late never replaces something later that a reader
was shown: looks are numbered, and ``shown`` says which of them may be older.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.cache.entries import Store, TableEntry, names_of
from airflow_hive_acid.metastore.cache.events import MOST_PARTITIONS, OpenWrites
from airflow_hive_acid.metastore.cache.rules import Verdict, decide
from airflow_hive_acid.metastore.cache.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.cache.entries import Entry, Loaded
    from airflow_hive_acid.metastore.cache.events import Changes, Touch
    from airflow_hive_acid.metastore.names.objects import TableName

MOST_CREATED = 1000
"""New tables of one round that are read at once; others are read when somebody asks."""


@dataclass(frozen=True, slots=True)
class Looking:
    """A reader or a round that is loading something.

    :param generation: what a reader has loaded counts only if the cache was not emptied meanwhile.
    :param number: looks are numbered as they begin.
    """

    generation: int
    number: int


@dataclass(frozen=True, slots=True)
class Round:
    """What the follower found in one database snapshot.

    :param looking: begun before that snapshot.
    :param start: the position it went out from; ``end`` the log's end in that snapshot.
    :param loads: tables read again, None for those that do not exist.
    :param time: when the event ``end`` was written, in seconds since 1970; None when that is not known.
    """

    looking: Looking
    start: int
    end: int
    changes: Changes
    loads: Mapping[TableName, Loaded | None]
    writes: OpenWrites
    time: int | None = None


@dataclass(slots=True)
class CacheState:
    """Entries, and how far the log was followed.

    :param position: the last event processed; None while nobody follows.
    :param generation: counts how often everything was forgotten.
    :param keep_new: tables that are created are read at once.
    """

    store: Store
    position: int | None = None
    generation: int = 0
    keep_new: bool = True
    writes: OpenWrites = field(default_factory=OpenWrites)
    _again: set[TableName] = field(default_factory=set)
    _floors: dict[TableName | int, Shown] = field(default_factory=dict)
    _shown: dict[TableName | int, Shown] = field(default_factory=dict)
    _names: dict[int, TableName] = field(default_factory=dict)
    _looking: dict[int, int] = field(default_factory=dict)
    _recent: deque[tuple[int, Changes]] = field(default_factory=deque)
    _numbers: int = 0

    # --- reading --------------------------------------------------------------------------------------------------

    def look(
        self, key: TableName, table_id: int | None = None, reader: ValidWriteIdList | None = None
    ) -> tuple[Verdict, Entry | None]:
        """From where a read is answered, and the entry.

        :param table_id: the id that the reader knows the table by, None if it does not care.
        :param reader: its list, None for what has no write ids.
        """
        entry = self.store.get(key)
        if self.position is None:
            return Verdict.OFF, None
        if entry is None:
            return Verdict.MISSING, None
        if not isinstance(entry, TableEntry):
            usable = entry.freshness.is_usable(self.position) and self.position >= self._floor(key)
            return (Verdict.HIT if usable else Verdict.UNCONFIRMED), entry
        if table_id is not None and entry.table.id != table_id:
            return Verdict.REPLACED, entry
        floor = self._floor(entry.table.id) if self._floors else 0
        return decide(entry.freshness, self.position, entry.write_ids, reader, floor=floor), entry

    def begin_looking(self) -> Looking:
        """Somebody goes to the database; to be ended with :meth:`end_looking`."""
        self._numbers += 1
        self._looking[self._numbers] = self.position or 0
        return Looking(self.generation, self._numbers)

    def end_looking(self, looking: Looking) -> None:
        """It is back."""
        self._looking.pop(looking.number, None)
        if not self._looking:
            self._recent.clear()
            self._shown.clear()

    def offer(self, key: TableName, entry: Entry, looking: Looking) -> bool:
        """Keep what a reader has loaded; it is usable once the log was followed to where it was read.

        An entry that waits for that already stays, or nobody would ever see its end come. What may be older than
        something that was shown meanwhile is not kept.

        :return: whether it, or such a one, is kept.
        """
        if self.position is None or looking.generation != self.generation:
            return False
        known = self.store.peek(key)
        waits = known is not None and self._waits(known)
        if known is not None and waits and not (_adds_partitions(known, entry) or self._untold(known, entry)):
            return True
        if self._shown_later(key, entry, looking) is not None:
            return False
        for _, changes in self._recent:
            touch = changes.of(key)
            if touch is not None and touch.last > entry.freshness.as_of:
                if touch.gone or not isinstance(entry, TableEntry):
                    return False
                entry = entry.touched(touch)
        if known is not None and known.freshness.as_of > entry.freshness.as_of:
            return False
        kept = self._put(key, entry)
        if key in self.store:
            self._note(key, entry, looking, entry.partitions if isinstance(entry, TableEntry) else None)
        return kept

    def show(
        self, key: TableName, read: Entry, looking: Looking, partitions: object | None = None
    ) -> tuple[Entry | None, Shown]:
        """A reader is given what the database showed: nothing older is shown from now on.

        :param read: the object as it was read, whether it was kept or not.
        :param partitions: what the answer tells of partitions: the whole set, or something that equals nothing; None if
            it tells of none.
        :return: the entry that memory has instead, to be compared with the answer; and what to say if it
            :meth:`differs`.
        """
        shown = self._note(key, read, looking, partitions)
        known = self.store.peek(key)
        if known is None or known is read or _id(known) != _id(read):
            # It may be in memory under an earlier name.
            self._raise_floor(read.table.id if isinstance(read, TableEntry) else key, shown, looking)
        return (None if known is read else known), shown

    def differs(self, key: TableName, entry: Entry, shown: Shown, looking: Looking) -> None:
        """The database showed something else as of an event than an entry holds.

        Either the log will tell, and until then the entry is not shown; or it had nothing to tell (somebody changed the
        catalog behind it), and the entry is read again.
        """
        if self.position is None or self.store.peek(key) is not entry or entry.freshness.as_of > shown.as_of:
            return
        if shown.as_of > self.position:
            self._raise_floor(entry.table.id if isinstance(entry, TableEntry) else key, shown, looking)
        else:
            self._doubt(key, entry, shown.as_of)

    # --- following ------------------------------------------------------------------------------------------------

    def reset(self, position: int | None, writes: OpenWrites) -> None:
        """Forget everything, and follow the log from a position; None ends the following."""
        self.store.clear()
        self._again.clear()
        self._floors.clear()
        self._shown.clear()
        self._names.clear()
        self._recent.clear()
        self.generation += 1
        self.position, self.writes = position, writes

    def has_again(self) -> bool:
        """Whether something must be read again though the log tells nothing new."""
        return bool(self._again)

    def plan(self, changes: Changes) -> dict[TableName, frozenset[str]]:
        """The tables to be read again because of events, with names of partitions; changes nothing."""
        wanted: dict[TableName, frozenset[str]] = {}
        created = 0
        for key in self._affected(changes):
            touch = changes.of(key)
            entry = self.store.table(key)
            if entry is not None:
                wanted[key] = self._wanted(entry, touch)
            elif touch is not None and touch.created and not touch.gone and self._keeps(touch, created):
                created += touch.renamed_from is None
                wanted[key] = frozenset()
        return wanted

    def apply(self, found: Round) -> bool:
        """Let a round take effect; whether it did: not if somebody else has moved the cache on meanwhile.

        What must be read again and is not among the loads stays unusable until the next round. So does what was read
        before something else that a reader was shown, and what the log, followed as far as that, tells nothing of.
        """
        if self.position != found.start:
            return False
        self._count(found.changes)
        for key in self._affected(found.changes):
            entry, touch = self.store.peek(key), found.changes.of(key)
            if entry is None:
                loaded = found.loads.get(key)
                if loaded is not None:
                    self._take(key, TableEntry.of(loaded), found.looking)
                continue
            if not isinstance(entry, TableEntry):
                if touch is not None and touch.last > entry.freshness.as_of:
                    self.store.pop(key)
                continue
            if touch is not None and touch.last > entry.freshness.as_of:
                entry = entry.touched(touch)
            if key in found.loads and entry.freshness.as_of <= found.end:
                loaded = found.loads[key]
                if loaded is None:
                    self.store.pop(key)
                    self._again.discard(key)
                    continue
                self._take(key, entry.refreshed(loaded), found.looking)
            else:
                self._put(key, entry)
        self.position, self.writes = found.end, found.writes
        self._pass_floors(found)
        if len(self._names) > 2 * len(self.store) + MOST_CREATED:
            self._names = {i: key for i, key in self._names.items() if key in self.store}
        self._recent.append((found.end, found.changes))
        self._forget()
        return True

    # --- inside ---------------------------------------------------------------------------------------------------

    def _count(self, changes: Changes) -> None:
        """Note what the log says of write ids, where it matters."""
        for key in changes.given.keys() | changes.ended.keys():
            entry = self.store.table(key)
            if entry is not None and entry.partitions is not None:
                self._put(key, entry.counted(changes.given.get(key, ()), changes.ended.get(key, ())))

    def _floor(self, what: TableName | int) -> int:
        floor = self._floors.get(what)
        return 0 if floor is None else floor.as_of

    def _raise_floor(self, what: TableName | int, shown: Shown, looking: Looking) -> None:
        """Show nothing older than an answer until the log was followed to where it was read.

        :param what: a table's id, whatever its name was then; or the key of anything else.
        """
        if self.position is not None and shown.as_of > self.position:
            former = self._floors.get(what)
            self._floors[what] = shown if former is None else former.then(shown, looking.number)

    def _pass_floors(self, found: Round) -> None:
        """A floor says that memory had something else, and that the log would tell; what it did not is doubted."""
        passed = [what for what, shown in self._floors.items() if shown.as_of <= found.end]
        for what in passed:
            shown = self._floors.pop(what)
            key = self._names.get(what) if isinstance(what, int) else what
            if key is None or key in found.loads:
                continue
            entry = self.store.peek(key)
            if entry is not None and entry.freshness.as_of <= shown.as_of and not shown.is_told_by(entry):
                self._doubt(key, entry, shown.as_of)

    def _doubt(self, key: TableName, entry: Entry, as_of: int) -> None:
        if isinstance(entry, TableEntry):
            self._put(key, entry.doubted(as_of))
        else:
            self.store.pop(key)

    def _take(self, key: TableName, entry: TableEntry, looking: Looking) -> None:
        """Keep what a round has read again."""
        later = self._shown_later(key, entry, looking)
        if later is not None:
            entry = entry.doubted(later.as_of)
        elif len(self._looking) > 1:  # others than the round itself
            self._note(key, entry, looking, entry.partitions)
        self._put(key, entry)

    def _note(self, key: TableName, entry: Entry, looking: Looking, partitions: object | None) -> Shown:
        """From now on an entry's content is shown, or may be."""
        shown = Shown.of(entry, self._numbers, partitions)
        for what in (key, _id(entry)):
            if what is not None:
                former = self._shown.get(what)
                self._shown[what] = shown if former is None else former.then(shown, looking.number)
        return shown

    def _shown_later(self, key: TableName, entry: Entry, looking: Looking) -> Shown | None:
        """Something else than an entry that was shown, and may be later than it."""
        for what in (key, _id(entry)):
            shown = None if what is None else self._shown.get(what)
            if shown is not None and shown.may_be_later(entry, looking.number):
                return shown
        return None

    def _forget(self) -> None:
        """What no look that is under way can be older than."""
        oldest, position = next(iter(self._looking.items()), (self._numbers + 1, self.position or 0))
        while self._recent and self._recent[0][0] <= position:
            self._recent.popleft()
        self._shown = {what: shown for what, shown in self._shown.items() if shown.given >= oldest}

    def _affected(self, changes: Changes) -> list[TableName]:
        keys = set(changes.tables) | self._again
        for database in changes.databases:
            keys.update(self.store.of_database(database))
        return sorted(keys)

    def _wanted(self, entry: TableEntry, touch: Touch | None) -> frozenset[str]:
        if entry.partitions is None or (touch is not None and touch.all_partitions):
            return frozenset()
        names = entry.again if touch is None else entry.again | names_of(entry.table, touch)
        return names if len(names) <= MOST_PARTITIONS else frozenset()

    def _keeps(self, touch: Touch, created: int) -> bool:
        if touch.renamed_from is not None and touch.renamed_from in self.store:
            return True
        return self.keep_new and created < MOST_CREATED

    def _waits(self, entry: Entry) -> bool:
        """Whether the log will confirm it, or the follower reads it again."""
        fresh = entry.freshness
        return fresh.since is not None or bool(fresh.pending) or fresh.as_of > (self.position or 0)

    def _untold(self, known: Entry, offered: Entry) -> bool:
        """Whether an entry waits for commits of which the log, followed as far as this was read, did not tell."""
        fresh = known.freshness
        return (
            bool(fresh.pending)
            and fresh.since is None
            and fresh.as_of <= offered.freshness.as_of <= (self.position or 0)
        )

    def _put(self, key: TableName, entry: Entry) -> bool:
        kept = self.store.put(key, entry)
        if isinstance(entry, TableEntry):
            former = self._names.get(entry.table.id)
            if former is not None and former != key:
                self.store.pop(former, None)  # it was renamed: what is known by the former name is older
            self._names[entry.table.id] = key
        if isinstance(entry, TableEntry) and entry.freshness.since is not None and key in self.store:
            self._again.add(key)
        else:
            self._again.discard(key)
        return kept


def _id(entry: Entry) -> int | None:
    return entry.table.id if isinstance(entry, TableEntry) else None


def _adds_partitions(known: Entry, offered: Entry) -> bool:
    """Whether an entry that waits gets the partitions that it lacks, read no earlier."""
    return (
        isinstance(known, TableEntry)
        and isinstance(offered, TableEntry)
        and known.partitions is None
        and offered.partitions is not None
        and known.freshness.since is None
    )
