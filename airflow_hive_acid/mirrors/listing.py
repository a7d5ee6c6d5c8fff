"""Mirrors as people see them: how far each is behind its table, and what went wrong last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import NoSuchObjectError
from airflow_hive_acid.format.changes import complete_up_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.records import Mirror

COLUMNS = (
    ("table", "string"), ("target", "string"), ("write_id", "bigint"), ("behind", "bigint"), ("looked", "string"),
    ("last", "string"), ("changed", "string"), ("error", "string"), ("verified", "string"), ("differ", "bigint"),
    ("primary_since", "string"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Listed:
    """A mirror and its table.

    :param behind: how many write ids of the table the target has not yet, of those that have ended; None: the table is
        not there any more.
    """

    mirror: Mirror
    behind: int | None

    def to_row(self) -> list[Any]:
        """Values of :data:`COLUMNS`."""
        m = self.mirror
        last = None if m.todo is None else f"{m.todo}: {m.reason}"
        return [m.table, m.target, m.write_id, self.behind, _shown(m.looked), last, _shown(m.changed), m.error,
                _shown(m.verified), m.differ, _shown(m.primary)]  # fmt: skip


def list_mirrors(client: MetastoreClient, table: str | None = None) -> list[Listed]:
    """All mirrors, or those of one table."""
    found = client.mirrors.list(table)
    complete = _complete(client, sorted({m.table for m in found}))
    return [
        Listed(m, None if m.table not in complete else max(0, complete[m.table] - (m.write_id or 0))) for m in found
    ]


def _complete(client: MetastoreClient, tables: Sequence[str]) -> dict[str, int]:
    """By table, up to which write id all have ended; without those that are no more."""
    there = []
    for table in tables:
        try:
            client.catalog.get_table(table)
        except NoSuchObjectError:
            continue
        there.append(table)
    if not there:
        return {}
    return {table: complete_up_to(seen) for table, seen in client.get_valid_write_ids(there).items()}


def _shown(moment: int | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
