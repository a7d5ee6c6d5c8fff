"""What following costs: 1 % of a table's rows changed, taken over by a mirror, beside the MERGE that the target would
run itself if somebody handed it these rows.

    python benchmarks/mirrors.py [--rows 5000000] [--rounds 3] [--warm-up 1] [--cores 2]

Runs in the environment of ``peers.py``. Each round changes another 1 % of the table, lets both mirrors follow, and
merges the same new rows by key into copies of the targets. A look at a mirror that has nothing to do is timed, too.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import peers
from formats import HiveAcid, plain
from measure import CpuMeter, Samples, jvm_pid, parser_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pyspark.sql import SparkSession

TABLE = "mirrored"


def main() -> None:
    """Make the environment if it is missing, measure in it, print a table in Markdown."""
    arguments = parser_of(__doc__, rows=5_000_000).parse_args()
    peers.in_environment(__file__)
    measure(arguments)


def measure(arguments: argparse.Namespace) -> None:
    """Everything after the environment is there."""
    from tables import generated, write_plain

    directory = Path(tempfile.mkdtemp(prefix="hive-acid-mirrors-"))
    spark = peers.session(arguments.cores, directory)
    ours = HiveAcid(spark, directory)
    try:
        rows = directory / "rows"
        write_plain(generated(spark, arguments.rows), rows)
        ours.create(TABLE, rows)
        kinds = {
            "Iceberg, by key": ("iceberg:ice.db.mirror", ["id"]),
            "Iceberg, by ROW__ID": ("iceberg:ice.db.mirror_ids", []),
            "Delta, by key": (f"delta:{directory}/mirror", ["id"]),
        }
        for target, key in kinds.values():
            ours.mirror(TABLE, target, key)
        copies = {name: f"ice.db.copy{i}" for i, name in enumerate(kinds)}
        copies["Delta, by key"] = f"delta.`{directory}/copy`"
        for copy in copies.values():
            copied(spark, rows, copy, directory)
        found: dict[str, Samples] = {}
        meter = CpuMeter(jvm_pid(spark))
        for number in range(arguments.warm_up + arguments.rounds):
            new = changed(spark, ours, rows, directory, number)
            for name, (target, _) in kinds.items():
                follow = timed(spark, meter, lambda t=target: ours.mirror(TABLE, t, None))  # type: ignore[misc]
                merge = timed(spark, meter, lambda n=name, f=new: merged(spark, f, copies[n]))  # type: ignore[misc]
                idle = timed(spark, meter, lambda t=target: ours.mirror(TABLE, t, None))  # type: ignore[misc]
                for what, (cpu, wall) in (("follow", follow), ("merge", merge), ("idle", idle)):
                    print(f"  round {number} {name} {what}: {cpu:.2f} s CPU, {wall:.2f} s", file=sys.stderr, flush=True)
                    if number >= arguments.warm_up:
                        samples = found.setdefault(f"{name} {what}", Samples())
                        samples.cpu.append(cpu)
                        samples.wall.append(wall)
        print(
            f"| 1 % of {arguments.rows:,} rows, {arguments.rounds} rounds | mirror, CPU s | MERGE by the target, CPU s",
            end="",
        )
        print(" | x (CPU) | x (wall) | nothing to do, ms |\n|---|---|---|---|---|---|")
        for name in kinds:
            follow, merge = found[f"{name} follow"], found[f"{name} merge"]
            cpu = statistics.median(follow.cpu), statistics.median(merge.cpu)
            wall = statistics.median(follow.wall) / statistics.median(merge.wall)
            idle = 1000 * statistics.median(found[f"{name} idle"].wall)
            print(f"| {name} | {cpu[0]:.2f} | {cpu[1]:.2f} | **{cpu[0] / cpu[1]:.2f}** | {wall:.2f} | {idle:.0f} |")
    finally:
        ours.close()
        spark.stop()
        shutil.rmtree(directory)


def copied(spark: SparkSession, rows: Path, copy: str, directory: Path) -> None:
    """A table with the properties of a mirror, in which nothing follows."""
    if copy.startswith("ice."):
        writer = plain(spark, rows).writeTo(copy).using("iceberg").tableProperty("format-version", "2")
        for kind in ("update", "delete", "merge"):
            writer = writer.tableProperty(f"write.{kind}.mode", "merge-on-read")
        writer.create()
        return
    # As a mirror is made: a reader need not know deletion vectors.
    plain(spark, rows).write.format("delta").save(str(directory / "copy"))


def changed(spark: SparkSession, ours: HiveAcid, rows: Path, directory: Path, number: int) -> Path:
    """Another 1 % of the rows gets new names; these rows as plain files."""
    where = f"pmod(id, 100) = {number}"
    ours.change(f"UPDATE {{}} SET name = 'changed {number}' WHERE {where}", TABLE)  # noqa: S608 - numbers of our own
    new = directory / f"new-{number}"
    values = [f"'changed {number}' as name" if c == "name" else c for c in plain(spark, rows).columns]
    plain(spark, rows).where(where).selectExpr(*values).write.orc(str(new))
    return new


def merged(spark: SparkSession, new: Path, copy: str) -> None:
    """The MERGE that the target would run itself."""
    plain(spark, new).createOrReplaceTempView("new_rows")
    clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    spark.sql(f"MERGE INTO {copy} t USING new_rows s ON t.id = s.id {clauses}")


def timed(spark: SparkSession, meter: CpuMeter, run: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds and seconds."""
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    cpu, wall = meter.seconds(), time.perf_counter()
    run()
    return meter.seconds() - cpu, time.perf_counter() - wall


if __name__ == "__main__":
    main()
