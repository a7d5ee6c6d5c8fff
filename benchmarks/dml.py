"""What writing costs: insert, update, delete, merge and major compaction against a plain Spark ORC copy, and small
commits against as many small plain writes; each with the optional jar (if it was built) and without.

    python benchmarks/dml.py [--rows 5000000] [--rounds 3] [--cores 2] [--only insert,merge]

All jobs go through the entrance that the engine uses (``spark.run``): listing, staging, renames and footers count.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from measure import interleaved, markdown, parser_of
from tables import COLUMNS, BenchTable, build, generated, plain_source, session, write_plain

from airflow_hive_acid.format.jobs import Assignment, Compact, Delete, Insert, Merge, MergeClause, Update
from airflow_hive_acid.spark.accelerator import SESSION_KEY, accelerator

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

GOALS = {
    "insert": "1.1",
    "update 1 %": "0.30",
    "delete 1 %": "0.09",
    "merge 100,000 rows": "0.40",
    "major compaction, 10 % deleted": "1.3",
    "20 commits of 50,000 rows": "1.3",
}
WITHOUT = ", without the jar"
COMMITS, COMMIT_ROWS = 20, 50_000
ONE_PERCENT = "pmod(t.id, 100) = 7"


def main() -> None:
    """Build the tables, measure, print a table in Markdown."""
    parser = parser_of(__doc__, rows=5_000_000)
    parser.add_argument("--only", default="", help="operations to measure, by the start of their names")
    arguments = parser.parse_args()
    spark = session(arguments.cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        plain, table = build(spark, directory, arguments.rows)
        schema = spark.read.orc(str(plain)).schema
        deleted = with_deletes(table, directory / "deleted", "pmod(t.id, 10) = 3")
        steps = statements(table, deleted, arguments.rows)

        def copy() -> None:
            write_plain(spark.read.schema(schema).orc(str(plain)), directory / "copy")
            shutil.rmtree(directory / "copy")

        wanted = tuple(arguments.only.split(","))
        variants: dict[str, Callable[[], object]] = {"plain ORC copy": copy}
        for name, (owner, step) in steps.items():
            for label, conf in paths(spark):
                if name.startswith(wanted):
                    variants[name + label] = job(owner, step, plain, conf)
        title = f"{arguments.rows:,} rows, 10 columns, {arguments.rounds} rounds"
        if len(variants) > 1:
            found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
            print(markdown(title, found, "plain ORC copy", GOALS))
        if "20 commits".startswith(wanted):
            found = interleaved(spark, commits(spark, directory), arguments.rounds, arguments.warm_up)
            print(markdown(f"small commits, {arguments.rounds} rounds", found, "20 plain writes of 50,000 rows", GOALS))
    finally:
        spark.stop()
        shutil.rmtree(directory)


def statements(table: BenchTable, deleted: BenchTable, rows: int) -> dict[str, tuple[BenchTable, object]]:
    """What is measured, by name, each with the table that it is about.

    :param deleted: the same table with a tenth of its rows deleted.
    """
    own = table.high + 1
    clauses = (
        MergeClause("update", True, None, (Assignment("name", "s.new_name"), Assignment("k", "s.new_k"))),
        MergeClause(
            "insert",
            False,
            None,
            tuple(Assignment(c.name, f"s.new_{c.name}" if c.name in ("id", "name", "k") else "null") for c in COLUMNS),
        ),
    )
    changed = (Assignment("name", "'changed'"),)
    merge = Merge(table.snapshot(own), "t", merge_source(rows), "s", "t.id = s.new_id", clauses, own, 0, 1)
    return {
        "insert": (table, Insert(table.snapshot(own), "select * from p", own, 0)),
        "update 1 %": (table, Update(table.snapshot(own), "t", changed, ONE_PERCENT, own, 0, 1)),
        "delete 1 %": (table, Delete(table.snapshot(own), "t", ONE_PERCENT, own, 0)),
        "merge 100,000 rows": (table, merge),
        "major compaction, 10 % deleted": (deleted, Compact(deleted.snapshot(), "major", 1)),
    }


def paths(spark: SparkSession) -> list[tuple[str, dict[str, str]]]:
    """Settings of the ways to write that this session has."""
    without = (WITHOUT, {SESSION_KEY: "off"})
    return [without] if accelerator(spark) is None else [("", {}), without]


def job(owner: BenchTable, step: object, plain: Path, conf: dict[str, str]) -> Callable[[], object]:
    """A step whose result is thrown away."""
    return lambda: owner.discard(owner.run(step, plain_source(plain), **conf))


def commits(spark: SparkSession, directory: Path) -> dict[str, Callable[[], object]]:
    """Small inserts one after the other: each a job of its own, published, in a new table every round."""
    query = generated(spark, COMMIT_ROWS).repartition(2)
    source = directory / "small"
    write_plain(query, source)

    def plain_writes() -> None:
        for number in range(COMMITS):
            write_plain(spark.read.orc(str(source)), directory / "small-copy" / str(number))
        shutil.rmtree(directory / "small-copy")

    def inserts(conf: dict[str, str]) -> None:
        table = BenchTable(spark, directory / "small-table")
        table.root.mkdir()
        for _ in range(COMMITS):
            own = table.high + 1
            insert = Insert(table.snapshot(own), "select * from p", own, 0)
            table.publish(table.run(insert, plain_source(source), **conf))
        shutil.rmtree(table.root)

    variants: dict[str, Callable[[], object]] = {"20 plain writes of 50,000 rows": plain_writes}
    for label, conf in paths(spark):
        variants[f"20 commits of 50,000 rows{label}"] = lambda conf=conf: inserts(conf)  # type: ignore[misc]
    return variants


def with_deletes(table: BenchTable, root: Path, where: str) -> BenchTable:
    """A copy of the table with some rows deleted."""
    copied = table.copy(root)
    own = copied.high + 1
    copied.publish(copied.run(Delete(copied.snapshot(own), "t", where, own, 0)))
    return copied


def merge_source(rows: int) -> str:
    """100,000 rows, half of them already in the table and scattered over all of it."""
    step = max(1, rows // 50_000)
    new_id = f"id * {step} + if(id < 50000, 0, {rows})"
    columns = f"{new_id} as new_id, concat('m', id) as new_name, cast(id as int) as new_k"
    return f"select {columns} from range(0, 100000)"  # noqa: S608 - numbers of our own


if __name__ == "__main__":
    main()
