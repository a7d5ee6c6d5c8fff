"""Two Workers on one request, two Cleaners at once: one of them does it, and the other changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance import run_cleaner, run_reaper, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionState
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, TXNS
from airflow_hive_acid.settings import Settings, Source
from tests.integration.maintenance.cycles.steps import change, pass_time
from tests.integration.maintenance.row_tables import RowTable, compact_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.maintenance import CleaningOutcome, CompactionOutcome

pytestmark = pytest.mark.every_database


@pytest.fixture
def rival(metastore_url: str, settings: dict[str, str]) -> Iterator[MetastoreClient]:
    """Another process on the same metastore."""
    with MetastoreClient(metastore_url, Settings({Source.CONNECTION: settings}), user="bob", host="host2") as client:
        yield client


@pytest.fixture
def asked(client: MetastoreClient, fs: Filesystem) -> RowTable:
    """A table of two inserts, 4 rows, and a request to compact it."""
    client.catalog.create_database("default", if_not_exists=True)
    made = client.catalog.create_table(TableDefinition("default", "t", (Column("id", "bigint"),)))
    fs.make_directory(made.location)
    table = RowTable(client, fs, made.qualified_name, made.location)
    for _ in range(2):
        with table.begin("insert") as txn:
            table.put(txn, 2)
    client.compactions.enqueue("default.t")
    return table


def read(client: MetastoreClient, table: RowTable) -> int:
    with client.snapshot([table.name]) as snapshot:
        return len(table.read(snapshot))


def test_of_two_workers_that_reach_for_one_request_one_gets_it(
    client: MetastoreClient, rival: MetastoreClient, fs: Filesystem, asked: RowTable
) -> None:
    start = Barrier(2)

    def work(one: MetastoreClient, name: str) -> list[CompactionOutcome]:
        start.wait(30)
        return run_worker(one, fs, partial(compact_rows, fs), name)

    with ThreadPoolExecutor(2) as pool:
        done = [f.result(60) for f in (pool.submit(work, client, "w1"), pool.submit(work, rival, "w2"))]
    assert sorted(map(len, done)) == [0, 1]
    assert len([name for name in asked.directories() if name.startswith("base")]) == 1
    assert read(client, asked) == 4


@pytest.mark.rule("R4")
@pytest.mark.conformance("K17")
def test_a_worker_that_was_given_up_and_wakes_up_publishes_nothing(
    client: MetastoreClient, rival: MetastoreClient, fs: Filesystem, asked: RowTable
) -> None:
    """
    t1  A's job is running; A falls silent; the reaper fences its job and aborts its txn
    t2              the request times out and goes to B, who compacts and commits
    t3  A's job ends: it cannot be published any more, the request is not A's, and nothing of A is left
    """
    running, go_on = Event(), Event()

    def slow(spec: JobSpec) -> JobResult:
        running.set()
        assert go_on.wait(60)
        return compact_rows(fs, spec)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run_worker, rival, fs, slow, "slow", 1)
        assert running.wait(30)
        txn = next(row.txn_id for row in client.show_transactions() if row.host == "host2")
        rival.heartbeats.remove(txn)
        change(client, sa.update(TXNS).where(TXNS.c.TXN_ID == txn).values(TXN_LAST_HEARTBEAT=1))
        assert run_reaper(client, fs).aborted == (txn,)
        change(client, sa.update(COMPACTION_QUEUE).values(CQ_START=1))
        assert client.compactions.requeue_timed_out(86_400_000) == [1]
        (second,) = run_worker(client, fs, partial(compact_rows, fs), "quick")
        assert second.kind is Kind.COMPACTED
        go_on.set()
        (outcome,) = first.result(60)
    assert outcome.kind is Kind.FAILED
    assert client.compactions.get(1).state is CompactionState.READY_FOR_CLEANING
    assert read(client, asked) == 4
    pass_time(client)
    assert [o.kind for o in run_cleaner(client, fs)] == [Kind.CLEANED]
    assert asked.directories() == list(second.directories)
    assert read(client, asked) == 4


def test_of_two_cleaners_at_once_one_works(
    client: MetastoreClient, rival: MetastoreClient, fs: Filesystem, asked: RowTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is stopped in the middle of its work; the second finds the mutex held and goes home."""
    run_worker(client, fs, partial(compact_rows, fs), "w")
    pass_time(client)
    deleting, go_on = Event(), Event()
    delete = type(fs).delete

    def slow(self: Any, uri: str, *, inside: str) -> bool:
        deleting.set()
        assert go_on.wait(60)
        return delete(self, uri, inside=inside)

    monkeypatch.setattr(type(fs), "delete", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run_cleaner, client, fs)
        assert deleting.wait(30)
        second: list[CleaningOutcome] = run_cleaner(rival, fs)
        go_on.set()
        assert [o.kind for o in first.result(60)] == [Kind.CLEANED]
    assert second == []
    assert [name.partition("_")[0] for name in asked.directories()] == ["base"]
