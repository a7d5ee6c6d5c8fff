"""Partitions of tables: read, added and dropped, each change in one database transaction, by the table's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.metastore.catalog.rows.drop import delete_storage, forget_partitions
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind
from airflow_hive_acid.metastore.catalog.rows.partitions import (
    add_partitions,
    delete_partitions,
    find_partitions,
    names_there,
    partitions_elsewhere,
    read_partition_properties,
    read_partitions,
)
from airflow_hive_acid.metastore.catalog.rows.reader import (
    read_tables,
    read_whole_partitions,
    require_tables,
)
from airflow_hive_acid.metastore.names.objects import TableName, table_name
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.changes import CatalogChanges
    from airflow_hive_acid.metastore.catalog.values.model import (
        Partition,
        PartitionSpec,
        Table,
        WholePartition,
    )
    from airflow_hive_acid.metastore.catalog.values.partition_conditions import PartitionFilter


class CatalogPartitions:
    """The partitions of the tables of one metastore; :class:`~.catalog.Catalog` lists what it can do.

    :param changes: how they are changed.
    """

    def __init__(self, changes: CatalogChanges) -> None:
        self._changes = changes
        self._ids = changes.ids
        self._database = changes.database

    def list_partitions(
        self, name: str, filter: PartitionFilter | None = None, limit: int | None = None, *, after: str | None = None,
        keeps: Callable[[Sequence[str]], bool] | None = None,
    ) -> list[Partition]:  # fmt: skip
        """The partitions of a table in the order of their names.

        :param filter: a condition, or per partition column one value or several; the database evaluates it.
        :param limit: at most this many; ``after`` is the name of the last one of the page before.
        :param keeps: judges values while the rows are read; what it drops is never held.
        """
        key = table_name(name)

        def operation(connection: Connection) -> list[Partition]:
            table = require_tables(connection, [key])[0]
            found = read_partitions(connection, table, filter, limit, after)
            return [partition for partition in found if keeps is None or keeps(partition.values)]

        return self._database.read(operation)

    def count_partitions(self, name: str) -> int:
        """How many partitions a table has; none is read."""
        key = table_name(name)

        def operation(connection: Connection) -> int:
            table = require_tables(connection, [key])[0]
            counted = select(func.count()).select_from(PARTITIONS).where(PARTITIONS.c.TBL_ID == table.id)
            return int(connection.execute(counted).scalar_one())

        return self._database.read(operation)

    def get_partition(self, name: str, spec: PartitionSpec) -> Partition:
        """One partition, by name or values.

        :raises NoSuchObjectError: when the table has no such partition.
        """
        key = table_name(name)

        def operation(connection: Connection) -> Partition:
            table = require_tables(connection, [key])[0]
            return self.partition_in(connection, table, spec)

        return self._database.read(operation)

    def get_whole_partition(self, name: str, spec: PartitionSpec) -> WholePartition:
        """One partition with all that belongs to it, by name or values.

        :raises NoSuchObjectError: when the table has no such partition.
        """
        key = table_name(name)

        def operation(connection: Connection) -> WholePartition:
            table = require_tables(connection, [key])[0]
            found = self.partition_in(connection, table, spec).name
            return read_whole_partitions(connection, [(table.id, found)])[table.id, found]

        return self._database.read(operation)

    def partition_properties(self, name: str, partition: str) -> dict[str, str]:
        """The parameters of a partition, by name; empty when it does not exist."""
        key = table_name(name)

        def operation(connection: Connection) -> dict[str, str]:
            table = read_tables(connection, [key]).get(key)
            found = {} if table is None else find_partitions(connection, table, [partition])
            return read_partition_properties(connection, found[partition].id) if partition in found else {}

        return self._database.read(operation)

    def find_partitions(self, name: str, names: Sequence[str]) -> dict[str, Partition]:
        """Those of the partitions that exist, by name; looked up by their names alone."""
        key = table_name(name)

        def operation(connection: Connection) -> dict[str, Partition]:
            table = require_tables(connection, [key])[0]
            return find_partitions(connection, table, names)

        return self._database.read(operation)

    def partitions_elsewhere(self, name: str, most: int, only: str | None = None) -> dict[str, str]:
        """The partitions that do not lie where their names say.

        :param most: of them at most so many.
        :param only: ask for the partition of this name alone.
        :return: URIs of their directories, by name.
        """
        key = table_name(name)

        def operation(connection: Connection) -> dict[str, str]:
            return partitions_elsewhere(connection, require_tables(connection, [key])[0], most, only)

        return self._database.read(operation)

    def add_partitions(self, name: str, partitions: Iterable[PartitionSpec], if_not_exists: bool = True) -> list[str]:
        """Add empty partitions to a table.

        :param partitions: names, values, or values by column.
        :return: the names that are new.
        :raises AlreadyExistsError: when one exists and ``if_not_exists`` is off; nothing was added then.
        """
        wanted = list(partitions)
        key = table_name(name)
        self.reserve_partition_ids(len(wanted))

        def operation(connection: Connection) -> list[str]:
            return self.add_partitions_in(connection, key, wanted, if_not_exists=if_not_exists)

        return self._changes.run(operation)

    def reserve_partition_ids(self, count: int) -> None:
        """Fetch the ids of so many partitions, before the transaction that adds them."""
        for kind in (IdKind.PARTITION, IdKind.STORAGE, IdKind.SERDE):
            self._ids.reserve(kind, count)

    def add_partitions_in(
        self,
        connection: Connection,
        key: TableName,
        partitions: Iterable[PartitionSpec],
        *,
        write_id: int | None = None,
        if_not_exists: bool = True,
    ) -> list[str]:
        """The same inside a transaction; its events are written by whoever ends it.

        :param key: the table.
        :param write_id: the write id whose commit this is part of; None for partitions known to be empty.
        """
        table = require_tables(connection, [key])[0]
        names = [table.partition_name(spec) for spec in partitions]
        new = add_partitions(
            connection, table, names, write_id=write_id, if_not_exists=if_not_exists, take_ids=self._ids.take
        )
        self._changes.events.partitions_added(connection, table, new)
        return new

    def drop_partition(self, name: str, spec: PartitionSpec, *, if_exists: bool = False) -> Partition | None:
        """Drop a partition and what the txn tables remember of it; its directory is left to the caller.

        :return: the partition that was; None when there was none and ``if_exists`` is on.
        """
        key = table_name(name)

        def operation(connection: Connection) -> Partition | None:
            table = require_tables(connection, [key])[0]
            found = find_partitions(connection, table, names_there(connection, table, [spec]))
            if if_exists and not found:
                return None
            partition = self.partition_in(connection, table, spec)
            self._changes.require_fenced(connection, key)
            self._changes.events.dropping_partitions(connection, table, [partition.id])
            delete_storage(connection, delete_partitions(connection, [partition.id]))
            forget_partitions(connection, key, [partition.name])
            return partition

        return self._changes.run(operation)

    def partition_in(self, connection: Connection, table: Table, spec: PartitionSpec) -> Partition:
        """One partition, inside a transaction.

        :raises NoSuchObjectError: when the table has no such partition.
        """
        (name,) = names_there(connection, table, [spec])
        found = find_partitions(connection, table, [name])
        if name not in found:
            raise NoSuchObjectError(f"{table.qualified_name} has no partition {name}")
        return found[name]
