"""What open txns and readers still need, and what aborted txns have left: the facts a Cleaner decides from.

All facts of one decision are read in one consistent view. Hive's two history rules both appear here; whoever deletes
must find that both allow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, or_, select, union_all

from airflow_hive_acid.format.write_ids import MAX_ID, OpenTxns, ValidTxnList
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    TXN_COMPONENTS,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.txns.history import low_boundary, min_open_watermark, min_txn_seen_open
from airflow_hive_acid.metastore.txns.pin_watermark import PINNED, pinned_txns
from airflow_hive_acid.metastore.txns.snapshots import open_txns

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.compaction.model import Resource
    from airflow_hive_acid.metastore.database.database import Features
    from airflow_hive_acid.metastore.names.objects import TableName

_HOLDERS = 20
_who = (TXNS.c.TXN_ID, TXNS.c.TXN_USER, TXNS.c.TXN_HOST, TXNS.c.TXN_AGENT_INFO)
_OLDEST = select(*_who).where(TXNS.c.TXN_STATE == "o").order_by(TXNS.c.TXN_ID).limit(_HOLDERS)
_HOLDER = select(*_who).where(TXNS.c.TXN_ID == bindparam("txn_id"))
_SAW_OLDEST = (
    select(*_who)
    .join(MIN_HISTORY_LEVEL, MIN_HISTORY_LEVEL.c.MHL_TXNID == TXNS.c.TXN_ID)
    .where(MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID <= bindparam("txn_id"))
    .order_by(TXNS.c.TXN_ID)
    .limit(_HOLDERS)
)
_REGISTERED = (
    select(*_who, MIN_HISTORY_WRITE_ID.c.MH_WRITEID)
    .join(MIN_HISTORY_WRITE_ID, MIN_HISTORY_WRITE_ID.c.MH_TXNID == TXNS.c.TXN_ID)
    .where(MIN_HISTORY_WRITE_ID.c.MH_DATABASE == bindparam("db"), MIN_HISTORY_WRITE_ID.c.MH_TABLE == bindparam("tbl"))
    .order_by(MIN_HISTORY_WRITE_ID.c.MH_WRITEID, TXNS.c.TXN_ID)
    .limit(_HOLDERS)
)
_REGISTERED_NOT_PINNED = _REGISTERED.where(TXNS.c.TXN_ID.not_in(PINNED))
_OLDEST_BUT = (
    select(*_who)
    .where(TXNS.c.TXN_STATE == "o", TXNS.c.TXN_ID.not_in(bindparam("pinned", expanding=True)))
    .order_by(TXNS.c.TXN_ID)
)
_LEVELS = select(MIN_HISTORY_LEVEL.c.MHL_TXNID, MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID)
_cq, _cc = COMPACTION_QUEUE.c, COMPLETED_COMPACTIONS.c
_COMMITTED_AFTER = union_all(
    select(_cq.CQ_TXN_ID, _cq.CQ_NEXT_TXN_ID).where(
        _cq.CQ_TXN_ID > 0, or_(_cq.CQ_NEXT_TXN_ID.is_(None), _cq.CQ_NEXT_TXN_ID >= bindparam("txn_id"))
    ),
    select(_cc.CC_TXN_ID, _cc.CC_NEXT_TXN_ID).where(
        _cc.CC_TXN_ID > 0, or_(_cc.CC_NEXT_TXN_ID.is_(None), _cc.CC_NEXT_TXN_ID >= bindparam("txn_id"))
    ),
)
_tc, _t2w = TXN_COMPONENTS.c, TXN_TO_WRITE_ID.c
_ABORTED = (
    select(_tc.TC_TXNID, _tc.TC_OPERATION_TYPE, _tc.TC_WRITEID, _t2w.T2W_WRITEID)
    .join(TXNS, and_(TXNS.c.TXN_ID == _tc.TC_TXNID, TXNS.c.TXN_STATE == "a"))
    .outerjoin(
        TXN_TO_WRITE_ID,
        and_(_t2w.T2W_TXNID == _tc.TC_TXNID, _t2w.T2W_DATABASE == _tc.TC_DATABASE, _t2w.T2W_TABLE == _tc.TC_TABLE),
    )
    .where(_tc.TC_DATABASE == bindparam("db"), _tc.TC_TABLE == bindparam("tbl"))
    .order_by(_tc.TC_TXNID)
)


@dataclass(frozen=True, slots=True)
class Holder:
    """An open txn that may still need files.

    :param who: user, host and agent information, as SHOW TRANSACTIONS prints them.
    :param agent: the program; of Airflow's tasks DAG, run and task.
    """

    txn_id: int
    who: str
    user: str = ""
    host: str = ""
    agent: str = ""

    def __str__(self) -> str:
        return f"txn {self.txn_id} ({self.who})" if self.who else f"txn {self.txn_id}"


@dataclass(frozen=True, slots=True)
class Horizon:
    """What open txns still need, at one moment.

    :param watermark: every txn below it has ended, and none can appear any more (MinOpenTxnIdWaterMark).
    :param min_seen_open: the smallest txn that an open txn saw open; MAX_ID when none did.
    :param open_txns: open and aborted txns of the same moment.
    :param holders: who has the oldest open txns.
    :param saw_oldest: who saw ``min_seen_open`` open.
    """

    watermark: int
    min_seen_open: int
    open_txns: OpenTxns
    holders: tuple[Holder, ...] = ()
    saw_oldest: tuple[Holder, ...] = ()

    @property
    def safe(self) -> int:
        """Below it every txn has ended, and every open txn knew that when it took its snapshot."""
        return min(self.watermark, self.min_seen_open)

    def txns(self) -> ValidTxnList:
        """The Cleaner's txn list: it ends below ``safe``, and what is listed up to there is aborted."""
        mark = self.safe - 1
        return ValidTxnList(mark, self.open_txns.open.up_to(mark), self.open_txns.aborted.up_to(mark))


@dataclass(frozen=True, slots=True)
class RegisteredReaders:
    """Who registered what history of a table in MIN_HISTORY_WRITE_ID.

    :param min_write_id: the smallest write id that anybody registered, None when nobody did.
    """

    min_write_id: int | None = None
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class AbortedTxn:
    """An aborted txn that has components in a table or partition.

    :param write_id: what it wrote under; None when it never got a write id, or when it is a compaction.
    :param is_compaction: its files carry the txn in their name, not a write id.
    """

    txn_id: int
    write_id: int | None
    is_compaction: bool


def read_horizon(connection: Connection, features: Features, gap_timeout_ms: int) -> Horizon:
    """The horizon now. Txns that stand for pins are no part of it: what those read is known exactly (``pins_on``)."""
    pinned = pinned_txns(connection) if features.pins else []
    if pinned:
        return _beside_pins(connection, features, gap_timeout_ms, pinned)
    seen = min_txn_seen_open(connection, features)
    return Horizon(
        watermark=min_open_watermark(connection, gap_timeout_ms),
        min_seen_open=seen,
        open_txns=open_txns(connection, gap_timeout_ms),
        holders=tuple(_holder(row) for row in connection.execute(_OLDEST)),
        saw_oldest=()
        if seen == MAX_ID
        else tuple(_holder(row) for row in connection.execute(_SAW_OLDEST, {"txn_id": seen})),
    )


def _beside_pins(connection: Connection, features: Features, gap_timeout_ms: int, pinned: list[int]) -> Horizon:
    """The horizon without the txns of pins.

    MIN_HISTORY_LEVEL says of a txn the smallest one that was open when it began; while there is a pin that may be the
    pin's. What matters is whether it saw a compaction open, and it did so only if that was committed after it began.
    """
    others = list(connection.execute(_OLDEST_BUT.limit(_HOLDERS), {"pinned": pinned}))
    oldest = others[0][0] if others else MAX_ID
    levels: list[tuple[int, int]] = []
    if features.min_history_level:
        levels = [(txn, low) for txn, low in connection.execute(_LEVELS) if txn not in set(pinned)]
    seen, who = MAX_ID, 0
    unknown = [txn for txn, low in levels if low in set(pinned)]
    later = _compactions_after(connection, min(unknown)) if unknown else []
    for txn, low in levels:
        if low in set(pinned):
            low = min(
                [txn, *(one for one, committed in later if one < txn and (committed is None or committed >= txn))]
            )
        if low < seen:
            seen, who = low, txn
    return Horizon(
        watermark=min(oldest, low_boundary(connection, gap_timeout_ms) + 1),
        min_seen_open=seen,
        open_txns=open_txns(connection, gap_timeout_ms),
        holders=tuple(_holder(row) for row in others),
        saw_oldest=tuple(_holder(row) for row in connection.execute(_HOLDER, {"txn_id": who})) if who else (),
    )


def _compactions_after(connection: Connection, txn_id: int) -> list[tuple[int, int | None]]:
    """Compaction txns, and those of soft deletes, that were or may have been committed after a txn began."""
    return [(compaction, next_txn) for compaction, next_txn in connection.execute(_COMMITTED_AFTER, {"txn_id": txn_id})]


def read_registered(connection: Connection, features: Features, table: TableName) -> RegisteredReaders:
    """Who registered history of a table, pins apart."""
    if not features.min_history_write_id:
        return RegisteredReaders()
    statement = _REGISTERED_NOT_PINNED if features.pins else _REGISTERED
    rows = connection.execute(statement, {"db": table.database, "tbl": table.name}).all()
    return RegisteredReaders(rows[0][4], tuple(_holder(row) for row in rows)) if rows else RegisteredReaders()


def read_holder(connection: Connection, txn_id: int) -> Holder | None:
    """Who has a txn; None when it has no row any more."""
    row = connection.execute(_HOLDER, {"txn_id": txn_id}).first()
    return None if row is None else _holder(row)


def read_aborted(connection: Connection, resource: Resource) -> list[AbortedTxn]:
    """The aborted txns with components of exactly this table or partition, ascending."""
    partition = _tc.TC_PARTITION
    condition = partition.is_(None) if resource.partition is None else partition == resource.partition
    rows = connection.execute(_ABORTED.where(condition), {"db": resource.database, "tbl": resource.table})
    found: dict[int, AbortedTxn] = {}
    for txn_id, operation, stamped, allocated in rows:
        # The write id of a compaction's component is how far it reached: committed data of others.
        compaction = operation == "c"
        write_id = None if compaction else (stamped if stamped is not None else allocated)
        found[txn_id] = AbortedTxn(txn_id, write_id, compaction)
    return [found[txn_id] for txn_id in sorted(found)]


def _holder(row: Any) -> Holder:
    txn_id, user, host, agent = tuple(row)[:4]
    who = "@".join(part for part in (user, host) if part)
    return Holder(txn_id, f"{who}, {agent}" if agent else who, user or "", host or "", agent or "")
