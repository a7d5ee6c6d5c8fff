"""The cache's state machine against a world of txns, DDL, renames and gaps, in any interleaving of its actors.

What must hold of every read, whoever does what in between: an answer from memory contains every change of a write id
that the reader's list sees, and none of one that it does not see; successive reads of a table never go backwards,
whatever lists they come with, answers of the database included.
"""

from __future__ import annotations

import random
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from airflow_hive_acid.metastore.cache_entries import Store, TableEntry
from airflow_hive_acid.metastore.cache_events import OpenWrites, fold
from airflow_hive_acid.metastore.cache_rules import Verdict, find_gap
from airflow_hive_acid.metastore.cache_state import CacheState, Looking, Round
from airflow_hive_acid.metastore.objects import TableName

from .cache_world import World

if TYPE_CHECKING:
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.cache_entries import Loaded

KEYS = [TableName("d", name) for name in ("t", "u", "x")]
TRANSACTIONAL, EXTERNAL = KEYS[:2], KEYS[2]


def begin_round(state: CacheState, world: World) -> Round | None:
    """What the follower reads in one database snapshot; None when it has to begin anew."""
    assert state.position is not None
    events = world.after(state.position)
    if find_gap(state.position, world.end, [event.event_id for event in events], 1000):
        return None
    writes = state.writes.copy()
    changes = fold(events, writes)
    loads = {key: world.load(key, names) for key, names in state.plan(changes).items()}
    return Round(state.position, world.end, changes, loads, writes)


def open_writes(world: World) -> OpenWrites:
    return OpenWrites(
        (txn, key) for key, table in world.tables.items() for txn in table.writes.values() if world.txns.get(txn) == "o"
    )


class Actors:
    """Writers, a follower whose round takes time, loaders that take time, and readers with lists of any age."""

    def __init__(self) -> None:
        self.world = World()
        self.state = CacheState(Store(1_000_000))
        self.writing: list[tuple[int, TableName, int, int]] = []
        self.lists: list[tuple[TableName, int, ValidWriteIdList | None]] = []
        self.loading: list[tuple[TableName, Loaded, Looking]] = []
        self.round: Round | None = None
        self.shown: dict[int, int] = {}
        for key in KEYS:
            self.world.create(key, transactional=key != EXTERNAL)
        self.state.reset(self.world.end, open_writes(self.world))
        self.actions = [
            action
            for weight, action in (
                (4, self.our_ddl), (2, self.external), (3, self.begin_write), (4, self.foreign_ddl),
                (4, self.end_write), (1, self.drop_and_create), (1, self.rename), (1, self.forget_aborted),
                (1, self.purge),
                (5, self.whole_round), (2, self.begin_round), (3, self.end_round), (3, self.begin_load),
                (3, self.end_load), (3, self.take_list), (8, self.read_now), (4, self.read_held),
            )
            for _ in range(weight)
        ]  # fmt: skip

    def step(self, choice: int, a: int, b: int) -> None:
        """One actor does one thing; then nothing that the memory would answer may be wrong."""
        self.actions[choice % len(self.actions)](a, b)
        for key in KEYS:
            if key in self.world.tables:
                self.check_memory(key, self.world.tables[key].id, self.world.reader_list(key))
        for key, table_id, reader in self.lists:
            self.check_memory(key, table_id, reader)

    # --- writers --------------------------------------------------------------------------------------------------

    def begin_write(self, a: int, _: int) -> None:
        key = TRANSACTIONAL[a % 2]
        if key in self.world.tables:
            txn = self.world.open()
            self.writing.append((txn, key, self.world.tables[key].id, self.world.allocate(key, txn)))

    def foreign_ddl(self, a: int, b: int) -> None:
        """A real Hive changes the catalog before its txn commits."""
        if not self.writing:
            return
        _, key, table_id, write_id = self.writing[a % len(self.writing)]
        table, name = self.world.tables.get(key), f"p={b % 2}"
        if table is None or table.id != table_id:
            return
        if b % 3 == 0:
            self.world.alter(key, write_id)
        elif b % 3 == 1 or name not in table.partitions:
            self.world.add_partition(key, name, write_id)
        else:
            self.world.drop_partition(key, name, write_id)

    def end_write(self, a: int, b: int) -> None:
        if not self.writing:
            return
        txn, key, _, write_id = self.writing.pop(a % len(self.writing))
        if b % 4 == 0:
            self.world.abort(txn)
        else:
            # As a Hive of 4.2 does, as an older one does, and as one without a listener does.
            self.world.commit(txn, [(key.database, write_id)] if b % 4 == 1 else None, told=b % 4 != 3)

    def our_ddl(self, a: int, b: int) -> None:
        key = TRANSACTIONAL[a % 2]
        if key in self.world.tables:
            txn = self.world.open()
            write_id = self.world.allocate(key, txn)
            if b % 2:
                self.world.alter(key, write_id)
            else:
                self.world.add_partition(key, f"p={b % 3}", write_id)
            self.world.commit(txn, [(key.database, write_id)])

    def external(self, a: int, b: int) -> None:
        if a % 2:
            self.world.add_partition(EXTERNAL, f"p={b % 2}")
        else:
            self.world.alter(EXTERNAL)

    def drop_and_create(self, a: int, _: int) -> None:
        key = TRANSACTIONAL[a % 2]
        if key in self.world.tables:
            self.world.drop(key)
        self.world.create(key, transactional=True)

    def rename(self, a: int, _: int) -> None:
        old, new = TRANSACTIONAL[a % 2], TRANSACTIONAL[1 - a % 2]
        if old in self.world.tables:
            if new in self.world.tables:
                self.world.drop(new)
            self.world.rename(old, new)
            self.writing = [(t, new if k == old else k, i, w) for t, k, i, w in self.writing]

    def forget_aborted(self, *_: int) -> None:
        for txn in [txn for txn, state in self.world.txns.items() if state == "a"]:
            self.world.forget_aborted(txn)

    def purge(self, a: int, _: int) -> None:
        if a % 3 == 0:
            self.world.purge()

    # --- the follower and loaders ---------------------------------------------------------------------------------

    def begin_round(self, *_: int) -> None:
        if self.round is None:
            self.round = begin_round(self.state, self.world)
            if self.round is None:
                self.state.reset(self.world.end, open_writes(self.world))
            else:
                self.round = deepcopy(self.round)

    def end_round(self, a: int, _: int) -> None:
        if self.round is not None and a % 5:  # else it dies half-way
            self.state.apply(self.round)
        self.round = None

    def whole_round(self, *_: int) -> None:
        self.begin_round()
        self.end_round(1, 0)

    def begin_load(self, a: int, b: int) -> None:
        key = KEYS[a % 3]
        if key in self.world.tables:
            looking, loaded = self.state.begin_looking(), self.world.load(key, whole=bool(b % 2))
            assert loaded is not None
            self.loading.append((key, deepcopy(loaded), looking))

    def end_load(self, a: int, _: int) -> None:
        if self.loading:
            key, loaded, looking = self.loading.pop(a % len(self.loading))
            self.state.offer(key, TableEntry.of(loaded), looking)
            self.state.end_looking(looking)

    # --- readers --------------------------------------------------------------------------------------------------

    def take_list(self, a: int, _: int) -> None:
        key = KEYS[a % 3]
        if key in self.world.tables:
            self.lists = [*self.lists[-5:], (key, self.world.tables[key].id, self.world.reader_list(key))]

    def read_held(self, a: int, b: int) -> None:
        if self.lists:
            self.read(*self.lists[a % len(self.lists)], b)

    def read_now(self, a: int, b: int) -> None:
        key = KEYS[a % 3]
        if key in self.world.tables:
            self.read(key, self.world.tables[key].id, self.world.reader_list(key), b)

    def read(self, key: TableName, table_id: int, reader: ValidWriteIdList | None, b: int) -> None:
        """As CachedCatalog does: from memory, or of the database, with what that means for the memory."""
        verdict, entry = self.state.look(key, table_id, reader)
        if verdict is Verdict.HIT:
            assert isinstance(entry, TableEntry)
            self.remember(table_id, int(entry.table.properties["v"]))
            return
        looking, loaded = self.state.begin_looking(), self.world.load(key, whole=bool(b % 2))
        if loaded is not None and loaded.table.id == table_id:
            own, position = TableEntry.of(loaded), self.state.position or 0
            if verdict is Verdict.MISSING or (verdict is Verdict.NEWER and loaded.as_of <= position):
                self.state.offer(key, own, looking)
            known = self.state.store.table(key)
            if known is None or known is own or known.table.id != table_id:
                self.state.seen(loaded.table.id, loaded.as_of)
            elif known is not own and known.table != loaded.table:
                self.state.differs(key, known, loaded.as_of)
            self.remember(table_id, int(loaded.table.properties["v"]))
        self.state.end_looking(looking)

    # --- what must hold -------------------------------------------------------------------------------------------

    def check_memory(self, key: TableName, table_id: int, reader: ValidWriteIdList | None) -> None:
        verdict, entry = self.state.look(key, table_id, reader)
        if verdict is not Verdict.HIT:
            return
        assert isinstance(entry, TableEntry)
        assert self.state.position is not None
        table = entry.table
        assert table.id == table_id
        assert entry.freshness.as_of <= self.state.position <= self.world.end
        assert int(table.properties["v"]) >= self.shown.get(table_id, 0), "it would go backwards"
        there = next((t for t in self.world.tables.values() if t.id == table_id), None)
        if there is None:
            return  # dropped: a reader with a list of before may have it as it was
        if reader is not None:
            required = max((v for w, v in there.changes.items() if reader.is_valid(w)), default=0)
            assert int(table.properties["v"]) >= required, "older than the reader's list"
            if table.write_id:
                ended = self.world.txns.get(there.writes[table.write_id], "a") == "a"  # a DDL that failed stays
                assert ended or reader.is_valid(table.write_id), "it has what the reader does not see"
        if entry.partitions is not None and table.properties["v"] == str(there.version):
            assert {p.name: p.write_id for p in entry.partitions.select(table, None)} == there.partitions

    def remember(self, table_id: int, version: int) -> None:
        assert version >= self.shown.get(table_id, 0), "a read went backwards"
        self.shown[table_id] = version


STEP = st.tuples(st.integers(0, 999), st.integers(0, 59), st.integers(0, 59))


@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, min_size=20, max_size=120))
def test_no_interleaving_of_writers_followers_loaders_and_readers_breaks_a_guarantee(
    steps: list[tuple[int, int, int]],
) -> None:
    """
    Never older than the reader's list, never what it does not see, never backwards, never another table id.
    """
    actors = Actors()
    for step in steps:
        actors.step(*step)


@pytest.mark.parametrize("seed", range(40))
def test_long_histories_keep_the_guarantees(seed: int) -> None:
    dice, actors = random.Random(seed), Actors()
    for _ in range(400):
        actors.step(dice.randrange(1000), dice.randrange(60), dice.randrange(60))


# --- the same world, step by step -------------------------------------------------------------------------------------


class Cache:
    """A state and a world, with a follower that does a whole round at a time."""

    def __init__(self, *keys: TableName, max_bytes: int = 1_000_000) -> None:
        self.world = World()
        self.state = CacheState(Store(max_bytes))
        for key in keys:
            self.world.create(key, transactional=key != EXTERNAL)
        self.state.reset(self.world.end, open_writes(self.world))

    def follow(self) -> None:
        found = begin_round(self.state, self.world)
        assert found is not None
        self.state.apply(found)

    def offer(self, key: TableName, *, whole: bool = False) -> None:
        looking = self.state.begin_looking()
        loaded = self.world.load(key, whole=whole)
        assert loaded is not None
        self.state.offer(key, TableEntry.of(loaded), looking)
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


def test_a_change_behind_the_log_is_found_by_comparing_and_read_again() -> None:
    """Somebody changed the catalog without an event; a reader that went to the database for another reason saw it."""
    cache = Cache(X)
    cache.offer(X)
    cache.world.tables[X].version = 7
    entry = cache.state.store.table(X)
    assert entry is not None
    cache.state.differs(X, entry, cache.world.end)
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
    entry = cache.state.store.table(X)
    assert entry is not None
    assert cache.read(X) == (Verdict.HIT, 0)
    cache.state.differs(X, entry, cache.world.end)
    assert cache.read(X)[0] is Verdict.UNCONFIRMED
    cache.follow()
    assert cache.read(X) == (Verdict.HIT, 1)


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
