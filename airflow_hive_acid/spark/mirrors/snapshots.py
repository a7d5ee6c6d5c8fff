"""A snapshot as it was at one of its write ids."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.format.changes import as_of
from airflow_hive_acid.format.jobs import AsOf
from airflow_hive_acid.format.write_ids import ValidWriteIdList

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.format.jobs import TableSnapshot


def at_write_id(snapshot: TableSnapshot, write_id: int, cleaned: Mapping[str, int]) -> TableSnapshot:
    """The table as it was at a write id, which has ended for this reader.

    :param cleaned: by partition name, up to which write id a Cleaner may have removed what was replaced.
    """
    seen = ValidWriteIdList.parse(snapshot.write_ids)
    if write_id >= seen.high_watermark:
        return snapshot
    then = as_of(seen, write_id)
    past = AsOf(f"write id {write_id}", dict(cleaned))
    return replace(snapshot, write_ids=then.short_text(), as_of=past, expected=None)
