"""Partitions whose names need escapes, beside a real Hive: locks, conflicts, clean-up, the Initiator and DROP.

A Hive 4.1 spells them twice escaped in HIVE_LOCKS and in the components of static partitions, once everywhere else.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import LeaseAlreadyExistsError, WriteConflictError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.format.partitions import escaped_twice, partition_name
from airflow_hive_acid.maintenance import run_cleaner, run_initiator, run_reaper
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, TXN_COMPONENTS, TXNS, WRITE_SET
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.hive import Hive

pytestmark = pytest.mark.interop

HOSTILE = ["a b", "it's", 'q"q', "100%", "a/b", "a=b", "a:b", "é", ".a", "a ", "a%2Fb", "{x}^"]
LOCKED = ["it's", "100%", "a/b", "a%2Fb"]
SECONDS = 60


def of(value: str) -> str:
    return partition_name([("ds", value)])


def quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {SECONDS} s in vain until {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def ours(hive: Hive) -> Iterator[MetastoreClient]:
    """Our client, for whom one aborted write is too many; its txns grow old as slowly as Hive's."""
    given = {"hive.compactor.abortedtxn.threshold": "0", "hive.compactor.delta.num.threshold": "1",
             "hive.acid.lease.mirror": "on"}  # fmt: skip
    with MetastoreClient(hive.metastore_url, Settings({Source.CONNECTION: given})) as client:
        client.upgrade_schema()
        yield client


@pytest.fixture
def table(hive: Hive, hive_database: str) -> str:
    name = f"{hive_database}.t"
    hive.run(f"create table {name} (a int) partitioned by (ds string) stored as orc "
             "tblproperties ('transactional'='true')")  # fmt: skip
    return name


def column(client: MetastoreClient, wanted: sa.Column[str]) -> set[str | None]:
    with client.database.reading() as connection:
        return set(connection.execute(sa.select(wanted)).scalars())


def cleaned(client: MetastoreClient, hive: Hive) -> None:
    """Let our Cleaner and our reaper do what there is to do."""
    until(lambda: not _clean_once(client, hive), "the Cleaner finds nothing more to do")
    run_reaper(client, open_filesystem(hive.warehouse.as_uri()))


def _clean_once(client: MetastoreClient, hive: Hive) -> bool:
    run_cleaner(client, open_filesystem(hive.warehouse.as_uri()))
    return bool(column(client, TXN_COMPONENTS.c.TC_PARTITION))


@pytest.mark.rule("R4")
def test_aborted_rows_of_a_hive_stay_hidden_when_our_cleaner_and_reaper_have_passed(
    hive: Hive, ours: MetastoreClient, table: str
) -> None:
    """
    t1                        Hive inserts into static partitions, commits; inserts again, rolls back
    t2  our Cleaner and our reaper forget what was aborted
    t3                        Hive reads what it had committed, and nothing else
    """
    for number, value in enumerate(HOSTILE):
        hive.run(f"insert into {table} partition (ds={quoted(value)}) values ({number})")
    hive.begin("dying")
    for value in [*HOSTILE, "never/added"]:
        hive.run(f"insert into {table} partition (ds={quoted(value)}) values (99)", "dying")
    hive.rollback("dying")
    spelled = column(ours, TXN_COMPONENTS.c.TC_PARTITION)
    assert spelled == {escaped_twice(of(value)) for value in [*HOSTILE, "never/added"]}
    aborted = [row.txn_id for row in ours.show_transactions() if row.state.value == "a"]
    cleaned(ours, hive)
    assert len(aborted) == 1
    assert column(ours, TXN_COMPONENTS.c.TC_PARTITION) == set()
    assert sorted(hive.run(f"select a, ds from {table}")) == list(enumerate(HOSTILE))
    location = hive.warehouse / f"{table.partition('.')[0]}.db" / "t"
    left = {path.parent.name: path.name for path in location.glob("*/delta_*")}
    assert len(left) == len(HOSTILE)
    assert sum(1 for _ in location.glob("*/delta_*")) == len(HOSTILE)


@pytest.mark.rule("R4")
def test_aborted_rows_of_ours_stay_hidden_when_hives_cleaner_has_passed(
    hive: Hive, ours: MetastoreClient, table: str
) -> None:
    """
    t1  we insert into partitions that exist, and abort
    t2                        Hive compacts them, and its Cleaner passes: what it forgets is gone
    """
    for number, value in enumerate(HOSTILE):
        hive.run(f"insert into {table} partition (ds={quoted(value)}) values ({number})")
    txn = ours.begin({table: "insert"}, partitioned=[table])
    write_id = txn.write_ids[table]
    location = hive.warehouse / f"{table.partition('.')[0]}.db" / "t"
    for value in HOSTILE:
        (delta,) = (location / of(value)).glob("delta_*")
        copy = delta.parent / f"delta_{write_id:07d}_{write_id:07d}_0000"
        copy.mkdir()
        for file in delta.iterdir():
            if not file.name.startswith("."):
                (copy / file.name).write_bytes(file.read_bytes())
    ours.add_partitions(txn.txn_id, table, [of(value) for value in HOSTILE])
    txn.abort("a test")
    for value in ("a/b", "a%2Fb"):
        hive.run(f"alter table {table} partition (ds={quoted(value)}) compact 'major'")
        hive.worker()
    hive.clean(table)
    hive.housekeeping()
    assert sorted(hive.run(f"select a, ds from {table}")) == list(enumerate(HOSTILE))
    left = column(ours, TXN_COMPONENTS.c.TC_PARTITION)
    assert {of(value) for value in HOSTILE} - left <= {of("a/b"), of("a%2Fb")}
    cleaned(ours, hive)
    assert sorted(hive.run(f"select a, ds from {table}")) == list(enumerate(HOSTILE))


def test_locks_of_both_engines_meet(hive: Hive, ours: MetastoreClient, table: str) -> None:
    """
    t1                        Hive writes static partitions in an open transaction
    t2  we ask for each of them, and wait; a lease on it is refused; another partition is granted
    t3                        Hive rolls back: we are granted
    t4                        Hive overwrites one, and drops one: it waits for us
    """
    database, _, name = table.partition(".")
    for value in LOCKED:
        hive.run(f"alter table {table} add partition (ds={quoted(value)})")
    hive.begin("writer")
    for value in LOCKED:
        hive.run(f"insert into {table} partition (ds={quoted(value)}) values (1)", "writer")
    assert column(ours, HIVE_LOCKS.c.HL_PARTITION) == {escaped_twice(of(value)) for value in LOCKED}
    asked = []
    for value in LOCKED:
        component = LockComponent(database, name, of(value), LockType.EXCL_WRITE, Operation.NO_TXN)
        asked.append(ours.lock(component))
        with pytest.raises(LeaseAlreadyExistsError):
            ours.leases.grab_lease(f"{table}/{of(value)}", 60)
    assert {response.state for response in asked} == {LockState.WAITING}
    free = ours.lock(LockComponent(database, name, "ds=free", LockType.EXCL_WRITE, Operation.NO_TXN))
    assert free.state is LockState.ACQUIRED
    hive.rollback("writer")
    assert {ours.check_lock(response.lock_id).state for response in asked} == {LockState.ACQUIRED}
    assert sorted(str(row.partition) for row in ours.show_locks(table)) == sorted([*map(of, LOCKED), "ds=free"])
    waiting = {
        "overwriter": f"insert overwrite table {table} partition (ds='a/b') values (2)",
        "dropper": f"alter table {table} drop partition (ds={quoted('a%2Fb')})",
    }
    running = [hive.submit(statement, session) for session, statement in waiting.items()]
    until(lambda: len([r for r in ours.show_locks(table) if r.state is LockState.WAITING]) >= 2, "Hive waits for us")
    assert not any(each.done() for each in running)
    for response in (*asked, free):
        ours.unlock(response.lock_id)
    for each in running:
        each.result()
    assert sorted(hive.run(f"select a, ds from {table}")) == [(2, "a/b")]


@pytest.mark.rule("R7")
def test_hives_writers_wait_for_a_lease_on_a_partition(hive: Hive, ours: MetastoreClient, table: str) -> None:
    """
    t1  we lease a partition, spelled by its value's escapes
    t2                        Hive inserts into it: waits; into the one that is called as that is spelled: does not
    t3  we drop the lease: Hive is granted
    """
    hive.run(f"alter table {table} add partition (ds='a/b') partition (ds={quoted('a%2Fb')})")
    lease = ours.leases.grab_lease(f"{table}/DS=a%2fb", 600)
    assert lease.objects[0].partition_name == of("a/b")
    inserting = hive.submit(f"insert into {table} partition (ds='a/b') values (1)", "waiter")
    until(lambda: [r for r in ours.show_locks(table) if r.state is LockState.WAITING], "Hive waits for the lease")
    hive.run(f"insert into {table} partition (ds={quoted('a%2Fb')}) values (2)")
    assert not inserting.done()
    ours.leases.drop_lease(lease)
    inserting.result()
    assert sorted(hive.run(f"select a, ds from {table}")) == [(1, "a/b"), (2, "a%2Fb")]


@pytest.mark.parametrize("statement", ["insert overwrite table {t} partition (ds='a/b') values (7)",
                                       "update {t} set a = 8 where ds = 'a/b'"])  # fmt: skip
def test_a_change_by_hive_is_a_conflict_of_ours_and_ours_is_recorded_for_it(
    hive: Hive, ours: MetastoreClient, table: str, statement: str
) -> None:
    """
    t1  we begin
    t2                        Hive changes the partition, and commits
    t3  we change it, too: refused. Later we change it alone: Hive finds that under both of its names
    """
    hive.run(f"insert into {table} partition (ds='a/b') values (1)")
    mine = ours.begin({table: "update"}, partitioned=[table])
    with ours.database.transaction() as connection:  # our lock on the table would let nobody pass
        connection.execute(sa.delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID == mine.txn_id))
    hive.run(statement.format(t=table))
    mine.add_partitions(table, [of("a/b")])
    with pytest.raises(WriteConflictError):
        mine.commit()
    with ours.begin({table: "update"}, partitioned=[table]) as txn:
        txn.add_partitions(table, [of("a/b")])
    with ours.database.reading() as connection:
        mine_recorded = sa.select(WRITE_SET.c.WS_PARTITION).where(WRITE_SET.c.WS_TXNID == txn.txn_id)
        assert set(connection.execute(mine_recorded).scalars()) == {of("a/b"), escaped_twice(of("a/b"))}
        assert connection.execute(sa.select(sa.func.count()).select_from(TXNS)).scalar_one() > 0


def test_our_initiator_compacts_what_hive_writes_into_static_partitions(
    hive: Hive, ours: MetastoreClient, table: str
) -> None:
    for value in ("a/b", "a%2Fb", "100%"):
        for _ in range(2):
            hive.run(f"insert into {table} partition (ds={quoted(value)}) values (1)")
    found = {}

    def decided() -> bool:
        decisions = run_initiator(ours, open_filesystem(hive.warehouse.as_uri()))
        found.update({d.resource.partition: d.kind for d in decisions if str(d.resource.table_name) == table})
        return bool(found)

    until(decided, "the Initiator has looked")
    assert found.keys() == {of("a/b"), of("a%2Fb"), of("100%")}
    assert set(found.values()) <= {Kind.MINOR, Kind.MAJOR}
    hive.worker()
    assert len(hive.compactions("ready for cleaning")) == 1  # a Hive knows the partition that we ask for


def test_what_hive_remembers_of_a_partition_goes_with_our_drop(hive: Hive, ours: MetastoreClient, table: str) -> None:
    hive.run(f"insert into {table} partition (ds='a/b') values (1)")
    ours.catalog.drop_partition(table, of("a/b"))
    decisions = run_initiator(ours, open_filesystem(hive.warehouse.as_uri()))
    assert [d for d in decisions if str(d.resource.table_name) == table] == []
