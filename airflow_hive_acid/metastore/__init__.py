"""The control plane: transactions, locks, write ids, snapshots, catalog and compaction queue of a Hive 4 metastore."""

from airflow_hive_acid.metastore.client import MetastoreClient
from airflow_hive_acid.metastore.protocol.transaction import ReaderSnapshot, Transaction

__all__ = ["MetastoreClient", "ReaderSnapshot", "Transaction"]
