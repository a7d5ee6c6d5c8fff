"""Whether statements and reads have become dearer: a few minutes of dml.py and read.py beside the ratios of a commit.

    python benchmarks/guard.py [--rows 1000000] [--rounds 3] [--cores 2] [--record]

Each is measured in CPU seconds as a ratio to plain ORC of the same run, so that machines compare. One that is more
than a quarter over its ratio in ``guard.json``, in the median and in the cheapest round, ends this with 1. ``--record``
writes that file: commit it with the change that explains the difference.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dml import job, statements
from dml import with_deletes as with_some_deleted
from measure import interleaved, parser_of
from read import with_deletes
from tables import AGGREGATE, build, session, write_plain

from airflow_hive_acid.spark.accelerator import accelerator
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from measure import Samples
    from pyspark.sql import SparkSession
    from tables import BenchTable

KNOWN = Path(__file__).with_name("guard.json")
MOST = 1.25
COPY, SCAN = "plain ORC copy", "plain ORC scan"


def main() -> int:
    """Measure, compare, and print a table in Markdown."""
    parser = parser_of(__doc__, rows=1_000_000)
    parser.add_argument("--record", action="store_true", help="write the ratios instead of comparing with them")
    arguments = parser.parse_args()
    spark = session(arguments.cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-guard-"))
    try:
        if accelerator(spark) is None:
            print("the optional jar is missing: python scripts/build_accelerator.py", file=sys.stderr)
            return 1
        variants = all_of(spark, directory, arguments.rows)
        found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
    finally:
        spark.stop()
        shutil.rmtree(directory)
    ratios = {name: ratio(found, name) for name in found if name not in (COPY, SCAN)}
    if arguments.record:
        KNOWN.write_text(json.dumps({name: round(median, 3) for name, (median, _) in ratios.items()}, indent=2) + "\n")
        print(f"wrote {KNOWN}")
        return 0
    return report(ratios, json.loads(KNOWN.read_text()))


def all_of(spark: SparkSession, directory: Path, rows: int) -> dict[str, Callable[[], object]]:
    """What is measured, by name, and what it is compared with."""
    plain, table = build(spark, directory, rows)
    schema = spark.read.orc(str(plain)).schema
    deleted = with_some_deleted(table, directory / "deleted", "pmod(t.id, 10) = 3")
    few = with_deletes(table, directory / "few", 1)

    def copy() -> None:
        write_plain(spark.read.schema(schema).orc(str(plain)), directory / "copy")
        shutil.rmtree(directory / "copy")

    def scan() -> None:
        spark.read.schema(schema).orc(str(plain)).selectExpr(*AGGREGATE).collect()

    variants: dict[str, Callable[[], object]] = {COPY: copy, SCAN: scan}
    for name, (owner, step) in statements(table, deleted, rows).items():
        variants[name] = job(owner, step, plain, {})
    for name, read in (("no deletes", table), ("1 % deleted", few)):
        variants[f"full scan, {name}"] = lambda t=read: (
            read_snapshot(spark, t.snapshot()).selectExpr(*AGGREGATE).collect()
        )  # type: ignore[misc]
        variants[f"count(*), {name}"] = lambda t=read: read_snapshot(spark, t.snapshot()).count()  # type: ignore[misc]
    return variants


def scanned(spark: SparkSession, table: BenchTable) -> None:
    """All columns of all rows."""
    read_snapshot(spark, table.snapshot()).selectExpr(*AGGREGATE).collect()


def counted(spark: SparkSession, table: BenchTable) -> None:
    """The number of rows."""
    read_snapshot(spark, table.snapshot()).count()


def ratio(found: Mapping[str, Samples], name: str) -> tuple[float, float]:
    """Median and least CPU of a variant, each to that of plain ORC."""
    base = found[SCAN if name.startswith(("full scan", "count")) else COPY].cpu
    cpu = found[name].cpu
    return statistics.median(cpu) / statistics.median(base), min(cpu) / min(base)


def report(ratios: Mapping[str, tuple[float, float]], known: Mapping[str, float]) -> int:
    """Print them beside those that are known; 1 when one is too dear, or is not known."""
    worse = []
    print("| | x plain ORC | known | |\n|---|---|---|---|")
    for name, (median, least) in ratios.items():
        before = known.get(name)
        dearer = before is None or (median > before * MOST and least > before * MOST)
        worse += [name] if dearer else []
        print(f"| {name} | {median:.2f} | {before} | {'**dearer**' if dearer else ''} |")
    if worse:
        print(f"dearer than in {KNOWN.name} by more than a quarter: {', '.join(worse)}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
