"""Which lock waits for which: Hive's compatibility matrix, object overlap and FIFO order as pure functions.

An existing lock is one that is acquired, or waits with a smaller id: a waiting exclusive lock ahead blocks what comes
after it, so nobody starves. A txn never waits for itself; two locks outside txns do wait for each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.format.partitions import from_lock_name
from airflow_hive_acid.metastore.database.codes import LockType

if TYPE_CHECKING:
    from collections.abc import Iterable

_READ, _WRITE, _EXCL_WRITE, _EXCLUSIVE = LockType

#: Types of an existing lock that can make a request of the given type wait.
BLOCKING: dict[LockType, frozenset[LockType]] = {
    _READ: frozenset({_EXCLUSIVE}),
    _WRITE: frozenset({_EXCL_WRITE, _EXCLUSIVE}),
    _EXCL_WRITE: frozenset({_WRITE, _EXCL_WRITE, _EXCLUSIVE}),
    _EXCLUSIVE: frozenset(LockType),
}


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock held or wanted.

    :param lock_id: external id, in the order of requests; ``internal_id`` numbers the components of one request.
    :param txn_id: 0 outside a txn.
    :param partition: as HIVE_LOCKS spells it, which is escaped twice (``objects.lock_partition``).
    """

    lock_id: int
    internal_id: int
    txn_id: int
    database: str
    table: str | None
    partition: str | None
    type: LockType

    @property
    def object(self) -> tuple[str, str | None, str | None]:
        """Database, table and partition, which is named as in the catalog."""
        return self.database, self.table, None if self.partition is None else from_lock_name(self.partition)


def overlap(one: Lock, other: Lock) -> bool:
    """Same object, or one contains the other; a partition under whatever spelling."""
    return (
        one.database == other.database
        and (one.table is None or other.table is None or one.table == other.table)
        and (one.partition is None or other.partition is None or _same(one.partition, other.partition))
    )


def _same(one: str, other: str) -> bool:
    """Whether two names of HIVE_LOCKS are one partition; an earlier release of ours escaped them once."""
    return one == other or from_lock_name(one) == from_lock_name(other)


def conflicts(request: Lock, existing: Lock) -> bool:
    """Whether ``request`` must wait for ``existing``, which was there before."""
    if request.txn_id != 0 and request.txn_id == existing.txn_id:
        return False
    if request.lock_id == existing.lock_id or not overlap(request, existing):
        return False
    if existing.type not in BLOCKING[request.type]:
        return False
    if request.type is _READ and request.table is None and existing.table is not None:
        return False  # dropping a table does not block readers of its database
    # and a shared lock on a database does not block dropping a table in it
    return not (
        request.type is _EXCLUSIVE and existing.type is _READ and existing.table is None and request.table is not None
    )


class LocksByObject:
    """Locks, of which those that may overlap with another one are found by its object.

    Two statements over 10,000 partitions each are compared while every lock request of the metastore waits.

    :param locks: in the order in which they are found.
    """

    def __init__(self, locks: Iterable[Lock]) -> None:
        self._at: dict[tuple[str, str | None, str | None], list[tuple[int, Lock]]] = {}
        self._in: dict[tuple[str, str | None], list[tuple[int, Lock]]] = {}
        for numbered in enumerate(locks):
            database, table, partition = numbered[1].object
            self._at.setdefault((database, table, partition), []).append(numbered)
            if partition is not None:
                self._in.setdefault((database, table), []).append(numbered)
            if table is not None:
                self._in.setdefault((database, None), []).append(numbered)

    def near(self, lock: Lock) -> list[Lock]:
        """Those on its object, on what contains it, and on what it contains."""
        database, table, partition = lock.object
        objects = dict.fromkeys(((database, None, None), (database, table, None), (database, table, partition)))
        found = [numbered for place in objects for numbered in self._at.get(place, ())]
        found += self._in.get((database, table), ()) if partition is None else ()
        return [each for _, each in sorted(found, key=lambda numbered: numbered[0])]


def first_conflict(requests: Iterable[Lock], existing: Iterable[Lock]) -> tuple[Lock, Lock] | None:
    """The first existing lock, by id, that one of the requests must wait for, with that request."""
    in_order = sorted(existing, key=lambda lock: (lock.lock_id, lock.internal_id))
    wanted = LocksByObject(requests if in_order else ())
    for held in in_order:
        for request in wanted.near(held):
            if held.lock_id < request.lock_id and conflicts(request, held):
                return request, held
    return None
