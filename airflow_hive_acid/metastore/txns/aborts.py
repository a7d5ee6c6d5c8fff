"""Aborting txns: one, many, or all that stopped sending heartbeats (Hive's abortTxn, abortTxns, performTimeOuts).

An abort takes away the locks and history rows and keeps TXN_COMPONENTS and TXN_TO_WRITE_ID: they are the lasting
list of write ids that readers must skip, until compaction or clean-up has removed the files. R4: whoever aborts the
txn of a job fences the job first; this module only changes rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, delete, or_, select, update

from airflow_hive_acid.metastore.database.backend import execute_batch
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.codes import AbortReason, TxnState, TxnType
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.database.wakeups import release_steps
from airflow_hive_acid.metastore.names.objects import info
from airflow_hive_acid.metastore.schema.hive_transactions import (
    HIVE_LOCKS,
    MIN_HISTORY_LEVEL,
    MIN_HISTORY_WRITE_ID,
    TXNS,
)
from airflow_hive_acid.metastore.txns.jobs import with_files_in_plain_tables
from airflow_hive_acid.metastore.txns.txns import (
    GIVEN_UP,
    IS_NOT_GIVEN_UP,
    facts,
    lock_txn_step,
    require_open,
    txn_facts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Features

TIMEOUT_SELECT = 500_000

_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_ABORT = (
    update(TXNS)
    .where(TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE == "o")
    .values(TXN_STATE="a", TXN_META_INFO=bindparam("reason"))
)
_STALE = TXNS.c.TXN_LAST_HEARTBEAT < clock_ms() - bindparam("timeout")
_STALE_REPL = TXNS.c.TXN_LAST_HEARTBEAT < clock_ms() - bindparam("repl_timeout")
_IS_REPL = TXNS.c.TXN_TYPE == int(TxnType.REPL_CREATED)
#: As in Hive, a row whose type is NULL never times out: nobody is known to heartbeat it, or not to.
_TIMED_OUT = or_(sa.and_(TXNS.c.TXN_TYPE != int(TxnType.REPL_CREATED), _STALE), sa.and_(_IS_REPL, _STALE_REPL))
_STALE_OF = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE == "o", _TIMED_OUT)
_FIND_TIMED_OUT = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == "o", _TIMED_OUT).limit(TIMEOUT_SELECT)
_GIVE_UP = (
    update(TXNS)
    .where(TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE == "o", IS_NOT_GIVEN_UP)
    .values(TXN_META_INFO=bindparam("mark"))
)
_LOCK_ROWS = (
    select(TXNS.c.TXN_ID)
    .where(TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE == "o")
    .order_by(TXNS.c.TXN_ID)
    .with_for_update()
)
_DELETE_LOCKS = delete(HIVE_LOCKS).where(HIVE_LOCKS.c.HL_TXNID.in_(_IDS))
_DELETE_LEVEL = delete(MIN_HISTORY_LEVEL).where(MIN_HISTORY_LEVEL.c.MHL_TXNID.in_(_IDS))
_DELETE_WRITE_IDS = delete(MIN_HISTORY_WRITE_ID).where(MIN_HISTORY_WRITE_ID.c.MH_TXNID.in_(_IDS))
_EXPIRED_LOCKS = delete(HIVE_LOCKS).where(
    HIVE_LOCKS.c.HL_TXNID == 0,
    HIVE_LOCKS.c.HL_LAST_HEARTBEAT < clock_ms() - bindparam("timeout"),
    HIVE_LOCKS.c.HL_DB.not_in(["__metastore_leader_election__"]),
)


@dataclass(frozen=True, slots=True)
class AbortedTxns:
    """Answer of an abort of many.

    :param aborted: ids aborted by this call.
    :param already_aborted: ids that were aborted before.
    :param committed: ids that had been committed: nothing was done to them.
    :param missing: ids without row in TXNS.
    :param ending: ids that cannot commit any more, and are open until what they moved into plain tables is moved back.
    """

    aborted: tuple[int, ...] = ()
    already_aborted: tuple[int, ...] = ()
    committed: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    ending: tuple[int, ...] = ()


def reason_text(reason: AbortReason | str) -> str:
    """The reason for TXN_META_INFO."""
    return info(reason.value if isinstance(reason, AbortReason) else reason)


def abort_txn(
    connection: Connection,
    txn_id: int,
    features: Features,
    reason: AbortReason | str,
    before: Callable[[Connection], None] | None = None,
) -> bool:
    """Abort a txn; false when it was aborted already, or has moved files into plain tables and is only given up.

    :param before: records what must be known of it afterwards; runs while it is locked and open.
    :raises NoSuchTxnError: when it is committed or was never opened.
    """
    rows = connection.execute(lock_txn_step(txn_id).statement, {"txn_id": txn_id}).all()
    if rows and rows[0][0] == TxnState.ABORTED.value:
        return False
    if not rows or not facts(rows[0]).given_up:
        require_open(connection, txn_id, rows)
    if before is not None:
        before(connection)
    return bool(abort_rows(connection, [txn_id], features, reason))


def abort_txns(
    connection: Connection, txn_ids: Sequence[int], features: Features, reason: AbortReason | str
) -> AbortedTxns:
    """Abort all given txns that are open; others are named in the answer and do not stop it."""
    ids = sorted(set(txn_ids))
    opened: list[int] = []
    for part in chunks(ids):
        opened.extend(connection.execute(_LOCK_ROWS, {"ids": list(part)}).scalars())
    found = txn_facts(connection, ids)
    done = abort_rows(connection, opened, features, reason)
    rest = [i for i in ids if i not in set(opened)]
    return AbortedTxns(
        aborted=tuple(done),
        already_aborted=tuple(i for i in rest if i in found and found[i].state is TxnState.ABORTED),
        committed=tuple(i for i in rest if i in found and found[i].state is TxnState.COMMITTED),
        missing=tuple(i for i in rest if i not in found),
        ending=tuple(i for i in opened if i not in set(done)),
    )


def abort_rows(
    connection: Connection, txn_ids: Sequence[int], features: Features, reason: AbortReason | str
) -> list[int]:
    """The rows an abort changes, for txns that are locked or whose state does not matter.

    R4: what a txn has moved into plain tables only its locks hide. Where that is not moved back yet, the txn is given
    up instead: it keeps them, and the reaper goes on.

    :return: the txns without those.
    """
    held = with_files_in_plain_tables(connection, sorted(txn_ids)) if features.extensions else set()
    if held:
        mark_given_up(connection, sorted(held), reason_text(reason))
    free = [i for i in sorted(txn_ids) if i not in held]
    for part in chunks(free):
        ids = {"ids": list(part)}
        if features.min_history_level:
            connection.execute(_DELETE_LEVEL, ids)
        if features.min_history_write_id:
            connection.execute(_DELETE_WRITE_IDS, ids)
        connection.execute(_ABORT, {**ids, "reason": reason_text(reason)})
        connection.execute(_DELETE_LOCKS, ids)
    execute_batch(connection, release_steps(connection))
    return free


def mark_given_up(connection: Connection, txn_ids: Sequence[int], reason: str) -> None:
    """Mark open txns as given up; their rows are locked. The first reason stays."""
    for part in chunks(txn_ids):
        connection.execute(_GIVE_UP, {"ids": list(part), "mark": info(f"{GIVEN_UP}{reason}")})


def stale_ones(connection: Connection, txn_ids: Sequence[int], timeout_ms: int, repl_timeout_ms: int) -> list[int]:
    """Those of the open txns that are without heartbeat for longer than their time-out, now."""
    times = {"timeout": timeout_ms, "repl_timeout": repl_timeout_ms}
    return [
        i for part in chunks(txn_ids) for i in connection.execute(_STALE_OF, {"ids": list(part), **times}).scalars()
    ]


# --- time-outs ----------------------------------------------------------------------------------------------------


def expire_locks(connection: Connection, timeout_ms: int) -> int:
    """Remove locks outside a txn that stopped sending heartbeats; locks of a txn die with the txn."""
    return connection.execute(_EXPIRED_LOCKS, {"timeout": timeout_ms}).rowcount


def find_timed_out(connection: Connection, timeout_ms: int, repl_timeout_ms: int) -> list[int]:
    """Open txns without heartbeat for longer than their time-out, at most TIMEOUT_SELECT of them, ascending."""
    found = connection.execute(_FIND_TIMED_OUT, {"timeout": timeout_ms, "repl_timeout": repl_timeout_ms}).scalars()
    return sorted(found)


def abort_timed_out(
    connection: Connection, txn_ids: Sequence[int], features: Features, timeout_ms: int, repl_timeout_ms: int
) -> list[int]:
    """Abort those of the txns that are still without heartbeat, each decided by the row itself; returns them."""
    aborted: list[int] = []
    for part in chunks(sorted(txn_ids)):
        # R3: the rows are locked first; whether they are stale is decided by the clock after that wait.
        locked = list(connection.execute(_LOCK_ROWS, {"ids": list(part)}).scalars())
        if not locked:
            continue
        stale = stale_ones(connection, locked, timeout_ms, repl_timeout_ms)
        if stale:
            aborted.extend(abort_rows(connection, stale, features, AbortReason.TIMEOUT))
    return aborted
