"""Random statements, followed by mirrors of every kind; some seeds with compactions that are cleaned up after."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from tests.mirror.conftest import ACID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.mirror.conftest import Mirroring

pytestmark = pytest.mark.mirror
ROUNDS, STATEMENTS = 4, 3


class Statements:
    """Random statements on ``t``; keys are never given twice."""

    def __init__(self, m: Mirroring, chance: random.Random, *, compact: bool) -> None:
        self._m = m
        self._chance = chance
        self._ids = itertools.count(1)
        self._kinds: list[Callable[[], None]] = [
            self.insert, self.insert, self.update, self.update, self.delete, self.merge, self.overwrite, self.drop,
            self.swap, *([self.compact] if compact else []),
        ]  # fmt: skip

    def some(self) -> None:
        """One of them."""
        self._chance.choice(self._kinds)()

    def _rows(self) -> str:
        rows = [
            f"({next(self._ids)}, '{self._chance.choice('abc')}', {self._chance.randrange(100)}, "
            f"{self._chance.randrange(3)})"
            for _ in range(self._chance.randint(1, 6))
        ]
        return ", ".join(rows)

    def insert(self) -> None:
        self._m.sql(f"INSERT INTO t VALUES {self._rows()}")

    def update(self) -> None:
        self._m.sql(f"UPDATE t SET n = n + 1, s = 'u' WHERE pmod(id, {self._chance.randint(2, 5)}) = 1")

    def delete(self) -> None:
        self._m.sql(f"DELETE FROM t WHERE pmod(id, {self._chance.randint(3, 9)}) = 2")

    def merge(self) -> None:
        self._m.sql(
            f"MERGE INTO t USING (SELECT {next(self._ids)} AS id UNION ALL SELECT {self._chance.randint(1, 20)}) s "
            "ON t.id = s.id WHEN MATCHED AND t.n > 50 THEN DELETE WHEN MATCHED THEN UPDATE SET s = 'm' "
            f"WHEN NOT MATCHED THEN INSERT VALUES (s.id + {1000 * next(self._ids)}, 'i', 0, 1)"
        )

    def overwrite(self) -> None:
        p = self._chance.randrange(3)
        self._m.sql(f"INSERT OVERWRITE TABLE t PARTITION (p = {p}) SELECT id, 'o', n FROM t WHERE p = {p} AND n < 70")

    def drop(self) -> None:
        self._m.sql(f"ALTER TABLE t DROP IF EXISTS PARTITION (p = {self._chance.randrange(3)})")

    def swap(self) -> None:
        there = {int(partition.values[0]) for partition in self._m.client.catalog.list_partitions("default.t")}
        one, other = self._chance.sample(range(3), 2)
        if {one, other} <= there:
            for old, new in ((one, 9), (other, one), (9, other)):
                self._m.sql(f"ALTER TABLE t PARTITION (p = {old}) RENAME TO PARTITION (p = {new})")

    def compact(self) -> None:
        for (partition,) in self._m.rows("SELECT DISTINCT p FROM t"):
            self._m.sql(
                f"ALTER TABLE t PARTITION (p = {partition}) COMPACT '{self._chance.choice(('minor', 'major'))}'"
            )
        self._m.engine.run_compactions("w")
        run_cleaner(self._m.client, AnyFilesystem())


@pytest.mark.parametrize("seed", range(3))
def test_mirrors_follow_random_statements(mirroring: Mirroring, mirror_home: Path, seed: int) -> None:
    """After each few statements all mirrors are the table, and a mirror that compaction did not pass has followed."""
    m, chance = mirroring, random.Random(seed)
    targets = {f"iceberg:ice.random.k{seed}": ["id"], f"iceberg:sq.random.r{seed}": [],
               f"delta:{mirror_home}/random/r{seed}": []}  # fmt: skip
    m.sql(f"CREATE TABLE t (id int, s string, n int) PARTITIONED BY (p int) {ACID}")
    statements = Statements(m, chance, compact=seed == 2)
    for round_ in range(ROUNDS):
        statements.insert()
        for _ in range(STATEMENTS):
            statements.some()
        rows = sorted(map(tuple, m.rows("SELECT id, s, n, p FROM t")), key=str)
        for target, key in targets.items():
            report = m.run(target, key)
            assert report.todo == "follow" or round_ == 0 or seed == 2, report.reason
            assert m.in_target(target, "id, s, n, p") == rows, (round_, target, report)
    for target in targets:
        m.same(target)
