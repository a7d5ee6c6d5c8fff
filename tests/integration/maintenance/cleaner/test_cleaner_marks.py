"""Several compactions of one table or partition wait for the Cleaner: each takes what it replaced, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.format.names import base_name, delta_name
from airflow_hive_acid.maintenance import run_cleaner, run_worker
from airflow_hive_acid.maintenance.cleaner import replaced
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.warehouse.fences import FenceReport
from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType, Resource
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.replica.source import uncleaned_compactions
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS
from tests.integration.maintenance.cycles.steps import change, pass_time, rows, start_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

    RunJob = Callable[[JobSpec], JobResult]


@pytest.fixture
def compact(client: MetastoreClient, fs: Filesystem, compact_lines: RunJob) -> Callable[..., str]:
    """Compact a table now; returns the new directory."""

    def run(kind: CompactionType = CompactionType.MAJOR, partition: str | None = None, name: str = "default.t") -> str:
        assert client.compactions.enqueue(name, partition, kind).accepted
        return run_worker(client, fs, compact_lines, "w")[0].directories[0]

    return run


def clean(client: MetastoreClient, fs: Filesystem) -> list[tuple[Kind, int | None]]:
    pass_time(client)
    return [(outcome.kind, outcome.request_id) for outcome in run_cleaner(client, fs)]


@pytest.mark.conformance("K04")
def test_compactions_that_pile_up_behind_a_txn_are_all_cleaned_once_it_has_ended(
    client: MetastoreClient, fs: Filesystem, table: Any, compact: Callable[..., str]
) -> None:
    """
    t1  minor of two deltas; a reader is open; the Cleaner removes nothing
    t2  two more deltas, major; the Cleaner removes nothing: both requests stay
    t3  the reader ends; two looks; only the major's base is left
    """
    table.insert()
    table.insert()
    reader = client.open_snapshot(["default.t"])
    compact(CompactionType.MINOR)
    assert clean(client, fs) == [(Kind.WAITING, 1)]
    table.insert()
    table.insert()
    base = compact()
    before = table.directories()
    assert clean(client, fs) == [(Kind.WAITING, 1)]
    assert table.directories() == before
    assert len(before) == 6
    reader.close()
    assert clean(client, fs) == [(Kind.CLEANED, 1)]
    assert clean(client, fs) == [(Kind.CLEANED, 2)]
    assert table.directories() == [base]
    assert {request.state for request in client.compactions.show()} == {CompactionState.SUCCEEDED}


@pytest.mark.conformance("K08")
def test_each_of_three_compactions_removes_what_lies_below_its_own_mark(
    client: MetastoreClient, fs: Filesystem, table: Any, compact: Callable[..., str]
) -> None:
    """The directory of an aborted overwrite above a mark waits for a compaction whose mark is above it."""
    bases = []
    for _ in range(2):
        for _ in range(3):
            table.insert()
        bases.append(compact())
    aborted = table.begin("overwrite")
    table.directory(base_name(7))
    aborted.abort("a test")
    pass_time(client)
    client.housekeeping.clean_txn_to_write_id()
    writer = table.begin()
    open_delta = table.put(writer, 1).rpartition("/")[2]
    deltas = [delta_name(i, i, 0) for i in range(1, 7)]
    assert table.directories() == sorted([*bases, *deltas, base_name(7), open_delta])
    assert clean(client, fs) == [(Kind.CLEANED, 1)]
    assert table.directories() == sorted([*bases, *deltas[3:], base_name(7), open_delta])
    writer.commit()
    assert clean(client, fs) == [(Kind.CLEANED, 2)]
    assert table.directories() == sorted([bases[1], base_name(7), open_delta])
    table.insert()
    last = compact()
    assert clean(client, fs) == [(Kind.CLEANED, 3)]
    assert table.directories() == [last]


@pytest.mark.backends("sqlite")
@pytest.mark.conformance("K13")
def test_a_wider_minor_compaction_does_not_lose_its_own_sources_to_the_clean_up_of_a_narrower_one(
    client: MetastoreClient, fs: Filesystem, table: Any, compact: Callable[..., str]
) -> None:
    """Up to 3 and up to 5: the first clean-up removes 1 to 3, and keeps the narrower result and 4 and 5."""
    for _ in range(3):
        table.insert()
    narrow = compact(CompactionType.MINOR)
    table.insert()
    table.insert()
    wide = compact(CompactionType.MINOR)
    assert clean(client, fs) == [(Kind.CLEANED, 1)]
    assert table.directories() == sorted([narrow, wide, delta_name(4, 4, 0), delta_name(5, 5, 0)])
    assert clean(client, fs) == [(Kind.CLEANED, 2)]
    assert table.directories() == [wide]


@pytest.mark.backends("sqlite")
@pytest.mark.conformance("K15")
def test_of_two_results_for_the_same_range_the_later_one_stays(
    client: MetastoreClient, fs: Filesystem, table: Any, compact: Callable[..., str]
) -> None:
    """Two workers did one request, as after a worker's time-out: both results are committed."""
    for _ in range(2):
        table.insert()
    first = compact(CompactionType.MINOR)
    twin = client.open_txn(type=TxnType.COMPACTION)
    second = delta_name(1, 2, None, twin)
    table.directory(second, lines=2)
    client.commit_txn(twin)
    pass_time(client)
    with client.snapshot(["default.t"]) as snapshot:
        assert [line.split(":")[0] for line in table.read(snapshot)] == [second, second]
    assert clean(client, fs) == [(Kind.CLEANED, 1)]
    assert first != second
    assert table.directories() == [second]


@pytest.mark.conformance("K16")
def test_a_second_request_while_one_waits_for_the_cleaner_is_refused_and_one_with_only_aborts_succeeds(
    client: MetastoreClient, fs: Filesystem, table: Any, compact: Callable[..., str], compact_lines: RunJob
) -> None:
    table.insert()
    table.insert()
    base = compact()
    again = client.compactions.enqueue("default.t")
    assert (again.accepted, again.message) == (
        False, "Compaction is already scheduled with state='ready for cleaning' and id=1",
    )  # fmt: skip
    assert clean(client, fs) == [(Kind.CLEANED, 1)]
    table.abort()
    table.abort()
    assert client.compactions.enqueue("default.t").accepted
    assert [o.kind for o in run_worker(client, fs, compact_lines, "w")] == [Kind.FOR_CLEANER]
    assert clean(client, fs) == [(Kind.CLEANED, 2)]
    assert table.directories() == [base]
    assert rows(client, TXN_COMPONENTS) == []


@pytest.mark.backends("sqlite")
@pytest.mark.conformance("K20")
def test_what_was_refused_for_no_cleanup_goes_when_the_property_is_taken_back(
    client: MetastoreClient, fs: Filesystem, table: Any, compact: Callable[..., str]
) -> None:
    table.insert()
    table.insert()
    compact()
    parameters = sa.table("TABLE_PARAMS", *map(sa.column, ("TBL_ID", "PARAM_KEY", "PARAM_VALUE")))
    switch = {"TBL_ID": client.catalog.get_table("default.t").id, "PARAM_KEY": "no_cleanup"}
    change(client, sa.insert(parameters).values(**switch, PARAM_VALUE="true"))
    assert clean(client, fs) == [(Kind.REFUSED, 1)]
    assert len(table.directories()) == 3
    change(client, sa.update(parameters).where(parameters.c.PARAM_KEY == "no_cleanup").values(PARAM_VALUE="false"))
    table.insert()
    base = compact()
    assert clean(client, fs) == [(Kind.CLEANED, 2)]
    assert table.directories() == [base]


def test_a_replication_does_not_take_for_complete_what_was_cleaned_in_part(
    client: MetastoreClient,
    fs: Filesystem,
    table: Any,
    compact: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    t1  a minor compaction of three deltas
    t2  the Cleaner removes the three, and keeps its request: the job of an aborted txn may still write
    t3  a replication must not look behind the compaction: the deltas are not there
    """
    for _ in range(3):
        table.insert()
    txn = table.begin()
    start_job(client, table, txn, "job1")
    txn.abort("task killed")
    compact(CompactionType.MINOR)

    def uncleaned() -> int:
        found = client.database.read(lambda connection: uncleaned_compactions(connection, TableName("default", "t")))
        return len(found.get(Resource("default", "t"), ()))

    def fence(*_: object) -> tuple[FenceReport, bool]:
        return FenceReport(alive=((client.jobs.get("job1"), "its copies may be under way"),)), True

    assert uncleaned() == 1
    for removed in (3, 0):
        pass_time(client)
        with monkeypatch.context() as patch:
            patch.setattr(replaced, "fence_aborted", fence)
            (outcome,) = run_cleaner(client, fs)
        assert (outcome.kind, len(outcome.removed)) == (Kind.KEPT, removed)
        assert uncleaned() == 0
    assert clean(client, fs) == [(Kind.CLEANED, 1)]
    assert uncleaned() == 0
