"""What is known of tables in the shapes of the API: pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.plugins import models_tables as models
from airflow_hive_acid.plugins.shaping import stored_decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.metastore.compaction import Compaction, Point
    from airflow_hive_acid.metastore.listing import PartitionRow, TableRow

_SHOWN = ("transactional", "compactor", "no_auto_compaction", "no_cleanup", "hive.compactor.")


def last_compaction(found: Compaction) -> models.LastCompaction:
    """A compaction in short."""
    return models.LastCompaction(id=found.id, type=found.type.name.lower(), state=found.state.text, ended=found.end)


def table(row: TableRow) -> models.TableRow:
    """A table."""
    found = row.measure
    return models.TableRow(
        database=row.database,
        table=row.table,
        object=f"{row.database}.{row.table}",
        kind=row.type.lower().replace("_table", "").replace("virtual_", ""),
        transactional=row.transactional,
        partitioned=row.partitioned,
        owner=row.owner,
        files=row.files,
        bytes=row.bytes,
        deltas=None if found is None else found.deltas,
        delete_deltas=None if found is None else found.delete_deltas,
        base_bytes=None if found is None else found.base_bytes,
        delta_bytes=None if found is None else found.delta_bytes,
        delete_bytes=None if found is None else found.delete_bytes,
        delete_ratio=None if found is None else round(found.delete_ratio, 6),
        measured=row.measured,
        partitions_measured=row.parts,
        last_compaction=None if row.last_compaction is None else last_compaction(row.last_compaction),
    )


def partition(row: PartitionRow) -> models.PartitionRow:
    """A partition."""
    found = None if row.measured is None else row.measured.measure
    return models.PartitionRow(
        partition=row.name,
        files=row.files,
        bytes=row.bytes,
        deltas=None if found is None else found.deltas,
        delete_deltas=None if found is None else found.delete_deltas,
        base_bytes=None if found is None else found.base_bytes,
        delta_bytes=None if found is None else found.delta_bytes,
        delete_bytes=None if found is None else found.delete_bytes,
        delete_ratio=None if found is None else round(found.delete_ratio, 6),
        measured=None if row.measured is None else row.measured.until,
        decision=None if row.decision is None else stored_decision(row.decision),
    )


def point(found: Point) -> models.SeriesPoint:
    """How large a table was."""
    size = found.measure
    return models.SeriesPoint(
        time=found.time,
        files=size.files,
        deltas=size.deltas,
        delete_deltas=size.delete_deltas,
        base_bytes=size.base_bytes,
        delta_bytes=size.delta_bytes,
        delete_bytes=size.delete_bytes,
    )


def of_compaction(properties: Mapping[str, str]) -> dict[str, str]:
    """Those of a table's properties that say something about transactions and compaction."""
    return {key: value for key, value in properties.items() if key.lower().startswith(_SHOWN)}
