"""Tables of other formats: what a mirror in Iceberg or Delta is known by, and what is to be done next; what comes from
elsewhere and whether it can be brought in.

Gives targets, states and decisions, all of them values. May import names, paths and errors.
"""

from airflow_hive_acid.format.mirrors.columns import ColumnStep, column_steps, may_become
from airflow_hive_acid.format.mirrors.states import (
    HIDDEN,
    SEQUENCE_PROPERTY,
    STATE_PROPERTY,
    WRITE_IDS_PROPERTY,
    MirrorDecision,
    MirrorState,
    SourceTable,
    Todo,
    checked_key,
    decide,
    event_of,
    key_now,
    made_since,
    next_state,
    partition_digests,
)
from airflow_hive_acid.format.mirrors.targets import MirrorTarget, TargetFormat

__all__ = [
    "HIDDEN",
    "SEQUENCE_PROPERTY",
    "STATE_PROPERTY",
    "WRITE_IDS_PROPERTY",
    "ColumnStep",
    "MirrorDecision",
    "MirrorState",
    "MirrorTarget",
    "SourceTable",
    "TargetFormat",
    "Todo",
    "checked_key",
    "column_steps",
    "decide",
    "event_of",
    "key_now",
    "made_since",
    "may_become",
    "next_state",
    "partition_digests",
]
