"""What a transaction has written and nobody could see: others have hidden its place after it had begun.

An INSERT with ``hive.txn.xlock.write`` has SHARED_READ alone, beside which a DROP PARTITION, a TRUNCATE, a CREATE OR
REPLACE and an INSERT OVERWRITE with ``hive.txn.xlock.iow`` off are granted. They leave a base whose write id is the
higher one. A partition may also be gone without one: its drop had its write id first, or was that of a program which
takes no locks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.format.partitions import every_spelling, may_be_among
from airflow_hive_acid.metastore.catalog import find_partitions
from airflow_hive_acid.metastore.compaction import dropped_since
from airflow_hive_acid.metastore.names import table_name
from airflow_hive_acid.metastore.txns import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from airflow_hive_acid.engine.transactions.written_tables import Written


def require_seen(
    connection: Connection,
    txn_id: int,
    name: str,
    write_id: int,
    written: Written,
    bases: Mapping[str, int],
    gap_timeout_ms: int,
) -> None:
    """Refuse, inside the commit, what would be hidden (R3).

    :param name: ``db.table``.
    :param bases: those of later write ids where it has written, by URI.
    :param gap_timeout_ms: how long a txn may take to be opened, for the look at which of them are committed.
    :raises WriteConflictError: naming the partition or the base; the transaction is to be aborted.
    """
    if written.table.is_partitioned:
        _require_partitions(connection, txn_id, name, write_id, written)
    if not bases:
        return
    key = table_name(name)
    seen = take_snapshot(connection, [key], 0, gap_timeout_ms).write_ids[key]
    hiding = next((uri for uri, later in sorted(bases.items()) if seen.is_valid(later)), None)
    if hiding is not None:
        raise WriteConflictError(
            f"Aborting [txnid:{txn_id}]: {name} was overwritten or emptied after this txn had begun, and what it wrote "
            f"there could not be seen behind {hiding}. Run the statement again"
        )


def _require_partitions(connection: Connection, txn_id: int, name: str, write_id: int, written: Written) -> None:
    mine = sorted({d.partition for manifest in written.manifests for d in manifest.directories})
    if not mine:
        return
    dropped = every_spelling(dropped_since(connection, table_name(name), write_id))
    hidden = next((partition for partition in mine if may_be_among(partition, dropped)), None)
    if hidden is None:
        known = [partition for partition in mine if partition not in written.made]
        there = find_partitions(connection, written.table, known) if known else {}
        hidden = next((partition for partition in known if partition not in there), None)
    if hidden is not None:
        raise WriteConflictError(
            f"Aborting [txnid:{txn_id}]: partition {hidden} of {name} was dropped after this txn had begun, and what "
            "it wrote there could not be seen. Run the statement again"
        )
