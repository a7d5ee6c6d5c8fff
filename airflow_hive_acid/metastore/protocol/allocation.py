"""The write ids of a transaction that begins (R1: after the grant, and behind the snapshot)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.notifications import events
from airflow_hive_acid.metastore.txns.write_ids import allocate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.backend import Step
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.verbs import Verbs


def allocate_all(
    connection: Connection, client: Verbs, txn_id: int, tables: Sequence[TableName]
) -> dict[TableName, int]:
    """Write ids of all tables, in the order of names, so that two txns never wait for each other here; ends the
    transaction."""
    write_ids: dict[TableName, int] = {}

    def announce(last: TableName, pairs: dict[int, int]) -> list[Step]:
        write_ids[last] = pairs[txn_id]
        return client.notifications.steps(
            connection, [events.alloc_write_id(t.database, t.name, {txn_id: w}) for t, w in write_ids.items()]
        )

    for table in tables[:-1]:
        write_ids[table] = allocate(connection, table, [txn_id])[txn_id]
    # One table without events takes one round trip; what was read before in this transaction has locked nothing.
    short = len(tables) == 1 and not client.notifications.enabled(connection)
    for table in tables[-1:]:
        pairs = allocate(connection, table, [txn_id], short=short, finish=partial(announce, table))
        write_ids[table] = pairs[txn_id]
    return write_ids
