"""Snapshots: which txns and write ids a reader sees, taken in one statement (Hive's getOpenTxns, getValidWriteIds).

R11: the txn list and the write id lists of all tables come from one database snapshot. Only what can matter is
fetched: txns that are not committed or so young that an id below them may still appear, and per table the write ids of
those txns, the largest one, and whether any is visible. What that leaves out cannot change the lists, and their cost
does not grow with the table's history.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import and_, bindparam, exists, func, literal, null, or_, select

from airflow_hive_acid.format.table_kinds import TRANSACTIONAL
from airflow_hive_acid.format.write_ids import (
    OpenTxns,
    ValidTxnList,
    ValidWriteIdList,
    fold_txn_rows,
    fold_write_ids,
    read_txn_list,
)
from airflow_hive_acid.metastore.database.backend import Result, Step, backend_of, execute_batch, finish_batch
from airflow_hive_acid.metastore.database.clock import statement_ms, statement_time
from airflow_hive_acid.metastore.database.expressions import is_at, smaller
from airflow_hive_acid.metastore.database.layouts import either
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.schema.hive_catalog import DBS, TABLE_PARAMS, TBLS
from airflow_hive_acid.metastore.schema.hive_transactions import NEXT_WRITE_ID, TXN_TO_WRITE_ID, TXNS
from airflow_hive_acid.metastore.schema.layouts import NEXT_TXN_ID
from airflow_hive_acid.metastore.txns.history import COUNTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.backend import PairList

_GAP = bindparam("gap_timeout", type_=sa.BigInteger)
FEW = 16
"""Up to so many tables a statement has a place for each, and can be prepared."""
Names: TypeAlias = "int | PairList"
"""How a statement takes the names of tables: a place for each of so many, or a list of any length."""


def _kind(number: int) -> sa.Label[int]:
    return literal(number, sa.Integer).label("kind")


def _no_text() -> sa.ColumnElement[Any]:
    return sa.cast(null(), sa.String(256))


def _no_number() -> sa.ColumnElement[Any]:
    return sa.cast(null(), sa.BigInteger)


# One reading of the clock for the whole statement: a row must not be young in one place and old in another. Clock and
# boundary are each computed once, and not for every young row, of which there are as many as txns in a second.
_NOW = select(statement_ms()).scalar_subquery()
_OLD = TXNS.alias("old")
_BELOW = TXNS.alias("below")
# From the newest txn down to the first that is not young: of a maximum MySQL and MariaDB would read all of TXNS.
_BOUND = (
    select(_OLD.c.TXN_ID.label("txn_id"))
    .where(_OLD.c.TXN_STARTED <= _NOW - _GAP)
    .order_by(_OLD.c.TXN_ID.desc())
    .limit(1)
    .cte("bound")
)
#: The largest txn that is not young: below it nothing can appear any more, however young a row there is, because ids
#: are given in order. Where txns are counted, ids become visible in order, and none is missing below the count.
_BOUNDARY = either(func.coalesce(select(_BOUND.c.txn_id).scalar_subquery(), 0), COUNTED)
_NEIGHBOURS = (
    select(
        TXNS.c.TXN_ID,
        TXNS.c.TXN_STATE,
        TXNS.c.TXN_TYPE,
        func.coalesce(func.lag(TXNS.c.TXN_ID).over(order_by=TXNS.c.TXN_ID), 0).label("LOWER_ID"),
        func.lead(TXNS.c.TXN_ID).over(order_by=TXNS.c.TXN_ID).label("HIGHER_ID"),
    )
    .where(TXNS.c.TXN_ID >= _BOUNDARY)
    .subquery("neighbours")
)
_N = _NEIGHBOURS.c


def _txns_that_matter(columns: Callable[..., Sequence[Any]]) -> tuple[sa.Select[Any], ...]:
    """Txns that are not committed, or so young that an id below them may still appear.

    A young row tells which id below it has a row, because those between may still appear. Committed ones right above
    another, all but a few of the last second's, tell nothing, and stay where they are.

    :param columns: makes them from id, state, type, and the next id below a young one.
    """
    from_boundary = select(
        *columns(_N.TXN_ID, _N.TXN_STATE, _N.TXN_TYPE, sa.case((_N.TXN_ID > _BOUNDARY, _N.LOWER_ID)))
    ).where(
        or_(_N.TXN_STATE != "c", _N.TXN_ID <= _BOUNDARY, _N.LOWER_ID < _N.TXN_ID - 1, _N.HIGHER_ID.is_(None)),
    )
    old = []
    for state in ("o", "a"):
        of_state = TXNS.alias(f"old_{state}")
        found = select(*columns(of_state.c.TXN_ID, of_state.c.TXN_STATE, of_state.c.TXN_TYPE, _no_number()))
        # Not as a bound of the id: all of history is below it, and would be read.
        old.append(found.where(of_state.c.TXN_STATE == state, of_state.c.TXN_ID - _BOUNDARY < 0))
    return from_boundary, *old


_LARGEST_TXN = either(select(func.max(_BELOW.c.TXN_ID)).scalar_subquery(), COUNTED)

_T2W = TXN_TO_WRITE_ID
_OTHER = TXN_TO_WRITE_ID.alias("t2w")
_STATE = TXNS.alias("state")


def names_of(connection: Connection, tables: Sequence[TableName]) -> Names:
    """How a statement takes the names of these tables: for :func:`is_one_of` and :func:`table_parameters`."""
    return len(tables) if len(tables) <= FEW else backend_of(connection).pairs


def is_one_of(database: Any, name: Any, names: Names) -> sa.ColumnElement[bool]:
    """Whether a row is of one of the tables asked for."""
    if not isinstance(names, int):
        return names.holds(database, name)
    return or_(*(and_(database == bindparam(f"db_{i}"), name == bindparam(f"tbl_{i}")) for i in range(names)))


def table_parameters(tables: Sequence[TableName], names: Names) -> dict[str, Any]:
    """Values for :func:`is_one_of`."""
    if not isinstance(names, int):
        return names.parameters(tables)
    databases = {f"db_{i}": t.database for i, t in enumerate(tables)}
    return databases | {f"tbl_{i}": t.name for i, t in enumerate(tables)}


def _write_id_rows(floor: Any, mark: Any, names: Names) -> tuple[sa.Select[Any], ...]:
    """The statements about write ids.

    Each is written so that there is one way to run it that costs anything like what it answers, whatever the database
    believes of its tables: a plan is made while they are empty, and stays while they grow to millions of rows.

    :param floor: txns at or above it are looked at one by one, whatever became of them.
    :param mark: the txn high-water mark.
    :param names: how it takes the tables' names.
    """
    same = and_(_OTHER.c.T2W_DATABASE == NEXT_WRITE_ID.c.NWI_DATABASE, _OTHER.c.T2W_TABLE == NEXT_WRITE_ID.c.NWI_TABLE)
    in_tables = is_one_of(NEXT_WRITE_ID.c.NWI_DATABASE, NEXT_WRITE_ID.c.NWI_TABLE, names)
    of_table = (NEXT_WRITE_ID.c.NWI_DATABASE, NEXT_WRITE_ID.c.NWI_TABLE)
    state = select(_STATE.c.TXN_STATE).where(_STATE.c.TXN_ID == _OTHER.c.T2W_TXNID).scalar_subquery()
    newest = (
        select(_OTHER.c.T2W_WRITEID)
        .where(same, _OTHER.c.T2W_TXNID <= mark)
        .order_by(_OTHER.c.T2W_WRITEID.desc())
        .limit(1)
        .scalar_subquery()
    )
    visible = (
        select(_OTHER.c.T2W_WRITEID)
        .where(
            same,
            _OTHER.c.T2W_TXNID < floor,
            # One row is looked up for each; of a NOT EXISTS a list of all that are open, or of all txns, is made first.
            func.coalesce(state, "c") == "c",
        )
        .limit(1)
        .scalar_subquery()
    )
    tables = select(_kind(2), *of_table, newest, visible, NEXT_WRITE_ID.c.NWI_NEXT).where(in_tables)
    return *_of_states(same, of_table, in_tables), *_recent(floor, names), tables


def _of_states(
    same: sa.ColumnElement[bool], of_table: Sequence[Any], in_tables: sa.ColumnElement[bool]
) -> tuple[sa.Select[Any], ...]:
    """The write ids of open, and of aborted txns: those txns are looked up in each table, and never the other way."""
    found = []
    for state in ("o", "a"):
        ended = TXNS.alias(f"of_txns_{state}")
        # There is one at most. In the order of the index by which it is to be found, and on PostgreSQL not as an
        # equality, which would do away with the order: the other index would read all write ids of the table.
        write_id = (
            select(_OTHER.c.T2W_WRITEID)
            .where(same, is_at(_OTHER.c.T2W_TXNID, ended.c.TXN_ID))
            .order_by(_OTHER.c.T2W_TXNID)
            .limit(1)
            .scalar_subquery()
        )
        each = (
            select(*of_table, ended.c.TXN_ID, write_id.label("WRITE_ID"))
            .select_from(NEXT_WRITE_ID)
            .join(ended, sa.true())
            .where(ended.c.TXN_STATE == state, in_tables)
            .subquery(f"of_{state}")
        )
        found.append(select(_kind(1), *each.c, _no_number()).where(each.c.WRITE_ID.is_not(None)))
    return tuple(found)


def _recent(floor: Any, names: Names) -> list[sa.Select[Any]]:
    """The write ids of txns from the floor on."""
    if not isinstance(names, int):
        return [select(*_PAIR).where(_T2W.c.T2W_TXNID >= floor, names.holds(_T2W.c.T2W_DATABASE, _T2W.c.T2W_TABLE))]
    found = []
    for i in range(names):
        # In the order of one index, so that it is used, and no more than the newest are read.
        each = (
            select(*_PAIR)
            .where(
                _T2W.c.T2W_DATABASE == bindparam(f"db_{i}"),
                _T2W.c.T2W_TABLE == bindparam(f"tbl_{i}"),
                _T2W.c.T2W_TXNID >= floor,
            )
            .order_by(_T2W.c.T2W_TXNID)
            .subquery(f"recent_{i}")
        )
        found.append(select(each))
    return found


_PAIR = (
    _kind(1),
    _T2W.c.T2W_DATABASE,
    _T2W.c.T2W_TABLE,
    _T2W.c.T2W_TXNID,
    _T2W.c.T2W_WRITEID,
    _no_number().label("NO_NUMBER"),
)
_CURRENT = bindparam("current_txn", type_=sa.BigInteger)
_MARK = sa.case((_CURRENT > 0, _CURRENT), else_=_LARGEST_TXN)
#: A reader in a txn of its own sees nobody who began later. He may have waited for long: those who did are then old,
#: and must be looked at one by one all the same.
_FLOOR = smaller(_BOUNDARY, _MARK + 1)
_OPEN_TXNS = sa.union_all(*_txns_that_matter(lambda *columns: columns))
_AS_TXN_ROWS = _txns_that_matter(
    lambda txn_id, state, type_, lower: (_kind(0), state, _no_text(), txn_id, sa.cast(type_, sa.BigInteger), lower)
)
#: Where txns are counted, the newest one may have no row any more: the count stands for it, as if it had committed.
_COUNT_AS_TXN = select(
    _kind(0),
    sa.cast(literal("c", sa.CHAR(1)), sa.CHAR(1)),
    _no_text(),
    NEXT_TXN_ID.c.NTXN_NEXT - 1,
    sa.cast(0, sa.BigInteger),
    _no_number(),
)
_COUNTED_TXNS = sa.union_all(*_AS_TXN_ROWS, _COUNT_AS_TXN)


def _txn_rows(*, counting: bool) -> tuple[sa.Select[Any], ...]:
    return (*_AS_TXN_ROWS, _COUNT_AS_TXN) if counting else _AS_TXN_ROWS


def _table_rows(names: Names) -> sa.Select[Any]:
    """The tables of these names: id, and whether they have write ids."""
    parameter = and_(
        TABLE_PARAMS.c.TBL_ID == TBLS.c.TBL_ID,
        func.lower(TABLE_PARAMS.c.PARAM_KEY) == TRANSACTIONAL,
        func.lower(TABLE_PARAMS.c.PARAM_VALUE) == "true",
    )
    transactional = sa.case((exists().where(parameter), sa.cast(1, sa.BigInteger)), else_=sa.cast(0, sa.BigInteger))
    return (
        select(_kind(3), DBS.c.NAME, TBLS.c.TBL_NAME, TBLS.c.TBL_ID, transactional, _no_number())
        .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
        .where(DBS.c.CTLG_NAME == "hive", is_one_of(DBS.c.NAME, TBLS.c.TBL_NAME, names))
    )


@cache
def _snapshot_of(names: Names, *, counting: bool) -> sa.CompoundSelect[Any]:
    """A fresh snapshot: txns and write ids in one statement."""
    return sa.union_all(*_txn_rows(counting=counting), *_write_id_rows(_FLOOR, _MARK, names))


@cache
def _snapshot_and_tables(names: Names, *, counting: bool) -> sa.CompoundSelect[Any]:
    """The same with the tables' ids."""
    return sa.union_all(*_txn_rows(counting=counting), *_write_id_rows(_FLOOR, _MARK, names), _table_rows(names))


@cache
def _for_list(names: Names, *, counting: bool) -> sa.CompoundSelect[Any]:
    """Write ids for a txn list given by the caller."""
    floor, mark = bindparam("floor", type_=sa.BigInteger), bindparam("mark", type_=sa.BigInteger)
    return sa.union_all(*_write_id_rows(floor, mark, names))


def _ended_later(*columns: Any) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """What is open or aborted now, for lists that may not have seen it."""
    mark = bindparam("mark", type_=sa.BigInteger)
    opened, aborted = (select(*columns).where(TXNS.c.TXN_STATE == state, TXNS.c.TXN_ID <= mark) for state in ("o", "a"))
    return opened, aborted


@cache
def _for_list_and_tables(names: Names, *, counting: bool) -> sa.CompoundSelect[Any]:
    """The same with the tables' ids, and what is open or aborted now, so that it is one statement."""
    floor, mark = bindparam("floor", type_=sa.BigInteger), bindparam("mark", type_=sa.BigInteger)
    ended_later = _ended_later(_kind(4), _no_text(), _no_text(), TXNS.c.TXN_ID, _no_number(), _no_number())
    return sa.union_all(*_write_id_rows(floor, mark, names), _table_rows(names), *ended_later)


_ENDED_LATER = sa.union_all(*_ended_later(TXNS.c.TXN_ID))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at the metastore.

    :param txns: what the txn list was folded from.
    :param valid_txns: the reader's txn list.
    :param write_ids: one list per table asked for.
    """

    txns: OpenTxns
    valid_txns: ValidTxnList
    write_ids: Mapping[TableName, ValidWriteIdList]

    def needed(self) -> dict[TableName, int]:
        """The smallest write id of each table whose history a reader with these lists may need."""
        return {table: write_ids.min_open_or_next() for table, write_ids in self.write_ids.items()}


def open_txns(connection: Connection, gap_timeout_ms: int) -> OpenTxns:
    """Open and aborted txns (getOpenTxns)."""
    parameters = {"gap_timeout": gap_timeout_ms, **statement_time(connection)}
    if backend_of(connection).layout.counts_txns:
        return fold_txn_rows(sorted((r[3], r[1], r[4], r[5]) for r in connection.execute(_COUNTED_TXNS, parameters)))
    return fold_txn_rows(sorted((r[0], r[1], r[2], r[3]) for r in connection.execute(_OPEN_TXNS, parameters)))


def take_snapshot(
    connection: Connection, tables: Sequence[TableName], current_txn: int, gap_timeout_ms: int, *, finish: bool = False
) -> Snapshot:
    """Txn list and write id lists of one moment (R11).

    :param current_txn: the reader's own txn, 0 outside a txn.
    :param finish: nothing else follows in this transaction.
    """
    return take_snapshot_and(connection, tables, current_txn, gap_timeout_ms, [], finish=finish)[0]


def take_snapshot_and(
    connection: Connection,
    tables: Sequence[TableName],
    current_txn: int,
    gap_timeout_ms: int,
    more: Sequence[Step],
    *,
    finish: bool = False,
) -> tuple[Snapshot, list[Result]]:
    """A snapshot, and what else is to be read right after it, in one round trip where that is possible.

    :param finish: nothing else follows in this transaction.
    """
    if not tables:
        opened = open_txns(connection, gap_timeout_ms)
        return Snapshot(opened, read_txn_list(opened, current_txn), {}), execute_batch(connection, more)
    step = snapshot_step(connection, tables, current_txn, gap_timeout_ms)
    first, *results = (finish_batch if finish else execute_batch)(connection, [step, *more])
    return fold_snapshot(tables, first.rows, current_txn), results


def snapshot_step(connection: Connection, tables: Sequence[TableName], current_txn: int, gap_timeout_ms: int) -> Step:
    """The statement for :func:`fold_snapshot`, about at least one table."""
    parameters = {"gap_timeout": gap_timeout_ms, "current_txn": current_txn, **statement_time(connection)}
    return _step(connection, _snapshot_of, tables, parameters)


def fold_snapshot(tables: Sequence[TableName], rows: Iterable[Any], current_txn: int) -> Snapshot:
    """What the rows of :func:`snapshot_step` say."""
    txn_rows: list[tuple[int, str, int | None, int | None]] = []
    rest = []
    for row in rows:
        if row[0] == 0:
            txn_rows.append((row[3], row[1], row[4], row[5]))
        else:
            rest.append(row)
    opened = fold_txn_rows(sorted(txn_rows))
    valid = read_txn_list(opened, current_txn)
    return Snapshot(opened, valid, _fold_tables(tables, rest, valid, frozenset(), fresh=True))


def valid_write_ids(
    connection: Connection, tables: Sequence[TableName], txns: ValidTxnList
) -> dict[TableName, ValidWriteIdList]:
    """Write-id lists that a txn list given out earlier may see.

    A txn that is open or aborted now, at or below the list's mark and unknown to the list, was not seen when it was
    made: it counts as open (R11).
    """
    if not tables:
        return {}
    floor = txns.first_open_or_next
    parameters = {"floor": floor, "mark": txns.high_watermark}
    (found,) = execute_batch(connection, [_step(connection, _for_list, tables, parameters)])
    unseen = connection.execute(_ENDED_LATER, {"mark": txns.high_watermark}).scalars()
    return _fold_tables(tables, found.rows, txns, frozenset(unseen), fresh=False)


@dataclass(frozen=True, slots=True)
class TableWriteIds:
    """What a reader says of a table when it asks for its metadata.

    :param table_id: TBL_ID.
    :param write_ids: which write ids it sees; None for a table that has none.
    """

    table_id: int
    write_ids: ValidWriteIdList | None


def write_ids_and_table_ids(
    connection: Connection,
    tables: Sequence[TableName],
    txns: ValidTxnList | None,
    gap_timeout_ms: int,
    current_txn: int = 0,
) -> tuple[ValidTxnList, dict[TableName, TableWriteIds]]:
    """Lists and ids of those of the tables that exist, in one statement (getValidWriteIdsAndTblIds).

    :param txns: a txn list given out earlier; without it one is taken in the same statement (R11).
    :param current_txn: the reader's own txn, if there is no list.
    """
    if txns is None:
        parameters = {"gap_timeout": gap_timeout_ms, "current_txn": current_txn, **statement_time(connection)}
        statement = _snapshot_and_tables
    else:
        parameters = {"floor": txns.first_open_or_next, "mark": txns.high_watermark}
        statement = _for_list_and_tables
    (result,) = finish_batch(connection, [_step(connection, statement, tables, parameters)])
    by_kind: dict[int, list[Any]] = {kind: [] for kind in range(5)}
    for row in result.rows:
        by_kind[row[0]].append(row)
    if txns is None:
        opened = fold_txn_rows(sorted((r[3], r[1], r[4], r[5]) for r in by_kind[0]))
        valid, unseen = read_txn_list(opened, current_txn), frozenset[int]()
    else:
        valid, unseen = txns, frozenset(r[3] for r in by_kind[4])
    lists = _fold_tables(tables, [*by_kind[1], *by_kind[2]], valid, unseen, fresh=txns is None)
    found = {TableName(r[1], r[2]): TableWriteIds(r[3], None) for r in by_kind[3]}
    for _, db, name, table_id, transactional, _ in by_kind[3]:
        if transactional:
            found[TableName(db, name)] = TableWriteIds(table_id, lists[TableName(db, name)])
    return valid, found


def _step(
    connection: Connection,
    statement: Callable[..., sa.CompoundSelect[Any]],
    tables: Sequence[TableName],
    parameters: dict[str, Any],
) -> Step:
    names = names_of(connection, tables)
    counting = backend_of(connection).layout.counts_txns
    return Step(statement(names, counting=counting), parameters | table_parameters(tables, names))


def _fold_tables(
    tables: Sequence[TableName], rows: Iterable[Any], txns: ValidTxnList, unseen: frozenset[int], *, fresh: bool
) -> dict[TableName, ValidWriteIdList]:
    pairs: dict[TableName, list[tuple[int, int]]] = {t: [] for t in tables}
    following: dict[TableName, int] = {}
    for kind, database, name, first, second, third in rows:
        table = TableName(database, name)
        if kind == 1:
            pairs[table].append((first, second))
            continue
        following[table] = third
        # The largest write id at or below the mark, and one visible one, stand for all that were not fetched; both
        # belong to txns that the snapshot sees, so any txn id below the floor will do.
        known = {write_id for _, write_id in pairs[table]}
        pairs[table].extend((0, w) for w in {first, second} - known if w is not None)
    return {t: fold_write_ids(str(t), _distinct(pairs[t]), txns, following.get(t), unseen, fresh=fresh) for t in tables}


def _distinct(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each write id once; a row that names its txn is preferred to a stand-in."""
    return [(txn, write_id) for write_id, txn in dict(sorted((w, t) for t, w in pairs)).items()]
