"""The planner of ACID syncs against Hive's directory rules: whatever both sides compact, the replica has the rows.

A world of directories in memory: each holds events of rows, readers choose directories by ``acid_state`` alone. The
rows a reader finds are compared, and that none is found twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from airflow_hive_acid.errors import CorruptTableError, ReplicaDivergedError, SnapshotTooOldError
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.names import base_name, delete_delta_name, delta_name, parse_directory
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.replication.acid.plan import Plan, ReplicaView, SourceView, leftovers, plan
from tests.examples import examples

if TYPE_CHECKING:
    import random

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
    """One partition: directories with their events."""

    directories: dict[str, list[Event]] = field(default_factory=dict)

    def listing(self) -> list[FileEntry]:
        found = []
        for name, events in self.directories.items():
            found.append(FileEntry(f"{name}/_orc_acid_version", 1))
            if events:
                found.append(FileEntry(f"{name}/bucket_00000", 100 * len(events)))
        return found

    def rows(self, ids: ValidWriteIdList, txns: ValidTxnList = EVERY_TXN) -> set[tuple[int, int]]:
        state = acid_state(self.listing(), ids, txns)
        events = [e for d in (*state.inserts, *state.deletes) for e in self.directories[d.name] if ids.is_valid(e.by)]
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

    def __init__(self) -> None:
        super().__init__()
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

    def __init__(self) -> None:
        super().__init__()
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
            arrived[copy.arrival.name(sync_txn)] = list(source.directories[copy.source])
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
        view = SourceView(source.listing(), ids, EVERY_TXN, frozenset(source.uncleaned.keys() - source.touched))
        found = plan(view, self.view())
        self.txn += 1
        old = self.rows(before, before_txns)
        self.apply(source, found, self.txn, ids)
        unseen = replace(EVERY_TXN, open=before_txns.open | {self.txn})
        assert self.rows(before, unseen) == old, "a reader of before sees what is not committed here yet"
        try:
            between = self.rows(before)
            # What was emptied without a write id was emptied for every reader at the source, too.
            assert between == old or self.left or found.empty_base, "a reader between the txns sees half a sync"
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


OPERATIONS = st.lists(
    st.sampled_from([
        "insert", "insert", "update", "begin", "end", "abort", "overwrite", "stream", "source minor", "source major",
        "source clean", "source forget", "replica minor", "replica major", "replica clean", "sync", "sync", "crash",
    ]),
    min_size=4,
    max_size=40,
)  # fmt: skip


@settings(max_examples=examples(250), deadline=None)
@given(OPERATIONS, st.randoms(use_true_random=False))
@pytest.mark.rule("R4")
@pytest.mark.rule("R18")
def test_the_replica_has_the_rows_of_the_snapshot_whatever_both_sides_compact(operations, chance) -> None:
    """Also with open and aborted write ids, statements, overwrites, streaming deltas and syncs that were killed."""
    source, replica = Source(), Replica()
    for operation in [*operations, "sync"]:
        source.txn += 1
        replica.txn += 1
        note(f"{operation}: {source.names()} {source.ids()} | {replica.names()}")
        who, _, verb = operation.partition(" ")
        if who in ("sync", "crash"):
            replica.sync(source, crash=who == "crash")
        elif who == "replica":
            tidy(replica, verb)
        elif who == "source":
            maintain(source, verb)
        else:
            change(source, operation, chance)


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
        source.directories[delta_name(write_id, second)] = [Event((w, 0), w) for w in (write_id, second)]
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


def test_single_deltas_that_compaction_replaced_travel_while_they_are_there() -> None:
    """The next sync after a major compaction moves the new delta, not the base."""
    source, replica = Source(), Replica()
    committed(source, 100)
    replica.sync(source)
    committed(source, 1)
    source.compact(source.ids(), 700, major=True)
    source.uncleaned[700] = 2
    found = replica.sync(source)
    assert [c.source for c in found.copies] == ["delta_0000002_0000002_0000"]
    assert not found.needs_spark


def test_the_base_travels_once_the_single_deltas_are_gone() -> None:
    source, replica = Source(), Replica()
    committed(source, 100)
    replica.sync(source)
    committed(source, 1)
    source.compact(source.ids(), 700, major=True)
    source.clean(source.ids(), 2)
    found = replica.sync(source)
    assert [c.arrival.name(9) for c in found.copies] == ["base_0000002_v0000009"]
    assert found.reasons == ("base_0000002_v0000700 travels whole: a Cleaner has been at what it replaced",)


def test_what_may_have_been_cleaned_in_part_is_not_trusted() -> None:
    """Without proof that nothing was removed, single deltas beside a base may be a remainder."""
    source, replica = Source(), Replica()
    committed(source, 2)
    replica.sync(source)
    committed(source, 1, 1)
    source.compact(source.ids(), 700, major=True)
    del source.directories["delta_0000002_0000002_0000"]
    found = replica.sync(source)
    assert [c.source for c in found.copies] == ["base_0000003_v0000700"]


def test_a_compacted_delta_over_old_and_new_ids_gives_its_new_rows_alone() -> None:
    source, replica = Source(), Replica()
    committed(source, 2, 2)
    replica.sync(source)
    committed(source, 2, 2)
    source.compact(source.ids(), 700, major=False)
    source.clean(source.ids(), 4)
    found = replica.sync(source)
    assert [(c.low, c.high, c.sources) for c in found.carries] == [(3, 4, ("delta_0000001_0000004_v0000700",))]
    assert not found.copies


def test_a_write_id_that_was_open_at_the_last_sync_travels_when_it_commits() -> None:
    source, replica = Source(), Replica()
    late = source.begin()
    source.write(late, 1, 0)
    committed(source, 1)
    assert [c.source for c in replica.sync(source).copies] == ["delta_0000002_0000002_0000"]
    source.end(late, commit=True)
    assert [c.source for c in replica.sync(source).copies] == ["delta_0000001_0000001_0000"]


def test_a_base_that_would_hide_half_a_delta_of_the_replica_is_refused() -> None:
    """No compaction of either side leaves that behind; rows would come twice."""
    source = SourceView([FileEntry("base_0000002_v0000009/bucket_00000", 5)], ValidWriteIdList(3), EVERY_TXN)
    there = [FileEntry("delta_0000001_0000003_v0000008/bucket_00000", 5)]
    replica = ReplicaView(there, ValidWriteIdList(3), EVERY_TXN)
    known = replace(replica, known=ValidWriteIdList(3, open=frozenset({1})), listing=there)
    assert plan(source, known).leftovers == ("delta_0000001_0000003_v0000008",)
    across = ReplicaView([FileEntry("delta_0000002_0000005/bucket_00000", 5)], ValidWriteIdList(5), EVERY_TXN)
    later = SourceView([FileEntry("base_0000003/bucket_00000", 5)], ValidWriteIdList(9), EVERY_TXN)
    assert plan(replace(later, write_ids=ValidWriteIdList(5)), across).is_empty
    with pytest.raises(CorruptTableError, match="delta_0000002_0000005 of the replica"):
        plan(SourceView([FileEntry("base_0000003_v0000007/bucket_00000", 5)], ValidWriteIdList(9), EVERY_TXN),
             replace(across, known=ValidWriteIdList(5, open=frozenset({1}))))  # fmt: skip


def test_a_table_that_was_emptied_without_a_write_id_gets_an_empty_base() -> None:
    """DROP PARTITION and ADD PARTITION, or a TRUNCATE of a Hive that removes files."""
    source, replica = Source(), Replica()
    committed(source, 2, 2)
    replica.sync(source)
    source.directories.clear()
    committed(source, 1)
    found = replica.sync(source)
    assert found.empty_base is not None
    assert found.empty_base.write_id == 2
    assert replica.rows(replica.known) == {(3, 0)}


def test_rows_that_vanished_in_part_are_no_guess() -> None:
    source, replica = Source(), Replica()
    committed(source, 2, 2)
    replica.sync(source)
    del source.directories["delta_0000001_0000001_0000"]
    with pytest.raises(ReplicaDivergedError, match=r"delta_0000001_0000001_0000.*bootstrap"):
        replica.sync(source)


def test_a_truncated_table_of_hive_travels_as_its_empty_base() -> None:
    source, replica = Source(), Replica()
    committed(source, 2)
    replica.sync(source)
    write_id = source.begin()
    source.directories[base_name(write_id)] = []
    source.end(write_id, commit=True)
    assert [c.source for c in replica.sync(source).copies] == ["base_0000002"]
    assert replica.rows(replica.known) == set()


def test_files_of_a_converted_table_travel_before_anybody_reads_there_and_are_missed_later() -> None:
    listing = [FileEntry("000000_0", 10), FileEntry("delta_0000001_0000001_0000/bucket_00000", 5)]
    ids = ValidWriteIdList(1, table="db.t")
    source = SourceView(listing, ids, EVERY_TXN)
    new = ReplicaView([], ValidWriteIdList(0), EVERY_TXN, is_new=True)
    found = plan(source, new)
    assert found.originals == (FileEntry("000000_0", 10),)
    there = ReplicaView(listing, ids, EVERY_TXN)
    assert plan(source, there).is_empty
    lacking = replace(there, listing=listing[1:])
    with pytest.raises(ReplicaDivergedError, match="000000_0"):
        plan(source, lacking)


def test_names_say_what_a_parser_of_names_reads() -> None:
    """Every arrival is a name that Hive reads, with the sync's txn where compaction was."""
    source, replica = Source(), Replica()
    committed(source, 1, 1)
    source.compact(source.ids(), 700, major=False)
    source.clean(source.ids(), 2)
    found = replica.sync(source)
    names = [c.arrival.name(12) for c in found.copies]
    assert names == ["delta_0000001_0000002_v0000012"]
    assert all(parse_directory(n) is not None for n in names)
