"""ACID tables under random programs: the replica shows states of the primary and never goes back (R27 of peers' tests).

Programs of DML, transactions over two tables, aborts, txns that stay open, compactions and cleaning run at the primary;
the replica compacts and cleans on its own; syncs are killed in front of any change, repeated, and run while the primary
goes on. ``--programs 300`` runs so many of each kind; the suite runs a few.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.replication.acid.sync import sync_tables
from tests.examples import random_programs
from tests.integration.replication.dying import Countdown, dying, what_killed
from tests.integration.replication.row_spark import row_spark
from tests.integration.replication.world import (
    DATABASE,
    PARTITIONS,
    Watch,
    World,
    clean,
    compact,
    pass_time,
    read,
    reap,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.replication.site import Site

pytestmark = [pytest.mark.rule("R4"), pytest.mark.rule("R17"), pytest.mark.backends("sqlite")]

POLICY = "dr"
CYCLES = 5


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    random_programs(metafunc)


class Pair:
    """A primary that changes, and its replica."""

    def __init__(self, primary: Site, replica: Site, seed: int) -> None:
        self.random = random.Random(seed)
        self.primary, self.replica = primary, replica
        self.world = World(primary, self.random)
        self.world.create()
        replica.client.catalog.create_database(DATABASE)
        self.watch = Watch(self.world, replica)
        self.workers = 0

    def live(self, most: int = 6) -> None:
        """Some changes at the primary."""
        for _ in range(self.random.randint(1, most)):
            self.world.step()

    def live_at_the_replica(self) -> None:
        """What its own services do."""
        if self.random.random() < 0.4:
            name = self.random.choice(self.world.tables)
            if not self.replica.client.catalog.find_tables([name]):
                return
            partition = self.random.choice(PARTITIONS) if name.endswith("parts") else ""
            if partition and partition not in {p.name for p in self.replica.client.catalog.list_partitions(name)}:
                return
            self.workers += 1
            kind = self.random.choice(["minor", "major"])
            compact(self.replica, name, partition, kind, f"r{self.workers}")
            self.world.log.append(f"replica: {kind} {name}/{partition}")
        if self.random.random() < 0.3:
            clean(self.replica)
            self.world.log.append("replica: clean")

    def sync(self, countdown: Countdown | None = None) -> None:
        """One sync, in a process of its own so to speak."""
        countdown = countdown or Countdown()
        self.world.log.append(f"sync, to die before change {countdown.number}")
        with ExitStack() as stack:
            source = stack.enter_context(dying(self.primary, countdown, row_spark))
            target = stack.enter_context(dying(self.replica, countdown, row_spark))
            sync_tables(source, target, POLICY, list(self.world.tables))

    def sync_and_die(self, number: int) -> str | None:
        """A sync that is killed; what it was about to do, None when it was done before."""
        what = what_killed(number, self.sync)
        if what is not None:
            self.world.log.append(f"killed: {what}")
        return what

    def reap(self) -> None:
        """The time-outs of the killed have passed; mapped txns have one of eleven days."""
        for site in (self.primary, self.replica):
            reap(site)

    def finish(self) -> None:
        """Everything ends, and the replica is what the primary is."""
        self.world.end_all()
        self.sync()
        self.watch.look(must_be_current=True)
        for site in (self.primary, self.replica):
            clean(site)
        self.watch.look(must_be_current=True)


@pytest.fixture
def make_pair(primary: Site, replica: Site) -> Callable[[int], Pair]:
    return lambda seed: Pair(primary, replica, seed)


def test_the_replica_is_current_after_each_sync(make_pair: Callable[[int], Pair], seed: int) -> None:
    pair = make_pair(seed)
    for _ in range(CYCLES):
        pair.live()
        pair.live_at_the_replica()
        if pair.watch.reached >= 0:
            pair.watch.look()
        pair.sync()
        pair.watch.look(must_be_current=True)
    pair.finish()


def test_a_sync_that_is_killed_shows_nothing_half_done_and_the_next_one_completes_it(
    make_pair: Callable[[int], Pair], seed: int
) -> None:
    pair = make_pair(seed)
    for _ in range(CYCLES):
        pair.live()
        pair.live_at_the_replica()
        for _ in range(pair.random.randint(1, 3)):
            pair.sync_and_die(pair.random.randint(1, 40))
            if pair.watch.reached >= 0 or pair.replica.client.catalog.find_tables(pair.world.tables):
                pair.watch.look()
            if pair.random.random() < 0.5:
                pair.reap()
            if pair.random.random() < 0.5:
                pair.live(2)
            pair.live_at_the_replica()
        pair.sync()
        pair.watch.look(must_be_current=True)
    pair.finish()


def test_a_sync_shows_one_state_of_all_tables_while_the_primary_goes_on(
    make_pair: Callable[[int], Pair], seed: int
) -> None:
    """Changes happen between any two steps of a sync; those of two tables in one txn among them."""
    pair = make_pair(seed)
    for _ in range(CYCLES):
        pair.live(3)
        at = {pair.random.randint(1, 30) for _ in range(4)}

        def change(number: int, at: set[int] = at) -> None:
            if number in at:
                pair.world.step()

        pair.sync(Countdown(before=change))
        pair.watch.look()
    pair.finish()


def test_a_reader_at_the_replica_goes_on_with_its_snapshot(make_pair: Callable[[int], Pair]) -> None:
    pair = make_pair(7)
    for _ in range(CYCLES):
        pair.live(8)
        if pair.watch.reached < 0:
            pair.sync()
            pair.watch.look(must_be_current=True)
            continue
        with pair.replica.client.snapshot(list(pair.world.tables)) as reader:
            before = read(pair.replica, pair.world.tables, reader)
            pair.sync()
            pass_time(pair.replica)
            clean(pair.replica)
            after = read(pair.replica, pair.world.tables, reader)
            assert {p: after[p] for p in before} == before
            assert not any(rows for p, rows in after.items() if p not in before)
        pair.watch.look(must_be_current=True)


def test_a_sync_may_be_killed_in_front_of_every_change(
    make_pair: Callable[[int], Pair], request: pytest.FixtureRequest
) -> None:
    """Every commit and every change of a file, of either side, one after the other (in the suite: every eighth)."""
    pair = make_pair(3)
    apart = 1 if request.config.getoption("programs") else 8
    pair.live(8)
    pair.sync()
    pair.watch.look(must_be_current=True)
    seen = []
    for number in range(1, 300, apart):
        pair.world.write()
        pair.world.two_tables()
        what = pair.sync_and_die(number)
        pair.watch.look(must_be_current=what is None)
        if what is None:
            break
        seen.append(what)
        if len(seen) % 2:
            pair.reap()
        if len(seen) % 4 == 0:
            pair.sync()
            pair.watch.look(must_be_current=True)
    assert what is None, "there are more changes than were tried"
    assert len(seen) > 5, seen
    assert any("commit" in what for what in seen), seen
    pair.finish()


def test_every_sync_is_no_op_when_nothing_has_changed(make_pair: Callable[[int], Pair]) -> None:
    pair = make_pair(5)
    pair.live(10)
    pair.sync()
    pair.watch.look(must_be_current=True)
    files = sorted(e.relative for e in pair.replica.filesystem.list_files(_warehouse(pair.replica), recursive=True))
    for _ in range(2):
        pair.sync()
        now = sorted(e.relative for e in pair.replica.filesystem.list_files(_warehouse(pair.replica), recursive=True))
        assert now == files
    pair.watch.look(must_be_current=True)


def _warehouse(site: Site) -> str:
    return str(site.client.catalog.warehouse())
