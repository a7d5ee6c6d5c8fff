"""Whole cycles under random programs of DDL and DML: killed anywhere, run again, read in small pieces (R27).

Tables without transactions follow event by event: each partition of the replica is what that partition was at the
primary at some moment, and never goes back. ACID tables beside them are at one state, all together.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.codes import LockState, LockType
from airflow_hive_acid.replication.cycles.cycle import parts_of
from airflow_hive_acid.replication.cycles.runner import run_cycle
from airflow_hive_acid.replication.policies.policy import policy
from airflow_hive_acid.replication.policies.state import PolicyRecord
from airflow_hive_acid.replication.site import Site
from airflow_hive_acid.settings import Settings, Source
from tests.examples import random_programs
from tests.integration.replication.dying import Countdown, dying, what_killed
from tests.integration.replication.row_spark import row_spark
from tests.integration.replication.world import DATABASE, Watch, World, reap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.rule("R5"), pytest.mark.rule("R17"), pytest.mark.backends("sqlite")]

POLICY = policy({"name": "dr", "source": "primary", "destination": "replica", "tables": [f"{DATABASE}.*"]})
TABLES = (f"{DATABASE}.raw", f"{DATABASE}.log")
DAYS = ("mon", "tue", "wed")
CYCLES = 5
Place: TypeAlias = tuple[str, str]
Content: TypeAlias = tuple[tuple[str, str], ...] | None
"""Names and texts of the files; None: there is no such table or partition."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    random_programs(metafunc)


def content(site: Site) -> dict[Place, Content]:
    """What every partition of the plain tables holds."""
    found: dict[Place, Content] = {}
    known = site.client.catalog.find_tables(TABLES)
    for name in TABLES:
        parts = {} if name not in known else {
            p.name: p.location for p in site.client.catalog.list_partitions(name)
        }  # fmt: skip
        for day in DAYS:
            place = parts.get(f"day={day}")
            files = [] if place is None else [
                e for e in site.filesystem.list_files(place, recursive=True) if not e.is_dir
            ]  # fmt: skip
            texts = tuple(
                (e.relative, site.filesystem.read_text(e.path)) for e in files if not e.name.startswith(("_", "."))
            )
            found[name, day] = None if place is None else texts
    return found


@dataclass
class PlainTables:
    """Tables without transactions that change at random, and all that their partitions were."""

    site: Site
    random: random.Random
    history: dict[Place, list[Content]] = field(default_factory=dict)
    numbers: int = 0

    def note(self) -> None:
        for place, now in content(self.site).items():
            states = self.history.setdefault(place, [])
            if not states or states[-1] != now:
                states.append(now)

    def step(self) -> str:
        name, day = self.random.choice(TABLES), self.random.choice(DAYS)
        catalog = self.site.client.catalog
        if not catalog.find_tables([name]):
            definition = TableDefinition(
                *name.split("."), (Column("line", "string"),), (Column("day", "string"),), external=True,
                properties={"external.table.purge": "true"},
            )  # fmt: skip
            self.site.filesystem.make_directory(catalog.create_table(definition).location)
            what = f"create {name}"
        else:
            there = {p.name: p for p in catalog.list_partitions(name)}
            partition = there.get(f"day={day}")
            if partition is None:
                what = self._add(name, day)
            else:
                verbs = [self._insert, self._insert, self._overwrite, self._drop_partition, self._alter, self._drop]
                what = self.random.choice(verbs)(name, day)
        self.note()
        return what

    def _write(self, place: str) -> str:
        self.numbers += 1
        uri = f"{place}/{self.numbers:06}_0"
        self.site.filesystem.write_text(uri, f"line {self.numbers}\n" * self.random.randint(1, 50))
        return uri

    def _add(self, name: str, day: str) -> str:
        """As Hive does: the files first, then the partition in the catalog."""
        place = f"{self.site.client.catalog.get_table(name).location}/day={day}"
        self.site.filesystem.make_directory(place)
        if self.random.random() < 0.7:
            self._write(place)
        self.site.client.catalog.add_partitions(name, [(day,)])
        return f"add {name} {day}"

    def _insert(self, name: str, day: str) -> str:
        place = self.site.client.catalog.get_partition(name, (day,)).location
        uri = self._write(place)
        self.note()  # a file is there before its event is
        self.site.client.write_events.inserted(name, [uri], partition=f"day={day}")
        return f"insert {name} {day}"

    def _overwrite(self, name: str, day: str) -> str:
        place = self.site.client.catalog.get_partition(name, (day,)).location
        for entry in self.site.filesystem.list_files(place):
            self.site.filesystem.delete(entry.path, inside=place)
            self.note()
        uri = self._write(place)
        self.note()
        self.site.client.write_events.inserted(name, [uri], partition=f"day={day}", replace=True)
        return f"overwrite {name} {day}"

    def _alter(self, name: str, _day: str) -> str:
        self.numbers += 1
        self.site.client.catalog.alter_properties(name, {"turn": str(self.numbers)})
        return f"alter {name}"

    def _drop_partition(self, name: str, day: str) -> str:
        catalog = self.site.client.catalog
        place = catalog.get_partition(name, (day,)).location
        catalog.drop_partition(name, (day,))
        self.note()
        self.site.filesystem.delete(place, inside=catalog.get_table(name).location)
        return f"drop {name} {day}"

    def _drop(self, name: str, _day: str) -> str:
        if self.random.random() < 0.5:
            return self._alter(name, _day)
        dropped = self.site.client.catalog.drop_table(name)
        assert dropped is not None
        self.note()
        place = dropped.locations[0]
        self.site.filesystem.delete(place, inside=place.rpartition("/")[0])
        return f"drop {name}"


class Pair:
    """Primary and replica, ACID tables and plain ones."""

    def __init__(self, primary: Site, replica: Site, seed: int) -> None:
        self.random = random.Random(seed)
        self.primary, self.replica = primary, replica
        self.world = World(primary, self.random)
        self.world.create()
        self.plain = PlainTables(primary, self.random)
        self.plain.note()
        replica.client.catalog.create_database(DATABASE)
        self.watch = Watch(self.world, replica)
        self.reached: dict[Place, int] = {}
        self.has_acid = False

    def live(self) -> None:
        for _ in range(self.random.randint(2, 8)):
            if self.random.random() < 0.6:
                self.world.log.append(self.plain.step())
            else:
                self.world.step()

    def cycle(self, countdown: Countdown | None = None) -> None:
        """One cycle; events are read in pieces of a few."""
        countdown = countdown or Countdown()
        self.world.log.append(f"cycle, to die before change {countdown.number}")
        with ExitStack() as stack:
            source = stack.enter_context(dying(self.primary, countdown, row_spark))
            target = stack.enter_context(dying(self.replica, countdown, row_spark))
            parts = parts_of(POLICY, source, target, lambda _step: None)
            run_cycle(POLICY, source, target, replace(parts, page=self.random.choice([3, 1000])), holder="a test")

    def cycle_and_die(self, number: int) -> str | None:
        what = what_killed(number, self.cycle)
        if what is not None:
            self.world.log.append(f"killed: {what}")
        return what

    def look(self, *, must_be_current: bool = False) -> None:
        self.has_acid = self.has_acid or self._acid_is_complete()
        if self.has_acid:
            self.watch.look(must_be_current=must_be_current)
        kept_away = {
            f"{row.database}.{row.table}" for row in self.replica.client.show_locks()
            if row.type is LockType.EXCLUSIVE and row.state is LockState.ACQUIRED
        }  # fmt: skip
        for place, now in content(self.replica).items():
            if place[0] in kept_away:
                continue  # nobody reads it until that is undone
            states = self.plain.history[place]
            later = [i for i in range(self.reached.get(place, 0), len(states)) if states[i] == now]
            assert later, f"{place} is {now} after state {self.reached.get(place)} of {states};\n{self._story()}"
            self.reached[place] = later[0]
            if must_be_current:
                assert later[-1] == len(states) - 1, f"{place} is {now}, not {states[-1]};\n{self._story()}"
                self.reached[place] = later[-1]

    def _acid_is_complete(self) -> bool:
        """Whether the first sync of the ACID tables has ended."""
        record = PolicyRecord(self.replica.client.database, POLICY.name).read()
        return record is not None and record.position is not None

    def _story(self) -> str:
        return "\n".join(self.world.log[-40:])


@pytest.fixture
def make_pair(metastore_url: str, replica_metastore_url: str, tmp_path: Path) -> Iterator[Callable[[int], Pair]]:
    settings = Settings({Source.CONNECTION: {"hive.metastore.dml.events": "true"}})
    with ExitStack() as stack:
        sites = []
        for name, url in (("primary", metastore_url), ("replica", replica_metastore_url)):
            (tmp_path / name).mkdir()
            client = stack.enter_context(MetastoreClient(url, settings))
            client.catalog.set_warehouse((tmp_path / name).as_uri())
            sites.append(Site(client, name=name))
        yield lambda seed: Pair(sites[0], sites[1], seed)


def test_the_replica_is_current_after_each_cycle(make_pair: Callable[[int], Pair], seed: int) -> None:
    pair = make_pair(seed)
    for _ in range(CYCLES):
        pair.live()
        pair.cycle()
        pair.look(must_be_current=True)


def test_a_cycle_that_is_killed_anywhere_is_completed_by_the_next(make_pair: Callable[[int], Pair], seed: int) -> None:
    pair = make_pair(seed)
    for _ in range(CYCLES):
        pair.live()
        for _ in range(pair.random.randint(1, 3)):
            pair.cycle_and_die(pair.random.randint(1, 150))
            pair.look()
            reap(pair.primary)  # the locks of an export that was killed are held until then
            if pair.random.random() < 0.5:
                reap(pair.replica)  # those of an import until then, or until the next cycle begins
            pair.look()
            if pair.random.random() < 0.4:
                pair.live()
        pair.world.end_all()
        pair.cycle()
        pair.look(must_be_current=True)
