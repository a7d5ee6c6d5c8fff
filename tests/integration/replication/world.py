"""A primary whose tables change at random, a replica, and what the replica may show: states that the primary had.

Files are lists of row ids as in the tests of maintenance. After each change the primary's rows are noted; a replica is
right when it shows one of the noted states, all tables the same one, and never an older one than before (R27 of the
reliability tests that peers run).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import sqlalchemy as sa

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import base_name, delete_delta_name, delta_name
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from tests.integration.maintenance.row_tables import _state, _visible, _write, compact_rows

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.metastore import ReaderSnapshot, Transaction
    from airflow_hive_acid.replication.site import Site

Row: TypeAlias = tuple[int, int]
Place: TypeAlias = tuple[str, str]
"""A table and the name of a partition, '' for an unpartitioned table."""
State: TypeAlias = dict[Place, frozenset[Row]]
"""Rows by place; a table that is not there has none, an empty one is its own entry."""

PARTITIONS = ("p=1", "p=2")
DATABASE = "sales"


def read(site: Site, tables: Iterable[str], snapshot: ReaderSnapshot | None = None) -> State:
    """The rows of a site as one snapshot shows them."""
    known = site.client.catalog.find_tables(sorted(tables))
    if not known:
        return {}
    reader = snapshot or site.client.open_snapshot(sorted(known))
    try:
        found: State = {}
        for name, table in known.items():
            places = {"": table.location}
            if table.partition_columns:
                places = {p.name: p.location for p in site.client.catalog.list_partitions(name)}
            for partition, location in places.items():
                ids = reader.snapshot[name]
                state = _state(site.filesystem, location, ids, reader.valid_txns)
                found[name, partition] = frozenset(_visible(site.filesystem, location, state, ids))
        return found
    finally:
        if snapshot is None:
            reader.close()


def pass_time(site: Site) -> None:
    """As if every txn so far had been opened a second earlier: no gap of the open time-out is left."""
    with site.client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).values(TXN_STARTED=TXNS.c.TXN_STARTED - 1000))


def compact(site: Site, table: str, partition: str, kind: str, worker: str) -> None:
    """One compaction of a place, from the request to the commit."""
    site.client.compactions.enqueue(table, partition or None, type=CompactionType[kind.upper()])
    run_worker(site.client, site.filesystem, partial(compact_rows, site.filesystem), worker)


def clean(site: Site) -> None:
    """The Cleaner, as often as one compaction may wait for another."""
    for _ in range(2):
        pass_time(site)
        run_cleaner(site.client, site.filesystem)


def reap(site: Site) -> None:
    """The time-outs of killed syncs have passed; txns that stand for the source's have one of eleven days."""
    dead = (TXNS.c.TXN_STATE == "o", TXNS.c.TXN_USER == "replicator", TXNS.c.TXN_TYPE != int(TxnType.REPL_CREATED))
    with site.client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(*dead).values(TXN_LAST_HEARTBEAT=1))
    run_reaper(site.client, site.filesystem)


@dataclass
class World:
    """The primary, and all states it had.

    :param history: the rows after each change, the oldest first.
    """

    site: Site
    random: random.Random
    tables: tuple[str, ...] = (f"{DATABASE}.plain", f"{DATABASE}.parts")
    history: list[State] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    _open: list[tuple[Transaction, Callable[[], None]]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def create(self) -> None:
        """The database and its tables, empty."""
        self.site.client.catalog.create_database(DATABASE, if_not_exists=True)
        for name in self.tables:
            self.create_table(name)
        self.note("create")

    def create_table(self, name: str) -> None:
        keys = (Column("p", "string"),) if name.endswith("parts") else ()
        definition = TableDefinition(*name.split("."), (Column("id", "bigint"),), keys)
        made = self.site.client.catalog.create_table(definition)
        self.site.filesystem.make_directory(made.location)

    def note(self, what: str) -> None:
        """Remember the state, and what led to it."""
        self.log.append(what)
        now = read(self.site, self.tables)
        if not self.history or self.history[-1] != now:
            self.history.append(now)

    def step(self) -> None:
        """One random change."""
        actions = [
            (8, self.write), (2, self.abort), (2, self.begin_to_stay_open), (3, self.end_an_open_one),
            (2, self.overwrite), (3, self.compact), (3, self.clean), (1, self.two_tables),
        ]  # fmt: skip
        (action,) = self.random.choices([a for _, a in actions], [w for w, _ in actions])
        action()

    # --- changes ---------------------------------------------------------------------------------------------------

    def write(self) -> None:
        txn = self._begin()
        self._put(txn, *self._places(txn))
        txn.commit()
        self.note(f"write {dict(txn.write_ids)}")

    def two_tables(self) -> None:
        """One txn that changes every table: a reader sees all of it or nothing."""
        txn = self.site.client.begin(dict.fromkeys(self.tables, "update"), partitioned=self._partitioned())
        for name in self.tables:
            self._put(txn, name)
        txn.commit()
        self.note(f"write two tables {dict(txn.write_ids)}")

    def abort(self) -> None:
        txn = self._begin()
        self._put(txn, *self._places(txn))
        txn.abort("a test")
        self.note(f"abort {dict(txn.write_ids)}")

    def begin_to_stay_open(self) -> None:
        """A txn that writes its files now and ends later, perhaps after many others."""
        name = self.random.choice(self.tables)
        txn = self.site.client.begin({name: "insert"}, partitioned=self._partitioned() & {name})
        self._put(txn, name, deletes=False)
        self._open.append((txn, txn.commit if self.random.random() < 0.7 else partial(txn.abort, "a test")))
        self.note(f"open {dict(txn.write_ids)}")

    def end_an_open_one(self) -> None:
        if self._open:
            txn, end = self._open.pop(self.random.randrange(len(self._open)))
            end()
            self.note(f"end {dict(txn.write_ids)}")

    def end_all(self) -> None:
        while self._open:
            self.end_an_open_one()

    def overwrite(self) -> None:
        name = self.random.choice(self.tables)
        if any(name in self._places(txn) for txn, _ in self._open):
            return  # its lock would wait for them
        with self.site.client.begin({name: "update"}, partitioned=self._partitioned() & {name}) as txn:
            write_id, partition = txn.write_ids[name], self._partition(name)
            rows = [(write_id, i) for i in range(self.random.randint(0, 2))]
            _write(self.site.filesystem, f"{self._make(txn, name, partition)}/{base_name(write_id)}", rows)
            self._name_partitions(txn, name, [partition])
        self.note(f"overwrite {name}/{partition} {write_id}")

    def compact(self) -> None:
        name = self.random.choice(self.tables)
        partition = self._partition(name)
        if partition and partition not in self._known(name):
            return
        kind = self.random.choice(["minor", "major"])
        compact(self.site, name, partition, kind, f"w{next(self._numbers)}")
        self.note(f"{kind} {name}/{partition}")

    def clean(self) -> None:
        clean(self.site)
        self.note("clean")

    # --- how --------------------------------------------------------------------------------------------------------

    def _partitioned(self) -> set[str]:
        return {t for t in self.tables if t.endswith("parts")}

    def _known(self, name: str) -> set[str]:
        return {p.name for p in self.site.client.catalog.list_partitions(name)}

    def _partition(self, name: str) -> str:
        return self.random.choice(PARTITIONS) if name in self._partitioned() else ""

    def _begin(self) -> Transaction:
        name = self.random.choice(self.tables)
        return self.site.client.begin({name: "update"}, partitioned=self._partitioned() & {name})

    @staticmethod
    def _places(txn: Transaction) -> list[str]:
        return [str(name) for name in txn.write_ids]

    def _make(self, txn: Transaction, name: str, partition: str) -> str:
        """The directory of a place; the partition comes into being."""
        table = self.site.client.catalog.get_table(name)
        location = f"{table.location}/{partition}" if partition else table.location
        self.site.filesystem.make_directory(location)
        return location

    def _put(self, txn: Transaction, *names: str, deletes: bool = True) -> None:
        """Rows, and delete events for some of what the txn sees, under one write id per table."""
        for name in names:
            write_id, partition = txn.write_ids[name], self._partition(name)
            place = self._make(txn, name, partition)
            statement = txn.next_statement_id(name)
            rows = [(write_id, i) for i in range(self.random.randint(1, 3))]
            _write(self.site.filesystem, f"{place}/{delta_name(write_id, write_id, statement)}", rows)
            ids = txn.snapshot[name]
            state = _state(self.site.filesystem, place, ids, txn.valid_txns)
            before = sorted(_visible(self.site.filesystem, place, state, ids))
            gone = [row for row in before if row[0] != write_id and deletes and self.random.random() < 0.3]
            if gone:
                events = [(write_id, row) for row in gone]
                _write(self.site.filesystem, f"{place}/{delete_delta_name(write_id, write_id, statement)}", events)
            self._name_partitions(txn, name, [partition])

    def _name_partitions(self, txn: Transaction, name: str, partitions: list[str]) -> None:
        if name in self._partitioned():
            txn.add_partitions(name, partitions)
            self.site.client.catalog.add_partitions(name, [(p.split("=")[1],) for p in partitions])


@dataclass
class Watch:
    """Looks at the replica, and remembers how far it was."""

    world: World
    replica: Site
    reached: int = -1

    def look(self, *, must_be_current: bool = False) -> None:
        """The replica shows a state that the primary had, and none before the last one seen."""
        now = read(self.replica, self.world.tables)
        states = [i for i, state in enumerate(self.world.history) if _same(state, now)]
        assert states, f"the primary never was in the state {now};\n{self._story()}"
        later = [i for i in states if i >= self.reached]
        assert later, f"the replica went back from state {self.reached} to {states};\n{self._story()}"
        if must_be_current:
            last = len(self.world.history) - 1
            assert last in later, f"the replica is at {later} of {last};\n{self._difference(now)}\n{self._story()}"
        self.reached = later[-1] if must_be_current else later[0]

    def _difference(self, now: State) -> str:
        wanted = self.world.history[-1]
        return "\n".join(
            f"{place}: lacks {sorted(wanted.get(place, set()) - now.get(place, set()))}, "
            f"has {sorted(now.get(place, set()) - wanted.get(place, set()))}"
            for place in sorted({*wanted, *now})
        )

    def _story(self) -> str:
        return "\n".join(self.world.log[-40:])


def _same(one: State, other: State) -> bool:
    """Whether two states hold the same rows; a partition without rows is as good as none."""
    return {p: r for p, r in one.items() if r} == {p: r for p, r in other.items() if r}
