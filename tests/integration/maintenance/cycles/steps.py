"""What several tests of the maintenance services do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction.model import Resource


def rows(client: MetastoreClient, table: sa.Table) -> list[dict[str, Any]]:
    with client.database.reading() as connection:
        return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


def change(client: MetastoreClient, statement: Any) -> None:
    with client.database.transaction() as connection:
        connection.execute(statement)


def start_job(client: MetastoreClient, table: Any, txn: Any, job_id: str) -> str:
    staging = f"{table.location}/_tmp_{job_id}"
    client.jobs.start(job_id=job_id, txn_id=txn.txn_id, table=table.name, write_id=txn.write_ids[table.name],
                      statement=0, kind="insert", table_location=table.location, staging=staging)  # fmt: skip
    table.fs.make_directory(f"{staging}/data/delta_9")
    return staging


def soft_delete(client: MetastoreClient, resource: Resource, location: str, *, abort: bool = False) -> int:
    txn = client.open_txn(type=TxnType.SOFT_DELETE)
    with client.database.transaction() as connection:
        request = client.compactions.enqueue_soft_delete(
            connection, resource, location, txn_id=txn, highest_write_id=1)  # fmt: skip
    client.abort_txn(txn) if abort else client.commit_txn(txn)
    return request


def pass_time(client: MetastoreClient) -> None:
    """As if every txn so far had been opened a second earlier: no gap of the open time-out is left."""
    change(client, sa.update(TXNS).values(TXN_STARTED=TXNS.c.TXN_STARTED - 1000))


FIRST_DELTAS = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]
"""What the fixture ``asked`` has written."""


def check_untouched(client: MetastoreClient, table: Any) -> None:
    """The table reads as ``asked`` made it, nothing is locked, no txn is open."""
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 4
    assert client.show_locks() == []
    assert not [row for row in client.show_transactions() if row.state.value == "o"]
    assert [name for name in table.directories() if not name.startswith("_")] == FIRST_DELTAS
