"""Tables whose rows are lines of text: what maintenance decides does not depend on what is in the files.

``FakeTable`` writes directories as a Spark job would and commits them through the metastore; ``compact_lines`` stands
for the Spark job of a compaction. Snapshots read the lines back through the same rules as real readers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.filesystem import Filesystem, open_filesystem
from airflow_hive_acid.format.acid_state import FileEntry, acid_state
from airflow_hive_acid.format.jobs import Column, Compact, JobResult, JobSpec, WrittenDirectory, WrittenFile
from airflow_hive_acid.format.names import base_name, delete_delta_name, delta_name
from airflow_hive_acid.format.write_ids import ValidTxnList, ValidWriteIdList
from airflow_hive_acid.maintenance import run_worker
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.txns.history import low_boundary
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.format.acid_state import AcidState
    from airflow_hive_acid.metastore import ReaderSnapshot, Transaction

FAST = {"hive.txn.opentxn.timeout": "150ms", "hive.compactor.delta.num.threshold": "3"}


@pytest.fixture
def settings() -> dict[str, str]:
    """Settings of the client; tests add their own before they use it."""
    return dict(FAST)


@pytest.fixture
def client(metastore_url: str, settings: dict[str, str], warehouse: str) -> Iterator[MetastoreClient]:
    """A client whose young txns grow old quickly and for whom 4 deltas are many, on a metastore with a warehouse."""
    with MetastoreClient(metastore_url, Settings({Source.CONNECTION: settings}), user="ann", host="host1") as client:
        client.catalog.set_warehouse(warehouse)
        yield client


@pytest.fixture
def fs(warehouse: str) -> Filesystem:
    return open_filesystem(warehouse)


@dataclass
class FakeTable:
    """A transactional table of lines."""

    client: MetastoreClient
    fs: Filesystem
    name: str
    partitioned: bool

    @property
    def location(self) -> str:
        return self.client.catalog.get_table(self.name).location

    def place(self, partition: str | None) -> str:
        return self.location if partition is None else f"{self.location}/{partition}"

    def begin(self, operation: str = "insert") -> Transaction:
        return self.client.begin({self.name: operation}, partitioned=[self.name] if self.partitioned else [])

    def put(self, txn: Transaction, lines: int, partition: str | None = None, *, deletes: bool = False) -> str:
        """Write a directory of an open txn; returns its URI."""
        write_id = txn.write_ids[self.name]
        statement = txn.next_statement_id(self.name)
        make = delete_delta_name if deletes else delta_name
        return self.directory(make(write_id, write_id, statement), lines, partition)

    def directory(self, name: str, lines: int = 1, partition: str | None = None) -> str:
        uri = f"{self.place(partition)}/{name}"
        self.fs.make_directory(uri)
        self.fs.write_text(f"{uri}/bucket_00000", "".join(f"{name}:{i}\n" for i in range(lines)))
        self.fs.write_text(f"{uri}/_orc_acid_version", "2")
        return uri

    def insert(self, lines: int = 1, partition: str | None = None) -> int:
        """Commit a delta; returns its write id."""
        with self.begin() as txn:
            self.put(txn, lines, partition)
            if partition is not None:
                txn.add_partitions(self.name, [partition])
                self.client.catalog.add_partitions(self.name, [partition])
        return txn.write_ids[self.name]

    def delete(self, lines: int = 1, partition: str | None = None) -> int:
        """Commit a delete delta; returns its write id."""
        with self.begin("delete") as txn:
            self.put(txn, lines, partition, deletes=True)
            if partition is not None:
                txn.add_partitions(self.name, [partition])
        return txn.write_ids[self.name]

    def abort(self, lines: int = 1, partition: str | None = None) -> int:
        """Write a delta and abort; returns its write id."""
        txn = self.begin()
        self.put(txn, lines, partition)
        if partition is not None:
            self.client.add_partitions(txn.txn_id, self.name, [partition])
            self.client.catalog.add_partitions(self.name, [partition])
        txn.abort("a test")
        return txn.write_ids[self.name]

    def directories(self, partition: str | None = None) -> list[str]:
        """Names of the directories of the table or partition, staging and fences included."""
        return [info.name for info in self.fs.list_files(self.place(partition)) if "=" not in info.name]

    def read(self, snapshot: ReaderSnapshot, partition: str | None = None) -> list[str]:
        """The lines a snapshot sees, from the files themselves."""
        place = self.place(partition)
        state = _state(self.fs, place, snapshot.snapshot[self.name], snapshot.valid_txns)
        return sorted(line for kept in state.inserts for line in _lines(self.fs, place, kept.files))

    def settle(self) -> None:
        """Wait until every txn so far is older than the open time-out."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with self.client.database.reading() as connection:
                newest = max(connection.execute(TXNS.select().with_only_columns(TXNS.c.TXN_ID)).scalars())
                if low_boundary(connection, self.client.gap_timeout_ms) >= newest:
                    return
            time.sleep(0.02)
        raise TimeoutError("the database's clock stands still")


@pytest.fixture
def make_table(client: MetastoreClient, fs: Filesystem) -> Callable[..., FakeTable]:
    """Create a table: ``make_table("default.t", "p")``."""

    def make(name: str = "default.t", *keys: str, properties: dict[str, str] | None = None) -> FakeTable:
        database, table = name.split(".")
        client.catalog.create_database(database, if_not_exists=True)
        made = client.catalog.create_table(TableDefinition(
            database, table, (Column("line", "string"),), tuple(Column(key, "string") for key in keys),
            properties=properties or {},
        ))  # fmt: skip
        fs.make_directory(made.location)
        return FakeTable(client, fs, name, bool(keys))

    return make


@pytest.fixture
def table(make_table: Callable[..., FakeTable]) -> FakeTable:
    """An unpartitioned table ``default.t``."""
    return make_table()


@pytest.fixture
def compact_lines(fs: Filesystem) -> Callable[[JobSpec], JobResult]:
    """The job of a compaction: reads what the spec's lists see, writes staging, reports."""

    def run(spec: JobSpec) -> JobResult:
        step = spec.step
        assert isinstance(step, Compact)
        assert spec.staging is not None
        partition = step.target.partitions[0]
        write_ids = ValidWriteIdList.parse(step.target.write_ids).for_compactor()
        state = _state(fs, partition.location, write_ids, ValidTxnList.parse(step.target.txns))
        high, txn = write_ids.high_watermark, step.visibility_txn_id
        state = replace(state, deltas=tuple(d for d in state.deltas if d.directory.min_write_id > step.above))
        if step.type == "major":
            outputs = {base_name(high, txn): [f for d in state.inserts for f in d.files]}
        else:
            low = min(d.directory.min_write_id for d in state.deltas)
            rows = [f for d in state.deltas for f in d.files if d.name.startswith("delta")]
            deletes = [f for d in state.deltas for f in d.files if d.name.startswith("delete")]
            outputs = {delta_name(low, high, None, txn): rows, delete_delta_name(low, high, None, txn): deletes}
        written = []
        for name, sources in outputs.items():
            lines = _lines(fs, partition.location, tuple(sources))
            if not lines and step.type == "minor":
                continue
            text = "".join(f"{line}\n" for line in sorted(lines))
            prefix = f"{partition.name}/" if partition.name else ""
            uri = f"{spec.staging}/data/{prefix}{name}"
            fs.make_directory(uri)
            fs.write_text(f"{uri}/bucket_00000", text)
            fs.write_text(f"{uri}/_orc_acid_version", "2")
            files = (WrittenFile("bucket_00000", len(lines), len(text)),)
            written.append(WrittenDirectory(partition.name, partition.values, name, files))
        return JobResult(spec.job_id, "application_1", directories=tuple(written))

    return run


def _state(fs: Filesystem, place: str, write_ids: ValidWriteIdList, txns: ValidTxnList) -> AcidState:
    listing = fs.list_files(place, recursive=True)
    return acid_state(
        [FileEntry(f"{i.relative}/" if i.is_dir else i.relative, i.size) for i in listing], write_ids, txns
    )


def _lines(fs: Filesystem, place: str, files: tuple[FileEntry, ...]) -> list[str]:
    data = [file for file in files if "bucket_" in file.path]
    return [line for file in data for line in fs.read_text(f"{place}/{file.path}").splitlines()]


@pytest.fixture
def compacted(
    client: MetastoreClient, fs: Filesystem, table: FakeTable, compact_lines: Callable[[JobSpec], JobResult]
) -> FakeTable:
    """The table after two inserts and a major compaction, not cleaned yet; ``base`` is the new base."""
    table.insert(lines=2)
    table.insert(lines=2)
    client.compactions.enqueue("default.t")
    table.base = run_worker(client, fs, compact_lines, "w")[0].directories[0]
    return table


@pytest.fixture
def asked(client: MetastoreClient, table: FakeTable) -> FakeTable:
    """A table of two deltas of two lines whose compaction is asked for."""
    table.insert(lines=2)
    table.insert(lines=2)
    assert client.compactions.enqueue("default.t").accepted
    return table
