"""What many directories cost: 500 deltas in one table, 10,000 partitions, and the start of a small query.

    python benchmarks/scale.py [--deltas 500] [--partitions 10000] [--rounds 3] [--only deltas,partitions,start]

``deltas``: a table of so many small deltas is read with the jar and without, beside plain Spark over the same files'
rows in as many plain files, and beside opening each ACID file once, one after the other (footer and first stripe).
``partitions``: a driver whose heap is 1 GiB lists and reads a snapshot of so many partitions, and inserts one row into
each; its peak heap after collections and its resident memory are shown. ``start``: an application of its own starts and
reads the first row of a small snapshot, beside one that starts and reads a plain ORC file.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure import CpuMeter, Samples, interleaved, jvm_pid, markdown, parser_of
from tables import BenchTable, generated, session, write_plain

from airflow_hive_acid.format.jobs import Column, Insert, PartitionRef, TableSnapshot
from airflow_hive_acid.spark.accelerator import SESSION_KEY, accelerator
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

ROWS_PER_DELTA = 100
HEAP = "1g"
_NONE_OPEN = 2**63 - 1


def main() -> None:
    """Measure what was asked for, print one table each in Markdown."""
    parser = parser_of(__doc__, deltas=500, partitions=10_000)
    parser.add_argument("--only", default="deltas,partitions,start")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _CHILDREN[arguments.child[0]](arguments, Path(arguments.child[1]), *arguments.child[2:])
        return
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        for name in arguments.only.split(","):
            {"deltas": deltas, "partitions": partitions, "start": start}[name](arguments, directory)
    finally:
        shutil.rmtree(directory)


def deltas(arguments: argparse.Namespace, directory: Path) -> None:
    """One table of many deltas against opening its files once."""
    spark = session(arguments.cores)
    one = BenchTable(spark, directory / "one")
    one.root.mkdir()
    plain = directory / "plain"
    write_plain(generated(spark, ROWS_PER_DELTA).coalesce(1), plain)
    source = f"select * from orc.`{plain}`"  # noqa: S608
    one.publish(one.run(Insert(one.snapshot(1), source, 1, 0)))
    (delta,) = one.root.glob("delta_*")
    table = BenchTable(spark, directory / "many", arguments.deltas)
    for write_id in range(1, arguments.deltas + 1):
        # The rows say write id 1 in each of them; nothing here looks at that.
        shutil.copytree(delta, table.root / f"delta_{write_id:07d}_{write_id:07d}_0000")
    many = directory / "plain_many"
    many.mkdir()
    (part,) = plain.glob("part-*.orc")
    for number in range(arguments.deltas):
        shutil.copy(part, many / f"part-{number:05d}.orc")
    files = [str(p) for p in table.root.glob("delta_*/bucket_*")]
    schema = spark.read.orc(str(plain)).schema
    without = spark.newSession()
    without.conf.set(SESSION_KEY, "off")
    query = ("sum(id)", "max(name)", "sum(x)")
    variants: dict[str, Callable[[], Any]] = {
        "plain ORC, as many files": lambda: spark.read.schema(schema).orc(str(many)).selectExpr(*query).collect(),
        "one delta": lambda: read_snapshot(spark, one.snapshot()).selectExpr(*query).collect(),
        "opening the files once": lambda: _open_each(spark, files),
        f"{arguments.deltas} deltas, without the jar": (
            lambda: read_snapshot(without, table.snapshot()).selectExpr(*query).collect()
        ),
    }
    if accelerator(spark) is not None:
        variants[f"{arguments.deltas} deltas"] = lambda: (
            read_snapshot(spark, table.snapshot()).selectExpr(*query).collect()
        )
    found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
    title = f"{arguments.deltas} deltas of {ROWS_PER_DELTA} rows, {arguments.rounds} rounds"
    print(markdown(title, found, "plain ORC, as many files", {}), end="\n\n", flush=True)
    spark.stop()


def _open_each(spark: SparkSession, files: list[str]) -> int:
    """Open each file with orc-core and decode its first batch, one file after the other."""
    jvm: Any = spark._jvm
    conf = spark._jsc.hadoopConfiguration()
    orc, path = jvm.org.apache.orc.OrcFile, jvm.org.apache.hadoop.fs.Path
    total = 0
    for file in files:
        reader = orc.createReader(path(file), orc.readerOptions(conf))
        batch = reader.getSchema().createRowBatch()
        rows = reader.rows()
        rows.nextBatch(batch)
        total += int(reader.getNumberOfRows())
        rows.close()
        reader.close()
    return total


def partitions(arguments: argparse.Namespace, directory: Path) -> None:
    """A driver with a small heap over many partitions; an application of its own."""
    root = directory / "partitioned"
    print(f"| {arguments.partitions:,} partitions, heap of {HEAP} | CPU s | wall s | heap in use MB | resident MB |")
    print("|---|---|---|---|---|", flush=True)
    for line in _child(arguments, "partitions", root):
        memory = f"{line['heap']} | {line['resident']}"
        print(f"| {line['what']} | {line['cpu']:.1f} | {line['wall']:.1f} | {memory} |", flush=True)
    print()


def _partitions_child(arguments: argparse.Namespace, root: Path) -> None:
    spark = session(arguments.cores, HEAP)
    columns = (Column("id", "bigint"), Column("name", "string"))
    keys = (Column("ds", "string"), Column("h", "int"))
    values = [(f"2024-{i // 100:05d}", str(i % 100)) for i in range(arguments.partitions)]
    location = f"file:{root}"

    def snapshot(high: int, count: int) -> TableSnapshot:
        refs = tuple(PartitionRef(f"ds={a}/h={b}", f"{location}/ds={a}/h={b}", (a, b)) for a, b in values[:count])
        return TableSnapshot(
            "bench.p", location, columns, keys, refs, f"bench.p:{high}:{_NONE_OPEN}::", f"1:{_NONE_OPEN}::"
        )

    root.mkdir()
    table = BenchTable(spark, root)

    days = "concat('2024-', lpad(cast(id div 100 as string), 5, '0')) as ds, cast(id % 100 as int) as h"
    query = f"select id, 'x' as name, {days} from range(0, {arguments.partitions}, 1, {arguments.cores})"  # noqa: S608

    def plain() -> None:
        target = str(root.parent / "plain_parts")
        spark.sql(query).write.option("compression", "zlib").partitionBy("ds", "h").orc(target)

    def insert() -> None:
        result = table.run(Insert(snapshot(1, 0), query, 1, 0))
        for made in result.directories:
            target = root / made.partition / made.name
            target.parent.mkdir(parents=True, exist_ok=True)
            (root / f"_tmp_{result.job_id}" / "data" / made.partition / made.name).rename(target)
        assert len(result.directories) == arguments.partitions

    def read() -> None:
        found = read_snapshot(spark, snapshot(1, arguments.partitions)).selectExpr("count(id)", "sum(id)").collect()
        assert found[0][0] == arguments.partitions

    def pruned() -> None:
        frame = read_snapshot(spark, snapshot(1, arguments.partitions)).where("ds = '2024-00007' and h = 7")
        assert frame.count() == 1

    meter = CpuMeter(jvm_pid(spark))
    spark.sql(query).limit(100).write.partitionBy("ds", "h").orc(str(root.parent / "warm_up"))
    measured = (
        ("plain ORC, partitioned by Spark", plain), ("insert", insert), ("read", read), ("read again", read),
        ("one partition of them", pruned),
    )  # fmt: skip
    for what, run in measured:
        began, cpu = time.perf_counter(), meter.seconds() + time.process_time()
        run()
        wall, cpu = time.perf_counter() - began, meter.seconds() + time.process_time() - cpu
        _report(what=what, wall=wall, cpu=cpu, heap=_heap(spark), resident=_resident(jvm_pid(spark)))
    spark.stop()


def _heap(spark: SparkSession) -> int:
    """Heap in use after a collection, in MB."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory()) >> 20


def _resident(pid: int) -> int:
    """The largest resident memory of a process, in MB."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10


def start(arguments: argparse.Namespace, directory: Path) -> None:
    """Applications that start and read one row."""
    _child(arguments, "small", directory / "small")
    found: dict[str, Samples] = {}
    for number in range(arguments.rounds):
        for what in ("plain", "snapshot", "snapshot without the jar"):
            (line,) = _child(arguments, "first_row", directory / "small", what)
            print(f"  round {number} {what}: {line}", file=sys.stderr, flush=True)
            samples = found.setdefault(what, Samples())
            samples.cpu.append(line["cpu"])
            samples.wall.append(line["wall"])
    title = f"from session to first row, {arguments.rounds} applications each"
    print(markdown(title, found, "plain", {}), end="\n\n", flush=True)


def _small_child(arguments: argparse.Namespace, root: Path) -> None:
    spark = session(arguments.cores)
    root.mkdir()
    write_plain(generated(spark, 1000).coalesce(1), root / "plain")
    table = BenchTable(spark, root / "acid")
    table.root.mkdir()
    query = f"select * from orc.`{root / 'plain'}`"  # noqa: S608
    table.publish(table.run(Insert(table.snapshot(1), query, 1, 0)))
    spark.stop()


def _first_row_child(arguments: argparse.Namespace, root: Path, what: str) -> None:
    spark = session(arguments.cores)
    if what == "snapshot without the jar":
        spark.conf.set(SESSION_KEY, "off")
    meter = CpuMeter(jvm_pid(spark))
    began, cpu = time.perf_counter(), meter.seconds() + time.process_time()
    if what == "plain":
        frame = spark.read.orc(str(root / "plain"))
    else:
        frame = read_snapshot(spark, BenchTable(spark, root / "acid", 1).snapshot())
    assert frame.first() is not None
    cpu = meter.seconds() + time.process_time() - cpu
    _report(wall=time.perf_counter() - began, cpu=cpu)
    spark.stop()


_CHILDREN: dict[str, Any] = {
    "partitions": _partitions_child,
    "small": _small_child,
    "first_row": _first_row_child,
}
_MARK = "hive-acid-bench "


def _report(**values: Any) -> None:
    print(_MARK + json.dumps(values), flush=True)


def _child(arguments: argparse.Namespace, name: str, *values: object) -> list[dict[str, Any]]:
    """What an application of its own reports."""
    command = [sys.executable, __file__, "--cores", str(arguments.cores), "--partitions", str(arguments.partitions)]
    done = subprocess.run([*command, "--child", name, *map(str, values)], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line.removeprefix(_MARK)) for line in done.stdout.splitlines() if line.startswith(_MARK)]


if __name__ == "__main__":
    main()
