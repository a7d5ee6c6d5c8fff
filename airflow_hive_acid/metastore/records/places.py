"""Which directories this metastore has seen, by the ids of their marker files (R17).

A directory that is not mounted looks like an empty one. So each warehouse, and each managed table outside of them, has
a marker file with an id that is written down here; ``maintenance.places`` compares the two.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, insert, select

from airflow_hive_acid.metastore.catalog.rows.reader import read_database, read_warehouse
from airflow_hive_acid.metastore.catalog.values.model import check_location
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.schema.hive_catalog import SDS, TBLS
from airflow_hive_acid.metastore.schema.places import HIVE_ACID_PLACE

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.database.database import Database

_P = HIVE_ACID_PLACE.c
_FIND = select(_P.HPL_ID).where(_P.HPL_PLACE == bindparam("place"))
_LOCK = _FIND.with_for_update()
_DELETE = delete(HIVE_ACID_PLACE).where(_P.HPL_PLACE == bindparam("place"))


class PlaceRecords:
    """The directories that one metastore knows again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._warehouse: str | None = None

    def root_of(self, database: str, location: str) -> str:
        """The warehouse or database directory that a location lies in; itself when it lies in none."""
        place = check_location(location)

        def operation(connection: Connection) -> str:
            found = read_database(connection, database.lower())
            own = [] if found is None else [found.managed_location, found.location]
            roots = [root for root in (read_warehouse(connection), *own) if root]
            spelled = [check_location(root) for root in roots]
            return next((root for root in spelled if f"{place}/".startswith(f"{root}/")), place)

        return self._database.read(operation)

    def find(self, root: str) -> str | None:
        """The id that a directory was seen with; None when it was not."""
        return self._database.read(lambda connection: self._find(connection, root))

    def of_table(self, table: Table) -> str | None:
        """The id that a table's own directory was seen with; None for one that lies in a warehouse.

        An external table's has one when its owner had it marked. Asks for nothing when the table lies where its name
        says, as nearly all do.
        """
        place = table.location.rstrip("/")
        if place.endswith(f"/{table.db}.db/{table.name}"):
            return None
        if table.db == "default" and place == f"{self._default_home()}/{table.name}":
            return None
        return self.find(check_location(place))

    def _default_home(self) -> str | None:
        if self._warehouse is None:  # said once, it stays
            found = self._database.read(read_warehouse)
            self._warehouse = None if found is None else found.rstrip("/")
        return self._warehouse

    def is_kept(self) -> bool:
        """Whether this metastore has our table of places."""
        return self._database.read(lambda connection: self._database.features(connection).places)

    def note(self, root: str, place_id: str, *, instead_of: str | None = None) -> str:
        """Write down with which id a directory was seen, unless somebody else has done so by now.

        :param instead_of: an id it was seen with before, that counts no more.
        :return: the id in force.
        """
        key = {"place": _key(root)}

        def operation(connection: Connection) -> str:
            held = connection.execute(_LOCK, key).scalar()
            if held is not None and held != instead_of:
                return str(held)
            connection.execute(_DELETE, key)
            row = {"HPL_PLACE": key["place"], "HPL_URI": root, "HPL_ID": place_id, "HPL_SEEN": now_ms(connection)}
            connection.execute(insert(HIVE_ACID_PLACE), row)
            return place_id

        return self._database.run(operation, retry_duplicates=True)

    def forget(self, root: str) -> None:
        """The directory was dropped."""

        def operation(connection: Connection) -> None:
            if self._database.features(connection).places:
                connection.execute(_DELETE, {"place": _key(root)})

        self._database.run(operation)

    def tables_in(self, root: str, limit: int) -> list[str]:
        """Directories of some tables at or below a directory, those of the youngest first."""
        inside = SDS.c.LOCATION.startswith(f"{root}/", autoescape=True) | (SDS.c.LOCATION == root)
        statement = (
            select(SDS.c.LOCATION).join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID)
            .where(inside).order_by(TBLS.c.TBL_ID.desc()).limit(limit)
        )  # fmt: skip
        return self._database.read(lambda connection: [str(place) for place in connection.execute(statement).scalars()])

    def _find(self, connection: Connection, root: str) -> str | None:
        if not self._database.features(connection).places:
            return None
        found = connection.execute(_FIND, {"place": _key(root)}).scalar()
        return None if found is None else str(found)


def _key(root: str) -> str:
    return hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()
