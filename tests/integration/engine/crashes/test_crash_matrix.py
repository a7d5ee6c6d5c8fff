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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.settings import Settings, Source
from tests.integration.engine.crashes.crashing import Killed, Process, effects_counted, lose_power, sizes
from tests.integration.engine.crashes.statements import (
    ACID,
    PLAIN,
    REFUSED,
    check_exported,
    contents,
    engine_of,
    strays,
)
from tests.integration.engine.crashes.statements import CASES as STATEMENTS
from tests.integration.engine.transactions.carried import CARRIED, batch_contents, check_compacted, check_dump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.engine.crashes.statements import Case

pytestmark = [pytest.mark.rule("R4"), pytest.mark.rule("R14"), pytest.mark.rule("R17"), pytest.mark.every_database]

SETTINGS = {
    "hive.compactor.abortedtxn.threshold": "0", "hive.lock.numretries": "2",
    "hive.lock.sleep.between.retries": "10ms", "hive.repl.parallel.copy.tasks": "1",
}  # fmt: skip
MOST = 160
CASES = (*STATEMENTS, *CARRIED)


class World:
    """One metastore and warehouse; every cell has a database of its own in it."""

    def __init__(self, url: str, warehouse: str) -> None:
        self.url, self.warehouse = url, warehouse
        self.client = self.connect()
        self.client.catalog.set_warehouse(warehouse)
        self.root = Path(warehouse.removeprefix("file://"))
        self.exports = Path(f"{self.root}-exports")
        self.exports.mkdir(parents=True)
        self.numbers = 0

    def connect(self) -> MetastoreClient:
        return MetastoreClient(self.url, Settings({Source.CONNECTION: SETTINGS}))

    def new_database(self, case: Case) -> str:
        self.numbers += 1
        database = f"d{self.numbers}"
        with engine_of(self.client, self.warehouse, "seed", case) as engine:
            engine.run(f"CREATE DATABASE {database};" + self.text(case.setup, database))
        return database

    def text(self, sql: str, database: str) -> str:
        return sql.replace("{d}", database).replace("{root}", self.warehouse)

    def run(self, case: Case, database: str) -> None:
        """One try of the statement, by a client of its own."""
        with self.connect() as client, engine_of(client, self.warehouse, "new", case) as engine:
            if case.program is not None:
                case.program(engine, database)
            else:
                engine.run(self.text(case.statement, database), once=Once(("matrix", database), "1"))

    def end_the_dead(self) -> None:
        """Time-outs pass, and the reaper has its turn."""
        with self.client.database.transaction() as connection:
            connection.execute(sa.update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1))
        report = run_reaper(self.client, AnyFilesystem())
        assert not report.problems, report
        assert not report.alive, report

    def maintain(self) -> None:
        """One pass."""
        self.end_the_dead()
        with self.client.database.transaction() as connection:
            connection.execute(sa.update(TXNS).values(TXN_STARTED=TXNS.c.TXN_STARTED - 1000))
        run_cleaner(self.client, AnyFilesystem())

    def check(self, case: Case, database: str) -> None:
        if case.gone:
            assert database not in self.client.catalog.list_databases()
        else:
            seen = batch_contents if case.batched else contents
            assert seen(self.client, database) == case.after
            said = self.client.catalog.get_table(f"{database}.t").properties if case.properties else {}
            assert {key: said.get(key) for key in case.properties} == case.properties
        check_dump(case, self.root, database)
        check_exported(case, self.exports, database)
        assert self.client.show_locks() == []
        assert [row for row in self.client.show_transactions() if row.state.value == "o"] == []
        assert strays(self.client, database, self.root) == []
        # Temporary tables lie in the database default.
        assert [path for path in self.root.glob("_tmp_*") if path.is_dir()] == []
        if case.batched:
            check_compacted(case, self.client, database)

    def close(self) -> None:
        self.client.close()


@pytest.fixture
def world(metastore_url: str, warehouse: str, monkeypatch: Any) -> Iterator[World]:
    world = World(metastore_url, warehouse)
    with effects_counted(monkeypatch):
        yield world
    world.close()


def cell(world: World, case: Case, stop: int, *, sleeps: bool, power: bool = False) -> tuple[str | None, int]:
    """One cell; where it stopped, None behind the last effect, and how often B had to wait for the reaper.

    :param power: it is killed because the machine loses its power: what A has not synced is lost.
    """
    database = world.new_database(case)
    before = sizes(world.root) | sizes(world.exports)
    first = Process(lambda: world.run(case, database), stop, sleeps=sleeps)
    first.start()
    where = f"{case.name}, {'asleep' if sleeps else 'killed'} in front of effect {stop}, behind {first.done[-3:]}"
    waited = 0
    if power:
        lose_power(world.root, before, first)
        lose_power(world.exports, before, first)
    if not first.stopped and first.failure is not None:
        raise AssertionError(where) from first.failure
    try:
        world.run(case, database)
    except HiveAcidError:
        # What it holds is released when it is silent for too long; the task is tried once more then.
        waited = 1
        world.end_the_dead()
        try:
            world.run(case, database)
        except HiveAcidError as failure:
            raise AssertionError(where) from failure
    if sleeps:
        first.wake()
        assert not isinstance(first.failure, Killed)
    try:
        world.maintain()
        world.check(case, database)
    except (AssertionError, HiveAcidError, OSError) as failure:
        raise AssertionError(where) from failure
    return (where if first.stopped else None), waited


def effects_of(world: World, case: Case) -> Process:
    """A process that has run a statement to its end, undisturbed."""
    database = world.new_database(case)
    tried = Process(lambda: world.run(case, database))
    tried.start()
    assert tried.failure is None, tried.failure
    return tried


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every statement killed and asleep, or in the small form one after the other by turns; so, too, its database."""
    if "sleeps" in metafunc.fixturenames:
        asked = metafunc.config.getoption
        whole = asked("--crashes-every") > 0
        both = whole or asked("--every-database") or asked("--backend")
        taken = [
            pytest.param(
                case,
                sleeps,
                id=f"{case.name.replace(' ', '-')}-{'asleep' if sleeps else 'killed'}",
                marks=() if both else pytest.mark.backends(("sqlite", "postgresql")[number // 2 % 2]),
            )
            for number, case in enumerate(CASES)
            for sleeps in (False, True)
            if whole or sleeps == bool(number % 2)
        ]
        metafunc.parametrize(("case", "sleeps"), taken)


def stops(every: int, case: Case, *, sleeps: bool) -> range:
    """In front of which effects a statement is stopped; in the small form of one, another for each statement."""
    number = CASES.index(case)
    if not every:
        one = 1 + 5 * number % 11
        return range(one, one + 1)
    return range((number + 3 * sleeps) % every + 1, MOST, every)


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
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
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
    for stop in of_files if whole else of_files[1::3]:
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
    for stop in range(1, len(tried.done) + 1, 1 if whole else 6):
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
