"""Replication and transaction batches: what travels of a file that is being written is what was committed of it."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import ConfigurationError, CorruptTableError
from airflow_hive_acid.format.jobs import Compact, JobResult, WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import delta_name
from airflow_hive_acid.replication.acid.sync import sync_tables
from airflow_hive_acid.replication.dumps.dump import Scope, read_dump
from airflow_hive_acid.replication.dumps.exports import export_table
from airflow_hive_acid.replication.dumps.imports import import_table
from tests.integration.maintenance.cycles.steps import forget_what_has_ended
from tests.integration.replication.acid_world import T, create, listing, path_of, rows, write

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_hive_acid.format.jobs import JobSpec
    from airflow_hive_acid.replication.site import Site

BUCKET = "bucket_00000"


class Batch:
    """Write ids 1, 2, … of a table and one open file for all, as a streaming client leaves them."""

    def __init__(self, site: Site, size: int) -> None:
        self.site = site
        self.txns = site.client.open_txns(size)
        given = site.client.allocate_write_ids(T, self.txns)
        self.ids = {write_id: txn for txn, write_id in given.items()}
        self.low, self.high = min(self.ids), max(self.ids)
        self.path = path_of(site.client.catalog.get_table(T).location) / delta_name(self.low, self.high)
        self.path.mkdir()
        (self.path / "_orc_acid_version").write_text("2")
        self.lengths: list[int] = []

    @property
    def file(self) -> Path:
        return self.path / BUCKET

    @property
    def side(self) -> Path:
        return self.path / f"{BUCKET}_flush_length"

    def append(self, write_id: int, text: str) -> None:
        with self.file.open("a") as file:
            file.write(f"{write_id}:{text}\n")

    def flush(self) -> None:
        self.lengths.append(self.file.stat().st_size)
        self.side.write_bytes(struct.pack(f">{len(self.lengths)}q", *self.lengths))

    def commit(self, write_id: int, text: str | None = None) -> None:
        if text is not None:
            self.append(write_id, text)
            self.flush()
        self.site.client.commit_txn(self.ids[write_id])

    def abort(self, write_id: int) -> None:
        self.site.client.abort_txns([self.ids[write_id]])


def carrier(site: Site, jobs: list[JobSpec]) -> Site:
    """A site whose Spark does what the compaction job does: rows of valid ids, of files as far as they are flushed."""

    def run(spec: JobSpec) -> JobResult:
        from airflow_hive_acid.format.acid_state import acid_state
        from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList

        jobs.append(spec)
        step = spec.step
        assert isinstance(step, Compact)
        place, ids = path_of(step.target.partitions[0].location), ValidWriteIdList.parse(step.target.write_ids)
        state = acid_state(listing(place), ids, ValidTxnList.parse(step.target.txns))
        found: list[str] = []
        for directory in state.inserts:
            content, side = (
                (place / directory.name / BUCKET).read_bytes(),
                place / directory.name / f"{BUCKET}_flush_length",
            )
            if side.exists():
                content = content[: struct.unpack(">q", side.read_bytes()[-8:])[0]]
            found += [x for x in content.decode().splitlines() if ids.is_valid(int(x.split(":")[0]))]
        name = delta_name(step.above + 1, ids.high_watermark, None, step.visibility_txn_id)
        where = path_of(str(spec.staging)) / "data" / name
        where.mkdir(parents=True)
        text = "\n".join(found)
        (where / BUCKET).write_text(text)
        written = WrittenDirectory("", (), name, (WrittenFile(BUCKET, len(found), len(text)),))
        return JobResult(spec.job_id, "application", directories=(written,))

    return replace(site, run_job=run)


@pytest.mark.backends("sqlite")
@pytest.mark.rule("R18")
def test_of_an_open_batch_the_committed_rows_travel_and_later_the_rest(primary: Site, replica: Site) -> None:
    """Write ids 1 to 6: 1 is the anchor, 2 committed, 3 aborted with rows in the file, 4 open with rows."""
    create(primary)
    batch = Batch(primary, 6)
    batch.commit(2, "two")
    batch.append(3, "three")
    batch.flush()
    batch.abort(3)
    batch.append(4, "four")
    batch.flush()
    batch.append(5, "five is not flushed yet")
    with pytest.raises(ConfigurationError, match="Spark"):
        sync_tables(primary, replica, "p", [T])
    jobs: list[JobSpec] = []
    target = carrier(replica, jobs)
    report = sync_tables(primary, target, "p", [T]).tables[0]
    assert (report.files, report.carried) == (0, 1)  # never the file itself
    assert rows(replica) == {"": {"2:two"}}
    assert sync_tables(primary, target, "p", [T]).tables[0].directories == 0
    batch.commit(4)
    sync_tables(primary, target, "p", [T])
    assert rows(replica) == {"": {"2:two", "4:four"}}
    batch.flush()
    batch.commit(5)
    batch.commit(6)
    batch.commit(1)
    batch.side.unlink()
    written = write(primary, "later")
    sync_tables(primary, target, "p", [T])
    assert rows(replica) == {"": {"2:two", "4:four", "5:five is not flushed yet", f"{written}:later"}}
    assert len(jobs) == 4  # one for each row of ids that no other interrupts, not for each id: 2, 4, 1, and 5 with 6
    there = path_of(replica.client.catalog.get_table(T).location)
    assert not [entry.path for entry in listing(there) if "flush_length" in entry.path]


@pytest.mark.backends("sqlite")
def test_of_a_file_that_was_never_closed_the_flushed_part_is_copied(primary: Site, replica: Site) -> None:
    """All txns have ended, but the writer has not closed the file, or never will: it may still grow, and travels whole
    up to the last flush, without Spark and without its side file."""
    create(primary)
    batch = Batch(primary, 2)
    batch.commit(1, "one")
    batch.commit(2, "two")
    batch.append(2, "half a foot")
    report = sync_tables(primary, replica, "p", [T]).tables[0]
    assert (report.files, report.carried, report.bytes) == (2, 0, batch.lengths[-1] + 1)
    assert rows(replica) == {"": {"1:one", "2:two"}}
    assert sync_tables(primary, replica, "p", [T]).tables[0].directories == 0
    batch.side.write_bytes(struct.pack(">q", 1 << 30))
    with pytest.raises(CorruptTableError, match="rows of committed transactions are missing"):
        export_table(primary, T, f"{batch.path.parent.parent}/dump")


@pytest.mark.backends("sqlite")
def test_an_export_has_the_flushed_part_of_open_files(primary: Site, replica: Site, tmp_path, monkeypatch) -> None:
    """A batch works on while it is exported: its file grows between the listing and the copy, and after it."""
    create(primary)
    batch = Batch(primary, 4)
    batch.commit(2, "two")
    batch.append(3, "open")
    batch.flush()
    expected = batch.file.read_bytes()
    real = primary.filesystem.open_input

    def growing(uri: str):
        batch.append(4, "more and more")
        batch.flush()
        return real(uri)

    monkeypatch.setattr(type(primary.filesystem), "open_input", lambda _self, uri: growing(uri))
    export_table(primary, T, f"{tmp_path}/dump", scope=Scope.ALL)
    monkeypatch.undo()
    dump = read_dump(primary.filesystem, f"{tmp_path}/dump")
    assert sorted(f.place.rpartition("/")[2] for f in dump.files) == ["_orc_acid_version", BUCKET]
    assert (tmp_path / "dump/data" / batch.path.name / BUCKET).read_bytes() == expected
    import_table(replica, f"{tmp_path}/dump")
    assert rows(replica) == {"": {"2:two"}}


@pytest.mark.backends("sqlite")
def test_rows_of_aborted_txns_in_a_batch_stay_hidden_in_a_table_that_was_imported(
    primary: Site, replica: Site, tmp_path: Path
) -> None:
    """Their write ids are remembered until a compaction has taken them out: what is forgotten is valid."""
    create(primary)
    batch = Batch(primary, 4)
    batch.commit(2, "two")
    batch.append(3, "three")
    batch.append(4, "four is open")
    batch.flush()
    batch.abort(3)
    export_table(primary, T, f"{tmp_path}/dump")
    import_table(replica, f"{tmp_path}/dump")
    assert rows(replica) == {"": {"2:two"}}
    forget_what_has_ended(replica.client)
    assert rows(replica) == {"": {"2:two"}}
