"""What a transaction has written and nobody could see: its partition was dropped after it had begun.

An INSERT with ``hive.txn.xlock.write`` has SHARED_READ alone, beside which a DROP PARTITION is granted. The drop leaves
a base without rows, whose write id is the higher one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import WriteConflictError
from airflow_hive_acid.format.partitions import may_be_same
from airflow_hive_acid.metastore.compaction import dropped_since
from airflow_hive_acid.metastore.names import table_name

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from airflow_hive_acid.engine.transactions.written_tables import Written


def require_seen(connection: Connection, txn_id: int, name: str, write_id: int, written: Written) -> None:
    """Refuse, inside the commit, what would be hidden (R3).

    :param name: ``db.table``.
    :raises WriteConflictError: naming the partition; the transaction is to be aborted.
    """
    if not written.table.is_partitioned:
        return
    mine = sorted({d.partition for manifest in written.manifests for d in manifest.directories})
    dropped = dropped_since(connection, table_name(name), write_id) if mine else set()
    hidden = next((p for p in mine if any(may_be_same(p, other) for other in dropped)), None)
    if hidden is not None:
        raise WriteConflictError(
            f"Aborting [txnid:{txn_id}]: partition {hidden} of {name} was dropped after this txn had begun, and what "
            "it wrote there could not be seen. Run the statement again"
        )
