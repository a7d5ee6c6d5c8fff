"""The simulation finds nothing in the product, and finds what is put in.

``make simulate SEEDS=0-9999`` runs more; a failing seed prints the smallest plan that still fails and its last steps.
"""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from airflow_hive_acid.engine.statements import scripts
from airflow_hive_acid.engine.transactions.claims import UNCLAIMED, Unclaimed
from airflow_hive_acid.maintenance.cleaner import subject
from airflow_hive_acid.maintenance.warehouse import fences
from airflow_hive_acid.metastore.compaction.horizon import RegisteredReaders, read_horizon
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.protocol import begin as beginning
from airflow_hive_acid.metastore.protocol import transaction
from airflow_hive_acid.metastore.txns import commits
from airflow_hive_acid.metastore.txns.history import MAX_ID

from .database import BUSY_MS, Metastore
from .plan import Op, Plan, Trouble, smallest
from .scheduler import START_MS, Process, Scheduler
from .world import make_template, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.compaction.horizon import Horizon
    from airflow_hive_acid.metastore.database.database import Features
    from airflow_hive_acid.metastore.txns.commits import CommitHooks

    from .world import Report

SEEDS = [1, 2, *(pytest.param(seed, marks=pytest.mark.repeats("another seed of make simulate")) for seed in (0, 3))]

SQL_SEEDS = [
    5,
    7,
    *(pytest.param(seed, marks=pytest.mark.repeats("another seed of make simulate-sql")) for seed in (3, 9)),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("simulation") / "template.db"
    make_template(path)
    return path


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def run(template: Path, tmp_path: Path) -> Callable[[Plan], Report]:
    return lambda plan: simulate(plan, template, tmp_path / "metastore.db")


@pytest.mark.rule("R4")
@pytest.mark.rule("R10")
@pytest.mark.rule("R17")
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_dies_stops_or_fails_no_row_is_lost_and_none_comes_back(
    run: Callable[[Plan], Report], seed: int
) -> None:
    report = run(Plan.of(seed))
    assert report.failure is None, f"make simulate SEEDS={seed}\n{Plan.of(seed)}\n{report.failure}"
    assert report.checks > 100


@pytest.mark.rule("R8")
@pytest.mark.rule("R14")
@pytest.mark.parametrize("seed", SQL_SEEDS)
def test_statements_that_are_tried_again_are_applied_once(run: Callable[[Plan], Report], seed: int) -> None:
    report = run(Plan.of(seed, sql=True))
    assert report.failure is None, f"make simulate-sql SEEDS={seed}\n{Plan.of(seed, sql=True)}\n{report.failure}"
    assert report.checks > 100


@pytest.mark.parametrize("clients", [(("insert", "update"), ("insert", "compact"), ("read",)), (("sql shared",),)])
def test_a_seed_is_always_the_same_run(run: Callable[[Plan], Report], clients: tuple[tuple[str, ...], ...]) -> None:
    plan = replace(_plan(3, 1, *clients), retries=True)
    assert run(plan) == run(plan)


def _no_fence(*_: Any, **__: Any) -> bool:
    return True


def _no_readers(connection: Connection, features: Features, gap_timeout_ms: int) -> Horizon:
    """As if nothing was open."""
    horizon = read_horizon(connection, features, gap_timeout_ms)
    return replace(horizon, watermark=horizon.open_txns.high_watermark + 1, min_seen_open=MAX_ID)


def _nobody(*_: Any) -> RegisteredReaders:
    return RegisteredReaders()


def _no_pins(*_: Any) -> list[Any]:
    return []


def _no_conflict(*_: Any) -> None:
    return None


def _unclaimed(*_: Any) -> Unclaimed:
    return UNCLAIMED


def _no_lease(_: Any, hooks: CommitHooks) -> CommitHooks:
    return hooks


def _tried_again(seed: int, pauses: float, kinds: tuple[str, ...], troubles: tuple[Trouble, ...]) -> Plan:
    """Two tasks, which Airflow starts again when they are dead or stopped."""
    return replace(_plan(seed, pauses, kinds, kinds, troubles=troubles), retries=True)


def _plan(seed: int, pauses: float, *clients: tuple[str, ...], troubles: tuple[Trouble, ...] = ()) -> Plan:
    dice = random.Random(seed)
    ops = tuple(tuple(Op(kind, dice.getrandbits(32), pauses) for kind in kinds) for kinds in clients)
    return Plan(seed, ops, troubles)


WRITING = ("insert", "update", "update", "insert", "update")
ASKING = ("insert", "compact") * 6
PINNING = ("insert", "pin", "pin", "pin")
READING = ("insert", "read", "read", "read", "read")
STOPPED = tuple(Trouble(step, "freeze", step, 900_000) for step in range(150, 1500, 50))
PUT_IN: dict[str, tuple[list[tuple[Any, str, Any]], Callable[[int], Plan]]] = {
    "fences that fence nothing (R4)": (
        [(fences, "fence_staging", _no_fence)],
        lambda seed: _plan(seed, 0, WRITING, WRITING, WRITING, troubles=STOPPED),
    ),
    "changes of one row that do not see each other (R2)": (
        [(commits, "first_conflict", _no_conflict), (beginning, "early_conflict", _no_conflict)],
        lambda seed: _plan(seed, 0, WRITING, WRITING, WRITING),
    ),
    "a Cleaner that knows of no reader (R10)": (
        [(subject, "read_horizon", _no_readers), (subject, "read_registered", _nobody)],
        lambda seed: _plan(seed + 6, 20, ASKING, ASKING, READING, READING),  # before that no reader is met
    ),
    "tries that know nothing of each other (R14)": (
        [(scripts, "take", _unclaimed)],
        lambda seed: _tried_again(seed, 1, ("sql insert",) * 4, STOPPED),
    ),
    "commits that do not ask for their lease (R8)": (
        [(transaction, "commit_hooks", _no_lease)],
        lambda seed: _tried_again(seed, 20, ("sql lease",) * 4, ()),
    ),
    "a Cleaner that knows of no pin (decision 32)": (
        [(subject, "pins_on", _no_pins)],
        lambda seed: _plan(seed, 20, ASKING, ASKING, PINNING, PINNING),
    ),
}


@pytest.mark.parametrize("name", PUT_IN)
def test_a_fault_that_is_put_in_is_found(run: Callable[[Plan], Report], name: str) -> None:
    broken, plan = PUT_IN[name]
    with contextlib.ExitStack() as stack:
        for module, function, instead in broken:
            stack.enter_context(mock.patch.object(module, function, instead))
        failures = (run(plan(seed)).failure for seed in range(20))
        found = next((failure for failure in failures if failure is not None), None)
    assert found is not None
    assert "Violated" in found


def test_who_waits_too_long_for_the_database_tries_again_as_with_a_real_sqlite(template: Path, tmp_path: Path) -> None:
    path = tmp_path / "metastore.db"
    shutil.copy(template, path)
    scheduler = Scheduler(random.Random(1), 1000)
    metastore = Metastore(path, scheduler, {})
    holder, waiter = (metastore.client(Process(name)) for name in ("holder", "waiter"))
    done: list[int] = []

    def hold() -> None:
        with holder.database.transaction():
            scheduler.sleep(BUSY_MS / 1000 + 10)

    scheduler.spawn("holder", Process("holder"), hold)
    scheduler.spawn("waiter", Process("waiter"), lambda: done.append(waiter.database.run(now_ms)))
    began = time.monotonic()
    scheduler.run()
    for client in (holder, waiter):
        client.close()
    metastore.close()
    assert len(done) == 1
    assert done[0] - START_MS > BUSY_MS
    assert time.monotonic() - began < 5  # the pauses between its tries are the world's, too


def test_a_failing_plan_is_made_smaller() -> None:
    plan = Plan.of(11)
    op = plan.clients[1][0]

    def fails(candidate: Plan) -> bool:
        return op in candidate.clients[1]

    small = smallest(plan, fails)
    assert small.clients == ((), (op,), (), (), ())
    assert small.troubles == ()
