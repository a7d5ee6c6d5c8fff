"""Tables whose files are lists of row ids: what clients and compaction jobs of a simulation read and write."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.filesystem.publishing import Manifest, Target, check_published, publish, read_staging
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import Compact, JobResult, JobSpec, WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import (
    ACID_VERSION,
    ACID_VERSION_FILE,
    PLAIN_FILES,
    base_name,
    delete_delta_name,
    delta_name,
    is_hidden,
    staging_name,
)
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.acid_state import AcidState, StateDirectory
    from airflow_hive_acid.metastore import MetastoreClient, Transaction

    from .memory import MemoryFilesystem
    from .model import Change

Row = tuple[int, int]


@dataclass(frozen=True, order=True)
class Place:
    """A table without partitions, or a partition.

    :param key: of its table, whatever that is called now.
    :param partition: its name, empty for a table without partitions.
    :param plain: the table has no transactions.
    :param tables: name and directory of each table, by key.
    """

    key: str
    partition: str
    plain: bool = False
    tables: dict[str, tuple[str, str]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def table(self) -> str:
        """The name of its table now, or the last one it had."""
        return self.tables[self.key][0]

    @property
    def table_location(self) -> str:
        """URI of its table's directory."""
        return self.tables[self.key][1]

    @property
    def location(self) -> str:
        """URI of its directory."""
        return f"{self.table_location}/{self.partition}" if self.partition else self.table_location

    @property
    def parts(self) -> tuple[str, ...]:
        """Names on the way to its directory."""
        return paths.parse_location(self.location).segments

    def __str__(self) -> str:
        return f"{self.table}/{self.partition}" if self.partition else self.table


def rows_of(found: Iterable[StateDirectory], read: Callable[[str], str], write_ids: ValidWriteIdList) -> list[Row]:
    """Rows of directories, those of write ids that are not valid left out where they may lie among others."""
    return [
        (int(write_id), int(number))
        for directory in found
        for write_id, number in _content(directory, read)
        if not directory.needs_row_check or write_ids.is_valid(int(write_id))
    ]


def deletes_of(
    found: Iterable[StateDirectory], read: Callable[[str], str], write_ids: ValidWriteIdList
) -> set[tuple[int, Row]]:
    """Delete events: by whom, and of which row."""
    return {
        (int(write_id), (int(row[0]), int(row[1])))
        for directory in found
        for write_id, row in _content(directory, read)
        if not directory.needs_row_check or write_ids.is_valid(int(write_id))
    }


def _content(directory: StateDirectory, read: Callable[[str], str]) -> list[tuple[int, list[int]]]:
    try:
        return [item for file, _ in directory.bucket_files() for item in json.loads(read(file.path))]
    except ValueError as error:
        raise JobFailedError(f"a file of {directory.directory.name} is damaged: {error}") from error


def look(fs: Filesystem, place: str, write_ids: ValidWriteIdList, txns: ValidTxnList) -> AcidState:
    """Which directories a snapshot sees."""
    listing = fs.list_files(place, recursive=True, descend=lambda info: not info.name.startswith(("_", ".", "k=")))
    found = [FileEntry(f"{i.relative}/" if i.is_dir else i.relative, i.size) for i in listing]
    return acid_state([entry for entry in found if not entry.path.startswith(("_", ".", "k="))], write_ids, txns)


def read(fs: Filesystem, place: Place, write_ids: ValidWriteIdList, txns: ValidTxnList) -> set[Row]:
    """The rows a snapshot sees, from the files themselves."""
    state = look(fs, place.location, write_ids, txns)

    def text(path: str) -> str:
        return fs.read_text(f"{place.location}/{path}")

    rows = rows_of(state.inserts, text, write_ids)
    return set(rows) - {row for _, row in deletes_of(state.deletes, text, write_ids)}


def read_plain(fs: Filesystem, place: Place) -> set[Row]:
    """All rows of a table without transactions."""
    found = [info for info in fs.list_files(place.location) if not is_hidden(info.name)]
    return {(int(txn), int(number)) for info in found for txn, number in json.loads(fs.read_text(info.path))}


def write(
    client: MetastoreClient, fs: MemoryFilesystem, txn: Transaction, table: str, changes: dict[Place, Change],
    job: UUID, *, overwrite: bool,
) -> None:  # fmt: skip
    """One statement of a txn, step by step as the engine runs it: job on record, staging, manifest, renames."""
    location = next(iter(changes)).table_location
    partitions = {place.partition: place.location for place in changes if place.partition}
    write_id, statement = txn.write_ids[table], txn.next_statement_id(table)
    job_id, staging = str(job), f"{location}/{staging_name(str(job))}"
    client.jobs.start(job_id=job_id, txn_id=txn.txn_id, table=table, write_id=write_id, statement=statement,
                      kind="insert", table_location=location, staging=staging)  # fmt: skip
    written = []
    for place, change in changes.items():
        inserts = base_name(write_id) if overwrite else delta_name(write_id, write_id, statement)
        outputs: dict[str, list[object]] = {inserts: sorted(change.adds)}
        if change.deletes and not overwrite:
            outputs[delete_delta_name(write_id, write_id, statement)] = [
                (write_id, row) for row in sorted(change.deletes)
            ]
        written += stage(fs, staging, place.partition, outputs)
    result = JobResult(job_id, "application_1", directories=tuple(written))
    columns = ("k",) if partitions else ()
    target = Target(table, location, columns, partitions, write_id, (statement,))
    manifest = read_staging(fs, staging, result, target)
    client.jobs.record_manifest(job_id, manifest.to_document())
    publish(fs, staging, manifest, location)
    _check_at_commit(fs, txn, target, manifest)


def _check_at_commit(fs: Filesystem, txn: Transaction, target: Target, manifest: Manifest) -> None:
    txn.before_commit(lambda connection: check_published(fs, target, [manifest]))


def compact(fs: MemoryFilesystem, spec: JobSpec) -> JobResult:
    """The job of a compaction: reads what the spec's lists see, writes staging, reports."""
    step = spec.step
    if not isinstance(step, Compact) or spec.staging is None:
        raise AssertionError("not the job of a compaction")
    partition = step.target.partitions[0]
    place = Place("", partition.name, tables={"": (step.target.table, step.target.location)})
    write_ids = ValidWriteIdList.parse(step.target.write_ids).for_compactor()
    state = look(fs, place.location, write_ids, ValidTxnList.parse(step.target.txns))

    def text(path: str) -> str:
        return fs.read_text(f"{place.location}/{path}")

    high, txn = write_ids.high_watermark, step.visibility_txn_id
    events = sorted(deletes_of(state.deletes, text, write_ids))
    outputs: dict[str, list[object]] = {}
    if step.type == "major":
        dead = {row for _, row in events}
        kept = [row for row in rows_of(state.inserts, text, write_ids) if row not in dead]
        outputs[base_name(high, txn)] = sorted(kept)
    else:
        low = min(d.directory.min_write_id for d in state.deltas)
        deltas = [d for d in state.inserts if d is not state.base]
        outputs[delta_name(low, high, None, txn)] = sorted(rows_of(deltas, text, write_ids))
        if events:
            outputs[delete_delta_name(low, high, None, txn)] = list(events)
    directories = stage(fs, spec.staging, place.partition, outputs, partition.values)
    return JobResult(spec.job_id, "application_1", directories=tuple(directories))


def stage(
    fs: MemoryFilesystem, staging: str, partition: str, outputs: dict[str, list[object]], values: tuple[str, ...] = (),
    file: str = "bucket_00000",
) -> list[WrittenDirectory]:  # fmt: skip
    """Write directories below staging, as a job does; returns what it reports."""
    written = []
    for name, content in outputs.items():
        text = json.dumps(content)
        directory = "/".join(part for part in (staging, "data", partition, name) if part)
        fs.make_directory(directory)
        fs.write_slowly(f"{directory}/{file}", text)
        if name != PLAIN_FILES:
            fs.write_text(f"{directory}/{ACID_VERSION_FILE}", ACID_VERSION)
        values = values or ((partition.partition("=")[2],) if partition else ())
        files = (WrittenFile(file, len(content), len(text)),)
        written.append(WrittenDirectory(partition, values, name, files))
    return written
