"""The Initiator's rules as pure functions (Hive's Initiator and AcidTableOptimizer).

``decide`` looks at sizes and counts; ``skip_reason`` says why a candidate is not looked at in the first place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.decisions import Decision, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.maintenance.directories import DirectorySizes
    from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds
    from airflow_hive_acid.metastore.catalog_model import Table
    from airflow_hive_acid.metastore.compaction_queue_model import Candidate, Compaction

_NO_AUTO = ("no_auto_compaction", "NO_AUTO_COMPACTION")
_REPL_PENDING = "repl.first.inc.pending"


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """What is known about a candidate before its directory is listed.

    :param table: None when the catalog does not know it.
    :param database_properties: parameters of its database.
    :param partition_exists: whether the catalog knows the partition; True for a table.
    :param active: a request for it that is initiated or being worked on.
    :param failing: whether its last compactions all failed.
    """

    candidate: Candidate
    table: Table | None
    database_properties: Mapping[str, str]
    partition_exists: bool
    active: Compaction | None
    failing: bool


def skip_reason(facts: CandidateFacts) -> tuple[Kind, str] | None:
    """Why a candidate is left alone; None when its directory should be looked at.

    ``Kind.GIVEN_UP`` leaves a row in the history (did not initiate), ``Kind.SKIPPED`` leaves none.
    """
    table, partition = facts.table, facts.candidate.resource.partition
    if facts.database_properties.get(_REPL_PENDING, "").lower() == "true":
        return Kind.SKIPPED, "its database waits for a first incremental replication"
    if facts.active is not None:
        return Kind.SKIPPED, f"request {facts.active.id} for it is {facts.active.state.text}"
    if table is None:
        return Kind.SKIPPED, "the catalog does not know the table (any more)"
    reason = _not_compactable(facts, table)
    if reason is not None:
        return Kind.SKIPPED, reason
    if table.is_partitioned and partition is None:
        return Kind.SKIPPED, "a write to the partitioned table named no partition, and only partitions are compacted"
    if not facts.partition_exists:
        return Kind.SKIPPED, "the catalog does not know the partition (any more)"
    if facts.failing:
        return Kind.GIVEN_UP, "its last compactions all failed; request one by hand once the cause is gone"
    return None


def _not_compactable(facts: CandidateFacts, table: Table) -> str | None:
    if not table.is_transactional:
        return "the table is not transactional"
    if table.is_insert_only and table.bucket_count > 0:
        return "the table is insert-only and bucketed; such tables are compacted by Hive only"
    where = f"database {table.db}"
    disabled = _first(facts.database_properties, _NO_AUTO)
    if disabled is None:
        # A value of the database decides alone, whether it is true or false.
        where, disabled = "table", _first(table.properties, _NO_AUTO)
    if disabled is not None and disabled.lower() == "true":
        return f"the {where} has no_auto_compaction=true"
    return None


def decide(
    candidate: Candidate, sizes: DirectorySizes, thresholds: InitiatorThresholds, *, minor_possible: bool = True
) -> Decision:
    """Whether a table or partition is compacted, and how.

    :param minor_possible: whether a minor compaction of it can be done at all.
    """
    numbers: dict[str, int | float | str] = {
        "base_bytes": sizes.base_bytes,
        "delta_bytes": sizes.delta_bytes,
        "deltas": sizes.deltas,
        "delta_pct_threshold": thresholds.delta_pct,
        "delta_num_threshold": thresholds.delta_num,
    }

    def decision(kind: Kind, reason: str) -> Decision:
        return Decision(candidate.resource, kind, reason, numbers)

    if candidate.aborted_txns > thresholds.aborted_txns:
        return decision(
            Kind.MAJOR, f"{candidate.aborted_txns} writes of aborted txns are more than {thresholds.aborted_txns}"
        )
    if candidate.has_old_abort:
        hours = thresholds.aborted_age_ms / 3_600_000
        return decision(Kind.MINOR, f"an aborted txn has left writes for more than {hours:g} hours")
    no_base = sizes.base_bytes == 0 and sizes.delta_bytes > 0
    if not no_base:
        ratio = sizes.delta_bytes / sizes.base_bytes if sizes.base_bytes else 0.0
        numbers["ratio"] = round(ratio, 4)
        if ratio > thresholds.delta_pct:
            return decision(
                Kind.MAJOR,
                f"the deltas have {ratio:.0%} of the base's size, more than {thresholds.delta_pct:.0%}",
            )
        if sizes.delta_bytes == 0 and sizes.obsolete_bases:
            return decision(Kind.MAJOR, "there are no deltas, and an obsolete base is still there")
    if sizes.deltas > thresholds.delta_num:
        counted = f"{sizes.deltas} deltas are more than {thresholds.delta_num}"
        if no_base:
            return decision(Kind.MAJOR, f"{counted}, and there is no base yet")
        if not minor_possible:
            return decision(Kind.MAJOR, f"{counted}, and a minor compaction is not possible")
        return decision(Kind.MINOR, counted)
    return decision(Kind.NOTHING, "no threshold is reached")


def _first(properties: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((properties[key] for key in keys if key in properties), None)
