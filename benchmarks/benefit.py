"""The constants of the policy ``benefit``: what reads pay for deltas and deletes, and compactions for bytes.

    python benchmarks/benefit.py [--rows 2000000] [--deltas 20] [--rounds 3] [--warm-up 1] [--cores 2]

Prints the arguments of ``airflow_hive_acid.maintenance.initiator.benefit.CostModel``, in CPU seconds of driver and JVM,
from the differences between reads and compactions of tables that differ in one thing: so many deltas of a few rows
more, 1 % and 20 % of the rows deleted. What a compaction of nothing costs (``hive.acid.initiator.benefit.job``) is
without the start of an application here: a Worker starts one for all requests that it finds.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from measure import interleaved, parser_of
from tables import AGGREGATE, BenchTable, build, plain_source, session

from airflow_hive_acid.format.jobs import Compact, Delete, Insert
from airflow_hive_acid.spark.read.reader import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from measure import Samples
    from pyspark.sql import SparkSession

TXN = 1_000_000
"""Of the compactions: above the txns of all writes."""
FEW, MANY = 1, 20
"""Percent of the rows that are deleted."""


def main() -> None:
    """Build the tables, measure, print the constants."""
    parser = parser_of(__doc__, rows=2_000_000, deltas=20)
    arguments = parser.parse_args()
    spark = session(arguments.cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-benefit-"))
    try:
        plain, table = build(spark, directory, arguments.rows)
        small = BenchTable(spark, directory / "small")
        small.root.mkdir()
        wide = table.copy(directory / "wide")
        for owner in (small, wide):
            for _ in range(arguments.deltas):
                insert(owner, plain, "id < 100")
        halves = BenchTable(spark, directory / "halves")
        halves.root.mkdir()
        for half in (0, 1):
            insert(halves, plain, f"pmod(id, 2) = {half}")
        deleted = {percent: with_deletes(table, directory / f"deleted{percent}", percent) for percent in (FEW, MANY)}
        variants: dict[str, Callable[[], object]] = {
            "read": lambda: scan(spark, table),
            "read, deltas": lambda: scan(spark, wide),
            **{f"read, {p} % deleted": (lambda t=t: scan(spark, t)) for p, t in deleted.items()},  # type: ignore[misc]
            "read, small": lambda: scan(spark, small),
            "minor, small": lambda: compact(small, "minor"),
            "minor": lambda: compact(halves, "minor"),
            "major": lambda: compact(halves, "major"),
        }
        found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
        print(constants(found, arguments.rows, arguments.deltas, size(halves), deleted))
    finally:
        spark.stop()
        shutil.rmtree(directory)


def insert(table: BenchTable, plain: Path, where: str) -> None:
    """One delta more, of one file."""
    own = table.high + 1
    query = f"select /*+ COALESCE(1) */ * from p where {where}"  # noqa: S608 - conditions of our own
    table.publish(table.run(Insert(table.snapshot(own), query, own, 0), plain_source(plain)))


def with_deletes(table: BenchTable, root: Path, percent: int) -> BenchTable:
    """A copy of the table with scattered rows deleted."""
    copied = table.copy(root)
    own = copied.high + 1
    where = f"pmod(xxhash64(t.id, 99), 100) < {percent}"
    copied.publish(copied.run(Delete(copied.snapshot(own), "t", where, own, 0)))
    return copied


def scan(spark: SparkSession, table: BenchTable) -> None:
    """All columns of all rows."""
    read_snapshot(spark, table.snapshot()).selectExpr(*AGGREGATE).collect()


def compact(table: BenchTable, kind: str) -> None:
    """One compaction, whose result nobody gets."""
    table.discard(table.run(Compact(table.snapshot(txn=TXN), kind, TXN)))  # type: ignore[arg-type]


def files(table: BenchTable, kind: str = "*") -> list[Path]:
    """The data files of directories of a kind."""
    return [file for file in table.root.glob(f"{kind}/bucket_*") if file.is_file()]


def size(table: BenchTable, kind: str = "*") -> int:
    """Their bytes."""
    return sum(file.stat().st_size for file in files(table, kind))


def constants(
    found: Mapping[str, Samples], rows: int, deltas: int, compacted: int, deleted: Mapping[int, BenchTable]
) -> str:
    """The arguments of CostModel, from the cheapest rounds.

    :param compacted: bytes of the table that was compacted.
    """
    cpu = {name: min(samples.cpu) for name, samples in found.items()}
    few, many = (deleted[percent] for percent in (FEW, MANY))
    more = rows * (MANY - FEW) / 100
    event_bytes = (size(many, "delete_delta_*") - size(few, "delete_delta_*")) / more
    number = len(files(few, "delete_delta_*"))
    file_bytes = (size(few, "delete_delta_*") - event_bytes * rows * FEW / 100) / number
    open_file = (cpu["read, deltas"] - cpu["read"]) / deltas
    start = cpu["read, small"] - (deltas - 1) * open_file

    def paid(percent: int) -> float:
        """What a read pays for deletes, beside reading the rows that are left."""
        left = start + (cpu["read"] - start) * (1 - percent / 100)
        return cpu[f"read, {percent} % deleted"] - left

    event = (paid(MANY) - paid(FEW)) / more
    values = {
        "open_file": open_file,
        "delete_event": event,
        "event_bytes": event_bytes,
        "file_bytes": file_bytes,
        "minor_byte": (cpu["minor"] - cpu["minor, small"]) / compacted,
        "major_byte": (cpu["major"] - cpu["minor, small"]) / compacted,
    }
    lines = [f"{name}={value:.3g}," for name, value in values.items()]
    of = ", ".join(f"{name} {seconds:.2f}" for name, seconds in cpu.items())
    return "\n".join([*lines, f"hive.acid.initiator.benefit.job: {cpu['minor, small']:.2f}", f"CPU seconds: {of}"])


if __name__ == "__main__":
    main()
