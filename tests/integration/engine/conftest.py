"""Engines without Spark: a launcher whose jobs write well-formed directories with made-up contents."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.applications.spool import error_of
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.format.jobs import (
    Column,
    Delete,
    Export,
    Insert,
    JobError,
    JobResult,
    Merge,
    Select,
    Update,
    WrittenDirectory,
    WrittenFile,
)
from airflow_hive_acid.format.names import (
    PLAIN_FILES,
    base_name,
    bucket_file_name,
    delete_delta_name,
    delta_name,
    original_file_name,
    unique_file_name,
)
from airflow_hive_acid.format.partitions import partition_name
from tests.prepared import prepare


class FakeSpark:
    """A launcher and its application in one.

    :ivar specs: what was run.
    :ivar meanwhile: called with each spec while it runs; may return a result of its own.
    :ivar partitions: values of the partitions that a write without static partition touches.
    """

    def __init__(self):
        self.specs = []
        self.starts = 0
        self.meanwhile = None
        self.partitions = []
        self.answer = []
        self.is_alive = False
        self.application_id = None

    def start(self, application=None):
        self.starts += 1
        self.is_alive = True
        self.application_id = f"fake-{self.starts}"
        return self

    def wait_ready(self):
        return self.application_id

    def rows_uri(self, job_id):
        return f"memory:/{job_id}"

    def read_rows(self, uri):
        return iter(self.answer)

    def cancel(self):
        self.is_alive = False

    def close(self):
        self.is_alive = False

    def run(self, spec):
        self.specs.append(spec)
        result = self.meanwhile(spec) if self.meanwhile is not None else None
        if not self.is_alive:
            raise JobFailedError("the Spark application was cancelled while it ran a step")
        result = result or self.work(spec)
        if result.error is not None:
            raise error_of(result.error)
        return result

    def work(self, spec):
        """Do what a job does: write below staging, report."""
        step, write = spec.step, spec.step
        match step:
            case Insert() if not step.target.transactional:
                names = [PLAIN_FILES]
            case Select():
                columns = tuple(Column(f"c{i}", "int") for i in range(len(self.answer[0]) if self.answer else 1))
                return JobResult(spec.job_id, self.application_id, columns=columns, rows=len(self.answer))
            case Export():
                Path(step.uri.removeprefix("file:")).mkdir(parents=True)
                self.answer = [[0]]
                return JobResult(spec.job_id, self.application_id, columns=(Column("rows", "bigint"),), rows=1)
            case Insert(overwrite=True):
                names = [base_name(write.write_id)]
            case Insert():
                names = [delta_name(write.write_id, write.write_id, write.statement_id)]
            case Delete():
                names = [delete_delta_name(write.write_id, write.write_id, write.statement_id)]
            case Update() | Merge():
                names = [
                    delete_delta_name(write.write_id, write.write_id, write.delete_statement_id),
                    delta_name(write.write_id, write.write_id, write.insert_statement_id),
                ]
        keys = [c.name for c in step.target.partition_columns]
        static = tuple(v for _, v in step.static_partition) if isinstance(step, Insert) else ()
        touched = [static] if len(static) == len(keys) else self.partitions
        moves = isinstance(step, Update) and any(a.column in keys for a in step.assignments)
        directories = []
        for number, values in enumerate(touched):
            partition = partition_name(zip(keys, values, strict=True)) if keys else ""
            # A row that moves is deleted in the first partition and inserted in the others.
            written = names[number > 0 :][:1] if moves else names
            directories += [self.write(spec, partition, tuple(values), name) for name in written]
        return JobResult(spec.job_id, self.application_id, directories=tuple(directories), inserted=len(directories))

    def fail(self, kind, message):
        """Let the next steps fail with an error of this class."""
        self.meanwhile = lambda spec: JobResult(spec.job_id, "fake-1", error=JobError(kind, message))

    def write(self, spec, partition, values, name):
        """One directory with one bucket file."""
        path = Path(spec.staging.removeprefix("file:")) / "data" / partition / name
        path.mkdir(parents=True)
        if not spec.step.target.has_row_ids:
            file = original_file_name(0)
            if name == PLAIN_FILES:
                file = unique_file_name(0, spec.step.statement_id, spec.step.write_id)
            (path / file).write_text("rows")
            return WrittenDirectory(partition, values, name, (WrittenFile(file, 1, 4),))
        (path / "_orc_acid_version").write_text("2")
        file = bucket_file_name(getattr(spec.step, "bucket_offset", 0))
        (path / file).write_text("rows")
        return WrittenDirectory(partition, values, name, (WrittenFile(file, 1, 4),))


TABLES = (
    "CREATE DATABASE w;"
    "CREATE TABLE w.t (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true');"
    "CREATE TABLE w.p (a INT) PARTITIONED BY (k STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
)


@pytest.fixture
def fake():
    """Takes the place of Spark."""
    return FakeSpark()


@pytest.fixture
def events():
    """What the engine told."""
    return []


@pytest.fixture
def engine(client, fake, warehouse, events):
    """An engine on a fresh metastore with the database w and the tables t (plain) and p (partitioned by k)."""
    client.catalog.set_warehouse(warehouse)
    with Engine(client, fake, warehouse, on_event=events.append, agent_info="tests") as engine:
        prepare(client, warehouse, TABLES, lambda: engine.run(TABLES))
        events.clear()
        yield engine


@pytest.fixture
def other(client, fake, warehouse):
    """A second engine on the same metastore."""
    second = FakeSpark()
    with Engine(client, second, warehouse, agent_info="other") as engine:
        engine.fake = second
        yield engine


@pytest.fixture
def listing(client):
    """Lists a table's directory: names of directories and files, side files left out."""

    def of(table):
        root = Path(client.catalog.get_table(table).location.removeprefix("file:").replace("///", "/"))
        return sorted(
            str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir() or path.name == "bucket_00000"
        )

    return of


@pytest.fixture
def states(engine, client):
    """State of each txn since the tables were made: open, aborted or committed."""
    before = {row.txn_id for row in client.show_transactions(include_committed=True)}

    def of():
        rows = client.show_transactions(include_committed=True)
        return {row.txn_id: row.state.name for row in rows if row.txn_id not in before}

    return of
