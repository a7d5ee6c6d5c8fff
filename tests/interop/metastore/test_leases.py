"""Leases beside a real Hive: its writers wait for ours, its reaper leaves them alone, and a grab waits for its writers.

Hive knows nothing of leases; what it sees is their mirror in HIVE_LOCKS (R6, R7).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import LeaseAlreadyExistsError
from airflow_hive_acid.metastore.database.codes import LockState, LockType
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient
    from tests.interop.hive import Hive

pytestmark = pytest.mark.interop

ACID = "stored as orc tblproperties ('transactional'='true')"
SECONDS = 60


@pytest.fixture
def table(hive: Hive, hive_database: str, client: MetastoreClient) -> str:
    """A table of Hive's with two rows, in a metastore that has our tables, too."""
    client.upgrade_schema()
    name = f"{hive_database}.t"
    hive.run(f"create table {name} (id int, name string) {ACID}")
    hive.run(f"insert into {name} values (1, 'a'), (2, 'b')")
    return name


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {SECONDS} s in vain until {what}"
        time.sleep(0.05)


def waiting(client: MetastoreClient, table: str) -> list[LockType]:
    """Modes of the locks that are wanted and not granted."""
    return [row.type for row in client.show_locks(table) if row.state is LockState.WAITING]


@pytest.mark.rule("R7")
@pytest.mark.parametrize("kind", ["x", "s"])
def test_hives_writers_wait_for_a_lease_its_readers_do_not_and_its_reaper_leaves_it(
    hive: Hive, client: MetastoreClient, table: str, kind: str
) -> None:
    """
    t1  we lease the table
    t2                        Hive inserts: SHARED_WRITE waits
    t3                        Hive reads
    t4  the lease was taken an hour ago, and lasts for another ten minutes
    t5                        Hive's reaper passes
    t6  we drop the lease
    t7                        Hive is granted and commits
    """
    lease = client.leases.grab_lease(table, 3600 + 600, lease_type=kind)
    inserting = hive.submit(f"insert into {table} values (3, 'c')", "writer")
    until(lambda: waiting(client, table), "Hive waits")
    assert hive.run(f"select count(*) from {table}") == [(2,)]
    with client.database.transaction() as connection:
        mine = HIVE_LOCKS.c.HL_TXNID == 0
        connection.execute(
            sa.update(HIVE_LOCKS)
            .where(mine)
            .values(
                HL_LAST_HEARTBEAT=HIVE_LOCKS.c.HL_LAST_HEARTBEAT - 3_600_000,
                HL_ACQUIRED_AT=HIVE_LOCKS.c.HL_ACQUIRED_AT - 3_600_000,
            )
        )
    hive.housekeeping()
    assert client.leases.confirm_lease(lease)
    assert not inserting.done()
    client.leases.drop_lease(lease)
    inserting.result()
    assert hive.run(f"select count(*) from {table}") == [(3,)]


@pytest.mark.rule("R6")
def test_the_holder_passes_hives_writer_that_waits_for_the_lease(
    hive: Hive, client: MetastoreClient, table: str
) -> None:
    """
    t1  we lease the table
    t2                        Hive drops it: EXCLUSIVE waits for the lease
    t3  we write: behind Hive in the queue, and before it all the same
    t4  we drop the lease
    t5                        Hive is granted, the table is gone
    """
    lease = client.leases.grab_lease(table, 600)
    dropping = hive.submit(f"drop table {table}", "writer")
    until(lambda: waiting(client, table), "Hive waits")
    with client.transaction({table: "insert"}, lease=lease) as txn:
        assert txn.write_ids[table] == 2
        assert not dropping.done()
    client.leases.drop_lease(lease)
    assert dropping.result() == []


@pytest.mark.rule("R7")
def test_a_grab_waits_for_hives_writer(hive: Hive, client: MetastoreClient, table: str) -> None:
    """
    t1                        Hive inserts, in a transaction that stays open
    t2  we want a lease: wait
    t3                        Hive commits
    t4  we are granted
    """
    hive.begin("writer")
    hive.run(f"insert into {table} values (3, 'c')", "writer")
    with pytest.raises(LeaseAlreadyExistsError, match="writes"):
        client.leases.grab_lease(table, 60)
    with ThreadPoolExecutor(1) as beside:
        grabbing = beside.submit(client.leases.grab_lease, table, 60, SECONDS)
        until(lambda: waiting(client, table), "we wait")
        assert not grabbing.done()
        hive.commit("writer")
        lease = grabbing.result(SECONDS)
    client.leases.drop_lease(lease)
    assert hive.run(f"select count(*) from {table}") == [(3,)]


@pytest.mark.rule("R7")
def test_a_lease_that_ended_stops_hive_until_our_reapers_pass(hive: Hive, client: MetastoreClient, table: str) -> None:
    client.leases.grab_lease(table, 0.5)
    inserting = hive.submit(f"insert into {table} values (3, 'c')", "writer")
    until(lambda: client.housekeeping.expire_leases(), "the lease has ended")
    inserting.result()
    assert hive.run(f"select count(*) from {table}") == [(3,)]
