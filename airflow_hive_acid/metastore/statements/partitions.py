"""ADD, ALTER, RENAME and DROP PARTITION: as in :mod:`.tables`, a txn with locks, and the change in its commit."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.format.paths import join
from airflow_hive_acid.metastore.catalog.rows import alteration as rows
from airflow_hive_acid.metastore.catalog.rows.drop import delete_storage, forget_partitions
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind
from airflow_hive_acid.metastore.catalog.rows.partitions import (
    add_partitions,
    delete_partitions,
    find_partitions,
    names_there,
)
from airflow_hive_acid.metastore.catalog.rows.places import lock_places
from airflow_hive_acid.metastore.catalog.rows.rename import rename_partition_rows
from airflow_hive_acid.metastore.catalog.values import alteration
from airflow_hive_acid.metastore.catalog.values.partition_alteration import (
    PartitionChange,
    change_partition,
    place_of_partition,
)
from airflow_hive_acid.metastore.compaction.cleaning import insert_soft_deletes
from airflow_hive_acid.metastore.compaction.model import CompactionState, Resource
from airflow_hive_acid.metastore.database.codes import LockType, Operation, TxnType
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.protocol.ddl import ddl_transaction, partition_lock, table_lock
from airflow_hive_acid.metastore.statements.locked_tables import LockedTables, moving
from airflow_hive_acid.metastore.txns.job_places import jobs_in_the_way

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.rows.sharing import Sharers
    from airflow_hive_acid.metastore.catalog.values.model import Partition, PartitionSpec, Table, WholePartition
    from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionAlteration
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.protocol.ddl import DdlFiles
    from airflow_hive_acid.metastore.txns.jobs import Job

log = logging.getLogger(__name__)

_NONE: Mapping[str, str] = {}


class PartitionStatements:
    """The statements that change partitions."""

    def __init__(self, tables: LockedTables, sharers: Sharers) -> None:
        self._sharers = sharers
        self._tables = tables
        self._client = tables.client
        self._catalog = tables.catalog
        self._changes = tables.catalog.changes

    def rename_partition(
        self, name: str, spec: PartitionSpec, new_spec: PartitionSpec, *, files: DdlFiles | None = None,
        agent_info: str | None = None,
    ) -> Partition:  # fmt: skip
        """Give a partition other values; everything the txn tables know of it follows.

        :param files: moves its directory when it lies where its name says, and fences jobs of dead txns.
        :raises AlreadyExistsError: when there is a partition of the new values.
        :raises InvalidArgumentsError: when it lies elsewhere, and has left rows in the directory of its name.
        """
        key = table_name(name)
        table = self._catalog.get_table(name)
        before = self._catalog.get_partition(name, spec)
        new_name = table.partition_name(new_spec)
        taken = table.spellings(new_spec, others=True).names
        self._check_partition_free(table, before.name, new_name, self._catalog.find_partitions(name, taken).values())
        locks = [partition_lock(key, part, LockType.EXCLUSIVE) for part in sorted((before.name, new_name))]
        with ddl_transaction(self._client, locks, agent_info=agent_info) as ddl:
            names = (before.name, new_name)
            if files is not None:
                files.fence(self._in_the_way(key, names))
            # R3: its directory, under the lock; SET LOCATION may have changed it while this waited.
            before = self._catalog.get_partition(name, before.name)
            if files is not None and table.is_transactional:
                files.require_nothing_left(table, before)
            by_name = files is not None and before.location == join(table.location, before.name)
            target = join(table.location, new_name) if by_name else before.location
            write_id = ddl.allocate(key) if table.is_transactional else None

            def change(connection: Connection) -> Partition:
                found = self._tables.locked(connection, key, table)
                old = self._catalog.partition_in(connection, found, before.name)
                there = find_partitions(connection, found, taken)
                self._check_partition_free(found, old.name, new_name, there.values())
                self._catalog.require_fenced(connection, key, ddl.txn_id, names)
                new = replace(
                    old,
                    name=new_name,
                    values=tuple(value for _, value in parse_partition_name(new_name)),
                    location=target,
                )
                whole = self._tables.whole(connection, old)
                rename_partition_rows(connection, found, old, new, self._client.database.features(connection))
                # As in Hive; a mirror knows by it that other rows bear the name (format.mirrors.made_since).
                rows.advance_write_id(connection, found, write_id, old.id)
                self._catalog.events.partition_altered(connection, whole, write_id=write_id)
                return self._catalog.partition_in(connection, found, new_name)

            try:
                with moving(files, ddl, key, before.location, target):
                    return ddl.commit(change)
            except AlreadyExistsError:
                if not self._is_left_by_a_drop(key, new_name, target):
                    raise
                raise AlreadyExistsError(
                    f"{before.location} cannot become {target}, where files of the partition {new_name} lie that was "
                    "dropped, until the Cleaner has removed them: wait for it, or run 'hive-acid maintenance cleaner "
                    "--once' when nobody reads them any more, then try again"
                ) from None

    def _is_left_by_a_drop(self, key: TableName, partition: str, place: str) -> bool:
        """Whether the Cleaner has yet to remove what a partition that was dropped has left there."""
        queued = self._client.compactions.show(
            database=key.database, table=key.name, partition=partition, state=CompactionState.READY_FOR_CLEANING
        )
        return any(request.soft_deleted_location == place for request in queued)

    def alter_partition(
        self, name: str, spec: PartitionSpec, asked: PartitionAlteration, *, files: DdlFiles | None = None,
        agent_info: str | None = None,
    ) -> Partition:  # fmt: skip
        """Give a partition other properties, columns, serde properties or another directory.

        As in Hive, nothing is moved when the directory changes: what lies there are the partition's rows from then on,
        and what lay in the old one stays there and is nobody's.

        :param files: fences what jobs of dead txns left running, and removes what they wrote, before the directory of a
            partition changes; makes the new one, if it is not there: to a reader that is a disk that is away (R17).
        :raises InvalidArgumentsError: naming what cannot be, and the remedy; nothing was changed.
        :raises JobsAliveError: when the directory is to change and a job may still write into the table.
        """
        key = table_name(name)
        table = self._catalog.get_table(name)
        planned = self._catalog.get_partition(name, spec)
        self._changes.database.read(lambda connection: self._partition_change(connection, table, planned, asked))
        if asked.columns is not None:
            self._catalog.ids.reserve(IdKind.COLUMNS, 1)
        type = LockType.SHARED_READ if asked.is_shared else LockType.EXCLUSIVE
        with ddl_transaction(self._client, [partition_lock(key, planned.name, type)], agent_info=agent_info) as ddl:
            making: AbstractContextManager[None] = contextlib.nullcontext()
            if files is not None and asked.location is not None:
                files.fence(self._in_the_way(key, (planned.name,)))
                left = self._catalog.get_partition(name, planned.name).location  # R3: under the lock
                place = place_of_partition(table, planned.name, asked.location)
                if left != place:
                    if table.is_transactional:
                        files.leave(table, left)
                    making = files.making(ddl.txn_id, key, [place])
            write_id = ddl.allocate(key) if table.is_transactional else None

            def operation(connection: Connection) -> Partition:
                found = self._tables.locked(connection, key, table)
                partition = self._catalog.partition_in(connection, found, planned.name)
                if asked.location is not None:
                    lock_places(connection)
                before, change = self._partition_change(connection, found, partition, asked)
                if change.is_moved(before):
                    self._catalog.require_fenced(connection, key, ddl.txn_id, (planned.name,))
                rows.write_partition(connection, found, before, change, self._changes.user, self._catalog.ids.take)
                rows.advance_write_id(connection, found, write_id, partition.id)
                self._catalog.events.partition_altered(connection, before, write_id=write_id)
                return self._catalog.partition_in(connection, found, partition.name)

            with making:
                return ddl.commit(operation)

    def drop_partitions(
        self, name: str, partitions: Iterable[PartitionSpec], *, files: DdlFiles, if_exists: bool = False,
        purge: bool = False, agent_info: str | None = None,
    ) -> list[Partition]:  # fmt: skip
        """Drop partitions of a transactional table while readers go on: the Cleaner removes the directories once every
        older snapshot has ended. On a metastore of a Hive 3, whose Cleaner would leave them, under exclusive locks and
        at once, as that Hive drops them.

        :param files: fences jobs of dead txns, and hides the old rows from a partition that is added again.
        :param if_exists: partitions that do not exist are no error.
        :param purge: past any trash.
        :return: the partitions that were.
        """
        key = table_name(name)
        table = self._catalog.get_table(name)
        if not table.is_transactional:
            raise InvalidArgumentsError(
                f"{table.qualified_name} has no snapshots that the Cleaner could wait for; use drop_partition and "
                "remove the directory under an exclusive lock"
            )
        names = self._changes.database.read(lambda connection: names_there(connection, table, partitions))
        there = self._catalog.find_partitions(name, names)
        if not if_exists:
            for part in names:
                if part not in there:
                    raise NoSuchObjectError(f"{table.qualified_name} has no partition {part}; nothing was dropped")
        dropped = [there[part] for part in names if part in there]
        if not dropped:
            return []
        if self._client.database.layout().counts_txns:
            there_names = [part.name for part in dropped]
            return self.drop_plain_partitions(name, there_names, files=files, purge=purge, agent_info=agent_info)
        locks = [
            LockComponent(key.database, key.name, part.name, LockType.EXCL_WRITE, Operation.DELETE) for part in dropped
        ]
        going = [part.name for part in dropped]
        with ddl_transaction(self._client, locks, agent_info=agent_info, type=TxnType.SOFT_DELETE) as ddl:
            files.fence(self._in_the_way(key, going))
            # R3: their directories, under the locks; somebody may have changed them while this waited.
            dropped = self._all_of(table, going, self._catalog.find_partitions(name, going))
            write_id = ddl.allocate(key)
            files.hide(ddl.txn_id, write_id, table, dropped)

            def change(connection: Connection) -> list[Partition]:
                found = self._tables.locked(connection, key, table)
                self._catalog.require_fenced(connection, key, ddl.txn_id, going)
                there = self._all_of(table, going, find_partitions(connection, found, going))
                ids = [part.id for part in there]
                self._catalog.events.dropping_partitions(connection, found, ids)
                delete_storage(connection, delete_partitions(connection, ids))
                # This forgets the drop's own components, too; the requests to the Cleaner come after.
                forget_partitions(connection, key, going, dropped_by=ddl.txn_id)
                left = [(Resource(key.database, key.name, part.name), part.location) for part in dropped]
                insert_soft_deletes(connection, left, txn_id=ddl.txn_id, highest_write_id=write_id, purge=purge)
                rows.advance_write_id(connection, found, write_id)
                return dropped

            return ddl.commit(change)

    @staticmethod
    def _all_of(table: Table, names: Sequence[str], found: Mapping[str, Partition]) -> list[Partition]:
        """Partitions in the order of their names here.

        :raises NoSuchObjectError: when one is not there any more.
        """
        gone = next((name for name in names if name not in found), None)
        if gone is not None:
            raise NoSuchObjectError(f"{table.qualified_name} has no partition {gone}")
        return [found[name] for name in names]

    def _in_the_way(self, key: TableName, partitions: Collection[str]) -> list[Job]:
        """Jobs that may still write into partitions which the statement has locked."""

        def operation(connection: Connection) -> list[Job]:
            has_jobs = self._changes.database.features(connection).extensions
            return jobs_in_the_way(connection, key, partitions) if has_jobs else []

        return self._changes.database.read(operation)

    def _partition_change(
        self, connection: Connection, table: Table, partition: Partition, asked: PartitionAlteration
    ) -> tuple[WholePartition, PartitionChange]:
        """What becomes of a partition, and what it is now."""
        before = self._tables.whole(connection, partition)
        change = change_partition(table, before, asked)
        if change.is_moved(before) and not self._changes.may_share():
            moved = replace(partition, location=change.after.storage.location or "")
            self._tables.require_own_places(connection, table, [moved])
        return before, change

    def _check_partition_free(self, table: Table, old: str, new: str, found: Iterable[Partition]) -> None:
        """Refuse a new name when there is a partition of its values, under whatever name. It may be the one that is
        renamed, when its name is spelled otherwise.

        :param found: partitions of these values.
        """
        for part in found:
            if part.name != old or old == new:
                raise AlreadyExistsError(
                    f"{table.qualified_name} has a partition {part.name} already, at {part.location}"
                )

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
        table = self._catalog.get_table(name)
        alteration.require_table(table)
        names = self._changes.database.read(lambda connection: names_there(connection, table, partitions))
        places = {part: place_of_partition(table, part, location) for part, location in locations.items()}
        there = self._catalog.find_partitions(name, names)
        if there and not if_not_exists:
            raise AlreadyExistsError(
                f"{table.qualified_name} has a partition {min(there)} already; ADD IF NOT EXISTS if that is fine"
            )
        if len(there) == len(names):
            return []
        lock = table_lock(key, LockType.EXCL_WRITE if if_not_exists else LockType.SHARED_READ)
        self._catalog.reserve_partition_ids(len(names))
        with ddl_transaction(self._client, [lock], agent_info=agent_info) as ddl:
            write_id = ddl.allocate(key) if table.is_transactional else None

            def change(connection: Connection) -> list[str]:
                found = self._tables.locked(connection, key, table)
                new = add_partitions(
                    connection, found, names, write_id=write_id, if_not_exists=if_not_exists,
                    take_ids=self._catalog.ids.take, locations=places, empty=False,
                )  # fmt: skip
                if places and not self._changes.may_share():
                    lock_places(connection)
                    placed = find_partitions(connection, found, [part for part in new if part in places])
                    self._tables.require_own_places(connection, found, list(placed.values()))
                self._catalog.events.partitions_added(connection, found, new)
                rows.advance_write_id(connection, found, write_id)
                return new

            wanted = [places.get(part) or join(table.location, part) for part in names if part not in there]
            with contextlib.nullcontext() if files is None else files.making(ddl.txn_id, key, wanted):
                new = ddl.commit(change)
        return list(self._catalog.find_partitions(name, new).values())

    def drop_plain_partitions(
        self, name: str, partitions: Sequence[PartitionSpec], *, files: DdlFiles, purge: bool = False,
        agent_info: str | None = None,
    ) -> list[Partition]:  # fmt: skip
        """Drop partitions under their exclusive locks, all at once or none: those of a table without transactions.

        :param files: fences jobs of dead txns, and takes their directories away if they go too.
        :param purge: also those of a table whose files are somebody else's.
        :return: the partitions that were.
        """
        key = table_name(name)
        table = self._catalog.get_table(name)
        names = sorted(self._changes.database.read(lambda connection: names_there(connection, table, partitions)))
        locks = [partition_lock(key, part, LockType.EXCLUSIVE) for part in names]
        with ddl_transaction(self._client, locks, agent_info=agent_info) as ddl:
            files.fence(self._in_the_way(key, names))
            if table.is_transactional:
                ddl.allocate(key)  # caches know by it that the table has changed

            def change(connection: Connection) -> list[Partition]:
                found = self._tables.locked(connection, key, table)
                self._catalog.require_fenced(connection, key, ddl.txn_id, names)
                there = list(find_partitions(connection, found, names).values())
                ids = [part.id for part in there]
                self._catalog.events.dropping_partitions(connection, found, ids)
                delete_storage(connection, delete_partitions(connection, ids))
                forget_partitions(connection, key, [part.name for part in there])
                return there

            going = []
            if purge or table.owns_files:
                there = list(self._catalog.find_partitions(name, names).values())
                shared = self._sharers.shared_partition_places(table, there)
                for place, other in shared.items():  # an older version, or a Hive, has let them
                    log.warning("the files in %s were not removed: they are shared with %s", place, other)
                going = [(part.location, "") for part in there if part.location not in shared]
            with files.moving(ddl.txn_id, key, going):
                return ddl.commit(change)
