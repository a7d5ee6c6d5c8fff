"""SHOW as streams: filtered and ordered by the database, read in pieces."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.compaction.listing import CompactionFilter, Order, compactions
from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType
from airflow_hive_acid.metastore.database.codes import LockState, LockType
from airflow_hive_acid.metastore.listing import show
from airflow_hive_acid.metastore.listing.show import LockFilter
from airflow_hive_acid.metastore.setup import schema

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

MANY = 20_000
EVERYTHING = CompactionFilter()


@pytest.mark.every_database
def test_acquired_locks_come_first_and_the_more_restrictive_before_others(
    client: MetastoreClient, lock_on: Any
) -> None:
    first, second, third = client.open_txns(3)
    client.lock([lock_on("db.t", LockType.SHARED_READ)], txn_id=first)
    client.lock([lock_on("db.u/p=1", LockType.EXCLUSIVE)], txn_id=second)
    client.lock([lock_on("db.u/p=1", LockType.SHARED_READ)], txn_id=third)
    found = [(r.txn_id, r.type, r.state) for r in show.locks(client.database)]
    assert found == [
        (second, LockType.EXCLUSIVE, LockState.ACQUIRED),
        (first, LockType.SHARED_READ, LockState.ACQUIRED),
        (third, LockType.SHARED_READ, LockState.WAITING),
    ]
    assert found == [(r.txn_id, r.type, r.state) for r in client.show_locks()]

    def txns(wanted: LockFilter, limit: int | None = None) -> list[int]:
        return [r.txn_id for r in show.locks(client.database, wanted, limit)]

    assert txns(LockFilter("DB", "U")) == [second, third]
    assert txns(LockFilter("db", "u", "p=2")) == []
    assert txns(LockFilter("db", "u", "p=1"), 1) == [second]
    assert txns(LockFilter(txn_id=third)) == [third]
    assert txns(LockFilter(database="other")) == []
    with pytest.raises(InvalidArgumentsError, match="LIMIT -1"):
        txns(LockFilter(), -1)


@pytest.mark.every_database
@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
def test_transactions_come_in_the_order_of_their_ids(client: MetastoreClient) -> None:
    first, second, third = client.open_txns(3)
    client.abort_txn(first)
    client.commit_txn(second)
    assert [r.txn_id for r in show.transactions(client.database)] == [first, third]
    assert [r.txn_id for r in show.transactions(client.database, limit=1)] == [first]
    everything = [r.txn_id for r in show.transactions(client.database, include_committed=True)]
    assert everything[-3:] == [first, second, third]


@pytest.mark.every_database
@pytest.mark.hive4("its Hive compacts")
def test_compactions_of_queue_and_history_are_one_list(client: MetastoreClient, rows: Any) -> None:
    history = {"CC_DATABASE": "db", "CC_TABLE": "t", "CC_TYPE": "a"}
    rows.insert("COMPLETED_COMPACTIONS", **history, CC_ID=1, CC_STATE="s", CC_START=100, CC_END=900)
    rows.insert("COMPLETED_COMPACTIONS", **history, CC_ID=2, CC_STATE="f", CC_START=200, CC_END=250)
    queued = {"CQ_DATABASE": "db", "CQ_TYPE": "i", "CQ_STATE": "i"}
    rows.insert("COMPACTION_QUEUE", **queued, CQ_ID=3, CQ_TABLE="u", CQ_PARTITION="p=1", CQ_ENQUEUE_TIME=5)
    rows.insert("COMPACTION_QUEUE", **queued, CQ_ID=4, CQ_TABLE="u", CQ_START=300, CQ_POOL_NAME="big")

    def ids(wanted: CompactionFilter = EVERYTHING, *order: Order, limit: int | None = None) -> list[int]:
        return [c.id for c in compactions(client.database, wanted, order, limit)]

    assert ids() == [1, 4, 2, 3] == [c.id for c in client.compactions.show()]
    assert ids(CompactionFilter(database="DB", table="T")) == [1, 2]
    assert ids(CompactionFilter(partition="p=1")) == [3]
    assert ids(CompactionFilter(type=CompactionType.MINOR)) == [4, 3]
    assert ids(CompactionFilter(state=CompactionState.FAILED)) == [2]
    assert ids(CompactionFilter(pool="big")) == [4]
    assert ids(CompactionFilter(pool="default")) == [1, 2, 3]
    assert ids(CompactionFilter(id=2)) == [2]
    assert ids(EVERYTHING, Order("id"), limit=2) == [1, 2]
    assert ids(EVERYTHING, Order("tabname", descends=True), Order("compactionid")) == [3, 4, 1, 2]
    # NULL is smaller than everything: without an end there is no duration.
    assert ids(EVERYTHING, Order("duration"), Order("id")) == [3, 4, 2, 1]
    assert ids(EVERYTHING, Order("duration", descends=True), Order("id")) == [1, 2, 3, 4]
    assert ids(EVERYTHING, Order("state"), Order("id")) == [2, 3, 4, 1]
    assert {c.id: c.queued for c in compactions(client.database)} == {1: False, 2: False, 3: True, 4: True}
    with pytest.raises(InvalidArgumentsError, match="'nope' is no column of compactions"):
        ids(EVERYTHING, Order("nope"))


def test_rows_are_never_all_in_memory(client: MetastoreClient) -> None:
    lock = {
        "HL_LOCK_INT_ID": 1, "HL_TXNID": 0, "HL_DB": "db", "HL_TABLE": "t", "HL_LOCK_STATE": "a", "HL_LOCK_TYPE": "r",
        "HL_LAST_HEARTBEAT": 0, "HL_USER": "u" * 100, "HL_HOST": "h" * 100,
    }  # fmt: skip
    with client.database.transaction() as connection:
        for start in range(0, MANY, 5000):
            connection.execute(
                sa.insert(schema.HIVE_LOCKS), [{**lock, "HL_LOCK_EXT_ID": start + i} for i in range(1, 5001)]
            )
    tracemalloc.start()
    count = sum(1 for _ in show.locks(client.database))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == MANY
    assert peak < 4_000_000  # all rows at once are more than 20 MB
