"""What a metastore cannot hold, for people: it follows from the tables and columns that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import SchemaVersionError

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.schema.layouts import Layout

COUNTING_TXNS = (
    "compaction and cleaning by this package (Hive's own compactor does both; requests are put into its queue)",
    "minor compactions (what a Hive 3.1 makes of one, it may not be able to read)",
    "a replica of another metastore",
    "statistics of columns (ANALYZE … FOR COLUMNS)",
)
"""What is not done where a Hive 3 counts txns."""
OF_A_VENDOR = (
    "writing, unless hive.acid.unverified.metastores is true: it belongs to a vendor's Hive (CDP), whose own protocol "
    "was never run beside this package"
)
"""What is not done where txns are counted beside columns of Hive 4."""
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
    vendors = (OF_A_VENDOR,) if layout.is_vendors else ()
    return (*counting, *vendors, *(what for table, column, what in _BY_COLUMN if layout.lacks(table, column)))


def require(layout: Layout, table: str, column: str, what: str) -> None:
    """Refuse what would be kept in a column that is not there.

    :param what: what was asked for.
    :raises SchemaVersionError: when the column is not there.
    """
    if layout.lacks(table, column):
        raise SchemaVersionError(
            f"{what} cannot be had on this metastore: its {table} has no {column}, which came with Hive 4"
        )


def require_verified(layout: Layout, insists: bool) -> None:
    """Refuse what writes beside a vendor's Hive: a txn that may, and a change of the catalog.

    :param insists: whether the owner wants it all the same.
    :raises SchemaVersionError: when not, and txns are counted beside columns of Hive 4.
    """
    if layout.is_vendors and not insists:
        raise SchemaVersionError(
            "nothing is written on this metastore: it belongs to a vendor's Hive (CDP): it counts txns in NEXT_TXN_ID "
            "as Hive 3.1 does, and has columns of Hive 4. Its own protocol was never run beside this package, so here "
            "it only reads. Try it on a copy first; then set hive.acid.unverified.metastores to true"
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
