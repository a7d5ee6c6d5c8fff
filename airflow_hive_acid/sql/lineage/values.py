"""Column lineage as values: which columns of which tables a column comes from, and how.

The words are those of OpenLineage's column lineage facet 1.2: a value is used *directly* when it, or something made of
it, arrives in the column; *indirectly* when it only decides which rows or which of several values arrive.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

DIRECT, INDIRECT = "DIRECT", "INDIRECT"


class How(Enum):
    """How a column is used: OpenLineage's type and subtype."""

    IDENTITY = (DIRECT, "IDENTITY")
    TRANSFORMATION = (DIRECT, "TRANSFORMATION")
    AGGREGATION = (DIRECT, "AGGREGATION")
    CONDITIONAL = (INDIRECT, "CONDITIONAL")
    JOIN = (INDIRECT, "JOIN")
    FILTER = (INDIRECT, "FILTER")
    GROUP_BY = (INDIRECT, "GROUP_BY")
    SORT = (INDIRECT, "SORT")
    WINDOW = (INDIRECT, "WINDOW")

    @property
    def is_direct(self) -> bool:
        """Whether the value itself arrives."""
        return self.value[0] == DIRECT


_DIRECT = (How.IDENTITY, How.TRANSFORMATION, How.AGGREGATION)


@dataclass(frozen=True, slots=True)
class Use:
    """One column, used in one way.

    :param relation: ``db.table``, or the name of a temporary view over files.
    :param masking: nobody can tell the value from what was made of it: a hash, a mask, a count.
    """

    relation: str
    column: str
    how: How = How.IDENTITY
    masking: bool = False

    def through(self, how: How, masking: bool = False) -> Use:
        """The same column, of whose use something is made.

        Once indirect, always indirect; of two direct uses the stronger one counts.
        """
        if not self.how.is_direct:
            return self
        if how.is_direct:
            how = max(self.how, how, key=_DIRECT.index)
        return Use(self.relation, self.column, how, (self.masking or masking) and how.is_direct)


Uses = frozenset[Use]
NOTHING: Uses = frozenset()


def through(uses: Iterable[Use], how: How, masking: bool = False) -> Uses:
    """What :meth:`Use.through` makes of all of them."""
    return frozenset(use.through(how, masking) for use in uses)


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the rows of one statement come from.

    :param target: the table it changes, None for a query.
    :param columns: uses by column of the target (of the query's rows), in their order; a column that is made of
        constants has none. UPDATE and MERGE name only the columns that they give values to.
    :param rows: columns that decide which rows arrive, are changed or deleted, or how often: joins, conditions,
        groups, orders.
    :param inputs: tables and temporary views it reads, in the order of their first appearance.
    :param complete: False when a column list is known to Spark alone (``SELECT *`` from files without a schema, say),
        so that columns are missing here.
    """

    target: str | None
    columns: tuple[tuple[str, Uses], ...]
    rows: Uses = NOTHING
    inputs: tuple[str, ...] = ()
    complete: bool = True


def merged(lineages: Iterable[Lineage]) -> tuple[Lineage, ...]:
    """Lineages of several statements, one for each target, in the order of their first appearance."""
    found: dict[str | None, Lineage] = {}
    for lineage in lineages:
        known = found.get(lineage.target)
        found[lineage.target] = lineage if known is None else _both(known, lineage)
    return tuple(found.values())


def _both(one: Lineage, other: Lineage) -> Lineage:
    columns = dict(one.columns)
    for name, uses in other.columns:
        columns[name] = columns.get(name, NOTHING) | uses
    return Lineage(
        one.target,
        tuple(columns.items()),
        one.rows | other.rows,
        tuple(dict.fromkeys((*one.inputs, *other.inputs))),
        one.complete and other.complete,
    )
