"""The control plane: transactions, locks, write ids, snapshots, catalog and compaction queue of a Hive 4 metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.client import MetastoreClient
    from airflow_hive_acid.metastore.protocol.transaction import ReaderSnapshot, Transaction
else:
    # Who needs the face of one room, as an operator does when a DAG file is parsed, does not pay for all rooms.
    __getattr__ = lazily(
        __name__,
        {
            "MetastoreClient": "client",
            "ReaderSnapshot": "protocol.transaction",
            "Transaction": "protocol.transaction",
        },
    )

__all__ = ["MetastoreClient", "ReaderSnapshot", "Transaction"]
