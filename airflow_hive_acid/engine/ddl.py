"""CREATE and DROP of databases and tables: rows in the catalog, directories in the warehouse.

The catalog decides first, in one transaction; directories are made or removed after it. A table is dropped under an
EXCLUSIVE lock, so nobody reads or writes it meanwhile.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import is_hidden
from airflow_hive_acid.metastore.catalog_model import TableDefinition
from airflow_hive_acid.sql.statements import CreateDatabase, CreateTable, DropDatabase, DropTable

if TYPE_CHECKING:
    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.metastore.catalog_model import DroppedTable

DdlStatement = CreateDatabase | DropDatabase | CreateTable | DropTable


def run_ddl(context: Context, statement: DdlStatement) -> None:
    """Run one DDL statement."""
    match statement:
        case CreateDatabase():
            _create_database(context, statement)
        case DropDatabase():
            _drop_database(context, statement)
        case CreateTable():
            _create_table(context, statement)
        case DropTable():
            _drop_table(context, statement)


def _settle_warehouse(context: Context) -> None:
    """Tell a new metastore where its tables go."""
    if context.warehouse is not None and context.client.catalog.warehouse() is None:
        context.client.catalog.set_warehouse(context.warehouse)


def _create_database(context: Context, statement: CreateDatabase) -> None:
    _settle_warehouse(context)
    database = context.client.catalog.create_database(
        statement.name, statement.location, statement.if_not_exists, description=statement.comment
    )
    for location in {database.location, database.managed_location}:
        context.filesystem.make_directory(location)


def _create_table(context: Context, statement: CreateTable) -> None:
    _settle_warehouse(context)
    comments = {c.name: c.comment for c in (*statement.columns, *statement.partition_columns) if c.comment}
    properties = dict(statement.properties)
    if statement.comment is not None:
        properties["comment"] = statement.comment
    definition = TableDefinition(
        db=statement.table.database,
        name=statement.table.name,
        columns=tuple(Column(c.name, c.type) for c in statement.columns),
        partition_columns=tuple(Column(c.name, c.type) for c in statement.partition_columns),
        properties=properties,
        location=statement.location,
        bucket_columns=statement.bucket_columns,
        bucket_count=statement.bucket_count or -1,
        comments=comments,
        external=statement.external,
    )
    name = str(statement.table)
    catalog = context.client.catalog
    if not catalog.find_tables([name]):
        planned = catalog.plan_table(definition)
        if planned.location is not None and planned.properties.get("transactional") == "true":
            # What a former table left there would become rows of this one.
            _require_empty(context, name, planned.location)
    table = catalog.create_table(definition, statement.if_not_exists)
    context.filesystem.make_directory(table.location)


def _require_empty(context: Context, table: str, location: str) -> None:
    try:
        entries = context.filesystem.list_files(location)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise InvalidArgumentsError(f"{location} is a file; {table} needs a directory of its own") from None
    visible = [entry for entry in entries if not is_hidden(entry.name)]
    if visible:
        raise InvalidArgumentsError(
            f"{location} is not empty: it holds {len(visible)} entries, the first is {visible[0].name}. A new "
            f"transactional table {table} would take them for its own; empty it or choose another LOCATION"
        )


def _drop_table(context: Context, statement: DropTable) -> None:
    name = str(statement.table)
    if statement.if_exists and not context.client.catalog.find_tables([name]):
        return
    with context.client.exclusive([name], agent_info=context.agent_info):
        dropped = context.client.catalog.drop_table(name, if_exists=statement.if_exists, purge=statement.purge)
    if dropped is not None:
        _remove_files(context, dropped)


def _drop_database(context: Context, statement: DropDatabase) -> None:
    catalog = context.client.catalog
    try:
        database = catalog.get_database(statement.name)
    except NoSuchObjectError:
        if statement.if_exists:
            return
        raise
    tables = [f"{database.name}.{table}" for table in catalog.list_tables(database.name)] if statement.cascade else []
    with context.client.exclusive(tables, agent_info=context.agent_info) if tables else contextlib.nullcontext():
        for dropped in catalog.drop_database(database.name, if_exists=statement.if_exists, cascade=statement.cascade):
            _remove_files(context, dropped)
    for location in {database.location, database.managed_location}:
        _remove_if_empty(context, location)


def _remove_files(context: Context, dropped: DroppedTable) -> None:
    """The catalog has forgotten the table; whoever still reads it by an old snapshot was refused by the lock."""
    if not dropped.delete_data:
        return
    for location in dropped.locations:
        context.filesystem.delete(location, inside=_parent(location))


def _remove_if_empty(context: Context, location: str) -> None:
    filesystem = context.filesystem
    try:
        if not filesystem.list_files(location):
            filesystem.delete(location, inside=_parent(location))
    except FileNotFoundError:
        return


def _parent(location: str) -> str:
    parent = location.rstrip("/").rpartition("/")[0]
    paths.require_inside(parent, location)
    return parent


