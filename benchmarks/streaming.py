"""Micro-batches through the sink, against Spark appending the same ones as plain ORC files.

    python benchmarks/streaming.py [--batches 1000] [--rows 1000] [--slice 100] [--accelerator auto] [--metastore-url …]

One Spark application reads the same files as two Structured Streaming queries, slice by slice in turns, one file a
micro-batch: one query appends plain ORC files, the other one goes through ``hive_acid_sink`` to a server in a process
of its own. After each slice Initiator, Worker and Cleaner run, as they would elsewhere, outside of the measured time
and told beside it. The first slice of each kind warms up. At the end the table is read before and after the last
maintenance, major-compacted, and read again.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psutil

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.engine.applications.spark_conf import accelerator_jar
from airflow_hive_acid.engine.applications.spark_version import spark_of_python
from airflow_hive_acid.engine.streams.server import StreamServer
from airflow_hive_acid.errors import InvalidArgumentsError, JobFailedError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.initiator.initiator import look_once
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.spark.session import session_builder
from airflow_hive_acid.spark.streaming.sink import hive_acid_sink

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

_TABLE = """
CREATE DATABASE w;
CREATE TABLE w.t (id BIGINT, customer BIGINT, name STRING, amount DECIMAL(12,2), at TIMESTAMP) STORED AS ORC
TBLPROPERTIES ('transactional'='true')
"""


@dataclass
class Slice:
    """What a slice of micro-batches took.

    :param batches: seconds of each micro-batch from the start of one to the start of the next.
    """

    wall: float
    cpu: float
    inside: list[float]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--slice", type=int, default=100)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--accelerator", default="auto")
    parser.add_argument("--metastore-url")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    root = Path(arguments.serve or tempfile.mkdtemp(prefix="hive-acid-streaming-"))
    url = arguments.metastore_url or f"sqlite:///{root}/metastore.db"
    if arguments.serve:
        serve(root, url)
        return
    try:
        measure(root, url, arguments)
    finally:
        shutil.rmtree(root)


def serve(root: Path, url: str) -> None:
    """The process beside the application."""
    with MetastoreClient(url) as client:
        server = StreamServer(client, f"file://{root}/spool", client.settings, "benchmark")
        server.serve(lambda: (root / "over").exists())


def measure(root: Path, url: str, arguments: argparse.Namespace) -> None:
    """Everything."""
    (root / "spool").mkdir()
    client = MetastoreClient(url)
    client.create_schema()
    launcher = SparkSubmitLauncher("local[1]", accelerator=arguments.accelerator, log_directory=root / "logs")
    maintenance = Engine(client, launcher, f"file://{root}/warehouse")
    maintenance.run(_TABLE)
    command = [sys.executable, __file__, "--serve", str(root), "--metastore-url", url]
    server = psutil.Popen(command)
    spark = session(arguments)
    source = make_source(spark, root, arguments)
    sink = hive_acid_sink("w.t", stream="benchmark", spool=f"file://{root}/spool")
    found: dict[str, list[Slice]] = {"plain": [], "acid": []}
    compaction, before, files = 0.0, 0.0, []
    expected = arguments.batches // arguments.slice * arguments.slice * arguments.rows
    try:
        for number in range(arguments.batches // arguments.slice):
            for name, write in (("plain", append(root)), ("acid", sink)):
                for file in source[number * arguments.slice : (number + 1) * arguments.slice]:
                    target = root / "in" / name / file.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.hardlink_to(file)
                found[name].append(run_slice(spark, root, name, write, [psutil.Process(), server]))
                last = found[name][-1]
                print(
                    f"slice {number} {name}: {1000 * last.wall / arguments.slice:.1f} ms and "
                    f"{1000 * last.cpu / arguments.slice:.1f} CPU ms a micro-batch, "
                    f"{1000 * median(last.inside):.1f} ms of it inside foreachBatch",
                    flush=True,
                )
            if number == arguments.batches // arguments.slice - 1:
                before = read(maintenance, "before the last maintenance", expected)
            started = cpu_of([psutil.Process()])
            maintain(maintenance, client)
            compaction += cpu_of([psutil.Process()]) - started
            files.append(sum(1 for p in (root / "warehouse").rglob("bucket_*") if p.is_file()))
        sink.close()
    finally:
        (root / "over").touch()
        server.wait()
        spark.stop()
    report(found, arguments, compaction, files)
    read_cost(maintenance, client, before, expected)
    maintenance.close()
    client.close()


def report(found: dict[str, list[Slice]], arguments: argparse.Namespace, compaction: float, files: list[int]) -> None:
    """Ratios of the slices after the first."""
    kept = {name: slices[1:] or slices for name, slices in found.items()}
    wall = {name: sum(s.wall for s in slices) for name, slices in kept.items()}
    cpu = {name: sum(s.cpu for s in slices) for name, slices in kept.items()}
    count = len(kept["acid"]) * arguments.slice
    print(f"\n| {count} micro-batches of {arguments.rows:,} rows | plain ORC | sink | sink / plain |")
    print("|---|---|---|---|")
    rate = {name: count / wall[name] for name in wall}
    print(f"| micro-batches/s | {rate['plain']:.2f} | {rate['acid']:.2f} | {rate['acid'] / rate['plain']:.2f} |")
    print(f"| CPU s | {cpu['plain']:.1f} | {cpu['acid']:.1f} | {cpu['acid'] / cpu['plain']:.2f} |")
    each = [p.wall / a.wall for p, a in zip(kept["plain"], kept["acid"], strict=True)]
    print(f"\nrate of each slice to its neighbour's: {', '.join(f'{ratio:.2f}' for ratio in each)}")
    print(f"Worker and Cleaner beside it: {compaction:.1f} CPU s; data files after each slice: {files}")


def read(engine: Engine, state: str, expected: int) -> float:
    """Median seconds of reading the whole table."""
    walls = []
    for _ in range(6):
        started = time.perf_counter()
        rows = engine.query("SELECT count(*), sum(amount), max(name), count(DISTINCT customer) FROM w.t").rows
        walls.append(time.perf_counter() - started)
        if rows[0][0] != expected:
            raise AssertionError(f"{rows[0][0]} rows instead of {expected}")
    print(f"read {state}: {median(walls[2:]):.2f} s (median of 4)", flush=True)
    return median(walls[2:])


def maintain(engine: Engine, client: MetastoreClient) -> None:
    """What the maintenance DAGs do, once."""
    for step in look_once(client, AnyFilesystem()):
        for _ in step:
            pass
    engine.run_compactions("benchmark")
    run_cleaner(client, AnyFilesystem())


def read_cost(engine: Engine, client: MetastoreClient, before: float, expected: int) -> None:
    """Reading the table as the last maintenance left it, and major-compacted."""
    left = read(engine, "after maintenance", expected)
    try:
        engine.run("ALTER TABLE w.t COMPACT 'major' AND WAIT")
        run_cleaner(client, AnyFilesystem())
    except (InvalidArgumentsError, JobFailedError) as refused:
        print(f"there is nothing left to compact: {refused}")
    compacted = read(engine, "major-compacted", expected)
    print(
        f"read cost {left / compacted:.2f} x the compacted table; before the last maintenance {before / compacted:.2f}"
    )


def session(arguments: argparse.Namespace) -> SparkSession:
    """The streaming application."""
    builder = session_builder(f"local[{arguments.cores}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", str(arguments.cores)).config("spark.log.level", "WARN")
    jar = accelerator_jar(arguments.accelerator, spark_of_python())
    if jar is not None:
        builder = builder.config("spark.jars", jar)
    return builder.getOrCreate()


def make_source(spark: SparkSession, root: Path, arguments: argparse.Namespace) -> list[Path]:
    """One file for each micro-batch."""
    total = arguments.batches * arguments.rows
    rows = spark.range(0, total, 1, 1).selectExpr(
        "id", "id * 7919 % 100003 as customer", "concat('name ', id * 31 % 1000) as name",
        "cast(id % 100000 / 100 as decimal(12,2)) as amount", "timestamp_seconds(1767225600 + id) as at",
    )  # fmt: skip
    rows.write.option("maxRecordsPerFile", arguments.rows).parquet(str(root / "source"))
    return sorted((root / "source").glob("part-*.parquet"))


def append(root: Path) -> Callable[[DataFrame, int], None]:
    """What the sink is compared with."""
    return lambda rows, _: rows.write.mode("append").option("compression", "zlib").orc(str(root / "plain"))


def run_slice(
    spark: SparkSession, root: Path, name: str, write: Callable[[DataFrame, int], None], processes: list[psutil.Process]
) -> Slice:
    """Let the query of this name go on with what is new."""
    moments: list[tuple[float, float, float]] = []

    def timed(rows: DataFrame, batch: int) -> None:
        cpu, started = cpu_of(processes), time.perf_counter()
        write(rows, batch)
        moments.append((started, time.perf_counter(), cpu))

    schema = spark.read.parquet(str(root / "source")).schema
    query = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(root / "in" / name))
        .writeStream.foreachBatch(timed)
        .option("checkpointLocation", str(root / "checkpoints" / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    # From the first to the last start: starting and ending a query is nobody's micro-batch.
    spans = len(moments) - 1
    wall = (moments[-1][0] - moments[0][0]) / spans * len(moments)
    cpu = (moments[-1][2] - moments[0][2]) / spans * len(moments)
    return Slice(wall, cpu, [ended - started for started, ended, _ in moments])


def cpu_of(processes: list[psutil.Process]) -> float:
    """User and system time of processes and all below them."""
    total = 0.0
    for process in processes:
        for one in (process, *process.children(recursive=True)):
            try:
                times = one.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
    return total


if __name__ == "__main__":
    main()
