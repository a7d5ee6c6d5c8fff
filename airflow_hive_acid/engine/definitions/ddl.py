"""CREATE and DROP of databases and tables: rows in the catalog, directories in the warehouse.

Each is a txn with Hive's locks (decision 15): CREATE TABLE shares its database, DROP has what it drops to itself.
The catalog changes in the txn's commit; directories are removed after it and, as in Hive, made before it, so that a
warehouse that cannot be written leaves no database or table behind. R4: under the lock nobody can be at
work on a table any more, so jobs that are left over on it are fenced before its rows are forgotten.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.tables.read_only import require_no_replica, require_writable
from airflow_hive_acid.errors import (
    AlreadyExistsError,
    InvalidArgumentsError,
    NoSuchObjectError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.names import is_hidden
from airflow_hive_acid.format.paths import is_inside
from airflow_hive_acid.format.table_kinds import TRANSACTIONAL, TRANSACTIONAL_PROPERTIES, is_transactional
from airflow_hive_acid.maintenance.warehouse.ddl_files import WarehouseFiles
from airflow_hive_acid.maintenance.warehouse.ddl_work import NO_TABLE
from airflow_hive_acid.maintenance.warehouse.places import Places
from airflow_hive_acid.maintenance.warehouse.storage import require_format
from airflow_hive_acid.metastore.catalog import ConstraintKind, TableDefinition, check_droppable
from airflow_hive_acid.metastore.database import LockType
from airflow_hive_acid.metastore.names import TableName, table_name
from airflow_hive_acid.metastore.protocol import database_lock, ddl_transaction, table_lock
from airflow_hive_acid.sql.model.origins import ColumnDefinition
from airflow_hive_acid.sql.model.statements import AlterDatabase, CreateDatabase, CreateTable, DropDatabase, DropTable
from airflow_hive_acid.sql.planning.conditions import unknown_in_condition

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.metastore.catalog import Constraint, Table
    from airflow_hive_acid.metastore.locks import LockComponent
    from airflow_hive_acid.metastore.protocol import DdlTransaction

log = logging.getLogger(__name__)

_CREATE_ORC_COMPRESS = "hive.acid.create.orc.compress"
"""Setting: the codec of ORC tables that say none when they are made."""
_ORC_COMPRESS = "orc.compress"
_HIVES_CODEC = "ZLIB"
"""What every Hive takes for a table without the property, so it need not be written down."""

DdlStatement = CreateDatabase | AlterDatabase | DropDatabase | CreateTable | DropTable


def run_ddl(context: Context, statement: DdlStatement) -> None:
    """Run one DDL statement.

    :raises ReadOnlyReplicaError: when a replication writes the database.
    """
    if isinstance(statement, CreateTable | DropTable):
        require_writable(context.client, [str(statement.table)])
    elif isinstance(statement, DropDatabase):
        require_writable(context.client, [statement.name])
    elif isinstance(statement, AlterDatabase):
        require_no_replica(context.client, [statement.name])
    match statement:
        case CreateDatabase():
            _create_database(context, statement)
        case AlterDatabase():
            _alter_database(context, statement)
        case DropDatabase():
            _drop_database(context, statement)
        case CreateTable():
            _create_table(context, statement)
        case DropTable():
            _drop_table(context, statement)


def warehouse_files(context: Context) -> WarehouseFiles:
    """The files that a statement works on; what it could not delete is told beside its result."""
    return WarehouseFiles(context.client, context.filesystem, context.note)


def settle_warehouse(context: Context) -> None:
    """Tell a new metastore where its tables go."""
    if context.warehouse is not None and context.client.catalog.warehouse() is None:
        with context.client.claims.applying(None):
            context.client.catalog.set_warehouse(context.warehouse)


def _create_database(context: Context, statement: CreateDatabase) -> None:
    settle_warehouse(context)
    catalog, places = context.client.catalog, Places(context.client, context.filesystem)
    made: set[str] = set()
    if not context.tables.has_database(statement.name):
        made.update(catalog.plan_database(statement.name, statement.location))
        for location in made:
            places.before_create(statement.name, location)
        for location in made:
            context.filesystem.make_directory(location)
    database = catalog.create_database(
        statement.name, statement.location, statement.if_not_exists, description=statement.comment,
        properties=statement.properties,
    )  # fmt: skip
    for location in {database.location, database.managed_location} - made:
        context.filesystem.make_directory(location)
    for location in {database.location, database.managed_location}:
        places.created(database.name, location)


def _alter_database(context: Context, statement: AlterDatabase) -> None:
    owner = None if statement.owner is None else (statement.owner, statement.owner_type)
    places = Places(context.client, context.filesystem)
    context.client.catalog.get_database(statement.name)
    given = [place for place in (statement.location, statement.managed_location) if place is not None]
    for location in given:
        places.before_create(statement.name, location)
        context.filesystem.make_directory(location)
    altered = context.client.catalog.alter_database(
        statement.name, statement.properties, owner=owner, location=statement.location,
        managed_location=statement.managed_location,
    )  # fmt: skip
    for location in {altered.location, altered.managed_location} if given else ():
        places.created(altered.name, location)


def require_known_columns(columns: Sequence[Column], constraints: Sequence[Constraint]) -> None:
    """Refuse a CHECK about columns that there are not: no row could be written any more.

    :raises InvalidArgumentsError: naming the column.
    """
    names = [column.name for column in columns]
    for constraint in constraints:
        unknown = unknown_in_condition(constraint.value, names) if constraint.kind is ConstraintKind.CHECK else None
        if unknown is not None:
            raise InvalidArgumentsError(
                f"CHECK ({constraint.value}) names {unknown}, which is none of the columns {', '.join(names)}"
            )


def definition_like(context: Context, statement: CreateTable) -> CreateTable:
    """CREATE TABLE … LIKE: the definition of another table, with what the statement says besides.

    As in Hive neither rows nor constraints are taken. The new table is transactional if the other is.
    """
    source = context.table(str(statement.like))
    if source.is_view:
        raise InvalidArgumentsError(
            f"{source.qualified_name} is a view; make a table of its rows with CREATE TABLE … AS"
        )
    properties = dict(statement.properties)
    stored_as = statement.stored_as or require_format(source)
    if not statement.external and not any(key.lower() == TRANSACTIONAL for key in properties):
        properties[TRANSACTIONAL] = str(source.is_transactional).lower()
        if source.is_insert_only:
            properties.setdefault(TRANSACTIONAL_PROPERTIES, "insert_only")
    same_rows = not statement.stored_as and not statement.serde_properties
    return replace(
        statement,
        like=None,
        columns=tuple(ColumnDefinition(c.name, c.type, source.comments.get(c.name)) for c in source.columns),
        partition_columns=tuple(
            ColumnDefinition(c.name, c.type, source.comments.get(c.name)) for c in source.partition_columns
        ),
        bucket_columns=source.bucket_columns,
        bucket_count=source.bucket_count,
        sort_columns=source.sort_columns,
        stored_as=stored_as,
        serde_properties=dict(source.serde_properties) if same_rows else statement.serde_properties,
        properties=properties,
    )


def definition_of(context: Context, statement: CreateTable) -> TableDefinition:
    """The table that a statement describes.

    :raises UnsupportedStatementError: for an ACID table while there are no transactions.
    """
    comments = {c.name: c.comment for c in (*statement.columns, *statement.partition_columns) if c.comment}
    properties = dict(statement.properties)
    if statement.comment is not None:
        properties["comment"] = statement.comment
    codec = context.settings.string(_CREATE_ORC_COMPRESS)
    if codec != _HIVES_CODEC and _says_no_codec(statement):
        properties[_ORC_COMPRESS] = codec
    if not statement.external and is_transactional(properties, unsaid=True):
        context.locking.require_transactions(
            f"{statement.table} would be an ACID table, and DummyTxnManager has no transactions; say TBLPROPERTIES "
            "('transactional'='false'), or set hive.txn.manager to DbTxnManager"
        )
    return TableDefinition(
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
        serde_properties=statement.serde_properties,
        constraints=statement.constraints,
    )


def _says_no_codec(statement: CreateTable) -> bool:
    """Whether the table's files will be ORC of its own, and nothing is said about how they are packed."""
    said = any(key.lower() == _ORC_COMPRESS for key in statement.properties)
    return not statement.external and statement.stored_as.lower() == "orc" and not said


def note_on(definition: TableDefinition) -> str:
    """What somebody who made this table should know of it, if it is not what it seems."""
    said = {key.lower(): value.lower() for key, value in definition.properties.items()}
    insert_only = definition.stored_as != "orc" and TRANSACTIONAL_PROPERTIES not in said and not definition.external
    if said.get(TRANSACTIONAL) != "true" or not insert_only:
        return ""
    return (
        f"{definition.db}.{definition.name} is transactional and not ORC, so it is insert_only: its rows can be "
        "added and overwritten, not updated or deleted. STORED AS ORC makes a full ACID table"
    )


def _create_table(context: Context, statement: CreateTable) -> None:
    settle_warehouse(context)
    if statement.like is not None:
        statement = definition_like(context, statement)
    require_known_columns([Column(c.name, c.type) for c in statement.columns], statement.constraints)
    definition = definition_of(context, statement)
    catalog, name = context.client.catalog, str(statement.table)
    there = catalog.find_tables([name]).get(name)
    if there is not None:
        if not statement.if_not_exists:
            raise AlreadyExistsError(f"table {name} exists already, at {there.location}")
        return
    place = require_place(context, definition)
    definition = replace(definition, empty=not _holds_something(context, place))
    catalog.reserve_table_ids()
    files = warehouse_files(context)
    with (
        _locked(context, [database_lock(definition.db, LockType.SHARED_READ)]) as ddl,
        files.making(ddl.txn_id, table_name(name), [place]),
    ):
        table = ddl.commit(lambda connection: catalog.create_table_in(connection, definition, statement.if_not_exists))
    mark_place(context, table)
    if note := note_on(definition):
        log.warning("%s", note)


def mark_place(context: Context, table: Table) -> None:
    """R17: by its marker the directory of a new table is known to be there."""
    if table.type == "MANAGED_TABLE":
        Places(context.client, context.filesystem).created(table.db, table.location)


def require_place(context: Context, definition: TableDefinition) -> str:
    """Where a new table will lie.

    :raises InvalidArgumentsError: when what a former table left there would become rows of a transactional one.
    """
    planned = context.client.catalog.plan_table(definition)
    if planned.location is None:
        raise AssertionError("a planned table without a location")
    Places(context.client, context.filesystem).before_create(definition.db, planned.location)
    if is_transactional(planned.properties):
        require_empty(context, f"a new transactional table {definition.db}.{definition.name}", planned.location)
    return planned.location


def _holds_something(context: Context, location: str) -> bool:
    """Whether something may lie in a place that becomes rows of a table without transactions."""
    try:
        return any(not is_hidden(entry.name) for entry in context.filesystem.list_files(location))
    except FileNotFoundError:
        return False
    except OSError:
        return True  # what nobody here may look at is not called empty


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
    table = catalog.get_table(name)  # before anything is locked: a name that is none leaves no trace
    if not table.is_view:
        _require_places(context, table)
    context.client.pins.require_unpinned([name], "dropping it")
    locks = [database_lock(key.database, LockType.SHARED_READ), table_lock(key, LockType.EXCLUSIVE)]
    with _locked(context, locks) as ddl:
        _fence(context, [name])
        going = _going(context, [name], purge=statement.purge)
        with warehouse_files(context).moving(ddl.txn_id, key, going):
            ddl.commit(
                lambda connection: catalog.drop_table_in(connection, key, purge=statement.purge, besides=ddl.txn_id)
            )


def _going(context: Context, names: list[str], *, purge: bool = False, whole: bool = False) -> list[tuple[str, str]]:
    """The directories that go with tables, each moved to no name.

    The locks keep out whoever reads or writes there, so they may be taken away before the commit: what is deleted after
    it is nobody's then, even if there is a table of that name again.
    """
    dropped = context.client.catalog.plan_drop(names, purge=purge)
    known = Places(context.client, context.filesystem)
    for one in dropped:
        for place in one.locations if one.delete_data else ():
            if not is_inside(one.table.location, place):
                known.require_place_of(one.table, place)  # R17
    places = [place for one in dropped if one.delete_data for place in one.locations]
    db, _, table = names[0].partition(".") if names else ("", "", "")
    shared = context.client.catalog.shared_places(places, db, None if whole else table)
    for place, other in shared.items():  # an older version, or a Hive, has let them
        log.warning("the files in %s were not removed with the table: they are shared with %s", place, other)
        context.note(f"the files in {place} were not removed with the table: they are shared with {other}")
    return [(place, "") for place in places if place not in shared]


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
    for found in catalog.find_tables(everything).values():
        _require_places(context, found)
    with _locked(context, [database_lock(database.name, LockType.EXCLUSIVE)]) as ddl:
        everything = [f"{database.name}.{table}" for table in catalog.list_tables(database.name)]
        _fence(context, everything)
        files, key = warehouse_files(context), TableName(database.name, NO_TABLE)
        with (
            files.emptying(ddl.txn_id, key, [database.location, database.managed_location]),
            files.moving(ddl.txn_id, key, _going(context, everything, whole=True)),
        ):
            ddl.commit(
                lambda connection: catalog.drop_database_in(
                    connection, database.name, cascade=statement.cascade, besides=ddl.txn_id
                )
            )


def _locked(context: Context, locks: list[LockComponent]) -> AbstractContextManager[DdlTransaction]:
    return ddl_transaction(context.client, locks, agent_info=context.agent_info)


def _fence(context: Context, tables: list[str]) -> None:
    """What jobs left over on these tables publish later must not become rows of the next table of that place (R4)."""
    files = warehouse_files(context)
    for table in tables:
        files.fence(context.client.jobs.unfenced_of(table))


def _require_places(context: Context, table: Table) -> None:
    """R17: a drop that finds nothing, or the table of another warehouse's disk, must not make the catalog forget it.

    A table whose directory alone is gone can be dropped.
    """
    if table.owns_files:
        Places(context.client, context.filesystem).require_place_of(table, table.location)
