"""HIVE_ACID_CLEANING: what the Cleaner did, what it keeps, and for whom.

One row per state of a finished compaction, or of a place with aborted writes: while nothing changes but the clock, the
row that is there is prolonged, so that a Cleaner that looks every few seconds does not fill the table.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.compaction.rows import clean_text
from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms
from airflow_hive_acid.metastore.schema.cleaning import HIVE_ACID_CLEANING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.database.database import Database

PROLONGED_AFTER_MS = 60_000
"""A state that lasts is noted again so often."""
LIMIT = 100

_C = HIVE_ACID_CLEANING.c
_INSERT = insert(HIVE_ACID_CLEANING)
_UPDATE = update(HIVE_ACID_CLEANING).where(_C.HCL_ID == bindparam("id"))
_COLUMNS = (
    _C.HCL_ID, _C.HCL_REQUEST_ID, _C.HCL_DATABASE, _C.HCL_TABLE, _C.HCL_PARTITION, _C.HCL_KIND, _C.HCL_REASON,
    _C.HCL_DETAILS, _C.HCL_SINCE, _C.HCL_UNTIL,
)  # fmt: skip
_NEWEST = select(*_COLUMNS).order_by(_C.HCL_SINCE.desc(), _C.HCL_ID)
_ABOUT = (_C.HCL_DATABASE == bindparam("db"), _C.HCL_TABLE == bindparam("tbl"))
_LAST = {
    (partition, request): _NEWEST.where(
        *_ABOUT,
        _C.HCL_PARTITION == bindparam("part") if partition else _C.HCL_PARTITION.is_(None),
        _C.HCL_REQUEST_ID == bindparam("request") if request else _C.HCL_REQUEST_ID.is_(None),
    ).limit(1)
    for partition in (False, True)
    for request in (False, True)
}
"""By whether it was about a partition, and about a request."""
_PURGE = delete(HIVE_ACID_CLEANING).where(_C.HCL_UNTIL < clock_ms() - bindparam("age"))


@dataclass(frozen=True, slots=True)
class CleaningRecord:
    """What the Cleaner noted; times are milliseconds by the database's clock.

    :param request_id: the compaction; None for the writes of aborted txns.
    :param kind: what was done, as its log says it.
    :param details: ``numbers``, names ``removed``, ``trashed`` and ``kept``, and ``for``: the txns that files are kept
        for, each with ``txn``, ``user``, ``host`` and ``agent`` (of Airflow: DAG, run and task).
    :param since: when it became so.
    :param until: when it was last seen to be so, up to a minute earlier than the last look.
    """

    id: str
    request_id: int | None
    resource: Resource
    kind: str
    reason: str
    details: dict[str, Any] = field(default_factory=dict)
    since: int = 0
    until: int = 0


class CleaningRecords:
    """The record of the Cleaner's outcomes in one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(
        self, resource: Resource, request_id: int | None, kind: str, reason: str, details: Mapping[str, Any],
        *, lasts: bool,
    ) -> None:  # fmt: skip
        """Write an outcome down.

        :param details: as in :class:`CleaningRecord`; must be JSON.
        :param lasts: whether the same outcome is expected at the next look, and prolongs this one.
        """
        # ASCII: the column takes file names of any alphabet on every database.
        text = json.dumps(details, sort_keys=True)
        values = {"HCL_REASON": _ascii(clean_text(reason) or ""), "HCL_DETAILS": text}

        def operation(connection: Connection) -> None:
            now = now_ms(connection)
            last = self._last(connection, resource, request_id) if lasts else None
            if last is not None and (last.kind, last.details.get("for")) == (kind, details.get("for")):
                changed = (last.reason, json.dumps(last.details, sort_keys=True)) != (values["HCL_REASON"], text)
                if changed or now - last.until >= PROLONGED_AFTER_MS:
                    connection.execute(_UPDATE, {"id": last.id, **values, "HCL_UNTIL": now})
                return
            connection.execute(_INSERT, {
                "HCL_ID": uuid.uuid4().hex, "HCL_REQUEST_ID": request_id, "HCL_DATABASE": resource.database,
                "HCL_TABLE": resource.table, "HCL_PARTITION": resource.partition, "HCL_KIND": kind, **values,
                "HCL_SINCE": now, "HCL_UNTIL": now,
            })  # fmt: skip

        self._database.run(operation)

    def newest(
        self, database: str | None = None, table: str | None = None, partition: str | None = None, limit: int = LIMIT
    ) -> list[CleaningRecord]:
        """What was noted last, newest first."""
        given = ((_C.HCL_DATABASE, database), (_C.HCL_TABLE, table), (_C.HCL_PARTITION, partition))
        conditions = [column == value for column, value in given if value is not None]
        statement = _NEWEST.where(*conditions).limit(limit)
        return self._database.read(lambda connection: [_record(row) for row in connection.execute(statement)])

    def purge(self, age_ms: int) -> int:
        """Forget what has not been so for ``age_ms``."""
        return self._database.run(lambda connection: connection.execute(_PURGE, {"age": age_ms}).rowcount)

    @staticmethod
    def _last(connection: Connection, resource: Resource, request_id: int | None) -> CleaningRecord | None:
        given: dict[str, Any] = {"db": resource.database, "tbl": resource.table}
        if resource.partition is not None:
            given["part"] = resource.partition
        if request_id is not None:
            given["request"] = request_id
        row = connection.execute(_LAST["part" in given, "request" in given], given).first()
        return None if row is None else _record(row)


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode("ascii")


def _record(row: Any) -> CleaningRecord:
    key, request_id, database, table, partition, kind, reason, details, since, until = tuple(row)
    resource = Resource(database, table, partition)
    return CleaningRecord(key, request_id, resource, kind, reason, json.loads(details), since, until)
