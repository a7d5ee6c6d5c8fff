"""Random schedules of writers, readers, compactions, Cleaner and reaper in real time: no reader sees anything change.

``test_pinned_readers`` tries many more orders, with deletes, and lets time pass without waiting for it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.compaction.model import CompactionType

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient, ReaderSnapshot, Transaction

STEPS = 40


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.txn.opentxn.timeout": "60ms", "hive.compactor.abortedtxn.threshold": "1"}


class Schedule:
    """One random history of a table, with the rows every reader must see."""

    def __init__(self, seed: int, client: MetastoreClient, fs: Filesystem, table: Any,
                 compact: Callable[[JobSpec], JobResult]) -> None:  # fmt: skip
        self.random = random.Random(seed)
        self.client, self.fs, self.table, self.compact = client, fs, table, compact
        self.committed = 0
        self.readers: list[tuple[ReaderSnapshot, list[str]]] = []
        self.writers: list[Transaction] = []
        self.log: list[str] = []
        self.cleaned = 0

    def step(self) -> None:
        actions = [self.insert] * 4 + [self.abort] * 2 + [self.open_writer, self.end_writer, self.open_reader]
        actions += [self.close_reader] * 2 + [self.compact_now] * 3 + [self.clean] * 3 + [self.reap]
        action = self.random.choice(actions)
        self.log.append(action.__name__)
        action()
        self.check()

    def check(self) -> None:
        for reader, rows in self.readers:
            assert self.table.read(reader) == rows, f"reader {reader.txn_id} after {self.log}"
        with self.client.snapshot([self.table.name]) as now:
            assert len(self.table.read(now)) == self.committed, self.log

    def insert(self) -> None:
        self.table.insert(lines=1)
        self.committed += 1

    def abort(self) -> None:
        self.table.abort()

    def open_writer(self) -> None:
        txn = self.table.begin()
        self.table.put(txn, 1)
        self.writers.append(txn)

    def end_writer(self) -> None:
        if self.writers:
            txn = self.writers.pop(self.random.randrange(len(self.writers)))
            if self.random.random() < 0.5:
                txn.commit()
                self.committed += 1
            else:
                txn.abort("a test")

    def open_reader(self) -> None:
        reader = self.client.open_snapshot([self.table.name])
        self.readers.append((reader, self.table.read(reader)))

    def close_reader(self) -> None:
        if self.readers:
            self.readers.pop(self.random.randrange(len(self.readers)))[0].close()

    def compact_now(self) -> None:
        kind = self.random.choice([CompactionType.MINOR, CompactionType.MAJOR])
        self.client.compactions.enqueue(self.table.name, type=kind)
        for outcome in run_worker(self.client, self.fs, self.compact, "w"):
            assert outcome.kind is not Kind.FAILED, (outcome, self.log)

    def clean(self) -> None:
        if self.random.random() < 0.7:
            self.table.settle()
        self.look()

    def look(self) -> None:
        for outcome in run_cleaner(self.client, self.fs):
            assert outcome.kind not in (Kind.FAILED, Kind.ERROR), (outcome, self.log)
            self.cleaned += len(outcome.removed)

    def reap(self) -> None:
        assert run_reaper(self.client, self.fs).aborted == ()

    def finish(self) -> None:
        """Everybody leaves; then one compaction and a few looks of the Cleaner leave one base."""
        while self.readers:
            self.close_reader()
        while self.writers:
            self.end_writer()
        self.insert()
        self.insert()
        self.table.settle()
        for _ in range(6):
            self.look()
        self.client.compactions.enqueue(self.table.name)
        run_worker(self.client, self.fs, self.compact, "w")
        self.table.settle()
        for _ in range(6):
            self.look()
        self.check()
        assert [name.split("_")[0] for name in self.table.directories()] == ["base"], self.log


@pytest.mark.rule("R16")
@pytest.mark.parametrize("seed", range(2))
def test_no_reader_sees_a_compaction_or_its_clean_up(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: Callable[[JobSpec], JobResult], seed: int
) -> None:
    schedule = Schedule(seed, client, fs, table, compact_lines)
    for _ in range(STEPS):
        schedule.step()
    schedule.finish()
    assert schedule.cleaned > 0
