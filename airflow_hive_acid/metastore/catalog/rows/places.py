"""Whose directory is it: tables, partitions and databases that share files with a directory, however it is spelled.

``file:/x``, ``file:///x`` and ``/x`` are one place, as are a trailing slash, ``//``, ``s3`` and ``s3a``, and a host
with and without its default port. What real Hives have written is compared as it stands, so the database makes the
usual form of each location: it looks at every row of SDS once for tables and once for partitions; one row comes back.
No index of Hive's helps, and only CREATE, RENAME, DROP and LOCATION ask. Who asks about many asks once (``sharing``).
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import BindParameter, Integer, String, and_, bindparam, func, literal, or_, select

from airflow_hive_acid.errors import InvalidArgumentsError, UnsafePathError
from airflow_hive_acid.format.paths import spellings, spellings_around
from airflow_hive_acid.metastore.catalog.rows.reader import read_database, read_warehouse
from airflow_hive_acid.metastore.catalog.values.model import check_location
from airflow_hive_acid.metastore.names.objects import database_name
from airflow_hive_acid.metastore.schema.hive_catalog import CTLGS, DBS, PARTITIONS, SDS, TBLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, Select

    from airflow_hive_acid.metastore.database.database import Database

SHARED = "hive.acid.shared.locations"
_CATALOG = "hive"
_BESIDES = "besides"


def lock_places(connection: Connection) -> None:
    """Keep others from giving a directory away until this transaction ends (R3)."""
    connection.execute(select(CTLGS.c.CTLG_ID).where(CTLGS.c.NAME == _CATALOG).with_for_update())


def require_own_place(connection: Connection, what: str, location: str, *, table_id: int | None = None) -> None:
    """Refuse a table's directory that is another's, in another's, or around another's.

    What follows from it is safe under :func:`lock_places` only.

    :param what: the table, for messages.
    :param table_id: its id, when it is there already: its own partitions may lie in it.
    :raises InvalidArgumentsError: naming the other, and the remedy.
    """
    other = _read_other(connection, location, table_id)
    if other is not None:
        raise InvalidArgumentsError(
            f"{what} cannot lie at {location}: it would share files with {other}; choose a directory of its own, or "
            f"set {SHARED} if both are meant to have these files"
        )


def require_no_table(connection: Connection, what: str, location: str) -> None:
    """Refuse a database's directory that is a table's or in one. Databases may share and nest.

    :raises InvalidArgumentsError: naming the table, and the remedy.
    """
    other = _read_user(connection, shares_files(SDS.c.LOCATION, location, around=True, inside=False))
    if other is not None:
        raise InvalidArgumentsError(
            f"{what} cannot lie at {location}: its tables would share files with {other}; choose another directory, or "
            f"set {SHARED} if both are meant to have these files"
        )


def read_owner_of(connection: Connection, location: str, *, around: bool) -> str | None:
    """A table that owns a directory or something inside it; with ``around`` also one whose directory contains it."""
    if not location:
        return None
    owns = shares_files(SDS.c.LOCATION, location, around=around, inside=True)
    for statement in (_TABLES, _PARTITIONS):
        row = connection.execute(statement.where(owns).limit(1)).first()
        if row is not None:
            return f"{row.DB_NAME}.{row.TBL_NAME}"
    return None


def _read_user(connection: Connection, condition: ColumnElement[bool]) -> str | None:
    """A table or partition whose directory fulfils a condition, as text."""
    table = connection.execute(_TABLES.where(condition).limit(1)).first()
    if table is not None:
        return f"table {table.DB_NAME}.{table.TBL_NAME}"
    part = connection.execute(_PARTITIONS.where(condition).limit(1)).first()
    return None if part is None else f"partition {part.PART_NAME} of {part.DB_NAME}.{part.TBL_NAME}"


def _database_in(connection: Connection, location: str) -> str | None:
    """A database whose directory is a directory or lies in it, or the warehouse."""
    spelled = _spelled((location,), around=False, inside=True)
    of_database, of_warehouse = _questions_of_homes(_Shape.of(spelled))
    return _read_home(connection, of_database, of_warehouse, spelled.parameters())


def _read_other(connection: Connection, location: str, besides: int | None) -> str | None:
    """Who shares files with a directory that a table is to have; every CREATE asks, so its questions are kept."""
    spelled = _spelled((location,), around=True, inside=True)
    of_table, of_partition = _questions_of_tables(_Shape.of(spelled))
    given = {**spelled.parameters(), _BESIDES: -1 if besides is None else besides}
    row = connection.execute(of_table, given).first()
    if row is not None:
        return f"table {row.DB_NAME}.{row.TBL_NAME}"
    row = connection.execute(of_partition, given).first()
    if row is not None:
        return f"partition {row.PART_NAME} of {row.DB_NAME}.{row.TBL_NAME}"
    return _database_in(connection, location)


def _read_home(
    connection: Connection, of_database: Select[Any], of_warehouse: Select[Any], given: dict[str, Any]
) -> str | None:
    database = connection.execute(of_database, given).scalar()
    if database is not None:
        return f"the tables of database {database}"
    return None if connection.execute(of_warehouse, given).scalar() is None else "the warehouse"


@functools.lru_cache(maxsize=256)
def _questions_of_tables(shape: _Shape) -> tuple[Select[Any], Select[Any]]:
    """Which table, and which partition of one, but for one table."""
    counts = and_(_shares(SDS.c.LOCATION, shape), TBLS.c.TBL_ID != bindparam(_BESIDES, type_=Integer))
    return _TABLES.where(counts).limit(1), _PARTITIONS.where(counts).limit(1)


@functools.lru_cache(maxsize=256)
def _questions_of_homes(shape: _Shape) -> tuple[Select[Any], Select[Any]]:
    """Which database, and whether the warehouse."""
    homes = (DBS.c.DB_LOCATION_URI, DBS.c.DB_MANAGED_LOCATION_URI)
    of_database = select(DBS.c.NAME).where(or_(*(_shares(home, shape) for home in homes))).limit(1)
    of_warehouse = select(CTLGS.c.NAME).where(CTLGS.c.NAME == _CATALOG, _shares(CTLGS.c.LOCATION_URI, shape))
    return of_database, of_warehouse


_TABLES = (
    select(DBS.c.NAME.label("DB_NAME"), TBLS.c.TBL_NAME)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
)
_PARTITIONS = (
    select(DBS.c.NAME.label("DB_NAME"), TBLS.c.TBL_NAME, PARTITIONS.c.PART_NAME)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    .join(PARTITIONS, PARTITIONS.c.TBL_ID == TBLS.c.TBL_ID)
    .join(SDS, SDS.c.SD_ID == PARTITIONS.c.SD_ID)
)


class _Spelled(NamedTuple):
    """Texts that mean some directories.

    :param written: how a column may hold one of them, or one around them.
    :param below: how a column may begin that holds one of them, or one inside.
    :param usual: the same as ``written`` with every slash once, and
    :param usual_below: the same as ``below``.
    """

    written: list[str]
    below: list[str]
    usual: list[str]
    usual_below: list[str]

    def parameters(self) -> dict[str, Any]:
        """Values of the parameters of :func:`_shares`."""
        given: dict[str, Any] = {"written": self.written, "usual": self.usual}
        for name, texts in (("below", self.below), ("usual_below", self.usual_below)):
            for number, text in enumerate(texts):
                given[f"{name}_{number}"] = text
                given[f"{name}_{number}_length"] = len(text)
        return given


class _Shape(NamedTuple):
    """What of the texts a statement depends on."""

    below: int
    usual_below: int

    @classmethod
    def of(cls, spelled: _Spelled) -> _Shape:
        return cls(len(spelled.below), len(spelled.usual_below))


def _spelled(locations: Sequence[str], *, around: bool, inside: bool) -> _Spelled:
    here = [place for location in locations for place in spellings(location)]
    wanted = {*here, *(place for location in locations if around for place in spellings_around(location))}
    written = sorted({text for place in wanted for text in _as_written(place)})
    below = sorted({text for place in here for text in _as_written(place)})
    ended = [*written, *(text.removesuffix("/") for text in written if len(text) > 1)]
    return _Spelled(ended, below if inside else [], sorted(wanted), here if inside else [])


def shares_files(column: Any, *locations: str, around: bool, inside: bool) -> ColumnElement[bool]:
    """Whether a column holds one of some directories, however it is spelled, or one around it, or one inside of it."""
    spelled = _spelled(locations, around=around, inside=inside)
    return _condition(
        column,
        spelled.written,
        [(text, len(text)) for text in spelled.below],
        spelled.usual,
        [(text, len(text)) for text in spelled.usual_below],
    )


def _shares(column: Any, shape: _Shape) -> ColumnElement[bool]:
    """:func:`shares_files` with parameters in place of the texts."""
    return _condition(
        column,
        bindparam("written", expanding=True, type_=String),
        _prefixes("below", shape.below),
        bindparam("usual", expanding=True, type_=String),
        _prefixes("usual_below", shape.usual_below),
    )


def _prefixes(name: str, number: int) -> list[tuple[BindParameter[str], BindParameter[int]]]:
    names = [f"{name}_{n}" for n in range(number)]
    return [(bindparam(each, type_=String), bindparam(f"{each}_length", type_=Integer)) for each in names]


def _condition(
    column: Any, written: Any, below: Sequence[tuple[Any, Any]], usual: Any, usual_below: Sequence[tuple[Any, Any]]
) -> ColumnElement[bool]:
    # Not LIKE: it takes upper for lower case on SQLite, and signs of names for patterns.
    slashed = column + literal("/")
    for _ in range(3):  # eight slashes in a row become one
        slashed = func.replace(slashed, "//", "/")
    of_usual = or_(slashed.in_(usual), *(func.substr(slashed, 1, length) == text for text, length in usual_below))
    return or_(
        column.in_(written),
        *(func.substr(column, 1, length) == text for text, length in below),
        and_(column.like("%/%//%"), of_usual),  # rare, and dear
    )


def _as_written(usual: str) -> list[str]:
    """How a spelling that has its slashes once may stand in a metastore."""
    scheme, colon, path = usual.partition(":")
    if usual.startswith("/") or not colon:
        return [usual]
    if scheme != "file":
        return [f"{scheme}:/{path}"]
    return [usual, f"file://{path}", *([f"file:/{path}"] if path.startswith("/localhost/") else [])]


def share_files(one: str, other: str) -> bool:
    """Whether one directory is another, however spelled, or lies in it, or around it; False for what is no location."""
    try:
        first, second = spellings(_usual(one))[0], spellings(_usual(other))[0]
    except UnsafePathError:
        return False
    return first.startswith(second) or second.startswith(first)


def _usual(location: str) -> str:
    """What a Hive calls a path of no filesystem may begin with two slashes."""
    return re.sub("/{2,}", "/", location) if location.startswith("/") else location


class Places:
    """What is asked about directories, outside of any change.

    :param database: the metastore database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def roots(self, name: str) -> list[str]:
        """The directories below which files of a database lie by default: its own two, and the warehouse."""
        lowered = database_name(name)

        def operation(connection: Connection) -> list[str]:
            found = read_database(connection, lowered)
            own = [] if found is None else [found.managed_location, found.location]
            warehouse = read_warehouse(connection)
            return list(dict.fromkeys([*own, *([warehouse] if warehouse else [])]))

        return self._database.read(operation)

    def owner_of_location(self, location: str, *, around: bool = True) -> str | None:
        """A table that lies at or in a directory, or has a partition there; None when there is none.

        :param around: also one whose own directory is around it.
        """
        place = check_location(location)
        return self._database.read(lambda connection: read_owner_of(connection, place, around=around))

    def home_in(self, location: str) -> str | None:
        """A database whose directory is a directory or lies in it, or the warehouse; None when there is none."""
        place = check_location(location)
        return self._database.read(lambda connection: _database_in(connection, place))
