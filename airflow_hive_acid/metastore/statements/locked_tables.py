"""What ALTER, RENAME, ADD and DROP PARTITION have alike: the table under its lock, and what is told of its change."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.catalog.rows import alteration as rows
from airflow_hive_acid.metastore.catalog.rows.reader import read_partitions_by_id
from airflow_hive_acid.metastore.catalog.rows.sharing import read_homes_in, read_sharers_of_partitions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.catalog import Catalog
    from airflow_hive_acid.metastore.catalog.values.model import Partition, Table, WholePartition
    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.protocol.ddl import DdlFiles, DdlTransaction
    from airflow_hive_acid.metastore.verbs import Verbs


class LockedTables:
    """Tables under the locks of a statement, read again, changed and told.

    :param catalog: what they are read from.
    :param client: opens their txns; its user is noted as who changed a table.
    """

    def __init__(self, catalog: Catalog, client: Verbs) -> None:
        self.catalog = catalog
        self.client = client
        self._changes = catalog.changes

    def write_table(self, connection: Connection, before: Table, after: Table) -> None:
        """Make a table what it shall be."""
        rows.write_table(connection, before, after, self._changes.user, self._changes.ids.take)

    def altered(self, connection: Connection, before: Table, key: TableName, write_id: int | None) -> Table:
        """The table as it has become, which is told."""
        after = self.catalog.get_tables_in(connection, [key])[0]
        self.catalog.events.table_altered(connection, before, after, write_id=write_id)
        return after

    def whole(self, connection: Connection, partition: Partition) -> WholePartition:
        """A partition with all that belongs to it."""
        return read_partitions_by_id(connection, [partition.id])[partition.id]

    def require_own_places(self, connection: Connection, table: Table, partitions: Sequence[Partition]) -> None:
        """Decision 10: a partition shares its directory with nothing."""
        sharers = read_sharers_of_partitions(connection, table, partitions)
        homes = read_homes_in(connection, [part.location for part in partitions])
        for part in partitions:
            other = sharers.get(part.id) or homes.get(part.location)
            if other is not None:
                raise InvalidArgumentsError(
                    f"partition {part.name} of {table.qualified_name} cannot lie at {part.location}: it would share "
                    f"files with {other}; choose a directory of its own"
                )

    def locked(self, connection: Connection, key: TableName, before: Table) -> Table:
        """The table as it is now, its row locked; not another one that took its name meanwhile."""
        rows.lock_table_row(connection, before.id)
        table = self.catalog.get_tables_in(connection, [key])[0]
        if table.id != before.id or table.is_transactional != before.is_transactional:
            raise InvalidArgumentsError(f"{key} was made anew or altered by somebody else just now; try again")
        return table


def moving(
    files: DdlFiles | None, ddl: DdlTransaction, key: TableName, source: str, target: str
) -> AbstractContextManager[None]:  # fmt: skip
    """Around the commit of what gives a directory another name."""
    if files is None or source == target:
        return contextlib.nullcontext()
    return files.moving(ddl.txn_id, key, [(source, target)])
