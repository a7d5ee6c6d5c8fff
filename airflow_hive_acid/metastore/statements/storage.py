"""The catalog's ALTER TABLE … SET SERDE, SERDEPROPERTIES and FILEFORMAT, ADD PARTITION and TOUCH.

How files are read is said once for a table here: Hive keeps it per partition, too, and readers of ours go by the table.
So a format may change only while no partition says something else, and never that of a transactional table, whose
files are what they are (TransactionalValidationListener).
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import and_, func, select

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError
from airflow_hive_acid.format.paths import join
from airflow_hive_acid.metastore.catalog import alteration
from airflow_hive_acid.metastore.catalog import alteration_rows as rows
from airflow_hive_acid.metastore.catalog.definitions import check_property
from airflow_hive_acid.metastore.catalog.drop import delete_storage, forget_object, locate
from airflow_hive_acid.metastore.catalog.formats import FORMATS, format_name
from airflow_hive_acid.metastore.catalog.model import DroppedTable, check_location
from airflow_hive_acid.metastore.catalog.partition_alteration import (
    PartitionChange,
    place_of_partition,
)
from airflow_hive_acid.metastore.catalog.partitions import add_partitions, delete_partitions, find_partitions
from airflow_hive_acid.metastore.catalog.places import (
    lock_places,
    read_owner_of,
    read_sharer,
    read_sharer_of_dropped,
)
from airflow_hive_acid.metastore.catalog.reader import read_database, read_warehouse
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import database_name, shorten, table_name
from airflow_hive_acid.metastore.protocol.ddl import ddl_transaction, partition_lock, table_lock
from airflow_hive_acid.metastore.schema.hive_catalog import DBS, PARTITIONS, TBLS
from airflow_hive_acid.metastore.statements.catalog import CatalogDdl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.model import Partition, PartitionSpec, Storage, Table
    from airflow_hive_acid.metastore.protocol.ddl import DdlFiles

log = logging.getLogger(__name__)

_NONE: Mapping[str, str] = {}


class CatalogStorage(CatalogDdl):
    """The catalog with all of Hive's ALTER TABLE."""

    def count_partitions(self, name: str) -> int:
        """How many partitions a table has; none is read."""
        key = table_name(name)

        def operation(connection: Connection) -> int:
            table = self.get_tables_in(connection, [key])[0]
            counted = select(func.count()).select_from(PARTITIONS).where(PARTITIONS.c.TBL_ID == table.id)
            return int(connection.execute(counted).scalar_one())

        return self._database.read(operation)

    def alter_storage(
        self,
        name: str,
        *,
        serde_properties: Mapping[str, str] = _NONE,
        serde: str | None = None,
        stored_as: str | None = None,
        agent_info: str | None = None,
    ) -> Table:
        """Say how the files of a table are read.

        :param serde_properties: to be set (SERDEPROPERTIES).
        :param serde: another class (SET SERDE); it must be one that reads the table's format.
        :param stored_as: ``orc``, ``parquet`` or ``text`` (SET FILEFORMAT); the class follows.
        :raises InvalidArgumentsError: naming what cannot be, and the remedy; nothing was changed.
        """
        before = self.get_table(name)
        partitioned = before.is_partitioned and bool(self.list_partitions(name, limit=1))
        check_storage(before, serde_properties, serde, stored_as, has_partitions=partitioned)

        def change(connection: Connection, table: Table) -> None:
            check_storage(table, serde_properties, serde, stored_as, has_partitions=partitioned)
            after = replace(table, storage=_stored(table.storage, serde_properties, serde, stored_as))
            self._write_table(connection, table, after)

        shared = serde is None and stored_as is None
        return self._alter(table_name(name), LockType.SHARED_READ if shared else LockType.EXCLUSIVE, change, agent_info)

    def add_locked_partitions(
        self, name: str, partitions: Sequence[PartitionSpec], *, locations: Mapping[str, str] = _NONE,
        if_not_exists: bool = False, files: DdlFiles | None = None, agent_info: str | None = None,
    ) -> list[Partition]:  # fmt: skip
        """ADD PARTITION: under Hive's lock, with a write id of its own.

        :param files: makes their directories; without it they are left to the caller.

        :param locations: directories, by partition name, of those that lie elsewhere (LOCATION): each keeps its own
            to itself (decision 10), and what lies there are its rows.
        :return: those that are new.
        :raises AlreadyExistsError: when one exists and ``if_not_exists`` is off; nothing was added then.
        :raises InvalidArgumentsError: when a directory is, or may become, something else's; nothing was added then.
        """
        key = table_name(name)
        table = self.get_table(name)
        alteration.require_table(table)
        names = list(dict.fromkeys(table.partition_name(spec) for spec in partitions))
        places = {part: place_of_partition(table, part, location) for part, location in locations.items()}
        there = self.find_partitions(name, names)
        if there and not if_not_exists:
            raise AlreadyExistsError(
                f"{table.qualified_name} has a partition {min(there)} already; ADD IF NOT EXISTS if that is fine"
            )
        if len(there) == len(names):
            return []
        lock = table_lock(key, LockType.EXCL_WRITE if if_not_exists else LockType.SHARED_READ)
        with ddl_transaction(self._client, [lock], agent_info=agent_info) as ddl:
            write_id = ddl.allocate(key) if table.is_transactional else None

            def change(connection: Connection) -> list[str]:
                found = self._locked(connection, key, table)
                new = add_partitions(
                    connection, found, names, write_id=write_id, if_not_exists=if_not_exists, take_ids=self._ids.take,
                    locations=places, empty=False,
                )  # fmt: skip
                if places and not self._may_share():
                    lock_places(connection)
                    for part in find_partitions(connection, found, [n for n in new if n in places]).values():
                        self._require_own_place(connection, found, part)
                self.events.partitions_added(connection, found, new)
                rows.advance_write_id(connection, found, write_id)
                return new

            wanted = [places.get(part) or join(table.location, part) for part in names if part not in there]
            with contextlib.nullcontext() if files is None else files.making(ddl.txn_id, key, wanted):
                new = ddl.commit(change)
        return list(self.find_partitions(name, new).values())

    def drop_plain_partitions(
        self, name: str, partitions: Sequence[PartitionSpec], *, files: DdlFiles, purge: bool = False,
        agent_info: str | None = None,
    ) -> list[Partition]:  # fmt: skip
        """Drop partitions of a table without transactions under their locks, all at once or none.

        :param files: fences jobs of dead txns, and takes their directories away if they go too.
        :param purge: also those of a table whose files are somebody else's.
        :return: the partitions that were.
        """
        key = table_name(name)
        table = self.get_table(name)
        names = sorted({table.partition_name(spec) for spec in partitions})
        locks = [partition_lock(key, part, LockType.EXCLUSIVE) for part in names]
        with ddl_transaction(self._client, locks, agent_info=agent_info) as ddl:
            files.fence(self._client.jobs.unfenced_of(str(key)))

            def change(connection: Connection) -> list[Partition]:
                found = self._locked(connection, key, table)
                self.require_fenced(connection, key, ddl.txn_id)
                there = list(find_partitions(connection, found, names).values())
                ids = [part.id for part in there]
                self.events.dropping_partitions(connection, found, ids)
                delete_storage(connection, delete_partitions(connection, ids))
                for part in there:
                    forget_object(connection, key.database, key.name, part.name)
                return there

            going = []
            if purge or table.owns_files:
                there = list(self.find_partitions(name, names).values())
                shared = self.shared_partition_places(table, there)
                for place, other in shared.items():  # an older version, or a Hive, has let them
                    log.warning("the files in %s were not removed: they are shared with %s", place, other)
                going = [(part.location, "") for part in there if part.location not in shared]
            with files.moving(ddl.txn_id, key, going):
                return ddl.commit(change)

    def roots(self, name: str) -> list[str]:
        """The directories below which files of a database lie by default: its own two, and the warehouse."""
        lowered = database_name(name)

        def operation(connection: Connection) -> list[str]:
            found = read_database(connection, lowered)
            own = [] if found is None else [found.managed_location, found.location]
            warehouse = read_warehouse(connection)
            return list(dict.fromkeys([*own, *([warehouse] if warehouse else [])]))

        return self._database.read(operation)

    def owner_of_location(self, location: str, *, around: bool = True) -> str | None:
        """A table that lies at or in a directory, or has a partition there; None when there is none.

        :param around: also one whose own directory is around it.
        """
        place = check_location(location)
        return self._database.read(lambda connection: read_owner_of(connection, place, around=around))

    def shared_places(self, locations: Sequence[str], db: str, table: str | None = None) -> dict[str, str]:
        """Those of a table's directories (or of a database's tables) that others share, and with whom."""

        def operation(connection: Connection) -> dict[str, str]:
            own = (DBS.c.NAME == db) if table is None else and_(DBS.c.NAME == db, TBLS.c.TBL_NAME == table)
            found: dict[str, str] = {}
            for batch in chunks(list(locations), 50):
                if read_sharer(connection, *batch, others=~own) is not None:
                    looked = {place: read_sharer(connection, place, others=~own) for place in batch}
                    found |= {place: other for place, other in looked.items() if other is not None}
            return found

        return self._database.read(operation)

    def shared_partition_places(self, table: Table, partitions: Sequence[Partition]) -> dict[str, str]:
        """Those of the directories of some of a table's partitions that anything else shares, and with whom."""

        def operation(connection: Connection) -> dict[str, str]:
            found: dict[str, str] = {}
            for batch in chunks(list(partitions), 50):
                ids = [part.id for part in batch]
                places = [part.location for part in batch]
                if read_sharer_of_dropped(connection, *places, table_id=table.id, part_ids=ids) is not None:
                    looked = {p: read_sharer_of_dropped(connection, p, table_id=table.id, part_ids=ids) for p in places}
                    found |= {place: other for place, other in looked.items() if other is not None}
            return found

        return self._database.read(operation)

    def plan_drop(self, names: Iterable[str], *, purge: bool = False) -> list[DroppedTable]:
        """What dropping tables would leave to remove; nothing is dropped."""
        keys = [table_name(name) for name in names]

        def operation(connection: Connection) -> list[DroppedTable]:
            tables = self.get_tables_in(connection, keys)
            return [DroppedTable(t, locate(connection, t), purge or t.owns_files) for t in tables]

        return self._database.read(operation)

    def touch(self, name: str, spec: PartitionSpec | None = None) -> None:
        """Note that a table or partition was altered, without altering it; takes no lock, as in Hive."""
        key = table_name(name)

        def operation(connection: Connection) -> None:
            table = self.get_tables_in(connection, [key])[0]
            if spec is None:
                self._write_table(connection, table, table)
                self._altered(connection, table, key, None)
                return
            before = self._whole(connection, self._partition(connection, table, spec))
            rows.write_partition(connection, table, before, PartitionChange(before), self._user, self._ids.take)
            self.events.partition_altered(connection, before)

        self._change(operation)


def check_storage(
    table: Table, properties: Mapping[str, str], serde: str | None, stored_as: str | None, *, has_partitions: bool
) -> None:
    """Refuse what would leave files that cannot be read.

    :raises InvalidArgumentsError: naming what cannot be, and the remedy.
    """
    alteration.require_table(table)
    where = f"table {table.qualified_name}"
    for key, value in properties.items():
        check_property(where, key, value)
    if serde is not None and format_name(table.input_format, serde) is None:
        known = next((f.serde for f in FORMATS.values() if f.input_format == table.input_format), None)
        remedy = f"its files are read by {known}" if known else "SET FILEFORMAT names the class as well"
        raise InvalidArgumentsError(f"{where}: {shorten(repr(serde))} does not read its files; {remedy}")
    if stored_as is None or stored_as == table.format:
        return
    if table.is_transactional:
        raise InvalidArgumentsError(
            f"{where} is transactional and stored as {table.format or 'something else'}: its files would not be found "
            f"as {stored_as}. Copy it: CREATE TABLE … STORED AS {FORMATS[stored_as].keyword} AS SELECT …"
        )
    if has_partitions:
        raise InvalidArgumentsError(
            f"{where} has partitions, which keep their files of format {table.format or 'unknown'}; all files of a "
            "table are read in one format here. Copy it to a new table"
        )


def _stored(storage: Storage, properties: Mapping[str, str], serde: str | None, stored_as: str | None) -> Storage:
    """The storage as it is to be read."""
    if stored_as is not None:
        format = FORMATS[stored_as]
        storage = replace(storage, input_format=format.input_format, output_format=format.output_format)
        serde = format.serde
    return replace(
        storage, serde=(storage.serde[0], serde if serde is not None else storage.serde[1]),
        serde_properties={**storage.serde_properties, **properties},
    )  # fmt: skip
