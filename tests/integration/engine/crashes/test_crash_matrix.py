"""The crash and zombie matrix: each statement is stopped in front of each of its effects, and tried again.

    t1  A runs the statement, stops in front of effect n: killed, or asleep
    t2              B runs it under the same key (R14), with what A left behind
    t3  A, if it only slept, wakes up and does what it was about to do
    t4                          one pass of reaper and Cleaner

Then readers see what they would have seen had it been run once, no txn is open, nothing is locked and no stray file
lies anywhere. ``make test`` takes one cell of each statement, ``make test-crashes`` all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.maintenance import run_reaper
from tests.integration.engine.crashes.crashing import Process, effects_counted
from tests.integration.engine.crashes.statements import ACID, PLAIN, REFUSED, contents, engine_of, strays
from tests.integration.engine.crashes.world import CASES, World, cell, effects_of, stops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.engine.crashes.statements import Case

pytestmark = [pytest.mark.rule("R4"), pytest.mark.rule("R14"), pytest.mark.rule("R17")]


@pytest.fixture
def world(metastore_url: str, warehouse: str, monkeypatch: Any) -> Iterator[World]:
    world = World(metastore_url, warehouse)
    with effects_counted(monkeypatch):
        yield world
    world.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every statement killed and asleep, or in the small form by turns; and then some of them on PostgreSQL."""
    if "sleeps" in metafunc.fixturenames:
        asked = metafunc.config.getoption
        whole = asked("--crashes-every") > 0
        both = whole or asked("--every-database") or asked("--backend")
        taken = [
            pytest.param(
                case,
                sleeps,
                id=f"{case.name.replace(' ', '-')}-{'asleep' if sleeps else 'killed'}",
                marks=() if both else pytest.mark.backends("postgresql" if number % 8 in (2, 3) else "sqlite"),
            )
            for number, case in enumerate(CASES)
            for sleeps in (False, True)
            if whole or sleeps == bool(number % 2)
        ]
        metafunc.parametrize(("case", "sleeps"), taken)
    elif "case" in metafunc.fixturenames:
        # Killed and asleep they are all of them.
        other = pytest.mark.repeats("power that is lost, at another statement")
        whole = metafunc.config.getoption("--crashes-every") > 0
        taken = [
            pytest.param(case, id=case.name.replace(" ", "-"), marks=other if number % 3 and not whole else ())
            for number, case in enumerate(CASES)
        ]
        metafunc.parametrize("case", taken)


@pytest.mark.backends("sqlite", "postgresql")
def test_a_statement_is_applied_once_wherever_a_try_of_it_has_stopped(
    world: World, case: Case, sleeps: bool, request: pytest.FixtureRequest, record_property: Any
) -> None:
    every = request.config.getoption("--crashes-every")
    run: Counter[str] = Counter()
    for stop in stops(every, case, sleeps=sleeps):
        where, waited = cell(world, case, stop, sleeps=sleeps)
        if where is None:
            break
        run["cells"] += 1
        run["waited for the reaper"] += waited
    assert where is None or not every, "there are more effects than were tried"
    print(f"matrix: {case.name} | {'asleep' if sleeps else 'killed'} | {dict(run)}")  # noqa: T201
    record_property("cells", run["cells"])


@pytest.mark.backends("sqlite")
def test_what_is_committed_survives_a_loss_of_power(
    world: World, case: Case, request: pytest.FixtureRequest, record_property: Any
) -> None:
    """As killed, and the files that A has written and not synced are empty; the database syncs its commits itself."""
    every = request.config.getoption("--crashes-every")
    run: Counter[str] = Counter()
    for stop in stops(every, case, sleeps=True):
        where, _waited = cell(world, case, stop, sleeps=False, power=True)
        if where is None:
            break
        run["cells"] += 1
    assert where is None or not every, "there are more effects than were tried"
    print(f"matrix: {case.name} | without power | {dict(run)}")  # noqa: T201
    record_property("cells", run["cells"])


@pytest.mark.backends("sqlite")
def test_lengths_of_a_batch_are_on_the_disk_before_they_take_the_place_of_those_that_are_relied_on(
    world: World,
) -> None:
    case = next(case for case in CASES if case.name == "batch")
    tried = effects_of(world, case)
    behind = [number + 1 for number, what in enumerate(tried.done, 1) if what.startswith("replace_file")]
    assert behind, tried.done
    for stop in behind:
        cell(world, case, stop, sleeps=False, power=True)


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_once_or_not_at_all_is_refused_before_it_does_anything(world: World, what: str) -> None:
    case = CASES[0]
    database = world.new_database(case)
    done: list[str] = []

    def run() -> None:
        with world.connect() as client, engine_of(client, world.warehouse, "new", case) as engine:
            engine.run(world.text(REFUSED[what], database))

    process = Process(run)
    process.start()
    assert isinstance(process.failure, HiveAcidError), process.failure
    assert process.done == done
    assert contents(world.client, database) == {"t": ["seed:delta"]}


MAKING = ("insert into a new partition", "insert into dynamic partitions", "create table as", "create plain table as")
NEW_PLAIN_PARTITION = "INSERT INTO {d}.t PARTITION (k='b') VALUES (2)"


@pytest.mark.every_database
@pytest.mark.rule("R15")
def test_no_statement_has_a_database_transaction_inside_another_one(world: World) -> None:
    """Ids of new partitions and tables are fetched before the commit that takes them."""
    cases = [case for case in CASES if case.name in MAKING]
    plain = next(case for case in CASES if case.name == "plain overwrite of a partition")
    cases.append(replace(plain, statement=NEW_PLAIN_PARTITION, after={"t": ["k=a seed:files", "k=b new:files"]}))
    for case in cases:
        database = world.new_database(case)
        process = Process(lambda case=case, database=database: world.run(case, database))  # type: ignore[misc]
        process.start()
        assert process.failure is None, case.name
        assert contents(world.client, database) == case.after


NEXT_TABLES = {
    "drop": "CREATE TABLE {d}.t (a INT) {kind}; INSERT INTO {d}.t VALUES (2)",
    "drop plain": "CREATE TABLE {d}.t (a INT) {plain}; INSERT INTO {d}.t VALUES (2)",
    "rename": "CREATE TABLE {d}.t (a INT) {kind}; INSERT INTO {d}.t VALUES (2)",
}


@pytest.mark.parametrize("name", NEXT_TABLES)
def test_what_a_sleeper_does_to_directories_is_not_done_to_the_next_table_of_that_name(
    world: World, name: str, request: pytest.FixtureRequest
) -> None:
    """
    t1  A drops or renames t, falls asleep in front of something it does to files or of its commit
    t2              B does the same, and makes t again, with a row
    t3  A wakes up: the new table keeps its row
    """
    case = next(case for case in CASES if case.name == name)
    tried = effects_of(world, case)
    of_files = [n for n, what in enumerate(tried.done, 1) if not what.startswith("transaction") or "commit" in what]
    assert len(of_files) >= 4, tried.done
    whole = request.config.getoption("--crashes-every") > 0
    for stop in of_files if whole else of_files[1::5]:
        database = world.new_database(case)
        sleeper = Process(lambda database=database: world.run(case, database), stop, sleeps=True)  # type: ignore[misc]
        sleeper.start()
        world.run(case, database)
        again = NEXT_TABLES[name].replace("{kind}", ACID).replace("{plain}", PLAIN)
        with engine_of(world.client, world.warehouse, "next", case) as engine:
            engine.run(world.text(again, database))
        sleeper.wake()
        world.maintain()
        kind = "files" if name == "drop plain" else "delta"
        assert contents(world.client, database) == {**case.after, "t": [f"next:{kind}"]}, (stop, tried.done)
        assert strays(world.client, database, world.root) == []


@pytest.mark.parametrize("name", ["export plain", "export"])
def test_a_sleeper_changes_nothing_in_the_dump_of_the_next_try(
    world: World, name: str, request: pytest.FixtureRequest
) -> None:
    """
    t1  A exports t, and falls asleep
    t2              it is given up; a row is written to t; B exports it
    t3  A wakes up: the dump is what B has left
    """
    case = next(case for case in CASES if case.name == name)
    tried = effects_of(world, case)
    whole = request.config.getoption("--crashes-every") > 0
    for stop in range(1, len(tried.done) + 1, 1 if whole else 9):
        database = world.new_database(case)
        sleeper = Process(lambda database=database: world.run(case, database), stop, sleeps=True)  # type: ignore[misc]
        sleeper.start()
        world.end_the_dead()
        with engine_of(world.client, world.warehouse, "next", case) as engine:
            engine.run(world.text("INSERT INTO {d}.t VALUES (2)", database))
        world.run(case, database)
        place = world.root / "dumps" / database
        before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
        sleeper.wake()
        assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before, (stop, tried.done)
        assert [p.name for p in place.parent.iterdir() if p.name.startswith("_")] == []


def test_what_an_overwrite_could_not_remove_after_its_commit_goes_with_the_next_pass(
    world: World, monkeypatch: Any
) -> None:
    case = next(case for case in CASES if case.name == "plain overwrite")
    database = world.new_database(case)

    def fails(*_: Any, **__: Any) -> None:
        raise PermissionError("the disk is read-only just now")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFilesystem, "delete", fails)
        world.run(case, database)
        assert len(strays(world.client, database, world.root)) == 1
        run_reaper(world.client, AnyFilesystem())
        assert len(strays(world.client, database, world.root)) == 1
    world.maintain()
    world.check(case, database)
