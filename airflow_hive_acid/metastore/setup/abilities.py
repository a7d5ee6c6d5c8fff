"""What a metastore cannot hold, for people: it follows from the tables and columns that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import SchemaVersionError

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.schema.layouts import Layout

COUNTING_TXNS = (
    "compaction and cleaning by this package (Hive's own compactor does both; requests are put into its queue)",
    "a replica of another metastore",
    "statistics of columns (ANALYZE … FOR COLUMNS)",
)
"""What is not done where a Hive 3 counts txns."""
_BY_COLUMN = (
    ("COMPACTION_QUEUE", "CQ_POOL_NAME", "pools of compactions"),
    ("COMPACTION_QUEUE", "CQ_NUMBER_OF_BUCKETS", "REBALANCE compactions"),
    ("COMPACTION_QUEUE", "CQ_ERROR_MESSAGE", "why a compaction failed"),
    ("COMPACTION_QUEUE", "CQ_ENQUEUE_TIME", "when a compaction was asked for"),
    ("TBLS", "WRITE_ID", "the last write id of a table in the catalog"),
    ("DBS", "DB_MANAGED_LOCATION_URI", "MANAGEDLOCATION of databases"),
    ("DBS", "DATACONNECTOR_NAME", "databases of data connectors"),
    ("TXN_WRITE_NOTIFICATION_LOG", "WNL_ID", "what a commit wrote, for replication (TXN_WRITE_NOTIFICATION_LOG)"),
)


def lacking(layout: Layout) -> tuple[str, ...]:
    """What cannot be had on a metastore of this layout; empty on Hive 4's."""
    counting = COUNTING_TXNS if layout.counts_txns else ()
    return (*counting, *(what for table, column, what in _BY_COLUMN if layout.lacks(table, column)))


def require(layout: Layout, table: str, column: str, what: str) -> None:
    """Refuse what would be kept in a column that is not there.

    :param what: what was asked for.
    :raises SchemaVersionError: when the column is not there.
    """
    if layout.lacks(table, column):
        raise SchemaVersionError(
            f"{what} cannot be had on this metastore: its {table} has no {column}, which came with Hive 4"
        )


def require_hive_4(layout: Layout, what: str, instead: str) -> None:
    """Refuse what is not done beside a Hive 3.

    :param what: what was asked for; ``instead`` the remedy.
    :raises SchemaVersionError: where txns are counted.
    """
    if layout.counts_txns:
        raise SchemaVersionError(
            f"{what} is not done on this metastore: it belongs to a Hive before 4 (it has the table NEXT_TXN_ID); "
            + instead
        )
