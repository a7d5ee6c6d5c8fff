"""Commits read from the log of each database: with all that is known, also late, purged and in pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.listing import commit_log
from airflow_hive_acid.metastore.listing.commit_events import Volume
from airflow_hive_acid.metastore.listing.commit_log import CommitLog
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_TXN_COMPONENTS,
    NOTIFICATION_LOG,
    NOTIFICATION_SEQUENCE,
    TXN_TO_WRITE_ID,
)
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.listing.commit_log import CommitPage

PURGED = "purged before they were read"


@pytest.fixture
def tables(client: MetastoreClient, warehouse: str) -> MetastoreClient:
    """``db.t`` partitioned by k, ``db.u`` without partitions."""
    client.catalog.set_warehouse(warehouse)
    client.catalog.create_database("db")
    columns, acid = (Column("id", "int"),), {"transactional": "true"}
    client.catalog.create_table(TableDefinition("db", "t", columns, (Column("k", "string"),), properties=acid))
    client.catalog.create_table(TableDefinition("db", "u", columns, properties=acid))
    client.catalog.add_partitions("db.t", ["k=a", "k=b"])
    return client


def write(client: MetastoreClient, operation: str = "insert", *partitions: str, table: str = "db.t") -> int:
    with client.begin({table: operation}, partitioned=["db.t"] if table == "db.t" else []) as txn:
        if table == "db.t":
            txn.add_partitions(table, list(partitions))
        return txn.txn_id


def told(page: CommitPage) -> list[tuple[Any, ...]]:
    return [(c.txn_id, str(c.table), c.write_id, c.operations, c.partitions) for c in page.commits]


def delete(client: MetastoreClient, *statements: Any) -> None:
    with client.database.transaction() as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
def test_commits_are_told_with_tables_partitions_and_operations(tables: MetastoreClient) -> None:
    log = CommitLog(tables.database, tables.notifications)
    after = log.latest()
    assert log.read(after).upto == after
    first = write(tables, "insert", "k=a", "k=b")
    second = write(tables, "update", "k=a")
    with tables.begin({"db.u": "delete", "db.t": "insert"}, partitioned=["db.t"], agent_info="airflow/d") as txn:
        txn.add_partitions("db.t", ["k=b"], "insert")
    tables.begin({"db.u": "insert"}).abort("no")
    with tables.open_snapshot(["db.t"]):
        pass
    page = log.read(after)
    assert told(page) == [
        (first, "db.t", 1, ("insert",), ("k=a", "k=b")),
        (second, "db.t", 2, ("change",), ("k=a",)),
        (txn.txn_id, "db.t", 3, ("insert",), ("k=b",)),
        (txn.txn_id, "db.u", 1, ("change",), ()),
    ]
    assert (page.missed, page.upto, page.more) == ((), log.latest(), False)
    assert [c.agent_info for c in page.commits[2:]] == ["airflow/d", "airflow/d"]
    assert [c.event_id for c in page.commits] == sorted(c.event_id or 0 for c in page.commits)


def test_txn_that_wrote_nothing_is_not_told(tables: MetastoreClient) -> None:
    log = CommitLog(tables.database, tables.notifications)
    after = log.latest()
    write(tables, "update")
    assert told(log.read(after)) == []


def test_rows_files_and_bytes_of_our_jobs_are_told(tables: MetastoreClient) -> None:
    log = CommitLog(tables.database, tables.notifications)
    after = log.latest()
    with tables.begin({"db.u": "insert"}) as txn:
        for statement, (inserted, updated) in enumerate([(3, 0), (1, 2)]):
            rows = {"inserted": inserted, "updated": updated, "deleted": 0}
            job_id = f"{txn.txn_id}-{statement}"
            tables.jobs.start(
                job_id=job_id, txn_id=txn.txn_id, table="db.u", write_id=1, statement=statement, kind="insert",
                table_location="file:/t", staging=None,
            )  # fmt: skip
            directory = {"partition": "", "values": [], "place": "p", "name": "d", "files": [["bucket_00000", 100]]}
            document = {"table": "db.u", "job_id": job_id, "directories": [directory]}
            tables.jobs.record_manifest(job_id, document, rows)
    (commit,) = log.read(after).commits
    assert commit.volume == Volume(4, 2, 0, 2, 200)


def test_compactions_are_no_commits_also_at_the_end_of_a_page(tables: MetastoreClient) -> None:
    log = CommitLog(tables.database, tables.notifications)
    after = log.latest()
    txn_id = tables.open_txn(type=TxnType.COMPACTION)
    row = {"CQ_ID": 77, "CQ_DATABASE": "db", "CQ_TABLE": "u", "CQ_STATE": "w", "CQ_TYPE": "a", "CQ_TXN_ID": txn_id}
    delete(tables, sa.insert(COMPACTION_QUEUE).values(row))
    tables.commit_txn(txn_id)
    later = write(tables, "insert", table="db.u")
    for size in range(2, 8):
        paged, position, found = CommitLog(tables.database, tables.notifications, size), after, []
        while (page := paged.read(position)).upto > position:
            found += [c.txn_id for c in page.commits]
            assert page.missed == ()
            position = page.upto
        assert found == [later], f"with pages of {size}"


@pytest.mark.every_database
def test_whoever_reads_late_finds_what_housekeeping_has_left(
    tables: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  a txn gets its write id
    t2  the watcher's watermark
    t3  it commits, others too; housekeeping forgets write ids and components
    t4  the watcher comes back: the log knows the table, not the partition
    """
    monkeypatch.setattr(commit_log, "_SETTLED_SECONDS", -60)
    early = tables.begin({"db.u": "insert"})
    other = tables.begin({"db.t": "insert"}, partitioned=["db.t"])
    after = CommitLog(tables.database, tables.notifications).latest()
    early.commit()
    other.add_partitions("db.t", ["k=a"])
    other.commit()
    newest = write(tables, "insert", table="db.u")
    early_rows = sa.delete(COMPLETED_TXN_COMPONENTS).where(COMPLETED_TXN_COMPONENTS.c.CTC_TXNID == early.txn_id)
    delete(tables, sa.delete(TXN_TO_WRITE_ID), early_rows)
    for size in (commit_log.PAGE, 2):
        log, position, found = CommitLog(tables.database, tables.notifications, size), after, []
        while (page := log.read(position)).upto > position:
            found += told(page)
            position = page.upto
        assert found == [
            (early.txn_id, "db.u", 1, (), None),
            (other.txn_id, "db.t", 1, ("insert",), ("k=a",)),
            (newest, "db.u", 2, ("insert",), ()),
        ]
    # Without the log's help, components tell their tables.
    delete(tables, sa.delete(NOTIFICATION_LOG).where(NOTIFICATION_LOG.c.EVENT_TYPE == "ALLOC_WRITE_ID_EVENT"))
    assert (other.txn_id, "db.t", 1, ("insert",), ("k=a",)) in told(
        CommitLog(tables.database, tables.notifications).read(after)
    )


def test_what_was_purged_is_told_and_reading_goes_on_from_the_oldest(tables: MetastoreClient) -> None:
    log = CommitLog(tables.database, tables.notifications)
    after = log.latest()
    write(tables, "insert", table="db.u")
    purged = log.latest()
    kept = write(tables, "insert", table="db.u")
    delete(tables, sa.delete(NOTIFICATION_LOG).where(NOTIFICATION_LOG.c.EVENT_ID <= purged))
    page = log.read(after)
    assert [(m.first, m.last, m.reason) for m in page.missed] == [(after + 1, purged, PURGED)]
    assert [c.txn_id for c in page.commits] == [kept]
    delete(tables, sa.delete(NOTIFICATION_LOG))
    page = log.read(after)
    assert [(m.first, m.last) for m in page.missed] == [(after + 1, log.latest())]
    assert page.upto == log.latest()
    assert log.read(page.upto).missed == ()


@pytest.mark.every_database
def test_log_that_begins_anew_is_told(tables: MetastoreClient) -> None:
    write(tables, "insert", table="db.u")
    log = CommitLog(tables.database, tables.notifications)
    after = log.latest()
    delete(tables, sa.delete(NOTIFICATION_LOG), sa.update(NOTIFICATION_SEQUENCE).values(NEXT_EVENT_ID=2))
    page = log.read(after)
    assert page.upto == 1
    assert "begins anew" in page.missed[0].reason


def test_log_of_a_backup_that_has_gone_on_past_the_watermark_is_told(tables: MetastoreClient) -> None:
    """Ids that it has given again have another time; of an event that was purged nobody knows."""
    log = CommitLog(tables.database, tables.notifications)
    after, noted = log.standing()
    assert noted is not None
    kept = write(tables, "insert", table="db.u")
    page = log.read(after, noted)
    assert ([c.txn_id for c in page.commits], page.missed, page.anew) == ([kept], (), False)
    assert (page.upto, page.time) == log.standing()
    assert log.read(page.upto, page.time) == commit_log.CommitPage(page.upto, page.upto, time=page.time)
    for at, moment in ((after, noted), (page.upto, page.time)):
        again = log.read(at, (moment or 0) - 60)
        assert (again.anew, again.commits, again.upto) == (True, (), log.latest())
        assert "begins anew" in again.missed[0].reason
    delete(tables, sa.delete(NOTIFICATION_LOG).where(NOTIFICATION_LOG.c.EVENT_ID <= after))
    assert [c.txn_id for c in log.read(after, noted - 60).commits] == [kept]


def test_event_that_nobody_can_read_is_a_gap_and_no_end(tables: MetastoreClient) -> None:
    log = CommitLog(tables.database, tables.notifications)
    after = log.latest()
    write(tables, "insert", table="db.u")
    broken = log.latest()
    fine = write(tables, "insert", table="db.u")
    delete(
        tables,
        sa.update(NOTIFICATION_LOG).where(NOTIFICATION_LOG.c.EVENT_ID == broken).values(MESSAGE="no message at all"),
    )
    page = log.read(after)
    assert [(m.first, m.last) for m in page.missed] == [(broken, broken)]
    assert "cannot be read" in page.missed[0].reason
    assert [c.txn_id for c in page.commits] == [fine]


def test_metastore_that_writes_no_events_says_how_to_have_it_write_some(metastore_url: str) -> None:
    off = Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": "false"}})
    with MetastoreClient(metastore_url, off) as client, pytest.raises(InvalidArgumentsError, match="DbNotification"):
        CommitLog(client.database, client.notifications).latest()


def test_document_of_a_commit_is_json(tables: MetastoreClient) -> None:
    log = CommitLog(tables.database, tables.notifications)
    after = log.latest()
    write(tables, "insert", "k=a")
    (commit,) = log.read(after).commits
    assert json.loads(json.dumps(commit.to_document())) == commit.to_document()
