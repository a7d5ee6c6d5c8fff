"""The database under the metastore: connections, dialects, row locks, retries, its clock, and the codes in its rows.

The only room that knows which database it is. It knows the tables it locks (``metastore.schema``), and no verb.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.database.clock import clock_ms, now_ms
    from airflow_hive_acid.metastore.database.codes import (
        AbortReason,
        LockState,
        LockType,
        Operation,
        TxnState,
        TxnType,
    )
    from airflow_hive_acid.metastore.database.database import Database, chunks
    from airflow_hive_acid.metastore.database.heartbeats import Heartbeater
    from airflow_hive_acid.metastore.database.urls import parse_url, safe_url
else:
    __getattr__ = lazily(
        __name__,
        {
            "AbortReason": "codes",
            "Database": "database",
            "Heartbeater": "heartbeats",
            "LockState": "codes",
            "LockType": "codes",
            "Operation": "codes",
            "TxnState": "codes",
            "TxnType": "codes",
            "chunks": "database",
            "clock_ms": "clock",
            "now_ms": "clock",
            "parse_url": "urls",
            "safe_url": "urls",
        },
    )

__all__ = [
    "AbortReason",
    "Database",
    "Heartbeater",
    "LockState",
    "LockType",
    "Operation",
    "TxnState",
    "TxnType",
    "chunks",
    "clock_ms",
    "now_ms",
    "parse_url",
    "safe_url",
]
