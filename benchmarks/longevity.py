"""How tables age: rounds of changes, queries and each system's own maintenance, in the manner of LST-Bench.

    python benchmarks/longevity.py [--scale 1] [--rounds 20] [--warm-up 1] [--cores 2] [--only thresholds,benefit]
                                   [--retention default|none] [--minutes 0]

The tables are TPC-H's lineitem and orders (``tpchgen-cli``), in the environment of ``peers.py``. A round is the refresh
functions RF1 (new orders and their lines, 0.1 % of the table) and RF2 (0.1 % of the orders by their keys), a MERGE of
corrections (0.5 % of the lines, a tenth of them new), a DELETE of 0.1 % of the lines by predicate, the queries Q1, Q6
and Q3, and then maintenance as it is by default:

    ours        the Initiator, a Worker and the Cleaner; by Hive's thresholds, and by the policy benefit
    Iceberg     rewrite_data_files and expire_snapshots
    Delta       OPTIMIZE and VACUUM

By default both peers keep what they have replaced for days, so their files only become more; ``--retention none`` has
them remove it at once, as our Cleaner does. Files and bytes are what lies in the tables' directories, logs and metadata
included. Rounds of the warm-up are rounds like the others that do not count. In the end all must give the same rows.
A round of one system comes after that of another, so ratios of CPU are of the same run. ``--minutes`` ends with the
round in which so many have passed.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from formats import Delta, HiveAcid, Iceberg, plain
from measure import CpuMeter, jvm_pid, parser_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from formats import Format
    from pyspark.sql import DataFrame, SparkSession

TABLES = ("orders", "lineitem")
KINDS = ("thresholds", "benefit", "iceberg", "delta")
KEYS_OF_A_BLOCK = 32
"""TPC-H uses the first 8 of 32 keys of orders; RF1's have others, so that they are new."""
Q1 = """
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
    sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
    avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
FROM {lineitem} WHERE l_shipdate <= date'1998-09-02'
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus
"""
Q6 = """
SELECT sum(l_extendedprice * l_discount) FROM {lineitem}
WHERE l_shipdate >= date'1994-01-01' AND l_shipdate < date'1995-01-01'
    AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
"""
Q3 = """
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, {orders}, {lineitem}
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
    AND o_orderdate < date'1995-03-15' AND l_shipdate > date'1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10
"""
QUERIES = (Q1, Q6, Q3)
CHECKED = "SELECT count(*), sum(l_orderkey), sum(l_extendedprice) FROM {lineitem}"
SHARE = 1000
"""RF1, RF2 and the DELETE take one in so many."""
CORRECTED = 5
"""Of so many in a thousand lines a correction comes with each round."""


class Aging(Protocol):
    """A system whose tables age."""

    name: str
    format: Format

    def maintain(self) -> str:
        """Its maintenance of all tables, after a round; what it did, in a few words."""

    def close(self) -> None:
        """The end."""


class Ours:
    """Initiator, Worker and Cleaner, as the DAGs run them.

    :param policy: ``hive.acid.initiator.policy``.
    """

    def __init__(self, spark: SparkSession, directory: Path, policy: str) -> None:
        self.name = f"ours, {policy}"
        # Spark runs already, for all systems: what a compaction pays for an application of its own is nothing here.
        settings = {"hive.acid.initiator.policy": policy, "hive.acid.initiator.benefit.job": "0.5"}
        self.format: HiveAcid = HiveAcid(spark, directory / policy, settings)

    def maintain(self) -> str:
        return self.format.maintain()

    def close(self) -> None:
        self.format.close()


class ByIceberg:
    """Two procedures, with their defaults."""

    def __init__(self, spark: SparkSession, directory: Path, *, keeps: bool) -> None:
        self._spark, self._keeps = spark, keeps
        self.format: Iceberg = Iceberg(spark, directory)
        self.name = self.format.name

    def maintain(self) -> str:
        return "; ".join(filter(None, map(self._of, TABLES)))

    def _of(self, table: str) -> str:
        rewritten = self._spark.sql(f"CALL ice.system.rewrite_data_files('db.{table}')").collect()[0]
        now = "" if self._keeps else ", older_than => current_timestamp(), retain_last => 1"
        self._spark.sql(f"CALL ice.system.expire_snapshots(table => 'db.{table}'{now})").collect()
        return f"{table}: {rewritten[0]} files" if rewritten[0] else ""

    def close(self) -> None:
        """Nothing to close."""


class ByDelta:
    """Two statements, with their defaults."""

    def __init__(self, spark: SparkSession, directory: Path, *, keeps: bool) -> None:
        self._spark, self._keeps = spark, keeps
        self.format: Delta = Delta(spark, directory)
        self.name = self.format.name

    def maintain(self) -> str:
        return "; ".join(filter(None, map(self._of, TABLES)))

    def _of(self, table: str) -> str:
        metrics = self._spark.sql(f"OPTIMIZE {self.format.place(table)}").select("metrics").collect()[0][0]
        if not self._keeps:
            self._spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self._spark.sql(f"VACUUM {self.format.place(table)}" + ("" if self._keeps else " RETAIN 0 HOURS")).collect()
        return f"{table}: {metrics.numFilesRemoved} files" if metrics.numFilesRemoved else ""

    def close(self) -> None:
        """Nothing to close."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a part of a round took, in seconds."""

    cpu: float
    wall: float


@dataclass(slots=True)
class Round:
    """One round of one system.

    :param files: that lie in its directories afterwards, and ``bytes`` of them.
    :param done: what maintenance did.
    """

    parts: dict[str, Part] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    done: str = ""


def main() -> None:
    """Make the data, let the tables age, print each round and a summary in Markdown."""
    parser = parser_of(__doc__, rounds=20, minutes=0)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H's scale factor; 1 is 6 million lines")
    parser.add_argument("--only", default=",".join(KINDS), help="systems")
    parser.add_argument("--retention", choices=("default", "none"), default="default", help="of both peers")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(KINDS):
        parser.error(f"--only takes {', '.join(KINDS)}, not {', '.join(sorted(unknown))}")
    from peers import in_environment, session

    in_environment(__file__)
    directory = Path(tempfile.mkdtemp(prefix="hive-acid-longevity-"))
    spark = session(arguments.cores, directory)
    # VACUUM lists a table in so many tasks, 10,000 by default: on two cores that would be all that Delta does.
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", str(2 * arguments.cores))
    systems: list[Aging] = []
    try:
        sources = Sources(spark, directory / "sources", arguments.rounds + arguments.warm_up)
        sources.make(generated(spark, directory / "tpch", arguments.scale))
        keeps = arguments.retention == "default"
        make: dict[str, Callable[[], Aging]] = {
            "thresholds": partial(Ours, spark, directory, "thresholds"),
            "benefit": partial(Ours, spark, directory, "benefit"),
            "iceberg": partial(ByIceberg, spark, directory, keeps=keeps),
            "delta": partial(ByDelta, spark, directory, keeps=keeps),
        }
        systems = [make[kind]() for kind in chosen]
        found = age(spark, systems, sources, arguments.rounds, arguments.warm_up, arguments.minutes)
        rounds = min(map(len, found.values()))
        print(summary(found, f"scale {arguments.scale:g}, {rounds} rounds"))
    finally:
        for system in systems:
            system.close()
        spark.stop()
        shutil.rmtree(directory)


def generated(spark: SparkSession, directory: Path, scale: float) -> dict[str, DataFrame]:
    """TPC-H's tables as ``tpchgen-cli`` makes them, by name."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    command = [program, "parquet", "-s", str(scale), "-T", "customer,orders,lineitem", "-o", directory]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {name: spark.read.parquet(str(directory / f"{name}.parquet")) for name in ("customer", *TABLES)}


class Sources:
    """What the rounds write, as plain ORC files made beforehand, so that reading it costs all systems the same.

    :param rounds: so many are prepared, those of the warm-up included.
    """

    def __init__(self, spark: SparkSession, directory: Path, rounds: int) -> None:
        self._spark = spark
        self._directory = directory
        self._rounds = rounds
        self.ranges: list[tuple[int, int]] = []
        """Of each round the keys of the orders that RF2 deletes."""

    def place(self, name: str, number: int | None = None) -> Path:
        """Where the rows of a table lie, or those of a round."""
        return self._directory / (name if number is None else f"{name}-{number}")

    def make(self, tables: Mapping[str, DataFrame]) -> None:
        """Write all of them.

        :param tables: TPC-H's customer, orders and lineitem.
        """
        for name in ("customer", *TABLES):
            self._write(tables[name], self.place(name))
        orders, lines = (plain(self._spark, self.place(name)) for name in TABLES)
        first, last = orders.selectExpr("min(o_orderkey)", "max(o_orderkey)").collect()[0]
        for number in range(self._rounds):
            low = first + number * (last - first) // self._rounds
            self.ranges.append((low, low + (last - first) // SHARE))
            for table, rows, key in (("orders", orders, "o_orderkey"), ("lineitem", lines, "l_orderkey")):
                new = rows.where(f"pmod(xxhash64({key}), {SHARE}) = {number}")
                shifted = [f"{key} + 8 as {key}" if column == key else column for column in rows.columns]
                self._write(new.selectExpr(*shifted).coalesce(1), self.place(f"new-{table}", number))
            wanted = f"pmod(xxhash64(l_orderkey, l_linenumber, {number}), 1000) < {CORRECTED}"
            is_new = "pmod(l_partkey, 10) = 0"
            changed = {
                "l_linenumber": f"if({is_new}, l_linenumber + 8, l_linenumber)",
                "l_quantity": "cast(l_quantity + 1 as decimal(15,2))",
                "l_comment": f"'correction {number}'",
            }
            columns = [f"{changed[c]} as {c}" if c in changed else c for c in lines.columns]
            self._write(lines.where(wanted).selectExpr(*columns).coalesce(1), self.place("corrections", number))

    def _write(self, rows: DataFrame, place: Path) -> None:
        rows.write.option("compression", "zlib").orc(str(place))


def age(
    spark: SparkSession, systems: Sequence[Aging], sources: Sources, rounds: int, warm_up: int, minutes: int = 0
) -> dict[str, list[Round]]:
    """Let all tables age, and compare their rows in the end.

    :param minutes: after so many no other round begins, if one has counted; 0: all rounds.
    :return: the rounds that count, by name of the system.
    """
    for system in systems:
        for table in TABLES:
            system.format.create(table, sources.place(table))
        system.format.define_view("customer", sources.place("customer"))
    meter = CpuMeter(jvm_pid(spark))
    found: dict[str, list[Round]] = {system.name: [] for system in systems}
    print("| round | system | changes, CPU s / wall s | queries | maintenance | files | MB | maintenance did |")
    print("|" + "---|" * 8, flush=True)
    until = time.monotonic() + (minutes * 60 if minutes else float("inf"))
    for number in range(rounds + warm_up):
        if number > warm_up and time.monotonic() > until:
            break
        turn = number % len(systems)
        for system in (*systems[turn:], *systems[:turn]):
            one = _round(spark, meter, system, sources, number)
            if number >= warm_up:
                found[system.name].append(one)
            cells = " | ".join(f"{one.parts[name].cpu:.2f} / {one.parts[name].wall:.2f}" for name in one.parts)
            which = f"{number - warm_up + 1}" if number >= warm_up else "warm-up"
            print(
                f"| {which} | {system.name} | {cells} | {one.files} | {one.bytes / 1e6:.1f} | {one.done} |", flush=True
            )
    require_same({system.name: system.format.query(_named(system, CHECKED)) for system in systems})
    return found


def _round(spark: SparkSession, meter: CpuMeter, system: Aging, sources: Sources, number: int) -> Round:
    one = Round()
    steps: dict[str, Callable[[], object]] = {
        "changes": partial(_change, system.format, sources, number),
        "queries": lambda: [system.format.query(_named(system, query)) for query in QUERIES],
        "maintenance": system.maintain,
    }
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    for name, run in steps.items():
        cpu, wall = meter.seconds(), time.perf_counter()
        result = run()
        wall, cpu = time.perf_counter() - wall, meter.seconds() - cpu
        one.parts[name] = Part(cpu, wall)
        if name == "maintenance":
            one.done = str(result)
    sizes = [file.stat().st_size for table in TABLES for file in _files(system.format.directory(table))]
    one.files, one.bytes = len(sizes), sum(sizes)
    return one


def _change(format: Format, sources: Sources, number: int) -> None:
    """RF1, RF2, the MERGE and the DELETE of one round."""
    orders, lines = (format.place(table) for table in TABLES)
    for table in TABLES:
        format.append(table, sources.place(f"new-{table}", number))
    low, high = sources.ranges[number]
    format.run(f"DELETE FROM {orders} WHERE o_orderkey BETWEEN {low} AND {high}")  # noqa: S608 - numbers of our own
    format.run(f"DELETE FROM {lines} WHERE l_orderkey BETWEEN {low} AND {high}")  # noqa: S608
    format.define_view("corrections", sources.place("corrections", number))
    format.run(merge(lines))
    format.run(f"DELETE FROM {lines} WHERE pmod(l_partkey, {SHARE}) = {number}")  # noqa: S608


def merge(lines: str) -> str:
    """The MERGE of corrections into the lines."""
    columns = (
        "l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_discount", "l_tax",
        "l_returnflag", "l_linestatus", "l_shipdate", "l_commitdate", "l_receiptdate", "l_shipinstruct", "l_shipmode",
        "l_comment",
    )  # fmt: skip
    values = ", ".join(f"c.{column}" for column in columns)
    return (
        f"MERGE INTO {lines} l USING corrections c ON l.l_orderkey = c.l_orderkey AND l.l_linenumber = c.l_linenumber "  # noqa: S608
        "WHEN MATCHED THEN UPDATE SET l_quantity = c.l_quantity, l_comment = c.l_comment "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    )


def _named(system: Aging, query: str) -> str:
    return query.format(**{table: system.format.place(table) for table in TABLES})


def _files(directory: Path) -> Iterable[Path]:
    return (file for file in directory.rglob("*") if file.is_file() and file.suffix != ".crc")


def require_same(found: Mapping[str, list[list[Any]]]) -> None:
    """Stop when the systems do not hold the same rows: a benchmark of wrong answers says nothing."""
    texts = {name: [[str(value) for value in row] for row in rows] for name, rows in found.items()}
    first = next(iter(texts))
    for name, rows in texts.items():
        if rows != texts[first]:
            sys.exit(f"{name} holds {rows}, and {first} {texts[first]}")


def summary(found: Mapping[str, list[Round]], title: str) -> str:
    """A line for each system, and who is ahead."""
    lines = [
        f"| {title} | queries, first rounds, CPU s | last rounds | degradation | changes, CPU s | queries | "
        "maintenance | total CPU s | wall s | files | MB |",
        "|" + "---|" * 11,
    ]
    degraded, total = {}, {}
    for name, rounds in found.items():
        few = max(1, len(rounds) // 5)
        queries = [one.parts["queries"].cpu for one in rounds]
        first, last = statistics.median(queries[:few]), statistics.median(queries[-few:])
        sums = [sum(one.parts[part].cpu for one in rounds) for part in ("changes", "queries", "maintenance")]
        wall = sum(part.wall for one in rounds for part in one.parts.values())
        degraded[name], total[name] = last / first, sum(sums)
        lines.append(
            f"| {name} | {first:.2f} | {last:.2f} | **{degraded[name]:.2f}** | "
            + " | ".join(f"{value:.1f}" for value in sums)
            + f" | **{total[name]:.1f}** | {wall:.1f} | {rounds[-1].files} | {rounds[-1].bytes / 1e6:.1f} |"
        )
    least, lowest = min(degraded, key=lambda name: degraded[name]), min(total, key=lambda name: total[name])
    return "\n".join([*lines, "", f"Degrades least: **{least}**. Lowest total CPU: **{lowest}**."])


if __name__ == "__main__":
    main()
