"""Locks that were planned partition by partition, and what to do when others have added partitions meanwhile.

Which partitions a statement reads is known before its locks are, and its snapshot is taken after them: a transaction
that commits between the two may bring a partition that the snapshot shows and no lock covers. So the partitions are
listed again under the locks. What is new means another request; what is listed then is what the statement reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.protocol import Locks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.sql.model.pruning import PartitionFilter


@dataclass(frozen=True, slots=True)
class PlannedLocks(Locks):
    """What to lock, by the partitions that there were.

    :param listed: the partitions of the tables that are locked partition by partition.
    :param again: plans anew by the partitions that there are then; told to, tables as a whole where that can be.
    """

    listed: Mapping[tuple[str, PartitionFilter], list[PartitionRef]] = field(default_factory=dict)
    again: Callable[[bool], PlannedLocks] | None = None

    @property
    def places(self) -> frozenset[tuple[str, ...]]:
        """What is locked."""
        return frozenset(tuple(part or "" for part in component.object) for component in self.components)


@dataclass(frozen=True, slots=True)
class Grown:
    """What the partitions are under the locks.

    :param listed: to be read, if there is no other request.
    :param request: what to lock instead; None when the locks cover everything.
    """

    listed: Mapping[tuple[str, PartitionFilter], list[PartitionRef]]
    request: PlannedLocks | None = None


def under(locks: Locks, tries_left: int) -> Grown:
    """Look again, now that the locks are granted.

    :param tries_left: how often another request may follow; the last one is for tables as a whole, and after it
        whatever is listed is read.
    """
    if not isinstance(locks, PlannedLocks) or locks.again is None or not locks.listed:
        return Grown({})
    now = locks.again(False)
    if now.places <= locks.places or tries_left < 1:
        return Grown(now.listed)
    return Grown({}, now if tries_left > 1 else locks.again(True))
