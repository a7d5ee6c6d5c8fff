"""Initiator, Worker and Cleaner on one table, from the first delta to the forgotten history."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.maintenance import run_cleaner, run_initiator, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType
from airflow_hive_acid.metastore.setup.schema import METADATA

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


def count(client: MetastoreClient, table: str) -> int:
    with client.database.reading() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(METADATA.tables[table])).scalar_one())


@pytest.mark.conformance("K01")
@pytest.mark.conformance("C06")
def test_a_table_goes_through_minor_and_major_compaction(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    for _ in range(4):
        table.insert(lines=3)
    decisions = run_initiator(client, fs)
    assert [(d.kind, d.numbers["deltas"]) for d in decisions] == [(Kind.MAJOR, 4)]
    assert decisions[0].enqueued
    assert "no base yet" in decisions[0].reason

    outcomes = run_worker(client, fs, compact_lines, "host1-w1")
    assert [o.kind for o in outcomes] == [Kind.COMPACTED]
    base = f"base_0000004_v{outcomes[0].txn_id:07d}"
    assert outcomes[0].directories == (base,)
    assert outcomes[0].rows == 12
    assert len(table.directories()) == 5
    request = client.compactions.get(decisions[0].request_id)
    assert (request.state, request.worker_id, request.highest_write_id, request.txn_id) == (
        CompactionState.READY_FOR_CLEANING, None, 4, outcomes[0].txn_id)  # fmt: skip
    assert request.next_txn_id == outcomes[0].txn_id
    assert (request.job_id, request.run_as) == ("application_1", client.catalog.get_table("default.t").owner)

    table.settle()
    cleaned = run_cleaner(client, fs)
    assert [o.kind for o in cleaned] == [Kind.CLEANED]
    assert len(cleaned[0].removed) == 4
    assert table.directories() == [base]
    assert count(client, "COMPLETED_TXN_COMPONENTS") == 0
    assert client.compactions.get(request.id).state is CompactionState.SUCCEEDED
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 12

    for _ in range(3):
        table.insert(lines=1)
        table.delete(lines=1)
    assert client.compactions.enqueue("default.t", type=CompactionType.MINOR).accepted
    outcomes = run_worker(client, fs, compact_lines, "host1-w1")
    txn = outcomes[0].txn_id
    assert outcomes[0].directories == (
        f"delta_0000005_0000010_v{txn:07d}", f"delete_delta_0000005_0000010_v{txn:07d}")  # fmt: skip
    table.settle()
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert table.directories() == sorted([base, *outcomes[0].directories])


@pytest.mark.conformance("C12")
@pytest.mark.conformance("C23")
def test_the_initiator_looks_only_at_what_was_written_since(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    table.insert()
    assert [d.kind for d in run_initiator(client, fs)] == [Kind.NOTHING]
    with client.database.transaction() as connection:
        ctc = METADATA.tables["COMPLETED_TXN_COMPONENTS"]
        connection.execute(sa.update(ctc).values(CTC_TIMESTAMP=datetime(2020, 1, 1)))
    assert run_initiator(client, fs) == []
    client.compactions.did_not_initiate(client.compactions.find_candidates()[0].resource, "a test")
    assert [d.kind for d in run_initiator(client, fs)] == [Kind.NOTHING]
    table.insert()
    assert [d.kind for d in run_initiator(client, fs, dry_run=True)] == [Kind.NOTHING]


@pytest.mark.conformance("C13")
@pytest.mark.conformance("C19")
def test_each_partition_that_was_written_is_one_candidate(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    table = make_table("default.p", "k")
    for _ in range(4):
        table.insert(partition="k=a")
    table.insert(partition="k=b%2Fc")
    client.catalog.drop_partition("default.p", "k=b%2Fc")
    table.insert(partition="k=d")
    decisions = run_initiator(client, fs)
    assert {(d.resource.partition, d.kind) for d in decisions} == {("k=a", Kind.MAJOR), ("k=d", Kind.NOTHING)}
    outcomes = run_worker(client, fs, compact_lines, "w")
    assert [(o.kind, o.resource.partition) for o in outcomes] == [(Kind.COMPACTED, "k=a")]
    table.settle()
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert table.directories("k=a") == list(outcomes[0].directories)
    assert len(table.directories("k=d")) == 1
    assert count(client, "COMPLETED_TXN_COMPONENTS") == 1


@pytest.mark.conformance("C21")
@pytest.mark.conformance("C24")
@pytest.mark.conformance("K05")
def test_what_is_dropped_meanwhile_is_nobodys_problem(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any], compact_lines: RunJob
) -> None:
    dropped, partitioned = make_table("default.d"), make_table("default.p", "k")
    for _ in range(2):
        dropped.insert()
        partitioned.insert(partition="k=a")
    client.compactions.enqueue("default.gone")
    client.compactions.enqueue("default.p", "k=nope")
    refused = run_worker(client, fs, compact_lines, "w")
    assert [(o.kind, o.reason) for o in refused] == [
        (Kind.REFUSED, "there is no table default.gone (any more)"),
        (Kind.REFUSED, "there is no partition k=nope of default.p (any more)"),
    ]
    assert {c.state for c in client.compactions.show()} == {CompactionState.REFUSED}
    client.compactions.enqueue("default.p", "k=a")
    run_worker(client, fs, compact_lines, "w")
    with client.database.transaction() as connection:
        for name in ("PARTITION_KEY_VALS", "PARTITION_PARAMS", "PARTITIONS"):
            connection.execute(sa.delete(METADATA.tables[name]))
    assert [(o.kind, o.reason) for o in run_cleaner(client, fs)] == [
        (Kind.CLEANED, "the table or partition is gone, and its files with it")]  # fmt: skip
    assert run_initiator(client, fs, dry_run=True)[0].kind in (Kind.NOTHING, Kind.SKIPPED)


@pytest.mark.conformance("C26")
def test_a_major_compaction_of_a_base_alone_is_refused_and_aborted_leftovers_are_the_cleaners(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    for _ in range(2):
        table.insert()
    client.compactions.enqueue("default.t")
    run_worker(client, fs, compact_lines, "w")
    table.settle()
    run_cleaner(client, fs)
    client.compactions.enqueue("default.t")
    outcome = run_worker(client, fs, compact_lines, "w")[0]
    assert (outcome.kind, outcome.reason) == (
        Kind.REFUSED, "None of the compaction thresholds met, compaction request is refused!")  # fmt: skip
    table.abort()
    client.compactions.enqueue("default.t")
    assert [o.kind for o in run_worker(client, fs, compact_lines, "w")] == [Kind.FOR_CLEANER]
    table.settle()
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert len(table.directories()) == 1
    assert count(client, "TXN_COMPONENTS") == 0


@pytest.mark.conformance("C27")
@pytest.mark.conformance("C28")
def test_a_compaction_stops_below_an_open_writer_and_goes_across_an_aborted_one(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    table.insert()
    table.abort()
    table.insert()
    writer = table.begin()
    table.put(writer, 1)
    table.insert()
    client.compactions.enqueue("default.t")
    outcome = run_worker(client, fs, compact_lines, "w")[0]
    assert outcome.directories == (f"base_0000003_v{outcome.txn_id:07d}",)
    assert outcome.rows == 2
    writer.commit()
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 4


def test_a_table_locked_for_a_drop_is_not_compacted(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: RunJob
) -> None:
    for _ in range(2):
        table.insert()
    client.compactions.enqueue("default.t")
    with client.exclusive(["default.t"]):
        outcome = run_worker(client, fs, compact_lines, "w")[0]
    assert outcome.kind is Kind.FAILED
    assert "does not wait for locks" in outcome.reason
    assert client.compactions.get(outcome.request_id).state is CompactionState.FAILED
    assert {row.state.value for row in client.show_transactions()} == {"a"}
    assert client.show_locks() == []


def test_two_initiators_ask_once(client: MetastoreClient, fs: Filesystem, table: Any) -> None:
    """
    t1  A holds the mutex and looks
    t2  B finds the mutex taken, and does nothing
    """
    for _ in range(4):
        table.insert()
    with client.mutexes.hold("Initiator"):
        done: list[Any] = []
        other = threading.Thread(target=lambda: done.append(run_initiator(client, fs)))
        other.start()
        other.join(timeout=60)
        assert done == [[]]
    assert [d.kind for d in run_initiator(client, fs)] == [Kind.MAJOR]
    again = run_initiator(client, fs, dry_run=True)
    assert [(d.kind, d.reason) for d in again] == [(Kind.SKIPPED, "request 1 for it is initiated")]


def test_a_table_whose_compactions_fail_is_given_up_and_says_so(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    def broken(spec: JobSpec) -> JobResult:
        raise OSError("disk full")

    for _ in range(4):
        table.insert()
    for _ in range(2):
        assert run_initiator(client, fs)[0].enqueued
        assert [o.kind for o in run_worker(client, fs, broken, "w")] == [Kind.FAILED]
    decision = run_initiator(client, fs)[0]
    assert (decision.kind, decision.enqueued) == (Kind.GIVEN_UP, False)
    row = client.compactions.get(decision.request_id)
    assert (row.state, row.error) == (CompactionState.DID_NOT_INITIATE, decision.reason)


def test_one_bad_table_does_not_stop_the_others(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    bad = make_table("default.bad")
    odd = make_table("default.odd", properties={"compactorthreshold.hive.compactor.delta.num.threshold": "many"})
    good = make_table("default.good")
    bad.directory("delta_broken")
    for _ in range(4):
        for table in (bad, odd, good):
            table.insert()
    decisions = {d.resource.table: d for d in run_initiator(client, fs)}
    assert decisions["bad"].kind is Kind.ERROR
    assert "delta_broken" in decisions["bad"].reason
    assert decisions["odd"].kind is Kind.ERROR
    assert "delta.num.threshold" in decisions["odd"].reason
    assert decisions["good"].enqueued
    states = {c.resource.table: c.state for c in client.compactions.show()}
    assert states == {
        "bad": CompactionState.DID_NOT_INITIATE, "odd": CompactionState.DID_NOT_INITIATE,
        "good": CompactionState.INITIATED,
    }  # fmt: skip
