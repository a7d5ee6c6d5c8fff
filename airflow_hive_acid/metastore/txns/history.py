"""What readers and open txns still need: MIN_HISTORY_LEVEL, MIN_HISTORY_WRITE_ID and the low-water marks.

Hive 4.0 and 4.1 protect readers by MIN_HISTORY_LEVEL, 4.2 by MIN_HISTORY_WRITE_ID. We write both wherever the table
exists, and whoever deletes must respect both (R10: register first, then look again).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, func, insert, select

from airflow_hive_acid.format.write_ids import MAX_ID
from airflow_hive_acid.metastore.database.backend import Step
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.expressions import smaller
from airflow_hive_acid.metastore.database.layouts import either
from airflow_hive_acid.metastore.schema.hive_transactions import MIN_HISTORY_LEVEL, MIN_HISTORY_WRITE_ID, TXNS
from airflow_hive_acid.metastore.schema.layouts import NEXT_TXN_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features
    from airflow_hive_acid.metastore.names.objects import TableName

_OLDEST_OPEN = select(func.min(TXNS.c.TXN_ID)).where(TXNS.c.TXN_STATE == "o").scalar_subquery()
#: In a statement of its own, so that the clock is read once and not for each row.
_GAP_AGO = select(clock_ms() - bindparam("gap_timeout", type_=sa.BigInteger)).scalar_subquery()
#: Ids at or below it that are missing were never opened or are gone: any row below a young one may still appear.
_OLD_ENOUGH = select(func.max(TXNS.c.TXN_ID)).where(TXNS.c.TXN_STARTED < _GAP_AGO).scalar_subquery()
COUNTED = select(NEXT_TXN_ID.c.NTXN_NEXT - 1).scalar_subquery()
"""Where txns are counted: the largest txn id that was given. Under the lock of that row, ids and their rows become
visible together and in order: nothing can appear below it any more."""
LARGEST_TXN = either(select(func.max(TXNS.c.TXN_ID)).scalar_subquery(), COUNTED)
"""The largest txn id that was given: the id of a commit."""
_LOW_BOUNDARY = either(_OLD_ENOUGH, COUNTED)
_OPEN_OR_MAX = func.coalesce(_OLDEST_OPEN, MAX_ID)
_BOUNDARY_NEXT = func.coalesce(_LOW_BOUNDARY, 0) + 1
WATERMARK = smaller(_OPEN_OR_MAX, _BOUNDARY_NEXT)
"""MinOpenTxnIdWaterMark as a SQL expression with the parameter ``gap_timeout``."""

_BOUNDARY = select(func.coalesce(_LOW_BOUNDARY, 0))
_WATERMARK = select(WATERMARK)
_MIN_SEEN = select(func.coalesce(func.min(MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID), MAX_ID))
_REGISTER = insert(MIN_HISTORY_WRITE_ID).values(
    MH_TXNID=bindparam("txn_id"),
    MH_DATABASE=bindparam("db"),
    MH_TABLE=bindparam("tbl"),
    MH_WRITEID=bindparam("write_id"),
)
_FORGET_LEVEL = delete(MIN_HISTORY_LEVEL).where(MIN_HISTORY_LEVEL.c.MHL_TXNID == bindparam("txn_id"))
_FORGET_WRITE_IDS = delete(MIN_HISTORY_WRITE_ID).where(MIN_HISTORY_WRITE_ID.c.MH_TXNID == bindparam("txn_id"))


def low_boundary(connection: Connection, gap_timeout_ms: int) -> int:
    """OpenTxnTimeoutLowBoundary: the largest txn id old enough that nothing can still appear below it."""
    return int(connection.execute(_BOUNDARY, {"gap_timeout": gap_timeout_ms}).scalar_one())


def min_open_watermark(connection: Connection, gap_timeout_ms: int) -> int:
    """MinOpenTxnIdWaterMark: every txn below it has ended, and none can appear any more."""
    return int(connection.execute(_WATERMARK, {"gap_timeout": gap_timeout_ms}).scalar_one())


def min_txn_seen_open(connection: Connection, features: Features) -> int:
    """The smallest txn that any open txn saw as open; MAX_ID when the table is absent or empty."""
    return int(connection.execute(_MIN_SEEN).scalar_one()) if features.min_history_level else MAX_ID


def register_steps(
    features: Features, txn_id: int, needed: Mapping[TableName, int], *, again: bool = False
) -> list[Step]:
    """Statements that register what a txn needs of each table (addWriteIdsToMinHistory); none if the table is absent.

    :param needed: smallest write id needed, by table (``ValidWriteIdList.min_open_or_next``).
    :param again: replace what was registered before.
    """
    if not features.min_history_write_id:
        return []
    steps = [Step(_FORGET_WRITE_IDS, {"txn_id": txn_id})] if again else []
    return steps + [
        Step(_REGISTER, {"txn_id": txn_id, "db": t.database, "tbl": t.name, "write_id": w}) for t, w in needed.items()
    ]


def forget_steps(features: Features, txn_id: int) -> list[Step]:
    """Statements that end what a txn registered."""
    steps = []
    if features.min_history_level:
        steps.append(Step(_FORGET_LEVEL, {"txn_id": txn_id}))
    if features.min_history_write_id:
        steps.append(Step(_FORGET_WRITE_IDS, {"txn_id": txn_id}))
    return steps
