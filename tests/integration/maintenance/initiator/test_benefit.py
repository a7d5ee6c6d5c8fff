"""The policy ``benefit`` with the real Initiator, Worker and counts: who reads pays, and is asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.maintenance import run_history_purge, run_initiator, run_worker
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.maintenance.initiator import explain
from airflow_hive_acid.metastore.compaction.model import CompactionType, Resource
from airflow_hive_acid.metastore.compaction.requests import CompactionRequest
from airflow_hive_acid.metastore.records.reads import Mark
from airflow_hive_acid.metastore.schema.reads import HIVE_ACID_READ
from tests.integration.maintenance.cycles.steps import change, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient


T = Resource("default", "t")
MANY = 100_000
"""Reads that pay for any compaction of a few small deltas."""


@pytest.fixture
def settings(settings: dict[str, str]) -> dict[str, str]:
    """With the policy, and nobody who reads without being counted."""
    policy = {"hive.acid.initiator.policy": "benefit", "hive.acid.initiator.benefit.other.reads": "0"}
    return settings | policy


def read(client: MetastoreClient, times: int, resource: Resource = T) -> None:
    """As if so many jobs had read it: one does, and the count is set."""
    client.reads.add([resource])
    _, found = client.reads.find([resource])
    own = HIVE_ACID_READ.c
    of = own.HRD_DATABASE == resource.database, own.HRD_TABLE == resource.table
    part = own.HRD_PART_NAME == (resource.partition or "")
    change(client, HIVE_ACID_READ.update().where(*of, part).values(HRD_READS=found[resource].reads - 1 + times))


def test_readers_pay_for_deltas_until_a_compaction_costs_less(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: Callable[..., Any]
) -> None:
    """
    t1  three writes, and a look: what was read before is not known
    t2  a look: nobody has read, and nothing pays
    t3  many read
    t4  a look, without another write: it pays
    t5  the compaction; a write; a look: it was not read since
    """
    for _ in range(3):
        table.insert()
    (first,) = run_initiator(client, fs)
    assert (first.kind, first.rule) == (Kind.NOTHING, "no threshold reached")
    assert first.reason.endswith("by Hive's thresholds: its reads are counted from now on")
    (second,) = run_initiator(client, fs)
    assert (second.kind, second.rule) == (Kind.NOTHING, "hive.acid.initiator.policy")
    read(client, MANY)
    (third,) = run_initiator(client, fs)
    assert (third.kind, third.rule) == (Kind.MAJOR, "hive.acid.initiator.policy"), third
    assert third.numbers["reads_since_compaction"] == MANY
    assert third.reason.startswith(f"it pays: {MANY:.4g} reads are expected")
    assert [outcome.kind for outcome in run_worker(client, fs, compact_lines, worker_id="w")] == [Kind.COMPACTED]
    table.insert()
    (fourth,) = run_initiator(client, fs)
    assert (fourth.kind, fourth.numbers["reads_since_compaction"]) == (Kind.NOTHING, 0)
    read(client, 1)
    explained = explain.explain(client, fs, "default.t").decision
    assert (explained.numbers["reads_since_compaction"], explained.numbers["reads_since_base"]) == (1, 1)


def test_a_minor_compaction_is_marked_and_the_base_is_not(
    client: MetastoreClient, fs: Filesystem, table: Any, compact_lines: Callable[..., Any]
) -> None:
    table.directory("base_0000000", 10_000)
    for _ in range(2):
        table.insert(1)
        table.delete(1)
    run_initiator(client, fs)
    read(client, 5)
    _, before = client.reads.find([T])
    client.compactions.enqueue_all([CompactionRequest(T, CompactionType.MINOR)])
    assert [outcome.kind for outcome in run_worker(client, fs, compact_lines, worker_id="w")] == [Kind.COMPACTED]
    table.insert()
    run_initiator(client, fs)
    _, after = client.reads.find([T])
    assert before[T].compaction.of == 0
    assert after[T].compaction.of > 0
    assert after[T].compaction.reads == 5
    assert after[T].base == before[T].base


def test_a_table_that_nobody_reads_is_compacted_at_the_last_bound(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    """Three deltas are Hive's threshold here, fifteen the bound."""
    table.insert()
    run_initiator(client, fs)
    for _ in range(14):
        table.insert()
    assert [d.kind for d in run_initiator(client, fs)] == [Kind.NOTHING]
    table.insert()
    (decision,) = run_initiator(client, fs)
    assert (decision.kind, decision.rule) == (Kind.MAJOR, "hive.compactor.delta.num.threshold")


@pytest.mark.every_database
def test_reads_of_a_whole_table_count_for_each_of_its_partitions(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    table = make_table("default.p", "day")
    one, two = (Resource("default", "p", f"day={day}") for day in (1, 2))
    for place in (one, two):
        for _ in range(2):
            table.insert(1, place.partition)
    run_initiator(client, fs)
    read(client, 3, one)
    read(client, 2, Resource("default", "p"))
    decided = {d.resource: d for d in run_initiator(client, fs)}
    assert (decided[one].numbers["reads_since_compaction"], decided[two].numbers["reads_since_compaction"]) == (5, 2)


def test_a_table_says_for_itself_which_policy_counts(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    own = {"compactorthreshold.hive.acid.initiator.policy": "thresholds"}
    table = make_table("default.t", properties=own)
    for _ in range(2):
        for _ in range(4):
            table.insert()
        run_initiator(client, fs)
    assert rows(client, HIVE_ACID_READ) == []
    assert client.compactions.decisions.of(T)[0].rule == "active request"


def test_a_metastore_without_our_table_of_reads_is_looked_at_by_thresholds(
    client: MetastoreClient, fs: Filesystem, table: Any
) -> None:
    """Its schema has not been upgraded yet."""
    with client.database.transaction() as connection:
        HIVE_ACID_READ.drop(connection)
    client.database.forget_features()
    for _ in range(4):
        table.insert()
    client.reads.add([T])
    (decision,) = run_initiator(client, fs)
    assert decision.kind is Kind.MAJOR
    assert "hive-acid schema upgrade" in decision.reason
    assert client.reads.purge() == 0


def test_counts_of_what_is_gone_or_forgotten_are_purged(
    client: MetastoreClient, fs: Filesystem, make_table: Callable[..., Any]
) -> None:
    for name in ("t", "gone", "old"):
        make_table(f"default.{name}")
        client.reads.add([Resource("default", name)])
    client.catalog.drop_table("default.gone")
    change(client, HIVE_ACID_READ.update().where(HIVE_ACID_READ.c.HRD_TABLE == "old").values(HRD_LAST=1))
    assert run_history_purge(client).problems == {}
    assert [row["HRD_TABLE"] for row in rows(client, HIVE_ACID_READ)] == ["t"]


def test_many_count_at_once_and_none_is_lost(client: MetastoreClient) -> None:
    """Two that find no row both make one: the second is told that it is there, and counts on."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(client.reads.add, [[T, Resource("default", "u")]] * 8))
    _, found = client.reads.find([T])
    assert found[T].reads == 8
    assert found[T].compaction == Mark(-1, 0, 0)
