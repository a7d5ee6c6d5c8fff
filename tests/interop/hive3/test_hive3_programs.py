"""Random programs on one table, each step done by us or by a Hive 3.1.3: after each, both read what a model says.

``--programs N`` runs the programs of the seeds 0 … N-1. A failure prints its program.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import SchemaVersionError
from tests.examples import random_programs
from tests.interop.hive3.hive3 import Hive3Error

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient
    from tests.interop.hive3.hive3 import Hive3

pytestmark = [pytest.mark.interop, pytest.mark.spark]

FEW, STEPS, IDS = 6, 7, 9
DAYS = ("mon", "tue", "a b")
Row = tuple[int, str, str]
"""Id, name and day."""


@dataclass(frozen=True)
class Step:
    """What is done, by whom.

    :param sql: the statement, with the table as {t}; for a compaction its kind.
    """

    side: str
    sql: str
    after: frozenset[Row]

    def __str__(self) -> str:
        return f"{self.side}: {self.sql}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    random_programs(metafunc, FEW)


def program(seed: int) -> list[Step]:
    """The steps of a seed, and the rows after each."""
    choose = random.Random(seed)
    rows: dict[int, tuple[str, str]] = {}
    steps = []
    for number in range(STEPS):
        side = choose.choice(("ours", "hive"))
        kind = (
            "insert" if number == 0 else choose.choice(("insert", "insert", "update", "delete", "compact", "overwrite"))
        )
        if kind == "insert":
            new = [i for i in choose.sample(range(IDS), 3) if i not in rows] or [number + IDS]
            for i in new:
                rows[i] = (f"n{number}", choose.choice(DAYS))
            sql = "INSERT INTO {t} VALUES " + ", ".join(f"({i}, '{rows[i][0]}', '{rows[i][1]}')" for i in new)
        elif kind == "update":
            remainder = choose.randrange(2)
            for i, (name, day) in rows.items():
                if i % 2 == remainder:
                    rows[i] = (name + "u", day)
            sql = f"UPDATE {{t}} SET name = concat(name, 'u') WHERE id % 2 = {remainder}"
        elif kind == "delete":
            bound = choose.randrange(IDS)
            for i in [i for i in rows if i < bound and i % 3 == 0]:
                del rows[i]
            sql = f"DELETE FROM {{t}} WHERE id < {bound} AND id % 3 = 0"
        elif kind == "overwrite":
            sql = "INSERT OVERWRITE TABLE {t} SELECT id, concat(name, 'o'), day FROM {t}"
            for i, (name, day) in rows.items():
                rows[i] = (name + "o", day)
        else:
            sql = choose.choice(("major", "minor"))
        steps.append(Step(side, sql, frozenset((i, *rest) for i, rest in rows.items())))
    return steps


def test_both_read_what_a_random_program_leaves(
    hive: Hive3, client: MetastoreClient, engine: Engine, seed: int
) -> None:
    steps = program(seed)
    hive.run("create database if not exists programs")
    table = f"programs.t{seed}"
    create = (
        f"CREATE TABLE {table} (id int, name string, day string) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    if seed % 2:
        hive.run(create)
    else:
        engine.run(create)
    for number, step in enumerate(steps):
        done = "\n".join(map(str, steps[: number + 1]))
        if step.sql in ("major", "minor"):
            if step.side == "ours" and step.sql == "minor":
                with pytest.raises(SchemaVersionError, match=r"a minor compaction of .* Ask for a major one"):
                    engine.run(f"ALTER TABLE {table} COMPACT 'minor'")
            if step.side == "ours" and step.sql == "major":
                engine.run(f"ALTER TABLE {table} COMPACT 'major'")
            else:
                hive.run(f"alter table {table} compact '{step.sql}'")
            for _ in range(2):  # its Cleaner first notes the locks there are, then looks whether they are gone
                hive.ask("worker")
                hive.ask("cleaner")
            assert not [line for line in hive.ask("compactions") if "initiated" in line or "failed" in line], done
        elif step.side == "ours":
            engine.run(step.sql.format(t=table))
        else:
            hive.run(step.sql.format(t=table))
        ours = frozenset(map(tuple, engine.query(f"SELECT id, name, day FROM {table}").rows))
        try:
            found = hive.run(f"select id, name, day from {table}")
        except Hive3Error as error:
            if step.sql != "minor" or "Two readers for" not in str(error):
                raise
            found = None  # its own fault, of a table that nobody else has touched, too: see test_hive3_tables.py
        if found is None:
            assert ours == step.after, done
            return
        theirs = frozenset((int(i), name, day) for i, name, day in found)
        assert (theirs, ours) == (step.after, step.after), done
