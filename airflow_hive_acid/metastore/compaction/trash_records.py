"""HIVE_ACID_TRASH: what the Cleaner moved instead of deleting it, and where it came from (R13).

Rows are written before anything is moved: whatever lies in the trash is known. A row whose file is not there (the move
did not happen) goes when its time has come, like any other.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.cleaning import HIVE_ACID_TRASH

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection, Select

    from airflow_hive_acid.metastore.database.database import Database

_T = HIVE_ACID_TRASH.c
_COLUMNS = (
    _T.HTR_ID, _T.HTR_BATCH, _T.HTR_REQUEST_ID, _T.HTR_DATABASE, _T.HTR_TABLE, _T.HTR_PARTITION, _T.HTR_SOURCE,
    _T.HTR_ROOT, _T.HTR_PATH, _T.HTR_WRITEID, _T.HTR_MOVED,
)  # fmt: skip
_ALL = select(*_COLUMNS).order_by(_T.HTR_MOVED, _T.HTR_BATCH, _T.HTR_PATH)
_BATCH = _ALL.where(_T.HTR_BATCH == bindparam("batch"))
_OLD = _ALL.where(_T.HTR_MOVED < clock_ms() - bindparam("age"))
_INSERT = insert(HIVE_ACID_TRASH).values(HTR_MOVED=clock_ms())
_TOUCH = update(HIVE_ACID_TRASH).where(_T.HTR_BATCH == bindparam("of")).values(HTR_MOVED=clock_ms())


@dataclass(frozen=True, slots=True)
class Trashed:
    """A directory or file in the trash.

    :param batch: what was moved by one clean-up of one compaction; undone together.
    :param source: URI it had.
    :param root: URI of the trash.
    :param path: URI it has now.
    :param highest_write_id: of the compaction that replaced it.
    :param moved: when, ms by the database's clock.
    """

    id: str
    batch: str
    request_id: int | None
    resource: Resource
    source: str
    root: str
    path: str
    highest_write_id: int | None
    moved: int = 0


class TrashRecords:
    """What lies in the trash of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, items: Sequence[Trashed]) -> None:
        """Write down what is about to be moved."""
        rows = [
            {
                "HTR_ID": item.id or uuid.uuid4().hex, "HTR_BATCH": item.batch, "HTR_REQUEST_ID": item.request_id,
                "HTR_DATABASE": item.resource.database, "HTR_TABLE": item.resource.table,
                "HTR_PARTITION": item.resource.partition, "HTR_SOURCE": item.source, "HTR_ROOT": item.root,
                "HTR_PATH": item.path, "HTR_WRITEID": item.highest_write_id,
            }
            for item in items
        ]  # fmt: skip
        if rows:
            self._database.run(lambda connection: connection.execute(_INSERT, rows))

    def show(self, database: str | None = None, table: str | None = None) -> list[Trashed]:
        """What is there, oldest first."""
        given = ((_T.HTR_DATABASE, database), (_T.HTR_TABLE, table))
        return self._find(_ALL.where(*(column == value for column, value in given if value is not None)))

    def batch(self, batch: str) -> list[Trashed]:
        """What one clean-up has moved."""
        return self._find(_BATCH, batch=batch)

    def of_sources(self, resource: Resource, sources: Iterable[str]) -> list[Trashed]:
        """What is noted of a table or partition that lay, or lies, at one of these URIs."""
        here = _ALL.where(_T.HTR_DATABASE == resource.database, _T.HTR_TABLE == resource.table)
        part = _T.HTR_PARTITION
        here = here.where(part.is_(None) if resource.partition is None else part == resource.partition)
        wanted = set(sources)
        found = [item for some in chunks(sorted(wanted)) for item in self._find(here.where(_T.HTR_SOURCE.in_(some)))]
        return [item for item in found if item.source in wanted]  # MySQL takes upper for lower case

    def older_than(self, age_ms: int) -> list[Trashed]:
        """What was moved more than ``age_ms`` ago."""
        return self._find(_OLD, age=age_ms)

    def touch(self, batch: str) -> None:
        """Begin the retention anew: somebody is about to put the batch back."""
        self._database.run(lambda connection: connection.execute(_TOUCH, {"of": batch}))

    def forget(self, ids: Iterable[str]) -> None:
        """These are gone."""
        gone = list(ids)
        self._database.run(lambda connection: self.forget_in(connection, gone))

    def forget_in(self, connection: Connection, ids: Iterable[str]) -> None:
        """The same inside a transaction."""
        for part in chunks(list(ids)):
            connection.execute(delete(HIVE_ACID_TRASH).where(_T.HTR_ID.in_(part)))

    def _find(self, statement: Select[Any], **parameters: object) -> list[Trashed]:
        return self._database.read(
            lambda connection: [_trashed(row) for row in connection.execute(statement, parameters)]
        )


def _trashed(row: Any) -> Trashed:
    key, batch, request_id, database, table, partition, source, root, path, highest, moved = tuple(row)
    resource = Resource(database, table, partition)
    return Trashed(key, batch, request_id, resource, source, root, path, highest, moved)
