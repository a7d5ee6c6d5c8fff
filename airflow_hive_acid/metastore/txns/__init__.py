"""Txns and their write ids: open, heartbeat, commit, abort, conflicts, snapshots, and the jobs that work for them.

Each module is one verb of Hive's TxnHandler, as functions of a connection; whoever calls them owns the transaction.
Imports ``metastore.notifications`` and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.txns.aborts import AbortedTxns, abort_rows, abort_txn
    from airflow_hive_acid.metastore.txns.commits import CommitHooks
    from airflow_hive_acid.metastore.txns.events import aborted
    from airflow_hive_acid.metastore.txns.history import min_open_watermark
    from airflow_hive_acid.metastore.txns.jobs import COMPACT_KIND, DDL_KIND, Job, JobState, tables_with_unfenced_jobs
    from airflow_hive_acid.metastore.txns.key_values import moves_with_commits, take_over
    from airflow_hive_acid.metastore.txns.pin_rules import Pin, PinnedTable, PinState, overdue
    from airflow_hive_acid.metastore.txns.replicas import forget_mapping, seed_write_ids
    from airflow_hive_acid.metastore.txns.snapshots import Snapshot, take_snapshot, valid_write_ids
    from airflow_hive_acid.metastore.txns.statistics import (
        STATISTICS_ACCURATE,
        RowChange,
        count_rows,
        counted_rows,
        forget,
    )
    from airflow_hive_acid.metastore.txns.txns import txn_facts, was_committed
    from airflow_hive_acid.metastore.txns.withdrawals import GivenUp, left_open
    from airflow_hive_acid.metastore.txns.write_ids import max_allocated, seed_write_id
else:
    __getattr__ = lazily(
        __name__,
        {
            "AbortedTxns": "aborts",
            "CommitHooks": "commits",
            "COMPACT_KIND": "jobs",
            "DDL_KIND": "jobs",
            "GivenUp": "withdrawals",
            "Job": "jobs",
            "JobState": "jobs",
            "Pin": "pin_rules",
            "PinState": "pin_rules",
            "PinnedTable": "pin_rules",
            "RowChange": "statistics",
            "STATISTICS_ACCURATE": "statistics",
            "Snapshot": "snapshots",
            "abort_rows": "aborts",
            "abort_txn": "aborts",
            "aborted": "events",
            "count_rows": "statistics",
            "counted_rows": "statistics",
            "forget": "statistics",
            "forget_mapping": "replicas",
            "left_open": "withdrawals",
            "max_allocated": "write_ids",
            "min_open_watermark": "history",
            "moves_with_commits": "key_values",
            "overdue": "pin_rules",
            "seed_write_id": "write_ids",
            "seed_write_ids": "replicas",
            "tables_with_unfenced_jobs": "jobs",
            "take_over": "key_values",
            "take_snapshot": "snapshots",
            "txn_facts": "txns",
            "valid_write_ids": "snapshots",
            "was_committed": "txns",
        },
    )

__all__ = [
    "COMPACT_KIND",
    "DDL_KIND",
    "STATISTICS_ACCURATE",
    "AbortedTxns",
    "CommitHooks",
    "GivenUp",
    "Job",
    "JobState",
    "Pin",
    "PinState",
    "PinnedTable",
    "RowChange",
    "Snapshot",
    "abort_rows",
    "abort_txn",
    "aborted",
    "count_rows",
    "counted_rows",
    "forget",
    "forget_mapping",
    "left_open",
    "max_allocated",
    "min_open_watermark",
    "moves_with_commits",
    "overdue",
    "seed_write_id",
    "seed_write_ids",
    "tables_with_unfenced_jobs",
    "take_over",
    "take_snapshot",
    "txn_facts",
    "valid_write_ids",
    "was_committed",
]
