"""What the Initiator and the Cleaner find: what was written, what was aborted, what is ready for cleaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.compaction.cleaning import insert_soft_deletes
from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.database.codes import TxnType
from tests.integration.metastore.compaction.requests import T, abort, work, write

if TYPE_CHECKING:
    import sqlite3

    from airflow_hive_acid.metastore import MetastoreClient


@pytest.mark.conformance("C12")
@pytest.mark.conformance("C13")
def test_candidates_are_what_was_written_and_not_yet_compacted(client: MetastoreClient) -> None:
    write(client, T, "insert", "ds=1", "ds=2")
    write(client, T, "update", "ds=2")
    write(client, "other.u")
    found = [c.resource for c in client.compactions.find_candidates()]
    assert set(found) == {Resource("default", "t", "ds=1"), Resource("default", "t", "ds=2"), Resource("other", "u")}
    assert found[-1] == Resource("other", "u")
    assert len(client.compactions.find_candidates(limit=2)) == 2


@pytest.mark.conformance("C16")
def test_aborts_are_counted_per_table_or_partition(client: MetastoreClient) -> None:
    for number in range(3):
        abort(client, T, f"ds={number}")
    for _ in range(3):
        abort(client, "default.u")
    found = client.compactions.find_aborts_to_clean(count=2, age_ms=-1)
    if client.database.layout().counts_txns:
        assert found == []  # its Hive compacts them away
        return
    assert [(a.resource, a.components) for a in found] == [(Resource("default", "u"), 3)]
    assert len(client.compactions.find_aborts_to_clean(count=0, age_ms=-1)) == 4


@pytest.mark.hive4("its Hive cleans, and drops remove their files at once")
def test_a_soft_delete_waits_in_the_queue_with_its_location(client: MetastoreClient) -> None:
    txn = client.open_txn(type=TxnType.SOFT_DELETE)
    with client.database.transaction() as connection:
        dropped = [(Resource("default", "t"), "file:/w/t.v1")]
        insert_soft_deletes(connection, dropped, txn_id=txn, highest_write_id=7, purge=True)
    client.commit_txn(txn)
    (request,) = client.compactions.find_ready_to_clean()
    assert request.soft_deleted_location == "file:/w/t.v1"
    assert request.properties == {"location": "file:/w/t.v1", "ifPurge": "true"}
    assert (request.next_txn_id, request.highest_write_id) == (txn, 7)
    assert client.compactions.enqueue(T).accepted


@pytest.mark.backends("sqlite")
def test_without_a_retention_a_compaction_is_ready_in_the_millisecond_of_its_commit(client: MetastoreClient) -> None:
    """The clock stands still; a Hive would see the request a millisecond later.

    t1  a Worker commits a compaction
    t1                        a Cleaner looks: it is there; with a retention of 1 ms it is not
    """

    def stop_clock(connection: sqlite3.Connection, _record: object) -> None:
        connection.create_function("julianday", 1, lambda _now: 2_461_000.25)

    client.database.close()
    sa.event.listen(client.database.engine, "connect", stop_clock)
    client.compactions.enqueue(T)
    request = work(client, 1)
    assert [found.id for found in client.compactions.find_ready_to_clean()] == [request.id]
    assert client.compactions.find_ready_to_clean(retention_ms=1) == []
