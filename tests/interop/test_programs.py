"""Random programs on one table, each step done by us or by Hive: after each, both read what the model says.

``--programs N`` runs the programs of the seeds 0 … N-1 (``make test-interop-long``). A failure prints its program.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.maintenance.cleaner import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind as Outcome

from .hive import HiveError, RowId
from .programs import Clean, Compact, Program, Side, Step, program

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

    from .conditions import Record
    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

#: Programs of `make test-interop`: what three minutes hold, at 12 s each on two busy cores and 40 s for both starts.
FEW = 12
CLEANER_SECONDS = 60
Values = tuple[Any, ...]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        programs = metafunc.config.getoption("--programs")
        seeds = range(FEW if programs is None else programs)
        metafunc.parametrize("seed", seeds, ids=[f"seed{seed}" for seed in seeds])


def test_both_sides_read_what_a_random_program_leaves(
    hive: Hive, engine: Engine, client: MetastoreClient, hive_database: str, seed: int
) -> None:
    written = program(seed)
    table = f"{hive_database}.t"
    create = f"CREATE TABLE {table} {written.kind.value} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    if seed % 2:
        engine.run(create)
    else:
        hive.run(create)
    run = _Run(hive, engine, client, table)
    rows: list[Record] = []
    for number, (side, step) in enumerate(written.steps, 1):
        before = f"step {number} of seed {seed}:\n{_until(written, number)}"
        try:
            run.do(side, step)
        except Exception as failure:
            failure.add_note(before)
            raise
        rows = step.after(rows)
        expected = sorted((tuple(row.values()) for row in rows), key=repr)
        ours, theirs = run.read_by_both()
        assert ours == theirs, before
        places = {(row_id, *values[3:]) for row_id, *values in ours}  # the partition, where there are any
        assert len(places) == len(ours), f"ROW__IDs are not unique after {before}"
        assert sorted((tuple(values) for _, *values in ours), key=repr) == expected, before
    hive.run(f"drop table {table}")


def test_only_hive_keeps_a_matched_row_from_later_clauses_if_an_earlier_condition_is_unknown(
    hive: Hive, engine: Engine, hive_database: str
) -> None:
    """Hive adds NOT (first condition) to the second clause; by the SQL standard, and with us, the second one counts."""
    table = f"{hive_database}.t"
    hive.run(f"create table {table} (id int, amount int) stored as orc tblproperties ('transactional'='true')")
    merge = (
        f"MERGE INTO {table} t USING (SELECT 1 AS id) s ON t.id = s.id "
        "WHEN MATCHED AND t.amount > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET amount = 0"
    )
    hive.run(f"insert into {table} values (1, null)")
    hive.run(merge)
    assert hive.run(f"select * from {table}") == [(1, None)]
    engine.run(merge)
    assert hive.run(f"select * from {table}") == [(1, 0)]


def _until(written: Program, number: int) -> str:
    return Program(written.kind, written.steps[:number]).text()


class _Run:
    """One table in the hands of both sides."""

    def __init__(self, hive: Hive, engine: Engine, client: MetastoreClient, table: str) -> None:
        self.hive = hive
        self.engine = engine
        self.client = client
        self.table = table

    def read_by_both(self) -> tuple[list[Values], list[Values]]:
        """Rows with their ROW__IDs as we and as Hive read them, both at the same time."""
        select = f"SELECT t.row__id, t.* FROM {self.table} t"
        answer = self.hive.submit(select)
        found = self.engine.query(select).rows
        ours = [(RowId(i["writeid"], i["bucketid"], i["rowid"]), *values) for i, *values in found]
        theirs = [(RowId.parse(i), *values) for i, *values in answer.result()]
        return sorted(ours, key=repr), sorted(theirs, key=repr)

    def do(self, side: Side, step: Step) -> None:
        """A step by one of the sides."""
        if isinstance(step, Clean):
            self._clean(side)
        elif isinstance(step, Compact):
            self._compact(side, step)
        elif side is Side.OURS:
            self.engine.run(step.sql(self.table))
        else:
            self.hive.run(step.sql(self.table))

    def _compact(self, side: Side, step: Compact) -> None:
        try:
            self._request(side, step)
        except (HiveError, InvalidArgumentsError) as refusal:
            # Both sides refuse a second one before the Cleaner has been there.
            if "is already scheduled with state='ready for cleaning'" not in str(refusal):
                raise
            self._clean(side)
            self._request(side, step)
        if side is Side.OURS:
            outcomes = self.engine.run_compactions("programs")
            assert all(outcome.kind is not Outcome.FAILED for outcome in outcomes), outcomes
        else:
            self.hive.worker()
        for state in ("initiated", "working", "failed"):
            left = [c for c in self.hive.compactions(state) if c.split("/")[0] == self.table]
            assert left == [], f"{state} after {step.sql(self.table)} by {side.value}"

    def _request(self, side: Side, step: Compact) -> None:
        if side is Side.OURS:
            self.engine.run(step.sql(self.table))
        else:
            self.hive.run(step.sql(self.table))

    def _clean(self, side: Side) -> None:
        if side is Side.HIVE:
            self.hive.clean(self.table)
            return
        deadline = time.monotonic() + CLEANER_SECONDS
        while any(c.split("/")[0] == self.table for c in self.hive.compactions("ready for cleaning")):
            assert time.monotonic() < deadline, "our Cleaner leaves a compaction that nobody needs"
            time.sleep(0.2)
            run_cleaner(self.client, open_filesystem(self.hive.warehouse.as_uri()))
