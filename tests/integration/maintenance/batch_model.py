"""Transaction batches without Spark: an application whose bucket files are lines of JSON, kept open across steps.

Its files behave as the real ones: they are begun in staging, written on through an open handle after they were moved,
and only what the side file vouches for counts. Readers go by the same rules as real ones.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from airflow_hive_acid.engine.applications.spool import error_of
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import (
    Append,
    CloseBatch,
    Compact,
    JobError,
    JobResult,
    JobSpec,
    WrittenDirectory,
    WrittenFile,
)
from airflow_hive_acid.format.names import (
    ACID_VERSION,
    ACID_VERSION_FILE,
    FLUSH_LENGTH_SUFFIX,
    base_name,
    delta_name,
    parse_bucket_file,
)
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.metastore import MetastoreClient, ReaderSnapshot

BUCKET = "bucket_00000"


def local(uri: str) -> Path:
    return Path("/" + uri.removeprefix("file:").lstrip("/"))


@dataclass
class ModelFile:
    """An open file."""

    handle: IO[bytes]
    lengths: list[int] = field(default_factory=list)
    rows: int = 0

    def append(self, lines: bytes) -> None:
        self.handle.write(lines)
        self.handle.flush()


class ModelSpark:
    """A launcher and its application in one.

    :ivar after: called when a step has been done, before its result is given.
    """

    def __init__(self, after: Callable[[JobSpec], JobResult | None] | None = None) -> None:
        self.files: dict[tuple[str, str], ModelFile] = {}
        self.after = after
        self.is_alive = True
        self.application_id = "model"

    def start(self, _application: Any = None) -> ModelSpark:
        return self

    def wait_ready(self) -> str:
        return self.application_id

    def cancel(self) -> None:
        self.is_alive = False

    def close(self) -> None:
        for file in self.files.values():
            file.handle.close()

    def run(self, spec: JobSpec) -> JobResult:
        step = spec.step
        directories: tuple[WrittenDirectory, ...] = ()
        if isinstance(step, Append):
            directories = self._append(spec, step)
        elif isinstance(step, CloseBatch):
            for key in [key for key in self.files if key[0] == step.batch]:
                file = self.files.pop(key)
                file.append(b"FOOTER\n")
                file.handle.close()
        result = JobResult(spec.job_id, "model", directories=directories)
        result = (self.after(spec) if self.after is not None else None) or result
        if result.error is not None:
            raise error_of(result.error)
        return result

    def _append(self, spec: JobSpec, step: Append) -> tuple[WrittenDirectory, ...]:
        (source,) = spec.sources
        records = [json.loads(line) for line in source.options["lines"].splitlines()]
        keys = [column.name for column in step.target.partition_columns]
        values = tuple(value for _, value in step.insert.static_partition)
        partition = partition_name(zip(keys, values, strict=True)) if keys else ""
        name = delta_name(step.min_write_id, step.max_write_id)
        path = local(str(spec.staging)) / "data" / partition / name
        path.mkdir(parents=True)
        if (step.batch, partition) not in self.files:
            (path / ACID_VERSION_FILE).write_text(ACID_VERSION)
            self.files[step.batch, partition] = ModelFile((path / BUCKET).open("wb"))
        file = self.files[step.batch, partition]
        file.append(b"".join(json.dumps([step.insert.write_id, int(r["id"])]).encode() + b"\n" for r in records))
        file.rows += len(records)
        file.lengths.append(file.handle.tell())
        (path / f"{BUCKET}{FLUSH_LENGTH_SUFFIX}").write_bytes(struct.pack(f">{len(file.lengths)}q", *file.lengths))
        return (WrittenDirectory(partition, values, name, (WrittenFile(BUCKET, len(records), file.lengths[-1]),)),)


def failed(message: str) -> JobResult:
    return JobResult("", "model", error=JobError("JobFailedError", message))


def read(client: MetastoreClient, table: str, reader: ReaderSnapshot | None = None) -> list[int]:
    """The rows that a snapshot sees, of all partitions; by default of one that begins now."""
    if reader is None:
        with client.snapshot([table]) as now:
            return read(client, table, now)
    found = client.catalog.get_table(table)
    places = [p.location for p in client.catalog.list_partitions(table)] if found.is_partitioned else [found.location]
    return sorted(i for place in places for _, i in rows_in(local(place), reader.snapshot[table], reader.valid_txns))


def rows_in(root: Path, write_ids: ValidWriteIdList, txns: ValidTxnList) -> list[tuple[int, int]]:
    """The rows of a table or partition, with their write ids, as Hive and our Spark jobs find them."""
    listing = [FileEntry(str(p.relative_to(root)), p.stat().st_size) for p in root.rglob("*") if p.is_file()]
    found = []
    for directory in acid_state(listing, write_ids, txns).inserts:
        for entry in directory.files:
            if parse_bucket_file(entry.path.rpartition("/")[2]) is None:
                continue
            content, side = (root / entry.path).read_bytes(), root / f"{entry.path}{FLUSH_LENGTH_SUFFIX}"
            if side.exists():
                (length,) = struct.unpack(">q", side.read_bytes()[-8:])
                assert length <= len(content), f"{entry.path} is shorter than what was flushed into it"
                content = content[:length]
            rows = [json.loads(line) for line in content.splitlines() if line != b"FOOTER"]
            found += [(w, i) for w, i in rows if not directory.needs_row_check or write_ids.is_valid(w)]
    return found


def compact_model(fs: Filesystem, spec: JobSpec, _request: Any = None) -> JobResult:
    """What the Spark job of a major compaction does."""
    step = spec.step
    assert isinstance(step, Compact)
    write_ids = ValidWriteIdList.parse(step.target.write_ids).for_compactor()
    rows = rows_in(local(step.target.partitions[0].location), write_ids, ValidTxnList.parse(step.target.txns))
    kept = [(w, i) for w, i in rows if write_ids.is_valid(w)]
    partition = step.target.partitions[0]
    name = base_name(write_ids.high_watermark, step.visibility_txn_id)
    path = local(str(spec.staging)) / "data" / partition.name / name
    path.mkdir(parents=True)
    (path / ACID_VERSION_FILE).write_text(ACID_VERSION)
    text = "".join(json.dumps(row) + "\n" for row in sorted(kept))
    (path / BUCKET).write_text(text)
    written = WrittenDirectory(partition.name, partition.values, name, (WrittenFile(BUCKET, len(kept), len(text)),))
    return JobResult(spec.job_id, "model", directories=(written,))
