"""CREATE TABLE … AS: the columns of a query as those of a new table, and the table made in the commit of its rows.

Until that commit the table is a value of this process, its directory a record of the txn (decision 40): whoever dies
before leaves no table, and whoever gives the txn up takes the files along. Jobs, write ids and locks go by the name
that the table will have, as in Hive.
"""

from __future__ import annotations

import functools
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.definitions.ddl import mark_place, require_place, settle_warehouse
from airflow_hive_acid.engine.tables.lookup import Creation
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.maintenance.warehouse.fences import fence_jobs_of
from airflow_hive_acid.metastore.catalog import new_table, normalise_type, replaced
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.txns import forget
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.lineage.declared import declared_types, without_lengths
from airflow_hive_acid.sql.model.statements import ColumnDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.outcomes.results import StatementResult
    from airflow_hive_acid.metastore.catalog import Table, TableDefinition
    from airflow_hive_acid.sql.model.statements import Select

_PLAIN_NAME = re.compile(r"[a-z0-9_]+")
_OF_SPARK = {"timestamp_ntz": "timestamp", "void": "string"}


def hive_type(kind: str) -> str:
    """The Hive type that holds the values of a type of Spark.

    :raises InvalidArgumentsError: for a type that Hive does not have.
    """
    return normalise_type(_OF_SPARK.get(kind, kind))


def columns_of(result: StatementResult) -> tuple[ColumnDefinition, ...]:
    """The columns of a query; one without a name is called ``_cN`` by its place, as in Hive.

    :raises InvalidArgumentsError: for a name that comes twice, and for a type that Hive does not have.
    """
    if result.rows is None:
        raise AssertionError("a query without columns")
    found: list[ColumnDefinition] = []
    for number, column in enumerate(result.rows.columns):
        name = column.name.lower()
        if not _PLAIN_NAME.fullmatch(name):
            name = f"_c{number}"
        if any(name == other.name for other in found):
            raise InvalidArgumentsError(f"the query gives two columns called {name}; give one of them an alias")
        found.append(ColumnDefinition(name, hive_type(column.type)))
    return tuple(found)


def with_declared_types(context: Context, select: Select, result: StatementResult) -> StatementResult:
    """The result of a query whose columns have the lengths of CHAR and VARCHAR again, as in Hive.

    :param select: the query.
    """
    rows = result.rows
    if rows is None:
        raise AssertionError("a query without columns")
    table_of = functools.cache(context.table)
    declared = declared_types(select, table_of, context.views, context.queries, parse_script)
    if len(declared) != len(rows.columns):
        return result
    columns = tuple(
        replace(column, type=kind)
        if kind is not None and name in ("", column.name.lower()) and without_lengths(kind) == column.type
        else column
        for column, (name, kind) in zip(rows.columns, declared, strict=True)
    )
    return replace(result, rows=replace(rows, columns=columns))


def divided(
    columns: tuple[ColumnDefinition, ...], partition_columns: tuple[ColumnDefinition, ...]
) -> tuple[tuple[ColumnDefinition, ...], tuple[ColumnDefinition, ...]]:
    """Data columns and partition columns of a query's; the latter in the order of PARTITIONED BY.

    :raises InvalidArgumentsError: when the query gives no such column.
    """
    given = {column.name: column for column in columns}
    for key in partition_columns:
        if key.name not in given:
            raise InvalidArgumentsError(
                f"the query gives no column {key.name} to partition by; it gives {', '.join(given)}"
            )
    keys = tuple(given[key.name] for key in partition_columns)
    return tuple(column for column in columns if column not in keys), keys


@contextmanager
def creating(context: Context, definition: TableDefinition) -> Iterator[Table]:
    """While a block plans and runs what fills a table that does not exist yet.

    :raises InvalidArgumentsError: when something lies in its directory already.
    """
    settle_warehouse(context)
    require_place(context, definition)
    planned = context.client.catalog.plan_table(definition)
    table = new_table(planned)
    context.tables.creations[table.qualified_name] = Creation(replace(definition, location=planned.location), table)
    try:
        yield table
    finally:
        del context.tables.creations[table.qualified_name]
    mark_place(context, table)


class Creations:
    """The tables that one transaction makes, or gives another definition.

    :param tables: names of those that it writes.
    """

    def __init__(self, context: Context, txn_id: int, tables: Iterable[str]) -> None:
        self._context = context
        self._txn_id = txn_id
        self._wanted = {name: context.tables.creations[name] for name in tables if name in context.tables.creations}
        self._replaced = {
            name: context.tables.replacements[name] for name in tables if name in context.tables.replacements
        }
        self._files = WarehouseFiles(context.client, context.filesystem)

    def __contains__(self, name: str) -> bool:
        return name in self._wanted

    def begin(self) -> None:
        """Make their directories, on record."""
        if self._replaced:
            self._context.client.catalog.reserve_replacement()
        for name, creation in self._wanted.items():
            self._context.client.catalog.reserve_table_ids()
            self._files.make(self._txn_id, table_name(name), [creation.table.location])

    def create_in(self, connection: Connection, write_ids: Mapping[str, int]) -> dict[str, Table]:
        """Inside the commit: the tables are there, and nobody takes them for empty."""
        made: dict[str, Table] = {}
        for name, creation in self._wanted.items():
            made[name] = self._context.client.catalog.create_table_in(connection, creation.definition)
            forget(connection, [(made[name].id, None, write_ids.get(name))])
        return made

    def shape_of(self, table: Table) -> Table:
        """A table as it is to be written: with the definition that it gets."""
        replacement = self._replaced.get(table.qualified_name)
        return table if replacement is None else replaced(table, replacement.table).table

    def replace_in(
        self, connection: Connection, write_ids: Mapping[str, int], table_of: Callable[[str], Table]
    ) -> dict[str, Table]:
        """Inside the commit: the tables are what they are replaced by.

        :param table_of: a table as it was under the locks.
        """
        return {
            name: self._context.client.catalog.replace_table_in(
                connection, table_of(name), replacement.table, replacement.definition.constraints, write_ids[name]
            )
            for name, replacement in self._replaced.items()
        }

    def give_up(self) -> None:
        """Before the txn is aborted: nothing of it stays in a place that may be another table's next."""
        if self._wanted:
            context = self._context
            fence_jobs_of(context.client, context.filesystem, [self._txn_id], "its statement failed")
            self._files.clear(self._txn_id)
