"""What writing costs: insert, update, delete, merge and major compaction against a plain Spark ORC copy.

    python benchmarks/dml.py [--rows 5000000] [--rounds 3] [--cores 2]

All jobs go through the entrance that the engine uses (``spark.run``): listing, staging, renames and footers count.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from measure import interleaved, markdown
from tables import COLUMNS, BenchTable, build, plain_source, session, write_plain

from airflow_hive_acid.format.jobs import Assignment, Compact, Delete, Insert, Merge, MergeClause, Update

EXPECTED = {
    "insert": "1.5-2.0",
    "update 1 %": "0.4",
    "delete 1 %": "0.15",
    "merge 100,000 rows": "0.55",
    "major compaction, 10 % deleted": "2.0",
}
ONE_PERCENT = "pmod(t.id, 100) = 7"


def main() -> None:
    """Build the tables, measure, print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    spark = session(arguments.cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        plain, table = build(spark, directory, arguments.rows)
        schema = spark.read.orc(str(plain)).schema
        deleted = with_deletes(table, directory / "deleted", "pmod(t.id, 10) = 3")
        own = table.high + 1
        source = merge_source(arguments.rows)
        clauses = (
            MergeClause("update", True, None, (Assignment("name", "s.new_name"), Assignment("k", "s.new_k"))),
            MergeClause(
                "insert",
                False,
                None,
                tuple(
                    Assignment(c.name, f"s.new_{c.name}" if c.name in ("id", "name", "k") else "null") for c in COLUMNS
                ),
            ),
        )
        steps = {
            "insert": (table, Insert(table.snapshot(own), "select * from p", own, 0)),
            "update 1 %": (
                table,
                Update(table.snapshot(own), "t", (Assignment("name", "'changed'"),), ONE_PERCENT, own, 0, 1),
            ),
            "delete 1 %": (table, Delete(table.snapshot(own), "t", ONE_PERCENT, own, 0)),
            "merge 100,000 rows": (
                table,
                Merge(table.snapshot(own), "t", source, "s", "t.id = s.new_id", clauses, own, 0, 1),
            ),
            "major compaction, 10 % deleted": (deleted, Compact(deleted.snapshot(), "major", 1)),
        }

        def copy() -> None:
            write_plain(spark.read.schema(schema).orc(str(plain)), directory / "copy")
            shutil.rmtree(directory / "copy")

        variants = {"plain ORC copy": copy} | {
            name: (lambda owner=owner, step=step: owner.discard(owner.run(step, plain_source(plain))))
            for name, (owner, step) in steps.items()
        }
        found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
        print(
            markdown(
                f"{arguments.rows:,} rows, 10 columns, {arguments.rounds} rounds", found, "plain ORC copy", EXPECTED
            )
        )
    finally:
        spark.stop()
        shutil.rmtree(directory)


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
