"""Purges of the txn tables, and the chain by which one lets the next advance."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore import MetastoreClient, housekeeping
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.settings import Settings, Source

ONE_HOUR = 3_600_000


def write(client: MetastoreClient, operation: str = "insert", table: str = "db.t") -> int:
    with client.transaction({table: operation}) as txn:
        return txn.txn_id


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
@pytest.mark.conformance("T45")
def test_aborted_txns_are_forgotten_only_when_nothing_of_them_is_left(client: MetastoreClient, rows: Any) -> None:
    empty = client.open_txn()
    client.abort_txn(empty)
    writer = client.begin({"db.t": "insert"})
    writer.abort()
    client.open_txn()
    assert client.housekeeping.clean_empty_txns() == 0  # too young: they still close gaps
    rows.age_txns(ONE_HOUR)
    assert client.housekeeping.clean_empty_txns() == 2  # 0 and the empty one
    assert rows.select("TXNS", "TXN_ID", "TXN_STATE") == [(2, "a"), (3, "o")]
    rows.delete("TXN_COMPONENTS")
    assert client.housekeeping.clean_empty_txns() == 1


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
@pytest.mark.conformance("T46")
def test_the_newest_txn_is_never_forgotten(client: MetastoreClient, rows: Any) -> None:
    for txn_id in client.open_txns(30):
        client.commit_txn(txn_id)
    rows.age_txns(ONE_HOUR)
    assert client.housekeeping.clean_empty_txns(batch=7) == 30
    assert rows.select("TXNS", "TXN_ID") == [(30,)]
    assert str(client.get_valid_txns()) == "30:9223372036854775807::"
    assert client.housekeeping.clean_empty_txns() == 0


@pytest.mark.hive4("a Hive 3 counts its txns: there are no gaps")
def test_rows_by_which_a_hive_finds_its_boundary_stay_if_our_time_out_is_short(
    client: MetastoreClient, metastore_url: str, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  ours, with an open time-out of 1 ms, ends txns and forgets what is empty and old enough
    t2  a Hive with its 1,000 ms, here a minute for slow machines, opens a txn: it needs a row that is older than that
    """
    assert housekeeping.HIVES_OPEN_TIMEOUT_MS == 1000
    monkeypatch.setattr(housekeeping, "HIVES_OPEN_TIMEOUT_MS", 60_000)
    hasty = Settings({Source.CONNECTION: {"hive.txn.opentxn.timeout": "1ms"}})
    for txn_id in client.open_txns(3):
        client.commit_txn(txn_id)
    with MetastoreClient(metastore_url, settings=hasty) as ours:
        rows.age_txns(30_000)
        assert ours.housekeeping.clean_empty_txns() == 0  # or no row is left that is old enough for it
        rows.age_txns(60_000)
        assert ours.housekeeping.clean_empty_txns() == 3
    assert rows.select("TXNS", "TXN_ID") == [(3,)]


def start_job(client: MetastoreClient, txn_id: int) -> None:
    client.jobs.start(
        job_id="j1",
        txn_id=txn_id,
        table="db.t",
        write_id=1,
        statement=0,
        kind="insert",
        table_location="file:/w/t",
        staging="file:/w/t/_tmp_j1",
    )


@pytest.mark.rule("R4")
def test_a_txn_whose_job_may_still_write_is_not_forgotten(client: MetastoreClient, rows: Any) -> None:
    """
    t1  a job of txn 1 runs
    t2  txn 1 is aborted elsewhere
    t3  its components are gone; but until the job is fenced its row stays
    """
    txn = client.begin({"db.t": "insert"})
    start_job(client, txn.txn_id)
    txn.abort()
    rows.delete("TXN_COMPONENTS")
    client.open_txn()
    rows.age_txns(ONE_HOUR)
    client.housekeeping.clean_empty_txns()
    assert [j.job_id for j in client.jobs.to_fence()] == ["j1"]
    assert rows.txn_state(txn.txn_id)[0] == "a"
    client.jobs.mark_fenced("j1")
    client.housekeeping.clean_empty_txns()
    assert rows.count("TXNS", TXN_ID=txn.txn_id) == 0
    assert client.jobs.forget() == 1


@pytest.mark.rule("R17")
def test_jobs_of_committed_txns_are_nobodys_to_fence(client: MetastoreClient, rows: Any) -> None:
    """Also when the txn's row is gone: the commit marked its jobs, so that nobody has to guess."""
    txn = client.begin({"db.t": "insert"})
    start_job(client, txn.txn_id)
    client.jobs.record_manifest("j1", {"directories": []})
    txn.commit()
    client.open_txn()
    rows.age_txns(ONE_HOUR)
    client.housekeeping.clean_empty_txns()
    assert rows.count("TXNS", TXN_ID=txn.txn_id) == 0
    assert client.jobs.to_fence() == []
    assert client.jobs.forget() == 1


@pytest.mark.hive4("a Hive 3 counts its txns: there are no gaps")
@pytest.mark.conformance("T48")
def test_a_write_set_is_kept_while_an_open_txn_can_overlap_it(client: MetastoreClient, rows: Any) -> None:
    """
    t1  A opens 1
    t2              B opens 2, updates, commits: write set [2,2]
    t3  A is still open: it may yet overlap
    t4  A ends; but below a young row another may still appear that overlaps
    t5  all rows are old
    """
    first = client.open_txn()
    write(client, "update")
    rows.age_txns(ONE_HOUR, [2])
    client.housekeeping.perform_write_set_gc()
    assert rows.count("WRITE_SET") == 1
    client.commit_txn(first)
    rows.age_txns(-ONE_HOUR, [2])
    client.housekeeping.perform_write_set_gc()
    assert rows.count("WRITE_SET") == 1
    rows.age_txns(ONE_HOUR)
    client.housekeeping.perform_write_set_gc()
    assert rows.count("WRITE_SET") == 0


@pytest.mark.conformance("T49")
def test_write_ids_are_kept_from_the_oldest_aborted_txn_on(client: MetastoreClient, rows: Any) -> None:
    write(client)
    aborted = client.begin({"db.t": "insert"})
    aborted.abort()
    write(client)
    rows.age_txns(ONE_HOUR)
    assert client.housekeeping.clean_txn_to_write_id() == 1
    assert rows.select("TXN_TO_WRITE_ID", "T2W_WRITEID") == [(2,), (3,)]
    rows.delete("TXN_COMPONENTS")  # compaction or clean-up removed its files
    client.housekeeping.clean_empty_txns()
    assert client.housekeeping.clean_txn_to_write_id() == 2
    assert str(client.get_valid_write_ids("db.t")["db.t"]) == "db.t:3:9223372036854775807::"


def test_write_ids_that_a_reader_saw_as_open_are_kept(client: MetastoreClient, rows: Any) -> None:
    """
    t1  W opens 1, allocates
    t2              R opens 2: saw 1 as open
    t3  W commits
    t4              R still needs the row of 1
    """
    writer = client.begin({"db.t": "insert"})
    reader = client.open_snapshot(["db.t"])
    writer.commit()
    rows.age_txns(ONE_HOUR)
    assert client.housekeeping.clean_txn_to_write_id() == 0
    reader.close()
    assert client.housekeeping.clean_txn_to_write_id() == 1


@pytest.mark.conformance("K28")
def test_of_completed_components_the_newest_write_and_the_newest_change_remain(
    client: MetastoreClient, rows: Any
) -> None:
    for number, flag in enumerate(("N", "N", "Y", "N"), 1):
        for partition in ("p=1", None):
            rows.insert(
                "COMPLETED_TXN_COMPONENTS",
                CTC_TXNID=number,
                CTC_DATABASE="db",
                CTC_TABLE="t",
                CTC_PARTITION=partition,
                CTC_WRITEID=number,
                CTC_UPDATE_DELETE=flag,
            )
    assert client.housekeeping.remove_duplicate_completed_components() == 4
    assert rows.select("COMPLETED_TXN_COMPONENTS", "CTC_WRITEID", "CTC_UPDATE_DELETE", CTC_PARTITION="p=1") == [
        (3, "Y"),
        (4, "N"),
    ]


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
def test_a_pass_reports_what_it_did_and_skips_while_another_service_is_at_it(
    client: MetastoreClient, other_client: MetastoreClient, rows: Any
) -> None:
    txn_id = client.open_txn()
    rows.age_txns(301_000)
    with other_client.mutexes.hold("HouseKeeper"):
        assert client.housekeeping.run_house_keeper().skipped
        assert rows.txn_state(txn_id)[0] == "o"
    report = client.housekeeping.run_house_keeper()
    assert report.done["time-outs"].txns == (txn_id,)
    assert not report.failed
    assert client.housekeeping.run_txn_cleaner().done == {"txns": 1}


def test_a_task_that_fails_does_not_stop_the_others(
    client: MetastoreClient, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_hive_acid.errors import MetastoreUnavailableError

    def fail() -> int:
        raise MetastoreUnavailableError("disk full")

    monkeypatch.setattr(client.housekeeping, "perform_write_set_gc", fail)
    report = client.housekeeping.run_house_keeper()
    assert set(report.failed) == {"write set"}
    assert set(report.done) == {"time-outs", "write ids", "rebuild locks", "leases"}


@pytest.mark.hive4("no MIN_HISTORY_WRITE_ID")
def test_what_a_hive_leaves_registered_for_a_txn_that_it_aborts_is_removed(client: MetastoreClient, rows: Any) -> None:
    """A Hive before 4.2 does not know of MIN_HISTORY_WRITE_ID; its purge of TXNS would fail on it from then on."""
    client.begin({"db.t": "insert"}).commit()
    dead, alive = client.open_snapshot(["db.t"]), client.open_snapshot(["db.t"])
    client.heartbeats.remove(dead.txn_id)
    with client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_ID == dead.txn_id).values(TXN_STATE="a"))
    rows.age_txns(ONE_HOUR)
    client.housekeeping.clean_empty_txns()
    assert rows.select("MIN_HISTORY_WRITE_ID", "MH_TXNID") == [(alive.txn_id,)]
    assert (dead.txn_id,) not in rows.select("TXNS", "TXN_ID")
    alive.close()
