"""The Initiator's rules as pure functions (Hive's Initiator and AcidTableOptimizer).

``decide`` looks at sizes and counts; ``skip_reason`` says why a candidate is not looked at in the first place. Each
decision names the rule that made it: the setting whose threshold was passed, or a :class:`Rule`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.format.table_kinds import no_auto_compaction
from airflow_hive_acid.maintenance.decisions import Decision, Kind
from airflow_hive_acid.python_versions import StrEnum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.maintenance.decisions import Number
    from airflow_hive_acid.maintenance.thresholds import InitiatorThresholds
    from airflow_hive_acid.maintenance.warehouse.directories import DirectorySizes
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.compaction import Candidate, Compaction, OpenWriter

_REPL_PENDING = "repl.first.inc.pending"
_DELTA_NUM = "hive.compactor.delta.num.threshold"
_DELTA_PCT = "hive.compactor.delta.pct.threshold"
_ABORTED = "hive.compactor.abortedtxn.threshold"
_ABORTED_AGE = "hive.compactor.aborted.txn.time.threshold"
_FAILED = "hive.compactor.initiator.failed.compacts.threshold"


class Rule(StrEnum):
    """What decides besides the thresholds."""

    BELOW_THRESHOLDS = "no threshold reached"
    OBSOLETE_BASE = "obsolete base"
    ACTIVE_REQUEST = "active request"
    SAME_REQUEST = "request that reaches as far"
    NO_AUTO_COMPACTION = "no_auto_compaction"
    REPLICATION = "repl.first.inc.pending"
    UNKNOWN_TABLE = "unknown table"
    UNKNOWN_PARTITION = "unknown partition"
    NO_PARTITION = "write without partition"
    NOT_TRANSACTIONAL = "not transactional"
    NOT_COMPACTABLE = "table that cannot be compacted"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Skip:
    """Why a candidate is left alone.

    :param again: it may be otherwise in the next look without any write.
    :param request_id: the request it waits for.
    """

    kind: Kind
    rule: str
    reason: str
    blocked_by: tuple[str, ...] = ()
    again: bool = False
    request_id: int | None = None


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """What is known about a candidate before its directory is listed.

    :param table: None when the catalog does not know it.
    :param database_properties: parameters of its database.
    :param partition_exists: whether the catalog knows the partition; True for a table.
    :param active: a request for it that is initiated or being worked on.
    :param failing: whether its last compactions all failed.
    :param by_hand: somebody asks for it: ``no_auto_compaction`` and failures keep only the Initiator away.
    """

    candidate: Candidate
    table: Table | None
    database_properties: Mapping[str, str]
    partition_exists: bool
    active: Compaction | None
    failing: bool
    by_hand: bool = False


def skip_reason(facts: CandidateFacts) -> Skip | None:
    """Why a candidate is left alone; None when its directory should be looked at.

    ``Kind.GIVEN_UP`` leaves a row in the history (did not initiate), ``Kind.SKIPPED`` leaves none.
    """
    table, partition = facts.table, facts.candidate.resource.partition
    if facts.database_properties.get(_REPL_PENDING, "").lower() == "true":
        return Skip(
            Kind.SKIPPED, Rule.REPLICATION, "its database waits for a first incremental replication", again=True
        )
    if facts.active is not None:
        request = f"request {facts.active.id}"
        reason = f"{request} for it is {facts.active.state.text}"
        return Skip(Kind.SKIPPED, Rule.ACTIVE_REQUEST, reason, (request,), True, facts.active.id)
    if table is None:
        return Skip(Kind.SKIPPED, Rule.UNKNOWN_TABLE, "the catalog does not know the table (any more)")
    skip = _not_compactable(facts, table)
    if skip is not None:
        return skip
    if table.is_partitioned and partition is None:
        reason = "a write to the partitioned table named no partition, and only partitions are compacted"
        if facts.candidate.aborted_txns:
            reason += "; with hive.compactor.clean.aborts.using.cleaner=true the Cleaner removes what it left"
        return Skip(Kind.SKIPPED, Rule.NO_PARTITION, reason)
    if not facts.partition_exists:
        return Skip(Kind.SKIPPED, Rule.UNKNOWN_PARTITION, "the catalog does not know the partition (any more)")
    if facts.failing and not facts.by_hand:
        reason = "its last compactions all failed; request one by hand once the cause is gone"
        return Skip(Kind.GIVEN_UP, _FAILED, reason, ("the failures in its history",), again=True)
    return None


def _not_compactable(facts: CandidateFacts, table: Table) -> Skip | None:
    if not table.is_transactional:
        return Skip(Kind.SKIPPED, Rule.NOT_TRANSACTIONAL, "the table is not transactional")
    if table.is_insert_only and table.bucket_count > 0:
        reason = "the table is insert-only and bucketed; such tables are compacted by Hive only"
        return Skip(Kind.SKIPPED, Rule.NOT_COMPACTABLE, reason)
    if table.sort_columns and not table.is_insert_only:
        reason = "the table is sorted, and rows with ids lie in their order"
        return Skip(Kind.SKIPPED, Rule.NOT_COMPACTABLE, reason)
    disabled = no_auto_compaction(facts.database_properties, table.properties)
    if disabled is not None and not facts.by_hand:
        where = f"database {table.db}" if disabled == "database" else "table"
        blocked = (f"property no_auto_compaction of the {where}",)
        return Skip(Kind.SKIPPED, Rule.NO_AUTO_COMPACTION, f"the {where} has no_auto_compaction=true", blocked)
    return None


def decide(
    candidate: Candidate,
    sizes: DirectorySizes,
    thresholds: InitiatorThresholds,
    *,
    minor_possible: bool = True,
    writers: tuple[OpenWriter, ...] = (),
) -> Decision:
    """Whether a table or partition is compacted, and how.

    :param minor_possible: whether a minor compaction of it can be done at all.
    :param writers: open txns that write to the table: a compaction stops below the first of their write ids.
    """
    numbers: dict[str, Number] = {
        "base_bytes": sizes.base_bytes,
        "delta_bytes": sizes.delta_bytes,
        "deltas": sizes.deltas,
        "delta_pct_threshold": thresholds.delta_pct,
        "delta_num_threshold": thresholds.delta_num,
    }
    blocked = tuple(map(str, writers))
    if writers:
        numbers["first_open_write_id"] = min(writer.write_id for writer in writers)
        numbers["hidden_deltas"] = sizes.hidden_deltas

    def decision(kind: Kind, rule: str, reason: str) -> Decision:
        # What an open writer hides is not counted, and if it aborts nothing tells the next look.
        return Decision(candidate.resource, kind, reason, numbers, rule=rule, blocked_by=blocked, again=bool(blocked))

    if candidate.aborted_txns > thresholds.aborted_txns:
        numbers["aborted_txns"] = candidate.aborted_txns
        reason = f"{candidate.aborted_txns} writes of aborted txns are more than {thresholds.aborted_txns}"
        return decision(Kind.MAJOR, _ABORTED, reason)
    if candidate.has_old_abort:
        hours = thresholds.aborted_age_ms / 3_600_000
        reason = f"an aborted txn has left writes for more than {hours:g} hours"
        return decision(Kind.MINOR, _ABORTED_AGE, reason)
    by_size = _by_size(sizes, thresholds, numbers)
    if by_size is not None:
        return decision(*by_size)
    if sizes.deltas > thresholds.delta_num:
        return decision(*_by_number(sizes, thresholds, numbers, minor_possible=minor_possible))
    reason = "no threshold is reached"
    if sizes.hidden_deltas:
        reason += f"; {sizes.hidden_deltas} deltas above an open write id do not count yet"
    return decision(Kind.NOTHING, Rule.BELOW_THRESHOLDS, reason)


def _by_size(
    sizes: DirectorySizes, thresholds: InitiatorThresholds, numbers: dict[str, Number]
) -> tuple[Kind, str, str] | None:
    if sizes.base_bytes == 0 and sizes.delta_bytes > 0:
        return None  # no base: there is nothing to compare with
    ratio = sizes.delta_bytes / sizes.base_bytes if sizes.base_bytes else 0.0
    numbers["ratio"] = round(ratio, 4)
    if ratio > thresholds.delta_pct:
        reason = f"the deltas have {ratio:.0%} of the base's size, more than {thresholds.delta_pct:.0%}"
        return Kind.MAJOR, _DELTA_PCT, reason
    if sizes.delta_bytes == 0 and sizes.obsolete_bases:
        return Kind.MAJOR, Rule.OBSOLETE_BASE, "there are no deltas, and an obsolete base is still there"
    return None


def _by_number(
    sizes: DirectorySizes, thresholds: InitiatorThresholds, numbers: dict[str, Number], *, minor_possible: bool
) -> tuple[Kind, str, str]:
    counted = f"{sizes.deltas} deltas are more than {thresholds.delta_num}"
    if sizes.deltas > thresholds.max_num_delta:
        numbers["max_num_delta"] = thresholds.max_num_delta
        counted += f" (and than {thresholds.max_num_delta}: several partial minor compactions come first)"
    if sizes.base_bytes == 0 and sizes.delta_bytes > 0:
        return Kind.MAJOR, _DELTA_NUM, f"{counted}, and there is no base yet"
    if not minor_possible:
        return Kind.MAJOR, _DELTA_NUM, f"{counted}, and a minor compaction is not possible"
    return Kind.MINOR, _DELTA_NUM, counted


def urgency(decision: Decision) -> float:
    """How far beyond its thresholds a table or partition is; of several found together the neediest goes first."""
    numbers = decision.numbers

    def over(value: str, threshold: str) -> float:
        limit = float(numbers.get(threshold, 0)) or 1.0
        return float(numbers.get(value, 0)) / limit

    aborted = float(numbers.get("aborted_txns", 0))
    pays = max(over("minor_saves_s", "minor_costs_s"), over("major_saves_s", "major_costs_s"))
    return max(over("deltas", "delta_num_threshold"), over("ratio", "delta_pct_threshold"), pays, aborted)
