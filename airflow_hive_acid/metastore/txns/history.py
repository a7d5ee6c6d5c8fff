"""What readers and open txns still need: MIN_HISTORY_LEVEL, MIN_HISTORY_WRITE_ID and the low-water marks.

Hive 4.0 and 4.1 protect readers by MIN_HISTORY_LEVEL, 4.2 by MIN_HISTORY_WRITE_ID. We write both wherever the table
exists, and whoever deletes must respect both (R10: register first, then look).

What a txn needs of a table is computed by the statement that registers it: the smallest write id that any snapshot of
it, taken from then on, can find open or not yet given. Such a look can only need more recent ids: a write id that is
open later was open before, or given since, which made it larger than all there were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, func, insert, select

from airflow_hive_acid.format.write_ids import MAX_ID
from airflow_hive_acid.metastore.database.backend import Step
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.expressions import is_at, smaller
from airflow_hive_acid.metastore.database.layouts import either
from airflow_hive_acid.metastore.schema.hive_transactions import (
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    NEXT_WRITE_ID,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.schema.layouts import NEXT_TXN_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features
    from airflow_hive_acid.metastore.names.objects import TableName

_OLDEST_OPEN = select(func.min(TXNS.c.TXN_ID)).where(TXNS.c.TXN_STATE == "o").scalar_subquery()
#: In a statement of its own, so that the clock is read once and not for each row.
_GAP_AGO = select(clock_ms() - bindparam("gap_timeout", type_=sa.BigInteger)).scalar_subquery()
#: Ids at or below it that are missing were never opened or are gone: any row below a young one may still appear.
#: Looked for from the newest txn down: of a maximum MySQL and MariaDB would read all of TXNS.
_OLD_ENOUGH = (
    select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STARTED < _GAP_AGO).order_by(TXNS.c.TXN_ID.desc()).limit(1).scalar_subquery()
)
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
_TXN = bindparam("txn_id", type_=sa.BigInteger)
_DB, _TBL = bindparam("db", type_=sa.String), bindparam("tbl", type_=sa.String)


def _smallest_needed() -> sa.ColumnElement[int]:
    """Of a table: the smallest write id whose history a txn may need. Written as decision 61 wants it."""
    t2w, opened, following = TXN_TO_WRITE_ID.alias("of_txn"), TXNS.alias("opened"), NEXT_WRITE_ID.c
    of_table = (t2w.c.T2W_DATABASE == _DB, t2w.c.T2W_TABLE == _TBL)
    of_each = (
        select(t2w.c.T2W_WRITEID)
        .where(*of_table, is_at(t2w.c.T2W_TXNID, opened.c.TXN_ID))
        .order_by(t2w.c.T2W_TXNID)
        .limit(1)
        .scalar_subquery()
    )
    of_open = select(of_each.label("write_id")).where(opened.c.TXN_STATE == "o")
    # A snapshot does not see who began after its txn, committed or not.
    later = select(t2w.c.T2W_WRITEID).where(*of_table, t2w.c.T2W_TXNID > _TXN).order_by(t2w.c.T2W_TXNID).subquery()
    not_given = select(following.NWI_NEXT).where(following.NWI_DATABASE == _DB, following.NWI_TABLE == _TBL)
    # Of a table of which it sees nothing, a snapshot ends with the lowest id there is a txn of (fold_write_ids).
    other, state = TXN_TO_WRITE_ID.alias("other"), TXNS.alias("state_of_other")
    of_other = (other.c.T2W_DATABASE == _DB, other.c.T2W_TABLE == _TBL)
    ended = select(state.c.TXN_STATE).where(state.c.TXN_ID == other.c.T2W_TXNID).scalar_subquery()
    seen = (
        select(other.c.T2W_WRITEID)
        .where(*of_other, other.c.T2W_TXNID < _TXN, func.coalesce(ended, "c") == "c")
        .limit(1)
        .scalar_subquery()
    )
    first = select(t2w.c.T2W_WRITEID).where(*of_table).order_by(t2w.c.T2W_WRITEID).limit(1).scalar_subquery()
    lowest = select(sa.case((seen.is_(None), first + 1)))
    each = sa.union_all(of_open, select(later.c.T2W_WRITEID), lowest, not_given).subquery("each")
    return func.coalesce(select(func.min(each.c.write_id)).scalar_subquery(), 1)


SMALLEST_NEEDED = _smallest_needed()
"""As an expression with the parameters ``txn_id``, ``db`` and ``tbl``: what :func:`pin_steps` registers."""
REGISTERED_COLUMNS = ("MH_TXNID", "MH_DATABASE", "MH_TABLE", "MH_WRITEID")
_PIN = insert(MIN_HISTORY_WRITE_ID).from_select(REGISTERED_COLUMNS, select(_TXN, _DB, _TBL, SMALLEST_NEEDED))
_PINNED = select(
    MIN_HISTORY_WRITE_ID.c.MH_DATABASE, MIN_HISTORY_WRITE_ID.c.MH_TABLE, MIN_HISTORY_WRITE_ID.c.MH_WRITEID
).where(MIN_HISTORY_WRITE_ID.c.MH_TXNID == _TXN)
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


def pin_steps(
    features: Features,
    txn_id: int,
    tables: Iterable[TableName],
    needed: Mapping[TableName, int] | None = None,
    *,
    again: bool = False,
) -> list[Step]:
    """Statements that register what a txn needs of each table (addWriteIdsToMinHistory); none if the table is absent.

    The last one reads what is registered: database, table and write id.

    :param needed: smallest write id needed, by table, as a snapshot has it (``ValidWriteIdList.min_open_or_next``); by
        default no larger one than any snapshot of the txn can need from now on.
    :param again: replace what was registered before.
    """
    if not features.min_history_write_id:
        return []
    steps = [Step(_FORGET_WRITE_IDS, {"txn_id": txn_id})] if again else []
    for table in tables:
        place = {"txn_id": txn_id, "db": table.database, "tbl": table.name}
        steps.append(Step(_PIN, place) if needed is None else Step(_REGISTER, {**place, "write_id": needed[table]}))
    return [*steps, Step(_PINNED, {"txn_id": txn_id})]


def forget_steps(features: Features, txn_id: int) -> list[Step]:
    """Statements that end what a txn registered."""
    steps = []
    if features.min_history_level:
        steps.append(Step(_FORGET_LEVEL, {"txn_id": txn_id}))
    if features.min_history_write_id:
        steps.append(Step(_FORGET_WRITE_IDS, {"txn_id": txn_id}))
    return steps
