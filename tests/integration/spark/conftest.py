"""A table that Spark jobs write and tests publish by hand: what the engine and the metastore do, without either."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.format.jobs import (
    Assignment,
    Bucketing,
    Column,
    Compact,
    Delete,
    Insert,
    JobResult,
    JobSpec,
    Merge,
    MergeClause,
    PartitionRef,
    Source,
    TableSnapshot,
    Update,
    View,
)
from airflow_hive_acid.format.partitions import parse_partition_name
from airflow_hive_acid.spark.jobs.run import run_step
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession


@dataclass
class AcidTable:
    """One table: its directory, its write ids, and every kind of statement about it."""

    spark: SparkSession
    root: Path
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    name: str = "db.t"
    bucketing: Bucketing | None = None
    high: int = 0
    aborted: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    partitions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    txn: int = 100
    _views: Any = field(default_factory=lambda: itertools.count(1))

    def snapshot(self, own: int | None = None, **changes: Any) -> TableSnapshot:
        """The table as a reader sees it; ``own`` is the write id of the reader's own txn."""
        high = max(self.high, own or 0)
        hidden = self.open - {own}
        lists = ",".join(map(str, sorted(hidden))), ",".join(map(str, sorted(self.aborted)))
        low = min(hidden) if hidden else 2**63 - 1
        if self.partition_columns:
            refs = tuple(PartitionRef(n, f"{self.location}/{n}", v) for n, v in self.partitions.items())
        else:
            refs = (PartitionRef("", self.location),)
        values: dict[str, Any] = {
            "table": self.name,
            "location": self.location,
            "columns": self.columns,
            "partition_columns": self.partition_columns,
            "partitions": refs,
            "write_ids": f"{self.name}:{high}:{low}:{lists[0]}:{lists[1]}",
            "txns": f"{self.txn}:{2**63 - 1}::",
            "properties": self.properties,
            "bucketing": self.bucketing,
        }
        return TableSnapshot(**(values | changes))

    @property
    def location(self) -> str:
        return f"file://{self.root}"

    def run(self, step: Any, views: Iterable[View] = (), sources: Iterable[Source] = (), **conf: str) -> JobResult:
        """Run a step in staging; nothing is published."""
        job_id = str(uuid.uuid4())
        spec = JobSpec(job_id, step, tuple(views), tuple(sources), f"{self.location}/_tmp_{job_id}", dict(conf))
        return run_step(self.spark, spec)

    def publish(self, result: JobResult) -> JobResult:
        """Move what a job wrote to its final places."""
        staging = self.root / f"_tmp_{result.job_id}" / "data"
        for directory in result.directories:
            source = staging / directory.partition / directory.name
            target = self.root / directory.partition / directory.name
            assert not target.exists()
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
            if self.partition_columns:
                self.partitions[directory.partition] = directory.values
        shutil.rmtree(self.root / f"_tmp_{result.job_id}", ignore_errors=True)
        return result

    def next_write_id(self) -> int:
        self.high += 1
        return self.high

    def insert(self, query: str, write_id: int | None = None, statement: int = 0, **more: Any) -> JobResult:
        own = write_id or self.next_write_id()
        views, sources = more.pop("views", ()), more.pop("sources", ())
        step = Insert(self.snapshot(own), query, own, statement, **more)
        return self.publish(self.run(step, views, sources))

    def update(
        self, where: str | None, write_id: int | None = None, statements: tuple[int, int] = (0, 1), **values: str
    ) -> JobResult:
        own = write_id or self.next_write_id()
        assignments = tuple(Assignment(c, e) for c, e in values.items())
        return self.publish(self.run(Update(self.snapshot(own), "t", assignments, where, own, *statements)))

    def delete(self, where: str | None, write_id: int | None = None, statement: int = 0) -> JobResult:
        own = write_id or self.next_write_id()
        return self.publish(self.run(Delete(self.snapshot(own), "t", where, own, statement)))

    def merge(
        self, source: str, on: str, *clauses: MergeClause, write_id: int | None = None, pairs: Any = ()
    ) -> JobResult:
        own = write_id or self.next_write_id()
        third = None if self.bucketing is None else 2
        return self.publish(self.run(Merge(self.snapshot(own), "t", source, "s", on, clauses, own, 0, 1, third, pairs)))

    def compact(self, kind: str, partition: str = "", **more: Any) -> JobResult:
        self.txn += 1
        target = self.snapshot(partitions=tuple(p for p in self.snapshot().partitions if p.name == partition))
        return self.publish(self.run(Compact(target, kind, self.txn, **more)))  # type: ignore[arg-type]

    def frame(self, row_ids: bool = False, own: int | None = None) -> Any:
        return read_snapshot(self.spark.newSession(), self.snapshot(own), row_ids)

    def rows(self, own: int | None = None) -> list[tuple[Any, ...]]:
        """All rows, sorted."""
        return sorted((tuple(r) for r in self.frame(own=own).collect()), key=repr)

    def ids(self) -> dict[tuple[int, int, int, str], tuple[Any, ...]]:
        """All rows by ROW__ID and partition."""
        found = {}
        for row in self.frame(row_ids=True).collect():
            *values, row_id = row
            place = repr(values[len(self.columns) :])
            key = (row_id["writeid"], row_id["bucketid"], row_id["rowid"], place)
            assert key not in found
            found[key] = tuple(values)
        return found

    def directories(self, partition: str = "") -> list[str]:
        """Names of the ACID directories, without those of the catalog."""
        return sorted(p.name for p in (self.root / partition).iterdir() if p.is_dir() and "=" not in p.name)

    def files(self) -> dict[str, list[str]]:
        """All visible data files by directory."""
        found: dict[str, list[str]] = {}
        for path in sorted(self.root.rglob("bucket_*")):
            found.setdefault(str(path.parent.relative_to(self.root)), []).append(path.name)
        return found


@pytest.fixture
def acid_table(spark: SparkSession, tmp_path: Path) -> Callable[..., AcidTable]:
    """Make an empty table: ``acid_table("id int, name string", partitioned_by="ds string")``."""

    def make(columns: str, partitioned_by: str = "", **properties: str) -> AcidTable:
        root = tmp_path / f"t{len(list(tmp_path.iterdir()))}"
        root.mkdir()
        return AcidTable(spark, root, parse_columns(columns), parse_columns(partitioned_by), properties)

    return make


@pytest.fixture(scope="module")
def _begun(tmp_path_factory: pytest.TempPathFactory) -> dict[Any, AcidTable]:
    return {}


@pytest.fixture
def begun(
    acid_table: Callable[..., AcidTable],
    _begun: dict[Any, AcidTable],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Callable[..., AcidTable]], AcidTable]:
    """The table that a function leaves, which is given ``acid_table``: made once for a module, each test has a copy."""

    def copy(make: Callable[..., AcidTable]) -> AcidTable:
        if make not in _begun:
            made = make(acid_table)
            kept = tmp_path_factory.mktemp("begun") / "t"
            shutil.move(made.root, kept)
            _begun[make] = replace(made, root=kept)
        first = _begun[make]
        root = tmp_path / f"t{len(list(tmp_path.iterdir()))}"
        shutil.copytree(first.root, root)
        own = {"aborted": set(first.aborted), "open": set(first.open), "partitions": dict(first.partitions)}
        return replace(first, root=root, **own)

    return copy


def parse_columns(text: str) -> tuple[Column, ...]:
    """Columns from ``name type, …``; commas inside types are followed by no blank."""
    return tuple(Column(*part.strip().split(" ", 1)) for part in text.split(", ") if part.strip())


@pytest.fixture
def golden_snapshot() -> Callable[..., TableSnapshot]:
    """What Hive's own reader saw of a recorded table: ``golden_snapshot(stage directory, table, root=None)``."""

    def snapshot_of(stage: Path, table: str, root: Path | None = None, **changes: str) -> TableSnapshot:
        root = root or next(iter(stage.glob(f"tree*/{table}")))
        expected = json.loads((stage / f"expected_{table}.json").read_text())
        lists = json.loads((stage / "snapshot.json").read_text())
        keys = golden_partition_columns(stage, table)
        names = {k.name for k in keys}
        data = [Column(n.rpartition(".")[2], kind) for n, kind in expected["columns"] if "__" not in n]
        partitions: tuple[PartitionRef, ...] = (PartitionRef("", f"file:{root}"),)
        if keys:
            below = sorted(str(p.relative_to(root)) for p in root.glob("/".join(["*=*"] * len(keys))))
            partitions = tuple(
                PartitionRef(n, f"file:{root}/{n}", tuple(v for _, v in parse_partition_name(n))) for n in below
            )
        values: dict[str, Any] = {
            "table": f"default.{table}",
            "location": f"file:{root}",
            "columns": tuple(c for c in data if c.name not in names),
            "partition_columns": keys,
            "partitions": partitions,
            "write_ids": lists.get(table, {}).get("reader_write_ids", ""),
            "txns": lists["valid_txn_list"],
        }
        return TableSnapshot(**(values | changes))

    return snapshot_of


def golden_partition_columns(stage: Path, table: str) -> tuple[Column, ...]:
    """From the recorded metastore: PARTITION_KEYS of the table."""
    sql = (stage / "metastore.sql").read_text()
    tables = re.findall(r"""INTO public."TBLS".*?VALUES \((\d+), .*?'(\w+)', '(?:MANAGED|EXTERNAL)_TABLE'""", sql)
    number = next(n for n, name in tables if name == table)
    keys = re.findall(r"""INTO public."PARTITION_KEYS".*?VALUES \((\d+), \w+, '(\w+)', '([^']+)', (\d+)\)""", sql)
    return tuple(
        Column(name, kind) for owner, name, kind, _ in sorted(keys, key=lambda k: int(k[3])) if owner == number
    )
