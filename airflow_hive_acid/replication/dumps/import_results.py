"""What an import tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.replication.dumps.import_plan import target_of

if TYPE_CHECKING:
    from airflow_hive_acid.replication.dumps.dump import Dump
    from airflow_hive_acid.replication.dumps.import_plan import Asked, ImportPlan


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import has done.

    :param table: ``db.table`` at the destination.
    :param state_id: of the dump; None outside of replication.
    :param action: ``created``, ``replaced`` (the table), ``partitions`` (of a table that stayed as it was), or
        ``unchanged``.
    :param reason: why.
    :param partitions: that were added or replaced; ``unchanged`` those that were as new already, ``dropped`` those
        that the source has no more.
    :param reused: files that an attempt before had copied.
    """

    table: str
    state_id: int | None
    action: str
    reason: str
    partitions: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    reused: int = 0

    @property
    def done(self) -> bool:
        """Whether anything was changed."""
        return self.action != "unchanged"


def result_of(plan: ImportPlan, dump: Dump, files: int = 0, bytes_: int = 0, reused: int = 0) -> ImportResult:
    """What is told of an import that went as planned."""
    reason = plan.reason
    if plan.is_noop:
        action = "unchanged"
        if plan.unchanged:
            reason = "; ".join(f"{name}: {why}" for name, why in plan.unchanged[:3])
    elif plan.table is None:
        action = "partitions"
    else:
        action = "created" if plan.table.before is None else "replaced"
    return ImportResult(
        str(plan.name), dump.state_id, action, reason, tuple(w.after.name for w in plan.partitions),
        tuple(name for name, _ in plan.unchanged), tuple(stored.name for stored in plan.dropped), files, bytes_,
        reused,
    )  # fmt: skip


def result_of_nothing(dump: Dump, asked: Asked) -> ImportResult:
    """What is told of a dump whose table or partitions were gone when it was made."""
    name = target_of(dump, asked)
    what = "the table" if dump.table is None else "the partitions"
    return ImportResult(str(name or "?"), dump.state_id, "unchanged", f"{what} did not exist any more at the source")
