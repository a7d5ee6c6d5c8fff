"""One look of the Cleaner: what all it cleans up after share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.filesystem.absence import list_or_prove
from airflow_hive_acid.filesystem.listing import enter
from airflow_hive_acid.maintenance.cleaner.owners import Owners
from airflow_hive_acid.maintenance.cleaner.subject import find_subject
from airflow_hive_acid.maintenance.cleaner.trash import Trash
from airflow_hive_acid.maintenance.thresholds import CleanerThresholds
from airflow_hive_acid.maintenance.warehouse.places import Places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import Compaction


@dataclass(frozen=True, slots=True)
class Look:
    """What one look of the Cleaner goes by, and what it asks once for all.

    :param trash: where obsolete directories go; None: they are deleted.
    :param places: whether the warehouses are there.
    :param owners: whose the directories of dropped partitions are by now.
    :param dry_run: change nothing, say what would be done.
    """

    client: MetastoreClient
    filesystem: Filesystem
    thresholds: CleanerThresholds
    trash: Trash | None
    places: Places
    owners: Owners
    dry_run: bool = False

    @classmethod
    def begin(cls, client: MetastoreClient, filesystem: Filesystem, *, dry_run: bool = False) -> Self:
        """A look by the settings of now.

        :raises InvalidArgumentsError: when the trash lies in a table's directory.
        """
        thresholds, trash = CleanerThresholds.of(client.settings), Trash.of(client, filesystem)
        places, owners = Places(client, filesystem), Owners(client, filesystem)
        return cls(client, filesystem, thresholds, trash, places, owners, dry_run)

    def ready(self) -> Iterator[Compaction]:
        """What waits to be cleaned up after, in parts: however many have to go on waiting, they keep no later one from
        its turn."""
        last, size = 0, self.thresholds.fetch_size
        while part := self.client.compactions.find_ready_to_clean(self.thresholds.retention_ms, size, last):
            self.owners.expect(part)
            yield from part
            if len(part) < size:
                return
            last = part[-1].id

    def list_for(self, request: Compaction, location: str) -> list[FileInfo]:
        """What lies in the directory of what a request names.

        :raises WarehouseMissingError: when it is not found, and its warehouse or its table is not there either (R17).
        """
        proof = partial(self._require_place, request, location)
        return list_or_prove(self.filesystem, [location], proof, descend=enter)[location] or []

    def _require_place(self, request: Compaction, location: str) -> None:
        table, resource = find_subject(self.client, request.resource).table, request.resource
        is_drop = request.soft_deleted_location is not None
        if table is not None and not is_drop:
            self.places.require_table(table)
        owner_of = partial(self.owners.owner_of, resource, table) if is_drop and resource.partition else None
        self.places.require_absent(resource.database, location, owner_of)
