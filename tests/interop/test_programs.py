"""Random programs on one table, each step done by us or by Hive: after each, both read what the model says.

``--programs N`` runs the programs of the seeds 0 … N-1 (``make test-interop-long``). A failure prints its program.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind as Outcome
from tests.examples import random_programs

from .hive import HiveError, RowId
from .programs import Clean, Compact, Program, Side, Step, program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient

    from .conditions import Record
    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]

#: Programs of `make test-interop`.
FEW = 40
#: So many programs run at the same time: while one waits for Hive, Spark has work from another.
AT_ONCE = 2
CLEANER_SECONDS = 60
Values = tuple[Any, ...]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    random_programs(metafunc, FEW)


@pytest.fixture(scope="module")
def outcomes(
    hive: Hive, engine: Engine, client: MetastoreClient, request: pytest.FixtureRequest
) -> Iterator[dict[int, Future[None]]]:
    """The programs that were asked for, running; by their seeds."""
    seeds = [item.callspec.params["seed"] for item in request.session.items if _is_of_a_seed(item)]
    hive.run("create database programs")
    turns = _Turns(threading.Lock(), threading.Lock())

    def run(seed: int) -> None:
        _Run(hive, engine, client, f"programs.t{seed}", turns).all_of(seed)

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="program") as pool:
        yield {seed: pool.submit(run, seed) for seed in seeds}
        pool.shutdown(cancel_futures=True)


def _is_of_a_seed(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.module.__name__ == __name__ and "seed" in item.fixturenames


def test_both_sides_read_what_a_random_program_leaves(outcomes: dict[int, Future[None]], seed: int) -> None:
    outcomes[seed].result()


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


def test_only_hive_puts_the_rows_of_other_partitions_into_one_that_it_rebalances(
    hive: Hive, engine: Engine, hive_database: str
) -> None:
    """The query by which Hive 4.1.0 rebalances names the table and not the partition."""
    left = {}
    for name, by_hive in (("theirs", True), ("ours", False)):
        table = f"{hive_database}.{name}"
        engine.run(
            f"CREATE TABLE {table} (id INT) PARTITIONED BY (day INT) STORED AS ORC "
            f"TBLPROPERTIES ('transactional'='true'); INSERT INTO {table} VALUES (1, 10), (2, 20); "
            f"ALTER TABLE {table} PARTITION (day = 10) COMPACT 'rebalance'"
        )
        if by_hive:
            hive.worker(query_based=True)
        else:
            engine.run_compactions("rebalance")
        left[name] = sorted(hive.run(f"select * from {table}"))
    assert left == {"theirs": [(1, 10), (2, 10), (2, 20)], "ours": [(1, 10), (2, 20)]}


def _until(written: Program, number: int) -> str:
    return Program(written.kind, written.steps[:number]).text()


@dataclass(frozen=True)
class _Turns:
    """What only one of the running programs may do.

    :param hive: run a query in Hive: tasks of two queries in one JVM are given each other's input now and then
        ("Invalid input path"), because Tez in local mode shares what Hive keeps per process. Or clean, which is for
        all tables: before it plans a SELECT, Hive adds up the sizes of all files of the table, obsolete ones too, and
        gives up if one of them goes away meanwhile.
    :param compacting: from the request to the end of a compaction, so that the side that asked finds its own.
    """

    hive: threading.Lock
    compacting: threading.Lock


class _Run:
    """One table in the hands of both sides."""

    def __init__(self, hive: Hive, engine: Engine, client: MetastoreClient, table: str, turns: _Turns) -> None:
        self.hive = hive
        self.engine = engine
        self.client = client
        self.table = table
        self.turns = turns

    def all_of(self, seed: int) -> None:
        """A program, with a look at the table after each step."""
        written = program(seed)
        create = f"CREATE TABLE {self.table} {written.kind.value} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        self.by(Side.OURS if seed % 2 else Side.HIVE, create)
        rows: list[Record] = []
        for number, (side, step) in enumerate(written.steps, 1):
            before = f"step {number} of seed {seed}:\n{_until(written, number)}"
            try:
                self.do(side, step)
            except Exception as failure:
                failure.add_note(before)
                raise
            rows = step.after(rows)
            expected = sorted((tuple(row.values()) for row in rows), key=repr)
            ours, theirs = self.read_by_both()
            assert ours == theirs, before
            places = {(row_id, *values[3:]) for row_id, *values in ours}  # the partition, where there are any
            assert len(places) == len(ours), f"ROW__IDs are not unique after {before}"
            assert sorted((tuple(values) for _, *values in ours), key=repr) == expected, before
        self.by(Side.HIVE, f"drop table {self.table}")

    def read_by_both(self) -> tuple[list[Values], list[Values]]:
        """Rows with their ROW__IDs as we and as Hive read them."""
        select = f"SELECT t.row__id, t.* FROM {self.table} t"
        found = self.engine.query(select).rows
        ours = [(RowId(i["writeid"], i["bucketid"], i["rowid"]), *values) for i, *values in found]
        with self.turns.hive:
            answer = self.hive.run(select)
        theirs = [(RowId.parse(i), *values) for i, *values in answer]
        return sorted(ours, key=repr), sorted(theirs, key=repr)

    def by(self, side: Side, sql: str) -> None:
        """A statement by one of the sides.

        :raises InvalidArgumentsError: for a compaction of ours that was not accepted.
        """
        if side is Side.OURS:
            rows = self.engine.run(sql)[-1].rows
            refused = [row["reason"] for row in rows.to_dicts() if row.get("accepted") is False] if rows else []
            if refused:
                raise InvalidArgumentsError("; ".join(refused))
        else:
            with self.turns.hive:
                self.hive.run(sql)

    def do(self, side: Side, step: Step) -> None:
        """A step by one of the sides."""
        if isinstance(step, Clean):
            self._clean(side)
        elif isinstance(step, Compact):
            with self.turns.compacting:
                self._compact(side, step)
        else:
            self.by(side, step.sql(self.table))

    def _compact(self, side: Side, step: Compact) -> None:
        try:
            self.by(side, step.sql(self.table))
        except (HiveError, InvalidArgumentsError) as refusal:
            # Both sides refuse a second one before the Cleaner has been there.
            if "is already scheduled with state='ready for cleaning'" not in str(refusal):
                raise
            self._clean(side)
            self.by(side, step.sql(self.table))
        if side is Side.OURS:
            outcomes = self.engine.run_compactions("programs")
            assert all(outcome.kind is not Outcome.FAILED for outcome in outcomes), outcomes
        else:
            with self.turns.hive:
                self.hive.worker(query_based=step.type == "rebalance")
        for state in ("initiated", "working", "failed"):
            left = [c for c in self.hive.compactions(state) if c.split("/")[0] == self.table]
            assert left == [], f"{state} after {step.sql(self.table)} by {side.value}"

    def _clean(self, side: Side) -> None:
        if side is Side.HIVE:
            with self.turns.hive:
                self.hive.clean(self.table)
            return
        deadline = time.monotonic() + CLEANER_SECONDS
        while any(c.split("/")[0] == self.table for c in self.hive.compactions("ready for cleaning")):
            assert time.monotonic() < deadline, "our Cleaner leaves a compaction that nobody needs"
            time.sleep(0.2)
            with self.turns.hive:
                run_cleaner(self.client, open_filesystem(self.hive.warehouse.as_uri()))
