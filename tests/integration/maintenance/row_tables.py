"""Tables whose files are lists of row ids, and a compactor that makes directories as the Worker's Spark job would.

A row is ``[write id, number]``, a delete event ``[write id, row]``. Readers decide by the same ``acid_state`` as real
ones which files they open, and apply delete events as a real reader does; so a file that is gone too early, or a
directory that is seen twice, changes what they read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import Compact, JobResult, JobSpec, WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import ACID_VERSION, ACID_VERSION_FILE, base_name, delete_delta_name, delta_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.filesystem import Filesystem
    from airflow_hive_acid.format.acid_state import AcidState, StateDirectory
    from airflow_hive_acid.metastore import MetastoreClient, ReaderSnapshot, Transaction

Row = tuple[int, int]


@dataclass
class RowTable:
    """An unpartitioned transactional table of row ids."""

    client: MetastoreClient
    fs: Filesystem
    name: str
    location: str

    def begin(self, operation: str) -> Transaction:
        return self.client.begin({self.name: operation})

    def put(self, txn: Transaction, number: int, deleted: Iterable[Row] = ()) -> set[Row]:
        """Write rows and delete events of an open txn; returns the rows."""
        write_id = txn.write_ids[self.name]
        rows = {(write_id, i) for i in range(number)}
        statement = txn.next_statement_id(self.name)
        if rows:
            self._write(delta_name(write_id, write_id, statement), sorted(rows))
        events = [(write_id, row) for row in deleted]
        if events:
            self._write(delete_delta_name(write_id, write_id, statement), events)
        return rows

    def replace(self, txn: Transaction, number: int) -> set[Row]:
        """INSERT OVERWRITE of an open txn."""
        write_id = txn.write_ids[self.name]
        rows = {(write_id, i) for i in range(number)}
        self._write(base_name(write_id), sorted(rows))
        return rows

    def read(self, reader: ReaderSnapshot) -> set[Row]:
        """The rows a snapshot sees, from the files themselves."""
        write_ids = reader.snapshot[self.name]
        return _visible(self.fs, self.location, _state(self.fs, self.location, write_ids, reader.valid_txns), write_ids)

    def directories(self) -> list[str]:
        return [info.name for info in self.fs.list_files(self.location) if not info.name.startswith("_")]

    def _write(self, name: str, content: object) -> None:
        _write(self.fs, f"{self.location}/{name}", content)


def compact_rows(fs: Filesystem, spec: JobSpec) -> JobResult:
    """The job of a compaction: reads what the spec's lists see, writes staging, reports."""
    step = spec.step
    assert isinstance(step, Compact)
    place = step.target.partitions[0].location
    write_ids = ValidWriteIdList.parse(step.target.write_ids).for_compactor()
    state = _state(fs, place, write_ids, ValidTxnList.parse(step.target.txns))
    high, txn = write_ids.high_watermark, step.visibility_txn_id
    outputs: dict[str, list[object]] = {}
    if step.type == "major":
        outputs[base_name(high, txn)] = sorted(_visible(fs, place, state, write_ids))
    else:
        low = min(d.directory.min_write_id for d in state.deltas)
        deltas = [d for d in state.inserts if d is not state.base]
        outputs[delta_name(low, high, None, txn)] = sorted(_rows(fs, place, deltas, write_ids))
        events = sorted(_events(fs, place, state, write_ids))
        if events:
            outputs[delete_delta_name(low, high, None, txn)] = list(events)
    written = []
    for name, content in outputs.items():
        size = _write(fs, f"{spec.staging}/data/{name}", content)
        written.append(WrittenDirectory("", (), name, (WrittenFile("bucket_00000", len(content), size),)))
    return JobResult(spec.job_id, "application_1", directories=tuple(written))


def _write(fs: Filesystem, directory: str, content: object) -> int:
    text = json.dumps(content)
    fs.make_directory(directory)
    fs.write_text(f"{directory}/bucket_00000", text)
    fs.write_text(f"{directory}/{ACID_VERSION_FILE}", ACID_VERSION)
    return len(text)


def _state(fs: Filesystem, place: str, write_ids: ValidWriteIdList, txns: ValidTxnList) -> AcidState:
    listing = fs.list_files(place, recursive=True)
    found = [FileEntry(f"{i.relative}/" if i.is_dir else i.relative, i.size) for i in listing]
    return acid_state(found, write_ids, txns)


def _visible(fs: Filesystem, place: str, state: AcidState, write_ids: ValidWriteIdList) -> set[Row]:
    rows = _rows(fs, place, state.inserts, write_ids)
    return set(rows) - {row for _, row in _events(fs, place, state, write_ids)}


def _rows(fs: Filesystem, place: str, found: Iterable[StateDirectory], write_ids: ValidWriteIdList) -> list[Row]:
    rows = [
        (int(write_id), int(number))
        for directory in found
        for write_id, number in _content(fs, place, directory)
        if not directory.needs_row_check or write_ids.is_valid(int(write_id))
    ]
    assert len(rows) == len(set(rows)), f"rows are seen twice in {place}"
    return rows


def _events(fs: Filesystem, place: str, state: AcidState, write_ids: ValidWriteIdList) -> set[tuple[int, Row]]:
    return {
        (int(write_id), (int(row[0]), int(row[1])))
        for directory in state.deletes
        for write_id, row in _content(fs, place, directory)
        if not directory.needs_row_check or write_ids.is_valid(int(write_id))
    }


def _content(fs: Filesystem, place: str, directory: StateDirectory) -> list[tuple[int, list[int]]]:
    data = [file for file, _ in directory.bucket_files()]
    return [item for file in data for item in json.loads(fs.read_text(f"{place}/{file.path}"))]
