"""The benchmark table: ten columns as plain ORC and as an ACID table, and a session to measure in."""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.applications.spark_conf import accelerator_jar
from airflow_hive_acid.engine.applications.spark_version import spark_of_python
from airflow_hive_acid.format.jobs import Column, Insert, JobResult, JobSpec, PartitionRef, Source, TableSnapshot
from airflow_hive_acid.spark.jobs.run import run_step
from airflow_hive_acid.spark.session import session_builder

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    Column("id", "bigint"),
    Column("k", "int"),
    Column("grp", "string"),
    Column("name", "string"),
    Column("amt", "decimal(12,2)"),
    Column("ts", "timestamp"),
    Column("dt", "date"),
    Column("x", "double"),
    Column("q", "smallint"),
    Column("b", "boolean"),
)
AGGREGATE = (
    "sum(id)", "sum(k)", "sum(length(grp))", "sum(length(name))", "sum(amt)", "max(ts)", "max(dt)", "sum(x)",
    "sum(q)", "sum(cast(b as int))",
)  # fmt: skip
FILES = 8


def session(cores: int, memory: str = "5g") -> SparkSession:
    """A local session with an ordinary JIT compiler, room for the table, and the optional jar if it was built."""
    jar = accelerator_jar("auto", spark_of_python())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        session_builder(f"local[{cores}]", "benchmark")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.driver.memory", memory)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config(map={} if jar is None else {"spark.jars": str(jar)})
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def generated(spark: SparkSession, rows: int) -> DataFrame:
    """Reproducible rows of all common types."""
    return spark.range(0, rows, 1, FILES).selectExpr(
        "id",
        "cast(pmod(xxhash64(id), 1000000) as int) as k",
        "concat('g', cast(pmod(xxhash64(id, 1), 50) as int)) as grp",
        "substring(md5(cast(id as string)), 1, 16) as name",
        "cast(pmod(xxhash64(id, 2), 100000000) / 100 as decimal(12,2)) as amt",
        "timestamp_seconds(1500000000 + pmod(xxhash64(id, 3), 200000000)) as ts",
        "date_add(date'2015-01-01', cast(pmod(xxhash64(id, 4), 3650) as int)) as dt",
        "cast(pmod(xxhash64(id, 5), 1000003) / 7 as double) as x",
        "cast(pmod(xxhash64(id, 6), 1000) as smallint) as q",
        "pmod(xxhash64(id, 7), 2) = 0 as b",
    )


@dataclass
class BenchTable:
    """An ACID table without a metastore: jobs write to staging, ``publish`` moves what they wrote.

    :param codec: table property ``orc.compress``; None: none, so that Hive's default counts.
    """

    spark: SparkSession
    root: Path
    high: int = 0
    insert_only: bool = False
    codec: str | None = None

    def snapshot(self, write_id: int | None = None, txn: int = 1) -> TableSnapshot:
        """The table with everything published so far, and the write id of the statement at hand."""
        location = f"file:{self.root}"
        none_open = 2**63 - 1
        return TableSnapshot(
            "bench.t",
            location,
            COLUMNS,
            (),
            (PartitionRef("", location),),
            f"bench.t:{write_id or self.high}:{none_open}::",
            f"{txn}:{none_open}::",
            properties={} if self.codec is None else {"orc.compress": self.codec},
            insert_only=self.insert_only,
            altered=False,
        )

    def run(self, step: Any, *sources: Source, **conf: str) -> JobResult:
        """One job; what it writes stays in staging."""
        job_id = str(uuid.uuid4())
        return run_step(self.spark, JobSpec(job_id, step, (), sources, f"file:{self.root}/_tmp_{job_id}", conf))

    def discard(self, result: JobResult) -> JobResult:
        """Remove what a job wrote."""
        shutil.rmtree(self.root / f"_tmp_{result.job_id}")
        return result

    def publish(self, result: JobResult) -> JobResult:
        """Make what a job wrote part of the table."""
        for directory in result.directories:
            staged = self.root / f"_tmp_{result.job_id}" / "data" / directory.name
            staged.rename(self.root / directory.name)
        self.high += 1
        return self.discard(result)

    def copy(self, root: Path) -> BenchTable:
        """The same table elsewhere; files are hard links."""
        shutil.copytree(self.root, root, copy_function=os.link)
        return BenchTable(self.spark, root, self.high, self.insert_only, self.codec)


def write_plain(rows: DataFrame, path: Path) -> None:
    """The same rows by Spark's own ORC source, with Hive's codec."""
    rows.write.mode("overwrite").option("compression", "zlib").orc(str(path))


def build(spark: SparkSession, directory: Path, rows: int) -> tuple[Path, BenchTable]:
    """Both tables, of the same rows in the same number of files."""
    plain = directory / "plain"
    write_plain(generated(spark, rows), plain)
    table = BenchTable(spark, directory / "acid")
    table.root.mkdir()
    table.publish(table.run(Insert(table.snapshot(1), "select * from p", 1, 0), plain_source(plain)))
    return plain, table


def plain_source(plain: Path) -> Source:
    """The plain table as a source of a job."""
    return Source("p", "orc", {"path": str(plain)})
