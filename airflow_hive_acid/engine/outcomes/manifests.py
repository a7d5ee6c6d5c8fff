"""What manifests say: buckets taken, files for those who copy tables, sizes, and where partitions lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.outcomes.events import JobFinished, Published
from airflow_hive_acid.errors import PublishInterruptedError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import ACID_VERSION_FILE, parse_bucket_file
from airflow_hive_acid.metastore.catalog import Write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_hive_acid.filesystem.publishing import Manifest
    from airflow_hive_acid.format.jobs import JobResult, PartitionRef
    from airflow_hive_acid.metastore.catalog import Partition
    from airflow_hive_acid.metastore.names import TableName
    from airflow_hive_acid.sql.model.plans import Plan


def buckets_in_bases(manifests: Iterable[Manifest], partition: str) -> int:
    """The first bucket number that no base of a partition has yet."""
    names = [
        parse_bucket_file(file)
        for manifest in manifests
        for directory in manifest.directories
        if directory.partition == partition and directory.name.startswith("base_")
        for file, _ in directory.files
    ]
    return max((name.bucket + 1 for name in names if name is not None), default=0)


def writes(table: TableName, write_id: int, manifests: Iterable[Manifest]) -> list[Write]:
    """The files of each partition, for those who copy the table."""
    files: dict[str, list[tuple[str, str]]] = {}
    for directory in (d for manifest in manifests for d in manifest.directories):
        listed = files.setdefault(directory.partition, [])
        # Side files (_orc_acid_version) are no data.
        names = [file for file, _ in directory.files if not file.startswith(("_", "."))]
        listed += [(f"{directory.uri}/{file}", directory.name) for file in names]
    return [Write(table, write_id, partition, tuple(listed)) for partition, listed in sorted(files.items())]


def require_same_places(made: Mapping[str, PartitionRef], others: Mapping[str, Partition]) -> None:
    """Somebody else added a partition meanwhile: our files must be where readers will look for them."""
    for name, other in others.items():
        if paths.parse_location(other.location) != paths.parse_location(made[name].location):
            raise PublishInterruptedError(
                f"partition {name} was added at {other.location} while this txn wrote it at {made[name].location}; "
                "the txn is not committed, run it again"
            )


def published(manifest: Manifest, seconds: float) -> Published:
    sizes = [size for directory in manifest.directories for name, size in directory.files if name != ACID_VERSION_FILE]
    uploaded = sum(len(directory.uploads) for directory in manifest.directories)
    return Published(manifest.table, len(manifest.directories), len(sizes), sum(sizes), seconds, uploaded)


def finished(plan: Plan, result: JobResult) -> JobFinished:
    return JobFinished(
        kind=plan.kind,
        table=None if plan.write is None else plan.write.table,
        inserted=result.inserted,
        updated=result.updated,
        deleted=result.deleted,
        rows=result.rows,
        seconds=result.seconds,
    )
