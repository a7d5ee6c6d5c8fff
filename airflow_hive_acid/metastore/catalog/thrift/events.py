"""What the catalog's verbs write to the notification log: one call per verb, in the verb's own transaction.

An object that changes or goes is read before, one that comes is read after. Events are only collected here; they are
written as the last thing of the transaction, because the sequence they take their ids from is everybody's (R15).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_hive_acid.metastore.catalog.rows.partitions import find_partitions
from airflow_hive_acid.metastore.catalog.rows.reader import read_partitions_by_id, read_tables, read_tables_by_id
from airflow_hive_acid.metastore.catalog.thrift import messages
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Database, Table, WholePartition
    from airflow_hive_acid.metastore.notifications.events import Event
    from airflow_hive_acid.metastore.notifications.log import Notifications

T = TypeVar("T")
PARTITIONS_PER_EVENT = 1000
"""More partitions than this are told in several events, so that no message grows without bound."""


class CatalogEvents:
    """Collects the events of catalog verbs.

    :param log: where they are written in the end; without one nothing is.
    """

    def __init__(self, log: Notifications | None) -> None:
        self._log = log

    def enabled(self, connection: Connection) -> bool:
        """Whether events are written."""
        return self._log is not None and self._log.enabled(connection)

    def finish(self, connection: Connection) -> None:
        """Write what was collected, as the last thing of a transaction."""
        if self._log is not None:
            self._log.write(connection, [])

    def finishing(self, operation: Callable[[Connection], T]) -> Callable[[Connection], T]:
        """An operation that is a transaction of its own, with its events as the last thing."""

        def whole(connection: Connection) -> T:
            result = operation(connection)
            self.finish(connection)
            return result

        return whole

    def database_created(self, connection: Connection, database: Database) -> None:
        """CREATE_DATABASE, after the row was written."""
        if self.enabled(connection):
            self._later(connection, messages.create_database(database))

    def dropping_database(self, connection: Connection, database: Database) -> None:
        """DROP_DATABASE."""
        if self.enabled(connection):
            self._later(connection, messages.drop_database(database))

    def database_altered(self, connection: Connection, before: Database, after: Database) -> None:
        """ALTER_DATABASE, with what it was and what it is."""
        if self.enabled(connection):
            self._later(connection, messages.alter_database(before, after))

    def table_created(self, connection: Connection, table: Table) -> None:
        """CREATE_TABLE, after its rows were written."""
        if self.enabled(connection):
            self._later(connection, messages.create_table(table))

    def dropping_table(self, connection: Connection, table: Table) -> None:
        """DROP_TABLE; its partitions go without a word, as in Hive."""
        if self.enabled(connection):
            self._later(connection, messages.drop_table(table))

    def table_altered(
        self, connection: Connection, before: Table, after: Table, *, write_id: int | None = None
    ) -> None:
        """ALTER_TABLE, with what it was and what it is; renaming it is one.

        :param write_id: of the change, None outside a txn.
        """
        if self.enabled(connection):
            self._later(connection, messages.alter_table(before, after, write_id=write_id))

    def partitions_added(self, connection: Connection, table: Table, names: Sequence[str]) -> None:
        """ADD_PARTITION, after their rows were written."""
        if not names or not self.enabled(connection):
            return
        for batch in chunks(names, PARTITIONS_PER_EVENT):
            ids = [part.id for part in find_partitions(connection, table, batch).values()]
            added = list(read_partitions_by_id(connection, ids).values())
            self._later(connection, messages.add_partitions(table, added))

    def dropping_partitions(self, connection: Connection, table: Table, part_ids: Sequence[int]) -> None:
        """DROP_PARTITION, before their rows are deleted."""
        if not part_ids or not self.enabled(connection):
            return
        for batch in chunks(part_ids, PARTITIONS_PER_EVENT):
            gone = list(read_partitions_by_id(connection, batch).values())
            self._later(connection, messages.drop_partitions(table, gone))

    def partition_altered(self, connection: Connection, before: WholePartition, *, write_id: int | None = None) -> None:
        """ALTER_PARTITION, after its rows were changed; renaming it is one.

        :param write_id: of the change, None outside a txn.
        """
        if self.enabled(connection):
            key = TableName(before.db, before.table)
            table = read_tables(connection, [key])[key]
            after = read_partitions_by_id(connection, [before.id])[before.id]
            self._later(connection, messages.alter_partition(table, before, after, write_id=write_id))

    def partitions_altered(self, connection: Connection, table: Table, part_ids: Sequence[int]) -> None:
        """ALTER_PARTITIONS, after the rows of several were changed."""
        if self.enabled(connection):
            for batch in chunks(part_ids, PARTITIONS_PER_EVENT):
                found = read_partitions_by_id(connection, batch)
                self._later(connection, *messages.alter_partitions(table, found.values()))

    def losing_statistics(self, connection: Connection, exact: Iterable[Sequence[Any]]) -> None:
        """ALTER_TABLE and ALTER_PARTITIONS of a commit that makes statistics inexact, before it does.

        :param exact: what ``catalog_statistics.SELECT_EXACT`` found: table, partition or None, write id.
        """
        rows = list(exact)
        if not rows or not self.enabled(connection):
            return
        tables = read_tables_by_id(connection, [table_id for table_id, _, _ in rows])
        changed: dict[int, dict[int, int | None]] = {}
        for table_id, part_id, write_id in rows:
            if part_id is not None:
                changed.setdefault(table_id, {})[part_id] = write_id
            else:
                before = tables[table_id]
                after = replace(
                    before, properties=_inexact(before.properties), write_id=max(write_id or 0, before.write_id)
                )
                self._later(connection, messages.alter_table(before, after, write_id=write_id))
        for table_id, parts in changed.items():
            for batch in chunks(list(parts), PARTITIONS_PER_EVENT):
                found = read_partitions_by_id(connection, batch)
                after_all = [_with_write_id(partition, parts[part_id]) for part_id, partition in found.items()]
                self._later(connection, *messages.alter_partitions(tables[table_id], after_all))

    def _later(self, connection: Connection, *events: Event) -> None:
        if self._log is not None:
            self._log.later(connection, events)


def _with_write_id(partition: WholePartition, write_id: int | None) -> WholePartition:
    return replace(
        partition, properties=_inexact(partition.properties), write_id=max(write_id or 0, partition.write_id)
    )


def _inexact(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key != STATISTICS_ACCURATE}
