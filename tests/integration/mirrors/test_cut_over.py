"""The way over and back: who is kept off the table, by what, and what dies in between."""

from __future__ import annotations

import contextlib
import threading

import pytest
from sqlalchemy import update

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.errors import (
    AlreadyExistsError,
    HandedOverError,
    InvalidArgumentsError,
    LeaseAlreadyExistsError,
    MirrorDivergedError,
    MirrorRefusedError,
    NoSuchLockError,
    NoSuchObjectError,
    TxnOpenError,
)
from airflow_hive_acid.maintenance.reaper.reaper import run_reaper
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS
from airflow_hive_acid.mirrors import cut_over as cut_overs
from airflow_hive_acid.mirrors.cut_over import cut_over, retire, take_back
from airflow_hive_acid.mirrors.listing import COLUMNS, list_mirrors
from airflow_hive_acid.settings import Settings, Source

from .conftest import TARGET

WRITER = LockComponent("w", "t", None, LockType.SHARED_WRITE, Operation.INSERT)
READER = LockComponent("w", "t", None, LockType.SHARED_READ, Operation.SELECT)
INSERT = LockComponent("w", "t", None, LockType.SHARED_READ, Operation.INSERT)
"""As ``hive.txn.xlock.write`` has it, which is a Hive 4.0's default: it waits for no lock but EXCLUSIVE."""


@pytest.fixture
def opened(engine):
    """The engine, for whoever opens one."""
    return lambda: contextlib.nullcontext(engine)


@pytest.fixture
def mirrored(engine, run):
    """A table with a row, and its mirror."""
    engine.run("INSERT INTO w.t VALUES (1, 'x')")
    run(key=["a"])


@pytest.fixture
def over(client, opened, mirrored):
    """The same after the cut-over."""
    return cut_over(client, opened, "w.t", TARGET)


def primary(client):
    return client.mirrors.find("w.t", TARGET).primary


@pytest.mark.every_database
def test_the_last_changes_go_over_and_nobody_writes_any_more(engine, job, client, opened, mirrored):
    engine.run("INSERT INTO w.t VALUES (2, 'y')")
    found = cut_over(client, opened, "W.T", TARGET)
    assert (found.is_equal, found.write_id) == (True, 3)
    assert [asked["function"] for asked in job.asked] == ["follow", "follow", "verify"]
    assert client.catalog.get_table("w.t").properties["hive.acid.primary"] == TARGET
    assert list_mirrors(client)[0].to_row()[[name for name, _ in COLUMNS].index("primary_since")] is not None
    for sql in (
        "INSERT INTO w.t VALUES (3, 'z')", "UPDATE w.t SET b = 'no'", "DELETE FROM w.t WHERE a = 1",
        "TRUNCATE TABLE w.t",
        "DROP TABLE w.t", "ALTER TABLE w.t ADD COLUMNS (c INT)", "ALTER TABLE w.t RENAME TO w.u",
        "CREATE OR REPLACE TABLE w.t (a INT, b STRING) STORED AS ORC", "DROP DATABASE w CASCADE",
        "MERGE INTO w.t USING w.p ON t.a = p.a WHEN MATCHED THEN DELETE",
    ):  # fmt: skip
        with pytest.raises(HandedOverError, match=f"handed over to {TARGET}.*take-back w.t {TARGET}"):
            engine.run(sql)
    with pytest.raises(HandedOverError), engine.batch("w.t"):
        raise AssertionError("it must not begin")
    engine.run(
        "SELECT * FROM w.t; INSERT INTO w.p PARTITION (k = 'a') SELECT a FROM w.t; ALTER TABLE w.t COMPACT 'major'"
    )
    # What is beside it in its database stays as it was.
    engine.run(
        "ALTER DATABASE w SET DBPROPERTIES ('kept' = 'yes'); CREATE TABLE w.n (a INT) STORED AS ORC;"
        "ALTER TABLE w.n RENAME TO w.m; DROP TABLE w.m"
    )
    assert client.leases.list_lease() == []


@pytest.mark.every_database
def test_a_hive_waits_for_the_lock_and_no_reaper_removes_it(client, engine, over):
    with client.database.transaction() as connection:  # as if it had been taken long ago
        connection.execute(update(HIVE_LOCKS).values(HL_ACQUIRED_AT=1))
    run_reaper(client, engine._context.filesystem)
    waiting = client.lock(WRITER, txn_id=client.open_txn())
    assert waiting.state is LockState.WAITING
    assert client.lock(READER, txn_id=client.open_txn()).state is LockState.ACQUIRED
    (lock,) = [row for row in client.show_locks("w.t") if row.type is LockType.EXCL_WRITE]
    assert lock.agent_info == f"handed over to {TARGET}"
    client.mirrors.end_primary("w.t", TARGET)
    assert client.check_lock(waiting.lock_id).state is LockState.ACQUIRED


def test_it_is_taken_back_and_followed_again(client, engine, opened, run, over):
    for refused in (lambda: run(), lambda: run(bootstrap=True), lambda: cut_over(client, opened, "w.t", TARGET)):
        with pytest.raises(MirrorRefusedError, match="take"):
            refused()
    with pytest.raises(InvalidArgumentsError, match="take it back first"):
        client.mirrors.forget("w.t", TARGET)
    take_back(client, opened, "w.t", TARGET)
    assert primary(client) is None
    assert "hive.acid.primary" not in client.catalog.get_table("w.t").properties
    assert client.show_locks("w.t") == []
    engine.run("INSERT INTO w.t VALUES (2, 'y')")
    # Saying so in the table's properties, and taking that back, are commits of their own.
    assert run().write_id == 4
    with pytest.raises(MirrorRefusedError, match="not handed over"):
        take_back(client, opened, "w.t", TARGET)


def test_what_was_written_there_since_is_not_lost_by_the_way(client, job, opened, over):
    job.told = {"differ": 1, "different": [{"partition": "", "source_rows": 1, "target_rows": 2}]}
    with pytest.raises(MirrorDivergedError, match=r"written since .* the table \(1 rows and 2\).*--discard"):
        take_back(client, opened, "w.t", TARGET)
    assert primary(client) is not None
    take_back(client, opened, "w.t", TARGET, discard=True)
    assert primary(client) is None


def test_a_difference_or_an_open_writer_ends_it_before_anything_is_declared(client, job, opened, mirrored):
    job.told = {"differ": 1, "different": [{"partition": "", "source_rows": 1, "target_rows": 2}]}
    with pytest.raises(MirrorDivergedError, match="Nothing was declared"):
        cut_over(client, opened, "w.t", TARGET)
    job.told = {}
    # One that holds its lock is waited for, one that has lost it is named.
    with client.begin({"w.t": "insert"}) as writer, pytest.raises(LeaseAlreadyExistsError):
        cut_over(client, opened, "w.t", TARGET, wait=0.2)
    txn = client.open_txn()
    client.allocate_write_ids("w.t", txn)
    with pytest.raises(TxnOpenError, match=f"txn {txn}.*still written|still written.*txn {txn}"):
        cut_over(client, opened, "w.t", TARGET)
    client.abort_txn(txn)
    assert writer.txn_id
    assert (primary(client), client.show_locks("w.t"), client.leases.list_lease()) == (None, [], [])
    assert cut_over(client, opened, "w.t", TARGET).is_equal


@pytest.fixture
def compared(monkeypatch):
    """Calls what it is given when both sides have been compared, and nothing is declared yet."""
    verify = cut_overs.verify_mirror

    def at(happens):
        def late(*given):
            found = verify(*given)
            happens()
            return found

        monkeypatch.setattr(cut_overs, "verify_mirror", late)

    return at


@pytest.mark.parametrize("commits", ["before", "after"])
def test_what_somebody_inserts_who_waits_for_no_lease_is_not_left_behind(
    client, opened, mirrored, compared, monkeypatch, commits
):
    """
    t1  the last changes go over, and both sides are equal
    t2  a Hive inserts beside the lease
    t3  the mirror would be declared the primary, without that row
    """
    hive = client.open_txn()
    alter = cut_overs._alter

    def insert():
        assert client.lock(INSERT, txn_id=hive).state is LockState.ACQUIRED
        client.allocate_write_ids("w.t", hive)
        if commits == "before":
            client.commit_txn(hive)

    def undone(engine, table, change, lease):
        if commits == "after" and change.startswith("UNSET"):
            client.commit_txn(hive)  # an ALTER waits for it
        alter(engine, table, change, lease)

    compared(insert)
    monkeypatch.setattr(cut_overs, "_alter", undone)
    with pytest.raises(TxnOpenError, match=r"w\.t was written meanwhile, up to write id 3, .*hive\.txn\.xlock\.write"):
        cut_over(client, opened, "w.t", TARGET)
    assert primary(client) is None
    assert "hive.acid.primary" not in client.catalog.get_table("w.t").properties
    assert (client.show_locks("w.t"), client.leases.list_lease()) == ([], [])
    monkeypatch.undo()
    assert cut_over(client, opened, "w.t", TARGET).write_id > 3


@pytest.mark.every_database
def test_one_who_waits_for_the_lease_or_has_failed_is_in_nobodys_way(client, opened, mirrored, compared):
    """A Hive takes its write id before it waits."""
    with MetastoreClient(client.database.url) as hive:

        def writers():
            failed, waiting = hive.open_txn(), hive.open_txn()
            assert hive.lock(WRITER, txn_id=waiting).state is LockState.WAITING
            hive.allocate_write_ids("w.t", waiting)
            hive.allocate_write_ids("w.t", failed)
            hive.abort_txn(failed)

        compared(writers)
        assert cut_over(client, opened, "w.t", TARGET).is_equal
    assert primary(client) is not None


@pytest.mark.every_database
def test_an_insert_of_ours_that_waits_for_no_lease_looks_again(client, job, engine, opened, mirrored, monkeypatch):
    """
    t1  INSERT, with hive.txn.xlock.write: the table is not handed over
    t2  it is handed over
    t3  the INSERT gets its lock and its write id at once
    """
    settings = Settings({Source.REQUEST: {"hive.txn.xlock.write": "true"}})
    with Engine(client, job, engine._context.warehouse, settings=settings) as other:
        begin = other._context.locking.begin

        def late(*given, **named):
            monkeypatch.undo()
            cut_over(client, opened, "w.t", TARGET)
            return begin(*given, **named)

        monkeypatch.setattr(other._context.locking, "begin", late)
        with pytest.raises(HandedOverError):
            other.run("INSERT INTO w.t VALUES (2, 'y')")
    assert [row.type for row in client.show_locks("w.t")] == [LockType.EXCL_WRITE]
    assert client.get_valid_write_ids("w.t")["w.t"].aborted_ids


def test_what_dies_before_the_declaration_leaves_a_table_that_is_written(client, engine, opened, mirrored, monkeypatch):
    """The lock is taken, and its holder is gone: the lock ends as every lock without heartbeats does."""

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(client.mirrors, "declare_primary", dies)
        with pytest.raises(KeyboardInterrupt):
            cut_over(client, opened, "w.t", TARGET)
    assert primary(client) is None
    for row in client.show_locks("w.t"):
        client.unlock(row.lock_id)  # what its time-out does
    engine.run("INSERT INTO w.t VALUES (2, 'y')")
    assert cut_over(client, opened, "w.t", TARGET).is_equal


def test_a_primary_is_no_target_of_another_table(client, engine, job, run, over):
    """Also not when somebody asks for a new copy: what was written there since is nowhere else."""
    engine.run("INSERT INTO w.p VALUES (1, 'k')")
    before = len(job.asked)
    for how in ({}, {"bootstrap": True}):
        with pytest.raises(MirrorRefusedError, match=r"is the primary of w\.t: w\.p would take the place"):
            run("w.p", TARGET, **how)
    assert len(job.asked) == before
    assert client.mirrors.find("w.p", TARGET) is None
    run("w.p", f"{TARGET}2")


@pytest.mark.every_database
def test_a_declaration_needs_its_lock_and_is_made_once(client, over):
    with pytest.raises(NoSuchLockError):
        client.mirrors.declare_primary("w.t", TARGET, 99999, seen=2)
    (lock,) = client.show_locks("w.t")
    with pytest.raises(AlreadyExistsError):
        client.mirrors.declare_primary("w.t", TARGET, lock.lock_id, seen=2)
    client.mirrors.end_primary("w.t", TARGET)
    client.mirrors.end_primary("w.t", TARGET)


def test_the_table_is_dropped_when_nobody_has_written_it(client, engine, opened, over):
    hive = client.open_txn()
    asked = client.lock(WRITER, txn_id=hive)
    assert asked.state is LockState.WAITING

    def write():
        while client.check_lock(asked.lock_id).state is LockState.WAITING:
            pass
        client.allocate_write_ids("w.t", hive)
        client.commit_txn(hive)

    thread = threading.Thread(target=write)
    thread.start()
    with pytest.raises(MirrorDivergedError, match="was not dropped"):
        retire(client, opened, "w.t", TARGET)
    thread.join()
    assert client.catalog.find_tables(["w.t"])
    cut_over(client, opened, "w.t", TARGET)
    retire(client, opened, "w.t", TARGET)
    assert client.catalog.find_tables(["w.t"]) == {}
    assert client.mirrors.find("w.t", TARGET) is None
    assert client.leases.list_lease() == []


def test_the_table_is_not_dropped_behind_an_insert_that_waits_for_no_lease(client, opened, over):
    """DROP waits for its lock, and then its rows would be gone."""
    hive = client.open_txn()
    assert client.lock(INSERT, txn_id=hive).state is LockState.ACQUIRED
    client.allocate_write_ids("w.t", hive)
    with pytest.raises(MirrorDivergedError, match=r"was not dropped: .* is writing now"):
        retire(client, opened, "w.t", TARGET)
    client.commit_txn(hive)
    assert client.catalog.find_tables(["w.t"])


def test_only_a_mirror_is_handed_over(client, opened, engine):
    for verb in (cut_over, take_back, retire):
        with pytest.raises(NoSuchObjectError, match="hive-acid mirror run"):
            verb(client, opened, "w.t", TARGET)
