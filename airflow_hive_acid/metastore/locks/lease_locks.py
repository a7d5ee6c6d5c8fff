"""Whom a lock waits for when it is asked for under a lease (R6).

A mirrored lease stands in HIVE_LOCKS, so the holder's own writes would wait for it until it ends; and whoever waits for
it stands before the holder in the queue, so that they would wait for each other. Therefore the holder passes the locks
that stand for its lease, and those who wait for nothing but these. What it takes is safe from them all the same: they
cannot be granted anything before the lease has ended, and what is done under a lease cannot be committed after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import bindparam, or_, select

from airflow_hive_acid.metastore.database.backend import Step, execute_batch
from airflow_hive_acid.metastore.database.codes import LockState
from airflow_hive_acid.metastore.locks.compatibility import Lock, LocksByObject, conflicts, first_conflict
from airflow_hive_acid.metastore.locks.rows import LOCK_COLUMNS, lock_of
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

_H = HIVE_LOCKS.c
_ON_DATABASE = select(*LOCK_COLUMNS, _H.HL_LOCK_STATE).where(
    _H.HL_DB == bindparam("db"), _H.HL_LOCK_EXT_ID < bindparam("lock_id", type_=sa.BigInteger)
)
_ON_TABLE = _ON_DATABASE.where(or_(_H.HL_TABLE.is_(None), _H.HL_TABLE == bindparam("tbl")))


@dataclass(frozen=True, slots=True)
class Mirror:
    """The locks in HIVE_LOCKS that stand for a lease (R6).

    :param own: all of them, as external and internal id.
    :param alone: those that stand for no other lease: s leases of one object share theirs, and whoever holds one of
        several may not write past the others.
    """

    own: frozenset[tuple[int, int]]
    alone: frozenset[tuple[int, int]]


def blocking_under_lease(
    connection: Connection, wanted: Sequence[Lock], below: int, mirror: Mirror
) -> tuple[Lock, Lock] | None:
    """The first lock with a smaller id that a request under a lease waits for, with that request; None: grant it.

    R3: to be called behind the lock on the queue.
    """
    steps = []
    whole = {lock.database for lock in wanted if lock.table is None}
    for database, table in sorted({(lock.database, lock.table or "") for lock in wanted}):
        if not table:
            steps.append(Step(_ON_DATABASE, {"db": database, "lock_id": below}))
        elif database not in whole:
            steps.append(Step(_ON_TABLE, {"db": database, "tbl": table, "lock_id": below}))
    queue: dict[Lock, bool] = {}
    for result in execute_batch(connection, steps):
        for *columns, state in result.rows:
            queue[lock_of(columns)] = state == LockState.WAITING.value
    return first_conflict(wanted, in_the_way(queue.items(), mirror))


def in_the_way(queue: Iterable[tuple[Lock, bool]], mirror: Mirror) -> list[Lock]:
    """Of the locks in a queue those that count for who holds a lease.

    Not its mirror, as far as it stands for no other lease; and no request that waits only for the mirror, or for
    requests that do so.

    :param queue: locks, and whether each waits.
    """
    each = sorted(queue, key=lambda entry: (entry[0].lock_id, entry[0].internal_id))
    requests: dict[int, list[Lock]] = {}
    for lock, waits in each:
        if waits:
            requests.setdefault(lock.lock_id, []).append(lock)
    passed: set[int] = set()
    by_object = LocksByObject(lock for lock, _ in each)
    for lock_id, request in requests.items():
        near = ((lock, other) for lock in request for other in by_object.near(lock))
        ahead = [other for lock, other in near if other.lock_id < lock_id and conflicts(lock, other)]
        if ahead and all(_id(other) in mirror.own or other.lock_id in passed for other in ahead):
            passed.add(lock_id)
    return [lock for lock, _ in each if _id(lock) not in mirror.alone and lock.lock_id not in passed]


def _id(lock: Lock) -> tuple[int, int]:
    return lock.lock_id, lock.internal_id
