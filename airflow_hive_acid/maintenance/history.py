"""The history purge: forgets old compactions (Hive's CompactionHouseKeeper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.compaction_queue_history import PurgedCompaction, Retention

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """What left the history.

    :param duplicates: completed components that newer ones make superfluous.
    """

    purged: tuple[PurgedCompaction, ...]
    duplicates: int = 0

    def __str__(self) -> str:
        lines = [f"{len(self.purged)} compactions forgotten, {self.duplicates} superfluous write records removed"]
        lines += [f"  {p.compaction.id} {p.compaction.resource}: {p.reason}" for p in self.purged]
        return "\n".join(lines)


def retention(settings: Settings) -> Retention:
    """How much history is kept (``hive.compactor.history.retention.*``).

    Failures are kept for as long as the Initiator counts them.
    """
    prefix = "hive.compactor.history.retention"
    return Retention(
        succeeded=settings.integer(f"{prefix}.succeeded"),
        failed=max(
            settings.integer(f"{prefix}.failed"),
            settings.integer("hive.compactor.initiator.failed.compacts.threshold"),
        ),
        attempted=settings.integer(f"{prefix}.attempted"),
        refused=settings.integer(f"{prefix}.refused"),
        timeout_ms=settings.milliseconds(f"{prefix}.timeout"),
    )


def run_history_purge(client: MetastoreClient) -> HistoryReport:
    """Forget what is too much or too old."""
    duplicates = client.housekeeping.remove_duplicate_completed_components()
    return HistoryReport(tuple(client.compactions.purge_history(retention(client.settings))), duplicates)
