"""From the files of a write's tasks to finished directories in staging.

Tasks write ``part-…`` files below the staging directory; here they become ``bucket_NNNNN`` below
``data/[<partition>/]<directory>/``, and the directories get Hive's version file. On an object store, where each rename
copies, they stay where they are, and the report says where that is; on S3 they may be uploads, which it names. Nothing
is renamed out of staging: that is the control plane's, which publishes (R4, R5). Files of Spark's own source are
counted and checked from their footers: a file whose rows carry another bucket number than its name would make Hive
fail or lose deletes, so the name is taken from the rows, which must agree within a file. The writer of the optional
jar checks that itself (see ``sink.py``).
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

    from airflow_hive_acid.format.jobs import Uploads
    from airflow_hive_acid.spark.footers import OrcSummary
    from airflow_hive_acid.spark.hadoop import Entry, HadoopFilesystem

_PART_FILE = re.compile(r"part-([0-9]+)-.*[-.]c([0-9]+)\..*")
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


@dataclass(frozen=True, slots=True)
class Staging:
    """The staging directory of a job.

    :param root: URI ``<table>/_tmp_<job id>``.
    :param uploads: what files may be uploaded under their final names instead, in qualified places; None for none.
    """

    fs: HadoopFilesystem
    root: str
    uploads: Uploads | None = None

    def directory(self, destination: Destination) -> str:
        """Where a directory of the result lies until it is published."""
        inside = [destination.partition] if destination.partition else []
        return paths.join(self.root, "data", *inside, destination.name)

    def places(self, partitions: Sequence[str]) -> list[str | None]:
        """Where the directories of partitions are whose files are uploaded; None for one whose files go to staging.

        :param partitions: their names; an empty one for a table without partitions.
        """
        return [None if self.uploads is None else self.uploads.place_of(name) or None for name in partitions]

    def final_directory(self, destination: Destination) -> str | None:
        """Where the files of a directory are uploaded to; None when they go to staging."""
        (place,) = self.places([destination.partition])
        return None if place is None else f"{place}/{destination.name}"

    def final_name(self, destination: Destination, bucket: int) -> str | None:
        """Where the file of a bucket is uploaded to; None when it goes to staging."""
        directory = self.final_directory(destination)
        return None if directory is None else f"{directory}/{bucket_file_name(bucket)}"

    @property
    def renames_by_copies(self) -> bool:
        """Whether giving a file a name copies it."""
        return paths.parse_location(self.root).scheme in paths.OBJECT_STORE_SCHEMES

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
    place: Callable[[tuple[str, ...]], Destination],
    properties: Mapping[str, str],
    label: str = "write_1",
) -> list[WrittenDirectory]:
    """Write events and arrange them as finished directories.

    :param events: the six columns, then the key columns. Within a task sorted by the keys first: Spark must not add a
        sort of its own, which need not keep the order of equal keys.
    :param keys: columns that become directories in Spark's output; none for a single destination.
    :param place: from the values of the keys (unescaped) to where their files belong.
    :param label: name of the scratch directory; one per write of a job.
    """
    scratch = staging.scratch(label)
    writer = events.write.mode("error").options(**orc_options(properties)).option("maxRecordsPerFile", "0")
    (writer.partitionBy(*keys) if keys else writer).orc(scratch)
    files = _part_files(staging.fs, staging.fs.qualify(scratch), len(keys))
    return _arranged(staging, files, place, label)


class _PartFile(NamedTuple):
    """A file that a task wrote, and the values of its key columns."""

    entry: Entry
    keys: tuple[str, ...]


def _arranged(
    staging: Staging, files: list[_PartFile], place: Callable[[tuple[str, ...]], Destination], label: str
) -> list[WrittenDirectory]:
    """Name, check and move files to their places in staging; those without rows are left behind."""
    summaries = in_threads(staging.fs.footers.orc_summary, [f.entry.uri for f in files])
    finished = []
    for file, summary in zip(files, summaries, strict=True):
        if summary.rows:
            destination = place(file.keys)
            bucket = _bucket_of(file, summary, destination)
            finished.append(FinishedFile(destination, bucket, file.entry.uri, summary.rows, file.entry.size))
    return arrange(staging, finished, label)


class FinishedFile(NamedTuple):
    """A file that a task wrote, with what it holds and where it belongs.

    :param upload: id of its upload, empty for a file of staging.
    """

    destination: Destination
    bucket: int
    uri: str
    rows: int
    size: int
    upload: str = ""


def arrange(staging: Staging, files: Iterable[FinishedFile], label: str) -> list[WrittenDirectory]:
    """Give files their names and move them to their places in staging, unless names cost copies.

    :param label: of the scratch directory they are in.
    :raises JobFailedError: when two files are the same bucket of a directory.
    """
    written: dict[Destination, dict[int, FinishedFile]] = {}
    for file in files:
        others = written.setdefault(file.destination, {})
        if file.bucket in others:
            raise JobFailedError(
                f"two tasks wrote bucket {file.bucket} of {file.destination.name}: {others[file.bucket].uri} and "
                f"{file.uri}; nothing is published"
            )
        others[file.bucket] = file
    scratch = staging.fs.qualify(staging.scratch(label))
    if not staging.renames_by_copies:
        in_threads(lambda destination: start_directory(staging, destination), list(written))
        staging.fs.rename_all(
            (file.uri, paths.join(staging.directory(destination), bucket_file_name(bucket)))
            for destination, buckets in written.items()
            for bucket, file in buckets.items()
        )
        staging.fs.delete(scratch)

    def named(bucket: int, file: FinishedFile) -> WrittenFile:
        if file.upload:
            _require_final_name(staging, file)
            return WrittenFile(bucket_file_name(bucket), file.rows, file.size, upload=file.upload)
        where = label + file.uri.removeprefix(scratch) if staging.renames_by_copies else ""
        return WrittenFile(bucket_file_name(bucket), file.rows, file.size, where)

    return [
        WrittenDirectory(
            destination.partition,
            destination.values,
            destination.name,
            tuple(named(bucket, file) for bucket, file in sorted(found.items())),
        )
        for destination, found in sorted(written.items())
    ]


def _require_final_name(staging: Staging, file: FinishedFile) -> None:
    """The jar makes names of partitions itself; what publishing ends is the upload of the name that it knows."""
    expected = staging.final_name(file.destination, file.bucket)
    if file.uri != expected:
        raise JobFailedError(f"a task uploads {file.uri}, which belongs to {expected}; nothing is published")


def _bucket_of(file: _PartFile, summary: OrcSummary, destination: Destination) -> int:
    """The bucket number that all rows of a file carry."""
    inside = {decode_bucket(value).bucket for value in (summary.min_bucket, summary.max_bucket) if value is not None}
    if len(inside) != 1:
        raise JobFailedError(
            f"{file.entry.name} of {destination.name} holds rows of the buckets {sorted(inside)}; a file must hold one "
            "bucket, so nothing is published"
        )
    return inside.pop()


def start_directory(staging: Staging, destination: Destination) -> WrittenDirectory:
    """A directory with nothing but Hive's version file: for an overwrite or a compaction, the empty table."""
    directory = staging.directory(destination)
    version = paths.join(directory, ACID_VERSION_FILE)
    # The two writes of a MERGE may share a directory.
    if not staging.fs.exists(version):
        # Which makes the directory as well. To ask for that first costs a local disk a process (chmod) per directory.
        staging.fs.write_text(version, ACID_VERSION)
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


def rows_in(directories: Iterable[WrittenDirectory], kind: str = "") -> int:
    """Rows in all directories, or in those whose name starts with ``kind``."""
    return sum(file.rows for d in directories if d.name.startswith(kind) for file in d.files)


def _part_files(fs: HadoopFilesystem, scratch: str, depth: int) -> list[_PartFile]:
    """Spark's output files below ``depth`` levels of ``key=value`` directories."""
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
        _checked(_PartFile(entry, values))
        for directory, values in level
        for entry in listed[directory] or ()
        if not entry.is_directory and not entry.name.startswith(("_", "."))
    ]


def _checked(file: _PartFile) -> _PartFile:
    """One file per task, and no task whose number does not fit into the format."""
    match = _PART_FILE.fullmatch(file.entry.name)
    if match is None or int(match[2]) != 0:
        raise JobFailedError(
            f"{file.entry.uri}: expected exactly one file part-NNNNN-…c000 per task; "
            "spark.sql.files.maxRecordsPerFile must be 0"
        )
    if int(match[1]) > MAX_BUCKET:
        raise InvalidArgumentsError(
            f"the statement wrote with more than {MAX_BUCKET + 1} tasks, and a directory holds no more buckets; "
            f"add the hint /*+ COALESCE({MAX_BUCKET + 1}) */ to the query"
        )
    return file
