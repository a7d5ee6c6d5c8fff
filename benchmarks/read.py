"""What reading costs: a snapshot without and with deletes against plain Spark ORC.

    python benchmarks/read.py [--rows 5000000] [--rounds 3] [--cores 2] [--only "count(*)"]

Three queries: an aggregate over all ten columns, ``count(*)``, and 0.1 % of the rows by id. Each snapshot is read
through the optional jar and through Spark's own source; a ``SELECT count(*)`` that is a statement of its own does
without either, see ``spark/read/counts.py``.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from measure import interleaved, markdown, parser_of
from tables import AGGREGATE, BenchTable, build, session

from airflow_hive_acid.format.jobs import Delete
from airflow_hive_acid.spark.accelerator import SESSION_KEY, accelerator
from airflow_hive_acid.spark.read.counts import live_rows
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

GOALS = {
    "full scan": {"no deletes": "1.05", "1 % deleted": "1.2", "50 % deleted": "1.4"},
    "count(*)": {"no deletes": "1.0"},
    "0.1 % by id": {"no deletes": "1.1"},
}


def main() -> None:
    """Build the tables, measure, print one table per query in Markdown."""
    parser = parser_of(__doc__, rows=5_000_000)
    parser.add_argument("--only", choices=[*GOALS], help="one of the queries")
    arguments = parser.parse_args()
    spark = session(arguments.cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        plain, table = build(spark, directory, arguments.rows)
        schema = spark.read.orc(str(plain)).schema
        deleted = {percent: with_deletes(table, directory / f"deleted{percent}", percent) for percent in (1, 50)}
        tables = {"no deletes": table} | {f"{percent} % deleted": t for percent, t in deleted.items()}
        without = spark.newSession()
        without.conf.set(SESSION_KEY, "off")
        frames: dict[str, Callable[[], DataFrame]] = {"plain ORC": lambda: spark.read.schema(schema).orc(str(plain))}
        for name, t in tables.items():
            if accelerator(spark) is not None:
                frames[name] = lambda t=t: read_snapshot(spark, t.snapshot())  # type: ignore[misc]
            frames[f"{name}, without the jar"] = lambda t=t: read_snapshot(without, t.snapshot())  # type: ignore[misc]
        low = arguments.rows // 5
        queries: dict[str, Callable[[DataFrame], object]] = {
            "full scan": lambda d: d.selectExpr(*AGGREGATE).collect(),
            "count(*)": lambda d: d.count(),
            "0.1 % by id": lambda d: (
                d.where(f"id between {low} and {low + arguments.rows // 1000}")
                .selectExpr("sum(x)", "count(1)")
                .collect()
            ),
        }
        for query, run in queries.items():
            if arguments.only not in (None, query):
                continue
            variants: dict[str, Callable[[], object]]
            variants = {name: (lambda f=f, run=run: run(f())) for name, f in frames.items()}  # type: ignore[misc]
            if query == "count(*)":
                variants["no deletes, as a statement, without the jar"] = lambda: live_rows(without, table.snapshot())
            found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
            title = f"{query}, {arguments.rows:,} rows, {arguments.rounds} rounds"
            print(markdown(title, found, "plain ORC", GOALS[query]), end="\n\n", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(directory)


def with_deletes(table: BenchTable, root: Path, percent: int) -> BenchTable:
    """A copy of the table with scattered rows deleted."""
    copied = table.copy(root)
    own = copied.high + 1
    where = f"pmod(xxhash64(t.id, 99), 100) < {percent}"
    copied.publish(copied.run(Delete(copied.snapshot(own), "t", where, own, 0)))
    return copied


if __name__ == "__main__":
    main()
