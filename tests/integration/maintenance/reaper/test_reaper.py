"""The reaper ends what is silent, fences it first, and forgets in the right order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import TxnAbortedError
from airflow_hive_acid.maintenance import run_cleaner, run_history_purge, run_reaper
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.txns.jobs import JobState

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "0"}


def fall_silent(client: MetastoreClient, txn_id: int) -> None:
    """As if its last heartbeat was long ago."""
    client.heartbeats.remove(txn_id)
    with client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_ID == txn_id).values(TXN_LAST_HEARTBEAT=1))


def grow_old(client: MetastoreClient) -> None:
    """As if all txns had been opened long ago: no Hive needs a row of them to find its boundary."""
    with client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_ID > 0).values(TXN_STARTED=1))


@pytest.mark.every_database
@pytest.mark.rule("R4")
def test_a_silent_writer_is_fenced_then_aborted_then_cleaned_then_forgotten(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    """
    t1  kill -9 of a task in the middle of a write
    t2  reaper: its staging becomes a file, then its txn is aborted
    t3  Cleaner: its directory goes, then its components
    t4  reaper: its txn is forgotten; whatever the orphan still does, nobody sees it
    """
    txn = table.begin()
    staging = f"{table.location}/_tmp_job1"
    client.jobs.start(job_id="job1", txn_id=txn.txn_id, table=table.name, write_id=1, statement=0, kind="insert",
                      table_location=table.location, staging=staging)  # fmt: skip
    fs.make_directory(f"{staging}/data/delta_0000001_0000001_0001")
    table.put(txn, 1)
    fall_silent(client, txn.txn_id)
    report = run_reaper(client, fs)
    assert report.aborted == (txn.txn_id,)
    assert [job.job_id for job in report.fenced] == ["job1"]
    assert "aborted for silence: " in str(report)
    assert client.jobs.get("job1").state is JobState.FENCED
    with pytest.raises(TxnAbortedError):
        client.heartbeat(txn.txn_id)
    with client.snapshot([table.name]) as snapshot:
        assert table.read(snapshot) == []
    assert len(run_cleaner(client, fs)[0].removed) == 1
    table.settle()
    table.insert()
    grow_old(client)
    run_reaper(client, fs)
    assert txn.txn_id not in {row.txn_id for row in client.show_transactions(include_committed=True)}
    with pytest.raises(OSError, match="_tmp_job1"):
        fs.rename_directory(f"{staging}/data/delta_0000001_0000001_0001", f"{table.location}/delta_1")
    with client.snapshot([table.name]) as snapshot:
        assert len(table.read(snapshot)) == 1


def test_a_txn_that_somebody_else_aborted_is_fenced_in_the_next_pass(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    txn = table.begin()
    client.jobs.start(job_id="job2", txn_id=txn.txn_id, table=table.name, write_id=1, statement=0, kind="insert",
                      table_location=table.location, staging=f"{table.location}/_tmp_job2")  # fmt: skip
    client.heartbeats.remove(txn.txn_id)
    client.abort_txn(txn.txn_id)
    assert [job.job_id for job in run_reaper(client, fs).fenced] == ["job2"]
    assert run_reaper(client, fs).fenced == ()
    assert fs.read_text(f"{table.location}/_tmp_job2").startswith("job job2 of txn")


@pytest.mark.every_database
def test_a_living_txn_and_its_job_are_left_alone(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    txn = table.begin()
    client.jobs.start(job_id="job3", txn_id=txn.txn_id, table=table.name, write_id=1, statement=0, kind="insert",
                      table_location=table.location, staging=f"{table.location}/_tmp_job3")  # fmt: skip
    report = run_reaper(client, fs)
    assert (report.aborted, report.fenced) == ((), ())
    assert client.jobs.get("job3").state is JobState.RUNNING
    txn.commit()


def test_a_job_that_cannot_be_fenced_keeps_its_txn(
    client: MetastoreClient, fs: Filesystem, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    txn = table.begin()
    client.jobs.start(job_id="job4", txn_id=txn.txn_id, table=table.name, write_id=1, statement=0, kind="insert",
                      table_location=table.location, staging=f"{table.location}/_tmp_job4")  # fmt: skip
    table.put(txn, 1)
    fall_silent(client, txn.txn_id)

    def refuse(*arguments: object) -> None:
        raise PermissionError("read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "create_file", refuse)
        report = run_reaper(client, fs)
        assert report.aborted == (txn.txn_id,)
        assert [(job.job_id, "read-only" in why) for job, why in report.alive] == [("job4", True)]
        assert "may still write" in str(report)
        run_cleaner(client, fs)
        table.insert()
        table.settle()
        run_reaper(client, fs)
        states = {row.txn_id: row.state.value for row in client.show_transactions(include_committed=True)}
        assert states[txn.txn_id] == "a"
    run_cleaner(client, fs)
    assert client.jobs.get("job4").state is JobState.FENCED


@pytest.mark.every_database
def test_passes_that_others_hold_are_skipped_and_said(client: MetastoreClient, fs: Filesystem) -> None:
    with client.mutexes.hold("HouseKeeper"):
        report = run_reaper(client, fs)
    assert "another service holds the mutex" in report.problems["housekeeping"]
    assert run_reaper(client, fs).problems == {}


def test_the_history_purge_says_what_it_forgot(client: MetastoreClient, table: Any) -> None:
    for _ in range(3):
        table.insert()
    for _ in range(4):
        client.compactions.enqueue(table.name)
        client.compactions.mark_refused(client.compactions.claim("w"), "nothing to do")
    report = run_history_purge(client)
    assert [p.compaction.id for p in report.purged] == [1]
    assert report.duplicates == 2
    assert "1 default.t: 3 newer ones that refused are kept" in str(report)
