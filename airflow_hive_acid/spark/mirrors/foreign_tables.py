"""Whether an imported table is what its source is: what a job of an import's verification calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.format.jobs import Source
from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.guards import check_sources
from airflow_hive_acid.spark.mirrors.checksums import differences
from airflow_hive_acid.spark.mirrors.columns import MirrorColumns
from airflow_hive_acid.spark.mirrors.snapshots import at_write_id
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_hive_acid.spark.jobs.program import Job


def compare(
    job: Job,
    *,
    table: str,
    format: str,
    options: Mapping[str, str],
    names: Mapping[str, str],
    write_id: int,
    cleaned: Mapping[str, int],
) -> dict[str, Any]:
    """Compare a source with the table that was made of it.

    :param names: names in the table by name in the source, where they differ by more than case.
    :param write_id: of the import: what was written since does not count.
    :param cleaned: by partition name, up to which write id a Cleaner may have removed what was replaced.
    :return: as of :func:`~airflow_hive_acid.spark.mirrors.checksums.differences`.
    :raises HistoryGoneError: when the table cannot be read any more as it was then.
    """
    snapshot = job.snapshot(table)
    source = Source(f"of {table}", format, dict(options))
    check_sources(job.spark, [source])
    read = job.spark.read.format(format).options(**source.options).load()
    parsed = schema.table_columns((*snapshot.columns, *snapshot.partition_columns), table)
    fields = tuple((column.name, column.type) for column in parsed)
    given = {names.get(name, name).lower(): name for name in read.columns}
    texts = [f"cast({schema.quoted(given[n])} as {schema.sql_type(t)}) as {schema.quoted(n)}" for n, t in fields]
    copied = read_snapshot(job.spark, at_write_id(snapshot, write_id, cleaned))
    partition = tuple(column.name.lower() for column in snapshot.partition_columns)
    columns = MirrorColumns(fields, partition, (), hidden=False)
    return differences(read.selectExpr(*texts), copied, columns)
