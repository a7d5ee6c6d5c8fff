"""What the catalog of a replica has to say of its tables: what the source's says, and where streams stand.

Streams go on at the replica after a fail-over, from their positions: those belong to the rows that are there, and come
with them (R11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.txns import moves_with_commits, take_over
from airflow_hive_acid.replication.acid.tables import is_described_otherwise, is_stored_otherwise
from airflow_hive_acid.replication.dumps.exports import export_metadata
from airflow_hive_acid.replication.dumps.metadata_imports import import_metadata_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.replication.acid.target import Target
    from airflow_hive_acid.replication.site import Site

NEW_COLUMNS = "changing its columns as they were changed at the source"


def describe(source: Site, replica: Site, targets: Sequence[Target]) -> Callable[[Connection], None] | None:
    """What changes the tables of which the catalogs say different things, None if there are none.

    The locks of the source's snapshot keep DDL away meanwhile, but no writers: their streams' positions are as of the
    snapshot, as the rows are.

    :raises TablePinnedError: when a pin at the replica reads a table whose columns would change.
    """
    changed = [t for t in targets if t.bootstrapped or is_described_otherwise(t.source.table, t.table)]
    moved = [t for t in targets if _positions(t.source.table) != _positions(t.table)]
    if not changed and not moved:
        return None
    stored = [t.name for t in changed if not t.bootstrapped and is_stored_otherwise(t.source.table, t.table)]
    replica.client.pins.require_unpinned(stored, NEW_COLUMNS)
    dumps = export_metadata(source, [(t.source.table.qualified_name, None) for t in changed])
    names = [table_name(t.name) for t in changed]

    def operation(connection: Connection) -> None:
        import_metadata_in(connection, replica, dumps, names)
        for target in moved:
            take_over(connection, target.table.id, _positions(target.source.table))

    return operation


def _positions(table: Table) -> dict[str, str]:
    return {k: v for k, v in table.properties.items() if moves_with_commits(k)}
