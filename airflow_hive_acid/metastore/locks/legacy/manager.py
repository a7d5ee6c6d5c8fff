"""The lock manager of the Hive Concurrency Model, for ``DummyTxnManager``: S and X locks in a table of ours.

Hive's EmbeddedLockManager keeps them in the memory of one process; here all processes on a metastore share them. The
document's rules stand in ``concurrency_model``. Hive does not know of these locks and these know nothing of Hive's.

R3: a request locks the row of NEXT_LOCK_ID, which also numbers it, and looks at what is held in a later statement.
An owner that is gone sends no heartbeats: after ``hive.txn.timeout`` its locks are removed by the next request. R4:
not while the txn it worked in is open, because only the reaper, which ends the txn, undoes what its jobs did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, exists, insert, select, update

from airflow_hive_acid.errors import NoSuchLockError
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.codes import LockState, TxnState
from airflow_hive_acid.metastore.database.database import Repeat
from airflow_hive_acid.metastore.database.row_stream import stream_rows
from airflow_hive_acid.metastore.locks.interface import LockResponse, describe_object
from airflow_hive_acid.metastore.locks.legacy.concurrency_model import (
    MODES,
    ConcurrencyModelLocks,
    LegacyLockRow,
    Object,
    objects_of,
)
from airflow_hive_acid.metastore.names.objects import info
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_ACID_LEGACY_LOCK, NEXT_LOCK_ID, TXNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.locks.interface import LockRequest
    from airflow_hive_acid.settings import Settings

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
_TYPES = {mode: kind for kind, mode in MODES.items()}
_NO_LOCK = 0
"""Id of the answer while locks are switched off."""
_QUERY_LENGTH = 4000


def in_the_way(wanted: Mapping[Object, str], held: Iterable[tuple[int, Object, str]]) -> tuple[int, Object] | None:
    """The first held lock that denies a request: of two locks on one object both must be S."""
    return next(
        ((lock_id, place) for lock_id, place, mode in held if place in wanted and "x" in (mode, wanted[place])), None
    )


class LegacyLockManager(ConcurrencyModelLocks):
    """The embedded manager.

    :param database: a metastore with our tables of version 4.
    """

    def __init__(self, database: Database, settings: Settings) -> None:
        super().__init__(settings)
        self._database = database
        self._enabled = settings.flag("hive.support.concurrency")
        self._timeout_ms = settings.milliseconds("hive.txn.timeout")

    def lock(self, request: LockRequest) -> LockResponse:
        """Take all locks of a request, or none: ACQUIRED, or NOT_ACQUIRED with what is in the way; it never waits.

        With ``hive.support.concurrency`` off nothing is locked and everything granted.
        """
        wanted = objects_of(request.components)
        if not self._enabled:
            return LockResponse(_NO_LOCK, LockState.ACQUIRED)

        def operation(connection: Connection) -> LockResponse:
            lock_id = int(connection.execute(_NEXT_ID).scalar_one())
            # R3: what is held is read behind the lock, by statements of their own.
            connection.execute(_EXPIRE, {"age": self._timeout_ms})
            held = [
                (row[0], (row[1], row[2], row[3]), row[4])
                for database in sorted({place[0] for place in wanted})
                for row in connection.execute(_ON_DATABASE, {"db": database})
            ]
            blocking = in_the_way(wanted, held)
            if blocking is not None:
                place = describe_object(blocking[1][0], blocking[1][1] or None, blocking[1][2] or None)
                said = f"lock {blocking[0]} on {place} is in the way"
                return LockResponse(lock_id, LockState.NOT_ACQUIRED, str(blocking[0]), said)
            connection.execute(_ADVANCE_ID, {"next": lock_id + 1})
            owner = {"user": info(request.user), "host": info(request.host), "agent": info(request.agent_info) or None}
            owner |= {"query_id": request.query_id, "query": info(request.query, _QUERY_LENGTH) or None}
            connection.execute(
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

    def check_lock(self, lock_id: int) -> LockResponse:
        """Keep the locks of a request alive.

        :raises NoSuchLockError: when they were released, or removed for silence.
        """
        mine = {"lock_id": lock_id}
        if lock_id != _NO_LOCK and not self._database.run(
            lambda connection: connection.execute(_HEARTBEAT, mine).rowcount
        ):
            raise NoSuchLockError(
                f"no lock {lock_id}: it was released, or sent no heartbeat for {self._timeout_ms / 1000:g} s"
            )
        return LockResponse(lock_id, LockState.ACQUIRED)

    def bind(self, lock_id: int, txn_id: int) -> None:
        """Say in which txn the owner works: as long as that is open the locks do not expire (R4).

        :raises NoSuchLockError: when they were released, or removed for silence.
        """
        values = {"lock_id": lock_id, "txn_id": txn_id}
        if lock_id != _NO_LOCK and not self._database.run(
            lambda connection: connection.execute(_BIND, values).rowcount
        ):
            raise NoSuchLockError(
                f"no lock {lock_id} for txn {txn_id}: it sent no heartbeat for {self._timeout_ms / 1000:g} s"
            )

    def unlock(self, lock_id: int) -> None:
        """Release all locks of a request; again is no error."""
        self._database.run(lambda connection: connection.execute(_DELETE, {"lock_id": lock_id}).rowcount)

    def stream_locks(
        self,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        limit: int | None = None,
    ) -> Iterator[LegacyLockRow]:
        """Locks held, by object, in a transaction that lasts as long as the iteration."""
        statement = _ALL
        for column, value in ((_L.HLL_DATABASE, database), (_L.HLL_TABLE, table)):
            if value is not None:
                statement = statement.where(column == value.lower())
        if partition is not None:
            statement = statement.where(_L.HLL_PARTITION == partition)
        with self._database.reading() as connection:
            for row in stream_rows(connection, statement, limit):
                yield _row(row._mapping)

    def close(self) -> None:
        """Nothing: the connections are the metastore's."""


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
