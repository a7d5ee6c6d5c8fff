"""What a sync of ACID tables asks the source's metastore, beside its snapshot."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, func, select

from airflow_hive_acid.metastore.compaction.model import CompactionType, Resource
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    TXN_TO_WRITE_ID,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

_Q, _C, _T = COMPACTION_QUEUE.c, COMPLETED_COMPACTIONS.c, TXN_TO_WRITE_ID.c
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_READY = select(
    _Q.CQ_PARTITION, _Q.CQ_TXN_ID, _Q.CQ_COMMIT_TIME, _Q.CQ_CLEANER_START, _Q.CQ_RETRY_RETENTION, _Q.CQ_ERROR_MESSAGE,
    _Q.CQ_TBLPROPERTIES, _Q.CQ_TYPE,
).where(
    _Q.CQ_DATABASE == bindparam("db"), _Q.CQ_TABLE == bindparam("tbl"), _Q.CQ_STATE == "r", _Q.CQ_TYPE != "c"
)  # fmt: skip
_CLEANED = (
    select(_C.CC_PARTITION, func.max(_C.CC_END))
    .where(_C.CC_DATABASE == bindparam("db"), _C.CC_TABLE == bindparam("tbl"))
    .group_by(_C.CC_PARTITION)
)
_TXNS = select(_T.T2W_WRITEID, _T.T2W_TXNID).where(
    _T.T2W_DATABASE == bindparam("db"), _T.T2W_TABLE == bindparam("tbl"), _T.T2W_WRITEID.in_(_IDS)
)


def uncleaned_compactions(connection: Connection, table: TableName) -> dict[Resource, frozenset[int]]:
    """Compaction txns after whose results nothing was removed yet, so that what they replaced is complete.

    To be asked after the listing: a Cleaner notes that it begins (CQ_CLEANER_START) before it removes anything. The
    note stays when it has and will come back for the rest, and a failure stays in its row. Whatever was cleaned, or
    failed to be, after a compaction committed may have removed what that had replaced, too. A rebalance does not count:
    what it replaced has other row ids than what was written since.
    """
    of_table = {"db": table.database, "tbl": table.name}
    ended = dict(connection.execute(_CLEANED, of_table).all())
    ready: dict[str | None, list[Any]] = defaultdict(list)
    for partition, *rest in connection.execute(_READY, of_table):
        ready[partition].append(rest)
    found: dict[Resource, frozenset[int]] = {}
    for partition, rows in ready.items():
        touched = any(
            start is not None or pause or error or "location" in (text or "")
            for _, _, start, pause, error, text, _ in rows
        )
        last = max((ended[p] or 0 for p in (partition, None) if p in ended), default=-1)
        if not touched:
            txns = frozenset(
                txn for txn, time, *_, kind in rows
                if txn is not None and time is not None and time > last and kind != CompactionType.REBALANCE.value
            )  # fmt: skip
            found[Resource(*table, partition)] = txns
    return found


def txns_of(connection: Connection, table: TableName, write_ids: Iterable[int]) -> dict[int, int]:
    """The txns of write ids that the metastore remembers."""
    found: dict[int, int] = {}
    for part in chunks(sorted(write_ids)):
        parameters = {"db": table.database, "tbl": table.name, "ids": list(part)}
        found.update(connection.execute(_TXNS, parameters).all())
    return found
