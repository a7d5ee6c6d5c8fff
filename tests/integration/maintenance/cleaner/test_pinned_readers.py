"""A reader stays pinned across minor and major compactions and clean-ups, in random orders.

Every reader sees its rows until it ends, whatever is compacted and cleaned meanwhile; and once the last one has ended,
everything obsolete is gone. Metastore, Worker, Cleaner and housekeepers are the real ones; the files are lists of row
ids, so that a schedule takes tenths of a second. A failure names its seed and what happened. 25 orders are tried;
``HIVE_ACID_SCHEDULES=500`` tries 500.
"""

from __future__ import annotations

import os
import random
from functools import partial
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance import run_cleaner, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionType
from tests.integration.maintenance.cycles.steps import pass_time
from tests.integration.maintenance.row_tables import Row, RowTable, compact_rows

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient, ReaderSnapshot, Transaction

SCHEDULES = int(os.environ.get("HIVE_ACID_SCHEDULES", "25"))
GROUPS = 5
STEPS = 9


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0"}


class Schedule:
    """One random order on a table of its own."""

    def __init__(self, seed: int, client: MetastoreClient, fs: Filesystem) -> None:
        self.seed, self.random = seed, random.Random(seed)
        self.client, self.fs = client, fs
        made = client.catalog.create_table(TableDefinition("default", f"t{seed}", (Column("id", "bigint"),)))
        fs.make_directory(made.location)
        self.table = RowTable(client, fs, made.qualified_name, made.location)
        self.rows: set[Row] = set()
        self.readers: list[tuple[ReaderSnapshot, set[Row]]] = []
        self.writer: tuple[Transaction, set[Row]] | None = None
        self.log: list[str] = []
        self.cleaned = 0

    def run(self) -> None:
        """Two writes and a pinned reader first, so that every order has something to lose."""
        first = [self.insert, self.insert, self.pin]
        actions = [self.insert, self.change, self.abort, self.replace, self.pin, self.unpin, self.begin_or_end_writer]
        weights = [3, 4, 2, 1, 3, 2, 2]
        actions += [
            partial(self.compact, CompactionType.MINOR),
            partial(self.compact, CompactionType.MAJOR),
            self.clean,
        ]
        weights += [4, 4, 7]
        for action in (*first, *self.random.choices(actions, weights, k=STEPS)):
            self.log.append(getattr(action, "__name__", None) or str(action.args[0].name))  # type: ignore[union-attr]
            action()
        self.end()

    def insert(self) -> None:
        with self.table.begin("insert") as txn:
            rows = self.table.put(txn, self.random.randint(1, 3))
        self.rows |= rows

    def change(self) -> None:
        """UPDATE or DELETE of some rows; nobody else may be changing them."""
        if self.rows:
            gone = set(self.random.sample(sorted(self.rows), self.random.randint(1, len(self.rows))))
            with self.table.begin("update") as txn:
                made = self.table.put(txn, self.random.choice([0, len(gone)]), gone)
            self.rows = self.rows - gone | made

    def abort(self) -> None:
        txn = self.table.begin("update")
        self.table.put(txn, 2, self.rows)
        txn.abort("a test")

    def replace(self) -> None:
        if self.writer is None:  # an overwrite waits for writers
            with self.table.begin("overwrite") as txn:
                self.rows = self.table.replace(txn, 2)

    def begin_or_end_writer(self) -> None:
        """An open insert keeps compactions below its write id."""
        if self.writer is None:
            txn = self.table.begin("insert")
            self.writer = txn, self.table.put(txn, 2)
            return
        (txn, rows), self.writer = self.writer, None
        if self.random.random() < 0.5:
            txn.commit()
            self.rows |= rows
        else:
            txn.abort("a test")

    def pin(self) -> None:
        reader = self.client.open_snapshot([self.table.name])
        seen = self.table.read(reader)
        assert seen == self.rows, self.told()
        self.readers.append((reader, seen))

    def unpin(self) -> None:
        if self.readers:
            self.readers.pop(self.random.randrange(len(self.readers)))[0].close()

    def minor(self) -> None:
        self.compact(CompactionType.MINOR)

    def major(self) -> None:
        self.compact(CompactionType.MAJOR)

    def compact(self, kind: CompactionType) -> None:
        self.client.compactions.enqueue(self.table.name, type=kind)
        for outcome in run_worker(self.client, self.fs, partial(compact_rows, self.fs), "w"):
            assert outcome.kind is not Kind.FAILED, (outcome, self.told())
        self.check()

    def clean(self) -> None:
        if self.random.random() < 0.8:
            pass_time(self.client)
        for outcome in run_cleaner(self.client, self.fs):
            assert outcome.kind not in (Kind.FAILED, Kind.ERROR), (outcome, self.told())
            self.cleaned += len(outcome.removed)
        self.check()

    def check(self) -> None:
        for reader, rows in self.readers:
            assert self.table.read(reader) == rows, (reader.txn_id, self.told())

    def end(self) -> None:
        """Readers end one by one, each followed by a clean-up; then all that is left is one base."""
        while self.readers:
            self.unpin()
            self.clean()
        if self.writer is not None:
            self.begin_or_end_writer()
        self.insert()
        self.insert()
        self.compact(CompactionType.MAJOR)
        for _ in range(10):
            pass_time(self.client)
            self.clean()
            if self.table.directories() == self.table.directories()[:1]:
                break
        assert [name.partition("_")[0] for name in self.table.directories()] == ["base"], self.told()
        self.pin()
        self.unpin()
        assert self.cleaned > 0

    def told(self) -> str:
        return f"seed {self.seed}: {', '.join(self.log)}; {self.table.directories()}"


@pytest.mark.backends("sqlite")
@pytest.mark.rule("R10")
@pytest.mark.rule("R17")
@pytest.mark.parametrize("group", range(GROUPS))
def test_pinned_readers_see_their_rows_and_the_space_comes_back(
    client: MetastoreClient, fs: Filesystem, group: int
) -> None:
    client.catalog.create_database("default", if_not_exists=True)
    for seed in range(group, SCHEDULES, GROUPS):
        Schedule(seed, client, fs).run()
        client.housekeeping.clean_txn_to_write_id()
        client.housekeeping.clean_empty_txns()
