"""Requests of tests: tables that are written, aborted and compacted, and the rows of the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.metastore.database.codes import TxnType

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction.model import Compaction

T = "default.t"


def rows(client: MetastoreClient, table: sa.Table) -> list[dict[str, Any]]:
    with client.database.reading() as connection:
        return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


def change(client: MetastoreClient, statement: Any) -> None:
    with client.database.transaction() as connection:
        connection.execute(statement)


def write(client: MetastoreClient, table: str = T, operation: str = "insert", *partitions: str) -> int:
    with client.transaction({table: operation}, partitioned=[table] if partitions else []) as txn:
        if partitions:
            txn.add_partitions(table, partitions)
    return txn.write_ids[table]


def abort(client: MetastoreClient, table: str = T, *partitions: str) -> int:
    txn = client.begin({table: "insert"}, partitioned=[table] if partitions else [])
    if partitions:
        client.add_partitions(txn.txn_id, table, partitions)
    txn.abort("a test")
    return txn.txn_id


def work(client: MetastoreClient, highest: int, worker: str = "w1") -> Compaction:
    """Claim the next request and bring it to ready for cleaning, committed."""
    request = client.compactions.claim(worker)
    assert request is not None
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=highest, txn_id=txn, run_as="hive")
    client.compactions.mark_compacted(request)
    client.commit_txn(txn)
    return client.compactions.get(request.id)
