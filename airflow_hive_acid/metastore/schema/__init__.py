"""Tables of the metastore as values: Hive 4's own, and ours beside them. Nothing here runs a statement.

Imports nothing of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.schema.hive_catalog import DBS
    from airflow_hive_acid.metastore.schema.hive_transactions import NEXT_WRITE_ID, TXNS
    from airflow_hive_acid.metastore.schema.replication import (
        HIVE_ACID_REPL_EVENT,
        HIVE_ACID_REPL_GRANT,
        HIVE_ACID_REPL_OBJECT,
        HIVE_ACID_REPL_POLICY,
    )
else:
    __getattr__ = lazily(
        __name__,
        {
            "DBS": "hive_catalog",
            "HIVE_ACID_REPL_EVENT": "replication",
            "HIVE_ACID_REPL_GRANT": "replication",
            "HIVE_ACID_REPL_OBJECT": "replication",
            "HIVE_ACID_REPL_POLICY": "replication",
            "NEXT_WRITE_ID": "hive_transactions",
            "TXNS": "hive_transactions",
        },
    )

__all__ = [
    "DBS",
    "HIVE_ACID_REPL_EVENT",
    "HIVE_ACID_REPL_GRANT",
    "HIVE_ACID_REPL_OBJECT",
    "HIVE_ACID_REPL_POLICY",
    "NEXT_WRITE_ID",
    "TXNS",
]
