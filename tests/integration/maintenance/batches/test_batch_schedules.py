"""Batches beside readers, pins, compactions, clean-ups and dead writers, in random orders.

Whoever looks sees at any moment what was committed when he began, a pin what was committed when it was made; and when
all have ended, nothing is left of what was replaced. 3 orders are tried; ``HIVE_ACID_BATCH_SCHEDULES=200`` tries 200.
"""

from __future__ import annotations

import os
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS, TXNS
from airflow_hive_acid.metastore.txns.pin_rules import PinState
from tests.integration.maintenance.batch_model import ModelSpark, compact_model, local, rows_in
from tests.integration.maintenance.cycles.steps import change, pass_time, rows

from .world import TABLES, engine_of

if TYPE_CHECKING:
    from airflow_hive_acid.engine.streams.batches import TransactionBatch
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient, ReaderSnapshot

SCHEDULES = int(os.environ.get("HIVE_ACID_BATCH_SCHEDULES", "3"))
STEPS = 30
OFTEN = ("commit", "compact", "clean")


class Schedule:
    """One random order, on one table."""

    def __init__(self, seed: int, client: MetastoreClient, fs: Filesystem, warehouse: str) -> None:
        self.seed, self.random, self.client, self.fs = seed, random.Random(seed), client, fs
        self.spark = ModelSpark()
        self.engine = engine_of(client, self.spark, warehouse)
        self.engine.run(TABLES)
        self.table = self.random.choice(["w.t", "w.p"])
        self.partition = {"k": "a"} if self.table == "w.p" else None
        self.writers: list[TransactionBatch] = []
        self.readers: dict[ReaderSnapshot, tuple[list[int], list[str]]] = {}
        self.pins: dict[str, list[int]] = {}
        self.committed: list[int] = []
        self.last = 0
        self.log: list[str] = []

    def run(self) -> None:
        actions = [self.commit, self.fail, self.abort, self.close, self.crash, self.read, self.stop_reading, self.pin]
        actions += [self.unpin, self.compact, self.clean, self.reap]
        weights = [3 if action.__name__ in OFTEN else 1 for action in actions]
        for action in self.random.choices(actions, weights, k=STEPS):
            self.log.append(action.__name__)
            action()
            self.check()
        self.end()

    def writer(self) -> TransactionBatch:
        if (len(self.writers) < 2 and self.random.random() < 0.4) or not self.writers:
            number = self.random.randint(1, 4)
            self.writers.append(self.engine.batch(self.table, partition=self.partition, transactions=number))
        return self.random.choice(self.writers)

    def records(self) -> list[dict[str, int]]:
        self.last += 2
        return [{"id": self.last - 1}, {"id": self.last}]

    def commit(self) -> None:
        batch, given = self.writer(), self.records()
        batch.write(given)
        batch.commit()
        self.committed += [record["id"] for record in given]

    def fail(self) -> None:
        """The commit is refused when the rows are published."""
        batch = self.writer()
        batch.write(self.records())
        with pytest.raises(ZeroDivisionError):
            batch.commit(check=lambda _conn: 1 / 0)  # type: ignore[arg-type, return-value]

    def abort(self) -> None:
        batch = self.writer()
        batch.write(self.records())
        batch.abort()

    def close(self) -> None:
        if self.writers:
            self.writers.pop().close()

    def crash(self) -> None:
        """The process of a writer is gone, and its time is up."""
        opened = self.writers.pop()._open if self.writers else None
        if opened is None or opened.ended:
            return
        opened._heartbeat.close()
        txns = TXNS.c.TXN_ID.in_([opened._txns.anchor, *opened._txns.txns])
        change(self.client, sa.update(TXNS).where(txns, TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1))
        run_reaper(self.client, self.fs)

    def read(self) -> None:
        if len(self.readers) < 2:
            self.readers[self.client.open_snapshot([self.table])] = sorted(self.committed), self.places()

    def stop_reading(self) -> None:
        if self.readers:
            self.readers.popitem()[0].close()

    def pin(self) -> None:
        if len(self.pins) < 2:
            name = f"p{len(self.log)}"
            self.client.pins.pin(name, [self.table], expires=3600)
            self.pins[name] = sorted(self.committed)

    def unpin(self) -> None:
        if self.pins:
            self.client.pins.unpin(self.pins.popitem()[0])

    def compact(self) -> None:
        for name in [p.name for p in self.client.catalog.list_partitions(self.table)] if self.partition else [None]:
            self.client.compactions.enqueue(self.table, name, type=CompactionType.MAJOR)
        run_worker(self.client, self.fs, partial(compact_model, self.fs), "worker")

    def clean(self) -> None:
        pass_time(self.client)
        run_cleaner(self.client, self.fs)

    def reap(self) -> None:
        pass_time(self.client)
        run_reaper(self.client, self.fs)

    def places(self) -> list[str]:
        if self.partition is None:
            return [self.client.catalog.get_table(self.table).location]
        return [p.location for p in self.client.catalog.list_partitions(self.table)]

    def check(self) -> None:
        with self.client.snapshot([self.table]) as now:
            looks = [(now.snapshot[self.table], now.valid_txns, (sorted(self.committed), self.places()))]
        looks += [(reader.snapshot[self.table], reader.valid_txns, seen) for reader, seen in self.readers.items()]
        for name, ids in self.pins.items():
            pinned = self.client.pins.look(name, self.table)
            where = self.places() if pinned.partitions is None else [p.location for p in pinned.partitions]
            looks.append((pinned.write_ids, pinned.txns, (ids, where)))
        for write_ids, txns, (ids, where) in looks:
            found: list[Any] = [i for place in where for _, i in rows_in(local(place), write_ids, txns)]
            assert sorted(found) == ids, self.told()

    def end(self) -> None:
        """Everybody ends, and the services have their turns."""
        for batch in self.writers:
            batch.close()
        for reader in self.readers:
            reader.close()
        for name in self.pins:
            self.client.pins.unpin(name)
        self.readers, self.pins = {}, {}
        for _ in range(6):
            self.compact()
            self.reap()
            self.clean()
            self.check()
        assert {pin.state for pin in self.client.pins.show(ended=True)} <= {PinState.SETTLED}, self.told()
        places = [local(place) for place in self.places()]
        # Of a partition to which nobody has committed anything the aborted rows stay, and are remembered.
        assert not places or rows(self.client, TXN_COMPONENTS) == [], self.told()
        for place in places:
            left = [d.name for d in place.iterdir() if d.name.startswith(("base", "delta"))] if place.exists() else []
            assert len(left) <= 1, (left, self.told())
        self.spark.close()
        self.engine.close()

    def told(self) -> str:
        """How to find this again."""
        return f"seed {self.seed}, {self.table}: {', '.join(self.log)}"


@pytest.mark.backends("sqlite")
@pytest.mark.rule("R4")
@pytest.mark.rule("R17")
@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_everybody_sees_the_committed_txns_of_batches_and_the_space_comes_back(
    client: MetastoreClient, fs: Filesystem, warehouse: str, seed: int
) -> None:
    Schedule(seed, client, fs, warehouse).run()
