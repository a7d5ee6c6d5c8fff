"""What a transaction that begins has to find out before it may work: pure decisions, and the statement they need.

R10: what it needs was registered, and nobody has removed it in favour of what it does not see. R2: a change that would
doom its commit is known, and so are rows that it would hide although it does not see them.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import func, select

from airflow_hive_acid.format.id_ranges import IdRanges
from airflow_hive_acid.metastore.database.backend import Step
from airflow_hive_acid.metastore.protocol.transaction import Begun
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.txns.snapshots import Names, Snapshot, is_one_of, names_of, table_parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.protocol.table_uses import TableUse

_CQ, _CC, _T2W = COMPACTION_QUEUE.c, COMPLETED_COMPACTIONS.c, TXN_TO_WRITE_ID.c


@cache
def _cleanable(names: Names) -> sa.CompoundSelect[Any]:
    """Txns of compactions after which a Cleaner has removed files, or may be doing so."""
    return sa.union_all(
        select(_CQ.CQ_TXN_ID).where(
            _CQ.CQ_STATE == "r",
            _CQ.CQ_TXN_ID > 0,
            _CQ.CQ_NEXT_TXN_ID.is_not(None),
            is_one_of(_CQ.CQ_DATABASE, _CQ.CQ_TABLE, names),
        ),
        select(_CC.CC_TXN_ID).where(
            _CC.CC_STATE == "s", _CC.CC_TXN_ID > 0, is_one_of(_CC.CC_DATABASE, _CC.CC_TABLE, names)
        ),
    )


def cleanable_step(connection: Connection, tables: Sequence[TableName]) -> Step:
    """The statement for :func:`is_cleaned_away`, about at least one table."""
    names = names_of(connection, tables)
    return Step(_cleanable(names), table_parameters(tables, names))


def is_cleaned_away(snapshot: Snapshot, rows: Iterable[Any]) -> bool:
    """Whether a Cleaner may have removed what the snapshot needs, in favour of a compaction that it does not see."""
    return any(not _sees(snapshot.valid_txns, row[0]) for row in rows)


@cache
def _later(names: Names) -> sa.Select[Any]:
    """A txn that was opened after mine and has committed, with a write id of a table.

    What txns have completed does not tell: a housekeeper forgets that of a txn as soon as one with a larger write id
    has written the same place, which may be of a txn before mine. Write ids of later txns stay as long as mine is open.
    """
    state = select(TXNS.c.TXN_STATE).where(TXNS.c.TXN_ID == _T2W.T2W_TXNID).scalar_subquery()
    return (
        select(_T2W.T2W_TXNID)
        .where(
            _T2W.T2W_TXNID > sa.bindparam("txn_id", type_=sa.BigInteger),
            is_one_of(_T2W.T2W_DATABASE, _T2W.T2W_TABLE, names),
            func.coalesce(state, "c") == "c",
        )
        .limit(1)
    )


def later_step(connection: Connection, replaced: Sequence[TableName], txn_id: int) -> Step:
    """The statement that finds writes of later txns in tables that a txn is to overwrite, at least one.

    A txn does not see what later ones have written (Hive's createValidReadTxnList). Whoever has opened later and locked
    earlier may have committed rows before it was granted its lock. An INSERT OVERWRITE of what it has read of the same
    table would hide these rows, and they are nowhere else; Hive's own conflicts are of UPDATE and DELETE alone.
    """
    names = names_of(connection, replaced)
    return Step(_later(names), {"txn_id": txn_id, **table_parameters(replaced, names)})


def covers(pinned: Mapping[TableName, int], snapshot: Snapshot) -> bool:
    """Whether what was registered keeps all that a reader of this snapshot may need (R10).

    :param pinned: the write id registered for each table; empty where the metastore has no table for it, and
        MIN_HISTORY_LEVEL, written with the open, protects.
    """
    needed = snapshot.needed()
    return all(write_id <= needed[table] for table, write_id in pinned.items())


def begun_of(
    lock_id: int | None,
    txn_id: int,
    uses: tuple[TableUse, ...],
    snapshot: Snapshot,
    write_ids: Mapping[TableName, int],
) -> Begun:
    """What was begun: the lists of the snapshot, in which the txn sees its own write ids."""
    lists = {t: with_own(w, write_ids.get(t)) for t, w in snapshot.write_ids.items()}
    return Begun(txn_id, lock_id, uses, snapshot.valid_txns, lists, write_ids)


def with_own(write_ids: ValidWriteIdList, write_id: int | None) -> ValidWriteIdList:
    """The list of a txn that may read what it writes itself.

    Ids between the snapshot and our own belong to others who allocated since: open, whatever became of them.
    """
    if write_id is None or write_ids.is_valid(write_id):
        return write_ids
    others = IdRanges([(write_ids.high_watermark + 1, write_id - 1)])
    return dataclasses.replace(
        write_ids,
        high_watermark=max(write_id, write_ids.high_watermark),
        open=(write_ids.open_ids | others) - {write_id},
        min_open=None,
    )


def _sees(txns: ValidTxnList, txn_id: int) -> bool:
    # An aborted compaction replaced nothing.
    return txns.is_valid(txn_id) or txns.is_aborted(txn_id)
