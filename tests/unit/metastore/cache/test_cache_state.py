"""The cache's state machine against a world of txns, DDL, renames and gaps, step by step."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from airflow_hive_acid.metastore.cache.entries import Store, TableEntry, ValueEntry
from airflow_hive_acid.metastore.cache.events import OpenWrites, names_key
from airflow_hive_acid.metastore.cache.rules import Freshness, Verdict
from airflow_hive_acid.metastore.cache.state import CacheState, Looking, Round
from airflow_hive_acid.metastore.names.objects import TableName
from tests.unit.metastore.cache.cache_world import EXTERNAL, KEYS, World, begin_round, open_writes

Load = tuple[Looking, TableEntry]


class Cache:
    """A state and a world, with a follower that does a whole round at a time."""

    def __init__(self, *keys: TableName, max_bytes: int = 1_000_000) -> None:
        self.world = World()
        self.state = CacheState(Store(max_bytes))
        for key in keys:
            self.world.create(key, transactional=key != EXTERNAL)
        self.state.reset(self.world.end, open_writes(self.world))

    def follow(self) -> None:
        self.end(self.begin())

    def begin(self) -> Round:
        """A round that has read, and not taken effect yet."""
        found = begin_round(self.state, self.world)
        assert found is not None
        return deepcopy(found)

    def end(self, found: Round) -> None:
        self.state.apply(found)
        self.state.end_looking(found.looking)

    def offer(self, key: TableName, *, whole: bool = False) -> None:
        looking = self.state.begin_looking()
        loaded = self.world.load(key, whole=whole)
        assert loaded is not None
        self.state.offer(key, TableEntry.of(loaded), looking)
        self.state.end_looking(looking)

    def load(self, key: TableName, *, whole: bool = False) -> Load:
        """A reader that has read the database, and not given its answer yet."""
        looking, loaded = self.state.begin_looking(), deepcopy(self.world.load(key, whole=whole))
        assert loaded is not None
        return looking, TableEntry.of(loaded)

    def show(self, key: TableName, load: Load, *, offer: bool = False) -> None:
        """It gives its answer: the table, and all partitions if they were read."""
        looking, own = load
        if offer:
            self.state.offer(key, own, looking)
        known, shown = self.state.show(key, own, looking, own.partitions)
        if isinstance(known, TableEntry) and known.table != own.table:
            self.state.differs(key, known, shown, looking)
        self.state.end_looking(looking)

    def read(self, key: TableName, reader: Any = ...) -> tuple[Verdict, int | None]:
        table = self.world.tables[key]
        verdict, entry = self.state.look(key, table.id, self.world.reader_list(key) if reader is ... else reader)
        return verdict, int(entry.table.properties["v"]) if isinstance(entry, TableEntry) else None


T, U, X = KEYS


def test_an_entry_is_usable_only_once_the_commit_of_its_write_id_was_read() -> None:
    """
    t1  a Hive opens 1, takes write id 1, alters the table
    t2  the follower reads that event: the new content is there, and nobody may have it
    t3  the Hive commits
    t4  a reader whose list sees write id 1 goes to the database
    t5  the follower reads the commit: from here on it is answered from memory
    """
    cache = Cache(T)
    cache.offer(T)
    before = cache.world.reader_list(T)
    txn = cache.world.open()
    write_id = cache.world.allocate(T, txn)
    cache.world.alter(T, write_id)
    cache.follow()
    assert cache.read(T, before) == (Verdict.UNCONFIRMED, 1)
    assert cache.read(T) == (Verdict.UNCONFIRMED, 1)
    cache.world.commit(txn)
    assert cache.read(T) == (Verdict.NEWER, 1)
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 1)
    assert cache.read(T, before) == (Verdict.OLDER, 1)


def test_an_entry_does_not_wait_for_ever_for_a_commit_that_nobody_tells() -> None:
    cache = Cache(T)
    cache.offer(T)
    txn = cache.world.open()
    cache.world.alter(T, cache.world.allocate(T, txn))
    cache.follow()
    cache.world.commit(txn, told=False)
    assert cache.read(T)[0] is Verdict.NEWER
    cache.offer(T)  # as the reader does who finds that the log was followed to where it has read
    assert cache.read(T) == (Verdict.HIT, 1)


def test_a_writer_of_rows_keeps_nobody_away_until_it_commits() -> None:
    cache = Cache(T)
    cache.offer(T)
    txn = cache.world.open()
    cache.world.allocate(T, txn)
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 0)
    own = cache.world.reader_list(T)
    assert own is not None
    assert cache.read(T, own.with_committed(1))[0] is Verdict.NEWER
    cache.world.commit(txn)
    assert cache.read(T)[0] is Verdict.NEWER
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 0)


def test_an_aborted_write_changes_nothing_for_readers() -> None:
    cache = Cache(T)
    cache.offer(T)
    before = cache.world.reader_list(T)
    txn = cache.world.open()
    cache.world.allocate(T, txn)
    cache.world.abort(txn)
    assert cache.read(T) == (Verdict.HIT, 0)
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 0)
    assert cache.read(T, before) == (Verdict.HIT, 0)


def test_a_commit_that_names_its_writes_touches_a_table_whose_write_id_was_given_before_anybody_listened() -> None:
    cache = Cache(T)
    txn = cache.world.open()
    cache.world.allocate(T, txn)
    cache.state.reset(cache.world.end, OpenWrites())
    cache.offer(T)
    cache.world.commit(txn, [("d", 1)])
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 0)


def test_open_writes_of_before_are_known_to_a_cache_that_begins() -> None:
    cache = Cache(T)
    txn = cache.world.open()
    cache.world.allocate(T, txn)
    cache.state.reset(cache.world.end, open_writes(cache.world))
    cache.offer(T)
    cache.world.commit(txn)
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 0)


def test_a_load_that_overlaps_a_round_is_read_again() -> None:
    """
    t1  a reader loads the table
    t2            it is altered
    t3                     the follower reads and applies that
    t4  the reader offers what it loaded at t1
    """
    cache = Cache(T)
    looking = cache.state.begin_looking()
    loaded = cache.world.load(T)
    assert loaded is not None
    txn = cache.world.open()
    cache.world.alter(T, cache.world.allocate(T, txn))
    cache.world.commit(txn)
    cache.follow()
    assert cache.state.offer(T, TableEntry.of(loaded), looking)
    cache.state.end_looking(looking)
    assert cache.read(T)[0] is Verdict.NEWER
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 1)


def test_a_load_of_an_external_table_that_overlaps_a_round_is_not_shown() -> None:
    """The same without write ids: nothing but the events of the meantime says that it is old."""
    cache = Cache(X)
    looking = cache.state.begin_looking()
    loaded = deepcopy(cache.world.load(X))
    assert loaded is not None
    cache.world.alter(X)
    cache.follow()
    cache.state.offer(X, TableEntry.of(loaded), looking)
    cache.state.end_looking(looking)
    assert cache.read(X)[0] is Verdict.UNCONFIRMED
    cache.follow()
    assert cache.read(X) == (Verdict.HIT, 1)


def test_a_load_of_before_a_restart_is_not_kept() -> None:
    cache = Cache(T)
    looking = cache.state.begin_looking()
    loaded = cache.world.load(T)
    assert loaded is not None
    cache.state.reset(cache.world.end, OpenWrites())
    assert not cache.state.offer(T, TableEntry.of(loaded), looking)


def test_what_waits_for_the_log_is_not_replaced_by_what_waits_longer() -> None:
    cache = Cache(T, U)
    cache.world.alter(U)
    cache.offer(T)
    first = cache.state.store.table(T)
    cache.world.alter(U)
    cache.offer(T)
    assert cache.state.store.table(T) is first
    assert cache.read(T)[0] is Verdict.UNCONFIRMED
    cache.follow()
    assert cache.read(T)[0] is Verdict.HIT


def test_a_table_dropped_and_created_again_is_another_one() -> None:
    cache = Cache(T)
    cache.offer(T)
    old = cache.world.tables[T].id
    cache.world.drop(T)
    cache.world.create(T, transactional=True)
    assert cache.read(T)[0] is Verdict.REPLACED
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 0)
    assert cache.state.look(T, old, cache.world.reader_list(T))[0] is Verdict.REPLACED


def test_a_renamed_table_is_found_by_its_new_name_only() -> None:
    cache = Cache(T)
    cache.offer(T)
    cache.world.rename(T, U)
    cache.follow()
    assert cache.read(U) == (Verdict.HIT, 1)
    assert T not in cache.state.store


def test_partitions_are_read_again_one_by_one_and_not_all() -> None:
    cache = Cache(T)
    for name in ("p=1", "p=2", "p=3"):
        cache.world.add_partition(T, name)
    cache.follow()
    cache.offer(T, whole=True)
    txn = cache.world.open()
    write_id = cache.world.allocate(T, txn)
    cache.world.add_partition(T, "p=4", write_id)
    cache.world.drop_partition(T, "p=1", write_id)
    cache.world.commit(txn)
    found = begin_round(cache.state, cache.world)
    assert found is not None
    loaded = found.loads[T]
    assert loaded is not None
    assert set(loaded.partitions) == {"p=1", "p=4"}
    cache.state.apply(found)
    entry = cache.state.store.table(T)
    assert entry is not None
    assert entry.partitions is not None
    assert entry.partitions.names() == ["p=2", "p=3", "p=4"]
    assert cache.read(T)[0] is Verdict.HIT


def test_partitions_of_a_write_that_the_log_does_not_tell_are_not_missed_behind_one_that_it_tells() -> None:
    """
    t1  all partitions are in memory
    t2            a Hive without a listener writes into a new partition
    t3                     a write of ours is told: the table is read again, with its write ids
    t4  a reader's list sees both writes; memory must not answer with the partitions of t1
    """
    cache = Cache(T)
    cache.world.add_partition(T, "p=1")
    cache.follow()
    cache.offer(T, whole=True)
    cache.world.write_untold(T, "p=2")
    txn = cache.world.open()
    cache.world.allocate(T, txn)
    cache.world.commit(txn)
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 2)
    entry = cache.state.store.table(T)
    assert entry is not None
    assert entry.partitions is None


def test_partitions_stay_in_memory_while_the_log_tells_every_write_whenever_it_begins_and_ends() -> None:
    cache = Cache(T)
    cache.world.add_partition(T, "p=1")
    early, late = cache.world.open(), cache.world.open()
    cache.world.allocate(T, early)
    cache.follow()
    cache.offer(T, whole=True)
    cache.world.allocate(T, late)
    cache.follow()
    for end in (lambda: cache.world.commit(early), lambda: cache.world.abort(late)):
        end()
        cache.follow()
        entry = cache.state.store.table(T)
        assert entry is not None
        assert entry.partitions is not None
        assert cache.read(T)[0] is Verdict.HIT


def test_a_change_behind_the_log_is_found_by_comparing_and_read_again() -> None:
    """Somebody changed the catalog without an event; a reader that went to the database for another reason saw it."""
    cache = Cache(X)
    cache.offer(X)
    cache.world.tables[X].version = 7
    cache.show(X, cache.load(X))
    assert cache.read(X)[0] is Verdict.UNCONFIRMED
    cache.follow()
    assert cache.read(X) == (Verdict.HIT, 7)


def test_nothing_older_is_shown_after_the_database_has_shown_more() -> None:
    """
    t1  the external table is in memory
    t2            it is altered, the follower has not seen that yet
    t3  somebody reads the database (for a reason of its own) and sees the new one
    t4  a read of the entry would go backwards: the database answers until the log was followed there
    """
    cache = Cache(X)
    cache.offer(X)
    cache.world.alter(X)
    assert cache.read(X) == (Verdict.HIT, 0)
    cache.show(X, cache.load(X))
    assert cache.read(X)[0] is Verdict.UNCONFIRMED
    cache.follow()
    assert cache.read(X) == (Verdict.HIT, 1)


def test_a_round_that_read_before_a_reader_was_shown_something_later_shows_nothing_older() -> None:
    """
    t1  the follower reads an event of the table, and the table
    t2            a Hive without a listener changes it: the log's end stays where it is
    t3                     a reader whose list the entry does not know is shown that by the database
    t4  the round takes effect: what it has read is older, and has the same place in the log
    """
    cache = Cache(X)
    cache.offer(X)
    cache.world.alter(X)
    found = cache.begin()
    cache.world.alter_untold(X)
    cache.show(X, cache.load(X))
    assert cache.read(X)[0] is Verdict.UNCONFIRMED
    cache.end(found)
    assert cache.read(X)[0] is Verdict.UNCONFIRMED
    cache.follow()
    assert cache.read(X) == (Verdict.HIT, 2)


def test_an_entry_in_doubt_that_was_read_before_something_later_was_shown_stays_in_doubt() -> None:
    cache = Cache(X)
    cache.offer(X)
    cache.world.alter_untold(X)
    cache.show(X, cache.load(X))
    found = cache.begin()
    cache.world.alter_untold(X)
    cache.show(X, cache.load(X))
    cache.end(found)
    assert cache.read(X)[0] is Verdict.UNCONFIRMED
    cache.follow()
    assert cache.read(X) == (Verdict.HIT, 2)


def test_a_round_that_read_what_readers_were_shown_meanwhile_is_taken() -> None:
    cache = Cache(X)
    cache.offer(X)
    cache.world.alter(X)
    found = cache.begin()
    cache.show(X, cache.load(X))
    cache.end(found)
    assert cache.read(X) == (Verdict.HIT, 1)


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "only shown"])
def test_what_was_loaded_before_something_later_was_shown_is_not_kept(*, kept: bool) -> None:
    """
    t1  a reader loads the table
    t2            a Hive without a listener changes it
    t3                     another reader loads it, and is shown it
    t4  the first one offers what it loaded
    """
    cache = Cache(X)
    early = cache.load(X)
    cache.world.alter_untold(X)
    cache.show(X, cache.load(X), offer=kept)
    cache.show(X, early, offer=True)
    assert cache.read(X)[0] in (Verdict.MISSING, Verdict.UNCONFIRMED)
    cache.follow()
    cache.offer(X)
    assert cache.read(X) == (Verdict.HIT, 1)


def test_what_was_loaded_before_a_round_read_something_later_is_not_kept() -> None:
    cache = Cache(X)
    cache.offer(X)
    cache.world.alter_untold(X)
    looking, early = cache.load(X)
    cache.show(X, cache.load(X))
    cache.world.alter_untold(X)
    cache.follow()
    assert cache.read(X) == (Verdict.HIT, 2)
    assert not cache.state.offer(X, early, looking)
    assert cache.read(X) == (Verdict.HIT, 2)


def test_partitions_loaded_before_others_were_shown_are_not_kept() -> None:
    """A table that is what it was says nothing of its partitions."""
    cache = Cache(X)
    looking, early = cache.load(X, whole=True)
    cache.world.tables[X].partitions["p=1"] = 0  # by a Hive without a listener
    other, late = cache.load(X, whole=True)
    assert late.table == early.table
    assert cache.state.offer(X, late, other)
    cache.state.end_looking(other)
    assert not cache.state.offer(X, early, looking)
    entry = cache.state.store.table(X)
    assert entry is not None
    assert entry.partitions is not None
    assert entry.partitions.names() == ["p=1"]


@pytest.mark.parametrize("told", [True, False])
def test_what_the_log_tells_nothing_of_is_read_again_once_it_was_followed_as_far_as_it_was_shown(*, told: bool) -> None:
    """
    t1  the external table is in memory
    t2            it is altered; another table is, and the log goes on
    t3  a reader is shown the new one by the database, at a place that the log was not followed to
    t4  the log was followed there, and has told of the change, or has not
    """
    cache = Cache(X, T)
    cache.world.add_partition(X, "p=1")
    cache.follow()
    cache.offer(X, whole=True)
    (cache.world.alter if told else cache.world.alter_untold)(X)
    cache.world.alter(T)
    cache.show(X, cache.load(X))
    assert cache.read(X)[0] is Verdict.UNCONFIRMED
    cache.follow()
    if not told:
        assert cache.read(X)[0] is Verdict.UNCONFIRMED
        cache.follow()
    assert cache.read(X) == (Verdict.HIT, 2)


def test_a_large_tables_partitions_stay_where_the_log_tells_what_was_shown() -> None:
    cache = Cache(X)
    cache.world.add_partition(X, "p=1")
    cache.follow()
    cache.offer(X, whole=True)
    cache.world.add_partition(X, "p=2")
    cache.show(X, cache.load(X, whole=True))
    found = cache.begin()
    cache.show(X, cache.load(X))
    cache.end(found)
    assert cache.read(X) == (Verdict.HIT, 2)
    entry = cache.state.store.table(X)
    assert entry is not None
    assert entry.partitions is not None
    assert entry.partitions.names() == ["p=1", "p=2"]


def test_names_loaded_before_others_were_shown_are_not_kept() -> None:
    cache, key = Cache(), names_key("d")
    looking, other = cache.state.begin_looking(), cache.state.begin_looking()
    early, late = (ValueEntry(names, Freshness(cache.world.end)) for names in (("a",), ("a", "b")))
    assert cache.state.show(key, late, other)[0] is None
    cache.state.end_looking(other)
    assert not cache.state.offer(key, early, looking)
    assert cache.state.look(key)[0] is Verdict.MISSING


def test_names_that_the_log_tells_nothing_of_are_read_again() -> None:
    cache, key = Cache(T), names_key("d")
    old = ValueEntry(("t",), Freshness(cache.world.end))
    assert cache.state.offer(key, old, cache.state.begin_looking())
    cache.world.alter(T)
    looking = cache.state.begin_looking()
    known, shown = cache.state.show(key, ValueEntry(("t", "u"), Freshness(cache.world.end)), looking)
    assert known is old
    cache.state.differs(key, old, shown, looking)
    assert cache.state.look(key)[0] is Verdict.UNCONFIRMED
    cache.follow()
    assert cache.state.look(key)[0] is Verdict.MISSING


def test_of_two_answers_that_nobody_can_order_neither_is_taken_for_the_later_one() -> None:
    """
    t1  two readers and a third begin to look
    t2  each finds another table, at the same place of the log
    t3  two of them have given their answers; the third one's may be older than either
    """
    cache = Cache(X)
    first = cache.load(X)
    cache.world.alter_untold(X)
    second, third = cache.load(X), cache.load(X)
    cache.show(X, second)
    cache.show(X, first)
    assert not cache.state.offer(X, third[1], third[0])
    fourth = cache.load(X)
    cache.show(X, fourth)
    assert cache.state.offer(X, third[1], third[0])


def test_what_readers_were_shown_is_forgotten_when_nobody_is_looking_that_began_before() -> None:
    cache = Cache(X)
    long, _ = cache.load(X)
    for _ in range(3):
        cache.world.alter(X)
        cache.show(X, cache.load(X))
        cache.follow()
    assert cache.state._shown
    assert len(cache.state._recent) == 3
    later, _ = cache.load(X)
    cache.state.end_looking(long)
    cache.world.alter(X)
    cache.follow()
    assert len(cache.state._recent) == 1
    cache.state.end_looking(later)
    assert not cache.state._shown
    assert not cache.state._recent


def test_memory_is_bounded_and_the_least_recently_read_goes_first() -> None:
    keys = [TableName("d", f"t{i}") for i in range(20)]
    cache = Cache(*keys, max_bytes=12_000)
    for key in keys:
        cache.offer(key)
        cache.read(keys[0])
    assert cache.state.store.currsize <= 12_000
    assert keys[0] in cache.state.store
    assert keys[1] not in cache.state.store
    assert cache.state.store.evictions > 0


def test_partitions_for_which_there_is_no_room_are_left_in_the_database() -> None:
    cache = Cache(T, max_bytes=12_000)
    for number in range(100):
        cache.world.add_partition(T, f"p={number}")
    cache.follow()
    cache.offer(T, whole=True)
    entry = cache.state.store.table(T)
    assert entry is not None
    assert entry.partitions is None
    assert cache.read(T)[0] is Verdict.HIT


@pytest.mark.parametrize("when", ["before the round", "before it is applied"])
def test_a_follower_that_dies_has_changed_nothing(when: str) -> None:
    cache = Cache(T)
    cache.offer(T)
    txn = cache.world.open()
    cache.world.alter(T, cache.world.allocate(T, txn))
    cache.world.commit(txn)
    position = cache.state.position
    if when == "before it is applied":
        begin_round(cache.state, cache.world)
    assert cache.state.position == position
    assert cache.read(T)[0] is Verdict.NEWER
    cache.follow()
    assert cache.read(T) == (Verdict.HIT, 1)
