"""Table snapshots for job specs: what a transaction sees of a table, reduced to what a statement can touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_hive_acid.format.jobs import Column, PartitionRef, TableSnapshot
from airflow_hive_acid.maintenance.warehouse.storage import bucketing, require_format, writer_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
    from airflow_hive_acid.metastore.catalog import Partition, Table
    from airflow_hive_acid.sql.model.pruning import PartitionFilter


class SnapshotLists(Protocol):
    """The lists of an open transaction or registered reader."""

    @property
    def txn_id(self) -> int:
        """Its txn."""

    @property
    def snapshot(self) -> Mapping[str, ValidWriteIdList]:
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
    :raises UnsupportedStatementError: when its files are in a format that is not read.
    """
    if table.is_partitioned:
        refs = tuple(p for p in partitions if keep.keeps(p.values))
    else:
        refs = (PartitionRef("", table.location),)
    return TableSnapshot(
        table=table.qualified_name,
        location=table.location,
        columns=tuple(Column(c.name, c.type, c.required, c.default) for c in table.columns),
        partition_columns=tuple(Column(c.name, c.type) for c in table.partition_columns),
        partitions=refs,
        write_ids="" if write_ids is None else write_ids.short_text(),
        txns="" if txns is None else str(txns),
        transactional=table.is_transactional,
        properties=writer_properties(table),
        format=require_format(table),
        insert_only=table.is_insert_only,
        serde=dict(table.serde_properties),
        bucketing=bucketing(table),
        checks=dict(table.checks),
        altered=table.is_altered,
    )
