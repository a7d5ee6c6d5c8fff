"""What a commit expects to find, so that it need not look first: the server looks, and halts where it is otherwise.

A transaction that has opened, locked and allocated by itself knows what its rows say. R3: the statement that checks
stands behind the one that locks the txn's row, which nobody can change any more then.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, exists, func, or_, select

from airflow_hive_acid.metastore.database.backend import Step
from airflow_hive_acid.metastore.database.expressions import halt_if
from airflow_hive_acid.metastore.schema.hive_catalog import CATALOG, DBS, PARTITION_KEYS, TABLE_PARAMS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_COMPONENTS, TXNS
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE
from airflow_hive_acid.metastore.txns.txns import IS_NOT_GIVEN_UP

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.database.codes import TxnType
    from airflow_hive_acid.metastore.names.objects import TableName

_TC = TXN_COMPONENTS.c
_TXN = bindparam("txn_id", type_=sa.BigInteger)


@dataclass(frozen=True, slots=True)
class Written:
    """The one table that a txn has written, as a whole.

    :param operation: the letter of its component.
    """

    table: TableName
    operation: str
    write_id: int


@dataclass(frozen=True, slots=True)
class Expectation:
    """How a txn is expected to be when it commits: open, and with no other components.

    :param written: None when it has written nothing.
    """

    type: TxnType
    written: Written | None = None

    @property
    def operations(self) -> frozenset[str]:
        """Letters of its components."""
        return frozenset() if self.written is None else frozenset({self.written.operation})

    @property
    def writes(self) -> tuple[tuple[str, int], ...]:
        """Database and write id of what it has written."""
        return () if self.written is None else ((self.written.table.database, self.written.write_id),)

    def step(self, txn_id: int) -> Step:
        """The statement that halts the batch where it is otherwise, or where a commit has to do more.

        That is when statistics are outdated, or partitions are not named (R12).
        """
        parameters: dict[str, Any] = {"txn_id": txn_id, "kind": int(self.type)}
        if self.written is not None:
            parameters |= {
                "db": self.written.table.database,
                "tbl": self.written.table.name,
                "operation": self.written.operation,
                "write_id": self.written.write_id,
            }
        return Step(_halts(writes=self.written is not None), parameters)


@cache
def _halts(*, writes: bool) -> sa.Select[Any]:
    is_open = exists().where(
        TXNS.c.TXN_ID == _TXN,
        TXNS.c.TXN_STATE == "o",
        func.coalesce(TXNS.c.TXN_TYPE, 0) == bindparam("kind", type_=sa.BigInteger),
        IS_NOT_GIVEN_UP,
    )
    component = exists().where(_TC.TC_TXNID == _TXN)
    if not writes:
        return select(halt_if(or_(~is_open, component)))
    database, table = bindparam("db", type_=sa.String), bindparam("tbl", type_=sa.String)
    expected = and_(
        _TC.TC_DATABASE == database,
        _TC.TC_TABLE == table,
        _TC.TC_PARTITION.is_(None),
        _TC.TC_OPERATION_TYPE == bindparam("operation", type_=sa.CHAR(1)),
        func.coalesce(_TC.TC_WRITEID, 0) == bindparam("write_id", type_=sa.BigInteger),
    )
    others = component.where(~expected)
    partitioned = exists().where(PARTITION_KEYS.c.TBL_ID == TBLS.c.TBL_ID)
    exact = exists().where(TABLE_PARAMS.c.TBL_ID == TBLS.c.TBL_ID, TABLE_PARAMS.c.PARAM_KEY == STATISTICS_ACCURATE)
    of_catalog = exists().where(
        DBS.c.NAME == database,
        DBS.c.CTLG_NAME == CATALOG,
        TBLS.c.DB_ID == DBS.c.DB_ID,
        TBLS.c.TBL_NAME == table,
        or_(partitioned, exact),
    )
    return select(halt_if(or_(~is_open, ~component, others, of_catalog)))
