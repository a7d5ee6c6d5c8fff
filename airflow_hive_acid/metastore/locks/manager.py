"""The metastore's lock manager: HIVE_LOCKS, shared with a real Hive (enqueue, checkLock, unlock).

External ids come from NEXT_LOCK_ID, whose row lock is held to the commit: ids become visible in order, and a check
looks only at smaller ones. R3: the locks in the way are read in a statement after that row lock. A txn's row is locked
before anything is written for it, so that a racing abort leaves no lock behind, and a committed txn gets none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, insert, or_, select, update

from airflow_hive_acid.errors import NoSuchLockError, TxnOpenError
from airflow_hive_acid.metastore.database.backend import Result, Step, backend_of, execute_batch, finish_batch, together
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.codes import LockState, LockType
from airflow_hive_acid.metastore.database.wakeups import release_steps
from airflow_hive_acid.metastore.locks.compatibility import BLOCKING, Lock, first_conflict
from airflow_hive_acid.metastore.locks.components import component_steps
from airflow_hive_acid.metastore.locks.interface import (
    LockComponent,
    LockRequest,
    LockResponse,
    as_hive_3,
    describe_object,
    merge_components,
)
from airflow_hive_acid.metastore.locks.lease_locks import blocking_under_lease
from airflow_hive_acid.metastore.locks.rows import LOCK_COLUMNS, lock_of
from airflow_hive_acid.metastore.locks.single_object import TXN_AND_NEXT_ID, grant_at_once
from airflow_hive_acid.metastore.names.objects import info, lock_partition
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, NEXT_LOCK_ID
from airflow_hive_acid.metastore.txns.txns import heartbeat_step, require_open, txn_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.locks.lease_locks import Mirror

_H = HIVE_LOCKS.c
_EXT = bindparam("lock_id", type_=sa.BigInteger)
_NEXT_ID = select(NEXT_LOCK_ID.c.NL_NEXT).with_for_update()
_ADVANCE_ID = update(NEXT_LOCK_ID).values(NL_NEXT=bindparam("next"))
_INSERT = insert(HIVE_LOCKS).values(
    HL_LOCK_EXT_ID=_EXT,
    HL_LOCK_INT_ID=bindparam("internal_id"),
    HL_TXNID=bindparam("txn_id"),
    HL_DB=bindparam("db"),
    HL_TABLE=bindparam("tbl"),
    HL_PARTITION=bindparam("part"),
    HL_LOCK_STATE=bindparam("state"),
    HL_LOCK_TYPE=bindparam("type"),
    # Locks of a txn live as long as it does; their own heartbeat stays 0.
    HL_LAST_HEARTBEAT=sa.case((bindparam("txn_id", type_=sa.BigInteger) == 0, clock_ms()), else_=0),
    HL_ACQUIRED_AT=sa.case((bindparam("state", type_=sa.CHAR(1)) == "a", clock_ms())),
    HL_USER=bindparam("user"),
    HL_HOST=bindparam("host"),
    HL_AGENT_INFO=bindparam("agent"),
    HL_BLOCKEDBY_EXT_ID=bindparam("blocking_id"),
    HL_BLOCKEDBY_INT_ID=bindparam("blocking_internal_id"),
)
_MINE = select(*LOCK_COLUMNS, _H.HL_LOCK_STATE).where(_H.HL_LOCK_EXT_ID == _EXT).order_by(_H.HL_LOCK_INT_ID)
_ACQUIRE = (
    update(HIVE_LOCKS)
    .where(_H.HL_LOCK_EXT_ID == _EXT)
    .values(
        HL_LOCK_STATE="a",
        HL_ACQUIRED_AT=clock_ms(),
        HL_BLOCKEDBY_EXT_ID=None,
        HL_BLOCKEDBY_INT_ID=None,
        HL_LAST_HEARTBEAT=sa.case((_H.HL_TXNID == 0, clock_ms()), else_=0),
    )
)
_BLOCK = (
    update(HIVE_LOCKS)
    .where(_H.HL_LOCK_EXT_ID == _EXT, _H.HL_LOCK_INT_ID == bindparam("internal_id"))
    .values(HL_BLOCKEDBY_EXT_ID=bindparam("blocking_id"), HL_BLOCKEDBY_INT_ID=bindparam("blocking_internal_id"))
)
_HEARTBEAT = update(HIVE_LOCKS).where(_H.HL_LOCK_EXT_ID == _EXT, _H.HL_TXNID == 0).values(HL_LAST_HEARTBEAT=clock_ms())
_DELETE = delete(HIVE_LOCKS).where(_H.HL_LOCK_EXT_ID == _EXT)
_UNLOCK = _DELETE.where(or_(_H.HL_TXNID == 0, _H.HL_LOCK_STATE == "w"))


def _in_the_way(strongest: LockType, *, whole_database: bool) -> sa.Select[Any]:
    """Locks with smaller ids that could block a request of this strength on a table, or on a database."""
    types = sorted(t.value for t in BLOCKING[strongest])
    statement = select(*LOCK_COLUMNS).where(
        _H.HL_DB == bindparam("db"), or_(*(_H.HL_LOCK_TYPE == t for t in types)), _H.HL_LOCK_EXT_ID < _EXT
    )
    if not whole_database:
        statement = statement.where(or_(_H.HL_TABLE.is_(None), _H.HL_TABLE == bindparam("tbl")))
    return statement


_IN_THE_WAY = {(t, whole): _in_the_way(t, whole_database=whole) for t in LockType for whole in (False, True)}
_ANY_ID = 2**63 - 1


def enqueue(
    connection: Connection, request: LockRequest, *, finish: bool = True, mirror: Mirror | None = None
) -> LockResponse:
    """Put a request into the queue and grant it if nothing is in its way (Hive's lock()).

    :param finish: nothing else follows in this transaction.
    :param mirror: the locks that stand for the lease under which it is asked for (R6).
    :raises NoSuchTxnError: when its txn is committed or was never opened.
    :raises TxnAbortedError: when its txn is aborted.
    """
    components = merge_components(request.components)
    if backend_of(connection).layout.counts_txns:
        components = as_hive_3(components)
    # The id is not known yet, and every request that exists has a smaller one.
    wanted = [
        Lock(_ANY_ID, number, request.txn_id, c.database, c.table, lock_partition(c.partition), c.type)
        for number, c in enumerate(components, 1)
    ]
    first = Step(TXN_AND_NEXT_ID, {"txn_id": request.txn_id}) if request.txn_id else Step(_NEXT_ID)
    if mirror is None and finish and request.txn_id and len(components) == 1:
        granted = grant_at_once(connection, request, components[0])
        if granted is not None:
            return LockResponse(granted, LockState.ACQUIRED)
    locked, *others = execute_batch(connection, [first, *(_look_steps(wanted) if mirror is None else ())])
    if request.txn_id:
        require_open(connection, request.txn_id, locked.rows)
    lock_id = int(locked.rows[0][-1])
    found = (
        first_conflict(wanted, _locks(others))
        if mirror is None
        else blocking_under_lease(connection, wanted, _ANY_ID, mirror)
    )
    if found is not None and _refuses(request, found[0]):
        return LockResponse(lock_id, LockState.NOT_ACQUIRED, message=_refusal(request, found[1]))
    state = LockState.WAITING if found else LockState.ACQUIRED
    steps = [Step(_ADVANCE_ID, {"next": lock_id + 1})]
    if request.txn_id:
        steps += component_steps(request.txn_id, components)
    for number, component in enumerate(components, 1):
        blocking = found[1] if found is not None and found[0].internal_id == number else None
        steps.append(_insert_step(request, lock_id, number, component, state, blocking))
    (finish_batch if finish else execute_batch)(connection, together(connection, steps))
    return LockResponse(lock_id, state, _id(found[1]) if found else None)


def _insert_step(
    request: LockRequest, lock_id: int, number: int, component: LockComponent, state: LockState, blocking: Lock | None
) -> Step:
    """The statement that puts one component of a request into the queue."""
    row = {
        "lock_id": lock_id,
        "internal_id": number,
        "txn_id": request.txn_id,
        "db": component.database,
        "tbl": component.table,
        "part": lock_partition(component.partition),
        "state": state.value,
        "type": component.type.value,
        "user": info(request.user),
        "host": info(request.host),
        "agent": info(request.agent_info) or None,
        "blocking_id": blocking.lock_id if blocking else None,
        "blocking_internal_id": blocking.internal_id if blocking else None,
    }
    return Step(_INSERT, row)


def check_lock(
    connection: Connection, lock_id: int, *, finish: bool = True, mirror: Mirror | None = None
) -> LockResponse:
    """Grant a waiting request if nothing is in its way any more; sends the heartbeat of its txn, or its own.

    :param mirror: the locks that stand for the lease under which it is asked for (R6).
    :raises NoSuchLockError: when the lock does not exist (any more).
    :raises NoSuchTxnError: when its txn is committed; TxnAbortedError when it is aborted.
    """
    rows = connection.execute(_MINE, {"lock_id": lock_id}).all()
    if not rows:
        raise _no_lock(lock_id)
    mine = _locks([Result(list(rows), len(rows))])
    txn_id = mine[0].txn_id
    # R3: the heartbeat locks the txn's row; what is in the way is read in statements after it.
    looks = _look_steps(mine, below=lock_id) if mirror is None else []
    results = execute_batch(connection, [_heartbeat_step(lock_id, txn_id), *looks])
    if results[0].rowcount == 0:
        raise txn_problem(connection, txn_id) if txn_id else _no_lock(lock_id)
    if all(row[-1] == LockState.ACQUIRED.value for row in rows):
        return LockResponse(lock_id, LockState.ACQUIRED)
    found = (
        first_conflict(mine, _locks(results[1:]))
        if mirror is None
        else blocking_under_lease(connection, mine, lock_id, mirror)
    )
    if found is not None:
        blocked = {
            "lock_id": lock_id,
            "internal_id": found[0].internal_id,
            "blocking_id": found[1].lock_id,
            "blocking_internal_id": found[1].internal_id,
        }
        (finish_batch if finish else execute_batch)(connection, [Step(_BLOCK, blocked)])
        return LockResponse(lock_id, LockState.WAITING, _id(found[1]), blocked_outside_txn=found[1].txn_id == 0)
    if connection.execute(_ACQUIRE, {"lock_id": lock_id}).rowcount != len(mine):
        raise _no_lock(lock_id)
    return LockResponse(lock_id, LockState.ACQUIRED)


def unlock(connection: Connection, lock_id: int) -> None:
    """Release a lock outside a txn or withdraw a waiting request; a lock that is gone is no error.

    :raises TxnOpenError: when it is held by a txn: commit or abort that.
    """
    if connection.execute(_UNLOCK, {"lock_id": lock_id}).rowcount:
        execute_batch(connection, release_steps(connection))
        return
    row = connection.execute(_MINE, {"lock_id": lock_id}).first()
    if row is not None:
        raise TxnOpenError(f"lock {lock_id} belongs to txn {row[2]} and is acquired; commit or abort the txn")


def heartbeat_lock(connection: Connection, lock_id: int) -> None:
    """Keep a lock outside a txn alive; a lock of a txn is kept alive by the txn's heartbeat.

    :raises NoSuchLockError: when it is gone: released, or timed out.
    """
    if connection.execute(_HEARTBEAT, {"lock_id": lock_id}).rowcount:
        return
    row = connection.execute(_MINE, {"lock_id": lock_id}).first()
    if row is None:
        raise _no_lock(lock_id)
    if connection.execute(heartbeat_step(row[2]).statement, {"txn_id": row[2]}).rowcount == 0:
        raise txn_problem(connection, row[2])


def _heartbeat_step(lock_id: int, txn_id: int) -> Step:
    return heartbeat_step(txn_id) if txn_id else Step(_HEARTBEAT, {"lock_id": lock_id})


def _look_steps(wanted: Sequence[Lock], below: int = _ANY_ID) -> list[Step]:
    """One statement per table: what could be in the way of its requests."""
    strongest: dict[tuple[str, str | None], LockType] = {}
    for lock in wanted:
        place = (lock.database, lock.table)
        held = strongest.get(place)
        if held is None or lock.type.strength > held.strength:
            strongest[place] = lock.type
    steps = []
    for (database, table), type_ in strongest.items():
        parameters: dict[str, Any] = {"db": database, "lock_id": below}
        if table is not None:
            parameters["tbl"] = table
        steps.append(Step(_IN_THE_WAY[(type_, table is None)], parameters))
    return steps


def _locks(results: Iterable[Result]) -> list[Lock]:
    return [lock_of(r) for result in results for r in result.rows]


def _refuses(request: LockRequest, blocked: Lock) -> bool:
    """Whether the request wants a refusal rather than a wait."""
    if not request.txn_id:
        return False
    return request.exclusive_ctas or (request.zero_wait_read and blocked.type is LockType.SHARED_READ)


def _refusal(request: LockRequest, blocking: Lock) -> str:
    where = describe_object(*blocking.object)
    held = f"{{lock {_id(blocking)}, {blocking.type.name} on {where}, txn {blocking.txn_id}}}"
    if request.exclusive_ctas:
        return f"Failed to initiate a concurrent CTAS operation with the same table name, lockInfo : {held}"
    return f"Unable to acquire read lock due to an existing exclusive lock {held}"


def _id(lock: Lock) -> str:
    return f"{lock.lock_id}.{lock.internal_id}"


def _no_lock(lock_id: int) -> NoSuchLockError:
    return NoSuchLockError(f"no lock {lock_id}: it was released, withdrawn, or timed out without heartbeats")
