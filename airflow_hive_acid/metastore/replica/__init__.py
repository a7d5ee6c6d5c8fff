"""What replication asks of the metastore: mapped txns, applied events, whole objects written as the source has them.

Imports ``metastore.verbs``, ``metastore.catalog`` and the rooms below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.replica.acid import (
        METADATA_STATE_ID,
        STATE_ID,
        advance,
        diverged,
        open_mapped_txns,
        sync_txns,
        unmap,
    )
    from airflow_hive_acid.metastore.replica.advances import Advance, TableAdvance, Written
    from airflow_hive_acid.metastore.replica.compactions import is_sync_under_way
    from airflow_hive_acid.metastore.replica.overwritten import OVERWRITTEN, cut_run, overwritten_runs
    from airflow_hive_acid.metastore.replica.rebalances import REBALANCED, known_rebalance, newest_rebalance_seen
    from airflow_hive_acid.metastore.replica.records import (
        TARGET_FOR,
        SyncRecord,
        TableRecord,
        begin_attempt,
        came_up_to,
        forget_records,
        mark_failed_over,
        mark_target,
        note_state,
        policies_of,
        read_names,
        read_records,
        read_sync,
        release_locks,
        require_attempt,
        target_databases,
        unmark_target,
        write_records,
    )
    from airflow_hive_acid.metastore.replica.source import txns_of, uncleaned_compactions
    from airflow_hive_acid.metastore.replica.waiting import ended_here, given_up, why_lost
else:
    __getattr__ = lazily(
        __name__,
        {
            "Advance": "advances",
            "METADATA_STATE_ID": "acid",
            "OVERWRITTEN": "overwritten",
            "REBALANCED": "rebalances",
            "STATE_ID": "acid",
            "SyncRecord": "records",
            "TARGET_FOR": "records",
            "TableAdvance": "advances",
            "TableRecord": "records",
            "Written": "advances",
            "advance": "acid",
            "begin_attempt": "records",
            "came_up_to": "records",
            "cut_run": "overwritten",
            "diverged": "acid",
            "ended_here": "waiting",
            "forget_records": "records",
            "given_up": "waiting",
            "is_sync_under_way": "compactions",
            "known_rebalance": "rebalances",
            "mark_failed_over": "records",
            "mark_target": "records",
            "newest_rebalance_seen": "rebalances",
            "note_state": "records",
            "open_mapped_txns": "acid",
            "overwritten_runs": "overwritten",
            "policies_of": "records",
            "read_names": "records",
            "read_records": "records",
            "read_sync": "records",
            "release_locks": "records",
            "require_attempt": "records",
            "sync_txns": "acid",
            "target_databases": "records",
            "txns_of": "source",
            "uncleaned_compactions": "source",
            "unmap": "acid",
            "unmark_target": "records",
            "why_lost": "waiting",
            "write_records": "records",
        },
    )

__all__ = [
    "METADATA_STATE_ID",
    "OVERWRITTEN",
    "REBALANCED",
    "STATE_ID",
    "TARGET_FOR",
    "Advance",
    "SyncRecord",
    "TableAdvance",
    "TableRecord",
    "Written",
    "advance",
    "begin_attempt",
    "came_up_to",
    "cut_run",
    "diverged",
    "ended_here",
    "forget_records",
    "given_up",
    "is_sync_under_way",
    "known_rebalance",
    "mark_failed_over",
    "mark_target",
    "newest_rebalance_seen",
    "note_state",
    "open_mapped_txns",
    "overwritten_runs",
    "policies_of",
    "read_names",
    "read_records",
    "read_sync",
    "release_locks",
    "require_attempt",
    "sync_txns",
    "target_databases",
    "txns_of",
    "uncleaned_compactions",
    "unmap",
    "unmark_target",
    "why_lost",
    "write_records",
]
