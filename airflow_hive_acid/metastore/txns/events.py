"""The notification events of txn verbs, as the last statements of their transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, select

from airflow_hive_acid.metastore.database.codes import COMPACTING_TYPES, TxnType
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.notifications import events
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, TXN_COMPONENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.backend import Step
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.notifications.log import Notifications
    from airflow_hive_acid.metastore.txns.commits import Committed

_KINDS = {"a": "MAJOR", "i": "MINOR", "r": "REBALANCE", "c": "ABORT_TXN_CLEANUP"}
_Q = COMPACTION_QUEUE.c
#: As Hive's: one request, also where a drop of several partitions has made several.
_COMPACTION = (
    select(_Q.CQ_ID, _Q.CQ_TYPE, _Q.CQ_DATABASE, _Q.CQ_TABLE, _Q.CQ_PARTITION)
    .where(_Q.CQ_TXN_ID == bindparam("txn_id"))
    .order_by(_Q.CQ_ID)
    .limit(1)
)
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
#: Of components, because TXN_TO_WRITE_ID has no index by txn.
_WRITES = (
    select(TXN_COMPONENTS.c.TC_TXNID, TXN_COMPONENTS.c.TC_DATABASE, TXN_COMPONENTS.c.TC_WRITEID)
    .where(TXN_COMPONENTS.c.TC_TXNID.in_(_IDS))
    .distinct()
)


def opened(connection: Connection, log: Notifications, txn_ids: Sequence[int], kind: TxnType) -> list[Step]:
    """OPEN_TXN; readers are not announced."""
    return [] if kind is TxnType.READ_ONLY else log.steps(connection, [events.open_txn(txn_ids)])


def committed(connection: Connection, log: Notifications, facts: Committed) -> list[Step]:
    """COMMIT_TXN, and COMMIT_COMPACTION for a txn with a request in the queue.

    That is a compaction's, and a soft delete's as well: a real Hive asks the queue alone, not the txn's type.
    """
    if facts.type is TxnType.READ_ONLY or not log.enabled(connection):
        return []
    written = [events.commit_txn(facts.txn_id, facts.writes)]
    if facts.type in COMPACTING_TYPES:
        written += [
            events.commit_compaction(facts.txn_id, row[0], _KINDS.get(row[1], "MAJOR"), row[2], row[3], row[4])
            for row in connection.execute(_COMPACTION, {"txn_id": facts.txn_id})
        ]
    return log.steps(connection, written)


def aborted(connection: Connection, log: Notifications, txn_ids: Sequence[int]) -> None:
    """ABORT_TXN of each txn."""
    if not txn_ids or not log.enabled(connection):
        return
    writes: dict[int, list[tuple[str, int]]] = {txn_id: [] for txn_id in txn_ids}
    for part in chunks(list(txn_ids)):
        for txn_id, database, write_id in connection.execute(_WRITES, {"ids": list(part)}):
            if write_id is not None:
                writes[txn_id].append((database, write_id))
    log.write(connection, [events.abort_txn(txn_id, writes[txn_id]) for txn_id in txn_ids])


def allocated(connection: Connection, log: Notifications, table: TableName, pairs: dict[int, int]) -> list[Step]:
    """ALLOC_WRITE_ID of one table."""
    return log.steps(connection, [events.alloc_write_id(table.database, table.name, pairs)])
