"""Hive 4's lock manager: requests, compatibility, the queue, and who waits for whom.

:mod:`.legacy` has the manager of the Hive Concurrency Model. Imports ``metastore.txns`` and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.locks.deadlocks import Party
    from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest, LockRow, merge_components
    from airflow_hive_acid.metastore.locks.legacy.choice import legacy_lock_manager
    from airflow_hive_acid.metastore.locks.legacy.concurrency_model import (
        ConcurrencyModelLocks,
        LegacyLockRow,
        LegacyPath,
        parents_of,
    )
    from airflow_hive_acid.metastore.locks.listing import TxnRow
    from airflow_hive_acid.metastore.locks.wait_graph import WaitEdge, WaitGraph
    from airflow_hive_acid.metastore.locks.wait_queue import PartyInfo, read_wait_graph
else:
    __getattr__ = lazily(
        __name__,
        {
            "ConcurrencyModelLocks": "legacy.concurrency_model",
            "LegacyLockRow": "legacy.concurrency_model",
            "LegacyPath": "legacy.concurrency_model",
            "LockComponent": "interface",
            "LockRequest": "interface",
            "LockRow": "interface",
            "Party": "deadlocks",
            "PartyInfo": "wait_queue",
            "TxnRow": "listing",
            "WaitEdge": "wait_graph",
            "WaitGraph": "wait_graph",
            "legacy_lock_manager": "legacy.choice",
            "merge_components": "interface",
            "parents_of": "legacy.concurrency_model",
            "read_wait_graph": "wait_queue",
        },
    )

__all__ = [
    "ConcurrencyModelLocks",
    "LegacyLockRow",
    "LegacyPath",
    "LockComponent",
    "LockRequest",
    "LockRow",
    "Party",
    "PartyInfo",
    "TxnRow",
    "WaitEdge",
    "WaitGraph",
    "legacy_lock_manager",
    "merge_components",
    "parents_of",
    "read_wait_graph",
]
