"""Rebalancing compactions of a source: they give rows other ids.

A replica knows rows by the source's ids. Delete events that follow a rebalance name the new ones, so a replica that has
not got its result begins anew. Which one it has got is a parameter of its table, because our record of the table has no
column for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, select

from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import TABLE_PARAMS
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, COMPLETED_COMPACTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.format.write_ids import ValidTxnList
    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.names.objects import TableName

REBALANCED = "repl.acid.rebalanced"
"""Ours, of a table that follows another: ``7:31``, TBL_ID of that table and the newest rebalance there whose result has
come. Hive has no use for it and keeps it."""

_P, _Q, _C = TABLE_PARAMS.c, COMPACTION_QUEUE.c, COMPLETED_COMPACTIONS.c
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_FORGET = delete(TABLE_PARAMS).where(_P.TBL_ID.in_(_IDS), _P.PARAM_KEY == REBALANCED)
_SET = insert(TABLE_PARAMS).values(TBL_ID=bindparam("id"), PARAM_KEY=REBALANCED, PARAM_VALUE=bindparam("value"))
_WAITING = select(_Q.CQ_ID, _Q.CQ_TXN_ID).where(
    _Q.CQ_DATABASE == bindparam("db"), _Q.CQ_TABLE == bindparam("tbl"), _Q.CQ_TYPE == CompactionType.REBALANCE.value,
    _Q.CQ_STATE == "r",
)  # fmt: skip
#: Also where the clean-up that followed was given up.
_ENDED = select(_C.CC_ID, _C.CC_TXN_ID).where(
    _C.CC_DATABASE == bindparam("db"), _C.CC_TABLE == bindparam("tbl"), _C.CC_TYPE == CompactionType.REBALANCE.value,
    sa.or_(_C.CC_STATE == "s", _C.CC_COMMIT_TIME.is_not(None)),
)  # fmt: skip


def newest_rebalance_seen(connection: Connection, table: TableName, seen: ValidTxnList) -> int:
    """The id of the newest rebalance of a source whose result a snapshot sees; 0 for none.

    :param seen: the txns that the snapshot sees, taken in the same view (R11).
    """
    place = {"db": table.database, "tbl": table.name}
    found = [row for statement in (_WAITING, _ENDED) for row in connection.execute(statement, place)]
    return max((int(id_) for id_, txn_id in found if txn_id is None or seen.is_valid(txn_id)), default=0)


def known_rebalance(table: Table, source_id: int) -> int:
    """The newest rebalance of a source whose result a table has got; 0 for none.

    :param source_id: TBL_ID there; what came from another table says nothing of it.
    """
    of_table, _, newest = (table.property(REBALANCED) or "").partition(":")
    return int(newest) if of_table == str(source_id) and newest.isdecimal() else 0


def note_rebalances(connection: Connection, found: Mapping[int, tuple[int, int]]) -> None:
    """Note what has come with a sync.

    :param found: by TBL_ID here, TBL_ID at the source and the newest rebalance there.
    """
    for part in chunks(sorted(found)):
        connection.execute(_FORGET, {"ids": list(part)})
    rows = [{"id": id_, "value": f"{source}:{newest}"} for id_, (source, newest) in sorted(found.items()) if newest]
    if rows:
        connection.execute(_SET, rows)
