"""Worker, Cleaner and reaper are killed in front of every change they make; in ``make test`` in front of some of them.

The named points are among them: a compacted base is written and its txn open (c12), the request is marked ready for
cleaning and the txn open (c13), half of the obsolete directories are deleted, and half of one of them (c14).

Whatever has happened until then: nothing visible changes, a pinned reader reads its rows, and after the reaper, another
Worker and the Cleaner have had their turns nothing is lost and nothing is left over.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionState
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS, TXNS
from tests.examples import places
from tests.integration.maintenance.cycles.steps import change, give_back_what_the_dead_hold, pass_time, rows
from tests.integration.maintenance.row_tables import RowTable, compact_rows
from tests.integration.maintenance.worker.killing import run_and_kill

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from tests.integration.maintenance.row_tables import Row

pytestmark = [pytest.mark.rule("R4"), pytest.mark.rule("R17"), pytest.mark.backends("sqlite")]

MOST_CHANGES = 80
EVERY = {"worker": 5, "cleaner": 7, "cleaner-with-trash": 15, "reaper": 15}
"""``make test`` kills in front of each of these changes, ``make test-all`` in front of each."""


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0"}


def work(client: MetastoreClient, fs: Filesystem, worker: str = "dead-1") -> None:
    run_worker(client, fs, partial(compact_rows, fs), worker)


class Life:
    """A table with rows, deleted rows and an aborted write, which one kill after the other is to leave alone."""

    def __init__(self, client: MetastoreClient, fs: Filesystem, warehouse: str, settings: dict[str, str]) -> None:
        self.client, self.fs, self.warehouse, self.settings = client, fs, warehouse, settings
        self.numbers = 0

    def new_table(self) -> tuple[RowTable, set[Row]]:
        self.numbers += 1
        made = self.client.catalog.create_table(
            TableDefinition("default", f"t{self.numbers}", (Column("id", "bigint"),))
        )
        self.fs.make_directory(made.location)
        table = RowTable(self.client, self.fs, made.qualified_name, made.location)
        with table.begin("insert") as txn:
            seen = table.put(txn, 3)
        with table.begin("update") as txn:
            gone = sorted(seen)[:1]
            made_again = table.put(txn, 1, gone)
        return table, (seen - set(gone)) | made_again

    def abort_a_write(self, table: RowTable) -> None:
        txn = table.begin("insert")
        table.put(txn, 2)
        txn.abort("a test")

    def die(self, number: int, service: Callable[[MetastoreClient, Filesystem], object]) -> str | None:
        return run_and_kill(self.client.database.url, self.warehouse, self.settings, number, service)

    def recover(self, table: RowTable, expected: set[Row]) -> None:
        """Time-outs pass, and every service has its turn; twice, because one prepares the other's work."""
        change(self.client, sa.update(TXNS).where(TXNS.c.TXN_STATE == "o", TXNS.c.TXN_HOST == "dead")
               .values(TXN_LAST_HEARTBEAT=1))  # fmt: skip
        for _ in range(2):
            run_reaper(self.client, self.fs)
            give_back_what_the_dead_hold(self.client)
            pass_time(self.client)
            run_cleaner(self.client, self.fs)
            if "base" not in {name.partition("_")[0] for name in table.directories()}:
                self.client.compactions.enqueue(table.name)
            work(self.client, self.fs, "another")
            with self.client.snapshot([table.name]) as now:
                assert table.read(now) == expected
        for _ in range(3):
            pass_time(self.client)
            run_cleaner(self.client, self.fs)


def finished(client: MetastoreClient, table: RowTable) -> list[CompactionState]:
    return [request.state for request in client.compactions.show(table=table.name.partition(".")[2])]


@pytest.mark.parametrize("service", EVERY)
def test_a_service_that_is_killed_anywhere_changes_nothing_visible_and_leaves_nothing_for_ever(
    client: MetastoreClient, fs: Filesystem, warehouse: str, settings: dict[str, str], service: str
) -> None:
    client.catalog.create_database("default", if_not_exists=True)
    if service == "cleaner-with-trash":
        settings = {**settings, "hive.acid.cleaner.trash.dir": f"{warehouse}/.trash"}
    life = Life(client, fs, warehouse, settings)
    for number in places(MOST_CHANGES, EVERY[service]):
        table, expected = life.new_table()
        reader = client.open_snapshot([table.name])
        client.compactions.enqueue(table.name)
        if service == "worker":
            what = life.die(number, work)
        elif service.startswith("cleaner"):
            work(client, fs)
            life.abort_a_write(table)
            reader.close()
            pass_time(client)
            reader = client.open_snapshot([table.name])  # it sees the base
            pass_time(client)
            what = life.die(number, run_cleaner)
        else:
            life.die(17, work)  # somewhere after its job was recorded
            change(client, sa.update(TXNS).where(TXNS.c.TXN_STATE == "o", TXNS.c.TXN_HOST == "dead")
                   .values(TXN_LAST_HEARTBEAT=1))  # fmt: skip
            what = life.die(number, run_reaper)
        assert table.read(reader) == expected, (number, what)
        with client.snapshot([table.name]) as now:
            assert table.read(now) == expected, (number, what)
        life.recover(table, expected)
        assert table.read(reader) == expected, (number, what)
        reader.close()
        for _ in range(3):
            pass_time(client)
            run_cleaner(client, fs)
        assert [name.partition("_")[0] for name in table.directories()] == ["base"], (number, what)
        with client.snapshot([table.name]) as now:
            assert table.read(now) == expected
        assert rows(client, TXN_COMPONENTS) == [], (number, what)
        states = set(finished(client, table))
        assert states <= {CompactionState.SUCCEEDED, CompactionState.FAILED, CompactionState.REFUSED}, (number, what)
        if what is None:
            break
    assert number > 10, "there are fewer changes than there were"
    assert what is None, "there are more changes than were tried"
