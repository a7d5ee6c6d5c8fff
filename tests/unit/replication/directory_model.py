"""Directories of a partition at a source and at its replica, in memory: each holds events of rows.

Readers choose directories by ``acid_state`` alone. The rows that a reader finds are compared, and that none is found
twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import SnapshotTooOldError
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.names import base_name, delete_delta_name, delta_name, parse_directory
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.replication.acid.plan import ReplicaView, SourceView, leftovers, plan

if TYPE_CHECKING:
    import random

    from airflow_hive_acid.replication.acid.arrivals import Plan

EVERY_TXN = ValidTxnList(10**9)
VERSION = FileEntry("_orc_acid_version", 1)


@dataclass(frozen=True, order=True)
class Event:
    """A row that is inserted (``row`` is write id and number), or deleted by ``by``."""

    row: tuple[int, int]
    by: int
    deletes: bool = False


@dataclass
class Warehouse:
    """One partition: directories with their events.

    :param has_row_ids: false for an insert-only table, of whose directories a reader sees all rows or none.
    """

    directories: dict[str, list[Event]] = field(default_factory=dict)
    has_row_ids: bool = True

    def listing(self) -> list[FileEntry]:
        found = []
        for name, events in self.directories.items():
            found.append(FileEntry(f"{name}/_orc_acid_version", 1))
            if events:
                found.append(FileEntry(f"{name}/bucket_00000", 100 * len(events)))
        return found

    def rows(self, ids: ValidWriteIdList, txns: ValidTxnList = EVERY_TXN) -> set[tuple[int, int]]:
        state = acid_state(self.listing(), ids, txns)
        events = [e for d in (*state.inserts, *state.deletes) for e in self.directories[d.name]]
        events = [e for e in events if ids.is_valid(e.by) or not self.has_row_ids]
        found = Counter(e.row for e in events if not e.deletes)
        assert not [row for row, times in found.items() if times > 1], f"rows come twice from {self.names()}"
        return set(found) - {e.row for e in events if e.deletes}

    def names(self) -> list[str]:
        return sorted(self.directories)

    def compact(self, ids: ValidWriteIdList, txn: int, *, major: bool) -> bool:
        mine = ids.for_compactor()
        state = acid_state(self.listing(), mine, EVERY_TXN)
        events = [e for d in state.deltas for e in self.directories[d.name] if mine.is_valid(e.by)]
        if not state.deltas or mine.high_watermark < 1:
            return False
        if major:
            rows = sorted(self.rows(mine))
            self.directories[base_name(mine.high_watermark, txn)] = [Event(row, row[0]) for row in rows]
            return True
        low = min(d.directory.min_write_id for d in state.deltas)
        for deletes, name in ((False, delta_name), (True, delete_delta_name)):
            some = [e for e in events if e.deletes is deletes]
            if some:
                self.directories[name(low, mine.high_watermark, None, txn)] = some
        return True

    def clean(self, ids: ValidWriteIdList, highest: int) -> None:
        try:
            state = acid_state(self.listing(), ids.for_cleaner(highest), EVERY_TXN)
        except SnapshotTooOldError:
            return  # a later compaction has passed this one; what is obsolete goes in its name
        for gone in (*state.obsolete, *state.aborted):
            del self.directories[gone.name]


class Source(Warehouse):
    """A warehouse with write ids of its own."""

    def __init__(self, *, has_row_ids: bool = True) -> None:
        super().__init__(has_row_ids=has_row_ids)
        self.last = 0
        self.open: set[int] = set()
        self.aborted: set[int] = set()
        self.uncleaned: dict[int, int] = {}
        self.touched: set[int] = set()
        self.txn = 500

    def ids(self) -> ValidWriteIdList:
        return ValidWriteIdList(self.last, frozenset(self.open), frozenset(self.aborted), None, "db.t")

    def begin(self) -> int:
        self.last += 1
        self.open.add(self.last)
        return self.last

    def write(self, write_id: int, rows: int, deletes: int, statements: int = 1) -> None:
        number = 0
        for statement in range(statements):
            self.directories[delta_name(write_id, write_id, statement)] = [
                Event((write_id, number + i), write_id) for i in range(rows)
            ]
            number += rows
        there = sorted(self.rows(self.ids()))
        gone = there[:deletes]
        if gone:
            self.directories[delete_delta_name(write_id, write_id, statements)] = [
                Event(row, write_id, deletes=True) for row in gone
            ]

    def has_half_committed_stream(self, mark: int) -> bool:
        named = [d for d in map(parse_directory, self.directories) if d is not None and not d.visibility_txn_id]
        return any(d.min_write_id <= mark < d.max_write_id for d in named if d.min_write_id)

    def end(self, write_id: int, *, commit: bool) -> None:
        self.open.discard(write_id)
        if not commit:
            self.aborted.add(write_id)


class Replica(Warehouse):
    """A warehouse that follows a source by plans."""

    def __init__(self, *, has_row_ids: bool = True) -> None:
        super().__init__(has_row_ids=has_row_ids)
        self.known = ValidWriteIdList(0, table="db.t")
        self.txn = 10_000
        self.left = frozenset[int]()

    def view(self) -> ReplicaView:
        txns = replace(EVERY_TXN, open=self.left)
        return ReplicaView(self.listing(), self.known, txns, self.left, is_new=not self.known.high_watermark)

    def apply(self, source: Source, found: Plan, sync_txn: int, ids: ValidWriteIdList) -> None:
        for name in found.leftovers:
            del self.directories[name]
        arrived: dict[str, list[Event]] = {}
        for copy in found.copies:
            names = {file.path.split("/")[0] for file in copy.files} if copy.of_several else {copy.source}
            arrived[copy.arrival.name(sync_txn)] = [e for name in sorted(names) for e in source.directories[name]]
        for carry in found.carries:
            events = [e for name in carry.sources for e in source.directories[name]]
            some = [e for e in events if carry.low <= e.by <= carry.high and ids.is_valid(e.by)]
            for deletes, arrival in zip((False, True), carry.arrivals(), strict=True):
                chosen = [e for e in some if e.deletes is deletes]
                if chosen:
                    arrived[arrival.name(sync_txn)] = chosen
        if found.empty_base is not None:
            arrived[found.empty_base.arrival().name(sync_txn)] = []
        assert not arrived.keys() & self.directories.keys(), "a directory would land on another one"
        self.directories |= arrived

    def sync(self, source: Source, *, crash: bool = False) -> Plan:
        """One sync: what readers of before see stays what it was, whoever reads afterwards sees the source's rows."""
        ids = source.ids()
        before, before_txns = self.known, self.view().txns
        uncleaned = frozenset(source.uncleaned.keys() - source.touched)
        view = SourceView(source.listing(), ids, EVERY_TXN, uncleaned, has_row_ids=source.has_row_ids)
        found = plan(view, self.view())
        self.txn += 1
        old = self.rows(before, before_txns)
        self.apply(source, found, self.txn, ids)
        unseen = replace(EVERY_TXN, open=before_txns.open | {self.txn})
        assert self.rows(before, unseen) == old, "a reader of before sees what is not committed here yet"
        try:
            between = self.rows(before)
            # What was emptied without a write id was emptied for every reader at the source, too. Of an insert-only
            # table a compacted delta shows its new rows.
            may_differ = self.left or found.empty_base or not self.has_row_ids
            assert between == old or may_differ, "a reader between the txns sees half a sync"
        except SnapshotTooOldError:
            pass  # told to begin a new transaction
        if crash:
            self.left |= {self.txn}
            return found
        forgotten = frozenset(w for w in self.known.aborted if w not in ids.aborted)
        self.known = replace(ids, aborted=ids.aborted | forgotten)
        self.left = frozenset()
        assert self.rows(self.known) == source.rows(ids)
        assert not leftovers(self.listing(), self.known, ())
        again = plan(view, self.view())
        assert again.is_empty, f"a second sync of the same state would move {again}"
        return found


def change(source: Source, operation: str, chance: random.Random) -> None:
    """A write, or the end of one."""
    if operation in ("end", "abort"):
        if source.open:
            source.end(chance.choice(sorted(source.open)), commit=operation == "end")
        return
    if operation == "overwrite" and source.open:
        return  # it locks writers out
    write_id = source.begin()
    if operation == "overwrite":
        source.directories[base_name(write_id)] = [Event((write_id, i), write_id) for i in range(2)]
    elif operation == "stream":
        second = source.begin()
        some = [w for w in (write_id, second) if chance.random() < 0.8]  # the others write no rows
        source.directories[delta_name(write_id, second)] = [Event((w, 0), w) for w in some]
        source.end(write_id, commit=chance.random() < 0.8)
        return
    else:
        deletes = chance.randint(1, 3) if operation == "update" else 0
        source.write(write_id, chance.randint(1, 3), deletes, chance.randint(1, 2))
    if operation != "begin":
        source.end(write_id, commit=True)


def maintain(source: Source, verb: str) -> None:
    """Compaction, Cleaner and purge at the source."""
    mark = source.ids().for_compactor().high_watermark
    if verb == "clean":
        if source.uncleaned:
            txn = min(source.uncleaned, key=lambda t: (source.uncleaned[t], t))
            source.touched |= source.uncleaned.keys()  # in the name of one, what another replaced may go as well
            source.clean(source.ids(), source.uncleaned.pop(txn))
    elif verb == "forget":
        # Purged once none of their directories is left; then readers no longer know that they were aborted.
        held = {e.by for events in source.directories.values() for e in events}
        source.aborted = {w for w in source.aborted if w in held or w > source.last - 1}
    elif source.has_half_committed_stream(mark):
        return  # Hive's own compaction would lose its rows
    elif source.compact(source.ids(), source.txn, major=verb == "major"):
        source.uncleaned[source.txn] = mark


def tidy(replica: Replica, verb: str) -> None:
    """Compaction and Cleaner of the replica, which know nothing of the source."""
    if replica.left:
        return
    if verb == "clean":
        replica.clean(replica.known, replica.known.for_compactor().high_watermark)
    else:
        replica.compact(replica.known, replica.txn, major=verb == "major")


def committed(source: Source, *rows: int) -> None:
    for number in rows:
        write_id = source.begin()
        source.write(write_id, number, 0)
        source.end(write_id, commit=True)
