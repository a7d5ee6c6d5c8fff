"""What we note beside Hive's tables: claims, shared txns, streams, mirrors, reads, and marks of places.

Imports ``metastore.catalog`` and below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.faces import lazily

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.records.claim_rules import Recorded, Rerun, Wish
    from airflow_hive_acid.metastore.records.claims import Claim, Unapplied, Unit, digest_of
    from airflow_hive_acid.metastore.records.mirrors import Mirror
    from airflow_hive_acid.metastore.records.reads import NO_MARK, Mark, ReadCount
    from airflow_hive_acid.metastore.records.shared_rules import (
        NO_KEEPER,
        Member,
        SharedState,
        SharedTxn,
        describe,
        holder_in_the_way,
        holds_too_much,
        is_one_of,
        keeper_gone,
        too_old,
        unfinished,
    )
    from airflow_hive_acid.metastore.records.shared_txns import NewSharedTxn
    from airflow_hive_acid.metastore.records.stream_marks import (
        StreamMark,
        bring_marks,
        read_marks,
        take_over_marks,
    )
    from airflow_hive_acid.metastore.records.streams import Owner
else:
    __getattr__ = lazily(
        __name__,
        {
            "Claim": "claims",
            "Mark": "reads",
            "Member": "shared_rules",
            "Mirror": "mirrors",
            "NO_KEEPER": "shared_rules",
            "NO_MARK": "reads",
            "NewSharedTxn": "shared_txns",
            "Owner": "streams",
            "ReadCount": "reads",
            "Recorded": "claim_rules",
            "Rerun": "claim_rules",
            "SharedState": "shared_rules",
            "SharedTxn": "shared_rules",
            "StreamMark": "stream_marks",
            "Unapplied": "claims",
            "Unit": "claims",
            "Wish": "claim_rules",
            "bring_marks": "stream_marks",
            "describe": "shared_rules",
            "digest_of": "claims",
            "holder_in_the_way": "shared_rules",
            "holds_too_much": "shared_rules",
            "is_one_of": "shared_rules",
            "keeper_gone": "shared_rules",
            "read_marks": "stream_marks",
            "take_over_marks": "stream_marks",
            "too_old": "shared_rules",
            "unfinished": "shared_rules",
        },
    )

__all__ = [
    "NO_KEEPER",
    "NO_MARK",
    "Claim",
    "Mark",
    "Member",
    "Mirror",
    "NewSharedTxn",
    "Owner",
    "ReadCount",
    "Recorded",
    "Rerun",
    "SharedState",
    "SharedTxn",
    "StreamMark",
    "Unapplied",
    "Unit",
    "Wish",
    "bring_marks",
    "describe",
    "digest_of",
    "holder_in_the_way",
    "holds_too_much",
    "is_one_of",
    "keeper_gone",
    "read_marks",
    "take_over_marks",
    "too_old",
    "unfinished",
]
