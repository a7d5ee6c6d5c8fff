"""The trash: obsolete directories are moved there instead of being deleted; ``undo.py`` gives them back for a while.

Off unless ``hive.acid.cleaner.trash.dir`` names a directory. R13: only what was committed goes there; directories of
aborted txns never do, and ``auto.purge`` or PURGE bypass it.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import (
    CorruptTableError,
    HiveAcidError,
    InvalidArgumentsError,
    SnapshotTooOldError,
)
from airflow_hive_acid.filesystem.absence import delete_or_prove
from airflow_hive_acid.filesystem.listing import list_many
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.names import DirectoryKind
from airflow_hive_acid.maintenance.cleaner.pins import names_read
from airflow_hive_acid.maintenance.warehouse.directories import entries
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.metastore.compaction import Trashed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence, Set

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.acid_state import StateDirectory
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Compaction

log = logging.getLogger(__name__)

TRASH_DIR = "hive.acid.cleaner.trash.dir"
RETENTION = "hive.acid.cleaner.trash.retention"
_BATCH_DEPTH = 2  # <root>/<db.table.id>/<batch>


def may_be_restored(directory: StateDirectory, write_ids: ValidWriteIdList) -> bool:
    """Whether every row in an obsolete directory was committed, so that it may go to the trash (R13).

    A delta of a streaming writer may hold rows of aborted txns beside committed ones; a compactor's result does not.
    """
    named = directory.directory
    if named.kind is DirectoryKind.BASE or directory.compacted:
        return True
    return write_ids.is_fully_valid(named.min_write_id, named.max_write_id)


def lacking(
    listing: Sequence[FileInfo], going: Collection[str], others: Set[str], write_ids: ValidWriteIdList,
    txns: ValidTxnList,
) -> list[FileInfo]:  # fmt: skip
    """What a batch lacks of the rows as they were: directories and files that are obsolete and do not go to the trash.

    :param going: names of the directories, and paths of the files, that do.
    :param others: of those that do not: pins read them still, or they hold rows of aborted txns among others (R13).
    :return: those of the others that a reader of both reads. What a base among them has replaced is not missed.
    """
    if not others:
        return []
    both = {*going, *others}
    chosen = [info for info in listing if info.relative in both or info.relative.partition("/")[0] in both]
    try:
        missed = names_read(acid_state(entries(chosen), write_ids, txns)) & others
    except (SnapshotTooOldError, CorruptTableError):
        missed = frozenset(others)
    return [info for info in listing if info.relative in missed]


def is_purged(table: Table | None) -> bool:
    """Whether a table's files are to be deleted for good (``auto.purge``)."""
    return table is not None and (table.property("auto.purge") or "").lower() == "true"


class Trash:
    """The trash that is switched on.

    :param root: its URI.
    """

    def __init__(self, client: MetastoreClient, filesystem: Filesystem, root: str) -> None:
        self._client = client
        self._filesystem = filesystem
        self.root = root

    @classmethod
    def of(cls, client: MetastoreClient, filesystem: Filesystem) -> Trash | None:
        """The trash of the settings, None while it is off.

        :raises InvalidArgumentsError: when its directory is one of a table's: readers would take it for data.
        """
        root = client.settings.string(TRASH_DIR)
        if not root:
            return None
        paths.parse_location(root)
        owner = client.catalog.owner_of_location(root)
        if owner is not None:
            raise InvalidArgumentsError(
                f"{TRASH_DIR} is {root}, where files of {owner} lie; name a directory that no table uses"
            )
        return cls(client, filesystem, root.rstrip("/"))

    def takes_from(self, location: str) -> bool:
        """Whether a rename from there is one cheap operation: same filesystem, and none that copies objects."""
        here, there = paths.parse_location(location), paths.parse_location(self.root)
        return (here.scheme, here.authority) == (there.scheme, there.authority) and self._filesystem.can_fence(location)

    def move(
        self, request: Compaction, location: str, entries: Sequence[FileInfo], lacks: Sequence[FileInfo] = (), *,
        table: Table | None = None,
    ) -> list[str]:  # fmt: skip
        """Move directories and files of a table or partition to the trash; returns the URIs that are gone.

        What an earlier clean-up has noted as its own and could not move (a pin read it, or the move failed) joins that
        batch, if it is still there.

        :param lacks: what belongs to the same rows and stays where it is: noted with the batch, which is not whole.
        :param table: that they are of, if there is one: what was noted of a former one of that name is another's.
        :raises OSError: when one cannot be moved; it stays where it is, and so do the rest.
        """
        batch = f"{request.id}-{uuid.uuid4().hex[:8]}"
        name = f"{request.resource.database}.{request.resource.table}"
        name += "" if table is None else f".{table.id}"
        home = paths.join(self.root, name, batch)
        noted = self._noted(request, {entry.path for entry in (*entries, *lacks)}, table)
        items = []
        for entry in (*entries, *lacks):
            paths.require_inside(location, entry.path)
            items.append(
                noted.get(entry.path)
                or Trashed(
                    "", batch, request.id, request.resource, entry.path, self.root, paths.join(home, entry.relative),
                    request.highest_write_id,
                )
            )  # fmt: skip
        Places(self._client, self._filesystem).open_trash(request.resource.database, self.root)  # R17
        going = items[: len(entries)]
        for joined in sorted({item.batch for item in going if item.id}):
            self._client.trash.touch(joined)  # a batch is purged as a whole
        self._client.trash.add([item for item in items if not item.id])
        moved = []
        for item in going:
            self._filesystem.make_directory(item.path.rpartition("/")[0])
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.rename(item.source, item.path)
                moved.append(item.source)
        return moved

    def _noted(self, request: Compaction, sources: Set[str], table: Table | None) -> dict[str, Trashed]:
        """What earlier batches of the table lack, by where it lies."""
        known = self._client.trash.of_sources(request.resource, sources)
        found = [item for item in known if item.root == self.root and (table is None or is_of(item, table))]
        there = in_trash(self._filesystem, found)
        return {item.source: item for item in found if item.path not in there}


def in_trash(filesystem: Filesystem, items: Iterable[Trashed]) -> set[str]:
    """URIs of those that are in the trash. The others were only noted: their batches lack them."""
    places = sorted({item.path.rpartition("/")[0] for item in items})
    listed = list_many(filesystem, places, recursive=False)
    return {f"{place}/{entry.name}" for place, found in listed.items() for entry in found or ()}


def purge_trash(client: MetastoreClient, filesystem: Filesystem, age_ms: int | None = None) -> int:
    """Delete what has been in the trash for longer than its retention, with one delete for each batch.

    Works on what the record says, also while the trash is switched off.

    :param age_ms: by default ``hive.acid.cleaner.trash.retention``.
    :return: how many directories and files are gone.
    """
    age = client.settings.milliseconds(RETENTION) if age_ms is None else age_ms
    batches: dict[str, list[Trashed]] = {}
    for item in client.trash.older_than(age):
        batches.setdefault(item.batch, []).append(item)
    purged, places = 0, Places(client, filesystem)
    for batch, items in batches.items():
        home = home_of(items[0])
        try:
            there = in_trash(filesystem, items)
            delete_or_prove(
                filesystem, home, inside=items[0].root,
                proof=partial(places.require_trash, items[0].resource.database, items[0].root),
            )  # fmt: skip
        except (HiveAcidError, OSError) as error:
            log.warning("batch %s stays in the trash: %s: %s", batch, type(error).__name__, error)
            continue
        client.trash.forget(item.id for item in items)
        purged += sum(item.path in there for item in items)
    return purged


def is_of(item: Trashed, table: Table) -> bool:
    """Whether something was a table's: names pass from one to the other, the id in the path does not."""
    named = (paths.relative_to(item.root, item.path) or "").partition("/")[0].split(".")
    if len(named) == 3 and named[2].isdigit():
        return int(named[2]) == table.id
    return item.moved >= table.created * 1000


def home_of(item: Trashed) -> str:
    """The directory of a batch; computed from the path in the trash, which must be as deep as we make it."""
    relative = (paths.relative_to(item.root, item.path) or "").split("/")
    if len(relative) <= _BATCH_DEPTH or relative[1] != item.batch:
        raise InvalidArgumentsError(f"{item.path} is no path of batch {item.batch} in the trash {item.root}")
    return paths.join(item.root, *relative[:_BATCH_DEPTH])
