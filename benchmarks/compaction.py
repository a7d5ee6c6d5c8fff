"""What compaction costs: minor, major and rebalance against a plain Spark ORC copy of the same rows; and its memory.

    python benchmarks/compaction.py [--rows 5000000] [--deltas 10] [--rounds 3] [--cores 2] [--only major,minor]
    python benchmarks/compaction.py --memory 10,200 [--rows 2000000]

The table has so many deltas, and as many delete deltas with a tenth of the rows deleted; the insert-only table has the
same deltas and no deletes. ``--memory`` compacts tables of the same rows in few and in many deltas, each in an
application of its own, and shows the heap that is in use after a collection, and the resident memory of the JVM.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dml import job, paths
from measure import interleaved, jvm_pid, markdown, parser_of
from pyspark.sql import functions as F
from tables import BenchTable, generated, session, write_plain

from airflow_hive_acid.format.jobs import Compact, Delete, Insert, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

GOALS = {"major": "1.3"}
TXN = 1_000_000
"""Of the compactions: above the txns of all writes."""


def main() -> None:
    """Build the tables, measure, print a table in Markdown."""
    parser = parser_of(__doc__, rows=5_000_000, deltas=10)
    parser.add_argument("--only", default="", help="compactions to measure, by the start of their names")
    parser.add_argument("--memory", default="", help="numbers of deltas to show the memory of")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        show_peak(arguments.rows, arguments.deltas, arguments.cores)
    elif arguments.memory:
        show_memory(arguments.rows, [int(n) for n in arguments.memory.split(",")], arguments.cores)
    else:
        show_cost(arguments)


def show_cost(arguments: argparse.Namespace) -> None:
    """CPU and wall time against a copy."""
    spark = session(arguments.cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        plain = directory / "plain"
        write_plain(generated(spark, arguments.rows), plain)
        table = with_deltas(spark, directory / "acid", plain, arguments.rows, arguments.deltas, deletes=True)
        insert_only = with_deltas(
            spark, directory / "insert-only", plain, arguments.rows, arguments.deltas, insert_only=True
        )
        schema = spark.read.orc(str(plain)).schema

        def copy() -> None:
            write_plain(spark.read.schema(schema).orc(str(plain)), directory / "copy")
            shutil.rmtree(directory / "copy")

        variants: dict[str, Callable[[], object]] = {"plain ORC copy": copy}
        wanted = tuple(arguments.only.split(","))
        for name, owner in (
            ("major", table),
            ("minor", table),
            ("rebalance", table),
            ("insert-only major", insert_only),
        ):
            for label, conf in paths(spark) if owner is table else [("", {})]:
                if name.startswith(wanted):
                    step = Compact(owner.snapshot(txn=TXN), name.rpartition(" ")[2], TXN)  # type: ignore[arg-type]
                    variants[name + label] = job(owner, step, plain, conf)
        found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
        title = f"{arguments.rows:,} rows in {arguments.deltas} deltas, 10 % deleted, {arguments.rounds} rounds"
        print(markdown(title, found, "plain ORC copy", GOALS))
    finally:
        spark.stop()
        shutil.rmtree(directory)


def with_deltas(
    spark: SparkSession,
    root: Path,
    plain: Path,
    rows: int,
    deltas: int,
    *,
    deletes: bool = False,
    insert_only: bool = False,
    **conf: str,
) -> BenchTable:
    """The rows of the plain table, so many in each delta; of each a tenth is deleted by a delete delta of its own."""
    root.mkdir()
    table = BenchTable(spark, root, insert_only=insert_only)
    step = -(-rows // deltas)
    source = Source("p", "orc", {"path": str(plain)})
    for low in range(0, rows, step):
        chosen = f"id >= {low} and id < {low + step}"
        own = table.high + 1
        query = f"select * from p where {chosen}"  # noqa: S608 - numbers of our own
        table.publish(table.run(Insert(table.snapshot(own), query, own, 0), source, **conf))
        if deletes:
            own = table.high + 1
            where = f"{chosen} and pmod(t.id, 10) = 3"
            table.publish(table.run(Delete(table.snapshot(own), "t", where, own, 0), **conf))
    return table


def many_deltas(spark: SparkSession, root: Path, rows: int, deltas: int) -> BenchTable:
    """A table of two buckets, made at once: each delta has its share of the rows, each delete delta deletes in all."""
    rows_of = generated(spark, rows)
    write_id, bucket = f"id div {-(-rows // deltas)} + 1", "cast(536870912 | shiftleft(pmod(id, 2), 16) as int)"
    header = (f"{write_id} as originalTransaction", f"{bucket} as bucket", "id as rowId")
    columns = ", ".join(rows_of.columns)
    _write_directories(
        rows_of.selectExpr("0 as operation", *header, f"{write_id} as currentTransaction", f"struct({columns}) as row"),
        root,
        "delta",
    )
    deleter = f"pmod(id div 10, {deltas}) + {deltas + 1}"
    row = rows_of.selectExpr(f"struct({columns}) as row").schema["row"].dataType.simpleString()
    _write_directories(
        rows_of.where("pmod(id, 10) = 3").selectExpr(
            "2 as operation", *header, f"{deleter} as currentTransaction", f"cast(null as {row}) as row"
        ),
        root,
        "delete_delta",
    )
    return BenchTable(spark, root, 2 * deltas)


def _write_directories(events: DataFrame, root: Path, kind: str) -> None:
    """One directory for each current write id, task N being bucket N."""
    scratch = root / kind
    placed = events.selectExpr("*", "currentTransaction as w").repartitionById(2, F.expr("shiftright(bucket, 16) & 1"))
    order = ("w", "originalTransaction", "bucket", "rowId")
    placed.sortWithinPartitions(*order).write.partitionBy("w").option("compression", "zlib").orc(str(scratch))
    for directory in scratch.glob("w=*"):
        number = int(directory.name[2:])
        target = root / f"{kind}_{number:07d}_{number:07d}_0000"
        target.mkdir()
        for file in directory.glob("part-*"):
            file.rename(target / f"bucket_{file.name[5:10]}")
    shutil.rmtree(scratch)


def show_memory(rows: int, deltas: list[int], cores: int) -> None:
    """Start an application for each number of deltas, and collect what they say."""
    print(f"| {rows:,} rows | deltas and delete deltas | live heap before, MB | at its peak, MB | resident, MB | s |")
    print("|---|---|---|---|---|---|", flush=True)
    for number in deltas:
        command = [sys.executable, __file__, "--rows", str(rows), "--deltas", str(number), "--cores", str(cores)]
        subprocess.run([*command, "--peak"], check=True)


def show_peak(rows: int, deltas: int, cores: int) -> None:
    """Compact one table of that many deltas: a line of the table above for each kind."""
    spark = session(cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        table = many_deltas(spark, directory / "acid", rows, deltas)
        for label, conf in paths(spark):
            for kind in ("major", "minor", "rebalance"):
                step = Compact(table.snapshot(txn=TXN), kind, TXN)  # type: ignore[arg-type]
                before = live_heap(spark)
                forget_resident(spark)
                started = time.perf_counter()
                with Peak(spark) as peak:
                    result = table.run(step, **conf)
                seconds = time.perf_counter() - started
                table.discard(result)
                numbers = [bytes_ >> 20 for bytes_ in (before, peak.bytes, resident(spark))]
                print(f"| {kind}{label} | {deltas} | {' | '.join(map(str, numbers))} | {seconds:.1f} |", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(directory)


class Peak:
    """The most heap that was in use after a collection while the block ran."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.bytes = 0

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(1):
            self.bytes = max(self.bytes, live_heap(self._spark))


def live_heap(spark: SparkSession) -> int:
    """Bytes in use after a collection."""
    jvm = spark._jvm
    jvm.java.lang.System.gc()  # type: ignore[union-attr]
    runtime = jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    return int(runtime.totalMemory()) - int(runtime.freeMemory())


def forget_resident(spark: SparkSession) -> None:
    """Let :func:`resident` begin anew."""
    Path(f"/proc/{jvm_pid(spark)}/clear_refs").write_text("5")


def resident(spark: SparkSession) -> int:
    """The largest resident size that the JVM has had lately, in bytes."""
    text = Path(f"/proc/{jvm_pid(spark)}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
