"""What the catalog's verbs write to the notification log: one call per verb, in the verb's own transaction.

An object that changes or goes is read before, one that comes is read after. Events are only collected here; they are
written as the last thing of the transaction, because the sequence they take their ids from is everybody's (R15).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import bindparam, select

from airflow_hive_acid.metastore.catalog.thrift import messages
from airflow_hive_acid.metastore.catalog.thrift.reader import (
    read_database_object,
    read_partition_objects,
    read_table_objects,
)
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_catalog import PARTITIONS
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.thrift.objects import PartitionObject
    from airflow_hive_acid.metastore.notifications.events import Event
    from airflow_hive_acid.metastore.notifications.log import Notifications

T = TypeVar("T")
PARTITIONS_PER_EVENT = 1000
"""More partitions than this are told in several events, so that no message grows without bound."""
_SELECT_IDS = select(PARTITIONS.c.PART_ID).where(
    PARTITIONS.c.TBL_ID == bindparam("table"), PARTITIONS.c.PART_NAME.in_(bindparam("names", expanding=True))
)


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

    def database_created(self, connection: Connection, name: str) -> None:
        """CREATE_DATABASE, after the row was written."""
        if self.enabled(connection) and (database := read_database_object(connection, name)):
            self._later(connection, messages.create_database(database))

    def dropping_database(self, connection: Connection, name: str) -> None:
        """DROP_DATABASE, before the rows are deleted."""
        if self.enabled(connection) and (database := read_database_object(connection, name)):
            self._later(connection, messages.drop_database(database))

    @contextmanager
    def altering_database(self, connection: Connection, name: str) -> Iterator[None]:
        """ALTER_DATABASE, around a change of its rows."""
        before = read_database_object(connection, name) if self.enabled(connection) else None
        yield
        if before is not None and (after := read_database_object(connection, name)):
            self._later(connection, messages.alter_database(before, after))

    def table_created(self, connection: Connection, table_id: int) -> None:
        """CREATE_TABLE, after its rows were written."""
        if self.enabled(connection):
            self._later(
                connection, *(messages.create_table(t) for t in read_table_objects(connection, [table_id]).values())
            )

    def dropping_table(self, connection: Connection, table_id: int) -> None:
        """DROP_TABLE, before its rows are deleted; its partitions go without a word, as in Hive."""
        if self.enabled(connection):
            self._later(
                connection, *(messages.drop_table(t) for t in read_table_objects(connection, [table_id]).values())
            )

    @contextmanager
    def altering_table(
        self, connection: Connection, table_id: int, *, write_id: int | None = None, truncated: bool = False
    ) -> Iterator[None]:
        """ALTER_TABLE, around a change of its rows; renaming it is one.

        :param write_id: of the change, None outside a txn.
        :param truncated: whether the change takes its data.
        """
        before = read_table_objects(connection, [table_id]) if self.enabled(connection) else {}
        yield
        if before:
            after = read_table_objects(connection, [table_id])[table_id]
            event = messages.alter_table(before[table_id], after, write_id=write_id, truncated=truncated)
            self._later(connection, event)

    def partitions_added(self, connection: Connection, table_id: int, names: Sequence[str]) -> None:
        """ADD_PARTITION, after their rows were written."""
        if not names or not self.enabled(connection):
            return
        table = read_table_objects(connection, [table_id])[table_id]
        for batch in chunks(names, PARTITIONS_PER_EVENT):
            ids = connection.execute(_SELECT_IDS, {"table": table_id, "names": list(batch)}).scalars().all()
            self._later(
                connection, messages.add_partitions(table, list(read_partition_objects(connection, ids).values()))
            )

    def dropping_partitions(self, connection: Connection, table_id: int, part_ids: Sequence[int]) -> None:
        """DROP_PARTITION, before their rows are deleted."""
        if not part_ids or not self.enabled(connection):
            return
        table = read_table_objects(connection, [table_id])[table_id]
        for batch in chunks(part_ids, PARTITIONS_PER_EVENT):
            self._later(
                connection, messages.drop_partitions(table, list(read_partition_objects(connection, batch).values()))
            )

    @contextmanager
    def altering_partitions(
        self,
        connection: Connection,
        table_id: int,
        part_ids: Sequence[int],
        *,
        write_id: int | None = None,
        truncated: bool = False,
    ) -> Iterator[None]:
        """ALTER_PARTITION of one, ALTER_PARTITIONS of several, around a change of their rows; renaming one is one.

        :param write_id: of the change to one partition; several tell their own, which the change has set.
        """
        enabled = bool(part_ids) and self.enabled(connection)
        before = read_partition_objects(connection, part_ids) if enabled and len(part_ids) == 1 else {}
        yield
        if not enabled:
            return
        table = read_table_objects(connection, [table_id])[table_id]
        for batch in chunks(part_ids, PARTITIONS_PER_EVENT):
            after = read_partition_objects(connection, batch)
            for part_id, old in before.items():
                event = messages.alter_partition(table, old, after[part_id], write_id=write_id, truncated=truncated)
                self._later(connection, event)
            if not before:
                self._later(connection, *messages.alter_partitions(table, after.values(), truncated=truncated))

    def losing_statistics(self, connection: Connection, exact: Iterable[Sequence[Any]]) -> None:
        """ALTER_TABLE and ALTER_PARTITIONS of a commit that makes statistics inexact, before it does.

        :param exact: what ``catalog_statistics.SELECT_EXACT`` found: table, partition or None, write id.
        """
        rows = list(exact)
        if not rows or not self.enabled(connection):
            return
        tables = read_table_objects(connection, [row[0] for row in rows])
        changed: dict[int, dict[int, int | None]] = {}
        for table_id, part_id, write_id in rows:
            if part_id is not None:
                changed.setdefault(table_id, {})[part_id] = write_id
            else:
                before = tables[table_id]
                after = replace(
                    before, parameters=_inexact(before.parameters), write_id=max(write_id or 0, before.write_id)
                )
                self._later(connection, messages.alter_table(before, after, write_id=write_id))
        for table_id, parts in changed.items():
            for batch in chunks(list(parts), PARTITIONS_PER_EVENT):
                found = read_partition_objects(connection, batch)
                after_all = [_with_write_id(partition, parts[part_id]) for part_id, partition in found.items()]
                self._later(connection, *messages.alter_partitions(tables[table_id], after_all))

    def _later(self, connection: Connection, *events: Event) -> None:
        if self._log is not None:
            self._log.later(connection, events)


def _with_write_id(partition: PartitionObject, write_id: int | None) -> PartitionObject:
    return replace(
        partition, parameters=_inexact(partition.parameters), write_id=max(write_id or 0, partition.write_id)
    )


def _inexact(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key != STATISTICS_ACCURATE}
