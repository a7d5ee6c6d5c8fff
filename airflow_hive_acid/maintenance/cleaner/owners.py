"""Whose the directories of dropped partitions are by now: one look at the catalog serves many of them.

No index finds a directory, so who asks whose it is reads the locations of the whole catalog, which takes seconds among
a million partitions. So the directories of the next drops are listed first, and then one look is for all of them. It
serves a directory for as long as nothing lies there but what was listed before the look: whoever was given the
directory since, by us or by a Hive, loses no file of his.

What the lock on a partition keeps as it is, is asked anew each time: whether its table has a partition of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem import list_many
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.metastore.catalog import share_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Strangers, Table
    from airflow_hive_acid.metastore.compaction import Compaction, Resource

_AHEAD = 500
"""Directories that are listed for one look."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at the catalog, and what had been listed before it.

    :param strangers: None when they are too many to be held.
    :param listed: by directory.
    """

    strangers: Strangers | None
    listed: Mapping[str, frozenset[FileInfo]]

    def serves(self, location: str, listing: Sequence[FileInfo] | None) -> bool:
        return location in self.listed and (listing is None or self.listed[location].issuperset(listing))


class Owners:
    """Says who has files in the directories of what was dropped; made for one pass of the Cleaner."""

    def __init__(self, client: MetastoreClient, filesystem: Filesystem) -> None:
        self._client = client
        self._filesystem = filesystem
        self._ahead: dict[str, list[str]] = {}
        self._looks: dict[tuple[int, str], _Look] = {}

    def expect(self, requests: Iterable[Compaction]) -> None:
        """Say about which drops it will be asked next, in which order."""
        self._ahead = {}
        for request in requests:
            place = request.soft_deleted_location
            if place is not None and request.resource.partition is not None:
                self._ahead.setdefault(str(request.resource.table_name), []).append(place)

    def owner_of(
        self, dropped: Resource, table: Table | None, location: str, listing: Sequence[FileInfo] | None = None
    ) -> str | None:  # fmt: skip
        """Who shares files with the directory of what was dropped, as text; None: nobody.

        Whoever is about to delete a partition's asks under the lock on the partition.

        :param table: the table of that name, if there is one now; it may lie around a partition.
        :param listing: what lies there and is to be deleted, listed before this is asked.
        """
        catalog, partition = self._client.catalog, dropped.partition
        # Only there lies no other partition of the table whose directory is where its own name says.
        if table is not None and partition and location.rstrip("/") == f"{table.location.rstrip('/')}/{partition}":
            there = catalog.find_partitions(table.qualified_name, [partition]).get(partition)
            if there is not None and share_files(there.location, location):
                return f"partition {partition} of {table.qualified_name}"
            strangers = self._strangers(table, location, listing)
            if strangers is not None:
                return strangers.sharing(location)
        owner = catalog.owner_of_location(location, around=partition is None)
        if owner is None and partition is not None:
            # A Hive that renames a table leaves the place in the request, which may lie in another one's by now.
            owner = catalog.shared_places([location], dropped.database, dropped.table).get(location)
        return owner

    def _strangers(self, table: Table, location: str, listing: Sequence[FileInfo] | None) -> Strangers | None:
        key = table.id, table.location
        found = self._looks.get(key)
        if found is None or not found.serves(location, listing):
            found = self._looks[key] = self._look(table, location)
        return found.strangers

    def _look(self, table: Table, location: str) -> _Look:
        ahead = self._ahead.get(table.qualified_name, [])
        first = ahead.index(location) if location in ahead else len(ahead)
        places = dict.fromkeys([location, *ahead[first : first + _AHEAD]])
        # In this order: what is listed was there before whoever is not in the catalog yet.
        listed = list_many(self._filesystem, places, descend=enter)
        strangers = self._client.catalog.strangers_in(table.id, table.location)
        return _Look(strangers, {place: frozenset(found or ()) for place, found in listed.items()})
