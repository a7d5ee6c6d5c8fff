"""What a target of a mirror can do, whatever its format.

Each method that writes makes one commit that carries the new state, or none: it fails when the target is not any more
what :meth:`Target.look` has seen. So whatever dies or wakes up late, each state is applied once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from airflow_hive_acid.format.mirrors import ColumnStep, MirrorState
    from airflow_hive_acid.spark.mirrors.columns import MirrorColumns

OPERATION = "_hive_acid_op"
"""Column of changed rows that says what becomes of them."""
INSERT, UPDATE, DELETE = "insert", "update", "delete"
"""What :data:`OPERATION` says."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found at the place of a target.

    :param exists: whether there is a table.
    :param state: the state it carries; None: none.
    :param sequence: the largest number of a state that is known of it.
    :param strange: why its rows cannot be trusted to be that state; '' when they can.
    """

    exists: bool
    state: MirrorState | None = None
    sequence: int = 0
    strange: str = ""


class Target(Protocol):
    """A table in which a mirror is kept."""

    def look(self) -> Found:
        """What is there now.

        :raises MirrorRefusedError: when it is somebody else's table.
        """

    def follows(self, steps: Sequence[ColumnStep]) -> bool:
        """Whether its columns can follow in place."""

    def alter(self, steps: Sequence[ColumnStep], columns: MirrorColumns) -> None:
        """Let its columns follow; what was done already is left alone."""

    def replace(self, rows: DataFrame, columns: MirrorColumns, state: MirrorState, before: MirrorState | None) -> None:
        """All rows anew.

        :param before: the state it had, if its columns may still be in use.
        """

    def append(self, rows: DataFrame, columns: MirrorColumns, state: MirrorState) -> int:
        """More rows; they may be none.

        :return: how many they were.
        """

    def merge(self, changes: DataFrame, statement: str, state: MirrorState) -> dict[str, int]:
        """Run a MERGE; nothing may come of it.

        :param changes: its rows, each with its :data:`OPERATION`. They are read once.
        :param statement: text with ``{target}`` and ``{changes}`` in the places of their names.
        :return: how many rows there were of each operation.
        """

    def rows(self) -> DataFrame:
        """Its rows now."""
