"""What the metastore of a replica has to say of its tables: what the source's says, and where streams stand.

Streams go on at the replica after a fail-over, from their positions, or by the number of their last micro-batch (R14):
those belong to the rows that are there, and come with them (R11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.records import read_marks, take_over_marks
from airflow_hive_acid.metastore.txns import moves_with_commits, take_over
from airflow_hive_acid.replication.acid.tables import is_described_otherwise, is_stored_otherwise
from airflow_hive_acid.replication.dumps.exports import export_metadata
from airflow_hive_acid.replication.dumps.metadata_imports import import_metadata_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.metastore.records import StreamMark
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
    streams = _moved_streams(replica, targets)
    if not changed and not moved and not streams:
        return None
    stored = [t.name for t in changed if not t.bootstrapped and is_stored_otherwise(t.source.table, t.table)]
    replica.client.pins.require_unpinned(stored, NEW_COLUMNS)
    dumps = export_metadata(source, [(t.source.table.qualified_name, None) for t in changed])
    names = [table_name(t.name) for t in changed]

    def operation(connection: Connection) -> None:
        import_metadata_in(connection, replica, dumps, names)
        for target in moved:
            take_over(connection, target.table.id, _positions(target.source.table))
        take_over_marks(connection, streams)

    return operation


def _moved_streams(replica: Site, targets: Sequence[Target]) -> dict[TableName, tuple[StreamMark, ...]]:
    """How far the streams of the source have come, for tables whose streams stand elsewhere at the replica."""
    wanted = {table_name(t.name): t.source.streams for t in targets if t.source.streams is not None}
    here = replica.client.database.read(lambda connection: read_marks(connection, wanted))
    return {table: marks for table, marks in wanted.items() if marks != here[table]}


def _positions(table: Table) -> dict[str, str]:
    return {k: v for k, v in table.properties.items() if moves_with_commits(k)}
