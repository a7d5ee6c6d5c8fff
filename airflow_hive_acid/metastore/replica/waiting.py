"""Txns of a replica that wait for what becomes of a write id at the source.

Nobody but replication ends them. Where somebody does all the same (an admin, the reaper after eleven days, a
fail-over), the write id is aborted here, and compactions pass it: their directories are the replica's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select

from airflow_hive_acid.format.write_ids import ValidWriteIdList
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_TO_WRITE_ID, TXNS

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

_W = TXN_TO_WRITE_ID.c
_WAITING = (
    select(_W.T2W_WRITEID, _W.T2W_TXNID)
    .join(TXNS, TXNS.c.TXN_ID == _W.T2W_TXNID)
    .where(
        TXNS.c.TXN_STATE == "o", _W.T2W_DATABASE == bindparam("db"), _W.T2W_TABLE == bindparam("tbl"),
        _W.T2W_WRITEID.in_(bindparam("ids", expanding=True)),
    )
)  # fmt: skip


def waiting_txns(connection: Connection, table: TableName, write_ids: Collection[int]) -> dict[int, int]:
    """The open txns here of write ids that were open at the last sync, by write id; of those that have ended, none."""
    found: dict[int, int] = {}
    for part in chunks(sorted(write_ids)):
        values = {"db": table.database, "tbl": table.name, "ids": list(part)}
        found.update((write_id, txn_id) for write_id, txn_id in connection.execute(_WAITING, values))
    return found


def ended_here(connection: Connection, table: TableName, known: ValidWriteIdList) -> frozenset[int]:
    """Write ids that were open at the last sync, and whose txns here others have ended since."""
    return frozenset(known.open - waiting_txns(connection, table, known.open).keys())


def given_up(known: ValidWriteIdList, ended: Collection[int]) -> ValidWriteIdList:
    """What has come to a table, with open write ids aborted."""
    aborted = known.aborted | frozenset(ended)
    return ValidWriteIdList(known.high_watermark, known.open - frozenset(ended), aborted, None, known.table)


def why_lost(ended: Collection[int], write_ids: ValidWriteIdList) -> str | None:
    """Why a replica cannot follow a source, if ids that have ended here are not aborted there; None when they are."""
    lost = sorted(w for w in ended if w in write_ids.open or write_ids.is_valid(w))
    if not lost:
        return None
    return (
        f"the txn of write id {lost[0]} was aborted here by others than replication, and the source has not aborted it"
    )
