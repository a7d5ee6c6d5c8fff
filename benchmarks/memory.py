"""What statements of many rows need of a small heap: whether it grows with the rows.

    python benchmarks/memory.py [--rows 1000000,4000000] [--memory 2g] [--cores 2]

In one local Spark, whose only JVM is driver and executor: an INSERT of so many rows, a MERGE of as many of which half
are there, and a major compaction. Live is what a collection leaves, looked at once a second; bytes for each row are the
difference between the largest and the smallest number of rows.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from compaction import TXN, Peak, live_heap
from measure import parser_of
from tables import COLUMNS, BenchTable, generated, session

from airflow_hive_acid.format.jobs import Assignment, Compact, Insert, Merge, MergeClause, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import JobResult


def main() -> None:
    """Run the statements for each number of rows, print a table in Markdown."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", default="1000000,4000000")
    parser.add_argument("--memory", default="2g")
    arguments = parser.parse_args()
    spark = session(arguments.cores, arguments.memory)
    found: dict[str, dict[int, int]] = {}
    print(f"| heap of {arguments.memory} | rows | live before, MB | live at its peak, MB | s |\n|---|---|---|---|---|")
    try:
        for rows in map(int, arguments.rows.split(",")):
            measure(spark, rows, found)
    finally:
        spark.stop()
    for name, peaks in found.items():
        few, many = min(peaks), max(peaks)
        if few < many:
            print(f"{name}: {(peaks[many] - peaks[few]) / (many - few):.1f} bytes a row")


def measure(spark: SparkSession, rows: int, found: dict[str, dict[int, int]]) -> None:
    """The statements about one table."""
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        plain = directory / "plain"
        generated(spark, rows).write.option("compression", "zlib").orc(str(plain))
        source = Source("p", "orc", {"path": str(plain)})
        (directory / "acid").mkdir()
        table = BenchTable(spark, directory / "acid")
        clauses = (
            MergeClause("update", True, None, (Assignment("name", "s.name"),)),
            MergeClause("insert", False, None, tuple(Assignment(c.name, f"s.{c.name}") for c in COLUMNS)),
        )
        shifted = ", ".join(f"id + {rows // 2} as id" if c.name == "id" else c.name for c in COLUMNS)
        query = f"select {shifted} from p"  # noqa: S608 - names and numbers of our own
        insert = Insert(table.snapshot(1), "select /*+ COALESCE(1) */ * from p", 1, 0)
        steps: dict[str, Callable[[], JobResult]] = {
            "insert": lambda: table.run(insert, source),
            "merge": lambda: table.run(
                Merge(table.snapshot(2), "t", query, "s", "t.id = s.id", clauses, 2, 0, 1), source
            ),
            "major compaction": lambda: table.run(Compact(table.snapshot(txn=TXN), "major", TXN)),
        }
        for name, step in steps.items():
            before, started = live_heap(spark), time.perf_counter()
            with Peak(spark) as peak:
                result = step()
            seconds = time.perf_counter() - started
            found.setdefault(name, {})[rows] = peak.bytes
            print(f"| {name} | {rows:,} | {before >> 20} | {peak.bytes >> 20} | {seconds:.1f} |", flush=True)
            table.publish(result)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
