"""Rows of ORC files, read without a Spark: for what lies in a file, a query would cost a hundred times as much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyarrow import orc

if TYPE_CHECKING:
    from pathlib import Path


def events_in(path: Path) -> list[tuple[Any, ...]]:
    """The events of a file of an ACID table, in its order: five numbers and the row's values, None of a delete."""
    found = []
    for event in orc.read_table(path).to_pylist():
        *numbers, row = event.values()
        found.append((*numbers, None if row is None else tuple(row.values())))
    return found
