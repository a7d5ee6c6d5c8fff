"""Housekeeping tasks stand for themselves: one that fails or is held by others is named, and the rest is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.maintenance import run_cleaner, run_history_purge, run_reaper
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.compaction.model import CompactionState, Resource
from airflow_hive_acid.metastore.housekeeping import Housekeeping
from airflow_hive_acid.metastore.schema.cleaning import HIVE_ACID_CLEANING
from airflow_hive_acid.metastore.schema.hive_transactions import AUX_TABLE, NOTIFICATION_LOG, TXNS
from airflow_hive_acid.settings import Settings, Source
from tests.integration.maintenance.cycles.steps import change, pass_time, rows

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import Filesystem


@pytest.mark.backends("sqlite")
@pytest.mark.parametrize(
    ("verb", "task", "error"),
    [
        ("perform_time_outs", "time-outs", MetastoreUnavailableError("it is gone")),
        ("perform_write_set_gc", "write set", RuntimeError("a bug")),
        ("clean_txn_to_write_id", "write ids", MetastoreUnavailableError("it is gone")),
        ("expire_rebuild_locks", "rebuild locks", RuntimeError("a bug")),
        ("clean_empty_txns", "txns", MetastoreUnavailableError("it is gone")),
        ("purge_notifications", "events", RuntimeError("a bug")),
        ("too_many_open", "open txns", OSError("a bug")),
    ],
)
def test_a_task_that_fails_is_named_and_the_others_are_done(
    client: MetastoreClient, fs: Filesystem, monkeypatch: pytest.MonkeyPatch, verb: str, task: str, error: Exception
) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr(Housekeeping, verb, fail)
    report = run_reaper(client, fs)
    assert report.problems == {task: f"{type(error).__name__}: {error}"}
    assert f"  {task}: {type(error).__name__}" in str(report)
    numbers = {"write set", "write ids", "rebuild locks", "txns", "jobs", "events", "trash"}
    assert numbers - {task} <= report.purged.keys()


@pytest.mark.every_database
def test_events_are_purged_when_their_interval_has_passed(client: MetastoreClient, fs: Filesystem) -> None:
    """At once, then not before hive.metastore.event.db.listener.clean.interval, in whatever process."""

    def make_old() -> None:
        client.catalog.create_database("made", if_not_exists=True)
        client.catalog.drop_database("made")
        change(client, sa.update(NOTIFICATION_LOG).values(EVENT_TIME=1))

    make_old()
    assert run_reaper(client, fs).purged["events"] >= 2
    make_old()
    assert run_reaper(client, fs).purged["events"] == 0
    left = len(rows(client, NOTIFICATION_LOG))
    change(client, sa.update(AUX_TABLE).where(AUX_TABLE.c.MT_KEY1 == "HiveAcidNotificationCleaner")
           .values(MT_KEY2=AUX_TABLE.c.MT_KEY2 - 7_200_000))  # fmt: skip
    assert run_reaper(client, fs).purged["events"] == left
    assert rows(client, NOTIFICATION_LOG) == []


def test_too_many_open_txns_are_told(metastore_url: str, client: MetastoreClient, fs: Filesystem) -> None:
    client.open_txns(2)
    few = Settings({Source.CONNECTION: {"hive.max.open.txns": "2"}})
    with MetastoreClient(metastore_url, few) as strict:
        assert "2 txns are open, hive.max.open.txns is 2" in run_reaper(strict, fs).problems["open txns"]
    assert run_reaper(client, fs).problems == {}


def test_the_history_purge_is_one_of_the_housekeepers(client: MetastoreClient) -> None:
    with client.mutexes.hold("HouseKeeper"):
        report = run_history_purge(client)
    assert "skipped in this pass" in report.problems["history purge"]
    assert "skipped in this pass" in str(report)
    assert run_history_purge(client).problems == {}


@pytest.mark.backends("sqlite")
def test_a_history_that_cannot_be_purged_does_not_keep_the_duplicates(
    client: MetastoreClient, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.insert()
    table.insert()

    def fail(*arguments: object) -> None:
        raise MetastoreUnavailableError("it is gone")

    monkeypatch.setattr(type(client.compactions), "purge_history", fail)
    report = run_history_purge(client)
    assert (report.duplicates, report.problems) == (1, {"history": "MetastoreUnavailableError: it is gone"})


@pytest.mark.conformance("C10")
@pytest.mark.setting("hive.compactor.history.retention.failed")
def test_each_kind_of_end_is_kept_by_its_own_setting_and_partition_by_partition(metastore_url: str) -> None:
    prefix = "hive.compactor.history.retention"
    kept = {f"{prefix}.failed": "2", f"{prefix}.attempted": "1", f"{prefix}.succeeded": "0", f"{prefix}.refused": "3",
            "hive.compactor.initiator.failed.compacts.threshold": "1"}  # fmt: skip
    with MetastoreClient(metastore_url, Settings({Source.CONNECTION: kept})) as client:
        queue = client.compactions
        for partition in ("k=a", "k=b"):
            for _ in range(4):
                for end in (queue.mark_failed, queue.mark_refused):
                    queue.enqueue("default.t", partition)
                    end(queue.claim("w"), "a test")
                queue.did_not_initiate(Resource("default", "t", partition), "a test")
        assert run_history_purge(client).problems == {}
        for partition in ("k=a", "k=b"):
            states = [request.state for request in queue.show(table="t", partition=partition)]
            numbers = {state: states.count(state) for state in set(states)}
            assert numbers == {
                CompactionState.FAILED: 2, CompactionState.REFUSED: 3, CompactionState.DID_NOT_INITIATE: 1,
            }  # fmt: skip


def test_what_the_cleaner_noted_is_kept_as_long_as_the_history(
    client: MetastoreClient, fs: Filesystem, compacted: Any
) -> None:
    pass_time(client)
    run_cleaner(client, fs)
    run_history_purge(client)
    assert len(client.cleanings.newest()) == 1
    week = 7 * 86_400_000
    change(client, sa.update(HIVE_ACID_CLEANING).values(HCL_UNTIL=HIVE_ACID_CLEANING.c.HCL_UNTIL - week))
    run_history_purge(client)
    assert client.cleanings.newest() == []


@pytest.mark.every_database
def test_time_outs_and_forgetting_are_one_chain(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    """Abort, clean-up of its components, its TXNS row, then its TXN_TO_WRITE_ID row; the newest txn always stays."""
    txn = table.begin()
    client.heartbeats.remove(txn.txn_id)
    change(client, sa.update(TXNS).values(TXN_LAST_HEARTBEAT=1))
    assert run_reaper(client, fs).aborted == (txn.txn_id,)
    table.insert()
    pass_time(client)
    run_reaper(client, fs)  # this pass or the one before forgets the row 0, with which every schema begins
    assert [row["TXN_ID"] for row in rows(client, TXNS)] == [txn.txn_id, txn.txn_id + 1]
    change(client, sa.update(TXNS).values(TXN_STARTED=1))
    run_cleaner(client, fs)
    assert run_reaper(client, fs).purged["txns"] == 1
    assert run_reaper(client, fs).purged["write ids"] == 2
    assert [row["TXN_ID"] for row in rows(client, TXNS)] == [txn.txn_id + 1]
