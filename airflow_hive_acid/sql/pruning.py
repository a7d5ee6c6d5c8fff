"""Partition pruning: which partitions a WHERE clause can touch, judged by partition values alone.

Only conjuncts that mention nothing but partition columns of the table and literals count, and a partition is dropped
only if one of them is surely not true for it; in doubt it is kept, and Spark applies the real condition to its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class PartitionFilter:
    """A test of partition values.

    :param columns: names of the partition columns, in order.
    """

    columns: tuple[str, ...] = ()

    def keeps(self, values: Sequence[str]) -> bool:
        """Whether a partition may hold rows that matter.

        :param values: as the catalog holds them, in the order of the partition columns.
        """
        return True


KEEP_ALL = PartitionFilter()
