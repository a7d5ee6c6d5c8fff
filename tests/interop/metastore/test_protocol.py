"""One metastore, two transaction managers: locks, aborts, conflicts and time-outs of each hold for the other.

Nothing here looks at data files: what both sides keep in the metastore's tables is the subject. The metastore is as
Hive's scripts made it: transactions need no table of ours.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import NoSuchTxnError, TxnAbortedError, WriteConflictError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.maintenance.reaper.reaper import run_reaper
from airflow_hive_acid.metastore.database.codes import LockState, LockType, TxnState
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS, TXN_TO_WRITE_ID, TXNS
from tests.interop.hive import HiveError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.metastore import MetastoreClient, Transaction
    from tests.interop.hive import Hive

pytestmark = pytest.mark.interop

ACID = "stored as orc tblproperties ('transactional'='true')"
SECONDS = 60


@pytest.fixture
def table(hive: Hive, hive_database: str) -> str:
    """An unpartitioned table of Hive's with two rows."""
    name = f"{hive_database}.t"
    hive.run(f"create table {name} (id int, name string) {ACID}")
    hive.run(f"insert into {name} values (1, 'a'), (2, 'b')")
    return name


@pytest.fixture
def partitioned(hive: Hive, hive_database: str) -> str:
    """A table of Hive's with partitions x and y."""
    name = f"{hive_database}.p"
    hive.run(f"create table {name} (id int, name string) partitioned by (ds string) {ACID}")
    hive.run(f"insert into {name} values (1, 'a', 'x'), (2, 'b', 'y')")
    return name


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    """Runs what has to wait, beside the test."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield pool


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {SECONDS} s in vain until {what}"
        time.sleep(0.05)


def waiting(client: MetastoreClient, table: str) -> list[LockType]:
    """Modes of the locks that are wanted and not granted."""
    return [row.type for row in client.show_locks(table) if row.state is LockState.WAITING]


def silence(client: MetastoreClient, txn_id: int) -> None:
    """Make a txn's last heartbeat ten minutes old."""
    with client.database.engine.begin() as connection:
        connection.execute(
            sa.update(TXNS)
            .where(TXNS.c.TXN_ID == txn_id)
            .values(TXN_LAST_HEARTBEAT=TXNS.c.TXN_LAST_HEARTBEAT - 600_000)
        )


# --- locks ------------------------------------------------------------------------------------------------------


def test_hive_waits_for_our_reader_before_it_drops_the_table(hive: Hive, client: MetastoreClient, table: str) -> None:
    """
    t1  we read: SHARED_READ
    t2                        Hive drops: EXCLUSIVE waits
    t3  we let go
    t4                        Hive is granted, the table is gone
    """
    with client.snapshot([table]):
        dropping = hive.submit(f"drop table {table}")
        until(lambda: waiting(client, table), "Hive waits")
        assert waiting(client, table) == [LockType.EXCLUSIVE]
        assert not dropping.done()
    assert dropping.result() == []
    assert hive.run(f"show tables in {table.split('.')[0]}") == []


def test_hive_waits_for_our_writer_before_it_overwrites_the_table(
    hive: Hive, client: MetastoreClient, table: str
) -> None:
    """
    t1  we insert: SHARED_WRITE
    t2                        Hive overwrites: EXCL_WRITE waits
    t3  we commit
    t4                        Hive is granted and commits
    """
    with client.transaction({table: "insert"}):
        overwriting = hive.submit(f"insert overwrite table {table} select 7, 'z'")
        until(lambda: waiting(client, table), "Hive waits")
        assert waiting(client, table) == [LockType.EXCL_WRITE]
        assert not overwriting.done()
    overwriting.result()
    assert hive.run(f"select * from {table}") == [(7, "z")]


@pytest.mark.rule("R2")
def test_our_writer_waits_for_hives_exclusive_writer_and_is_not_doomed_by_it(
    hive: Hive, client: MetastoreClient, table: str, beside: ThreadPoolExecutor
) -> None:
    """
    t1                        Hive (hive.txn.xlock.write) updates: EXCL_WRITE
    t2  we update: SHARED_WRITE waits
    t3                        Hive commits
    t4  we are granted, see Hive's write id, and commit
    """
    hive.run("set hive.txn.xlock.write=true", "exclusive")
    hive.begin("exclusive")
    hive.run(f"update {table} set name = 'hive' where id = 1", "exclusive")
    beginning = beside.submit(client.begin, {table: "update"})
    until(lambda: waiting(client, table), "we wait")
    assert waiting(client, table) == [LockType.SHARED_WRITE]
    hive.commit("exclusive")
    ours = beginning.result(SECONDS)
    assert ours.snapshot[table].is_valid(2)
    assert ours.write_ids[table] == 3
    ours.commit()


def test_our_exclusive_lock_stops_hives_reader_at_once(hive: Hive, client: MetastoreClient, table: str) -> None:
    """Hive 4.1 does not wait with a read for an EXCLUSIVE lock."""
    with client.exclusive([table]), pytest.raises(HiveError, match="Unable to acquire read lock due to an existing"):
        hive.run(f"select * from {table}")
    assert len(hive.run(f"select * from {table}")) == 2


def test_readers_and_shared_writers_of_both_sides_do_not_wait(hive: Hive, client: MetastoreClient, table: str) -> None:
    hive.begin("writer")
    hive.run(f"insert into {table} values (3, 'c')", "writer")
    with client.transaction({table: "insert"}) as ours, client.snapshot([table]) as snapshot:
        assert len(hive.run(f"select * from {table}")) == 2
        assert ours.write_ids[table] == 3
        assert [w for w in (1, 2, 3) if snapshot.snapshot[table].is_valid(w)] == [1]
    hive.commit("writer")


def test_show_locks_and_show_transactions_of_both_sides_agree(hive: Hive, client: MetastoreClient, table: str) -> None:
    database, name = table.split(".")
    hive.begin("writer")
    hive.run(f"insert into {table} values (3, 'c')", "writer")
    with client.transaction({table: "update"}, agent_info="dag/run/task/1") as ours:
        _, *rows = hive.run("show locks")
        theirs = {
            (row[0], row[4], row[6], int(row[7]), row[10], row[12]) for row in rows if row[1:3] == (database, name)
        }
        assert theirs == {
            (row.id, row.state.name, row.type.name, row.txn_id, row.user, row.agent_info)
            for row in client.show_locks(table)
        }
        assert {(state, mode) for _, state, mode, *_ in theirs} == {("ACQUIRED", "SHARED_WRITE")}
        assert "dag/run/task/1" in {agent for *_, agent in theirs}
        _, *shown = hive.run("show transactions")
        assert str(ours.txn_id) in {row[0] for row in shown}
        assert {int(row[0]) for row in shown} == {row.txn_id for row in client.show_transactions()}
    hive.commit("writer")


# --- snapshots and aborts ---------------------------------------------------------------------------------------


def test_both_sides_give_the_same_lists(hive: Hive, client: MetastoreClient, table: str) -> None:
    """Open and aborted transactions of each side, in the text forms of txn list, reader's and compactor's write ids."""
    aborted = client.begin({table: "insert"})
    aborted.abort()
    hive.begin("open")
    hive.run(f"insert into {table} values (3, 'c')", "open")
    with client.transaction({table: "insert"}), client.snapshot([table]):
        hive.run(f"insert into {table} values (4, 'd')")
        theirs = hive.snapshot(table)
        assert str(client.get_valid_txns()) == theirs.txns
        ours = client.get_valid_write_ids([table])[table]
        assert str(ours) == theirs.reader[table]
        assert str(ours) == f"{table}:5:3:3,4:2"
        assert str(ours.for_compactor()) == theirs.compactor[table]
    hive.rollback("open")
    theirs = hive.snapshot(table)
    assert str(client.get_valid_write_ids([table])[table]) == theirs.reader[table]
    assert theirs.reader[table] == f"{table}:5:{2**63 - 1}::2,3"


def test_hive_reads_past_what_we_aborted_or_have_not_committed(hive: Hive, client: MetastoreClient, table: str) -> None:
    before = hive.row_ids(table)
    ours = client.begin({table: "update"})
    assert hive.row_ids(table) == before
    ours.abort()
    assert hive.row_ids(table) == before
    hive.run(f"update {table} set name = 'B' where id = 2")
    assert sorted(hive.run(f"select * from {table}")) == [(1, "a"), (2, "B")]


def test_we_notice_that_hive_aborted_our_transaction(hive: Hive, client: MetastoreClient, table: str) -> None:
    ours = client.begin({table: "update"})
    hive.run(f"abort transactions {ours.txn_id}")
    with pytest.raises(TxnAbortedError, match=str(ours.txn_id)):
        ours.heartbeat()
    with pytest.raises(TxnAbortedError, match=str(ours.txn_id)):
        ours.commit()
    assert client.show_locks(table) == []


def test_hive_notices_that_we_aborted_its_transaction(hive: Hive, client: MetastoreClient, table: str) -> None:
    hive.begin("victim")
    hive.run(f"insert into {table} values (3, 'c')", "victim")
    (lock,) = client.show_locks(table)
    client.abort_txn(lock.txn_id)
    with pytest.raises(HiveError, match="abort"):
        hive.commit("victim")
    assert sorted(hive.run(f"select * from {table}")) == [(1, "a"), (2, "b")]


def test_hives_reaper_aborts_our_transaction_when_it_falls_silent(
    hive: Hive, client: MetastoreClient, table: str
) -> None:
    silent, alive = client.begin({table: "insert"}), client.begin({table: "insert"})
    silence(client, silent.txn_id)
    hive.housekeeping()
    with pytest.raises(TxnAbortedError):
        silent.heartbeat()
    alive.heartbeat()
    alive.commit()
    states = {row.txn_id: row.state for row in client.show_transactions()}
    assert states[silent.txn_id] is TxnState.ABORTED


def test_our_reaper_aborts_hives_transaction_when_it_falls_silent(
    hive: Hive, client: MetastoreClient, table: str
) -> None:
    client.upgrade_schema()  # the reaper keeps its own records
    hive.begin("silent")
    hive.run(f"insert into {table} values (3, 'c')", "silent")
    (lock,) = client.show_locks(table)
    silence(client, lock.txn_id)
    report = run_reaper(client, open_filesystem(hive.warehouse.as_uri()))
    assert report.aborted == (lock.txn_id,)
    with pytest.raises(HiveError, match="abort"):
        hive.commit("silent")
    assert client.show_locks(table) == []


# --- write conflicts --------------------------------------------------------------------------------------------


def test_our_commit_is_refused_when_hive_changed_the_table_first(
    hive: Hive, client: MetastoreClient, table: str
) -> None:
    """
    t1  we begin an update
    t2                        Hive updates and commits
    t3  we commit: refused, and Hive's transaction is named
    """
    ours = client.begin({table: "update"})
    hive.run(f"update {table} set name = 'hive' where id = 1")
    theirs = client.get_valid_txns().high_watermark
    with pytest.raises(WriteConflictError, match=rf"\b{theirs}\b"):
        ours.commit()
    with pytest.raises(TxnAbortedError):
        ours.heartbeat()


def test_hives_commit_is_refused_when_we_changed_the_table_first(
    hive: Hive, client: MetastoreClient, table: str
) -> None:
    """
    t1                        Hive begins an update
    t2  we update and commit
    t3                        Hive commits: refused
    """
    hive.begin("late")
    hive.run(f"update {table} set name = 'hive' where id = 1", "late")
    with client.transaction({table: "update"}) as ours:
        pass
    with pytest.raises(HiveError, match=rf"write conflict on {table.replace('.', '/')} committed by.*:{ours.txn_id},"):
        hive.commit("late")
    assert sorted(hive.run(f"select * from {table}")) == [(1, "a"), (2, "b")]


@pytest.mark.rule("R12")
def test_changes_of_different_partitions_do_not_conflict(hive: Hive, client: MetastoreClient, partitioned: str) -> None:
    ours = client.begin({partitioned: "update"}, partitioned=[partitioned])
    hive.run(f"update {partitioned} set name = 'hive' where ds = 'x'")
    ours.add_partitions(partitioned, ["ds=y"])
    ours.commit()
    hive.begin("late")
    hive.run(f"update {partitioned} set name = 'hive' where ds = 'y'", "late")
    with client.transaction({partitioned: "update"}, partitioned=[partitioned]) as ours:
        ours.add_partitions(partitioned, ["ds=x"])
    hive.commit("late")
    assert sorted(hive.run(f"select name, ds from {partitioned}")) == [("hive", "x"), ("hive", "y")]


@pytest.mark.rule("R12")
def test_changes_of_one_partition_conflict_whoever_is_first(
    hive: Hive, client: MetastoreClient, partitioned: str
) -> None:
    def begin() -> Transaction:
        ours = client.begin({partitioned: "update"}, partitioned=[partitioned])
        ours.add_partitions(partitioned, ["ds=x"])
        return ours

    ours = begin()
    hive.run(f"update {partitioned} set name = 'hive' where ds = 'x'")
    with pytest.raises(WriteConflictError, match="ds=x"):
        ours.commit()
    hive.begin("late")
    hive.run(f"delete from {partitioned} where ds = 'x'", "late")
    begin().commit()
    with pytest.raises(HiveError, match="write conflict"):
        hive.commit("late")


def test_hive_and_we_may_insert_at_the_same_time(hive: Hive, client: MetastoreClient, table: str) -> None:
    hive.begin("writer")
    hive.run(f"insert into {table} values (3, 'c')", "writer")
    with client.transaction({table: "insert"}) as ours:
        assert ours.write_ids[table] == 3
    hive.commit("writer")
    assert hive.snapshot(table).reader[table] == f"{table}:3:{2**63 - 1}::"


def test_both_sides_at_work_at_once_never_share_an_id(
    hive: Hive, client: MetastoreClient, table: str, beside: ThreadPoolExecutor
) -> None:
    """Two threads of ours and two sessions of Hive's insert as fast as they can: no error, no write id twice."""

    def insert_often(times: int) -> list[tuple[int, int]]:
        found = []
        for _ in range(times):
            with client.transaction({table: "insert"}) as ours:
                found.append((ours.txn_id, ours.write_ids[table]))
        return found

    ours = [beside.submit(insert_often, 30) for _ in range(2)]
    theirs = [hive.submit(f"insert into {table} values (9, 'x')", f"at work {n}") for n in (1, 2) for _ in range(3)]
    for statement in theirs:
        statement.result()
    pairs = [pair for future in ours for pair in future.result(SECONDS)]
    assert len({txn for txn, _ in pairs}) == len({write_id for _, write_id in pairs}) == 60
    assert hive.snapshot(table).reader[table] == f"{table}:67:{2**63 - 1}::"  # 1 before, 60 of ours, 6 of Hive's
    assert str(client.get_valid_write_ids(table)[table]) == hive.snapshot(table).reader[table]
    assert len(hive.run(f"select * from {table} where id = 9")) == 6


# --- what is left behind ----------------------------------------------------------------------------------------


@pytest.mark.rule("R1")
def test_hives_housekeeping_forgets_our_transactions_as_its_own(
    hive: Hive, client: MetastoreClient, table: str
) -> None:
    """Committed ones leave no row behind; an aborted one stays as long as its write id may still have files."""
    with client.transaction({table: "insert"}) as committed:
        pass
    aborted = client.begin({table: "insert"})
    aborted.abort()

    def known(column: sa.Column[int]) -> set[int]:
        with client.database.engine.connect() as connection:
            found = connection.execute(sa.select(column)).scalars()
            return {txn_id for txn_id in found if txn_id in (committed.txn_id, aborted.txn_id)}

    client.open_txn()  # housekeeping always leaves the newest row
    until(lambda: hive.housekeeping() or committed.txn_id not in known(TXNS.c.TXN_ID), "the committed one is gone")
    assert known(TXNS.c.TXN_ID) == {aborted.txn_id}
    assert known(TXN_COMPONENTS.c.TC_TXNID) == {aborted.txn_id}
    assert aborted.txn_id in known(TXN_TO_WRITE_ID.c.T2W_TXNID)
    client.commit_txn(committed.txn_id)  # again is no error, if only its completed component is left
    with pytest.raises((TxnAbortedError, NoSuchTxnError)):
        client.heartbeat(aborted.txn_id)
