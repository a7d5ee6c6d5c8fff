"""``ANALYZE TABLE``: count what a table holds, for Hive's planner and for its answers from the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.sql.model.origins import Origin

if TYPE_CHECKING:
    from airflow_hive_acid.sql.model.origins import TableName


@dataclass(frozen=True, slots=True)
class Analyze(Origin):
    """``ANALYZE TABLE t [PARTITION (…)] COMPUTE STATISTICS [NOSCAN | FOR [ALL] COLUMNS [a, b]]``.

    :param partition: columns with the value that is wanted; None for every value.
    :param columns: those of which more is counted than rows; empty for all of them, None for none.
    :param scans: whether rows are read; without it only files are counted.
    """

    table: TableName
    partition: tuple[tuple[str, str | None], ...] = ()
    columns: tuple[str, ...] | None = None
    scans: bool = True
