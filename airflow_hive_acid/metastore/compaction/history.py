"""The history of compactions: whether a table keeps failing, and which rows are old enough to go.

Hive's checkFailedCompactions and purgeCompactionHistory. The decisions are pure; the statements around them are short.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, select

from airflow_hive_acid.metastore.compaction.model import (
    Compaction,
    CompactionState,
    CompactionType,
    Resource,
)
from airflow_hive_acid.metastore.compaction.rows import HISTORY, compaction, same_resource
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_transactions import COMPLETED_COMPACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

_cc = COMPLETED_COMPACTIONS.c
_PURGE = delete(COMPLETED_COMPACTIONS).where(_cc.CC_ID.in_(bindparam("ids", expanding=True)))
_FAILED = (
    select(_cc.CC_DATABASE, _cc.CC_TABLE, _cc.CC_PARTITION)
    .distinct()
    .where(_cc.CC_STATE == CompactionState.FAILED.value)
)
_UNSUCCESSFUL = (CompactionState.DID_NOT_INITIATE, CompactionState.FAILED, CompactionState.REFUSED)


@dataclass(frozen=True, slots=True)
class Retention:
    """How much history is kept, per table or partition.

    :param attempted: did-not-initiate rows (``hive.compactor.history.retention.attempted``).
    :param timeout_ms: unsuccessful rows older than this go as soon as a later success made them pointless.
    """

    succeeded: int = 3
    failed: int = 3
    attempted: int = 2
    refused: int = 3
    timeout_ms: int = 7 * 86_400_000

    def kept(self, state: CompactionState) -> int | None:
        """How many rows of a state are kept; None: all."""
        return {
            CompactionState.SUCCEEDED: self.succeeded,
            CompactionState.FAILED: self.failed,
            CompactionState.DID_NOT_INITIATE: self.attempted,
            CompactionState.REFUSED: self.refused,
        }.get(state)


@dataclass(frozen=True, slots=True)
class PurgedCompaction:
    """A row that leaves the history, and why."""

    compaction: Compaction
    reason: str


def select_for_purge(rows: Iterable[Compaction], retention: Retention, now_ms: int) -> list[PurgedCompaction]:
    """Which rows of the history may go.

    Aborted requests are kept for ever, as in Hive: they were a person's decision. So is the newest rebalance.
    """
    by_resource: dict[Resource, list[Compaction]] = defaultdict(list)
    for row in rows:
        by_resource[row.resource].append(row)
    purged: list[PurgedCompaction] = []
    for resource_rows in by_resource.values():
        purged += _purge_resource(sorted(resource_rows, key=lambda row: -row.id), retention, now_ms)
    return sorted(purged, key=lambda row: row.compaction.id)


def _purge_resource(newest_first: Sequence[Compaction], retention: Retention, now_ms: int) -> list[PurgedCompaction]:
    purged = []
    seen: dict[CompactionState, int] = defaultdict(int)
    later_success: set[CompactionType] = set()
    is_rebalanced = False
    for row in newest_first:
        if row.state is CompactionState.SUCCEEDED:
            later_success.add(row.type)
        kept = retention.kept(row.state)
        if kept is None:
            continue
        if row.state is CompactionState.SUCCEEDED and row.type is CompactionType.REBALANCE and not is_rebalanced:
            is_rebalanced = True
            continue  # replicas and mirrors learn from it that rows have other ids
        seen[row.state] += 1
        age = now_ms - (row.start if row.start is not None else now_ms)
        pointless = CompactionType.MAJOR in later_success or (bool(later_success) and row.type is CompactionType.MINOR)
        if seen[row.state] > kept:
            purged.append(PurgedCompaction(row, f"{kept} newer ones that {row.state.text} are kept"))
        elif row.state in _UNSUCCESSFUL and age > retention.timeout_ms and pointless:
            purged.append(PurgedCompaction(row, f"{age // 86_400_000} days old, and a later compaction succeeded"))
    return purged


def purge(connection: Connection, retention: Retention, now_ms: int) -> list[PurgedCompaction]:
    """Delete the rows of the history that may go."""
    rows = (compaction(row, "CC") for row in connection.execute(HISTORY).mappings())
    purged = select_for_purge(rows, retention, now_ms)
    for ids in chunks([row.compaction.id for row in purged]):
        connection.execute(_PURGE, {"ids": list(ids)})
    return purged


def last_finished(connection: Connection, resource: Resource, limit: int) -> list[Compaction]:
    """The newest finished compactions of a table or partition, newest first; attempts that never began do not count.

    Without a partition, those of all partitions count.
    """
    matches = same_resource(COMPLETED_COMPACTIONS, "CC", resource)
    if resource.partition is None:
        matches = (_cc.CC_DATABASE == resource.database) & (_cc.CC_TABLE == resource.table)
    statement = (
        select(COMPLETED_COMPACTIONS)
        .where(matches, _cc.CC_STATE != CompactionState.DID_NOT_INITIATE.value)
        .order_by(_cc.CC_ID.desc())
        .limit(limit)
    )
    return [compaction(row, "CC") for row in connection.execute(statement).mappings()]


def failed_resources(connection: Connection) -> set[Resource]:
    """Tables and partitions with a failed compaction in their history; few, and only they can be failing."""
    return {Resource(*row) for row in connection.execute(_FAILED)}


def is_failing(newest: Sequence[Compaction], threshold: int, retry_ms: int, now_ms: int) -> bool:
    """Whether compaction of a table is given up for now: the last ``threshold`` all failed.

    :param newest: its last finished compactions, newest first.
    :param retry_ms: after this long it is tried again anyway; 0: never.
    """
    last = newest[:threshold]
    if threshold <= 0 or len(last) < threshold or any(row.state is not CompactionState.FAILED for row in last):
        return False
    return not (retry_ms > 0 and (last[0].enqueue_time or 0) + retry_ms < now_ms)
