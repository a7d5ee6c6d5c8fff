"""The history purge: forgets old compactions (Hive's CompactionHouseKeeper)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.compaction import PurgedCompaction, Retention
from airflow_hive_acid.metastore.database import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.settings import Settings


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """What left the history.

    :param duplicates: completed components that newer ones make superfluous.
    :param decisions: of the Initiator, replaced by later ones or about what is gone.
    :param problems: tasks that failed or were skipped, and why.
    """

    purged: tuple[PurgedCompaction, ...]
    duplicates: int = 0
    decisions: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"{len(self.purged)} compactions and {self.decisions} decisions of the Initiator forgotten, "
            f"{self.duplicates} superfluous write records removed"
        ]
        lines += [f"  {p.compaction.id} {p.compaction.resource}: {p.reason}" for p in self.purged]
        lines += [f"  {task}: {problem}" for task, problem in self.problems.items()]
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
    """Forget what is too much or too old, under the mutex of Hive's housekeepers; one task does not stop another.

    The Cleaner's own record is kept for ``hive.compactor.history.retention.timeout``.
    """
    kept = retention(client.settings)
    report = client.housekeeping.run_compaction_house_keeper(
        {
            "history": lambda: client.compactions.purge_history(kept),
            "decisions": lambda: client.compactions.decisions.purge(
                client.database.read(now_ms), kept_ms=kept.timeout_ms
            ),
            "cleaning records": lambda: client.cleanings.purge(kept.timeout_ms),
            "measurements": client.measures.purge,
            "reads": client.reads.purge,
        }
    )
    problems = {task: f"{type(error).__name__}: {error}" for task, error in report.failed.items()}
    if report.skipped:
        problems["history purge"] = "another service holds the mutex HouseKeeper; skipped in this pass"
    duplicates, decisions = (int(report.done.get(task, 0)) for task in ("duplicates", "decisions"))
    return HistoryReport(tuple(report.done.get("history", ())), duplicates, decisions, problems)
