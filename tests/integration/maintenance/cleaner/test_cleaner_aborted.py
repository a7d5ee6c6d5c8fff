"""What aborted writes leave behind, and when the Cleaner removes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.maintenance import run_cleaner, run_reaper
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    TXN_COMPONENTS,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient


from tests.integration.maintenance.cycles.steps import change, rows, start_job


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    return {**settings, "hive.compactor.abortedtxn.threshold": "1"}


@pytest.mark.every_database
@pytest.mark.conformance("K18")
@pytest.mark.conformance("K24")
def test_aborted_writes_are_removed_without_any_compaction(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    aborted = [table.abort(), table.abort()]
    kept = table.insert()
    aborted.append(table.abort())
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, len(outcome.removed)) == (Kind.CLEANED, 3)
    assert table.directories() == [f"delta_{kept:07d}_{kept:07d}_0000"]
    assert rows(client, TXN_COMPONENTS) == rows(client, COMPACTION_QUEUE) == rows(client, COMPLETED_COMPACTIONS) == []
    table.settle()
    run_reaper(client, fs)
    table.insert()
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 2
    assert aborted == [1, 2, 4]


@pytest.mark.conformance("K19")
def test_only_the_partition_with_aborted_writes_is_touched(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.p", "k")
    for _ in range(2):
        table.abort(partition="k=a")
    table.abort(partition="k=b")
    table.insert(partition="k=b")
    assert [o.resource.partition for o in run_cleaner(client, fs)] == ["k=a"]
    assert table.directories("k=a") == []
    assert len(table.directories("k=b")) == 2
    assert len(rows(client, TXN_COMPONENTS)) == 1


@pytest.mark.conformance("K21")
def test_a_base_is_left_alone(client: MetastoreClient, fs: Filesystem, compacted: Any) -> None:
    compacted.settle()
    run_cleaner(client, fs)
    for _ in range(2):
        compacted.abort()
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert compacted.directories() == [compacted.base]


def test_a_dead_dynamic_partition_write_is_found_in_every_partition(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """Its partitions were never named: only the write id in the directory names tells what it wrote."""
    table = make_table("default.p", "k")
    table.insert(partition="k=a")
    for _ in range(2):
        txn = table.begin()
        table.put(txn, 1, "k=a")
        table.put(txn, 1, "k=new")
        txn.abort("a test")
    assert [(o.kind, len(o.removed)) for o in run_cleaner(client, fs)] == [(Kind.CLEANED, 4)]
    assert len(table.directories("k=a")) == 1
    assert table.directories("k=new") == []
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.rule("R5")
def test_what_our_own_jobs_were_to_publish_is_looked_for_where_they_say(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of 300 partitions, an aborted write into two of them: only these are listed, the catalog is not asked."""
    table = make_table("default.p", "k")
    client.catalog.add_partitions("default.p", [f"k={i}" for i in range(300)])
    for number, partitions in enumerate((["k=7", "k=new"], [])):
        txn = table.begin()
        staging = start_job(client, table, txn, f"job{number}")
        written = [table.put(txn, 1, partition) for partition in partitions]
        if written:
            found = [{"place": uri.rpartition("/")[0], "name": uri.rpartition("/")[2]} for uri in written]
            client.jobs.record_manifest(f"job{number}", {"directories": found})
        assert staging
        txn.abort("a test")
    listed: list[str] = []
    usual = type(fs).list_files

    def list_files(self: Filesystem, uri: str, *more: Any, **options: Any) -> Any:
        listed.append(uri)
        return usual(self, uri, *more, **options)

    monkeypatch.setattr(type(fs), "list_files", list_files)
    monkeypatch.setattr(client.catalog, "list_partitions", None)
    assert [(o.kind, len(o.removed)) for o in run_cleaner(client, fs)] == [(Kind.CLEANED, 2)]
    assert {uri.rpartition("/")[2] for uri in listed if "_tmp_" not in uri} == {"k=7", "k=new"}
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.rule("R4")
def test_what_is_not_where_our_jobs_said_is_looked_for_everywhere(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    """Somebody has moved the partition with the aborted rows in it."""
    table = make_table("default.p", "k")
    client.catalog.add_partitions("default.p", ["k=a", "k=b"])
    for number in range(2):
        txn = table.begin()
        start_job(client, table, txn, f"job{number}")
        uri = table.put(txn, 1, "k=a")
        found = {"place": uri.rpartition("/")[0], "name": uri.rpartition("/")[2]}
        client.jobs.record_manifest(f"job{number}", {"directories": [found]})
        txn.abort("a test")
    fs.rename_directory(table.place("k=a"), table.place("k=moved"))
    assert [(o.kind, len(o.removed)) for o in run_cleaner(client, fs)] == [(Kind.CLEANED, 2)]
    assert table.directories("k=moved") == []


def test_aborts_above_an_open_writer_wait_for_it(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    table.abort()
    writer = table.begin()
    table.abort()
    outcome = run_cleaner(client, fs)[0]
    assert (outcome.kind, len(outcome.removed)) == (Kind.CLEANED, 1)
    assert [row["TC_TXNID"] > writer.txn_id for row in rows(client, TXN_COMPONENTS) if row["TC_WRITEID"] == 3] == [True]
    table.abort()
    outcome = run_cleaner(client, fs)[0]
    assert outcome.kind is Kind.WAITING
    assert str(writer.txn_id) in outcome.blocked_by[0]
    writer.commit()
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED


@pytest.mark.conformance("K23")
def test_few_and_young_aborts_are_left_for_later(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    table.abort()
    assert run_cleaner(client, fs) == []
    assert client.compactions.find_aborts_to_clean(count=0, age_ms=-1)[0].components == 1
    assert client.compactions.find_aborts_to_clean(count=5, age_ms=0)[0].components == 1
    assert client.compactions.find_aborts_to_clean(count=5, age_ms=3_600_000) == []
    assert client.compactions.find_aborts_to_clean(count=5, age_ms=-1) == []


@pytest.mark.conformance("K22")
def test_a_failed_removal_of_aborted_writes_is_remembered_and_repeated(
    client: MetastoreClient, fs: Filesystem, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        table.abort()

    def refuse(*arguments: object, **named: object) -> bool:
        raise PermissionError("not ours")

    with monkeypatch.context() as patch:
        patch.setattr(type(fs), "delete", refuse)
        assert run_cleaner(client, fs)[0].kind is Kind.ERROR
        (row,) = rows(client, COMPACTION_QUEUE)
        assert (row["CQ_TYPE"], row["CQ_STATE"], row["CQ_RETRY_RETENTION"]) == ("c", "r", 300_000)
        first = row["CQ_COMMIT_TIME"]
        assert run_cleaner(client, fs)[0].kind is Kind.WAITING
        change(client, sa.update(COMPACTION_QUEUE).values(CQ_COMMIT_TIME=first - 300_000))
        assert run_cleaner(client, fs)[0].kind is Kind.ERROR
        (row,) = rows(client, COMPACTION_QUEUE)
        assert (row["CQ_RETRY_RETENTION"], row["CQ_COMMIT_TIME"]) == (600_000, first - 300_000)
        change(client, sa.update(COMPACTION_QUEUE).values(CQ_COMMIT_TIME=first - 600_000))
    assert run_cleaner(client, fs)[0].kind is Kind.CLEANED
    assert rows(client, COMPACTION_QUEUE) == rows(client, TXN_COMPONENTS) == []
    assert table.directories() == []
