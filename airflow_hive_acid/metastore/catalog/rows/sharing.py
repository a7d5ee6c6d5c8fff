"""Who shares files with many directories: one look at the catalog for all of them, however many they are.

The database leaves out what lies neither in nor around a directory that contains them all, and partitions of their own
table that lie where their names say. What is left, as a rule nothing, is compared here, by the same spellings by which
the database compares the directory of a single one (``places``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from sqlalchemy import String, and_, literal, not_, select

from airflow_hive_acid.errors import UnsafePathError
from airflow_hive_acid.format.paths import parse_location, spellings
from airflow_hive_acid.metastore.catalog.rows.places import shares_files
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import CATALOG, CTLGS, DBS, PARTITIONS, SDS, TBLS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection

    from airflow_hive_acid.metastore.catalog.values.model import Partition, Table
    from airflow_hive_acid.metastore.database.database import Database

K = TypeVar("K")

_AROUND = 8
"""The database is asked about at most so many directories, which contain those that are meant."""
_BATCH = 1000
_TOGETHER = 20_000
"""Directories that are held for one look."""
_MOST_STRANGERS = 10_000
"""Who are more is not held."""
_TABLES = (
    select(SDS.c.LOCATION, DBS.c.NAME.label("DB_NAME"), TBLS.c.TBL_ID, TBLS.c.TBL_NAME)
    .join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
)
_PARTITIONS = (
    select(
        SDS.c.LOCATION, DBS.c.NAME.label("DB_NAME"), TBLS.c.TBL_ID, TBLS.c.TBL_NAME, PARTITIONS.c.PART_ID,
        PARTITIONS.c.PART_NAME,
    )
    .join(PARTITIONS, PARTITIONS.c.SD_ID == SDS.c.SD_ID)
    .join(TBLS, TBLS.c.TBL_ID == PARTITIONS.c.TBL_ID)
    .join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
)  # fmt: skip
_HOMES = select(DBS.c.NAME, DBS.c.DB_LOCATION_URI, DBS.c.DB_MANAGED_LOCATION_URI)
_WAREHOUSE = select(CTLGS.c.LOCATION_URI).where(CTLGS.c.NAME == CATALOG)


class Directories(Generic[K]):
    """Directories, of which those that share files with another one are found without comparing each.

    :param locations: each with what it is known by here.
    """

    def __init__(self, locations: Iterable[tuple[K, str]]) -> None:
        self._at: dict[str, dict[K, None]] = {}
        self._above: dict[str, dict[K, None]] = {}
        for key, location in locations:
            for spelled in spellings(location):
                self._at.setdefault(spelled, {})[key] = None
                for above in _around(spelled):
                    self._above.setdefault(above, {})[key] = None

    def sharing(self, place: str, *, around: bool = True) -> list[K]:
        """Those that are this place, or in which it lies; with ``around`` also those that lie in it.

        :param place: as a metastore holds it.
        """
        spelled = re.sub("/{2,}", "/", f"{place}/")
        found = dict.fromkeys(key for above in (spelled, *_around(spelled)) for key in self._at.get(above, ()))
        if around:
            found |= self._above.get(spelled, {})
        return list(found)


class Neighbour(NamedTuple):
    """A table, or a partition of one, and where it lies."""

    location: str
    table: str
    table_id: int
    partition: str | None = None
    part_id: int | None = None

    def __str__(self) -> str:
        table = f"table {self.table}"
        return table if self.partition is None else f"partition {self.partition} of {self.table}"


class Strangers:
    """Who had files in a table's directory at one moment, besides the table.

    :param neighbours: them.
    """

    def __init__(self, neighbours: Iterable[Neighbour]) -> None:
        self._directories = Directories((each, each.location) for each in neighbours)

    def sharing(self, location: str) -> str | None:
        """One who shares files with a directory inside the table's, as text; None when there is nobody."""
        return next(map(str, self._directories.sharing(location)), None)


def read_sharers(
    connection: Connection,
    locations: Collection[str],
    *,
    tables: ColumnElement[bool] | None = None,
    partitions: ColumnElement[bool] | None = None,
    around: bool = True,
) -> dict[str, Neighbour]:
    """With whom directories share files, by directory; those that are shared with nobody are left out.

    :param tables: a condition on the tables that count, with their partitions.
    :param partitions: another one on the partitions that count.
    :param around: also with one in whose directory they lie.
    """
    both = [each for each in (tables, partitions) if each is not None]
    counted = and_(*both) if both else None
    found: dict[str, Neighbour] = {}
    for some in chunks(list(locations), _TOGETHER):
        directories = Directories((place, place) for place in some)
        for each in _read(connection, some, tables, counted):
            for place in directories.sharing(each.location, around=around):
                found.setdefault(place, each)
    return found


def read_owned(connection: Connection, locations: Collection[str]) -> set[str]:
    """Those of some directories in which, around which, or inside of which a table has files."""
    return set(read_sharers(connection, locations))


def read_sharers_of_partitions(
    connection: Connection, table: Table, partitions: Sequence[Partition], *, going: bool = False
) -> dict[int, str]:
    """With whom the directories of a table's partitions share files, as text by id; the table itself may lie around
    them (decision 10).

    :param going: they go together, so none of them counts.
    """
    ids = {part.id for part in partitions}
    at_home = [part for part in partitions if part.location == _home(table.location) + part.name]
    elsewhere = [part for part in partitions if part.location != _home(table.location) + part.name]
    found: dict[int, str] = {}
    # Two names of one table have as many segments, so of two that lie at home none lies in the other.
    others = not_at_home(table.id, table.location)
    looks: list[tuple[Sequence[Partition], ColumnElement[bool] | None]] = []
    looks += [(some, others) for some in chunks(at_home, _TOGETHER)]
    looks += [(some, None) for some in chunks(elsewhere, _TOGETHER)]
    for some, counted in looks:
        directories = Directories((part.id, part.location) for part in some)
        for each in _read(connection, [part.location for part in some], None, counted):
            own = each.table_id == table.id and each.part_id is None
            for part_id in directories.sharing(each.location, around=not own):
                if part_id != each.part_id and not (going and each.part_id in ids):
                    found.setdefault(part_id, str(each))
    return found


def read_strangers(connection: Connection, table_id: int, location: str) -> Strangers | None:
    """Who shares files with the directory of a table, besides itself and those of its partitions that lie where their
    names say; None when they are too many, or one of them lies nobody knows where."""
    others, elsewhere = TBLS.c.TBL_ID != table_id, not_at_home(table_id, location)
    found = list(_read(connection, [location], others, elsewhere, _MOST_STRANGERS))
    if len(found) >= _MOST_STRANGERS:
        return None
    try:
        return Strangers(found)
    except UnsafePathError:
        return None


def read_homes_in(connection: Connection, locations: Collection[str]) -> dict[str, str]:
    """Those of some directories in which, or at which, a database's directory or the warehouse lies, and whose."""
    homes = [
        (place, f"the tables of database {name}")
        for name, *places in connection.execute(_HOMES)
        for place in places
        if place
    ]
    homes += [(place, "the warehouse") for place in connection.execute(_WAREHOUSE).scalars() if place]
    directories = Directories((place, place) for place in locations)
    found: dict[str, str] = {}
    for home, whose in homes:
        for place in directories.sharing(home, around=False):
            found.setdefault(place, whose)
    return found


def not_at_home(table_id: int, location: str) -> ColumnElement[bool]:
    """A condition on partitions: they are another table's, or do not lie where their names say.

    :param location: the table's directory.
    """
    # Behind the slash no blank at the end of a name is lost, as MySQL compares.
    home = literal(_home(location), String).concat(PARTITIONS.c.PART_NAME).concat("/")
    return not_(and_(PARTITIONS.c.TBL_ID == table_id, SDS.c.LOCATION.concat("/") == home))


def _home(location: str) -> str:
    """What is in front of a partition's name where it lies by default."""
    return f"{location.rstrip('/')}/"


def _read(
    connection: Connection,
    locations: Collection[str],
    tables: ColumnElement[bool] | None,
    partitions: ColumnElement[bool] | None,
    limit: int | None = None,
) -> Iterator[Neighbour]:
    """Who may share files with some of the directories, tables first; of each kind at most so many.

    :param tables: a condition on the tables that count, not on their partitions.
    """
    if not locations:
        return
    near = shares_files(SDS.c.LOCATION, *_containing(locations), around=True, inside=True)
    for table in connection.execute(_TABLES.where(near, *([] if tables is None else [tables])).limit(limit)):
        yield Neighbour(table.LOCATION, f"{table.DB_NAME}.{table.TBL_NAME}", table.TBL_ID)
    statement = _PARTITIONS.where(near, *([] if partitions is None else [partitions])).limit(limit)
    for part in connection.execute(statement, execution_options={"yield_per": _BATCH}):
        yield Neighbour(part.LOCATION, f"{part.DB_NAME}.{part.TBL_NAME}", part.TBL_ID, part.PART_NAME, part.PART_ID)


def _containing(locations: Iterable[str]) -> list[str]:
    """A few directories in which all of them lie, or which they are."""
    places = {parse_location(location) for location in locations}
    while len(places) > _AROUND and (depth := max(len(place.segments) for place in places)):
        places = {replace(place, segments=place.segments[: depth - 1]) for place in places}
    return sorted(f"{place.scheme}://{place.authority}{place.path}" for place in places)


def _around(spelled: str) -> list[str]:
    """The directories in which one lies, spelled as it is."""
    return [spelled[: end + 1] for end, sign in enumerate(spelled[:-1]) if sign == "/"]


class Sharers:
    """What is asked about many directories, outside of any change.

    :param database: the metastore database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def shared_places(self, locations: Sequence[str], db: str, table: str | None = None) -> dict[str, str]:
        """Those of a table's directories (or of a database's tables) that others share, and with whom."""
        own = (DBS.c.NAME == db) if table is None else and_(DBS.c.NAME == db, TBLS.c.TBL_NAME == table)
        found = self._database.read(lambda connection: read_sharers(connection, locations, tables=~own))
        return {place: str(other) for place, other in found.items()}

    def shared_partition_places(self, table: Table, partitions: Sequence[Partition]) -> dict[str, str]:
        """Those of the directories of some of a table's partitions that anything else shares, and with whom."""
        found = self._database.read(
            lambda connection: read_sharers_of_partitions(connection, table, partitions, going=True)
        )
        return {part.location: found[part.id] for part in partitions if part.id in found}

    def owned_homes(self, table: Table, locations: Sequence[str]) -> set[str]:
        """Those of directories in a table's, which partitions of it have left, where anything lies by now.

        :param locations: places that are the homes of partitions, by their names, which do not lie there.
        """
        elsewhere = not_at_home(table.id, table.location)
        found = self._database.read(
            lambda connection: read_sharers(connection, locations, partitions=elsewhere, around=False)
        )
        return set(found)

    def taken_places(self, locations: Collection[str], *, homes: bool = False) -> set[str]:
        """Those of some directories at which, or in which, a table or a partition lies.

        :param homes: also those where a database's directory or the warehouse does.
        """

        def operation(connection: Connection) -> set[str]:
            taken = set(read_sharers(connection, locations, around=False))
            return taken.union(read_homes_in(connection, locations)) if homes else taken

        return self._database.read(operation)

    def strangers_in(self, table_id: int, location: str) -> Strangers | None:
        """See :func:`read_strangers`."""
        return self._database.read(lambda connection: read_strangers(connection, table_id, location))
