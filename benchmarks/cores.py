"""How well statements about a table of one bucket use all cores: with the bucket divided into ranges, and without.

    python benchmarks/cores.py [--rows 3000000] [--rounds 2] [--cores 2] [--least 1000000] [--only major,update]

A table of one bucket with a tenth of its rows deleted. Beside CPU and wall seconds stands what the machine's load does
not change: the CPU seconds of the busiest core, when the tasks of each stage are given to cores in their order. The
goal is that wall time is at most 1.3 times the CPU time divided by the cores, so the busiest core must not have more
than 1.3 times its share.
"""

from __future__ import annotations

import heapq
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from compaction import TXN
from dml import job, paths
from measure import interleaved, parser_of
from tables import BenchTable, generated, session

from airflow_hive_acid.format.jobs import Assignment, Compact, Delete, Insert, Source, Update
from airflow_hive_acid.spark.conf import RANGE_BYTES, RANGE_BYTES_KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

CHANGED = (Assignment("name", "'changed'"),)


class Work(NamedTuple):
    """CPU seconds that tasks took.

    :param busiest: of the core that had most of them, stage after stage.
    """

    tasks: float
    busiest: float


def main() -> None:
    """Build the table, measure, print a table in Markdown."""
    parser = parser_of(__doc__, rows=3_000_000, least=RANGE_BYTES)
    parser.add_argument("--only", default="", help="statements to measure, by the start of their names")
    arguments = parser.parse_args()
    spark = session(arguments.cores)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-bench-"))
    try:
        plain = directory / "plain"
        generated(spark, arguments.rows).coalesce(1).write.option("compression", "zlib").orc(str(plain))
        table = one_bucket(spark, directory / "acid", plain)
        variants: dict[str, Callable[[], object]] = {}
        works: dict[str, list[Work]] = {}
        wanted = tuple(arguments.only.split(","))
        for name, step in statements(table).items():
            if not name.startswith(wanted):
                continue
            for label, conf in ranged(spark, arguments.least):
                run = job(table, step, plain, conf)
                variants[name + label] = watched(spark, run, arguments.cores, works.setdefault(name + label, []))
        found = interleaved(spark, variants, arguments.rounds, arguments.warm_up)
        title = f"{arguments.rows:,} rows in one bucket"
        print(f"| {title} | CPU s | wall s | wall / share | tasks' CPU s | busiest / share |")
        print("|---|---|---|---|---|---|")
        for name, samples in found.items():
            cpu, wall = statistics.median(samples.cpu), statistics.median(samples.wall)
            work = works[name][arguments.warm_up :]
            tasks = statistics.median(w.tasks for w in work)
            busiest = statistics.median(w.busiest * arguments.cores / w.tasks for w in work)
            share = wall * arguments.cores / cpu
            print(f"| {name} | {cpu:.2f} | {wall:.2f} | {share:.2f} | {tasks:.2f} | **{busiest:.2f}** |")
    finally:
        spark.stop()
        shutil.rmtree(directory)


def ranged(spark: SparkSession, least: int) -> list[tuple[str, dict[str, str]]]:
    """With ranges and without, where the jar is.

    :param least: bytes of a range; fewer than usual make small tables do.
    """
    with_jar = len(paths(spark)) > 1
    return (
        [("", {RANGE_BYTES_KEY: str(least)}), (", one task for a bucket", {RANGE_BYTES_KEY: "0"})]
        if with_jar
        else [("", {})]
    )


def one_bucket(spark: SparkSession, root: Path, plain: Path) -> BenchTable:
    """The rows of the plain table in one bucket; a tenth of them is deleted."""
    root.mkdir()
    table = BenchTable(spark, root)
    query = "select /*+ COALESCE(1) */ * from p"
    table.publish(table.run(Insert(table.snapshot(1), query, 1, 0), Source("p", "orc", {"path": str(plain)})))
    table.publish(table.run(Delete(table.snapshot(2), "t", "pmod(t.id, 10) = 3", 2, 0)))
    return table


def statements(table: BenchTable) -> dict[str, Any]:
    """What is measured, by name."""
    own = table.high + 1
    snapshot = table.snapshot(own)
    found: dict[str, Any] = {
        kind: Compact(table.snapshot(txn=TXN), kind, TXN)  # type: ignore[arg-type]
        for kind in ("major", "minor", "rebalance")
    }
    found["ordered rebalance"] = Compact(table.snapshot(txn=TXN), "rebalance", TXN, order_by="name")
    for percent, every in ((1, 100), (20, 5)):
        where = f"pmod(t.id, {every}) = 1"
        found[f"update {percent} %"] = Update(snapshot, "t", CHANGED, where, own, 0, 1)
        found[f"delete {percent} %"] = Delete(snapshot, "t", where, own, 0)
    found["insert"] = Insert(snapshot, "select * from p", own, 0)
    return found


def watched(spark: SparkSession, run: Callable[[], object], cores: int, works: list[Work]) -> Callable[[], object]:
    """The same work, which leaves what its tasks took."""

    def watching() -> object:
        before = {(stage.stageId(), stage.attemptId()) for stage in _stages(spark)}
        result = run()
        works.append(_work(spark, before, cores))
        return result

    return watching


def _stages(spark: SparkSession) -> list[Any]:
    jvm: Any = spark._jvm
    store = spark.sparkContext._jsc.sc().statusStore()
    none = jvm.java.util.ArrayList()
    quantiles = spark.sparkContext._gateway.new_array(jvm.double, 0)
    listed = store.stageList(none, False, False, quantiles, none)
    return list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed))


def _work(spark: SparkSession, before: set[tuple[int, int]], cores: int) -> Work:
    jvm: Any = spark._jvm
    # What tasks took comes by a queue of events.
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark.sparkContext._jsc.sc().statusStore()
    total = busiest = 0.0
    for stage in _stages(spark):
        key = (stage.stageId(), stage.attemptId())
        if key in before:
            continue
        tasks = jvm.scala.jdk.javaapi.CollectionConverters.asJava(store.taskList(*key, 10_000))
        ordered = sorted(tasks, key=lambda task: int(task.index()))
        times = [task.taskMetrics().get().executorCpuTime() / 1e9 for task in ordered if task.taskMetrics().isDefined()]
        loads = [0.0] * cores
        for seconds in times:
            heapq.heapreplace(loads, loads[0] + seconds)
        total += sum(times)
        busiest += max(loads)
    return Work(total, busiest)


if __name__ == "__main__":
    main()
