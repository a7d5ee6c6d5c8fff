"""Whose the directories of dropped partitions are by now: one look at the catalog serves many of them (``Looks``).

What the lock on a partition keeps as it is, is asked anew each time: whether its table has a partition of that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.warehouse.looks import Looks
from airflow_hive_acid.metastore.catalog import share_files

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Strangers, Table
    from airflow_hive_acid.metastore.compaction import Resource


class Owners:
    """Says who has files in the directories of what was dropped; made for one pass of the Cleaner."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._strangers: Looks[tuple[int, str], Strangers | None] = Looks(self._strangers_in)

    def owner_of(self, dropped: Resource, table: Table | None, location: str) -> str | None:
        """Who shares files with the directory of what was dropped, as text; None: nobody.

        Whoever is about to delete a partition's asks under the lock on the partition.

        :param table: the table of that name, if there is one now; it may lie around a partition.
        """
        catalog, partition = self._client.catalog, dropped.partition
        # Only there lies no other partition of the table whose directory is where its own name says.
        if table is not None and partition and location.rstrip("/") == f"{table.location.rstrip('/')}/{partition}":
            there = catalog.find_partitions(table.qualified_name, [partition]).get(partition)
            if there is not None and share_files(there.location, location):
                return f"partition {partition} of {table.qualified_name}"
            strangers = self._strangers.at((table.id, table.location))
            if strangers is not None:
                return strangers.sharing(location)
        owner = catalog.owner_of_location(location, around=partition is None)
        if owner is None and partition is not None:
            # A Hive that renames a table leaves the place in the request, which may lie in another one's by now.
            owner = catalog.shared_places([location], dropped.database, dropped.table).get(location)
        return owner

    def _strangers_in(self, place: tuple[int, str]) -> Strangers | None:
        return self._client.catalog.strangers_in(*place)
