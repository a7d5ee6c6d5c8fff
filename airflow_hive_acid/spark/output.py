"""From Spark's output files to finished directories in staging.

Spark writes ``part-NNNNN…`` files below the staging directory; here they become ``bucket_NNNNN`` below
``data/[<partition>/]<directory>/``, are counted and checked from their footers, and get Hive's version file. Nothing is
renamed out of staging: publishing is the control plane's (R4, R5). A file whose rows carry another bucket number than
its name would make Hive fail or lose deletes, so that is checked for every file before the result is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.buckets import MAX_BUCKET, decode_bucket
from airflow_hive_acid.format.jobs import WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import ACID_VERSION, ACID_VERSION_FILE, bucket_file_name
from airflow_hive_acid.format.partitions import unescape_path_name
from airflow_hive_acid.spark.hadoop import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from airflow_hive_acid.spark.hadoop import Entry, HadoopFilesystem

_PART_FILE = re.compile(r"part-([0-9]+)-.*-c([0-9]+)\..*")
_BLOOM = "orc.bloom.filter.columns"


class Destination(NamedTuple):
    """A directory of the result.

    :param partition: escaped partition name, empty for an unpartitioned table.
    :param values: partition values as the catalog holds them.
    :param name: final directory name.
    """

    partition: str
    values: tuple[str, ...]
    name: str


class Placement(NamedTuple):
    """Where the files of one output key belong.

    :param bucket: their bucket number; None when it is the number of the task that wrote the file.
    """

    destination: Destination
    bucket: int | None = None


@dataclass(frozen=True, slots=True)
class Staging:
    """The staging directory of a job.

    :param root: URI ``<table>/_tmp_<job id>``.
    """

    fs: HadoopFilesystem
    root: str

    def directory(self, destination: Destination) -> str:
        """Where a directory of the result lies until it is published."""
        inside = [destination.partition] if destination.partition else []
        return paths.join(self.root, "data", *inside, destination.name)

    def scratch(self, label: str) -> str:
        """Where Spark writes before files have their names."""
        return paths.join(self.root, label)


def orc_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Writer options from the ``orc.*`` properties of a table; Hive's default codec is zlib."""
    options = {key.lower(): value for key, value in properties.items() if key.lower().startswith("orc.")}
    if _BLOOM in options:
        options[_BLOOM] = ",".join(f"row.{name.strip().lower()}" for name in options[_BLOOM].split(","))
    return {"compression": options.pop("orc.compress", "zlib").lower(), **options}


def write_events(
    staging: Staging,
    events: DataFrame,
    keys: Sequence[str],
    place: Callable[[tuple[str, ...]], Placement],
    properties: Mapping[str, str],
    label: str = "write_1",
    bucket_offset: int = 0,
) -> list[WrittenDirectory]:
    """Write events and arrange them as finished directories.

    :param events: the six columns, then the key columns. Within a task sorted by the keys first: Spark must not add a
        sort of its own, which need not keep the order of equal keys.
    :param keys: columns that become directories in Spark's output; none for a single destination.
    :param place: from the values of the keys (unescaped) to where their files belong.
    :param label: name of the scratch directory; one per write of a job.
    :param bucket_offset: what to add to a task's number to get its bucket.
    """
    scratch = staging.scratch(label)
    writer = events.write.mode("error").options(**orc_options(properties)).option("maxRecordsPerFile", "0")
    (writer.partitionBy(*keys) if keys else writer).orc(scratch)
    try:
        found = _part_files(staging.fs, staging.fs.qualify(scratch), len(keys))
        return arrange(staging, _buckets(found, place, bucket_offset))
    finally:
        staging.fs.delete(scratch)


class _Arranged(NamedTuple):
    """A file of Spark's, its destination and its bucket number."""

    entry: Entry
    destination: Destination
    bucket: int


def arrange(staging: Staging, files: Iterable[_Arranged]) -> list[WrittenDirectory]:
    """Check files and move them to their places in staging; files without rows are left behind.

    :raises JobFailedError: when the content of a file contradicts the name it would get.
    """
    candidates = list(files)
    summaries = in_threads(staging.fs.orc_summary, [f.entry.uri for f in candidates])
    written: dict[Destination, dict[int, tuple[Entry, int]]] = {}
    for file, summary in zip(candidates, summaries, strict=True):
        if summary.rows == 0:
            continue
        _check_bucket(file, summary.min_bucket, summary.max_bucket)
        others = written.setdefault(file.destination, {})
        if file.bucket in others:
            raise JobFailedError(
                f"two tasks wrote bucket {file.bucket} of {file.destination.name}: {others[file.bucket][0].name} and "
                f"{file.entry.name}; nothing is published"
            )
        others[file.bucket] = (file.entry, summary.rows)
    for destination in written:
        start_directory(staging, destination)
    staging.fs.rename_all(
        (entry.uri, paths.join(staging.directory(destination), bucket_file_name(bucket)))
        for destination, buckets in written.items()
        for bucket, (entry, _) in buckets.items()
    )
    return [
        WrittenDirectory(
            destination.partition,
            destination.values,
            destination.name,
            tuple(
                WrittenFile(bucket_file_name(bucket), rows, entry.size)
                for bucket, (entry, rows) in sorted(buckets.items())
            ),
        )
        for destination, buckets in sorted(written.items())
    ]


def start_directory(staging: Staging, destination: Destination) -> WrittenDirectory:
    """A directory with nothing but Hive's version file: for an overwrite or a compaction, the empty table."""
    directory = staging.directory(destination)
    staging.fs.make_directories(directory)
    staging.fs.write_text(paths.join(directory, ACID_VERSION_FILE), ACID_VERSION)
    return WrittenDirectory(destination.partition, destination.values, destination.name, ())


def merged(*parts: Iterable[WrittenDirectory]) -> list[WrittenDirectory]:
    """The directories of several writes; those of one name are one directory."""
    found: dict[Destination, list[WrittenFile]] = {}
    for directory in (d for part in parts for d in part):
        key = Destination(directory.partition, directory.values, directory.name)
        found.setdefault(key, []).extend(directory.files)
    return [
        WrittenDirectory(key.partition, key.values, key.name, tuple(sorted(files, key=lambda f: f.name)))
        for key, files in sorted(found.items())
    ]


def rows_in(directories: Iterable[WrittenDirectory], kind: str) -> int:
    """Rows in all directories whose name starts with ``kind``."""
    return sum(file.rows for d in directories if d.name.startswith(f"{kind}_") for file in d.files)


def _check_bucket(file: _Arranged, low: int | None, high: int | None) -> None:
    inside = {decode_bucket(value).bucket for value in (low, high) if value is not None}
    if inside != {file.bucket}:
        raise JobFailedError(
            f"{file.entry.name} would become bucket {file.bucket} of {file.destination.name}, but its rows are of "
            f"{sorted(inside)}; nothing is published"
        )


def _part_files(fs: HadoopFilesystem, scratch: str, depth: int) -> list[tuple[Entry, tuple[str, ...]]]:
    """Spark's output files, each with the values of its key columns."""
    level: list[tuple[str, tuple[str, ...]]] = [(scratch, ())]
    for _ in range(depth):
        listed = fs.list_many(directory for directory, _ in level)
        level = [
            (entry.uri, (*values, unescape_path_name(entry.name.partition("=")[2])))
            for directory, values in level
            for entry in listed[directory] or ()
            if entry.is_directory and "=" in entry.name
        ]
    listed = fs.list_many(directory for directory, _ in level)
    return [
        (entry, values)
        for directory, values in level
        for entry in listed[directory] or ()
        if not entry.is_directory and not entry.name.startswith(("_", "."))
    ]


def _buckets(
    files: Iterable[tuple[Entry, tuple[str, ...]]],
    place: Callable[[tuple[str, ...]], Placement],
    bucket_offset: int,
) -> Iterable[_Arranged]:
    for entry, values in files:
        match = _PART_FILE.fullmatch(entry.name)
        if match is None or int(match[2]) != 0:
            raise JobFailedError(f"{entry.uri}: expected exactly one file part-NNNNN-…-c000 per task; is "
                                 "spark.sql.files.maxRecordsPerFile set?")
        placement = place(values)
        bucket = int(match[1]) + bucket_offset if placement.bucket is None else placement.bucket
        if bucket > MAX_BUCKET:
            raise InvalidArgumentsError(
                f"the statement wrote with more than {MAX_BUCKET + 1} tasks, and a directory holds no more buckets; "
                f"add the hint /*+ COALESCE({MAX_BUCKET + 1}) */ to the query"
            )
        yield _Arranged(entry, placement.destination, bucket)
