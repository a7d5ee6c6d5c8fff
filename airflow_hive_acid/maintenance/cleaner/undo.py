"""Giving back what is in the trash.

Nothing is ever put back into the directory of a table under its old name: what is restored goes to a directory of its
own, or becomes a table of its own whose write ids begin above those in the files (decision 16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import (
    ActionRefusedError,
    InvalidArgumentsError,
    NoSuchObjectError,
)
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.bucketing import BUCKETING_VERSION
from airflow_hive_acid.format.names import parse_directory
from airflow_hive_acid.maintenance.cleaner.trash import home_of, in_trash, is_of
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.maintenance.warehouse.ddl_work import NO_TABLE, parent_of
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.maintenance.warehouse.storage import writer_properties
from airflow_hive_acid.metastore.catalog import TableDefinition
from airflow_hive_acid.metastore.database import LockType
from airflow_hive_acid.metastore.names import TableName, table_name
from airflow_hive_acid.metastore.protocol import database_lock, ddl_transaction
from airflow_hive_acid.metastore.txns import seed_write_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy import Connection

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Trashed

_AGENT = "hive-acid cleaning undo"


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
    filesystem.rename_directory(home_of(items[0]), location.rstrip("/"))
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

    home = home_of(items[0])
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
    if not all(is_of(item, found) for item in noted):
        raise NoSuchObjectError(
            f"batch {batch} is not of {name} that is there now: it is another table of that name, and nobody knows the "
            "columns of the one that was. --into takes the files"
        )
    return found


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


def _highest(item: Trashed) -> int:
    named = parse_directory(item.path.rpartition("/")[2])
    return max(item.highest_write_id or 0, named.max_write_id if named is not None else 0)
