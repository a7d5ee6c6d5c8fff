"""CREATE, ALTER and DROP VIEW in txns with Hive's locks.

A view is read under a shared lock of its own, as in Hive; whoever replaces, alters or drops it has it to himself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.catalog.rows.ids import IdKind
from airflow_hive_acid.metastore.catalog.rows.objects import insert_tables
from airflow_hive_acid.metastore.catalog.rows.reader import read_tables, require_database
from airflow_hive_acid.metastore.catalog.values.views import check_property, require_free, require_view, with_query_of
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import LockType
from airflow_hive_acid.metastore.names.objects import TableName, table_name
from airflow_hive_acid.metastore.protocol.ddl import database_lock, ddl_transaction, table_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog.values.model import Table
    from airflow_hive_acid.metastore.statements.locked_tables import LockedTables

_NOTHING: Mapping[str, str] = {}


class ViewStatements:
    """The statements about views of one catalog."""

    def __init__(self, tables: LockedTables) -> None:
        self._tables = tables
        self._catalog = tables.catalog
        self._client = tables.client

    def create_view(
        self, view: Table, *, replace_it: bool = False, if_not_exists: bool = False, agent_info: str | None = None
    ) -> Table:
        """Make a view.

        :param view: of ``new_view``.
        :param replace_it: a view of that name gets this query, comment and properties instead of its own.
        :return: the view as it is now; with ``if_not_exists`` the one that there was.
        :raises AlreadyExistsError: when there is a table, or without these parameters a view, of that name.
        """
        key = TableName(view.db, view.name)
        there = self._catalog.find_tables([str(key)]).get(str(key))
        if there is not None:
            require_free(there, replace_it=replace_it, if_not_exists=if_not_exists)
            if not replace_it:
                return there
            return self._change(
                key, lambda before: replace(with_query_of(before, view), properties=view.properties), agent_info
            )
        self._catalog.reserve_table_ids()
        locks = [database_lock(key.database, LockType.SHARED_READ)]
        with ddl_transaction(self._client, locks, agent_info=agent_info) as ddl:
            return ddl.commit(lambda connection: self._insert(connection, key, view, if_not_exists=if_not_exists))

    def alter_view_query(self, view: Table, *, agent_info: str | None = None) -> Table:
        """Give a view another query; its comment and properties stay."""
        key = TableName(view.db, view.name)
        return self._change(key, lambda before: with_query_of(before, view), agent_info)

    def alter_view_properties(
        self, name: str, properties: Mapping[str, str] = _NOTHING, unset: Sequence[str] = (), *,
        if_exists: bool = False, agent_info: str | None = None,
    ) -> Table:  # fmt: skip
        """Set and remove properties of a view.

        :param if_exists: removing one that is not there is no error.
        """
        for key in (*properties, *unset):
            check_property(name, key)

        def changed(before: Table) -> Table:
            missing = [key for key in unset if key not in before.properties]
            if missing and not if_exists:
                raise InvalidArgumentsError(f"view {name} has no property {missing[0]}; UNSET TBLPROPERTIES IF EXISTS")
            kept = {key: value for key, value in before.properties.items() if key not in unset}
            return replace(before, properties={**kept, **properties})

        return self._change(table_name(name), changed, agent_info)

    def drop_view(self, name: str, *, if_exists: bool = False, agent_info: str | None = None) -> None:
        """Drop a view.

        :raises InvalidArgumentsError: when it is a table.
        """
        key = table_name(name)
        if if_exists and str(key) not in self._catalog.find_tables([name]):
            return
        require_view(self._catalog.get_table(name), "DROP VIEW", "DROP TABLE")
        locks = [database_lock(key.database, LockType.SHARED_READ), table_lock(key, LockType.EXCLUSIVE)]
        with ddl_transaction(self._client, locks, agent_info=agent_info) as ddl:

            def drop(connection: Connection) -> None:
                require_view(self._catalog.get_tables_in(connection, [key])[0], "DROP VIEW", "DROP TABLE")
                self._catalog.drop_table_in(connection, key, besides=ddl.txn_id)

            ddl.commit(drop)

    def _insert(self, connection: Connection, key: TableName, view: Table, *, if_not_exists: bool) -> Table:
        database = require_database(connection, key.database)
        there = read_tables(connection, [key]).get(key)
        if there is not None:  # somebody was faster
            require_free(there, if_not_exists=if_not_exists)
            return there
        created = now_ms(connection) // 1000
        parameters = {**view.properties, "transient_lastDdlTime": str(created)}
        whole = replace(view, created=created, owner=self._client.user, properties=parameters)
        insert_tables(connection, [whole], {key.database: database.id}, self._catalog.ids.take)
        made = read_tables(connection, [key])[key]
        self._catalog.events.table_created(connection, made)
        return made

    def _change(self, key: TableName, changed: Callable[[Table], Table], agent_info: str | None) -> Table:
        before = self._catalog.get_table(str(key))
        require_view(before, "ALTER VIEW", "ALTER TABLE")
        changed(before)  # before anything is locked
        self._catalog.ids.reserve(IdKind.COLUMNS, 1)
        with ddl_transaction(self._client, [table_lock(key, LockType.EXCLUSIVE)], agent_info=agent_info) as ddl:

            def operation(connection: Connection) -> Table:
                now = self._tables.locked(connection, key, before)
                self._tables.write_table(connection, now, changed(now))
                return self._tables.altered(connection, now, key, None)

            return ddl.commit(operation)
