"""The catalog: databases, tables and partitions, in the rows a real Hive reads and writes.

Every change is one database transaction: it happens as a whole or not at all. Files are not touched here: dropping
tells the caller which directories are left to remove, and nobody but a filesystem with its checks removes them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError
from airflow_hive_acid.metastore.catalog.partitions import CatalogPartitions
from airflow_hive_acid.metastore.catalog.rows.constraints import insert_constraints
from airflow_hive_acid.metastore.catalog.rows.drop import (
    check_droppable,
    delete_database,
    delete_table,
    forget_object,
    forget_streams,
    locate,
    lock_and_locate,
)
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind
from airflow_hive_acid.metastore.catalog.rows.objects import insert_database, insert_tables
from airflow_hive_acid.metastore.catalog.rows.places import lock_places, require_no_table, require_own_place
from airflow_hive_acid.metastore.catalog.rows.reader import (
    managed_default,
    read_database,
    read_database_names,
    read_database_properties,
    read_table_names,
    read_tables,
    read_warehouse,
    require_database,
    require_tables,
)
from airflow_hive_acid.metastore.catalog.values.definitions import check_definition, new_table, table_type
from airflow_hive_acid.metastore.catalog.values.model import (
    MANAGED_TABLE,
    Database,
    DroppedTable,
    Table,
    TableDefinition,
    check_location,
)
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.names.objects import TableName, database_name, table_name
from airflow_hive_acid.metastore.schema.hive_catalog import CATALOG, CTLGS, DBS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.changes import CatalogChanges


class Catalog:
    """Databases, tables and partitions of one metastore.

    :param changes: how they are changed.
    """

    def __init__(self, changes: CatalogChanges) -> None:
        self.changes = changes
        self.events = changes.events
        self.ids = changes.ids
        self.require_fenced = changes.require_fenced
        self._database = changes.database
        partitions = CatalogPartitions(changes)
        self.list_partitions = partitions.list_partitions
        self.count_partitions = partitions.count_partitions
        self.get_partition = partitions.get_partition
        self.get_whole_partition = partitions.get_whole_partition
        self.partition_properties = partitions.partition_properties
        self.find_partitions = partitions.find_partitions
        self.partitions_elsewhere = partitions.partitions_elsewhere
        self.add_partitions = partitions.add_partitions
        self.reserve_partition_ids = partitions.reserve_partition_ids
        self.add_partitions_in = partitions.add_partitions_in
        self.drop_partition = partitions.drop_partition
        self.partition_in = partitions.partition_in

    # --- databases ------------------------------------------------------------------------------------------------

    def set_warehouse(self, location: str) -> str:
        """Say where managed tables go, if nobody has said so yet, and create the database ``default``.

        Hive's metastore does the same when it starts for the first time.

        :return: the warehouse in force: an earlier one stays.
        """
        wanted = check_location(location)

        def operation(connection: Connection) -> str:
            # R3: of two that start together, the second waits for the row and reads it again.
            connection.execute(select(CTLGS.c.CTLG_ID).where(CTLGS.c.NAME == CATALOG).with_for_update())
            warehouse = read_warehouse(connection)
            if warehouse is None:
                connection.execute(update(CTLGS).where(CTLGS.c.NAME == CATALOG).values(LOCATION_URI=wanted))
                warehouse = wanted
            if read_database(connection, "default") is None:
                new_id = self.ids.take(connection, IdKind.DATABASE, 1)[0]
                owner = ("public", "ROLE")
                insert_database(connection, new_id, "default", (warehouse, None), owner, "Default Hive database")
            return warehouse

        return self.changes.run(operation, IdKind.DATABASE)

    def warehouse(self) -> str | None:
        """The directory below which managed tables go, None while nobody has said."""
        return self._database.read(read_warehouse)

    def create_database(
        self, name: str, location: str | None = None, if_not_exists: bool = False, *, description: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Database:  # fmt: skip
        """Create a database.

        :param location: where its external tables go; managed tables stay below the warehouse, as in Hive.
        :param properties: DBPROPERTIES.
        :raises AlreadyExistsError: when it exists and ``if_not_exists`` is off.
        """
        lowered = database_name(name)
        given = None if location is None else check_location(location)

        def operation(connection: Connection) -> Database:
            found = read_database(connection, lowered)
            if found is not None:
                if if_not_exists:
                    return found
                raise AlreadyExistsError(f"database {lowered} exists already, at {found.location}")
            where = given or f"{self._external_root(connection)}/{lowered}.db"
            managed = managed_default(connection, lowered)
            if not self.changes.may_share():
                lock_places(connection)
                for place in dict.fromkeys((where, managed or where)):
                    require_no_table(connection, f"database {lowered}", place)
            new_id = self.ids.take(connection, IdKind.DATABASE, 1)[0]
            owner = (self.changes.user, "USER")
            insert_database(connection, new_id, lowered, (where, managed), owner, description, properties)
            created = require_database(connection, lowered)
            self.events.database_created(connection, created)
            return created

        return self.changes.run(operation, IdKind.DATABASE)

    def plan_database(self, name: str, location: str | None = None) -> tuple[str, str]:
        """The directories that a new database would have, its own and that of its managed tables; nothing is created.

        :raises InvalidArgumentsError: when the name or the location can be none, or no warehouse is known.
        """
        lowered = database_name(name)
        given = None if location is None else check_location(location)

        def operation(connection: Connection) -> tuple[str, str]:
            managed = managed_default(connection, lowered)
            where = given or f"{self._external_root(connection)}/{lowered}.db"
            if not self.changes.may_share():
                for place in dict.fromkeys((where, managed or where)):
                    require_no_table(connection, f"database {lowered}", place)
            return where, managed or where

        return self._database.read(operation)

    def get_database(self, name: str) -> Database:
        """A database.

        :raises NoSuchObjectError: with the names that look like it.
        """
        lowered = database_name(name)
        return self._database.read(lambda connection: require_database(connection, lowered))

    def database_properties(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """The parameters of those of the databases that exist, by lower-case name."""
        wanted = sorted({database_name(name) for name in names})
        return self._database.read(lambda connection: read_database_properties(connection, wanted))

    def list_databases(self) -> list[str]:
        """All databases, sorted."""
        return self._database.read(read_database_names)

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> list[DroppedTable]:
        """Drop a database.

        :param cascade: with its tables; otherwise it must be empty.
        :return: what its tables leave to remove.
        """
        lowered = database_name(name)

        def operation(connection: Connection) -> list[DroppedTable]:
            if if_exists and read_database(connection, lowered) is None:
                return []
            return self.drop_database_in(connection, lowered, cascade=cascade)

        return self.changes.run(operation)

    def drop_database_in(
        self, connection: Connection, name: str, *, cascade: bool = False, besides: int | None = None
    ) -> list[DroppedTable]:  # fmt: skip
        """The same inside a transaction; the database must exist."""
        found = require_database(connection, name)
        connection.execute(select(DBS.c.DB_ID).where(DBS.c.DB_ID == found.id).with_for_update())
        tables = read_table_names(connection, name)
        check_droppable(name, tables, cascade=cascade)
        dropped = [self.drop_table_in(connection, TableName(name, table), besides=besides) for table in tables]
        forget_object(connection, name)
        self.events.dropping_database(connection, found)
        delete_database(connection, found.id)
        return dropped

    # --- tables ---------------------------------------------------------------------------------------------------

    def plan_table(self, definition: TableDefinition) -> TableDefinition:
        """The definition as it would be stored, with its location; nothing is created.

        :raises InvalidArgumentsError: when the definition is none Hive would accept, or its place is another's.
        :raises NoSuchObjectError: when the database does not exist.
        """
        checked = check_definition(definition)
        key = TableName(checked.db, checked.name)

        def operation(connection: Connection) -> str:
            location = checked.location
            if location is None:
                location = self._default_location(require_database(connection, checked.db), checked)
            try:
                if not self.changes.may_share():
                    require_own_place(connection, f"table {key}", location)
            except InvalidArgumentsError:
                if key not in read_tables(connection, [key]):  # a table that is there already has its place
                    raise
            return location

        return replace(checked, location=self._database.read(operation))

    def create_table(self, definition: TableDefinition, if_not_exists: bool = False) -> Table:
        """Create a table; its directory is not made.

        :raises InvalidArgumentsError: when the definition is none Hive would accept, or its place is another's.
        :raises AlreadyExistsError: when the table exists and ``if_not_exists`` is off.
        :raises NoSuchObjectError: when the database does not exist.
        """
        check_definition(definition)  # before anything is used up
        self.reserve_table_ids()
        return self.changes.run(lambda connection: self.create_table_in(connection, definition, if_not_exists))

    def reserve_table_ids(self) -> None:
        """Fetch the ids of one table, before the transaction that creates it."""
        for kind in (IdKind.TABLE, IdKind.STORAGE, IdKind.COLUMNS, IdKind.SERDE):
            self.ids.reserve(kind, 1)

    def create_table_in(
        self, connection: Connection, definition: TableDefinition, if_not_exists: bool = False
    ) -> Table:  # fmt: skip
        """The same inside a transaction; its events are written by whoever ends it."""
        checked = check_definition(replace(definition, owner=definition.owner or self.changes.user))
        key = TableName(checked.db, checked.name)
        database = require_database(connection, checked.db)
        existing = read_tables(connection, [key]).get(key)
        if existing is not None:
            return self._existing(existing, if_not_exists)
        location = checked.location or self._default_location(database, checked)
        if not self.changes.may_share():
            lock_places(connection)
            existing = read_tables(connection, [key]).get(key)  # whoever had the lock may have made it
            if existing is not None:
                return self._existing(existing, if_not_exists)
            require_own_place(connection, f"table {key}", location)
        wanted = new_table(replace(checked, location=location), created=now_ms(connection) // 1000)
        try:
            with connection.begin_nested():
                [made] = insert_tables(connection, [wanted], {checked.db: database.id}, self.ids.take)
                insert_constraints(connection, made, checked.constraints)
        except IntegrityError:
            # Somebody else was faster; whatever else it might be is raised by the next lines.
            existing = read_tables(connection, [key]).get(key)
            if existing is None:
                raise
            return self._existing(existing, if_not_exists)
        created = read_tables(connection, [key])[key]
        self.events.table_created(connection, created)
        return created

    def get_table(self, name: str) -> Table:
        """A table by ``db.table``.

        :raises NoSuchObjectError: with the names that look like it.
        """
        return self.get_tables([name])[0]

    def get_tables(self, names: Iterable[str]) -> list[Table]:
        """Several tables by ``db.table``, in the order given, read together.

        :raises NoSuchObjectError: for the first that does not exist.
        """
        keys = [table_name(name) for name in names]
        return self._database.read(lambda connection: self.get_tables_in(connection, keys))

    def get_tables_in(self, connection: Connection, keys: Sequence[TableName]) -> list[Table]:
        """The same inside a transaction."""
        return require_tables(connection, keys)

    def find_tables(self, names: Iterable[str]) -> dict[str, Table]:
        """Those of the tables that exist, by ``db.table``, read together."""
        keys = [table_name(name) for name in names]
        found = self._database.read(lambda connection: read_tables(connection, keys))
        return {table.qualified_name: table for table in found.values()}

    def list_tables(self, db: str = "default", type: str | None = None) -> list[str]:
        """The names of the tables and views of a database, sorted.

        :param type: ``MANAGED_TABLE``, ``EXTERNAL_TABLE``, ``VIRTUAL_VIEW``, …; None for all.
        :raises NoSuchObjectError: when the database does not exist.
        """
        lowered = database_name(db)

        def operation(connection: Connection) -> list[str]:
            require_database(connection, lowered)
            return read_table_names(connection, lowered, type)

        return self._database.read(operation)

    def drop_table(self, name: str, *, if_exists: bool = False, purge: bool = False) -> DroppedTable | None:
        """Drop a table with its partitions and everything the txn tables remember of it.

        The caller holds an EXCLUSIVE lock on it and removes the directories afterwards, through a filesystem.

        :param purge: delete the files of an external table too.
        :return: what is left to remove; None when there was no table and ``if_exists`` is on.
        """
        key = table_name(name)

        def operation(connection: Connection) -> DroppedTable | None:
            if if_exists and key not in read_tables(connection, [key]):
                return None
            return self.drop_table_in(connection, key, purge=purge)

        return self.changes.run(operation)

    def plan_drop(self, names: Iterable[str], *, purge: bool = False) -> list[DroppedTable]:
        """What dropping tables would leave to remove; nothing is dropped."""
        keys = [table_name(name) for name in names]

        def operation(connection: Connection) -> list[DroppedTable]:
            tables = self.get_tables_in(connection, keys)
            return [DroppedTable(t, locate(connection, t), purge or t.owns_files) for t in tables]

        return self._database.read(operation)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _external_root(self, connection: Connection) -> str:
        default = read_database(connection, "default")
        root = default.location if default is not None else read_warehouse(connection)
        if root is None:
            raise InvalidArgumentsError(
                "the catalog does not know its warehouse directory yet; give --warehouse (HIVE_ACID_WAREHOUSE), "
                "or a location for the database"
            )
        return root.rstrip("/")

    def _default_location(self, database: Database, definition: TableDefinition) -> str:
        return database.home_of(definition.name, managed=table_type(definition) == MANAGED_TABLE)

    def _existing(self, table: Table, if_not_exists: bool) -> Table:
        if if_not_exists:
            return table
        raise AlreadyExistsError(f"table {table.qualified_name} exists already, at {table.location}")

    def drop_table_in(
        self, connection: Connection, key: TableName, *, purge: bool = False, besides: int | None = None
    ) -> DroppedTable:  # fmt: skip
        """The same inside a transaction.

        :param besides: the txn that drops it; its own jobs do not count.
        :raises JobsAliveError: while a job may still write into it (R4).
        """
        table = self.get_tables_in(connection, [key])[0]
        self.require_fenced(connection, key, besides)
        locations = lock_and_locate(connection, table)
        self.events.dropping_table(connection, table)
        delete_table(connection, table.id)
        forget_object(connection, *key)
        if self._database.features(connection).replication:  # our tables' version 7
            forget_streams(connection, key, table.id)
        return DroppedTable(table, locations, purge or table.owns_files)
