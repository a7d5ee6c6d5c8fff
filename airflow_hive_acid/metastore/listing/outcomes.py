"""What became of txns, and what was committed to a table, for those who wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, func, or_, select

from airflow_hive_acid.metastore.database.codes import TxnState
from airflow_hive_acid.metastore.locks.listing import SHOW_TXNS, TxnRow, txn_row
from airflow_hive_acid.metastore.names.partitions import catalog_names, within
from airflow_hive_acid.metastore.schema.hive_catalog import CATALOG, DBS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPLETED_TXN_COMPONENTS,
    NEXT_WRITE_ID,
    TXN_TO_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.txns.history import LARGEST_TXN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

_C, _T, _N = COMPLETED_TXN_COMPONENTS.c, TXN_TO_WRITE_ID.c, NEXT_WRITE_ID.c
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_DB, _TBL = bindparam("db", type_=sa.String), bindparam("tbl", type_=sa.String)
_TXNS_OF = SHOW_TXNS.where(TXNS.c.TXN_ID.in_(_IDS))
_COMMITTED_OF = select(_C.CTC_TXNID).where(_C.CTC_TXNID.in_(_IDS)).distinct()
_HIGHEST = select(func.coalesce(LARGEST_TXN, 0))
_TABLE = (
    select(TBLS.c.TBL_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .where(DBS.c.CTLG_NAME == CATALOG, DBS.c.NAME == _DB, TBLS.c.TBL_NAME == _TBL)
)
_NEXT = select(_N.NWI_NEXT).where(_N.NWI_DATABASE == _DB, _N.NWI_TABLE == _TBL)
_WRITERS = (
    SHOW_TXNS.add_columns(_T.T2W_WRITEID)
    .join(TXN_TO_WRITE_ID, _T.T2W_TXNID == TXNS.c.TXN_ID)
    .where(_T.T2W_DATABASE == _DB, _T.T2W_TABLE == _TBL, TXNS.c.TXN_STATE == TxnState.OPEN.value)
)
_COMMITS = select(_C.CTC_WRITEID, _C.CTC_TXNID, _C.CTC_PARTITION).where(
    _C.CTC_DATABASE == _DB,
    _C.CTC_TABLE == _TBL,
    or_(_C.CTC_WRITEID > bindparam("after"), _C.CTC_WRITEID.in_(bindparam("pending", expanding=True))),
)


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a table stood when a wait began.

    :param write_id: highest write id that was given.
    :param pending: those up to it whose txns were still open: what they commit is new.
    """

    write_id: int
    pending: tuple[int, ...] = ()


def txn_rows(connection: Connection, txn_ids: Sequence[int]) -> list[TxnRow]:
    """Txns that are still listed, whatever became of them."""
    return [txn_row(row) for row in connection.execute(_TXNS_OF, {"ids": list(txn_ids)})]


def committed_of(connection: Connection, txn_ids: Sequence[int]) -> set[int]:
    """Those of the txns whose writes show that they were committed."""
    return set(connection.execute(_COMMITTED_OF, {"ids": list(txn_ids)}).scalars())


def highest_txn_id(connection: Connection) -> int:
    """Largest txn id that was given; its row is never removed."""
    return int(connection.execute(_HIGHEST).scalar_one())


def open_writers(connection: Connection, table: TableName) -> list[tuple[int, TxnRow]]:
    """Write ids of a table whose txns are open, with their txns, in order."""
    found = connection.execute(_WRITERS, {"db": table.database, "tbl": table.name}).all()
    # The write id stands behind the columns of the txn.
    return sorted(((row[-1], txn_row(row[:-1])) for row in found), key=lambda pair: pair[0])


def table_id(connection: Connection, table: TableName) -> int | None:
    """Which table has the name now; None when none has."""
    found = connection.execute(_TABLE, {"db": table.database, "tbl": table.name}).scalar()
    return None if found is None else int(found)


def mark_of(connection: Connection, table: TableName) -> Mark:
    """Where a table stands now."""
    # The writers first: what ends between the two looks is pending, and is found as committed later.
    writers = open_writers(connection, table)
    highest = connection.execute(_NEXT, {"db": table.database, "tbl": table.name}).scalar()
    write_id = 0 if highest is None else int(highest) - 1
    return Mark(write_id, tuple(w for w, _ in writers if w <= write_id))


def commits_since(
    connection: Connection, table: TableName, partition: str | None, mark: Mark
) -> list[tuple[int, int, str]]:
    """What was committed to a table since a mark, as long as the Cleaner or a Hive has not tidied it up.

    :param partition: resolved partition name, of all partition columns or of some; None for all of the table.
    :return: write id, txn id and partition name (empty without partitions) of each component.
    """
    statement = _COMMITS if partition is None else _COMMITS.where(within(_C.CTC_PARTITION, partition))
    values = {"db": table.database, "tbl": table.name, "after": mark.write_id, "pending": list(mark.pending)}
    found = connection.execute(statement, values).all()
    names = catalog_names(connection, table, [written for _, _, written in found if written])
    return [(txn_id, write_id, names.get(written, "")) for txn_id, write_id, written in found]
