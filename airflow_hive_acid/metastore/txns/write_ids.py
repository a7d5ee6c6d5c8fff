"""Write ids: the version numbers of a table, one per txn that writes it (Hive's allocateTableWriteIds).

R1: a writer allocates after its lock is granted, and the same transaction stamps the id into its components; so a
later write id always belongs to a later look at the table, and the Cleaner can tell what a component wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, exists, func, insert, select, update

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchTxnError, TxnAbortedError
from airflow_hive_acid.metastore.database.backend import Step, at_once, execute_batch, finish_batch, together
from airflow_hive_acid.metastore.database.codes import TxnState, TxnType
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_transactions import NEXT_WRITE_ID, TXN_COMPONENTS, TXN_TO_WRITE_ID, TXNS
from airflow_hive_acid.metastore.txns.txns import TxnFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

_DB, _TBL = bindparam("db", type_=sa.String), bindparam("tbl", type_=sa.String)
_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_OF_TABLE = (TXN_TO_WRITE_ID.c.T2W_DATABASE == _DB, TXN_TO_WRITE_ID.c.T2W_TABLE == _TBL)
_LOCK_TXNS = (
    select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE, TXNS.c.TXN_TYPE, TXNS.c.TXN_META_INFO)
    .where(TXNS.c.TXN_ID.in_(_IDS))
    .order_by(TXNS.c.TXN_ID)
    .with_for_update()
)
_LOCK_TXN = (
    select(TXNS.c.TXN_ID, TXNS.c.TXN_STATE, TXNS.c.TXN_TYPE, TXNS.c.TXN_META_INFO)
    .where(TXNS.c.TXN_ID == bindparam("txn_id"))
    .with_for_update()
)
_EXISTING = select(TXN_TO_WRITE_ID.c.T2W_TXNID, TXN_TO_WRITE_ID.c.T2W_WRITEID).where(
    *_OF_TABLE, TXN_TO_WRITE_ID.c.T2W_TXNID.in_(_IDS)
)
_FORGET = delete(TXN_TO_WRITE_ID).where(*_OF_TABLE, TXN_TO_WRITE_ID.c.T2W_TXNID.in_(_IDS))
_LOCK_NEXT = (
    select(NEXT_WRITE_ID.c.NWI_NEXT)
    .where(NEXT_WRITE_ID.c.NWI_DATABASE == _DB, NEXT_WRITE_ID.c.NWI_TABLE == _TBL)
    .with_for_update()
)
#: With the row the txn has already: its own row is locked, so nobody can give it one while this waits (R3).
_LOCK_NEXT_ONE = (
    select(
        NEXT_WRITE_ID.c.NWI_NEXT,
        select(TXN_TO_WRITE_ID.c.T2W_WRITEID)
        .where(*_OF_TABLE, TXN_TO_WRITE_ID.c.T2W_TXNID == bindparam("txn_id"))
        .scalar_subquery(),
    )
    .where(NEXT_WRITE_ID.c.NWI_DATABASE == _DB, NEXT_WRITE_ID.c.NWI_TABLE == _TBL)
    .with_for_update(of=NEXT_WRITE_ID)
)
_NEXT = select(NEXT_WRITE_ID.c.NWI_NEXT).where(NEXT_WRITE_ID.c.NWI_DATABASE == _DB, NEXT_WRITE_ID.c.NWI_TABLE == _TBL)
_FIRST = insert(NEXT_WRITE_ID).values(NWI_DATABASE=_DB, NWI_TABLE=_TBL, NWI_NEXT=bindparam("next"))
_ADVANCE = (
    update(NEXT_WRITE_ID)
    .where(NEXT_WRITE_ID.c.NWI_DATABASE == _DB, NEXT_WRITE_ID.c.NWI_TABLE == _TBL)
    .values(NWI_NEXT=bindparam("next"))
)
_PAIR = insert(TXN_TO_WRITE_ID).values(
    T2W_TXNID=bindparam("txn_id"), T2W_DATABASE=_DB, T2W_TABLE=_TBL, T2W_WRITEID=bindparam("write_id")
)
_STAMP = (
    update(TXN_COMPONENTS)
    .where(
        TXN_COMPONENTS.c.TC_TXNID == bindparam("txn_id"),
        TXN_COMPONENTS.c.TC_DATABASE == _DB,
        TXN_COMPONENTS.c.TC_TABLE == _TBL,
    )
    .values(TC_WRITEID=bindparam("write_id"))
)
_TXN_OF = select(TXN_TO_WRITE_ID.c.T2W_TXNID).where(*_OF_TABLE, TXN_TO_WRITE_ID.c.T2W_WRITEID == bindparam("write_id"))
#: Locks both rows, and decides nothing (R3).
_LOCK_TXN_AND_NEXT = (
    select(TXNS.c.TXN_ID, NEXT_WRITE_ID.c.NWI_NEXT)
    .join(NEXT_WRITE_ID, sa.true())
    .where(TXNS.c.TXN_ID == bindparam("txn_id"), NEXT_WRITE_ID.c.NWI_DATABASE == _DB, NEXT_WRITE_ID.c.NWI_TABLE == _TBL)
    .with_for_update()
)


def _take(*more: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """In one statement: the next id for a writer that has none; nothing happens when that is not how it is.

    :param more: what else must hold.
    """
    txn_id = bindparam("txn_id", type_=sa.BigInteger)
    of_table = (NEXT_WRITE_ID.c.NWI_DATABASE == _DB, NEXT_WRITE_ID.c.NWI_TABLE == _TBL)
    is_writer = exists().where(
        TXNS.c.TXN_ID == txn_id,
        TXNS.c.TXN_STATE == TxnState.OPEN.value,
        func.coalesce(TXNS.c.TXN_TYPE, 0) != int(TxnType.READ_ONLY),
    )
    has_one = exists().where(*_OF_TABLE, TXN_TO_WRITE_ID.c.T2W_TXNID == txn_id)
    following = select(NEXT_WRITE_ID.c.NWI_NEXT).where(*of_table, is_writer, ~has_one, *more).cte("following")
    next_id = following.c.NWI_NEXT
    advance = update(NEXT_WRITE_ID).where(*of_table, NEXT_WRITE_ID.c.NWI_NEXT == next_id).values(NWI_NEXT=next_id + 1)
    pair = insert(TXN_TO_WRITE_ID).from_select(
        ["T2W_TXNID", "T2W_DATABASE", "T2W_TABLE", "T2W_WRITEID"], select(txn_id, _DB, _TBL, next_id)
    )
    stamp = update(TXN_COMPONENTS).where(_IS_COMPONENT, next_id.is_not(None)).values(TC_WRITEID=next_id)
    return select(next_id).add_cte(advance.cte("advance"), pair.cte("pair"), stamp.cte("stamp"))


_IS_COMPONENT = sa.and_(
    TXN_COMPONENTS.c.TC_TXNID == bindparam("txn_id", type_=sa.BigInteger),
    TXN_COMPONENTS.c.TC_DATABASE == _DB,
    TXN_COMPONENTS.c.TC_TABLE == _TBL,
)
_TAKE = _take()
#: R1: only when the component is there, which comes with the lock.
_TAKE_GRANTED = _take(exists().where(_IS_COMPONENT))


def take_steps(table: TableName, txn_id: int) -> list[Step]:
    """The statements that give a write id to a txn whose lock has been granted (R1); where writes are compound.

    Without a row of the last one nothing is done: it has no lock, or has a write id already, or it would be the table's
    first one.
    """
    one = {"db": table.database, "tbl": table.name, "txn_id": txn_id}
    return [Step(_LOCK_TXN_AND_NEXT, one), Step(_TAKE_GRANTED, one)]


def allocate(
    connection: Connection,
    table: TableName,
    txn_ids: Sequence[int],
    *,
    reallocate: bool = False,
    short: bool = False,
    finish: Callable[[dict[int, int]], list[Step]] | None = None,
) -> dict[int, int]:
    """One write id of the table per txn, ascending with the txn ids; what is allocated already is returned unchanged.

    A racer may insert the table's first row at the same time: run it with ``retry_duplicates``.

    :param reallocate: give the txns new, higher ids instead of those they have.
    :param short: where it can be done, take the id and commit in one round trip; nothing follows in this transaction.
    :param finish: given, nothing else follows in this transaction but the statements it makes of what was allocated.
    :raises InvalidArgumentsError: when a txn is read-only, or only some of the txns have a write id already.
    :raises NoSuchTxnError: when a txn is committed or unknown.
    :raises TxnAbortedError: when a txn is aborted.
    """
    ids = sorted(set(txn_ids))
    if not ids:
        raise InvalidArgumentsError(f"write ids of {table} were asked for without a txn")
    of_table = {"db": table.database, "tbl": table.name}
    if short and len(ids) == 1 and not reallocate:
        one = {**of_table, "txn_id": ids[0]}
        # The long way: the table's first id, an id given already, or an error. R3: the locks wait, and decide nothing.
        taken = at_once(connection, lambda: [Step(_LOCK_TXN_AND_NEXT, one), Step(_TAKE, one)])
        if taken is not None:
            return {ids[0]: int(taken[0][0])}
    existing, next_id = _look(connection, of_table, table, ids)
    steps: list[Step] = []
    if reallocate and existing:
        for part in chunks(ids):
            connection.execute(_FORGET, {**of_table, "ids": list(part)})
    elif len(existing) == len(ids):
        return existing
    elif existing:
        missing = [i for i in ids if i not in existing]
        raise InvalidArgumentsError(
            f"of the txns {ids[:10]} some have a write id of {table} already and some have not ({missing[:10]}); "
            "allocate for all of them at once, or for those only"
        )
    first = next_id if next_id is not None else 1
    steps.append(Step(_FIRST if next_id is None else _ADVANCE, {**of_table, "next": first + len(ids)}))
    allocated = {txn_id: first + i for i, txn_id in enumerate(ids)}
    for txn_id, write_id in allocated.items():
        steps.append(Step(_PAIR, {**of_table, "txn_id": txn_id, "write_id": write_id}))
        steps.append(Step(_STAMP, {**of_table, "txn_id": txn_id, "write_id": write_id}))  # R1
    steps = together(connection, steps)
    if finish is None:
        execute_batch(connection, steps)
    else:
        finish_batch(connection, [*steps, *finish(allocated)])
    return allocated


def _look(
    connection: Connection, of_table: dict[str, str], table: TableName, ids: list[int]
) -> tuple[dict[int, int], int | None]:
    """What the txns have already, and the table's next id, both under lock (R3: each a statement of its own)."""
    if len(ids) == 1:
        one = {**of_table, "txn_id": ids[0]}
        txns, following = execute_batch(connection, [Step(_LOCK_TXN, {"txn_id": ids[0]}), Step(_LOCK_NEXT_ONE, one)])
        _require_writers(table, ids, txns.rows)
        if not following.rows:
            return {}, None
        next_id, existing = following.rows[0]
        return {} if existing is None else {ids[0]: existing}, next_id
    rows: list[tuple[int, str, int | None, str | None]] = []
    found: dict[int, int] = {}
    for part in chunks(ids):
        rows.extend((r[0], r[1], r[2], r[3]) for r in connection.execute(_LOCK_TXNS, {"ids": list(part)}))
    _require_writers(table, ids, rows)
    for part in chunks(ids):
        found.update((r[0], r[1]) for r in connection.execute(_EXISTING, {**of_table, "ids": list(part)}))
    return found, connection.execute(_LOCK_NEXT, of_table).scalar()


def _require_writers(table: TableName, ids: list[int], rows: Sequence[tuple[int, str, int | None, str | None]]) -> None:
    found = {r[0]: TxnFacts(TxnState(r[1]), TxnType(r[2] or 0), r[3]) for r in rows}
    aborted = [i for i, f in found.items() if f.state is TxnState.ABORTED]
    if aborted:
        reason = found[aborted[0]].reason
        raise TxnAbortedError(
            f"write ids of {table} for aborted txns {aborted[:10]}"
            + (f" ({reason})" if reason else "")
            + " were refused; open new txns"
        )
    gone = [i for i in ids if i not in found or found[i].state is TxnState.COMMITTED]
    if gone:
        raise NoSuchTxnError(
            f"write ids of {table} for txns that are committed or were never opened, {gone[:10]}, were refused"
        )
    readers = [i for i, f in found.items() if f.type is TxnType.READ_ONLY]
    if readers:
        raise InvalidArgumentsError(
            f"write ids of {table} for read-only txns {readers[:10]} were refused; open a txn of type DEFAULT to write"
        )


def txn_of(connection: Connection, table: TableName, write_id: int) -> int | None:
    """The txn that got a write id, None when it is forgotten (getTxnIdForWriteId answers -1)."""
    return connection.execute(_TXN_OF, {"db": table.database, "tbl": table.name, "write_id": write_id}).scalar()


def max_allocated(connection: Connection, table: TableName) -> int:
    """getMaxAllocatedTableWriteId: 0 when the table was never written."""
    following = connection.execute(_NEXT, {"db": table.database, "tbl": table.name}).scalar()
    return 0 if following is None else int(following) - 1


def seed_write_id(connection: Connection, table: TableName, seed: int) -> None:
    """Make the table's write ids start above ``seed``.

    :raises InvalidArgumentsError: when write ids were allocated already.
    """
    if seed < 0:
        raise InvalidArgumentsError(f"write ids of {table} cannot start above {seed}; give 0 or more")
    of_table = {"db": table.database, "tbl": table.name}
    following = connection.execute(_LOCK_NEXT, of_table).scalar()
    if following is not None:
        raise InvalidArgumentsError(f"{table} has write ids up to {following - 1} already; they cannot be seeded")
    connection.execute(_FIRST, {**of_table, "next": seed + 1})
