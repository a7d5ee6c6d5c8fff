"""What a run of a mirror has to say, as values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from airflow_hive_acid.format.mirrors import Todo


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """What a run did.

    :param todo: ``nothing``, ``follow`` or ``bootstrap``; ``reason`` says why.
    :param write_id: up to which write id of the table the target has everything.
    :param key: the key columns; none: rows are known by their ROW__ID.
    :param inserted: rows of a run that followed, as ``updated`` and ``deleted``; a bootstrap counts none.
    :param spark: whether Spark was needed.
    """

    table: str
    target: str
    todo: str
    reason: str
    write_id: int
    key: tuple[str, ...] = ()
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    spark: bool = True

    @property
    def told(self) -> str:
        """What was done, for people."""
        if self.todo == Todo.BOOTSTRAP.value:
            return f"copied whole, because {self.reason}"
        if self.todo == Todo.NOTHING.value:
            return "nothing to do"
        return f"{self.reason}: {self.inserted} inserted, {self.updated} updated, {self.deleted} deleted"

    def to_document(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "key": list(self.key)}


@dataclass(frozen=True, slots=True)
class Verification:
    """What a comparison of both sides found.

    :param write_id: the write id of the source at which both were compared.
    :param source_rows: rows of the source, and ``target_rows`` those of the target.
    :param partitions: how many partitions were compared, 1 for an unpartitioned table.
    :param differ: in how many of them counts or checksums differ.
    :param different: the first of them, with the number of rows on each side.
    """

    table: str
    target: str
    write_id: int
    source_rows: int
    target_rows: int
    partitions: int
    differ: int
    different: tuple[dict[str, Any], ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether both sides are the same."""
        return self.differ == 0

    @property
    def shown_differences(self) -> str:
        """Where they differ, for a message."""
        named = [
            f"{one['partition'] or 'the table'} ({one['source_rows']} rows and {one['target_rows']})"
            for one in self.different[:10]
        ]
        more = self.differ - len(named)
        return "; ".join([*named, *([f"and {more} more"] if more > 0 else [])])

    def to_document(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "different": [dict(one) for one in self.different]}
