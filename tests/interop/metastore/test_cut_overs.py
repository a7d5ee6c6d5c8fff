"""A real Hive beside a cut-over: its writers wait for the lock that stands for the new primary, its readers pass.

The mirror's own job is made up (``tests/mirror`` has it for real): what counts is what Hive meets in the metastore.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import MirrorDivergedError
from airflow_hive_acid.metastore.database.codes import LockState, LockType
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.mirrors.cut_over import cut_over, retire, take_back
from airflow_hive_acid.mirrors.runner import run_mirror
from tests.integration.mirrors.conftest import TARGET, MirrorJob

from .test_leases import ACID, until, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.mirrors.reports import MirrorReport
    from tests.interop.hive import Hive

pytestmark = pytest.mark.interop


class Mirrored:
    """A table of Hive's with two rows, and its mirror."""

    def __init__(self, hive: Hive, client: MetastoreClient, engine: Engine, table: str) -> None:
        self.hive, self.client, self.engine, self.table = hive, client, engine, table
        hive.run(f"create table {table} (id int, name string) {ACID}")
        hive.run(f"insert into {table} values (1, 'a'), (2, 'b')")

    def opened(self) -> contextlib.AbstractContextManager[Engine]:
        return contextlib.nullcontext(self.engine)

    def run(self, key: list[str] | None = None) -> MirrorReport:
        return run_mirror(self.client, self.opened, self.table, TARGET, key=key)

    def names(self) -> list[str]:
        return [row[0] for row in self.hive.run(f"select name from {self.table} order by id")]


@pytest.fixture
def mirrored(hive: Hive, client: MetastoreClient, hive_database: str) -> Iterator[Mirrored]:
    """The mirror has what Hive has inserted."""
    client.upgrade_schema()
    with Engine(client, MirrorJob(), hive.warehouse.as_uri()) as engine:
        found = Mirrored(hive, client, engine, f"{hive_database}.t")
        assert (found.run(["id"]).todo, found.run().write_id) == ("bootstrap", 1)
        yield found


def test_a_hive_waits_until_the_table_is_taken_back_and_its_mirror_follows_what_it_writes(mirrored: Mirrored) -> None:
    """
    t1  we cut over
    t2                 Hive inserts, or updates, and waits
    t3                 Hive reads
    t4                 Hive's reaper passes
    t5  we take back
    t6                 Hive is granted and commits
    t7  the mirror follows

    One writer at a time: an update of Hive's beside an insert of Hive's fails now and then by itself, with nothing but
    Hive's own files in the table ("Bucket ID out of range: -1").
    """
    m = mirrored
    m.hive.run(f"update {m.table} set name = 'B' where id = 2")
    names = ["a", "B"]
    for change, then in (
        (f"insert into {m.table} values (3, 'c')", ["a", "B", "c"]),
        (f"update {m.table} set name = 'A' where id = 1", ["A", "B", "c"]),
    ):
        verified = cut_over(m.client, m.opened, m.table, TARGET)
        assert m.client.catalog.get_table(m.table).properties["hive.acid.primary"] == TARGET
        writing = m.hive.submit(change, "writer")
        until(lambda: len(waiting(m.client, m.table)) == 1, "Hive's writer waits")
        assert m.names() == names
        m.hive.housekeeping()
        assert len(waiting(m.client, m.table)) == 1
        assert not writing.done()
        (lock,) = [row for row in m.client.show_locks(m.table) if row.state is LockState.ACQUIRED]
        assert (lock.type, lock.agent_info) == (LockType.EXCL_WRITE, f"handed over to {TARGET}")
        take_back(m.client, m.opened, m.table, TARGET)
        writing.result()
        names = then
        assert m.names() == names
        after = m.run()
        newest = m.client.get_valid_write_ids([m.table])[m.table].high_watermark
        assert (after.todo, after.write_id, after.write_id > verified.write_id) == ("bootstrap", newest, True)
    m.hive.run(f"insert into {m.table} values (4, 'd')")
    assert m.run().write_id == newest + 1


def test_a_hive_that_gives_up_has_written_nothing(mirrored: Mirrored) -> None:
    m = mirrored
    cut_over(m.client, m.opened, m.table, TARGET)
    writing = m.hive.submit(f"insert into {m.table} values (3, 'c')", "writer")
    until(lambda: waiting(m.client, m.table), "Hive waits")
    (lock,) = [row for row in m.client.show_locks(m.table) if row.state is LockState.WAITING]
    m.client.abort_txn(lock.txn_id)
    with pytest.raises(Exception, match=r"(?i)abort|lock|txn"):
        writing.result()
    assert m.names() == ["a", "b"]
    take_back(m.client, m.opened, m.table, TARGET)


def test_nothing_is_locked_when_the_table_has_been_retired(mirrored: Mirrored) -> None:
    """A writer of Hive's that had waited is granted when the lock goes: its write is not dropped unseen."""
    m = mirrored
    cut_over(m.client, m.opened, m.table, TARGET)
    writing = m.hive.submit(f"insert into {m.table} values (3, 'c')", "writer")
    until(lambda: waiting(m.client, m.table), "Hive waits")
    with pytest.raises(MirrorDivergedError, match="was not dropped"):
        retire(m.client, m.opened, m.table, TARGET)
    writing.result()
    assert m.names() == ["a", "b", "c"]
    cut_over(m.client, m.opened, m.table, TARGET)
    retire(m.client, m.opened, m.table, TARGET)
    name = table_name(m.table)
    assert m.hive.run(f"show tables in {name.database}") == []
    assert m.client.show_locks(m.table) == []
    assert (m.client.mirrors.list(m.table), m.client.leases.list_lease()) == ([], [])
    m.hive.run(f"create table {m.table} (id int, name string) {ACID}")
    m.hive.run(f"insert into {m.table} values (5, 'e')")
    assert m.names() == ["e"]
