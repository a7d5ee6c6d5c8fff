"""HIVE_ACID_MIRROR: copies of tables in Iceberg and Delta, how far each has come, and what went wrong.

The target itself says what it holds; this says it without Spark, so that a mirror that has nothing to do costs a look
here. Numbers of states only grow: what a run that wakes up late has to say of an earlier one is left out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import String, and_, bindparam, delete, exists, func, insert, or_, select, update

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    NoSuchLockError,
    NoSuchObjectError,
    SchemaVersionError,
    TxnOpenError,
)
from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms
from airflow_hive_acid.metastore.database.codes import LockState, LockType, TxnState
from airflow_hive_acid.metastore.locks.manager import unlock
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, NEXT_WRITE_ID, TXN_TO_WRITE_ID, TXNS
from airflow_hive_acid.metastore.schema.mirrors import HIVE_ACID_MIRROR

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database

_M = HIVE_ACID_MIRROR.c
_KEY = _M.HMI_MIRROR == bindparam("mirror")
_COLUMNS = (
    _M.HMI_DATABASE, _M.HMI_TABLE, _M.HMI_TARGET, _M.HMI_USER, _M.HMI_CREATED, _M.HMI_SEQUENCE, _M.HMI_WRITEID,
    _M.HMI_STATE, _M.HMI_TODO, _M.HMI_REASON, _M.HMI_CHANGED, _M.HMI_LOOKED, _M.HMI_ERROR, _M.HMI_FAILED, _M.HMI_DIFFER,
    _M.HMI_VERDICT, _M.HMI_VERIFIED, _M.HMI_PRIMARY, _M.HMI_LOCK,
)  # fmt: skip
_FIND = select(*_COLUMNS).where(_KEY)
_LOCK = select(_M.HMI_MIRROR).where(_KEY).with_for_update()
_LIST = select(*_COLUMNS).order_by(_M.HMI_DATABASE, _M.HMI_TABLE, _M.HMI_MIRROR)
_DELETE = delete(HIVE_ACID_MIRROR).where(_KEY)
_NEWER = or_(_M.HMI_SEQUENCE <= bindparam("number"), _M.HMI_STATE.is_(None))
_CAME = (
    update(HIVE_ACID_MIRROR)
    .where(_KEY, _NEWER)
    .values(
        HMI_SEQUENCE=bindparam("number"),
        HMI_WRITEID=bindparam("write_id"),
        HMI_STATE=bindparam("state"),
        HMI_TODO=bindparam("todo"),
        HMI_REASON=bindparam("reason"),
        HMI_CHANGED=clock_ms(),
        HMI_LOOKED=clock_ms(),
        HMI_ERROR=None,
        HMI_FAILED=None,
    )
)
_SAW = (
    update(HIVE_ACID_MIRROR)
    .where(_KEY, _NEWER)
    .values(
        HMI_SEQUENCE=bindparam("number"),
        HMI_WRITEID=bindparam("write_id"),
        HMI_STATE=bindparam("state"),
        HMI_LOOKED=clock_ms(),
        HMI_ERROR=None,
        HMI_FAILED=None,
    )
)
_LOOKED = update(HIVE_ACID_MIRROR).where(_KEY).values(HMI_LOOKED=clock_ms(), HMI_ERROR=None, HMI_FAILED=None)
_FAILED = update(HIVE_ACID_MIRROR).where(_KEY).values(HMI_ERROR=bindparam("error"), HMI_FAILED=clock_ms())
_VERIFIED = (
    update(HIVE_ACID_MIRROR)
    .where(_KEY)
    .values(HMI_DIFFER=bindparam("differ"), HMI_VERDICT=bindparam("verdict"), HMI_VERIFIED=clock_ms())
)
_PRIMARIES = select(_M.HMI_DATABASE, _M.HMI_TABLE, _M.HMI_TARGET).where(
    _M.HMI_PRIMARY.is_not(None), _M.HMI_DATABASE.in_(bindparam("databases", expanding=True))
)
_DECLARE = (
    update(HIVE_ACID_MIRROR)
    .where(_KEY, _M.HMI_PRIMARY.is_(None))
    .values(HMI_PRIMARY=clock_ms(), HMI_LOCK=bindparam("lock_id"))
)
_END = update(HIVE_ACID_MIRROR).where(_KEY).values(HMI_PRIMARY=None, HMI_LOCK=None)
_END_FOR = _END.values(HMI_TODO=bindparam("todo"), HMI_REASON=bindparam("reason"), HMI_CHANGED=clock_ms())
# A lock's heartbeat is when it was last known to be wanted: this one is until somebody says otherwise.
_FOR_EVER = 7_258_118_400_000
_KEEP_LOCK = (
    update(HIVE_LOCKS)
    .where(HIVE_LOCKS.c.HL_LOCK_EXT_ID == bindparam("lock_id"), HIVE_LOCKS.c.HL_TXNID == 0)
    .values(HL_LAST_HEARTBEAT=_FOR_EVER)
)
_DB, _TBL = bindparam("db", type_=String), bindparam("tbl", type_=String)
#: Who asks for a write id waits for this row: nobody gets one before the commit.
_LOCK_NEXT = (
    select(NEXT_WRITE_ID.c.NWI_NEXT)
    .where(NEXT_WRITE_ID.c.NWI_DATABASE == _DB, NEXT_WRITE_ID.c.NWI_TABLE == _TBL)
    .with_for_update()
)
_T2W, _HL = TXN_TO_WRITE_ID.c, HIVE_LOCKS.c
_WAITS = exists().where(
    _HL.HL_TXNID == _T2W.T2W_TXNID,
    _HL.HL_DB == _DB,
    _HL.HL_TABLE == _TBL,
    _HL.HL_LOCK_STATE == LockState.WAITING.value,
    _HL.HL_LOCK_TYPE != LockType.SHARED_READ.value,
)
#: Write ids of which nothing becomes visible: of aborted txns, and of those that wait for the lock.
_KEPT_OUT = (
    select(func.count())
    .select_from(TXN_TO_WRITE_ID.join(TXNS, TXNS.c.TXN_ID == _T2W.T2W_TXNID))
    .where(
        _T2W.T2W_DATABASE == _DB,
        _T2W.T2W_TABLE == _TBL,
        _T2W.T2W_WRITEID > bindparam("seen"),
        or_(
            TXNS.c.TXN_STATE == TxnState.ABORTED.value,
            and_(TXNS.c.TXN_STATE == TxnState.OPEN.value, _WAITS),
        ),
    )
)
_LONGEST_TEXT = 4000


@dataclass(frozen=True, slots=True)
class Mirror:
    """What is known of a mirror. Times are milliseconds since 1970, by the database's clock.

    :param table: ``db.table``.
    :param target: as it was named.
    :param sequence: number of the newest state we know of, 0 for none; ``state`` its text.
    :param write_id: up to which write id of the table the target has everything.
    :param todo: what the last run that changed the target did, ``reason`` why, at ``changed``.
    :param looked: when a run last found out how far the target is.
    :param error: what the last run failed with, at ``failed``.
    :param differ: how many partitions differed at ``verified``; ``different`` the first of them.
    :param primary: when the target became the primary; None: the table is. ``lock_id`` keeps Hive's writers off it.
    """

    table: str
    target: str
    user: str
    created: int
    sequence: int = 0
    write_id: int | None = None
    state: str | None = None
    todo: str | None = None
    reason: str | None = None
    changed: int | None = None
    looked: int | None = None
    error: str | None = None
    failed: int | None = None
    differ: int | None = None
    different: tuple[dict[str, Any], ...] = ()
    verified: int | None = None
    primary: int | None = None
    lock_id: int | None = None


class Mirrors:
    """The mirrors of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, table: str, target: str, user: str) -> Mirror:
        """The record of a mirror, made if it is not there.

        :raises SchemaVersionError: when this metastore has no table for mirrors yet.
        """
        name, key = table_name(table), _digest(table, target)

        def operation(connection: Connection) -> Mirror:
            self._require_table(connection)
            if connection.execute(_LOCK, {"mirror": key}).first() is None:
                now = now_ms(connection)
                row: dict[str, Any] = {
                    "HMI_MIRROR": key,
                    "HMI_DATABASE": name.database,
                    "HMI_TABLE": name.name,
                    "HMI_TARGET": target,
                }
                row |= {"HMI_USER": user, "HMI_CREATED": now, "HMI_SEQUENCE": 0}
                connection.execute(insert(HIVE_ACID_MIRROR), row)
            return _mirror(connection.execute(_FIND, {"mirror": key}).one())

        return self._database.run(operation, retry_duplicates=True)

    def find(self, table: str, target: str) -> Mirror | None:
        """A mirror, None when it is not known."""

        def operation(connection: Connection) -> Mirror | None:
            if not self._database.features(connection).mirrors:
                return None
            row = connection.execute(_FIND, {"mirror": _digest(table, target)}).first()
            return None if row is None else _mirror(row)

        return self._database.read(operation)

    def list(self, table: str | None = None) -> list[Mirror]:
        """All mirrors, or those of one table."""
        wanted = None if table is None else str(table_name(table))

        def operation(connection: Connection) -> list[Mirror]:
            if not self._database.features(connection).mirrors:
                return []
            found = [_mirror(row) for row in connection.execute(_LIST)]
            return [m for m in found if wanted is None or m.table == wanted]

        return self._database.read(operation)

    def note_state(
        self, table: str, target: str, sequence: int, write_id: int, state: str, did: tuple[str, str] | None
    ) -> None:
        """A run knows the state of the target; one that is older than what is known is left out.

        :param did: what it did and why; None: nothing had to be done.
        """
        values = {"number": sequence, "write_id": write_id, "state": state}
        if did is not None:
            values |= {"todo": did[0], "reason": did[1][:_LONGEST_TEXT]}
        self._update(table, target, _SAW if did is None else _CAME, values)

    def note_looked(self, table: str, target: str) -> None:
        """A run had nothing to do, and has not looked at the target."""
        self._update(table, target, _LOOKED, {})

    def note_failure(self, table: str, target: str, error: str) -> None:
        """A run has failed."""
        self._update(table, target, _FAILED, {"error": error[:_LONGEST_TEXT]})

    def note_verified(self, table: str, target: str, differ: int, different: Sequence[dict[str, Any]]) -> None:
        """Both sides were compared.

        :param differ: how many partitions differ; ``different`` the first of them.
        """
        shown = [*different]
        while len(json.dumps(shown)) > _LONGEST_TEXT:
            shown = shown[: len(shown) // 2]
        self._update(table, target, _VERIFIED, {"differ": differ, "verdict": json.dumps(shown)})

    def primaries(self, tables: Iterable[str]) -> dict[str, str]:
        """Of these tables those that were handed over, with the target of each.

        :param tables: ``db.table``; ``db`` alone stands for all of a database.
        """
        wanted = {name.lower() for name in tables}
        databases = sorted({name.partition(".")[0] for name in wanted})

        def operation(connection: Connection) -> dict[str, str]:
            if not databases or not self._database.features(connection).mirrors:
                return {}
            rows = connection.execute(_PRIMARIES, {"databases": databases})
            found = {f"{row.HMI_DATABASE}.{row.HMI_TABLE}": str(row.HMI_TARGET) for row in rows}
            return {t: target for t, target in found.items() if t in wanted or t.partition(".")[0] in wanted}

        return self._database.read(operation)

    def declare_primary(self, table: str, target: str, lock_id: int, *, seen: int) -> None:
        """The target is the primary from now on; the lock stays until :meth:`end_primary`.

        :param lock_id: of a lock outside of any txn.
        :param seen: the write id up to which the target has everything.
        :raises NoSuchLockError: when it has gone; nothing was declared.
        :raises AlreadyExistsError: when somebody else was first.
        :raises TxnOpenError: when somebody who does not wait for the lock has got a later write id.
        """

        def operation(connection: Connection) -> None:
            if not connection.execute(_KEEP_LOCK, {"lock_id": lock_id}).rowcount:
                raise NoSuchLockError(f"the lock {lock_id} on {table} has gone; nothing was declared")
            newest = _written_behind(connection, table, seen)
            if newest is not None:
                raise TxnOpenError(
                    f"{table} was written meanwhile, up to write id {newest}, by somebody who does not wait for locks "
                    "of writers: an INSERT with hive.txn.xlock.write=true does not. Nothing was declared. Set it to "
                    "false there, and cut over again"
                )
            if not connection.execute(_DECLARE, {"mirror": _digest(table, target), "lock_id": lock_id}).rowcount:
                raise AlreadyExistsError(f"{table} was handed over to {target} by somebody else, or that was forgotten")

        self._database.run(operation)

    def is_written_behind(self, table: str, seen: int) -> bool:
        """Whether rows behind a write id are in a table, or may still come: not of those who wait for their locks."""
        return self._database.run(lambda connection: _written_behind(connection, table, seen)) is not None

    def end_primary(self, table: str, target: str, did: tuple[str, str] | None = None) -> None:
        """The table is the primary again, and its lock is released; fine when it is already.

        :param did: what for, and why; noted as what a run did.
        """
        key = {"mirror": _digest(table, target)}

        def operation(connection: Connection) -> None:
            lock_id = connection.execute(_FIND.with_for_update(), key).one().HMI_LOCK
            if did is None:
                connection.execute(_END, key)
            else:
                connection.execute(_END_FOR, {**key, "todo": did[0], "reason": did[1]})
            if lock_id is not None:
                unlock(connection, lock_id)

        self._database.run(operation)

    def forget(self, table: str, target: str) -> None:
        """Forget a mirror; its target stays as it is.

        :raises NoSuchObjectError: when it is not known.
        :raises InvalidArgumentsError: when the target is the primary: only the record says so.
        """

        def operation(connection: Connection) -> int:
            if not self._database.features(connection).mirrors:
                return 0
            row = connection.execute(_FIND, {"mirror": _digest(table, target)}).first()
            if row is not None and row.HMI_PRIMARY is not None:
                raise InvalidArgumentsError(
                    f"{table} is handed over to {target}: take it back first (hive-acid mirror take-back)"
                )
            return connection.execute(_DELETE, {"mirror": _digest(table, target)}).rowcount

        if not self._database.run(operation):
            raise NoSuchObjectError(f"no mirror of {table} in {target} is known; hive-acid mirror list shows them")

    def _update(self, table: str, target: str, statement: Any, values: dict[str, Any]) -> None:
        key = {"mirror": _digest(table, target)}
        self._database.run(lambda connection: connection.execute(statement, {**key, **values}))

    def _require_table(self, connection: Connection) -> None:
        if not self._database.features(connection).mirrors:
            raise SchemaVersionError("this metastore has no table for mirrors yet: run 'hive-acid schema upgrade'")


def _written_behind(connection: Connection, table: str, seen: int) -> int | None:
    """The newest write id of a table, if one behind ``seen`` is of somebody who is not kept out; no other is given
    before the commit."""
    key = table_name(table)
    of_table = {"db": key.database, "tbl": key.name}
    newest = int(connection.execute(_LOCK_NEXT, of_table).scalar() or 1) - 1
    later = newest - seen
    if later <= 0 or connection.execute(_KEPT_OUT, {**of_table, "seen": seen}).scalar_one() >= later:
        return None
    return newest


def _digest(table: str, target: str) -> str:
    return hashlib.sha256(json.dumps([str(table_name(table)), target]).encode()).hexdigest()


def _mirror(row: Any) -> Mirror:
    different = json.loads(row.HMI_VERDICT) if row.HMI_VERDICT else []
    return Mirror(
        f"{row.HMI_DATABASE}.{row.HMI_TABLE}", row.HMI_TARGET, row.HMI_USER, row.HMI_CREATED, row.HMI_SEQUENCE,
        row.HMI_WRITEID, row.HMI_STATE, row.HMI_TODO, row.HMI_REASON, row.HMI_CHANGED, row.HMI_LOOKED, row.HMI_ERROR,
        row.HMI_FAILED, row.HMI_DIFFER, tuple(different), row.HMI_VERIFIED, row.HMI_PRIMARY, row.HMI_LOCK,
    )  # fmt: skip
