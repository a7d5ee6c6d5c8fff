"""Compactions of a replica that a sync has not seen, and whose results would stand beside or above what it brings.

Mostly that does no harm: what the replica compacts ends below the write ids that are new. But a base without rows (the
source was emptied without a write id) and a compacted delta of an insert-only table hide what is here of old write ids.
A compaction that has read those before would show them again.

What tells of a compaction that has ended must outlive its txn, which Hive forgets within seconds. Mostly that is its
request, queued or ended. A Worker of ours that makes many deltas fewer first (``hive.compactor.max.num.delta``) does so
in txns that no request names; of those the job's record tells, which stays as long as a sync is under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import bindparam, exists, or_, select

from airflow_hive_acid.errors import CopyFailedError
from airflow_hive_acid.metastore.database.backend import lock_open_txns
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    HIVE_ACID_JOB,
    TXN_COMPONENTS,
    TXNS,
)
from airflow_hive_acid.metastore.schema.replication_acid import HIVE_ACID_REPL_SYNC
from airflow_hive_acid.metastore.txns.jobs import COMPACT_KIND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList
    from airflow_hive_acid.metastore.names.objects import TableName

_Q, _C, _TC, _J = COMPACTION_QUEUE.c, COMPLETED_COMPACTIONS.c, TXN_COMPONENTS.c, HIVE_ACID_JOB.c
_KINDS = (int(TxnType.COMPACTION), int(TxnType.REBALANCE_COMPACTION))
_NAMED = select(_TC.TC_TXNID).where(_TC.TC_TXNID == TXNS.c.TXN_ID)
_OF_TABLE = (_TC.TC_DATABASE == bindparam("db"), _TC.TC_TABLE == bindparam("tbl"))
#: One that has not said yet what it compacts may be of any table.
_UNDER_WAY = select(TXNS.c.TXN_ID).where(
    TXNS.c.TXN_STATE == "o", TXNS.c.TXN_TYPE.in_(_KINDS), or_(exists(_NAMED.where(*_OF_TABLE)), ~exists(_NAMED))
)
_WAITING = select(_Q.CQ_TXN_ID).where(
    _Q.CQ_DATABASE == bindparam("db"), _Q.CQ_TABLE == bindparam("tbl"), _Q.CQ_STATE == "r", _Q.CQ_TXN_ID.is_not(None)
)
#: Whatever its end: the clean-up of a compaction that has committed may be given up, or be refused.
_ENDED = select(_C.CC_TXN_ID).where(
    _C.CC_DATABASE == bindparam("db"), _C.CC_TABLE == bindparam("tbl"), _C.CC_TXN_ID.is_not(None)
)
_RECORDED = select(_J.HAJ_TXNID).where(
    _J.HAJ_DATABASE == bindparam("db"), _J.HAJ_TABLE == bindparam("tbl"), _J.HAJ_STATE == "c",
    _J.HAJ_KIND == COMPACT_KIND,
)  # fmt: skip
_UNDER_WAY_HERE = select(HIVE_ACID_REPL_SYNC.c.HRS_POLICY).where(
    HIVE_ACID_REPL_SYNC.c.HRS_TABLES != "[]", HIVE_ACID_REPL_SYNC.c.HRS_FAILED_OVER.is_(None)
)


def is_sync_under_way(connection: Connection) -> bool:
    """Whether a sync has begun here, by which compactions that commit meanwhile must be found."""
    return connection.execute(_UNDER_WAY_HERE).first() is not None


def require_no_compaction(connection: Connection, tables: Sequence[TableName], seen: ValidTxnList) -> None:
    """Refuse to hide rows that a compaction has read and shows yet; none begins before the end of the transaction.

    :param seen: the list of txns by which the sync has looked at the replica.
    :raises CopyFailedError: naming a table and the compaction's txn; the sync is to look again.
    """
    if not tables:
        return
    lock_open_txns(connection, exclusive=True)
    # R3: read behind the lock. A compaction that is opened afterwards sees what this transaction commits.
    for table in tables:
        place = {"db": table.database, "tbl": table.name}
        found = set(connection.execute(_UNDER_WAY, place).scalars())
        ended = {
            txn_id for named in (_WAITING, _ENDED, _RECORDED) for txn_id in connection.execute(named, place).scalars()
        }
        # What was aborted then has left nothing.
        found |= {txn_id for txn_id in ended if not (seen.is_valid(txn_id) or seen.is_aborted(txn_id))}
        if found:
            raise CopyFailedError(
                f"txn {min(found)} compacts {table} here, or has just done so, and has read rows that the sync hides; "
                "it looks again when that has ended"
            )
