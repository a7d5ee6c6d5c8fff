"""Random programs of all that can happen to one table, DDL included: pure, and the same for the same seed.

Where ``tests.interop.programs`` is about DML that a real Hive takes turns in, this is about kinds of tables and
partitions: what is renamed, dropped and added again, moved, converted, replaced, copied, emptied and compacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import definitions, rows
from .steps import Compact, Dice, Step
from .tables import KINDS, PLAIN_ORC, Column, State

if TYPE_CHECKING:
    from collections.abc import Callable

    Chooser = Callable[[Dice, State], Step | None]

KEYS_OF_TABLES = ((), ("k",), ("n",), ("k", "d"), ("c",), ("d",), ("n", "k"))
MOST_ROWS = 30
"""No copies of rows beyond that: programs are about histories, not about size."""
MOST_COLUMNS = 6


class Program:
    """Writes a program, one step at a time.

    :param places: URI of a directory for partitions elsewhere and for dumps.
    """

    def __init__(self, seed: int, places: str) -> None:
        self.seed = seed
        self._dice = Dice(seed, places)

    def table(self) -> State:
        """The table that it begins with, without rows."""
        columns = (Column("id", "INT"), Column("name", "STRING"), Column("amount", "INT"))
        keys = self._dice.random.choice(KEYS_OF_TABLES)
        return State("programs.t0", KINDS[self.seed % len(KINDS)], columns, keys)

    def step(self, table: State) -> Step:
        """The next step.

        :param table: as the steps before have left it.
        """
        weights = {choice: weight for choice, weight in _weights(table).items() if weight}
        while True:
            (choice,) = self._dice.random.choices(list(weights), list(weights.values()))
            found = choice(self._dice, table)
            if found is not None:
                return found


def last_steps(table: State) -> list[Step]:
    """At the end all that can be compacted is."""
    if not table.kind.has_versions:
        return []
    places = table.named_partitions if table.keys else [()]
    return [Compact(table, f"ALTER TABLE {table.name}{table.partition(place)} COMPACT 'major'") for place in places]


def _weights(table: State) -> dict[Chooser, int]:
    """What can happen to such a table, and how often."""
    kind = table.kind
    weights: dict[Chooser, int] = {
        rows.insert: 5,
        rows.insert_select: 2 if len(table.rows) <= MOST_ROWS else 0,
        rows.overwrite: 2,
        definitions.add_column: 2 if len(table.columns) < MOST_COLUMNS else 0,
        definitions.rename_column: 2 if kind.by_position else 0,
        definitions.widen: 1,
        definitions.rename: 1,
    }
    if table.keys:
        weights |= {definitions.add_partition: 3}
    if table.keys and table.partitions:
        weights |= {definitions.set_location: 1}
    if not kind.external:
        # The files of an external table stay at these, and would be there again.
        weights |= {rows.truncate: 1, definitions.copy: 1, definitions.export: 1}
        if table.partitions:
            weights |= {definitions.drop_partition: 3, definitions.rename_partition: 2}
    if kind.has_versions:
        weights |= {
            rows.transaction: 3,
            definitions.compact: 5,
            definitions.clean: 3,
            definitions.pin: 1,
            definitions.replace_table: 1,
        }
    if kind.has_row_ids:
        weights |= {rows.update: 4, rows.delete: 3, rows.merge: 3, rows.batch: 2}
        if table.keys and not kind.buckets:
            weights |= {rows.move: 2}
    if kind == PLAIN_ORC:
        weights |= {definitions.convert: 3, definitions.concatenate: 1}
    return weights
