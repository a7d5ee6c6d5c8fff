"""Random programs of DML on our engine, and on the plain Python model of the tests with Hive: the rows are the same.

``--programs N`` runs the programs of the seeds 0 … N-1 (``make test-programs-long``: 200). A failure prints its text.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind as Outcome
from tests.examples import examples, random_programs
from tests.interop.programs import Clean, Compact, Program, program

if TYPE_CHECKING:
    from airflow_hive_acid.engine import Engine
    from airflow_hive_acid.metastore import MetastoreClient
    from tests.interop.conditions import Record
    from tests.interop.programs import Step

pytestmark = [pytest.mark.crossing("random programs of DML"), pytest.mark.spark]

#: One for each kind of table, four in make test-all; the long target runs 200.
FEW = examples(16)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    random_programs(metafunc, FEW)


def test_a_random_program_leaves_what_the_model_says(real_engine: Engine, client: MetastoreClient, seed: int) -> None:
    written = program(seed)
    table = f"programs.t{seed}"
    real_engine.run(
        f"CREATE DATABASE programs; CREATE TABLE {table} {written.kind.value} STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    rows: list[Record] = []
    for number, (_, step) in enumerate(written.steps, 1):
        before = f"step {number} of seed {seed}:\n{Program(written.kind, written.steps[:number]).text()}"
        _do(real_engine, client, table, step)
        rows = step.after(rows)
        if isinstance(step, Clean) and number < len(written.steps):
            continue
        found = real_engine.query(f"SELECT * FROM {table}").rows  # noqa: S608 - the table is ours
        expected = [tuple(row[name] for name in written.kind.columns) for row in rows]
        assert sorted(map(tuple, found), key=repr) == sorted(expected, key=repr), before
    assert client.show_locks() == []


def _do(engine: Engine, client: MetastoreClient, table: str, step: Step) -> None:
    if isinstance(step, Clean):
        _clean(client)
        return
    if not isinstance(step, Compact):
        engine.run(step.sql(table))
        return
    (answer,) = engine.run(step.sql(table))[-1].rows.to_dicts()
    if not answer["accepted"]:
        # A second one before the Cleaner has been there is refused, as in Hive.
        assert answer["state"] == "ready for cleaning", answer
        _clean(client)
        engine.run(step.sql(table))
    outcomes = engine.run_compactions("programs")
    assert all(outcome.kind is not Outcome.FAILED for outcome in outcomes), outcomes


def _clean(client: MetastoreClient) -> None:
    """Let the Cleaner look until nothing waits: right after a commit a txn may still appear."""
    deadline = time.monotonic() + 60
    while any(outcome.kind is Outcome.WAITING for outcome in run_cleaner(client, AnyFilesystem())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
