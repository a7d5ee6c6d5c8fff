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

from airflow_hive_acid.errors import (
    ActionRefusedError,
    CorruptTableError,
    HiveAcidError,
    InvalidArgumentsError,
    NoSuchObjectError,
    SnapshotTooOldError,
)
from airflow_hive_acid.filesystem.absence import delete_or_prove
from airflow_hive_acid.filesystem.listing import list_many
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import acid_state
from airflow_hive_acid.format.bucketing import BUCKETING_VERSION
from airflow_hive_acid.format.names import DirectoryKind, parse_directory
from airflow_hive_acid.maintenance.cleaner.pins import names_read
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.maintenance.warehouse.ddl_work import NO_TABLE, parent_of
from airflow_hive_acid.maintenance.warehouse.directories import entries
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.maintenance.warehouse.storage import writer_properties
from airflow_hive_acid.metastore.catalog import TableDefinition
from airflow_hive_acid.metastore.compaction import Trashed
from airflow_hive_acid.metastore.database import LockType
from airflow_hive_acid.metastore.names import TableName, table_name
from airflow_hive_acid.metastore.protocol import database_lock, ddl_transaction
from airflow_hive_acid.metastore.txns import seed_write_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence, Set

    from sqlalchemy import Connection

    from airflow_hive_acid.filesystem import FileInfo, Filesystem
    from airflow_hive_acid.format.acid_state import StateDirectory
    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Compaction

log = logging.getLogger(__name__)

TRASH_DIR = "hive.acid.cleaner.trash.dir"
RETENTION = "hive.acid.cleaner.trash.retention"
_AGENT = "hive-acid cleaning undo"
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
        found = [item for item in known if item.root == self.root and (table is None or _is_of(item, table))]
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
        home = _home(items[0])
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


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back.

    :param location: the directory it is in now.
    :param table: the table it became; None when it was only put into a directory.
    :param lacking: names of what belongs to the same rows and was not in the batch.
    """

    location: str
    names: tuple[str, ...]
    table: str | None = None
    lacking: tuple[str, ...] = ()

    def __str__(self) -> str:
        table = f", the table {self.table}" if self.table else ""
        text = f"{len(self.names)} directories and files are in {self.location}{table}: {', '.join(self.names)}"
        return f"{text}; the batch lacked {', '.join(self.lacking)}" if self.lacking else text


def restore_into(client: MetastoreClient, filesystem: Filesystem, batch: str, location: str) -> Restored:
    """Move a batch out of the trash into a directory of its own, by one rename.

    :param location: URI of a directory that does not exist yet, away from every table.
    :raises InvalidArgumentsError: when it exists, belongs to a table, or lies on another filesystem.
    """
    items, lacks = _require(client, filesystem, batch)
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
    filesystem.make_directory(parent_of(location))
    filesystem.rename_directory(_home(items[0]), location.rstrip("/"))
    client.trash.forget(item.id for item in items)
    return Restored(location, _names(items), lacking=_names(lacks))


def restore_as_table(client: MetastoreClient, filesystem: Filesystem, batch: str, name: str) -> Restored:
    """Make a new table of a batch: the rows as they were when the compaction replaced them.

    The new table's write ids begin above those in the files, so that it sees all of them; of a partition it has the
    data columns. The batch becomes its directory by one rename, which is undone unless the table comes to be.

    :param name: ``db.table``, which must not exist.
    :raises NoSuchObjectError: when the table the files came from is gone, or another one has its name: nobody knows its
        columns.
    :raises ActionRefusedError: when the batch is not whole: rows would be missing.
    :raises AlreadyExistsError: when there is such a table, or its directory; the batch is where it was.
    """
    original = _table_of(client, batch)
    items, lacks = _require(client, filesystem, batch)
    if lacks:
        raise ActionRefusedError(
            f"batch {batch} lacks {', '.join(_names(lacks))}, so rows would be missing: a pin reads them still, they "
            "held rows of aborted transactions among others, or somebody else has removed them. What a pin reads joins "
            "the batch when the pin has ended and the Cleaner comes by (hive-acid pin list). --into takes what is there"
        )
    key = table_name(name)
    definition = client.catalog.plan_table(
        TableDefinition(
            key.database, key.name, original.columns, properties={**_kept(original), "NO_AUTO_COMPACTION": "true"},
            bucket_columns=original.bucket_columns, bucket_count=original.bucket_count,
            stored_as=original.format or "orc", serde_properties=dict(original.serde_properties), empty=False,
        )
    )  # fmt: skip
    location = str(definition.location)
    places = Places(client, filesystem)
    places.before_create(key.database, location)
    client.catalog.reserve_table_ids()

    def make(connection: Connection) -> Table:
        made = client.catalog.create_table_in(connection, definition)
        seed_write_id(connection, key, max(_highest(item) for item in items))
        client.trash.forget_in(connection, (item.id for item in items))
        return made

    home = _home(items[0])
    moved = paths.join(location, str(paths.relative_to(home, items[0].path)))
    files = WarehouseFiles(client, filesystem)
    with (
        ddl_transaction(client, [database_lock(key.database, LockType.SHARED_READ)], agent_info=_AGENT) as ddl,
        files.moving(ddl.txn_id, TableName(key.database, NO_TABLE), [(home, location)]),
    ):
        if not filesystem.exists(moved):
            raise _nothing_of(batch)  # somebody has taken it out since it was looked for
        made = ddl.commit(make)
    places.created(made.db, made.location)
    return Restored(made.location, _names(items), made.qualified_name)


def _kept(original: Table) -> dict[str, str]:
    """The properties by which files of a table are read: what kind it is, and that its columns had other names."""
    names = ("transactional", "transactional_properties", "last_modified_time")
    kept = {key: value for key, value in original.properties.items() if key.lower() in names}
    kept |= writer_properties(original)
    # Without a word the rows lie by the first of Hive's hashes; of a new table the second is noted.
    return {**kept, BUCKETING_VERSION: original.property(BUCKETING_VERSION) or "1"}


def _table_of(client: MetastoreClient, batch: str) -> Table:
    """The table that a batch came from; before the batch is touched, which makes it look younger.

    :raises NoSuchObjectError: when there is no such batch, or no such table any more.
    """
    noted = client.trash.batch(batch)
    if not noted:
        raise _no_such(batch)
    name = noted[0].resource.table_name
    found = client.catalog.get_table(str(name))
    if not all(_is_of(item, found) for item in noted):
        raise NoSuchObjectError(
            f"batch {batch} is not of {name} that is there now: it is another table of that name, and nobody knows the "
            "columns of the one that was. --into takes the files"
        )
    return found


def _is_of(item: Trashed, table: Table) -> bool:
    """Whether something was a table's: names pass from one to the other, the id in the path does not."""
    named = (paths.relative_to(item.root, item.path) or "").partition("/")[0].split(".")
    if len(named) == 3 and named[2].isdigit():
        return int(named[2]) == table.id
    return item.moved >= table.created * 1000


def _no_such(batch: str) -> NoSuchObjectError:
    return NoSuchObjectError(f"there is no batch {batch} in the trash; 'hive-acid cleaning trash' lists what is")


def _nothing_of(batch: str) -> NoSuchObjectError:
    return NoSuchObjectError(
        f"of batch {batch} nothing is in the trash: it is being taken out, somebody has removed it, or the trash is "
        "not mounted here. If an undo --table of it was killed, it comes back when that txn has timed out and the "
        "reaper comes by (hive-acid maintenance reaper --once)"
    )


def _require(client: MetastoreClient, filesystem: Filesystem, batch: str) -> tuple[list[Trashed], list[Trashed]]:
    """What is there of a batch, and what it lacks.

    :raises NoSuchObjectError: when nothing is there.
    """
    client.trash.touch(batch)  # nobody purges it under our hands
    noted = client.trash.batch(batch)
    there = in_trash(filesystem, noted)
    items = [item for item in noted if item.path in there]
    if not noted:
        raise _no_such(batch)
    if not items:
        raise _nothing_of(batch)
    return items, [item for item in noted if item.path not in there]


def _names(items: Iterable[Trashed]) -> tuple[str, ...]:
    return tuple(item.path.rpartition("/")[2] for item in items)


def _home(item: Trashed) -> str:
    """The directory of a batch; computed from the path in the trash, which must be as deep as we make it."""
    relative = (paths.relative_to(item.root, item.path) or "").split("/")
    if len(relative) <= _BATCH_DEPTH or relative[1] != item.batch:
        raise InvalidArgumentsError(f"{item.path} is no path of batch {item.batch} in the trash {item.root}")
    return paths.join(item.root, *relative[:_BATCH_DEPTH])


def _highest(item: Trashed) -> int:
    named = parse_directory(item.path.rpartition("/")[2])
    return max(item.highest_write_id or 0, named.max_write_id if named is not None else 0)
