"""A replica's table where there is none yet, and none any more where one must begin anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import is_hidden
from airflow_hive_acid.metastore.catalog_model import TableDefinition
from airflow_hive_acid.metastore.codes import LockType
from airflow_hive_acid.metastore.ddl import database_lock, ddl_transaction, table_lock
from airflow_hive_acid.metastore.objects import table_name
from airflow_hive_acid.metastore.replica_records import forget_records

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog_model import DroppedTable, Table
    from airflow_hive_acid.replication.site import Site

_NOT_COPIED = ("repl.", "hive.acid.repl.")
_STATISTICS = frozenset({
    "column_stats_accurate", "numfiles", "numrows", "rawdatasize", "totalsize", "numfileserasurecoded",
    "transient_lastddltime", "last_modified_by", "last_modified_time",
})  # fmt: skip


def create_like(site: Site, source: Table, name: str) -> Table:
    """Make the replica's table as the source's is; its directory must be empty or absent.

    What only the full metadata of the source says (owners, privileges, comments of the database) follows by import.

    :raises InvalidArgumentsError: when something lies where the table goes.
    """
    key = table_name(name)
    properties = {
        k: v for k, v in source.properties.items()
        if not k.lower().startswith(_NOT_COPIED) and k.lower() not in _STATISTICS
    }  # fmt: skip
    definition = TableDefinition(
        db=key.database, name=key.name, columns=source.columns, partition_columns=source.partition_columns,
        properties=properties, owner=source.owner, bucket_columns=source.bucket_columns,
        bucket_count=source.bucket_count, sort_columns=source.sort_columns, comments=source.comments,
        stored_as=source.format or "orc",
    )  # fmt: skip
    planned = site.client.catalog.plan_table(definition)
    location = planned.location or ""
    if site.filesystem.exists(location):
        there = [e.name for e in site.filesystem.list_files(location) if not is_hidden(e.name)]
        if there:
            raise InvalidArgumentsError(
                f"{location} is not empty: it holds {there[0]}, and the new table {name} of {site.name} would take it "
                "for its own; empty it"
            )
    table = site.client.catalog.create_table(definition)
    site.filesystem.make_directory(table.location)
    return table


def drop_for_bootstrap(site: Site, table: Table, policy: str) -> None:
    """Drop a table of the replica with its files: it is a copy of one that is gone, or is copied again."""
    client, key = site.client, table_name(table.qualified_name)
    locks = [database_lock(key.database, LockType.SHARED_READ), table_lock(key, LockType.EXCLUSIVE)]

    def change(conn: Connection) -> DroppedTable:
        forget_records(conn, policy, [table.id])
        return client.catalog.drop_table_in(conn, key, purge=True)

    with ddl_transaction(client, locks, agent_info=f"replication {policy}") as ddl:
        dropped = ddl.commit(change)
    for location in dropped.locations:
        parent = location.rstrip("/").rpartition("/")[0]
        paths.require_inside(parent, location)
        site.filesystem.delete(location, inside=parent)
