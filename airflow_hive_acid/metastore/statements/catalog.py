"""The catalog's ALTER, RENAME and DROP PARTITION: a txn with Hive's locks, a write id, and the change in its commit.

What a statement may do is decided before anything is locked, so that a refused one waits for nobody and leaves no
trace, and once more under the locks. Files belong to the caller: verbs that need some moved, fenced or hidden take a
``DdlFiles``. The locks are those of Hive (decision 15).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    NoSuchObjectError,
)
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.format.paths import join
from airflow_hive_acid.metastore.catalog import alteration
from airflow_hive_acid.metastore.catalog import alteration_rows as rows
from airflow_hive_acid.metastore.catalog.catalog import Catalog
from airflow_hive_acid.metastore.catalog.definitions import check_property
from airflow_hive_acid.metastore.catalog.drop import delete_storage, forget_object
from airflow_hive_acid.metastore.catalog.ids import IdKind
from airflow_hive_acid.metastore.catalog.model import MANAGED_TABLE
from airflow_hive_acid.metastore.catalog.partition_alteration import change_partition
from airflow_hive_acid.metastore.catalog.partitions import delete_partitions, find_partitions
from airflow_hive_acid.metastore.catalog.places import (
    SHARED,
    lock_places,
    read_sharer_of_partition,
    require_own_place,
)
from airflow_hive_acid.metastore.catalog.reader import read_partitions_by_id, read_tables, require_database
from airflow_hive_acid.metastore.catalog.rename import rename_partition_rows, rename_table_rows
from airflow_hive_acid.metastore.compaction.cleaning import insert_soft_delete
from airflow_hive_acid.metastore.compaction.model import Resource
from airflow_hive_acid.metastore.database.codes import LockType, Operation, TxnType
from airflow_hive_acid.metastore.leases.holders import fence
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.names.objects import database_name, table_name
from airflow_hive_acid.metastore.protocol.ddl import database_lock, ddl_transaction, partition_lock, table_lock
from airflow_hive_acid.metastore.txns.write_ids import seed_write_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.catalog.model import Database, Partition, PartitionSpec, Table, WholePartition
    from airflow_hive_acid.metastore.catalog.partition_alteration import PartitionAlteration, PartitionChange
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.protocol.ddl import DdlFiles, DdlTransaction
    from airflow_hive_acid.metastore.verbs import Verbs

T = TypeVar("T")

_NO_COMMENTS: Mapping[str, str] = {}


class CatalogDdl(Catalog):
    """The catalog with the verbs that need a txn.

    :param client: opens the txns; its user is noted as who changed a table.
    """

    def __init__(self, client: Verbs) -> None:
        super().__init__(client.database, client.user, client.notifications)
        self._client = client

    def _fence(self, connection: Connection) -> None:
        lease = self._client.leases.current
        if lease is not None:
            fence(connection, lease)

    def _may_share(self) -> bool:
        return self._client.settings.flag(SHARED)

    def _change(self, operation: Callable[[Connection], T]) -> T:
        unit = self._client.claims.current
        if unit is None:
            return super()._change(operation)

        def marked(connection: Connection) -> T:
            result = operation(connection)
            unit.in_commit(None)(connection)
            return result

        result = super()._change(marked)
        unit.committed = True
        return result

    # --- databases ------------------------------------------------------------------------------------------------

    def alter_database(
        self, name: str, properties: Mapping[str, str] | None = None, *, unset: Iterable[str] = ()
    ) -> Database:
        """Set and remove DBPROPERTIES; takes no lock, as in Hive.

        :raises NoSuchObjectError: with the names that look like it.
        """
        lowered = database_name(name)
        given, removed = dict(properties or {}), list(unset)
        for key, value in given.items():
            check_property(f"database {lowered}", key, value, 180)
            if len(value) > 4000:
                raise InvalidArgumentsError(
                    f"database {lowered}: the property {key} has {len(value)} characters; the limit is 4000"
                )

        def operation(connection: Connection) -> Database:
            found = require_database(connection, lowered)
            after = {key: value for key, value in (found.properties | given).items() if key not in removed}
            rows.write_database_parameters(connection, found.id, found.properties, after)
            altered = require_database(connection, lowered)
            self.events.database_altered(connection, found, altered)
            return altered

        return self._change(operation)

    # --- properties and columns of tables -------------------------------------------------------------------------

    def alter_properties(
        self,
        name: str,
        properties: Mapping[str, str] | None = None,
        *,
        unset: Iterable[str] = (),
        if_exists: bool = False,
        files: DdlFiles | None = None,
        agent_info: str | None = None,
    ) -> Table:
        """Set and remove TBLPROPERTIES; a plain table may become transactional by it.

        :param if_exists: removing a property that is not there is no error.
        :param files: renames files of a table that becomes full ACID where their names say no bucket, and fences what
            dead jobs left running; without it they must have Hive's names already.
        :raises InvalidArgumentsError: naming the property, Hive's rule and the remedy; nothing was changed.
        """
        key = table_name(name)
        given, removed = dict(properties or {}), list(unset)

        def decide(table: Table) -> alteration.PropertyChange:
            return alteration.change_properties(table, given, removed, if_exists=if_exists)

        planned = decide(self.get_table(name))

        def change(connection: Connection, table: Table) -> None:
            decided = decide(table)
            if decided.converts and not planned.converts:
                raise InvalidArgumentsError(f"{key} was altered by somebody else just now; try again")
            self._write_table(connection, table, replace(table, properties=decided.properties, type=decided.type))
            if decided.converts:
                seed_write_id(connection, key, alteration.CONVERSION_SEED)

        # Readers and writers may go on while nothing changes for them.
        shared = not planned.converts and not removed
        if not planned.converts or files is None or planned.properties.get("transactional_properties") != "default":
            return self._alter(key, LockType.SHARED_READ if shared else LockType.EXCLUSIVE, change, agent_info)

        def settle() -> None:
            files.fence(self._client.jobs.unfenced_of(str(key)))
            table = self.get_table(name)
            partitions = self.list_partitions(name) if table.is_partitioned else ()
            places = [p.location for p in partitions] if table.is_partitioned else [table.location]
            files.name_originals(table, places)

        return self._alter(key, LockType.EXCLUSIVE, change, agent_info, settle)

    def add_columns(
        self, name: str, columns: Sequence[Column], comments: Mapping[str, str] = _NO_COMMENTS, *,
        cascade: bool = True, agent_info: str | None = None,
    ) -> Table:  # fmt: skip
        """Add columns after the others; rows written before have NULL there.

        :param comments: comments of columns.
        :param cascade: let the partitions follow, as CASCADE does; otherwise Hive reads NULL from theirs for ever.
        """

        def decide(table: Table) -> alteration.ColumnChange:
            return alteration.add_columns(table, columns, comments)

        return self._alter_columns(name, decide, agent_info, cascade=cascade)

    def replace_columns(
        self, name: str, columns: Sequence[Column], comments: Mapping[str, str] = _NO_COMMENTS, *,
        cascade: bool = True, agent_info: str | None = None,
    ) -> Table:  # fmt: skip
        """Give the columns other names, wider types or comments, position by position, and perhaps add some."""

        def decide(table: Table) -> alteration.ColumnChange:
            return alteration.replace_columns(table, columns, comments)

        return self._alter_columns(name, decide, agent_info, cascade=cascade)

    def change_column(
        self, name: str, column: str, new: Column, comment: str | None = None, *,
        cascade: bool = True, agent_info: str | None = None,
    ) -> Table:  # fmt: skip
        """Give a column another name, a wider type or another comment.

        :raises InvalidArgumentsError: for a type that could not hold what is stored.
        """

        def decide(table: Table) -> alteration.ColumnChange:
            return alteration.change_column(table, column, new, comment)

        return self._alter_columns(name, decide, agent_info, cascade=cascade)

    # --- renaming -------------------------------------------------------------------------------------------------

    def rename_table(
        self, name: str, new_name: str, *, files: DdlFiles | None = None, agent_info: str | None = None
    ) -> Table:
        """Give a table another name; everything the txn tables know of it follows.

        :param files: moves the directory of a managed table that lies where its name says, and fences what jobs of
            dead txns left running; without it the table stays where it is.
        :raises AlreadyExistsError: when there is a table of the new name.
        :raises JobsAliveError: when a job may still write into it.
        """
        key, new = table_name(name), table_name(new_name)
        before = self.get_table(name)
        self._check_free(new, self.find_tables([str(new)]).get(str(new)))
        target = self._new_location(before, new, moves=files is not None)
        locks = [database_lock(db, LockType.SHARED_READ) for db in sorted({key.database, new.database})]
        locks += [table_lock(key, LockType.EXCLUSIVE), table_lock(new, LockType.EXCLUSIVE)]
        with ddl_transaction(self._client, locks, agent_info=agent_info) as ddl:
            if files is not None:
                files.fence(self._client.jobs.unfenced_of(str(key)))
            write_id = ddl.allocate(key) if before.is_transactional else None

            def change(connection: Connection) -> Table:
                table = self._locked(connection, key, before)
                self._check_free(new, read_tables(connection, [new]).get(new))
                self.require_fenced(connection, key, ddl.txn_id)
                database = require_database(connection, new.database)
                features = self._database.features(connection)
                if target != table.location and not self._may_share():
                    lock_places(connection)
                    require_own_place(connection, f"table {new}", target, table_id=table.id)
                rename_table_rows(connection, table, new, database.id, target, features)
                self._write_table(connection, table, table)
                rows.advance_write_id(connection, table, write_id)
                return self._altered(connection, table, new, write_id)

            with _moving(files, ddl, key, before.location, target):
                return ddl.commit(change)

    def rename_partition(
        self, name: str, spec: PartitionSpec, new_spec: PartitionSpec, *, files: DdlFiles | None = None,
        agent_info: str | None = None,
    ) -> Partition:  # fmt: skip
        """Give a partition other values; everything the txn tables know of it follows.

        :param files: moves its directory when it lies where its name says, and fences jobs of dead txns.
        :raises AlreadyExistsError: when there is a partition of the new values.
        """
        key = table_name(name)
        table = self.get_table(name)
        before = self.get_partition(name, spec)
        new_name = table.partition_name(new_spec)
        self._check_partition_free(table, new_name, self.find_partitions(name, [new_name]))
        by_name = files is not None and before.location == join(table.location, before.name)
        target = join(table.location, new_name) if by_name else before.location
        locks = [partition_lock(key, part, LockType.EXCLUSIVE) for part in sorted((before.name, new_name))]
        with ddl_transaction(self._client, locks, agent_info=agent_info) as ddl:
            if files is not None:
                files.fence(self._client.jobs.unfenced_of(str(key)))
            write_id = ddl.allocate(key) if table.is_transactional else None

            def change(connection: Connection) -> Partition:
                found = self._locked(connection, key, table)
                old = self._partition(connection, found, before.name)
                self._check_partition_free(found, new_name, find_partitions(connection, found, [new_name]))
                self.require_fenced(connection, key, ddl.txn_id)
                new = replace(
                    old,
                    name=new_name,
                    values=tuple(value for _, value in parse_partition_name(new_name)),
                    location=target,
                )
                whole = self._whole(connection, old)
                rename_partition_rows(connection, found, old, new)
                rows.advance_write_id(connection, found, write_id)
                self.events.partition_altered(connection, whole, write_id=write_id)
                return self._partition(connection, found, new_name)

            with _moving(files, ddl, key, before.location, target):
                return ddl.commit(change)

    # --- altering partitions --------------------------------------------------------------------------------------

    def alter_partition(
        self, name: str, spec: PartitionSpec, asked: PartitionAlteration, *, files: DdlFiles | None = None,
        agent_info: str | None = None,
    ) -> Partition:  # fmt: skip
        """Give a partition other properties, columns, serde properties or another directory.

        As in Hive, nothing is moved when the directory changes: what lies there are the partition's rows from then on,
        and what lay in the old one stays there and is nobody's.

        :param files: fences what jobs of dead txns left running, before the directory of a partition changes.
        :raises InvalidArgumentsError: naming what cannot be, and the remedy; nothing was changed.
        :raises JobsAliveError: when the directory is to change and a job may still write into the table.
        """
        key = table_name(name)
        table = self.get_table(name)
        planned = self.get_partition(name, spec)
        self._database.read(lambda connection: self._partition_change(connection, table, planned, asked))
        if asked.columns is not None:
            self._ids.reserve(IdKind.COLUMNS, 1)
        type = LockType.SHARED_READ if asked.is_shared else LockType.EXCLUSIVE
        with ddl_transaction(self._client, [partition_lock(key, planned.name, type)], agent_info=agent_info) as ddl:
            if files is not None and asked.location is not None:
                files.fence(self._client.jobs.unfenced_of(str(key)))
            write_id = ddl.allocate(key) if table.is_transactional else None

            def operation(connection: Connection) -> Partition:
                found = self._locked(connection, key, table)
                partition = self._partition(connection, found, planned.name)
                if asked.location is not None:
                    lock_places(connection)
                before, change = self._partition_change(connection, found, partition, asked)
                if change.is_moved(before):
                    self.require_fenced(connection, key, ddl.txn_id)
                rows.write_partition(connection, found, before, change, self._user, self._ids.take)
                rows.advance_write_id(connection, found, write_id, partition.id)
                self.events.partition_altered(connection, before, write_id=write_id)
                return self._partition(connection, found, partition.name)

            return ddl.commit(operation)

    # --- dropping partitions --------------------------------------------------------------------------------------

    def drop_partitions(
        self, name: str, partitions: Iterable[PartitionSpec], *, files: DdlFiles, if_exists: bool = False,
        purge: bool = False, agent_info: str | None = None,
    ) -> list[Partition]:  # fmt: skip
        """Drop partitions of a transactional table while readers go on: the Cleaner removes the directories once every
        older snapshot has ended.

        :param files: fences jobs of dead txns, and hides the old rows from a partition that is added again.
        :param if_exists: partitions that do not exist are no error.
        :param purge: past any trash.
        :return: the partitions that were.
        """
        key = table_name(name)
        table = self.get_table(name)
        if not table.is_transactional:
            raise InvalidArgumentsError(
                f"{table.qualified_name} has no snapshots that the Cleaner could wait for; use drop_partition and "
                "remove the directory under an exclusive lock"
            )
        names = list(dict.fromkeys(table.partition_name(spec) for spec in partitions))
        there = self.find_partitions(name, names)
        if not if_exists:
            for part in names:
                if part not in there:
                    raise NoSuchObjectError(f"{table.qualified_name} has no partition {part}; nothing was dropped")
        dropped = [there[part] for part in names if part in there]
        if not dropped:
            return []
        locks = [
            LockComponent(key.database, key.name, part.name, LockType.EXCL_WRITE, Operation.DELETE) for part in dropped
        ]
        with ddl_transaction(self._client, locks, agent_info=agent_info, type=TxnType.SOFT_DELETE) as ddl:
            files.fence(self._client.jobs.unfenced_of(str(key)))
            write_id = ddl.allocate(key)
            files.hide(ddl.txn_id, write_id, table, dropped)

            def change(connection: Connection) -> list[Partition]:
                found = self._locked(connection, key, table)
                self.require_fenced(connection, key, ddl.txn_id)
                ids = [self._partition(connection, found, part.name).id for part in dropped]
                self.events.dropping_partitions(connection, found, ids)
                delete_storage(connection, delete_partitions(connection, ids))
                for part in dropped:
                    # This forgets the drop's own components, too; the request to the Cleaner comes after.
                    forget_object(connection, key.database, key.name, part.name)
                    insert_soft_delete(
                        connection, Resource(key.database, key.name, part.name), part.location, txn_id=ddl.txn_id,
                        highest_write_id=write_id, purge=purge,
                    )  # fmt: skip
                rows.advance_write_id(connection, found, write_id)
                return dropped

            return ddl.commit(change)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _alter_columns(
        self, name: str, decide: Callable[[Table], alteration.ColumnChange], agent_info: str | None, *, cascade: bool
    ) -> Table:
        decide(self.get_table(name))
        self._ids.reserve(IdKind.COLUMNS, 1)

        def change(connection: Connection, table: Table) -> None:
            rows.write_columns(connection, table, decide(table), self._user, self._ids.take, cascade=cascade)

        return self._alter(table_name(name), LockType.EXCLUSIVE, change, agent_info)

    def _alter(
        self,
        key: TableName,
        lock: LockType,
        change: Callable[[Connection, Table], None],
        agent_info: str | None,
        prepare: Callable[[], None] = lambda: None,
    ) -> Table:
        """Change a table's rows in a txn; a transactional table advances its write id.

        :param prepare: done under the lock, before the change.
        """
        before = self.get_table(str(key))
        with ddl_transaction(self._client, [table_lock(key, lock)], agent_info=agent_info) as ddl:
            prepare()
            write_id = ddl.allocate(key) if before.is_transactional else None

            def operation(connection: Connection) -> Table:
                table = self._locked(connection, key, before)
                change(connection, table)
                rows.advance_write_id(connection, table, write_id)
                return self._altered(connection, table, key, write_id)

            return ddl.commit(operation)

    def _write_table(self, connection: Connection, before: Table, after: Table) -> None:
        rows.write_table(connection, before, after, self._user, self._ids.take)

    def _altered(self, connection: Connection, before: Table, key: TableName, write_id: int | None) -> Table:
        """The table as it has become, which is told."""
        after = self.get_tables_in(connection, [key])[0]
        self.events.table_altered(connection, before, after, write_id=write_id)
        return after

    def _whole(self, connection: Connection, partition: Partition) -> WholePartition:
        return read_partitions_by_id(connection, [partition.id])[partition.id]

    def _partition_change(
        self, connection: Connection, table: Table, partition: Partition, asked: PartitionAlteration
    ) -> tuple[WholePartition, PartitionChange]:
        """What becomes of a partition, and what it is now."""
        before = self._whole(connection, partition)
        change = change_partition(table, before, asked)
        if change.is_moved(before) and not self._may_share():
            self._require_own_place(connection, table, replace(partition, location=change.after.storage.location or ""))
        return before, change

    def _require_own_place(self, connection: Connection, table: Table, part: Partition) -> None:
        """Decision 10: a partition shares its directory with nothing."""
        other = read_sharer_of_partition(connection, part.location, table.id, part.id)
        if other is not None:
            raise InvalidArgumentsError(
                f"partition {part.name} of {table.qualified_name} cannot lie at {part.location}: it would share files "
                f"with {other}; choose a directory of its own"
            )

    def _locked(self, connection: Connection, key: TableName, before: Table) -> Table:
        """The table as it is now, its row locked; not another one that took its name meanwhile."""
        rows.lock_table_row(connection, before.id)
        table = self.get_tables_in(connection, [key])[0]
        if table.id != before.id or table.is_transactional != before.is_transactional:
            raise InvalidArgumentsError(f"{key} was made anew or altered by somebody else just now; try again")
        return table

    def _check_free(self, new: TableName, taken: Table | None) -> None:
        if taken is not None:
            raise AlreadyExistsError(f"table {new} exists already, at {taken.location}; drop or rename it first")

    def _check_partition_free(self, table: Table, name: str, found: Mapping[str, Partition]) -> None:
        if name in found:
            raise AlreadyExistsError(
                f"{table.qualified_name} has a partition {name} already, at {found[name].location}"
            )

    def _new_location(self, table: Table, new: TableName, *, moves: bool) -> str:
        """Where a renamed table lies: managed tables that lie where their name says go along with it."""
        old_home, home = self.get_database(table.db).managed_location, self.get_database(new.database).managed_location
        by_name = table.type == MANAGED_TABLE and table.location == join(old_home, table.name)
        return join(home, new.name) if moves and by_name else table.location


def _moving(
    files: DdlFiles | None, ddl: DdlTransaction, key: TableName, source: str, target: str
) -> AbstractContextManager[None]:  # fmt: skip
    """Around the commit of what gives a directory another name."""
    if files is None or source == target:
        return contextlib.nullcontext()
    return files.moving(ddl.txn_id, key, [(source, target)])
