"""CREATE and DROP of databases and tables: rows in the catalog, directories in the warehouse.

Each is a txn with Hive's locks (metastore.md 4.4): CREATE TABLE shares its database, DROP has what it drops to itself.
The catalog changes in the txn's commit; directories are removed after it and, as in Hive, made before it, so that a
warehouse that cannot be written leaves no database or table behind. R4: under the lock nobody can be at
work on a table any more, so jobs that are left over on it are fenced before its rows are forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking import database_exists, is_legacy
from airflow_hive_acid.engine.read_only import require_writable
from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError, UnsupportedStatementError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import is_hidden
from airflow_hive_acid.maintenance.ddl_files import WarehouseFiles
from airflow_hive_acid.metastore.catalog_drop import check_droppable
from airflow_hive_acid.metastore.catalog_model import TableDefinition
from airflow_hive_acid.metastore.codes import LockType
from airflow_hive_acid.metastore.ddl import database_lock, ddl_transaction, table_lock
from airflow_hive_acid.metastore.objects import table_name
from airflow_hive_acid.sql.statements import CreateDatabase, CreateTable, DropDatabase, DropTable

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.metastore.catalog_model import DroppedTable
    from airflow_hive_acid.metastore.ddl import DdlTransaction
    from airflow_hive_acid.metastore.locks.interface import LockComponent

DdlStatement = CreateDatabase | DropDatabase | CreateTable | DropTable


def run_ddl(context: Context, statement: DdlStatement) -> None:
    """Run one DDL statement.

    :raises ReadOnlyReplicaError: when a replication writes the database.
    """
    if isinstance(statement, CreateTable | DropTable):
        require_writable(context, [statement.table.database])
    elif isinstance(statement, DropDatabase):
        require_writable(context, [statement.name])
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
    catalog = context.client.catalog
    made: set[str] = set()
    if not database_exists(context, statement.name):
        made.update(catalog.plan_database(statement.name, statement.location))
        for location in made:
            context.filesystem.make_directory(location)
    database = catalog.create_database(
        statement.name, statement.location, statement.if_not_exists, description=statement.comment
    )
    for location in {database.location, database.managed_location} - made:
        context.filesystem.make_directory(location)


def _create_table(context: Context, statement: CreateTable) -> None:
    _settle_warehouse(context)
    comments = {c.name: c.comment for c in (*statement.columns, *statement.partition_columns) if c.comment}
    properties = dict(statement.properties)
    if statement.comment is not None:
        properties["comment"] = statement.comment
    if is_legacy(context) and not statement.external and properties.get("transactional", "true").lower() == "true":
        raise UnsupportedStatementError(
            f"{statement.table} would be an ACID table, and DummyTxnManager has no transactions; say TBLPROPERTIES "
            "('transactional'='false'), or set hive.txn.manager to DbTxnManager"
        )
    definition = TableDefinition(
        db=statement.table.database,
        name=statement.table.name,
        columns=tuple(Column(c.name, c.type) for c in statement.columns),
        partition_columns=tuple(Column(c.name, c.type) for c in statement.partition_columns),
        properties=properties,
        location=statement.location,
        bucket_columns=statement.bucket_columns,
        bucket_count=statement.bucket_count or -1,
        sort_columns=statement.sort_columns,
        comments=comments,
        external=statement.external,
        stored_as=statement.stored_as,
    )
    name = str(statement.table)
    catalog = context.client.catalog
    made: str | None = None
    if not catalog.find_tables([name]):
        planned = catalog.plan_table(definition)
        made = planned.location
        if made is not None and planned.properties.get("transactional") == "true":
            # What a former table left there would become rows of this one.
            require_empty(context, f"a new transactional table {name}", made)
        if made is not None:
            context.filesystem.make_directory(made)
    with _locked(context, [database_lock(definition.db, LockType.SHARED_READ)]):
        table = catalog.create_table(definition, statement.if_not_exists)
    if table.location != made:
        context.filesystem.make_directory(table.location)


def require_empty(context: Context, what: str, location: str) -> None:
    """Refuse a directory in which something lies that would become rows.

    :param what: the table or partition, for messages.
    :raises InvalidArgumentsError: naming what lies there, and the remedy.
    """
    try:
        entries = context.filesystem.list_files(location)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise InvalidArgumentsError(f"{location} is a file; {what} needs a directory of its own") from None
    visible = [entry for entry in entries if not is_hidden(entry.name)]
    if visible:
        raise InvalidArgumentsError(
            f"{location} is not empty: it holds {len(visible)} entries, the first is {visible[0].name}, and {what} "
            "would take them for its own; empty it or choose another LOCATION"
        )


def _drop_table(context: Context, statement: DropTable) -> None:
    catalog = context.client.catalog
    name = str(statement.table)
    if statement.if_exists and not catalog.find_tables([name]):
        return
    key = table_name(name)
    catalog.get_table(name)  # before anything is locked: a name that is none leaves no trace
    context.client.pins.require_unpinned([name], "dropping it")
    locks = [database_lock(key.database, LockType.SHARED_READ), table_lock(key, LockType.EXCLUSIVE)]
    with _locked(context, locks) as ddl:
        _fence(context, [name])
        dropped = ddl.commit(lambda connection: catalog.drop_table_in(connection, key, purge=statement.purge))
    _remove_files(context, dropped)


def _drop_database(context: Context, statement: DropDatabase) -> None:
    catalog = context.client.catalog
    try:
        database = catalog.get_database(statement.name)
    except NoSuchObjectError:
        if statement.if_exists:
            return
        raise
    # Before anything is locked: a statement that is refused waits for nobody and leaves no trace.
    check_droppable(database.name, catalog.list_tables(database.name), cascade=statement.cascade)
    everything = [f"{database.name}.{table}" for table in catalog.list_tables(database.name)]
    context.client.pins.require_unpinned(everything, "dropping its database")
    with _locked(context, [database_lock(database.name, LockType.EXCLUSIVE)]) as ddl:
        _fence(context, [f"{database.name}.{table}" for table in catalog.list_tables(database.name)])
        dropped = ddl.commit(
            lambda connection: catalog.drop_database_in(connection, database.name, cascade=statement.cascade)
        )
    for table in dropped:
        _remove_files(context, table)
    for location in {database.location, database.managed_location}:
        _remove_if_empty(context, location)


def _locked(context: Context, locks: list[LockComponent]) -> AbstractContextManager[DdlTransaction]:
    return ddl_transaction(context.client, locks, agent_info=context.agent_info)


def _fence(context: Context, tables: list[str]) -> None:
    """What jobs left over on these tables publish later must not become rows of the next table of that place (R4)."""
    files = WarehouseFiles(context.client, context.filesystem)
    for table in tables:
        files.fence(context.client.jobs.unfenced_of(table))


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
