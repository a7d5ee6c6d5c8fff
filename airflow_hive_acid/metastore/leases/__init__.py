"""Leases: rights to a table or partition for a time, that writers and a real Hive honour.

``model`` has the values, ``grants`` the decision, ``attempts`` and ``queue`` how one is granted it, ``manager`` the
verbs that users call. Imports ``metastore.locks`` and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.leases.grants import utc
    from airflow_hive_acid.metastore.leases.holders import commit_hooks, require_no_other
    from airflow_hive_acid.metastore.leases.keeper import KeptLease, kept
    from airflow_hive_acid.metastore.leases.manager import Leases
    from airflow_hive_acid.metastore.leases.model import HiveLease, Lease, LeaseObject, LeaseType, conflicts, new_secret
    from airflow_hive_acid.metastore.leases.queue import WaitingGrab
    from airflow_hive_acid.metastore.leases.rows import LeaseRow
else:
    __getattr__ = lazily(
        __name__,
        {
            "HiveLease": "model",
            "KeptLease": "keeper",
            "Lease": "model",
            "LeaseObject": "model",
            "LeaseRow": "rows",
            "LeaseType": "model",
            "Leases": "manager",
            "WaitingGrab": "queue",
            "commit_hooks": "holders",
            "conflicts": "model",
            "kept": "keeper",
            "new_secret": "model",
            "require_no_other": "holders",
            "utc": "grants",
        },
    )

__all__ = [
    "HiveLease",
    "KeptLease",
    "Lease",
    "LeaseObject",
    "LeaseRow",
    "LeaseType",
    "Leases",
    "WaitingGrab",
    "commit_hooks",
    "conflicts",
    "kept",
    "new_secret",
    "require_no_other",
    "utc",
]
