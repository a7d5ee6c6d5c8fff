"""Very many partitions: what is read follows what has changed; no step compares each with each, or reads all at once.

Work is counted in the steps of SQLite's virtual machine, which are the same in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.names import TableName
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_TXN_COMPONENTS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_hive_acid.metastore import MetastoreClient

FEW, MANY = 200, 800


def components(client: MetastoreClient, resources: Iterable[Resource], txn: int = 1, kind: str = "N") -> None:
    """A completed write to each."""
    found = [
        {
            "CTC_TXNID": txn, "CTC_DATABASE": r.database, "CTC_TABLE": r.table, "CTC_PARTITION": r.partition,
            "CTC_WRITEID": txn, "CTC_UPDATE_DELETE": kind,
        }
        for r in resources
    ]  # fmt: skip
    with client.database.transaction() as connection:
        connection.execute(sa.insert(COMPLETED_TXN_COMPONENTS), found)


def partitions(first: int, last: int, table: str = "t") -> list[Resource]:
    return [Resource("db", table, f"p={number:05}") for number in range(first, last)]


# --- housekeeping -----------------------------------------------------------------------------------------------------


@pytest.mark.backends("sqlite")
def test_duplicates_are_found_without_comparing_each_partition_with_each(
    client: MetastoreClient, sqlite_steps: Callable[[Callable[[], Any]], int]
) -> None:
    components(client, partitions(0, FEW))
    few = sqlite_steps(client.housekeeping.remove_duplicate_completed_components)
    components(client, partitions(FEW, MANY))
    many = sqlite_steps(client.housekeeping.remove_duplicate_completed_components)
    assert many < 2 * few * MANY / FEW


@pytest.mark.every_database
def test_of_the_writes_of_a_table_and_of_each_partition_the_newest_stays(client: MetastoreClient) -> None:
    one, table = Resource("db", "t", "p=1"), Resource("db", "plain")
    for txn in (1, 2, 3):
        components(client, [one, table], txn)
    components(client, [Resource("db", "t", "p=2")], 2)
    assert client.housekeeping.remove_duplicate_completed_components() == 4
    left = [(c.resource, c.writes, c.txn_sum) for c in client.compactions.decisions.find_written(10)]
    assert sorted(left, key=str) == [(table, 1, 3), (one, 1, 3), (Resource("db", "t", "p=2"), 1, 2)]


# --- what was written -------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_pages_of_any_size_hold_each_table_and_partition_once(client: MetastoreClient) -> None:
    """Also where rows of a partitioned table name no partition."""
    everything = [
        Resource("a", "last"), *partitions(0, 3), Resource("db", "t"), Resource("db", "u"), *partitions(0, 2, "v"),
        Resource("db", "v"), Resource("e", "t"),
    ]  # fmt: skip
    components(client, everything)
    components(client, everything[:2], 5)
    whole = client.compactions.decisions.find_written(100)
    assert {one.resource for one in whole} == set(everything)
    assert [(one.writes, one.txn_sum) for one in whole if one.resource in everything[:2]] == [(2, 6), (2, 6)]
    for size in range(1, len(everything) + 1):
        pages, after = [], None
        while page := client.compactions.decisions.find_written(size, after):
            pages += page
            after = page[-1].resource
        assert pages == whole
    of_one, after = [], None
    while page := client.compactions.decisions.find_written(2, after, TableName("db", "t")):
        of_one += page
        after = page[-1].resource
    assert of_one == [one for one in whole if one.resource.table_name == TableName("db", "t")]


@pytest.mark.backends("sqlite")
def test_a_page_costs_the_same_among_few_and_many(
    client: MetastoreClient, sqlite_steps: Callable[[Callable[[], Any]], int]
) -> None:
    decisions, last = client.compactions.decisions, Resource("db", "t", "p=00100")
    components(client, partitions(0, FEW))
    few = sqlite_steps(lambda: decisions.find_written(20, last))
    components(client, partitions(FEW, MANY))
    assert sqlite_steps(lambda: decisions.find_written(20, last)) < 2 * few


@pytest.mark.backends("sqlite")
def test_a_first_look_is_one_walk(client: MetastoreClient, sqlite_steps: Callable[[Callable[[], Any]], int]) -> None:
    decisions = client.compactions.decisions
    components(client, partitions(0, FEW))
    few = sqlite_steps(lambda: list(decisions.walk_changed(1, 10)))
    components(client, partitions(FEW, MANY))
    many = sqlite_steps(lambda: list(decisions.walk_changed(1, 10)))
    assert many < 2 * few * MANY / FEW
    assert [len(page) for page in decisions.walk_changed(1, 300)] == [300, 300, 200]


@pytest.mark.every_database
def test_what_was_written_since_is_found_by_its_txns_and_only_that(client: MetastoreClient) -> None:
    decisions = client.compactions.decisions
    components(client, partitions(0, 50), 1)
    components(client, [Resource("db", "t", "p=00007"), Resource("db", "plain")], 8)
    touched = decisions.find_changed_since(8, 1, 10)
    assert touched is not None
    found = {one.resource: (one.writes, one.txn_sum) for one in touched}
    assert found == {Resource("db", "t", "p=00007"): (2, 9), Resource("db", "plain"): (1, 8)}
    assert decisions.find_changed_since(9, 1, 10) == []
    assert decisions.find_changed_since(1, 1, 10) is None  # too much at once: everything is walked through


# --- the queue --------------------------------------------------------------------------------------------------------


@pytest.mark.backends("sqlite")
def test_what_is_ready_for_cleaning_is_found_without_comparing_each_with_each(
    client: MetastoreClient, sqlite_steps: Callable[[Callable[[], Any]], int]
) -> None:
    def add(first: int, last: int) -> None:
        requests = [
            {
                "CQ_ID": number, "CQ_DATABASE": "db", "CQ_TABLE": "t", "CQ_PARTITION": f"p={number}", "CQ_STATE": "r",
                "CQ_TYPE": "a", "CQ_HIGHEST_WRITE_ID": 1,
            }
            for number in range(first, last)
        ]  # fmt: skip
        with client.database.transaction() as connection:
            connection.execute(sa.insert(COMPACTION_QUEUE), requests)

    add(1, FEW + 1)
    few = sqlite_steps(lambda: client.compactions.find_ready_to_clean(0, 10))
    add(FEW + 1, MANY + 1)
    assert len(client.compactions.find_ready_to_clean(0, 1000)) == MANY
    assert sqlite_steps(lambda: client.compactions.find_ready_to_clean(0, 10)) < 2 * few * MANY / FEW
