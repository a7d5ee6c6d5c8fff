"""Writing tables and partitions whole, as values, and telling the notification log what was written.

Where an object exists, only what differs is written; which rows that are, :mod:`.rows.objects` knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.metastore.catalog.rows.ids import IdKind, IdPool
from airflow_hive_acid.metastore.catalog.rows.objects import (
    database_ids,
    insert_partitions,
    insert_tables,
    update_partitions,
    update_tables,
)
from airflow_hive_acid.metastore.catalog.thrift import messages
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import TableName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Table, WholePartition
    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.notifications.log import Notifications

_AT_ONCE = 200  # partitions that one event names


@dataclass(frozen=True, slots=True)
class TableWrite:
    """A table that is to be as ``after`` says; its id is that of ``before``, or a new one.

    :param cascade: let partitions that share its columns follow when these change.
    """

    after: Table
    before: Table | None = None
    cascade: bool = False

    @property
    def name(self) -> TableName:
        """Its name."""
        return TableName(self.after.db, self.after.name)


@dataclass(frozen=True, slots=True)
class PartitionWrite:
    """A partition that is to be as ``after`` says."""

    after: WholePartition
    before: WholePartition | None = None


class CatalogWriter:
    """Writes tables and partitions inside somebody's transaction; events are collected for its end.

    :param log: where changes are told.
    :param ids: where new ids come from; by default a pool of its own, whose rest is given up.
    """

    def __init__(self, database: Database, log: Notifications, ids: IdPool | None = None) -> None:
        self._ids = ids or IdPool(database)
        self._log = log

    def reserve(self, tables: int, partitions: int) -> None:
        """Fetch ids ahead of the transaction that may need them."""
        for kind, count in (
            (IdKind.TABLE, tables), (IdKind.PARTITION, partitions), (IdKind.COLUMNS, tables),
            (IdKind.STORAGE, tables + partitions), (IdKind.SERDE, tables + partitions),
        ):  # fmt: skip
            self._ids.reserve(kind, count)

    def write_tables(self, connection: Connection, writes: Sequence[TableWrite]) -> dict[TableName, Table]:
        """Create and change tables; each may be named once.

        :return: the tables with their ids.
        """
        new = [write.after for write in writes if write.before is None]
        old = [(write.before, write.after, write.cascade) for write in writes if write.before is not None]
        databases = database_ids(connection, new)
        listed = [
            *insert_tables(connection, new, databases, self._ids.take), *update_tables(connection, old, self._ids.take)
        ]  # fmt: skip
        written = {TableName(table.db, table.name): table for table in listed}
        self._tell(
            connection,
            [
                messages.create_table(written[w.name]) if w.before is None
                else messages.alter_table(w.before, written[w.name])
                for w in writes
            ],
        )  # fmt: skip
        return written

    def write_partitions(
        self, connection: Connection, writes: Sequence[tuple[Table, Sequence[PartitionWrite]]]
    ) -> None:
        """Add and change partitions of tables (with their ids); each table and partition may be named once."""
        new = [(table, write.after) for table, several in writes for write in several if write.before is None]
        old = [
            (table, write.before, write.after)
            for table, several in writes
            for write in several
            if write.before is not None
        ]
        insert_partitions(connection, new, self._ids.take)
        update_partitions(connection, old, self._ids.take)
        events = []
        for table, several in writes:
            added = [write.after for write in several if write.before is None]
            events += [messages.add_partitions(table, list(part)) for part in chunks(added, _AT_ONCE)]
            events += [
                messages.alter_partition(table, write.before, write.after)
                for write in several
                if write.before is not None
            ]
        self._tell(connection, events)

    def _tell(self, connection: Connection, events: Sequence[Any]) -> None:
        if events and self._log.enabled(connection):
            self._log.later(connection, events)
