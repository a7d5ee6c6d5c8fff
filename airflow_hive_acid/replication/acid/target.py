"""A table at the replica while it is synced: where it is, what is planned, what has arrived."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import DirectoryKind
from airflow_hive_acid.metastore.replica import TableAdvance, Written

if TYPE_CHECKING:
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.replication.acid.arrivals import Arrival, Plan
    from airflow_hive_acid.replication.acid.report import TableReport
    from airflow_hive_acid.replication.acid.snapshot import SourceTable


@dataclass(slots=True)
class Target:
    """A table at the replica while it is synced."""

    source: SourceTable
    table: Table
    known: ValidWriteIdList
    bootstrapped: bool
    places: dict[str, str] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    arrivals: list[tuple[str, Arrival, str]] = field(default_factory=list)
    report: TableReport | None = None

    @property
    def name(self) -> str:
        """``db.table`` at the replica."""
        return self.table.qualified_name

    @property
    def is_changed(self) -> bool:
        """Whether anything arrives."""
        return any(not p.is_empty for p in self.plans.values())

    def place(self, partition: str) -> str:
        """Where a partition's directories go; of a new one, where the catalog will say it is."""
        return self.places.get(partition) or paths.join(self.table.location, partition)

    def mapped_places(self) -> list[tuple[str, str | None, int]]:
        """Where directories go that carry the sync's txn: table, partition and the largest write id of them."""
        found: dict[str, int] = {}
        for partition, arrival, _ in self.arrivals:
            if arrival.is_mapped:
                found[partition] = max(found.get(partition, 0), arrival.directory.max_write_id)
        return [(self.name, partition or None, write_id) for partition, write_id in sorted(found.items())]

    def advance(self) -> TableAdvance:
        """What the table becomes in the metastore."""
        source = self.source
        partitioned = self.table.is_partitioned
        written = []
        for partition, found in self.plans.items():
            if not found.is_empty:
                ids = [a.directory.max_write_id for p, a, _ in self.arrivals if p == partition]
                written.append(Written(partition or None, max(ids, default=0), found.changes_rows))
        return TableAdvance(
            self.table, source.table.qualified_name, source.table.id, self.known, source.write_ids,
            source_txns=source.open_txns,
            added=tuple(sorted(source.places.keys() - self.places.keys())) if partitioned else (),
            gone=tuple(sorted(self.places.keys() - source.places.keys())) if partitioned else (),
            written=tuple(w for w in written if w.write_id), overwritten=self._overwritten(),
            emptied=tuple(sorted(p for p, found in self.plans.items() if p and found.empty_base is not None)),
            hides=self._hides(), rebalanced=source.rebalanced,
        )  # fmt: skip

    def _hides(self) -> bool:
        if any(found.empty_base is not None for found in self.plans.values()):
            return True
        mapped = (arrival.directory for _, arrival, _ in self.arrivals if arrival.is_mapped)
        return self.table.is_insert_only and any(d.kind is DirectoryKind.DELTA for d in mapped)

    def _overwritten(self) -> tuple[int, int] | None:
        """The first new write id and the last overwrite that comes; None when there is nothing between the two.

        What the overwrite hides of them has not come, and the source may not even have it any more.
        """
        bases = (
            copy.arrival.directory.max_write_id for found in self.plans.values() for copy in found.copies
            if copy.arrival.directory.kind is DirectoryKind.BASE and not copy.arrival.is_mapped
        )  # fmt: skip
        last, ids, known = max(bases, default=0), self.source.write_ids, self.known
        late = (w for w in known.open_ids if ids.is_valid(w))
        new = (w for w in range(known.high_watermark + 1, last) if ids.is_valid(w))
        first = min((*islice(late, 1), *islice(new, 1)), default=last)
        return (first, last) if first < last else None

    def reported(self) -> TableReport:
        """What is told of it."""
        found = self.report
        if found is None:
            raise AssertionError("a table that was not copied")
        partitioned = self.table.is_partitioned
        return replace(
            found,
            added=tuple(sorted(self.source.places.keys() - self.places.keys())) if partitioned else (),
            dropped=tuple(sorted(self.places.keys() - self.source.places.keys())) if partitioned else (),
            high_watermark=self.source.write_ids.high_watermark,
            reasons=tuple(dict.fromkeys(r for p in self.plans.values() for r in p.reasons)),
        )
