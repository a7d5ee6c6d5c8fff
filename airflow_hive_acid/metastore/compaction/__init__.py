"""The queue of compactions and what stands around it: requests, runs, cleaning, decisions, measures and horizons.

Imports ``metastore.txns`` and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.compaction.cleaning import Covered, dropped_since
    from airflow_hive_acid.metastore.compaction.cleaning_records import CleaningRecord
    from airflow_hive_acid.metastore.compaction.decisions import StoredDecision, read_decisions_of_requests
    from airflow_hive_acid.metastore.compaction.history import PurgedCompaction, Retention
    from airflow_hive_acid.metastore.compaction.horizon import (
        AbortedTxn,
        Holder,
        Horizon,
        RegisteredReaders,
        read_aborted,
        read_holder,
        read_horizon,
        read_registered,
    )
    from airflow_hive_acid.metastore.compaction.listing import (
        COMPACTION_ORDER,
        CompactionFilter,
        Order,
        compactions,
        stream_compactions,
    )
    from airflow_hive_acid.metastore.compaction.measures import Measure, Point, series
    from airflow_hive_acid.metastore.compaction.model import (
        AbortedWrites,
        Candidate,
        Compaction,
        CompactionState,
        CompactionType,
        Resource,
    )
    from airflow_hive_acid.metastore.compaction.requests import CompactionRequest
    from airflow_hive_acid.metastore.compaction.rows import clean_text
    from airflow_hive_acid.metastore.compaction.runs import OUR_VERSION, Waiting, agent_of
    from airflow_hive_acid.metastore.compaction.trash_records import Trashed
    from airflow_hive_acid.metastore.compaction.writers import OpenWriter, find_open_writers
else:
    __getattr__ = lazily(
        __name__,
        {
            "AbortedTxn": "horizon",
            "AbortedWrites": "model",
            "COMPACTION_ORDER": "listing",
            "Candidate": "model",
            "CleaningRecord": "cleaning_records",
            "Compaction": "model",
            "CompactionFilter": "listing",
            "CompactionRequest": "requests",
            "CompactionState": "model",
            "CompactionType": "model",
            "Covered": "cleaning",
            "Holder": "horizon",
            "Horizon": "horizon",
            "Measure": "measures",
            "OUR_VERSION": "runs",
            "OpenWriter": "writers",
            "Order": "listing",
            "Point": "measures",
            "PurgedCompaction": "history",
            "RegisteredReaders": "horizon",
            "Resource": "model",
            "Retention": "history",
            "StoredDecision": "decisions",
            "Trashed": "trash_records",
            "Waiting": "runs",
            "agent_of": "runs",
            "clean_text": "rows",
            "compactions": "listing",
            "dropped_since": "cleaning",
            "find_open_writers": "writers",
            "read_aborted": "horizon",
            "read_decisions_of_requests": "decisions",
            "read_holder": "horizon",
            "read_horizon": "horizon",
            "read_registered": "horizon",
            "series": "measures",
            "stream_compactions": "listing",
        },
    )

__all__ = [
    "COMPACTION_ORDER",
    "OUR_VERSION",
    "AbortedTxn",
    "AbortedWrites",
    "Candidate",
    "CleaningRecord",
    "Compaction",
    "CompactionFilter",
    "CompactionRequest",
    "CompactionState",
    "CompactionType",
    "Covered",
    "Holder",
    "Horizon",
    "Measure",
    "OpenWriter",
    "Order",
    "Point",
    "PurgedCompaction",
    "RegisteredReaders",
    "Resource",
    "Retention",
    "StoredDecision",
    "Trashed",
    "Waiting",
    "agent_of",
    "clean_text",
    "compactions",
    "dropped_since",
    "find_open_writers",
    "read_aborted",
    "read_decisions_of_requests",
    "read_holder",
    "read_horizon",
    "read_registered",
    "series",
    "stream_compactions",
]
