"""What several tests of the maintenance services do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_hive_acid.metastore.compaction.cleaning import insert_soft_deletes
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation, TxnType
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, TXNS

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


def soft_delete(
    client: MetastoreClient, resource: Resource, location: str, *, abort: bool = False, highest: int = 1
) -> int:
    txn = client.open_txn(type=TxnType.SOFT_DELETE)
    with client.database.transaction() as connection:
        (request,) = insert_soft_deletes(
            connection, [(resource, location)], txn_id=txn, highest_write_id=highest, purge=False)  # fmt: skip
    client.abort_txn(txn) if abort else client.commit_txn(txn)
    return request


def give_back_what_the_dead_hold(client: MetastoreClient) -> list[int]:
    """As if ``hive.compactor.worker.timeout`` had passed for all workers: what they held whose txns have ended."""
    change(client, sa.update(COMPACTION_QUEUE).where(COMPACTION_QUEUE.c.CQ_STATE == "w").values(CQ_START=1000))
    return client.compactions.requeue_timed_out(1000)


def pass_time(client: MetastoreClient) -> None:
    """As if every txn so far had been opened a second earlier: no gap of the open time-out is left."""
    change(client, sa.update(TXNS).values(TXN_STARTED=TXNS.c.TXN_STARTED - 1000))


def lines(client: MetastoreClient, table: Any, partition: str | None = None) -> list[str]:
    with client.snapshot([table.name]) as reader:
        return table.read(reader, partition)


def forget_what_has_ended(client: MetastoreClient) -> None:
    """The purges: aborted txns without components, then the write ids below what is left."""
    pass_time(client)
    pass_time(client)
    client.housekeeping.clean_empty_txns()
    client.housekeeping.clean_txn_to_write_id()


def hive_inserts(client: MetastoreClient, table: Any, partition: str | None = None) -> tuple[int, int]:
    """An INSERT of a Hive, as far as its locks and its write id: SHARED_READ, with hive.txn.write.xlock its default.

    :param partition: where it says so itself; else it finds out while it runs.
    :return: the txn and the write id.
    """
    txn_id = client.open_txn()
    database, name = table.name.split(".")
    component = LockComponent(
        database, name, partition, LockType.SHARED_READ, Operation.INSERT, dynamic_partitions=partition is None
    )
    assert client.lock([component], txn_id=txn_id).state is LockState.ACQUIRED
    return txn_id, client.allocate_write_ids(table.name, txn_id)[txn_id]


FIRST_DELTAS = ["delta_0000001_0000001_0000", "delta_0000002_0000002_0000"]
"""What the fixture ``asked`` has written."""


def check_untouched(client: MetastoreClient, table: Any) -> None:
    """The table reads as ``asked`` made it, nothing is locked, no txn is open."""
    with client.snapshot(["default.t"]) as snapshot:
        assert len(table.read(snapshot)) == 4
    assert client.show_locks() == []
    assert not [row for row in client.show_transactions() if row.state.value == "o"]
    assert [name for name in table.directories() if not name.startswith("_")] == FIRST_DELTAS
