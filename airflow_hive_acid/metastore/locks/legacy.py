"""The lock manager of the Hive Concurrency Model, for ``DummyTxnManager``: S and X locks in a table of ours.

Hive's EmbeddedLockManager keeps them in the memory of one process; here all processes on a metastore share them. The
document's rules: whoever locks something locks all its parents in S (but not the database); objects are taken in
lexicographic order; nobody waits in a queue: a request that meets a lock is denied as a whole, keeps nothing, and is
tried again after ``hive.lock.sleep.between.retries``, ``hive.lock.numretries`` times. Hive does not know of these locks
and these know nothing of Hive's.

R3: a request locks the row of NEXT_LOCK_ID, which also numbers it, and looks at what is held in a later statement.
An owner that is gone sends no heartbeats: after ``hive.txn.timeout`` its locks are removed by the next request. R4:
not while the txn it worked in is open, because only the reaper, which ends the txn, undoes what its jobs did.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, insert, select, update

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    LockTimeoutError,
    MetastoreUnavailableError,
    NoSuchLockError,
)
from airflow_hive_acid.metastore.clock import clock_ms
from airflow_hive_acid.metastore.codes import LockState, LockType, TxnState
from airflow_hive_acid.metastore.database import Repeat
from airflow_hive_acid.metastore.locks.interface import LockResponse, LockRow, describe_object
from airflow_hive_acid.metastore.objects import info
from airflow_hive_acid.metastore.schema_transactions import HIVE_ACID_LEGACY_LOCK, NEXT_LOCK_ID, TXNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database import Database
    from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest
    from airflow_hive_acid.settings import Settings

Object = tuple[str, str, str]
"""Database, table and partition, or the known prefix of one; an empty text where there is none."""
_L = HIVE_ACID_LEGACY_LOCK.c
_NEXT_ID = select(NEXT_LOCK_ID.c.NL_NEXT).with_for_update()
_ADVANCE_ID = update(NEXT_LOCK_ID).values(NL_NEXT=bindparam("next"))
_MINE = _L.HLL_LOCK_ID == bindparam("lock_id")
_ITS_TXN_IS_OPEN = exists().where(TXNS.c.TXN_ID == _L.HLL_TXN_ID, TXNS.c.TXN_STATE == TxnState.OPEN.value)
_EXPIRE = delete(HIVE_ACID_LEGACY_LOCK).where(_L.HLL_HEARTBEAT < clock_ms() - bindparam("age"), ~_ITS_TXN_IS_OPEN)
_ON_DATABASE = select(_L.HLL_LOCK_ID, _L.HLL_DATABASE, _L.HLL_TABLE, _L.HLL_PARTITION, _L.HLL_MODE).where(
    _L.HLL_DATABASE == bindparam("db")
)
_INSERT = insert(HIVE_ACID_LEGACY_LOCK).values(
    HLL_LOCK_ID=bindparam("lock_id"), HLL_NUMBER=bindparam("number"), HLL_DATABASE=bindparam("db"),
    HLL_TABLE=bindparam("tbl"), HLL_PARTITION=bindparam("part"), HLL_MODE=bindparam("mode"), HLL_ACQUIRED=clock_ms(),
    HLL_HEARTBEAT=clock_ms(), HLL_USER=bindparam("user"), HLL_HOST=bindparam("host"), HLL_AGENT_INFO=bindparam("agent"),
    HLL_TXN_ID=bindparam("txn_id"), HLL_QUERY_ID=bindparam("query_id"), HLL_QUERY=bindparam("query"),
)  # fmt: skip
_HEARTBEAT = update(HIVE_ACID_LEGACY_LOCK).where(_MINE).values(HLL_HEARTBEAT=clock_ms())
_BIND = update(HIVE_ACID_LEGACY_LOCK).where(_MINE).values(HLL_TXN_ID=bindparam("txn_id"), HLL_HEARTBEAT=clock_ms())
_DELETE = delete(HIVE_ACID_LEGACY_LOCK).where(_MINE)
_ALL = select(HIVE_ACID_LEGACY_LOCK).order_by(
    _L.HLL_DATABASE, _L.HLL_TABLE, _L.HLL_PARTITION, _L.HLL_LOCK_ID, _L.HLL_NUMBER
)
_MODES = {LockType.SHARED_READ: "s", LockType.EXCLUSIVE: "x"}
_TYPES = {mode: kind for kind, mode in _MODES.items()}
_NO_LOCK = 0
"""Id of the answer while locks are switched off."""
_QUERY_LENGTH = 4000
_UNLOCK_PAUSE = 1.0
"""Seconds between two tries to release."""


@dataclass(frozen=True, slots=True)
class LegacyLockRow(LockRow):
    """A lock held, and for what.

    :param query_id: of the statement that took it, with its text ``query``.
    """

    query_id: str | None
    query: str | None


def objects_of(components: Iterable[LockComponent]) -> dict[Object, str]:
    """What a request locks, parents included, in lexicographic order: mode ``s`` or ``x`` by object.

    :raises InvalidArgumentsError: for a mode that the document does not know.
    """
    wanted: dict[Object, str] = {}
    for component in components:
        mode = _MODES.get(component.type)
        if mode is None:
            raise InvalidArgumentsError(
                f"the lock on {component.describe()} is {component.type.name}; the legacy lock manager knows "
                "SHARED_READ (S) and EXCLUSIVE (X)"
            )
        table, partition = component.table or "", component.partition or ""
        parts = partition.split("/") if partition else []
        for length in range(len(parts)):
            wanted.setdefault((component.database, table, "/".join(parts[:length])), "s")
        place = (component.database, table, partition)
        wanted[place] = "x" if "x" in (mode, wanted.get(place)) else "s"
    return dict(sorted(wanted.items()))


def in_the_way(wanted: Mapping[Object, str], held: Iterable[tuple[int, Object, str]]) -> tuple[int, Object] | None:
    """The first held lock that denies a request: of two locks on one object both must be S."""
    return next(
        ((lock_id, place) for lock_id, place, mode in held if place in wanted and "x" in (mode, wanted[place])), None
    )


class LegacyLockManager:
    """A :class:`~airflow_hive_acid.metastore.locks.interface.LockManager`.

    :param database: a metastore with our tables of version 4.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._enabled = settings.flag("hive.support.concurrency")
        self._timeout_ms = settings.milliseconds("hive.txn.timeout")
        self._retries = settings.integer("hive.lock.numretries")
        self._pause = settings.seconds("hive.lock.sleep.between.retries")
        self._unlock_retries = settings.integer("hive.unlock.numretries")

    def lock(self, request: LockRequest) -> LockResponse:
        """Take all locks of a request, or none: ACQUIRED, or NOT_ACQUIRED with what is in the way; it never waits.

        With ``hive.support.concurrency`` off nothing is locked and everything granted.
        """
        wanted = objects_of(request.components)
        if not self._enabled:
            return LockResponse(_NO_LOCK, LockState.ACQUIRED)

        def operation(conn: Connection) -> LockResponse:
            lock_id = int(conn.execute(_NEXT_ID).scalar_one())
            # R3: what is held is read behind the lock, by statements of their own.
            conn.execute(_EXPIRE, {"age": self._timeout_ms})
            held = [
                (row[0], (row[1], row[2], row[3]), row[4])
                for database in sorted({place[0] for place in wanted})
                for row in conn.execute(_ON_DATABASE, {"db": database})
            ]
            blocking = in_the_way(wanted, held)
            if blocking is not None:
                place = describe_object(blocking[1][0], blocking[1][1] or None, blocking[1][2] or None)
                said = f"lock {blocking[0]} on {place} is in the way"
                return LockResponse(lock_id, LockState.NOT_ACQUIRED, str(blocking[0]), said)
            conn.execute(_ADVANCE_ID, {"next": lock_id + 1})
            owner = {"user": info(request.user), "host": info(request.host), "agent": info(request.agent_info) or None}
            owner |= {"query_id": request.query_id, "query": info(request.query, _QUERY_LENGTH) or None}
            conn.execute(
                _INSERT,
                [
                    {
                        "lock_id": lock_id,
                        "number": i,
                        "db": db,
                        "tbl": tbl,
                        "part": part,
                        "mode": mode,
                        "txn_id": request.txn_id,
                        **owner,
                    }
                    for i, ((db, tbl, part), mode) in enumerate(wanted.items(), 1)
                ],
            )
            return LockResponse(lock_id, LockState.ACQUIRED)

        return self._database.run(operation, Repeat.BEFORE_COMMIT)

    def acquire(self, request: LockRequest, sleep: Callable[[float], None] = time.sleep) -> LockResponse:
        """Take the locks of a request; denied, try all of them again after the pause.

        :raises LockTimeoutError: after ``hive.lock.numretries`` more tries; nothing is held.
        """
        response = self.lock(request)
        for _ in range(self._retries):
            if response.state is LockState.ACQUIRED:
                break
            sleep(self._pause)
            response = self.lock(request)
        if response.state is not LockState.ACQUIRED:
            places = ", ".join(component.describe() for component in request.components)
            raise LockTimeoutError(
                f"{places} could not be locked in {self._retries + 1} tries (hive.lock.numretries), "
                f"{self._pause:g} s apart (hive.lock.sleep.between.retries): {response.message}"
            )
        return response

    def check_lock(self, lock_id: int) -> LockResponse:
        """Keep the locks of a request alive.

        :raises NoSuchLockError: when they were released, or removed for silence.
        """
        mine = {"lock_id": lock_id}
        if lock_id != _NO_LOCK and not self._database.run(lambda conn: conn.execute(_HEARTBEAT, mine).rowcount):
            raise NoSuchLockError(
                f"no lock {lock_id}: it was released, or sent no heartbeat for {self._timeout_ms / 1000:g} s"
            )
        return LockResponse(lock_id, LockState.ACQUIRED)

    def bind(self, lock_id: int, txn_id: int) -> None:
        """Say in which txn the owner works: as long as that is open the locks do not expire (R4).

        :raises NoSuchLockError: when they were released, or removed for silence.
        """
        values = {"lock_id": lock_id, "txn_id": txn_id}
        if lock_id != _NO_LOCK and not self._database.run(lambda conn: conn.execute(_BIND, values).rowcount):
            raise NoSuchLockError(
                f"no lock {lock_id} for txn {txn_id}: it sent no heartbeat for {self._timeout_ms / 1000:g} s"
            )

    def unlock(self, lock_id: int) -> None:
        """Release all locks of a request; again is no error."""
        self._database.run(lambda conn: conn.execute(_DELETE, {"lock_id": lock_id}).rowcount)

    def release(self, lock_id: int, sleep: Callable[[float], None] = time.sleep) -> None:
        """Release, and try again while the metastore cannot be reached.

        :raises MetastoreUnavailableError: after ``hive.unlock.numretries`` more tries; the locks then expire.
        """
        for _ in range(self._unlock_retries):
            try:
                return self.unlock(lock_id)
            except MetastoreUnavailableError:
                sleep(_UNLOCK_PAUSE)
        self.unlock(lock_id)

    def show_locks(
        self,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        txn_id: int | None = None,
    ) -> list[LegacyLockRow]:
        """Locks held, by object."""
        statement = _ALL
        for column, value in ((_L.HLL_DATABASE, database), (_L.HLL_TABLE, table)):
            if value is not None:
                statement = statement.where(column == value.lower())
        if partition is not None:
            statement = statement.where(_L.HLL_PARTITION == partition)
        if txn_id:
            statement = statement.where(_L.HLL_TXN_ID == txn_id)
        return self._database.read(lambda conn: [_row(row._mapping) for row in conn.execute(statement)])


def _row(row: Mapping[Any, Any]) -> LegacyLockRow:
    values = {name.removeprefix("HLL_"): value for name, value in row.items()}
    return LegacyLockRow(
        lock_id=values["LOCK_ID"], internal_id=values["NUMBER"], database=values["DATABASE"],
        table=values["TABLE"] or None, partition=values["PARTITION"] or None, state=LockState.ACQUIRED,
        type=_TYPES[values["MODE"]], txn_id=values["TXN_ID"], last_heartbeat=values["HEARTBEAT"],
        acquired_at=values["ACQUIRED"], user=values["USER"], host=values["HOST"], agent_info=values["AGENT_INFO"],
        blocked_by=None,
        query_id=values["QUERY_ID"], query=values["QUERY"],
    )  # fmt: skip
