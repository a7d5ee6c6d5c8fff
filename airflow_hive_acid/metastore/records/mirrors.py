"""HIVE_ACID_MIRROR: copies of tables in Iceberg and Delta, how far each has come, and what went wrong.

The target itself says what it holds; this says it without Spark, so that a mirror that has nothing to do costs a look
here. Numbers of states only grow: what a run that wakes up late has to say of an earlier one is left out.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, insert, or_, select, update

from airflow_hive_acid.errors import NoSuchObjectError, SchemaVersionError
from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.schema.mirrors import HIVE_ACID_MIRROR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database

_M = HIVE_ACID_MIRROR.c
_KEY = _M.HMI_MIRROR == bindparam("mirror")
_COLUMNS = (
    _M.HMI_DATABASE, _M.HMI_TABLE, _M.HMI_TARGET, _M.HMI_USER, _M.HMI_CREATED, _M.HMI_SEQUENCE, _M.HMI_WRITEID,
    _M.HMI_STATE, _M.HMI_TODO, _M.HMI_REASON, _M.HMI_CHANGED, _M.HMI_LOOKED, _M.HMI_ERROR, _M.HMI_FAILED, _M.HMI_DIFFER,
    _M.HMI_VERDICT, _M.HMI_VERIFIED,
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

    def forget(self, table: str, target: str) -> None:
        """Forget a mirror; its target stays as it is.

        :raises NoSuchObjectError: when it is not known.
        """

        def operation(connection: Connection) -> int:
            if not self._database.features(connection).mirrors:
                return 0
            return connection.execute(_DELETE, {"mirror": _digest(table, target)}).rowcount

        if not self._database.run(operation):
            raise NoSuchObjectError(f"no mirror of {table} in {target} is known; hive-acid mirror list shows them")

    def _update(self, table: str, target: str, statement: Any, values: dict[str, Any]) -> None:
        key = {"mirror": _digest(table, target)}
        self._database.run(lambda connection: connection.execute(statement, {**key, **values}))

    def _require_table(self, connection: Connection) -> None:
        if not self._database.features(connection).mirrors:
            raise SchemaVersionError("this metastore has no table for mirrors yet: run 'hive-acid schema upgrade'")


def _digest(table: str, target: str) -> str:
    return hashlib.sha256(json.dumps([str(table_name(table)), target]).encode()).hexdigest()


def _mirror(row: Any) -> Mirror:
    different = json.loads(row.HMI_VERDICT) if row.HMI_VERDICT else []
    return Mirror(
        f"{row.HMI_DATABASE}.{row.HMI_TABLE}", row.HMI_TARGET, row.HMI_USER, row.HMI_CREATED, row.HMI_SEQUENCE,
        row.HMI_WRITEID, row.HMI_STATE, row.HMI_TODO, row.HMI_REASON, row.HMI_CHANGED, row.HMI_LOOKED, row.HMI_ERROR,
        row.HMI_FAILED, row.HMI_DIFFER, tuple(different), row.HMI_VERIFIED,
    )  # fmt: skip
