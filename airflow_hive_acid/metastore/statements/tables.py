"""ALTER and RENAME of databases and tables: a txn with Hive's locks, a write id, and the change in its commit.

What a statement may do is decided before anything is locked, so that a refused one waits for nobody and leaves no
trace, and once more under the locks. Files belong to the caller: verbs that need some moved, fenced or hidden take a
``DdlFiles``. The locks are those of Hive (decision 15).

How files are read is said once for a table here: Hive keeps it per partition, too, and readers of ours go by the table.
So a format may change only while no partition says something else, and never that of a transactional table, whose
files are what they are (TransactionalValidationListener).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError
from airflow_hive_acid.format.paths import is_inside, join
from airflow_hive_acid.metastore.catalog.rows import alteration as rows
from airflow_hive_acid.metastore.catalog.rows import constraints as constraints
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind
from airflow_hive_acid.metastore.catalog.rows.partitions import read_partitions
from airflow_hive_acid.metastore.catalog.rows.places import lock_places, require_no_table, require_own_place
from airflow_hive_acid.metastore.catalog.rows.reader import read_table_names, read_tables, require_database
from airflow_hive_acid.metastore.catalog.rows.rename import rename_table_rows
from airflow_hive_acid.metastore.catalog.values import alteration
from airflow_hive_acid.metastore.catalog.values.constraints import check_constraints
from airflow_hive_acid.metastore.catalog.values.definitions import check_property
from airflow_hive_acid.metastore.catalog.values.formats import FORMATS, format_name
from airflow_hive_acid.metastore.catalog.values.model import MANAGED_TABLE, check_location
from airflow_hive_acid.metastore.catalog.values.partition_alteration import PartitionChange
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.names.objects import TableName, database_name, shorten, table_name
from airflow_hive_acid.metastore.protocol.ddl import database_lock, ddl_transaction, table_lock
from airflow_hive_acid.metastore.statements.locked_tables import LockedTables, moving
from airflow_hive_acid.metastore.txns.write_ids import seed_write_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.format.jobs import Column
    from airflow_hive_acid.metastore.catalog.values.constraints import Constraint
    from airflow_hive_acid.metastore.catalog.values.model import Database, PartitionSpec, Storage, Table
    from airflow_hive_acid.metastore.protocol.ddl import DdlFiles

_NONE: Mapping[str, str] = {}


class TableStatements:
    """The statements that change databases and tables."""

    def __init__(self, tables: LockedTables) -> None:
        self._tables = tables
        self._client = tables.client
        self._catalog = tables.catalog
        self._changes = tables.catalog.changes

    def alter_database(
        self,
        name: str,
        properties: Mapping[str, str] | None = None,
        *,
        unset: Iterable[str] = (),
        owner: tuple[str, str] | None = None,
        location: str | None = None,
        managed_location: str | None = None,
    ) -> Database:
        """Set and remove DBPROPERTIES, say who owns it and where new tables go; takes no lock, as in Hive.

        :param owner: a name, and USER, ROLE or GROUP.
        :param location: where its external tables go from now on; ``managed_location`` its managed ones.
        :raises NoSuchObjectError: with the names that look like it.
        :raises InvalidArgumentsError: for a place of another's, and while tables lie below the old one.
        """
        lowered = database_name(name)
        given, removed = dict(properties or {}), list(unset)
        places = {
            column: check_location(place)
            for column, place in (("DB_LOCATION_URI", location), ("DB_MANAGED_LOCATION_URI", managed_location))
            if place is not None
        }
        for key, value in given.items():
            check_property(f"database {lowered}", key, value, 180)
            if len(value) > 4000:
                raise InvalidArgumentsError(
                    f"database {lowered}: the property {key} has {len(value)} characters; the limit is 4000"
                )

        def operation(connection: Connection) -> Database:
            found = require_database(connection, lowered)
            after = {key: value for key, value in (found.properties | given).items() if key not in removed}
            rows.write_database_parameters(connection, found.id, found.properties, after)
            self._require_free_home(connection, found, places)
            changed: dict[str, str] = dict(places)
            if owner is not None:
                changed |= {"OWNER_NAME": owner[0], "OWNER_TYPE": owner[1]}
            rows.write_database(connection, found.id, changed)
            altered = require_database(connection, lowered)
            self._catalog.events.database_altered(connection, found, altered)
            return altered

        return self._changes.run(operation)

    def _require_free_home(self, connection: Connection, database: Database, places: Mapping[str, str]) -> None:
        """Tables keep their directories, and are known to be there by the home that they lie in (R17)."""
        if not places:
            return
        if not self._changes.may_share():
            lock_places(connection)
            for place in places.values():
                require_no_table(connection, f"database {database.name}", place)
        left = [database.location] if "DB_LOCATION_URI" in places else []
        left += [database.managed_location] if "DB_MANAGED_LOCATION_URI" in places else []
        names = [TableName(database.name, table) for table in read_table_names(connection, database.name)]
        for table in read_tables(connection, names).values():
            if table.location and any(is_inside(home, table.location) for home in left):
                raise InvalidArgumentsError(
                    f"database {database.name} cannot move: table {table.qualified_name} lies at {table.location} and "
                    "would stay there; make another database with that LOCATION, and RENAME the tables into it"
                )

    def alter_owner(self, name: str, owner: str, owner_type: str = "USER", *, agent_info: str | None = None) -> Table:
        """Say who owns a table."""

        def change(connection: Connection, table: Table) -> None:
            self._tables.write_table(connection, table, replace(table, owner=owner, owner_type=owner_type))

        alteration.require_table(self._catalog.get_table(name))
        return self._alter(table_name(name), LockType.EXCLUSIVE, change, agent_info)

    def add_constraint(self, name: str, constraint: Constraint, *, agent_info: str | None = None) -> Table:
        """ADD CONSTRAINT: rows that are there already are not looked at (NOVALIDATE).

        :raises AlreadyExistsError: when there is one of that name, or of that kind for the column.
        :raises InvalidArgumentsError: when it cannot be.
        """

        def change(connection: Connection, table: Table) -> None:
            constraints.add_constraint(connection, table, constraint)
            self._tables.write_table(connection, table, table)

        table = self._catalog.get_table(name)
        alteration.require_table(table)
        keys = [c.name for c in table.partition_columns]
        check_constraints(f"table {name}", [constraint], [c.name for c in table.columns], keys)
        return self._alter(table_name(name), LockType.EXCLUSIVE, change, agent_info)

    def drop_constraint(self, name: str, constraint: str, *, agent_info: str | None = None) -> Table:
        """DROP CONSTRAINT.

        :raises NoSuchObjectError: naming those that there are.
        """

        def change(connection: Connection, table: Table) -> None:
            constraints.drop_constraint(connection, table, constraint)
            self._tables.write_table(connection, table, table)

        return self._alter(table_name(name), LockType.EXCLUSIVE, change, agent_info)

    def constraints(self, name: str) -> list[Constraint]:
        """All constraints of a table, enabled or not, by name."""
        key = table_name(name)

        def operation(connection: Connection) -> list[Constraint]:
            return constraints.read_constraints(connection, self._catalog.get_tables_in(connection, [key])[0])

        return self._changes.database.read(operation)

    def alter_properties(
        self,
        name: str,
        properties: Mapping[str, str] | None = None,
        *,
        unset: Iterable[str] = (),
        if_exists: bool = False,
        files: DdlFiles | None = None,
        agent_info: str | None = None,
    ) -> Table:
        """Set and remove TBLPROPERTIES; a plain table may become transactional by it.

        :param if_exists: removing a property that is not there is no error.
        :param files: renames files of a table that becomes full ACID where their names say no bucket, and fences what
            dead jobs left running; without it they must have Hive's names already.
        :raises InvalidArgumentsError: naming the property, Hive's rule and the remedy; nothing was changed.
        """
        key = table_name(name)
        given, removed = dict(properties or {}), list(unset)

        def decide(table: Table) -> alteration.PropertyChange:
            return alteration.change_properties(table, given, removed, if_exists=if_exists)

        planned = decide(self._catalog.get_table(name))

        def change(connection: Connection, table: Table) -> None:
            decided = decide(table)
            if decided.converts and not planned.converts:
                raise InvalidArgumentsError(f"{key} was altered by somebody else just now; try again")
            self._tables.write_table(
                connection, table, replace(table, properties=decided.properties, type=decided.type)
            )
            if decided.converts:
                rows.forget_counted_rows(connection, table)
                seed_write_id(connection, key, alteration.CONVERSION_SEED)

        # Readers and writers may go on while nothing changes for them.
        shared = not planned.converts and not removed
        if not planned.converts or files is None or planned.properties.get("transactional_properties") != "default":
            return self._alter(key, LockType.SHARED_READ if shared else LockType.EXCLUSIVE, change, agent_info)

        def settle() -> None:
            files.fence(self._client.jobs.unfenced_of(str(key)))
            table = self._catalog.get_table(name)
            partitions = self._catalog.list_partitions(name) if table.is_partitioned else ()
            places = [p.location for p in partitions] if table.is_partitioned else [table.location]
            files.name_originals(table, places)

        return self._alter(key, LockType.EXCLUSIVE, change, agent_info, settle)

    def add_columns(
        self, name: str, columns: Sequence[Column], comments: Mapping[str, str] = _NONE, *,
        cascade: bool = True, agent_info: str | None = None,
    ) -> Table:  # fmt: skip
        """Add columns after the others; rows written before have NULL there.

        :param comments: comments of columns.
        :param cascade: let the partitions follow, as CASCADE does; otherwise Hive reads NULL from theirs for ever.
        """

        def decide(table: Table) -> alteration.ColumnChange:
            return alteration.add_columns(table, columns, comments)

        return self._alter_columns(name, decide, agent_info, cascade=cascade)

    def replace_columns(
        self, name: str, columns: Sequence[Column], comments: Mapping[str, str] = _NONE, *,
        cascade: bool = True, agent_info: str | None = None,
    ) -> Table:  # fmt: skip
        """Give the columns other names, wider types or comments, position by position, and perhaps add some."""

        def decide(table: Table) -> alteration.ColumnChange:
            return alteration.replace_columns(table, columns, comments)

        return self._alter_columns(name, decide, agent_info, cascade=cascade)

    def change_column(
        self, name: str, column: str, new: Column, comment: str | None = None, *,
        cascade: bool = True, agent_info: str | None = None, added: Sequence[Constraint] = (),
    ) -> Table:  # fmt: skip
        """Give a column another name, a wider type or another comment.

        :param added: constraints that it gets.
        :raises InvalidArgumentsError: for a type that could not hold what is stored.
        """

        def decide(table: Table) -> alteration.ColumnChange:
            return alteration.change_column(table, column, new, comment)

        return self._alter_columns(name, decide, agent_info, cascade=cascade, added=added)

    def rename_table(
        self, name: str, new_name: str, *, files: DdlFiles | None = None, agent_info: str | None = None
    ) -> Table:
        """Give a table another name; everything the txn tables know of it follows.

        :param files: moves the directory of a managed table that lies where its name says, and fences what jobs of
            dead txns left running; without it the table stays where it is.
        :raises AlreadyExistsError: when there is a table of the new name.
        :raises JobsAliveError: when a job may still write into it.
        """
        key, new = table_name(name), table_name(new_name)
        before = self._catalog.get_table(name)
        self._check_free(new, self._catalog.find_tables([str(new)]).get(str(new)))
        target = self._new_location(before, new, moves=files is not None)
        locks = [database_lock(db, LockType.SHARED_READ) for db in sorted({key.database, new.database})]
        locks += [table_lock(key, LockType.EXCLUSIVE), table_lock(new, LockType.EXCLUSIVE)]
        with ddl_transaction(self._client, locks, agent_info=agent_info) as ddl:
            if files is not None:
                for each in (key, new):
                    files.fence(self._client.jobs.unfenced_of(str(each)))
            write_id = ddl.allocate(key) if before.is_transactional else None

            def change(connection: Connection) -> Table:
                table = self._tables.locked(connection, key, before)
                self._check_free(new, read_tables(connection, [new]).get(new))
                for each in (key, new):
                    self._catalog.require_fenced(connection, each, ddl.txn_id)
                database = require_database(connection, new.database)
                features = self._changes.database.features(connection)
                if target != table.location and not self._changes.may_share():
                    lock_places(connection)
                    require_own_place(connection, f"table {new}", target, table_id=table.id)
                rename_table_rows(connection, table, new, database.id, target, features)
                self._tables.write_table(connection, table, table)
                rows.advance_write_id(connection, table, write_id)
                return self._tables.altered(connection, table, new, write_id)

            with moving(files, ddl, key, before.location, target):
                return ddl.commit(change)

    def _alter_columns(
        self, name: str, decide: Callable[[Table], alteration.ColumnChange], agent_info: str | None, *, cascade: bool,
        added: Sequence[Constraint] = (),
    ) -> Table:  # fmt: skip
        decide(self._catalog.get_table(name))
        self._catalog.ids.reserve(IdKind.COLUMNS, 1)

        def change(connection: Connection, table: Table) -> None:
            rows.write_columns(
                connection, table, decide(table), self._changes.user, self._catalog.ids.take, cascade=cascade
            )
            for constraint in added:
                [altered] = self._catalog.get_tables_in(connection, [table_name(name)])
                constraints.add_constraint(connection, altered, constraint)

        return self._alter(table_name(name), LockType.EXCLUSIVE, change, agent_info)

    def _alter(
        self,
        key: TableName,
        lock: LockType,
        change: Callable[[Connection, Table], None],
        agent_info: str | None,
        prepare: Callable[[], None] = lambda: None,
    ) -> Table:
        """Change a table's rows in a txn; a transactional table advances its write id.

        :param prepare: done under the lock, before the change.
        """
        before = self._catalog.get_table(str(key))
        with ddl_transaction(self._client, [table_lock(key, lock)], agent_info=agent_info) as ddl:
            prepare()
            write_id = ddl.allocate(key) if before.is_transactional else None

            def operation(connection: Connection) -> Table:
                table = self._tables.locked(connection, key, before)
                change(connection, table)
                rows.advance_write_id(connection, table, write_id)
                return self._tables.altered(connection, table, key, write_id)

            return ddl.commit(operation)

    def _check_free(self, new: TableName, taken: Table | None) -> None:
        if taken is not None:
            raise AlreadyExistsError(f"table {new} exists already, at {taken.location}; drop or rename it first")

    def _new_location(self, table: Table, new: TableName, *, moves: bool) -> str:
        """Where a renamed table lies: managed tables that lie where their name says go along with it."""
        old_home, home = (
            self._catalog.get_database(table.db).managed_location,
            self._catalog.get_database(new.database).managed_location,
        )
        by_name = table.type == MANAGED_TABLE and table.location == join(old_home, table.name)
        return join(home, new.name) if moves and by_name else table.location

    def alter_storage(
        self,
        name: str,
        *,
        serde_properties: Mapping[str, str] = _NONE,
        serde: str | None = None,
        stored_as: str | None = None,
        agent_info: str | None = None,
    ) -> Table:
        """Say how the files of a table are read.

        :param serde_properties: to be set (SERDEPROPERTIES).
        :param serde: another class (SET SERDE); it must be one that reads the table's format.
        :param stored_as: ``orc``, ``parquet`` or ``text`` (SET FILEFORMAT); the class follows.
        :raises InvalidArgumentsError: naming what cannot be, and the remedy; nothing was changed.
        """
        before = self._catalog.get_table(name)
        partitioned = before.is_partitioned and bool(self._catalog.list_partitions(name, limit=1))
        check_storage(before, serde_properties, serde, stored_as, has_partitions=partitioned)

        def change(connection: Connection, table: Table) -> None:
            # R3: under the lock, for which this may have waited beside an ADD PARTITION.
            there = table.is_partitioned and bool(list(read_partitions(connection, table, limit=1)))
            check_storage(table, serde_properties, serde, stored_as, has_partitions=there)
            after = replace(table, storage=_stored(table.storage, serde_properties, serde, stored_as))
            self._tables.write_table(connection, table, after)

        shared = serde is None and stored_as is None
        return self._alter(table_name(name), LockType.SHARED_READ if shared else LockType.EXCLUSIVE, change, agent_info)

    def touch(self, name: str, spec: PartitionSpec | None = None, *, agent_info: str | None = None) -> None:
        """Note that a table or partition was altered, without altering it; takes no lock, as in Hive.

        Of a transactional table it takes a write id, as every other change does: whoever keeps the table in memory
        knows by its list at once that it is to be read again. (A Hive takes none, and is noticed by its event.)
        """
        key = table_name(name)
        before = self._catalog.get_table(name)

        def change(connection: Connection, write_id: int | None) -> None:
            table = self._tables.locked(connection, key, before)
            if spec is None:
                self._tables.write_table(connection, table, table)
                rows.advance_write_id(connection, table, write_id)
                self._tables.altered(connection, table, key, write_id)
                return
            partition = self._catalog.partition_in(connection, table, spec)
            whole = self._tables.whole(connection, partition)
            rows.write_partition(
                connection, table, whole, PartitionChange(whole), self._changes.user, self._catalog.ids.take
            )
            rows.advance_write_id(connection, table, write_id, partition.id)
            self._catalog.events.partition_altered(connection, whole, write_id=write_id)

        if not before.is_transactional:
            self._changes.run(lambda connection: change(connection, None))
            return
        if spec is not None:
            self._catalog.get_partition(name, spec)  # before a txn is opened and a write id used up
        with ddl_transaction(self._client, (), agent_info=agent_info) as ddl:
            write_id = ddl.allocate(key)
            ddl.commit(lambda connection: change(connection, write_id))


def check_storage(
    table: Table, properties: Mapping[str, str], serde: str | None, stored_as: str | None, *, has_partitions: bool
) -> None:
    """Refuse what would leave files that cannot be read.

    :raises InvalidArgumentsError: naming what cannot be, and the remedy.
    """
    alteration.require_table(table)
    where = f"table {table.qualified_name}"
    for key, value in properties.items():
        check_property(where, key, value)
    if serde is not None and format_name(table.input_format, serde) is None:
        known = next((f.serde for f in FORMATS.values() if f.input_format == table.input_format), None)
        remedy = f"its files are read by {known}" if known else "SET FILEFORMAT names the class as well"
        raise InvalidArgumentsError(f"{where}: {shorten(repr(serde))} does not read its files; {remedy}")
    if stored_as is None or stored_as == table.format:
        return
    if table.is_transactional:
        raise InvalidArgumentsError(
            f"{where} is transactional and stored as {table.format or 'something else'}: its files would not be found "
            f"as {stored_as}. Copy it: CREATE TABLE … STORED AS {FORMATS[stored_as].keyword} AS SELECT …"
        )
    if has_partitions:
        raise InvalidArgumentsError(
            f"{where} has partitions, which keep their files of format {table.format or 'unknown'}; all files of a "
            "table are read in one format here. Copy it to a new table"
        )


def _stored(storage: Storage, properties: Mapping[str, str], serde: str | None, stored_as: str | None) -> Storage:
    """The storage as it is to be read."""
    if stored_as is not None:
        format = FORMATS[stored_as]
        storage = replace(storage, input_format=format.input_format, output_format=format.output_format)
        serde = format.serde
    return replace(
        storage, serde=(storage.serde[0], serde if serde is not None else storage.serde[1]),
        serde_properties={**storage.serde_properties, **properties},
    )  # fmt: skip
