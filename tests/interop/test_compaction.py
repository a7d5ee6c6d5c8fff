"""Compaction across the two sides: its compactor over our files, ours over its files; both then read the same rows.

A minor and a major compaction keep the ROW__IDs of all rows; the other side's Cleaner removes what they replaced. One
write of each round is aborted on the writing side and must leave nothing behind.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner

from .hive import RowId

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

    from .hive import Hive, Row

pytestmark = [pytest.mark.interop, pytest.mark.spark]

PROPERTIES = {
    "full": "'transactional'='true'",
    "insert-only": "'transactional'='true', 'transactional_properties'='insert_only'",
}
#: Statements that both sides understand, before each of the compactions.
WRITES = {
    "full": (
        [
            "INSERT INTO {t} VALUES (1, 'tea'), (2, 'jam'), (3, 'rye'), (4, 'oat')",
            "UPDATE {t} SET name = upper(name) WHERE id <= 2",
            "DELETE FROM {t} WHERE id = 3",
        ],
        ["INSERT INTO {t} VALUES (5, 'fig')", "DELETE FROM {t} WHERE id = 1", "UPDATE {t} SET name = 'x' WHERE id = 4"],
    ),
    "insert-only": (
        ["INSERT INTO {t} VALUES (1, 'tea'), (2, 'jam')", "INSERT INTO {t} VALUES (3, 'rye')"],
        ["INSERT INTO {t} VALUES (4, 'oat')", "INSERT INTO {t} VALUES (5, NULL)"],
    ),
}
EXPECTED = {
    "full": ([[1, "TEA"], [2, "JAM"], [4, "oat"]], [[2, "JAM"], [4, "x"], [5, "fig"]]),
    "insert-only": (
        [[1, "tea"], [2, "jam"], [3, "rye"]],
        [[1, "tea"], [2, "jam"], [3, "rye"], [4, "oat"], [5, None]],
    ),
}


class Sides:
    """What each side does with one table."""

    def __init__(self, hive: Hive, engine: Engine, client: MetastoreClient, table: str) -> None:
        self.hive, self.engine, self.client, self.table = hive, engine, client, table

    def write(self, side: str, statement: str) -> None:
        run: Callable[[str], Any] = self.hive.run if side == "hive" else self.engine.run
        run(statement.format(t=self.table))

    def abort(self, side: str) -> None:
        """A write that is given up after its files are in place."""
        insert = f"INSERT INTO {self.table} VALUES (99, 'never')"
        if side == "hive":
            self.hive.begin("aborted")
            self.hive.run(insert, "aborted")
            self.hive.rollback("aborted")
        else:
            self.engine.run(f"BEGIN; {insert}; ROLLBACK")

    def compact(self, side: str, kind: str) -> None:
        if side == "hive":
            self.hive.run(f"alter table {self.table} compact '{kind}'")
            # By its own default reader and writer; those of insert-only tables are SQL in any case.
            self.hive.worker()
            assert self.table in self.hive.compactions("ready for cleaning")
        else:
            self.engine.run(f"ALTER TABLE {self.table} COMPACT '{kind}' AND WAIT")

    def clean(self, side: str) -> None:
        if side == "hive":
            self.hive.clean(self.table)
            return
        deadline = time.monotonic() + 60
        while self.table in self.hive.compactions("ready for cleaning"):
            assert time.monotonic() < deadline, "our Cleaner leaves a compaction that nobody needs"
            time.sleep(0.2)
            run_cleaner(self.client, open_filesystem(self.place().as_uri()))

    def place(self) -> Path:
        database, name = self.table.split(".")
        return self.hive.warehouse / f"{database}.db" / name

    def directories(self) -> list[str]:
        return sorted(path.name.split("_v")[0] for path in self.place().iterdir() if path.is_dir())

    def read(self, kind: str) -> dict[Any, Row]:
        """The rows, after both sides have read the same ones; by ROW__ID where there are any."""
        if kind == "insert-only":
            theirs = sorted((list(row) for row in self.hive.run(f"SELECT * FROM {self.table}")), key=str)
            ours = sorted((list(row) for row in self.engine.query(f"SELECT * FROM {self.table}").rows), key=str)
            assert ours == theirs
            return dict(enumerate(map(tuple, ours)))
        found = self.engine.query(f"SELECT t.row__id, t.* FROM {self.table} t").rows
        by_id = {RowId(i["writeid"], i["bucketid"], i["rowid"]): tuple(row) for i, *row in found}
        assert len(by_id) == len(found)
        assert by_id == self.hive.row_ids(self.table)
        return by_id


@pytest.mark.parametrize("kind", ["full", "insert-only"])
@pytest.mark.parametrize(("writer", "compactor"), [("ours", "hive"), ("hive", "ours")])
def test_each_side_compacts_and_cleans_what_the_other_wrote(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str, writer: str, compactor: str, kind: str
) -> None:
    sides = Sides(hive, engine, client, f"{hive_database}.c_{kind.replace('-', '_')}")
    sides.write(writer, f"CREATE TABLE {{t}} (id int, name string) STORED AS ORC TBLPROPERTIES ({PROPERTIES[kind]})")
    for number, compaction in enumerate(("minor", "major")):
        for statement in WRITES[kind][number]:
            sides.write(writer, statement)
        sides.abort(writer)
        before = sides.read(kind)
        assert sorted((list(row) for row in before.values()), key=str) == EXPECTED[kind][number]
        sides.compact(compactor, compaction)
        assert sides.read(kind) == before
        sides.clean(writer)
        assert sides.read(kind) == before
    mark = client.compactions.show(database=hive_database)[0].highest_write_id or 0
    # The last write was aborted: we name the base by the mark, Hive's default compactor by the last delta it has read.
    named = mark - 1 if (compactor, kind) == ("hive", "full") else mark
    assert [name for name in sides.directories() if not name.startswith("_tmp")] == [f"base_{named:07d}"]
    sides.write(compactor, "INSERT INTO {t} VALUES (7, 'end')")
    assert len(sides.read(kind)) == len(EXPECTED[kind][1]) + 1
