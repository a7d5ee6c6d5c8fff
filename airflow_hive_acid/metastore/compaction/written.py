"""What was written and not compacted since (COMPLETED_TXN_COMPONENTS), read so that nothing has to hold all of it.

Pages follow Hive's index, from one table and partition to the next, so that a page costs the same wherever it begins,
and all pages together are one walk. What changed since an earlier look is found by the ids of the txns: whatever was
committed since has one from that look's watermark on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, and_, bindparam, cast, exists, func, or_, select

from airflow_hive_acid.metastore.compaction.model import Candidate, CompactionState, Resource
from airflow_hive_acid.metastore.database.backend import backend_of
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_COMPACTIONS, COMPLETED_TXN_COMPONENTS
from airflow_hive_acid.metastore.schema.ours import HIVE_ACID_DECISION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection, Select

    from airflow_hive_acid.metastore.names.objects import TableName

_ctc, _had = COMPLETED_TXN_COMPONENTS.c, HIVE_ACID_DECISION.c
_OBJECT = (_ctc.CTC_DATABASE, _ctc.CTC_TABLE, _ctc.CTC_PARTITION)
_LIMIT = bindparam("limit", type_=BigInteger)
_OF_TABLE = and_(_ctc.CTC_DATABASE == bindparam("db"), _ctc.CTC_TABLE == bindparam("tbl"))
_MARKS = select(*_OBJECT, func.count(), cast(func.sum(_ctc.CTC_TXNID), BigInteger)).where(_ctc.CTC_TABLE.is_not(None))
_PAGE = _MARKS.group_by(*_OBJECT).order_by(*_OBJECT).limit(_LIMIT)
_REST_OF_TABLE = _PAGE.where(_OF_TABLE, _ctc.CTC_PARTITION > bindparam("part"))
_REST_OF_DATABASE = _PAGE.where(_ctc.CTC_DATABASE == bindparam("db"), _ctc.CTC_TABLE > bindparam("tbl"))
_REST = _PAGE.where(_ctc.CTC_DATABASE > bindparam("db"))
_WHOLE_TABLE = _PAGE.where(_OF_TABLE)
_TABLE_ITSELF = _PAGE.where(_OF_TABLE, _ctc.CTC_PARTITION.is_(None))
_THESE = _MARKS.where(_OF_TABLE, _ctc.CTC_PARTITION.in_(bindparam("parts", expanding=True))).group_by(*_OBJECT)
_SINCE = (
    select(*_OBJECT)
    .where(_ctc.CTC_TABLE.is_not(None), _ctc.CTC_TXNID >= bindparam("low", type_=BigInteger))
    .group_by(*_OBJECT)
    .order_by(func.min(_ctc.CTC_TIMESTAMP), func.min(_ctc.CTC_TXNID))
    .limit(_LIMIT)
)
_AGAIN = (
    select(_had.HAD_DATABASE, _had.HAD_TABLE, _had.HAD_PART_NAME)
    .where(_had.HAD_AGAIN == "Y", _had.HAD_NEWEST == "Y", _had.HAD_LOOKED != bindparam("look", type_=BigInteger))
    .order_by(_had.HAD_LOOKED, _had.HAD_ID)
    .limit(_LIMIT)
)
_cc = COMPLETED_COMPACTIONS.alias("ended")
_later = COMPLETED_COMPACTIONS.alias("later")
_IS_LATER = and_(
    _later.c.CC_DATABASE == _cc.c.CC_DATABASE, _later.c.CC_TABLE == _cc.c.CC_TABLE, _later.c.CC_ID > _cc.c.CC_ID
)
_UNSUCCESSFUL = select(_cc.c.CC_DATABASE, _cc.c.CC_TABLE, _cc.c.CC_PARTITION).where(
    _cc.c.CC_STATE.in_([CompactionState.DID_NOT_INITIATE.value, CompactionState.FAILED.value]),
    ~exists().where(_IS_LATER, _later.c.CC_PARTITION == _cc.c.CC_PARTITION),
    or_(_cc.c.CC_PARTITION.is_not(None), ~exists().where(_IS_LATER, _later.c.CC_PARTITION.is_(None))),
)


def read_written(
    connection: Connection, limit: int, after: Resource | None = None, table: TableName | None = None
) -> list[Candidate]:
    """Tables and partitions with completed components, in the order of Hive's index.

    :param limit: at most so many; fewer are the last.
    :param after: the last one of the page before.
    :param table: of this table alone.
    """
    found: list[Candidate] = []
    for statement in _pieces(connection, after, table):
        given: dict[str, Any] = {"limit": limit - len(found)}
        if after is not None:
            given |= {"db": after.database, "tbl": after.table, "part": after.partition or ""}
        if table is not None:
            given |= {"db": table.database, "tbl": table.name}
        found += [candidate_of(row) for row in connection.execute(statement, given)]
        if len(found) == limit:
            break
    return found


def _pieces(connection: Connection, after: Resource | None, table: TableName | None) -> list[Select[Any]]:
    """What is left, piece by piece: each is a range of the index, which no OR of them would be."""
    if after is None:
        return [_PAGE if table is None else _WHOLE_TABLE]
    pieces = []
    if backend_of(connection).nulls_first:
        pieces = [_REST_OF_TABLE]
    elif after.partition is not None:
        pieces = [_REST_OF_TABLE, _TABLE_ITSELF]
    return [*pieces, *(() if table is not None else (_REST_OF_DATABASE, _REST))]


def read_marks(connection: Connection, resources: Iterable[Resource]) -> list[Candidate]:
    """Those of some tables and partitions that have completed components, in their order."""
    asked = list(dict.fromkeys(resources))
    by_table: dict[TableName, list[str | None]] = {}
    for resource in asked:
        by_table.setdefault(resource.table_name, []).append(resource.partition)
    found: dict[Resource, Candidate] = {}
    for table, parts in by_table.items():
        given = {"db": table.database, "tbl": table.name}
        rows = connection.execute(_TABLE_ITSELF, {**given, "limit": 1}).all() if None in parts else []
        for some in chunks([part for part in parts if part is not None]):
            rows = [*rows, *connection.execute(_THESE, {**given, "parts": list(some)})]
        found |= {one.resource: one for one in map(candidate_of, rows)}
    return [found[resource] for resource in asked if resource in found]


def read_touched(
    connection: Connection, low: int, look: int, limit: int, unsuccessful: Sequence[Resource]
) -> list[Resource] | None:
    """What may have to be looked at: written by txns from an id on, or to be looked at again in any case.

    :param low: every txn with a smaller id had ended when it was looked at last.
    :param look: when this look began.
    :return: the oldest writes first; None when there is more than ``limit`` of one kind.
    """
    written = connection.execute(_SINCE, {"low": low, "limit": limit + 1}).all()
    again = connection.execute(_AGAIN, {"look": look, "limit": limit + 1}).all()
    if max(len(written), len(again)) > limit:
        return None
    named = (Resource(database, table, part or None) for database, table, part in (*written, *again))
    return list(dict.fromkeys((*named, *unsuccessful)))


def read_unsuccessful(connection: Connection) -> list[Resource]:
    """Tables and partitions whose last compaction failed or was not begun."""
    return [Resource(*row) for row in connection.execute(_UNSUCCESSFUL)]


def candidate_of(row: Any) -> Candidate:
    """A row of database, table, partition, number of components and sum of their txn ids."""
    database, table, partition, writes, txn_sum = row
    return Candidate(Resource(database, table, partition or None), writes=int(writes), txn_sum=int(txn_sum))
