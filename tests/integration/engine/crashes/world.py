"""What the cells of a crash matrix share: a metastore and a warehouse, in which each cell has a database of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.settings import Settings, Source
from tests.integration.engine.crashes.crashing import Killed, Process, lose_power, sizes
from tests.integration.engine.crashes.statements import CASES as STATEMENTS
from tests.integration.engine.crashes.statements import check_exported, contents, engine_of, strays
from tests.integration.engine.transactions.carried import CARRIED, batch_contents, check_compacted, check_dump

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.engine import JobLauncher
    from tests.integration.engine.crashes.statements import Case, LabelledSpark

SETTINGS = {
    "hive.compactor.abortedtxn.threshold": "0", "hive.lock.numretries": "2",
    "hive.lock.sleep.between.retries": "10ms", "hive.repl.parallel.copy.tasks": "1",
}  # fmt: skip
MOST = 160
CASES = (*STATEMENTS, *CARRIED)


class World:
    """One metastore and warehouse; every cell has a database of its own in it.

    :param launcher_of: what a try of the statement starts its jobs with, which are those of this Spark.
    """

    def __init__(
        self, url: str, warehouse: str, launcher_of: Callable[[LabelledSpark], JobLauncher] = lambda spark: spark
    ) -> None:
        self.url, self.warehouse, self.launcher_of = url, warehouse, launcher_of
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
        with self.connect() as client, engine_of(client, self.warehouse, "new", case, self.launcher_of) as engine:
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


def stops(every: int, case: Case, *, sleeps: bool) -> range:
    """In front of which effects a statement is stopped; in the small form of one, another for each statement."""
    number = CASES.index(case)
    if not every:
        one = 1 + 5 * number % 11
        return range(one, one + 1)
    return range((number + 3 * sleeps) % every + 1, MOST, every)
