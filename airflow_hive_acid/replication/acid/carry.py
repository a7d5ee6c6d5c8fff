"""Rows of some write ids out of directories that hold others as well: a Spark job.

It is a minor compaction of the source's directories under a list in which every other id is aborted: events keep their
ids, their buckets and their order, delete events stay with the write id that deletes. The result goes to a hidden
directory and gets the name of its write ids at the replica.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import JobFailedError, ReplicaDivergedError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.jobs import Bucketing, Column, Compact, JobSpec, PartitionRef, TableSnapshot
from airflow_hive_acid.format.names import parse_directory
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.replication.acid.arrivals import Arrival, Carry
    from airflow_hive_acid.replication.acid.snapshot import SourceTable
    from airflow_hive_acid.replication.site import Site

_ANY_TXN = 1
"""The visibility txn that the job puts into names; the sync's own takes its place."""


def carry(
    source: Site, target: Site, table: SourceTable, partition: str, rows: Carry, staging: str, inside: str
) -> list[tuple[Arrival, str, int]]:
    """Run the job where there is Spark: at the replica, else at the source.

    :param staging: URI of a directory that does not exist; ``inside`` is the one that contains it.
    :return: what arrives, where it lies now, and its bytes; a kind without rows is left out.
    :raises ConfigurationError: when neither side has Spark.
    :raises JobFailedError: when the job left something else than it reported.
    """
    target.filesystem.delete(staging, inside=inside)  # what an attempt before left is of another snapshot
    spec = JobSpec(
        str(uuid.uuid4()), _step(table, partition, rows), staging=staging,
        name=f"replication of {table.table.qualified_name}",
    )  # fmt: skip
    result = (target if target.run_job is not None or source.run_job is None else source).run(spec)
    if result.error is not None:
        raise JobFailedError(f"{result.error.type}: {result.error.message}")
    made = []
    for written in result.directories:
        named = parse_directory(written.name)
        arrival = next((a for a in rows.arrivals() if named is not None and a.directory.kind is named.kind), None)
        where = paths.join(staging, "data", *([partition] if partition else []), written.name)
        listed = {e.name: e.size for e in target.filesystem.list_files(where) if not e.name.startswith(("_", "."))}
        if arrival is None or listed != {f.name: f.bytes for f in written.files}:
            raise JobFailedError(f"{where} holds {sorted(listed)}, which is not what the job reported; run it again")
        made.append((arrival, where, sum(listed.values())))
    return made


def _step(table: SourceTable, partition: str, rows: Carry) -> Compact:
    named = [d for d in map(parse_directory, rows.sources) if d is not None]
    if len(named) != len(rows.sources) or not table.table.is_transactional or table.table.is_insert_only:
        raise ReplicaDivergedError(f"rows of {', '.join(rows.sources)} cannot be told apart; bootstrap the table again")
    low, high = min(d.min_write_id for d in named), max(d.max_write_id for d in named)
    wanted = {w for w in range(rows.low, rows.high + 1) if table.write_ids.is_valid(w)}
    only = ValidWriteIdList(
        high, frozenset(), frozenset(range(max(1, low), high + 1)) - wanted, None, table.table.qualified_name
    )
    txns = table.txns
    behind = ValidTxnList(txns.high_watermark, txns.open | rows.hidden_txns, txns.aborted - rows.hidden_txns)
    values = tuple(value for _, value in parse_partition_name(partition)) if partition else ()
    return Compact(
        target=TableSnapshot(
            table=table.table.qualified_name,
            location=table.table.location,
            columns=tuple(Column(c.name, c.type) for c in table.table.columns),
            partition_columns=tuple(Column(c.name, c.type) for c in table.table.partition_columns),
            partitions=(PartitionRef(partition, table.places[partition], values),),
            write_ids=only.short_text(),
            txns=str(behind),
            properties={k: v for k, v in table.table.properties.items() if k.lower().startswith("orc.")},
            bucketing=_bucketing(table.table),
        ),
        type="minor",
        visibility_txn_id=_ANY_TXN,
        above=low - 1,
    )


def _bucketing(table: Table) -> Bucketing | None:
    if not table.bucket_columns:
        return None
    return Bucketing(table.bucket_columns, table.bucket_count, table.property("bucketing_version") or "2")
