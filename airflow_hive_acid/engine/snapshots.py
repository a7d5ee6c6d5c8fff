"""Table snapshots for job specs: what a transaction sees of a table, reduced to what a statement can touch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from airflow_hive_acid.format.jobs import Column, PartitionRef, TableSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore.catalog_model import Partition, Table
    from airflow_hive_acid.sql.pruning import PartitionFilter


class SnapshotLists(Protocol):
    """The lists of an open transaction or registered reader."""

    @property
    def snapshot(self) -> dict[str, ValidWriteIdList]:
        """Write ids by table."""

    @property
    def valid_txns(self) -> ValidTxnList:
        """The txns it sees."""


def partition_refs(partitions: Iterable[Partition]) -> tuple[PartitionRef, ...]:
    """Partitions of the catalog as a job spec names them."""
    return tuple(PartitionRef(p.name, p.location, p.values) for p in partitions)


def table_snapshot(
    table: Table,
    partitions: Iterable[PartitionRef],
    keep: PartitionFilter,
    write_ids: ValidWriteIdList | None,
    txns: ValidTxnList | None,
) -> TableSnapshot:
    """A table as one transaction sees it.

    :param partitions: of a partitioned table; those that ``keep`` drops are left out.
    :param write_ids: None for a plain table, which has none.
    """
    if table.is_partitioned:
        refs = tuple(p for p in partitions if keep.keeps(p.values))
    else:
        refs = (PartitionRef("", table.location),)
    return TableSnapshot(
        table=table.qualified_name,
        location=table.location,
        columns=tuple(Column(c.name, c.type) for c in table.columns),
        partition_columns=tuple(Column(c.name, c.type) for c in table.partition_columns),
        partitions=refs,
        write_ids="" if write_ids is None else str(write_ids),
        txns="" if txns is None else str(txns),
        transactional=table.is_transactional,
        properties={k: v for k, v in table.properties.items() if k.lower().startswith("orc.")},
    )


def with_own_write(write_ids: ValidWriteIdList, write_id: int) -> ValidWriteIdList:
    """The list of a transaction that sees its own earlier statements.

    Ids between the snapshot and our own belong to others who allocated since: open, whatever became of them.
    """
    if write_ids.is_valid(write_id):
        return write_ids
    others = range(write_ids.high_watermark + 1, write_id)
    opened = (write_ids.open | frozenset(others)) - {write_id}
    # The smallest open id is counted anew, with the newcomers.
    return dataclasses.replace(
        write_ids, high_watermark=max(write_id, write_ids.high_watermark), open=opened, min_open=None
    )
