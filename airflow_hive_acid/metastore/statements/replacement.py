"""CREATE OR REPLACE of a transactional table: its definition, changed in the commit of what fills it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.catalog.rows import alteration as rows
from airflow_hive_acid.metastore.catalog.rows import constraints as constraint_rows
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind
from airflow_hive_acid.metastore.catalog.values.constraints import check_constraints
from airflow_hive_acid.metastore.catalog.values.replacement import replaced
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.txns.statistics import STATISTICS_ACCURATE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.constraints import Constraint
    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.statements.locked_tables import LockedTables


class ReplacementStatements:
    """What replaces a table's definition."""

    def __init__(self, tables: LockedTables) -> None:
        self._tables = tables
        self._catalog = tables.catalog

    def reserve_replacement(self) -> None:
        """Fetch the ids that a replacement may need, before the transaction that makes it."""
        self._catalog.ids.reserve(IdKind.COLUMNS, 1)

    def replace_table_in(
        self, connection: Connection, before: Table, new: Table, constraints: Sequence[Constraint], write_id: int
    ) -> Table:
        """Inside a commit: the table is what a statement describes; its events are written by whoever ends it.

        :param before: as it was under the locks; another table of its name is refused.
        :param new: what the statement describes.
        :param constraints: those that it has from now on.
        :raises InvalidArgumentsError: when it was altered meanwhile, so that it cannot be.
        """
        key = table_name(before.qualified_name)
        table = self._tables.locked(connection, key, before)
        wanted = replaced(table, new)
        user, take = self._catalog.changes.user, self._catalog.ids.take
        rows.write_columns(connection, table, wanted.change, user, take, cascade=True)
        [changed] = self._catalog.get_tables_in(connection, [key])
        properties = {key: value for key, value in wanted.table.properties.items() if key != STATISTICS_ACCURATE}
        if STATISTICS_ACCURATE in changed.properties:
            properties[STATISTICS_ACCURATE] = changed.properties[STATISTICS_ACCURATE]
        self._tables.write_table(connection, changed, replace(changed, properties=properties))
        constraint_rows.delete_constraints(connection, table)
        checked = check_constraints(
            f"table {key}", constraints, [c.name for c in changed.columns], [c.name for c in changed.partition_columns]
        )
        constraint_rows.insert_constraints(connection, changed, checked)
        rows.advance_write_id(connection, table, write_id)
        return self._tables.altered(connection, table, key, write_id)
