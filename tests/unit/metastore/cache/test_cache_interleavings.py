"""The cache's state machine against a world of txns, DDL, renames and gaps, in any interleaving of its actors.

What must hold of every read, whoever does what in between: an answer from memory contains every change of a write id
that the reader's list sees, and none of one that it does not see; successive reads of a table never go backwards,
whatever lists they come with, answers of the database included. Some of the changes are told by no event.
"""

from __future__ import annotations

import random
from copy import deepcopy
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from airflow_hive_acid.metastore.cache.entries import Store, TableEntry
from airflow_hive_acid.metastore.cache.rules import Verdict
from airflow_hive_acid.metastore.cache.state import CacheState, Looking, Round
from tests.examples import examples
from tests.unit.metastore.cache.cache_world import EXTERNAL, KEYS, TRANSACTIONAL, World, begin_round, open_writes

if TYPE_CHECKING:
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.cache.entries import Loaded
    from airflow_hive_acid.metastore.names.objects import TableName


class Actors:
    """Writers, a follower whose round takes time, loaders that take time, and readers with lists of any age."""

    def __init__(self) -> None:
        self.world = World()
        self.state = CacheState(Store(1_000_000))
        self.writing: list[tuple[int, TableName, int, int]] = []
        self.lists: list[tuple[TableName, int, ValidWriteIdList | None]] = []
        self.loading: list[tuple[TableName, Loaded, Looking]] = []
        self.reading: list[tuple[TableName, Verdict, Loaded, Looking, int]] = []
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
                (1, self.purge), (2, self.untold),
                (5, self.whole_round), (2, self.begin_round), (3, self.end_round), (3, self.begin_load),
                (3, self.end_load), (3, self.take_list), (8, self.read_now), (4, self.read_held),
                (3, self.begin_read), (3, self.end_read),
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

    def untold(self, a: int, b: int) -> None:
        """A real Hive without a listener, with a write id or without."""
        if self.writing and b % 2:
            _, key, table_id, write_id = self.writing[a % len(self.writing)]
            if key in self.world.tables and self.world.tables[key].id == table_id:
                self.world.alter_untold(key, write_id)
        elif KEYS[a % 3] != EXTERNAL and b % 3 == 0 and KEYS[a % 3] in self.world.tables:
            self.world.write_untold(KEYS[a % 3], f"p={b % 4}")
        elif KEYS[a % 3] in self.world.tables:
            self.world.alter_untold(KEYS[a % 3])

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
        if self.round is not None:
            if a % 5:  # else it dies half-way
                self.state.apply(self.round)
            self.state.end_looking(self.round.looking)
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
            self.answer(key, verdict, loaded, looking, self.shown.get(table_id, 0))
        self.state.end_looking(looking)

    def begin_read(self, a: int, b: int) -> None:
        """One that takes time: it holds its answer, and has not given it yet."""
        key = KEYS[a % 3]
        if key in self.world.tables:
            table_id = self.world.tables[key].id
            verdict, _ = self.state.look(key, table_id, self.world.reader_list(key))
            looking, loaded = self.state.begin_looking(), self.world.load(key, whole=bool(b % 2))
            assert loaded is not None
            self.reading.append((key, verdict, deepcopy(loaded), looking, self.shown.get(table_id, 0)))

    def end_read(self, a: int, _: int) -> None:
        if self.reading:
            key, verdict, loaded, looking, shown = self.reading.pop(a % len(self.reading))
            self.answer(key, verdict, loaded, looking, shown)
            self.state.end_looking(looking)

    def answer(self, key: TableName, verdict: Verdict, loaded: Loaded, looking: Looking, before: int) -> None:
        """:param before: what was shown when the read began."""
        own, position = TableEntry.of(loaded), self.state.position or 0
        if verdict is Verdict.MISSING or (verdict is Verdict.NEWER and loaded.as_of <= position):
            self.state.offer(key, own, looking)
        known, shown = self.state.show(key, own, looking, own.partitions)
        if isinstance(known, TableEntry) and known.table != loaded.table:
            self.state.differs(key, known, shown, looking)
        version = int(loaded.table.properties["v"])
        assert version >= before, "a read went backwards"
        self.shown[loaded.table.id] = max(version, self.shown.get(loaded.table.id, 0))

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


@settings(max_examples=examples(300), deadline=None)
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
