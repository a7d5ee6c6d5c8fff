"""The trash: obsolete directories are moved there instead of being deleted, and can be given back for a while.

Off unless ``hive.acid.cleaner.trash.dir`` names a directory. R13: only what was committed goes there; directories of
aborted txns never do, and ``auto.purge`` or PURGE bypass it. Nothing is ever put back into the directory of a table
under its old name: what is restored goes to a directory of its own, or becomes a table of its own whose write ids begin
above those in the files (decision 16).
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.filesystem.absence import delete_or_prove
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.bucketing import BUCKETING_VERSION
from airflow_hive_acid.format.names import DirectoryKind, parse_directory
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.maintenance.warehouse.storage import writer_properties
from airflow_hive_acid.metastore.catalog import TableDefinition
from airflow_hive_acid.metastore.compaction import Trashed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.acid_state import StateDirectory
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Compaction

log = logging.getLogger(__name__)

TRASH_DIR = "hive.acid.cleaner.trash.dir"
RETENTION = "hive.acid.cleaner.trash.retention"
_BATCH_DEPTH = 2  # <root>/<db.table>/<batch>


def may_be_restored(directory: StateDirectory, write_ids: ValidWriteIdList) -> bool:
    """Whether every row in an obsolete directory was committed, so that it may go to the trash (R13).

    A delta of a streaming writer may hold rows of aborted txns beside committed ones; a compactor's result does not.
    """
    named = directory.directory
    if named.kind is DirectoryKind.BASE or directory.compacted:
        return True
    return write_ids.is_fully_valid(named.min_write_id, named.max_write_id)


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

    def move(self, request: Compaction, location: str, entries: Sequence[FileInfo]) -> list[str]:
        """Move directories and files of a table or partition to the trash; returns the URIs that are gone.

        :raises OSError: when one cannot be moved; it stays where it is, and so do the rest.
        """
        batch = f"{request.id}-{uuid.uuid4().hex[:8]}"
        name = f"{request.resource.database}.{request.resource.table}"
        home = paths.join(self.root, name, batch)
        items = []
        for entry in entries:
            paths.require_inside(location, entry.path)
            items.append(
                Trashed(
                    "", batch, request.id, request.resource, entry.path, self.root, paths.join(home, entry.relative),
                    request.highest_write_id,
                )
            )  # fmt: skip
        Places(self._client, self._filesystem).open_trash(request.resource.database, self.root)  # R17
        self._client.trash.add(items)
        moved = []
        for item in items:
            self._filesystem.make_directory(item.path.rpartition("/")[0])
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.rename(item.source, item.path)
                moved.append(item.source)
        return moved


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
        home = _home(items[0])
        try:
            delete_or_prove(
                filesystem, home, inside=items[0].root,
                proof=partial(places.require_trash, items[0].resource.database, items[0].root),
            )  # fmt: skip
        except (HiveAcidError, OSError) as error:
            log.warning("batch %s stays in the trash: %s: %s", batch, type(error).__name__, error)
            continue
        client.trash.forget(item.id for item in items)
        purged += len(items)
    return purged


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back.

    :param location: the directory it is in now.
    :param table: the table it became; None when it was only put into a directory.
    """

    location: str
    names: tuple[str, ...]
    table: str | None = None

    def __str__(self) -> str:
        table = f", the table {self.table}" if self.table else ""
        return f"{len(self.names)} directories and files are in {self.location}{table}: {', '.join(self.names)}"


def restore_into(client: MetastoreClient, filesystem: Filesystem, batch: str, location: str) -> Restored:
    """Move a batch out of the trash into a directory of its own.

    :param location: URI of a directory that does not exist yet, away from every table.
    :raises InvalidArgumentsError: when it exists, belongs to a table, or lies on another filesystem.
    """
    items = _require(client, filesystem, batch)
    owner = client.catalog.owner_of_location(location)
    if owner is not None:
        raise InvalidArgumentsError(
            f"{location} belongs to {owner}: files that are put into a table's directory could become rows of it. "
            "Name a directory that no table uses, or restore into a new table"
        )
    if paths.relative_to(items[0].root, location) is not None:
        raise InvalidArgumentsError(f"{location} lies in the trash; name a directory outside of {items[0].root}")
    if filesystem.exists(location):
        raise InvalidArgumentsError(f"{location} exists already; name a directory that does not")
    filesystem.make_directory(location)
    return Restored(location, _move_back(client, filesystem, items, location))


def restore_as_table(client: MetastoreClient, filesystem: Filesystem, batch: str, name: str) -> Restored:
    """Make a new table of a batch: the rows as they were when the compaction replaced them.

    The new table's write ids begin above those in the files, so that it sees all of them; of a partition it has the
    data columns.

    :param name: ``db.table``, which must not exist.
    :raises NoSuchObjectError: when the table the files came from is gone: nobody knows its columns.
    """
    items = _require(client, filesystem, batch)
    source = items[0].resource
    original = client.catalog.get_table(str(source.table_name))
    database, _, table = name.partition(".")
    made = client.catalog.create_table(
        TableDefinition(
            database, table, original.columns, properties={**_kept(original), "NO_AUTO_COMPACTION": "true"},
            bucket_columns=original.bucket_columns, bucket_count=original.bucket_count,
            stored_as=original.format or "orc", serde_properties=dict(original.serde_properties), empty=False,
        )
    )  # fmt: skip
    places = Places(client, filesystem)
    try:
        client.seed_write_id(made.qualified_name, max(_highest(item) for item in items))
        places.before_create(made.db, made.location)
        filesystem.make_directory(made.location)
        places.created(made.db, made.location)
        names = _move_back(client, filesystem, items, made.location)
    except (HiveAcidError, OSError):
        client.catalog.drop_table(made.qualified_name)
        raise
    return Restored(made.location, names, made.qualified_name)


def _kept(original: Table) -> dict[str, str]:
    """The properties by which files of a table are read: what kind it is, and that its columns had other names."""
    names = ("transactional", "transactional_properties", "last_modified_time")
    kept = {key: value for key, value in original.properties.items() if key.lower() in names}
    kept |= writer_properties(original)
    # Without a word the rows lie by the first of Hive's hashes; of a new table the second is noted.
    return {**kept, BUCKETING_VERSION: original.property(BUCKETING_VERSION) or "1"}


def _require(client: MetastoreClient, filesystem: Filesystem, batch: str) -> list[Trashed]:
    client.trash.touch(batch)  # nobody purges it under our hands
    items = [item for item in client.trash.batch(batch) if filesystem.exists(item.path)]
    if not items:
        raise NoSuchObjectError(f"there is no batch {batch} in the trash; 'hive-acid cleaning trash' lists what is")
    return items


def _move_back(
    client: MetastoreClient, filesystem: Filesystem, items: Sequence[Trashed], location: str
) -> tuple[str, ...]:
    """Move items below a directory; all of them or none."""
    done: list[tuple[str, str]] = []
    try:
        for item in items:
            target = paths.join(location, paths.relative_to(_home(item), item.path) or "")
            filesystem.make_directory(target.rpartition("/")[0])
            filesystem.rename(item.path, target)
            done.append((item.path, target))
    except (HiveAcidError, OSError):
        for path, target in reversed(done):
            filesystem.rename(target, path)
        raise
    client.trash.forget(item.id for item in items)
    return tuple(target.rpartition("/")[2] for _, target in done)


def _home(item: Trashed) -> str:
    """The directory of a batch; computed from the path in the trash, which must be as deep as we make it."""
    relative = (paths.relative_to(item.root, item.path) or "").split("/")
    if len(relative) <= _BATCH_DEPTH or relative[1] != item.batch:
        raise InvalidArgumentsError(f"{item.path} is no path of batch {item.batch} in the trash {item.root}")
    return paths.join(item.root, *relative[:_BATCH_DEPTH])


def _highest(item: Trashed) -> int:
    named = parse_directory(item.path.rpartition("/")[2])
    return max(item.highest_write_id or 0, named.max_write_id if named is not None else 0)
