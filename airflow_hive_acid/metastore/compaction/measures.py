"""HIVE_ACID_MEASURE: how large tables and partitions were, each time a maintenance service listed their directories.

The Initiator notes what it looked at and the Cleaner what it has left, in passing: nothing is listed for this. While
nothing changes, the row that is there is prolonged, so the table grows with writes, not with looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, bindparam, cast, delete, exists, func, insert, select, update

from airflow_hive_acid.metastore.compaction.model import Resource, lists_of
from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import DBS, TBLS
from airflow_hive_acid.metastore.schema.ours import HIVE_ACID_MEASURE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import ColumnElement, Connection

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.names.objects import TableName

KEPT = 500
"""Rows kept of one table or partition."""
KEPT_MS = 90 * 86_400_000
"""How long rows are kept that a later one has replaced."""

_M = HIVE_ACID_MEASURE.c
_NUMBERS = (_M.HME_FILES, _M.HME_DELTAS, _M.HME_DELETE_DELTAS, _M.HME_BASE_BYTES, _M.HME_DELTA_BYTES,
            _M.HME_DELETE_BYTES)  # fmt: skip
_COLUMNS = (_M.HME_DATABASE, _M.HME_TABLE, _M.HME_PART_NAME, _M.HME_SINCE, _M.HME_UNTIL, *_NUMBERS)
# Not by triples: MariaDB looks for those in a list of its own and misses what is no ASCII in a latin1 column. So rows
# of other resources come, too.
_NEWEST = select(_M.HME_ID, *_COLUMNS).where(
    _M.HME_NEWEST == "Y",
    _M.HME_DATABASE.in_(bindparam("databases", expanding=True)),
    _M.HME_TABLE.in_(bindparam("tables", expanding=True)),
    _M.HME_PART_NAME.in_(bindparam("parts", expanding=True)),
)
_PROLONG = update(HIVE_ACID_MEASURE).where(_M.HME_ID == bindparam("id")).values(HME_UNTIL=bindparam("now"))
_REPLACED = update(HIVE_ACID_MEASURE).where(_M.HME_ID == bindparam("id")).values(HME_NEWEST="N")
_INSERT = insert(HIVE_ACID_MEASURE)
_OF_TABLE = (
    select(*_COLUMNS)
    .where(_M.HME_DATABASE == bindparam("db"), _M.HME_TABLE == bindparam("tbl"))
    .where(_M.HME_UNTIL >= bindparam("since", type_=BigInteger))
    .order_by(_M.HME_SINCE, _M.HME_ID)
)
_FULLEST = (
    select(*_COLUMNS)
    .where(_M.HME_NEWEST == "Y", _M.HME_DATABASE == bindparam("db"), _M.HME_TABLE == bindparam("tbl"))
    .where(_M.HME_DELTAS >= bindparam("deltas", type_=BigInteger))
    .order_by(_M.HME_DELTAS.desc(), _M.HME_ID)
    .limit(bindparam("most", type_=BigInteger))
)
_ranked = select(
    _M.HME_ID,
    func.row_number()
    .over(partition_by=(_M.HME_DATABASE, _M.HME_TABLE, _M.HME_PART_NAME), order_by=_M.HME_ID.desc())
    .label("number"),
).subquery("ranked")
_TOO_MANY = select(_ranked.c.HME_ID).where(_ranked.c.number > bindparam("kept"))
_OLD = select(_M.HME_ID).where(_M.HME_NEWEST == "N", _M.HME_UNTIL < clock_ms() - bindparam("age", type_=BigInteger))
_OF_NOTHING = select(_M.HME_ID).where(
    _M.HME_UNTIL < clock_ms() - bindparam("age", type_=BigInteger),
    ~exists().where(DBS.c.DB_ID == TBLS.c.DB_ID, DBS.c.NAME == _M.HME_DATABASE, TBLS.c.TBL_NAME == _M.HME_TABLE),
)
_DELETE = delete(HIVE_ACID_MEASURE).where(_M.HME_ID.in_(bindparam("ids", expanding=True)))

NEWEST_BY_TABLE = (
    select(
        _M.HME_DATABASE.label("db"),
        _M.HME_TABLE.label("tbl"),
        *(cast(func.sum(column), BigInteger).label(column.name.removeprefix("HME_").lower()) for column in _NUMBERS),
        func.max(_M.HME_UNTIL).label("measured"),
        func.count().label("parts"),
    )
    .where(_M.HME_NEWEST == "Y")
    .group_by(_M.HME_DATABASE, _M.HME_TABLE)
)
"""The newest measurements, added up by table; for joins."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What a listing of a table or partition found; bytes are of data files.

    :param deltas: deltas and delete deltas, and ``delete_deltas`` those of them that hold delete events.
    :param delta_bytes: of all deltas, and ``delete_bytes`` of the delete deltas among them.
    """

    files: int
    deltas: int
    delete_deltas: int
    base_bytes: int
    delta_bytes: int
    delete_bytes: int

    @property
    def bytes(self) -> int:
        """All of it."""
        return self.base_bytes + self.delta_bytes

    @property
    def delete_ratio(self) -> float:
        """The part of delete deltas in all bytes; 0 for nothing."""
        return self.delete_bytes / self.bytes if self.bytes else 0.0

    def __add__(self, other: Measure) -> Measure:
        return Measure(
            self.files + other.files,
            self.deltas + other.deltas,
            self.delete_deltas + other.delete_deltas,
            self.base_bytes + other.base_bytes,
            self.delta_bytes + other.delta_bytes,
            self.delete_bytes + other.delete_bytes,
        )


NOTHING = Measure(0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement with its place; times are milliseconds by the database's clock.

    :param since: when it was so for the first time, ``until`` when it was so last.
    """

    resource: Resource
    since: int
    until: int
    measure: Measure


@dataclass(frozen=True, slots=True)
class Point:
    """How large a table was from some moment on."""

    time: int
    measure: Measure


class Measures:
    """The measurements of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def is_there(self) -> bool:
        """Whether this metastore has the table; an older schema of ours has not."""
        return self._database.read(lambda connection: self._database.features(connection).measures)

    def store(self, found: Iterable[tuple[Resource, Measure]]) -> None:
        """Note what listings have found just now."""
        wanted = list(found)
        if not wanted or not self.is_there:
            return

        def operation(connection: Connection) -> None:
            now = now_ms(connection)
            for part in chunks(wanted):
                _store(connection, now, part)

        self._database.run(operation)

    def of_table(self, database: str, table: str, since: int = 0) -> list[Measured]:
        """What was found of a table and its partitions, oldest first.

        :param since: without what had been replaced by then.
        """
        if not self.is_there:
            return []
        parameters = {"db": database, "tbl": table, "since": since}
        return self._database.read(
            lambda connection: [measured(row) for row in connection.execute(_OF_TABLE, parameters)]
        )

    def fullest(self, table: TableName, deltas: int, most: int) -> list[Measured]:
        """The partitions of a table, or the table, that were last measured at so many deltas, the most first.

        :param most: so many at most.
        """
        if not self.is_there:
            return []
        parameters = {"db": table.database, "tbl": table.name, "deltas": deltas, "most": most}
        return self._database.read(
            lambda connection: [measured(row) for row in connection.execute(_FULLEST, parameters)]
        )

    def purge(self, kept: int = KEPT, kept_ms: int = KEPT_MS) -> int:
        """Forget what is too much or too old; returns how many rows."""
        if not self.is_there:
            return 0

        def operation(connection: Connection) -> int:
            # Read first: MySQL does not delete from what a subquery reads.
            ids = set(connection.execute(_TOO_MANY, {"kept": kept}).scalars())
            for statement in (_OLD, _OF_NOTHING):
                ids |= set(connection.execute(statement, {"age": kept_ms}).scalars())
            for part in chunks(sorted(ids)):
                connection.execute(_DELETE, {"ids": list(part)})
            return len(ids)

        return self._database.run(operation)


def rename_measures(connection: Connection, old: TableName, new: TableName) -> None:
    """Let what was measured of a table follow its name; what is left of a former table of the new name goes."""
    connection.execute(delete(HIVE_ACID_MEASURE).where(*_of(new)))
    values = {"HME_DATABASE": new.database, "HME_TABLE": new.name}
    connection.execute(update(HIVE_ACID_MEASURE).where(*_of(old)).values(values))


def _of(table: TableName) -> tuple[ColumnElement[bool], ...]:
    return _M.HME_DATABASE == table.database, _M.HME_TABLE == table.name


def read_newest(connection: Connection, resources: Sequence[Resource]) -> dict[Resource, Measured]:
    """The newest measurements of these tables and partitions."""
    found: dict[Resource, Measured] = {}
    for part in chunks(resources):
        rows, wanted = connection.execute(_NEWEST, lists_of(part)), set(part)
        found |= {one.resource: one for one in (measured(rest) for _, *rest in rows) if one.resource in wanted}
    return found


def series(found: Iterable[Measured], start: int, most: int) -> list[Point]:
    """How a table grew: at each change the sum of what was known of it and its partitions then.

    :param found: measurements in the order of ``since``.
    :param start: earlier changes count as one, then.
    :param most: points at most: of more, some between the first and the last are left out, evenly.
    """
    known: dict[Resource, Measure] = {}
    total = NOTHING
    points: dict[int, Measure] = {}
    last = start
    for one in found:
        before = known.get(one.resource, NOTHING)
        known[one.resource] = one.measure
        total = _less(total + one.measure, before)
        points[max(one.since, start)] = total
        last = max(last, one.until)
    if points and last > max(points):
        points[last] = total
    ordered = [Point(time, measure) for time, measure in sorted(points.items())]
    if len(ordered) <= most:
        return ordered
    step = (len(ordered) - 1) / (most - 1)
    return [ordered[round(number * step)] for number in range(most)]


def measured(row: Sequence[Any]) -> Measured:
    """A row of database, table, partition, since, until and the numbers."""
    database, table, partition, since, until, *numbers = row
    return Measured(Resource(database, table, partition or None), since, until, Measure(*map(int, numbers)))


def _less(one: Measure, other: Measure) -> Measure:
    return Measure(
        one.files - other.files,
        one.deltas - other.deltas,
        one.delete_deltas - other.delete_deltas,
        one.base_bytes - other.base_bytes,
        one.delta_bytes - other.delta_bytes,
        one.delete_bytes - other.delete_bytes,
    )


def _key_of(resource: Resource) -> tuple[str, str, str]:
    return resource.database, resource.table, resource.partition or ""


def _store(connection: Connection, now: int, found: Sequence[tuple[Resource, Measure]]) -> None:
    latest = dict(found)  # of one place the last word
    newest = ((measure_id, measured(rest)) for measure_id, *rest in connection.execute(_NEWEST, lists_of(latest)))
    there = {_key_of(one.resource): (measure_id, one.measure) for measure_id, one in newest}
    same, replaced, new = [], [], []
    for resource, measure in latest.items():
        before = there.get(_key_of(resource))
        if before is not None and before[1] == measure:
            same.append({"id": before[0], "now": now})
            continue
        if before is not None:
            replaced.append({"id": before[0]})
        db, tbl, part = _key_of(resource)
        new.append({
            "HME_DATABASE": db, "HME_TABLE": tbl, "HME_PART_NAME": part, "HME_NEWEST": "Y", "HME_SINCE": now,
            "HME_UNTIL": now, "HME_FILES": measure.files, "HME_DELTAS": measure.deltas,
            "HME_DELETE_DELTAS": measure.delete_deltas, "HME_BASE_BYTES": measure.base_bytes,
            "HME_DELTA_BYTES": measure.delta_bytes, "HME_DELETE_BYTES": measure.delete_bytes,
        })  # fmt: skip
    for statement, rows in ((_PROLONG, same), (_REPLACED, replaced), (_INSERT, new)):
        if rows:
            connection.execute(statement, rows)
