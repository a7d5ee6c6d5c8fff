"""Tables by name: those of the catalog, and those that are made in the commit of what is run now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import NoSuchObjectError

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Catalog, Table, TableDefinition


@dataclass(frozen=True, slots=True)
class Creation:
    """A table that is made in the commit of the transaction which fills it.

    :param table: as it will be, for planning and writing; its id is 0.
    """

    definition: TableDefinition
    table: Table


@dataclass(frozen=True, slots=True)
class Replacement:
    """A table that gets another definition in the commit of the transaction which fills it.

    :param table: what the statement describes; the table keeps its id and its directory.
    """

    definition: TableDefinition
    table: Table


class Tables:
    """Looks tables up for what one engine runs.

    :ivar creations: tables that are made in the commit of what is run now, by name.
    :ivar replacements: tables that get another definition in it.
    """

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self.creations: dict[str, Creation] = {}
        self.replacements: dict[str, Replacement] = {}

    @property
    def catalog(self) -> Catalog:
        """The catalog they stand in."""
        return self._client.catalog

    def table(self, name: str) -> Table:
        """A table of the catalog.

        :raises NoSuchObjectError: naming the tables that are spelt like it.
        """
        creation = self.creations.get(name)
        return self._client.catalog.get_table(name) if creation is None else creation.table

    def of_database(self, database: str) -> list[str]:
        """Names of the tables of a database, in order; none when there is no such database."""
        return sorted(self._client.catalog.list_tables(database)) if self.has_database(database) else []

    def has_database(self, database: str) -> bool:
        """Whether the catalog has a database of that name."""
        try:
            self._client.catalog.get_database(database)
        except NoSuchObjectError:
            return False
        return True
