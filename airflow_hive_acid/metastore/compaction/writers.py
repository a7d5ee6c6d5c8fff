"""Open txns that write to a table: below their write ids a compaction stops, whatever else was committed above."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select, tuple_

from airflow_hive_acid.metastore.compaction.horizon import Holder
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_TO_WRITE_ID, TXNS

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Connection

SHOWN = 3
"""So many are named for one table, the oldest write ids first."""
_TABLES = 300
_t2w = TXN_TO_WRITE_ID.c
_OPEN = (
    select(
        _t2w.T2W_DATABASE, _t2w.T2W_TABLE, _t2w.T2W_WRITEID, TXNS.c.TXN_ID, TXNS.c.TXN_USER, TXNS.c.TXN_HOST,
        TXNS.c.TXN_AGENT_INFO,
    )
    .join(TXNS, TXNS.c.TXN_ID == _t2w.T2W_TXNID)
    .where(TXNS.c.TXN_STATE == "o", tuple_(_t2w.T2W_DATABASE, _t2w.T2W_TABLE).in_(bindparam("tables", expanding=True)))
    .order_by(_t2w.T2W_WRITEID)
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenWriter:
    """An open txn and its write id in a table."""

    holder: Holder
    write_id: int

    def __str__(self) -> str:
        return f"{self.holder} is open and has write id {self.write_id}"


def find_open_writers(connection: Connection, tables: Collection[TableName]) -> dict[TableName, tuple[OpenWriter, ...]]:
    """The open txns with the smallest write ids of each of these tables, at most :data:`SHOWN`."""
    found: dict[TableName, list[OpenWriter]] = defaultdict(list)
    for part in chunks(sorted(tables), _TABLES):
        for row in connection.execute(_OPEN, {"tables": [tuple(table) for table in part]}):
            writers = found[TableName(row.T2W_DATABASE, row.T2W_TABLE)]
            if len(writers) < SHOWN:
                who = "@".join(text for text in (row.TXN_USER, row.TXN_HOST) if text)
                agent = row.TXN_AGENT_INFO
                holder = Holder(row.TXN_ID, f"{who}, {agent}" if agent else who)
                writers.append(OpenWriter(holder, row.T2W_WRITEID))
    return {table: tuple(writers) for table, writers in found.items()}
