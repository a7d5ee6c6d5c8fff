"""What Delta Lake and Apache Iceberg cost for the work of dml.py and read.py, as ratios to plain ORC and Parquet.

    python benchmarks/peers.py [--rows 5000000] [--rounds 3] [--warm-up 1] [--cores 2] [--only writes,changes]

They do not run on the Spark of this project yet, so the first run makes an environment of its own in ``build/peers``
(PySpark from PyPI, jars through Maven) and everything is measured there, in one JVM and in turns. Delta has deletion
vectors on, Iceberg is merge-on-read of format 3. Not part of any test.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from measure import parser_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from measure import Samples
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "peers"
SPARK = "4.1"  # the newest one that both have jars for
DELTA, ICEBERG = "4.4.0", "1.12.0"
ARTIFACTS = (
    f"io.delta:delta-spark_{SPARK}_2.13:{DELTA}",
    f"io.delta:delta-storage:{DELTA}",
    f"org.apache.iceberg:iceberg-spark-runtime-{SPARK}_2.13:{ICEBERG}",
)
ORC, PARQUET = "plain ORC", "plain Parquet"
COMMITS, COMMIT_ROWS = 20, 50_000
ONE_PERCENT = "pmod(id, 100) = 7"


def main() -> None:
    """Make the environment if it is missing, measure in it, print a table in Markdown."""
    parser = parser_of(__doc__, rows=5_000_000)
    parser.add_argument("--only", default="writes,commits,reads,changes", help="groups of operations to measure")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(parser.get_default("only").split(","))
    if unknown:
        parser.error(f"--only takes {parser.get_default('only')}, not {', '.join(sorted(unknown))}")
    python = HOME / "venv" / "bin" / "python"
    if Path(sys.prefix) != HOME / "venv":
        prepare(python)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
        environment.pop("SPARK_HOME", None)
        sys.exit(subprocess.run([python, __file__, *sys.argv[1:]], env=environment, check=False).returncode)
    measure(arguments)


def prepare(python: Path) -> None:
    """An environment with PySpark, and the jars; what is there is kept."""
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
    if not list(HOME.glob(f"venv/lib/python*/site-packages/pyspark-{SPARK}.*")):
        print(f"installing PySpark {SPARK} into {HOME}", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "-q", f"pyspark=={SPARK}.*"], check=True)
    for artifact in ARTIFACTS:
        _, name, version = artifact.split(":")
        if not (HOME / "jars" / f"{name}-{version}.jar").exists():
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
            where = f"-DoutputDirectory={HOME / 'jars'}"
            maven = shutil.which("mvn")
            if maven is None:
                sys.exit("Maven is needed to fetch the jars: install it (Debian: apt-get install maven)")
            subprocess.run([maven, "-q", "-B", goal, f"-Dartifact={artifact}", where], check=True, cwd=HOME)


def session(cores: int, directory: Path) -> SparkSession:
    """A session with both peers, otherwise like that of the other benchmarks."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.appName("peers")
        .master(f"local[{cores}]")
        .config("spark.jars", ",".join(map(str, sorted((HOME / "jars").glob("*.jar")))))
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.driver.memory", "5g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.sql.autoBroadcastJoinThreshold", "64MB")
        .config(
            "spark.sql.extensions",
            "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        )
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", str(directory / "ice"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Peer(Protocol):
    """A table format: tables by name, each with a state that can be brought back."""

    name: str

    def create(self, table: str, rows: DataFrame) -> None:
        """A table with these rows; it replaces one of that name."""

    def append(self, table: str, rows: DataFrame) -> None:
        """One commit."""

    def sql_name(self, table: str) -> str:
        """How statements name the table."""

    def compact(self, table: str) -> None:
        """Rewrite it without deletes."""

    def state(self, table: str) -> int:
        """What :meth:`bring_back` takes."""

    def bring_back(self, table: str, state: int) -> None:
        """Undo what was committed since."""


class Delta:
    """Delta Lake with deletion vectors."""

    name = f"Delta {DELTA}"

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory

    def sql_name(self, table: str) -> str:
        return f"delta.`{self._directory / table}`"

    def create(self, table: str, rows: DataFrame) -> None:
        shutil.rmtree(self._directory / table, ignore_errors=True)
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema)
        self._spark.sql(
            f"CREATE TABLE {self.sql_name(table)} ({columns}) USING delta "
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        self.append(table, rows)

    def append(self, table: str, rows: DataFrame) -> None:
        rows.write.format("delta").mode("append").save(str(self._directory / table))

    def compact(self, table: str) -> None:
        self._spark.sql(f"OPTIMIZE {self.sql_name(table)}").collect()

    def state(self, table: str) -> int:
        history = self._spark.sql(f"DESCRIBE HISTORY {self.sql_name(table)} LIMIT 1")
        return int(history.select("version").collect()[0][0])

    def bring_back(self, table: str, state: int) -> None:
        self._spark.sql(f"RESTORE TABLE {self.sql_name(table)} TO VERSION AS OF {state}").collect()


class Iceberg:
    """Apache Iceberg, merge-on-read."""

    name = f"Iceberg {ICEBERG}"

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark

    def sql_name(self, table: str) -> str:
        return f"ice.db.{table}"

    def create(self, table: str, rows: DataFrame) -> None:
        self._spark.sql(f"DROP TABLE IF EXISTS {self.sql_name(table)} PURGE")
        writer = rows.writeTo(self.sql_name(table)).using("iceberg").tableProperty("format-version", "3")
        for kind in ("update", "delete", "merge"):
            writer = writer.tableProperty(f"write.{kind}.mode", "merge-on-read")
        writer.create()

    def append(self, table: str, rows: DataFrame) -> None:
        rows.writeTo(self.sql_name(table)).append()

    def compact(self, table: str) -> None:
        self._spark.sql(
            f"CALL ice.system.rewrite_data_files(table => 'db.{table}', options => map('rewrite-all', 'true', "
            "'remove-dangling-deletes', 'true', 'max-concurrent-file-group-rewrites', '2'))"
        ).collect()

    def state(self, table: str) -> int:
        newest = "SELECT snapshot_id FROM {}.snapshots ORDER BY committed_at DESC LIMIT 1"
        return int(self._spark.sql(newest.format(self.sql_name(table))).collect()[0][0])

    def bring_back(self, table: str, state: int) -> None:
        self._spark.sql(f"CALL ice.system.rollback_to_snapshot('db.{table}', {state})").collect()


def measure(arguments: argparse.Namespace) -> None:
    """Everything after the environment is there."""
    from tables import generated, write_plain

    directory = Path(tempfile.mkdtemp(prefix="hive-acid-peers-"))
    spark = session(arguments.cores, directory)
    try:
        source = directory / "sources" / "all"
        write_plain(generated(spark, arguments.rows), source)
        small = directory / "sources" / "few"
        write_plain(generated(spark, COMMIT_ROWS).repartition(2), small)
        peers: list[Peer] = [Delta(spark, directory), Iceberg(spark, directory)]
        bench = Bench(spark, arguments, directory, source, small, peers)
        print(
            f"| {arguments.rows:,} rows, {arguments.rounds} rounds | {ORC}, CPU s | {PARQUET}, x ORC | "
            + " | ".join(f"{p.name}, CPU s | x ORC | x Parquet" for p in peers)
            + " |\n|"
            + "---|" * (3 + 3 * len(peers))
        )
        for group in arguments.only.split(","):
            getattr(bench, group)()
    finally:
        spark.stop()
        shutil.rmtree(directory)


class Bench:
    """The operations; each prints lines of the table when it is done."""

    def __init__(
        self,
        spark: SparkSession,
        arguments: argparse.Namespace,
        directory: Path,
        source: Path,
        small: Path,
        peers: list[Peer],
    ) -> None:
        self.spark = spark
        self.arguments = arguments
        self.directory = directory
        self.peers = peers
        schema = spark.read.orc(str(source)).schema
        self.rows = spark.read.schema(schema).orc(str(source))
        self.few = spark.read.schema(schema).orc(str(small))

    def writes(self) -> None:
        """All rows in one commit."""
        peers = {p.name: (lambda p=p: p.create("written", self.rows)) for p in self.peers}
        self._print("insert", self._measured({**self._copies(), **peers}))

    def _copies(self) -> dict[str, Callable[[], object]]:
        """What inserts and changes are compared with: writing all rows to plain files."""
        return {
            ORC: lambda: self._plain("orc", self.rows, "copy.orc"),
            PARQUET: lambda: self._plain("parquet", self.rows, "copy.parquet"),
        }

    def commits(self) -> None:
        """Small commits one after the other."""

        def plain(kind: str) -> None:
            for number in range(COMMITS):
                self._plain(kind, self.few, f"small.{kind}/{number}")

        def append(peer: Peer) -> None:
            for _ in range(COMMITS):
                peer.append("small", self.few)

        for peer in self.peers:
            peer.create("small", self.few)
        variants: dict[str, Callable[[], object]] = {ORC: lambda: plain("orc"), PARQUET: lambda: plain("parquet")}
        for peer in self.peers:
            variants[peer.name] = lambda peer=peer: append(peer)  # type: ignore[misc]
        self._print(f"{COMMITS} commits of {COMMIT_ROWS:,} rows", self._measured(variants))

    def reads(self) -> None:
        """Three queries of read.py, without deletes and with 1 % and 50 % of the rows deleted."""
        from tables import AGGREGATE

        self._plain("orc", self.rows, "read.orc")
        self._plain("parquet", self.rows, "read.parquet")
        low = self.arguments.rows // 5
        few = f"id between {low} and {low + self.arguments.rows // 1000}"
        queries: dict[str, Callable[[DataFrame], object]] = {
            "full scan": lambda d: d.selectExpr(*AGGREGATE).collect(),
            "count(*)": lambda d: d.count(),
            "0.1 % by id": lambda d: d.where(few).selectExpr("sum(x)", "count(1)").collect(),
        }
        plain: dict[str, Callable[[], DataFrame]] = {
            ORC: lambda: self.spark.read.schema(self.rows.schema).orc(str(self.directory / "read.orc")),
            PARQUET: lambda: self.spark.read.schema(self.rows.schema).parquet(str(self.directory / "read.parquet")),
        }
        for deleted in (0, 1, 50):
            table = f"deleted{deleted}"
            for peer in self.peers:
                peer.create(table, self.rows)
                if deleted:
                    condition = f"pmod(xxhash64(id, 99), 100) < {deleted}"
                    self.spark.sql(f"DELETE FROM {peer.sql_name(table)} WHERE {condition}")
            for name, query in queries.items():
                variants = {kind: (lambda f=frame, q=query: q(f())) for kind, frame in plain.items()}
                for peer in self.peers:
                    variants[peer.name] = lambda p=peer, t=table, q=query: q(self.spark.table(p.sql_name(t)))
                self._print(f"{name}, {deleted} % deleted", self._measured(variants))

    def changes(self) -> None:
        """UPDATE, DELETE, MERGE and compaction (of a table with deletes), against writing plain copies of all rows."""
        step = max(1, self.arguments.rows // 50_000)
        new_id = f"id * {step} + if(id < 50000, 0, {self.arguments.rows})"
        self.spark.range(100_000).selectExpr(
            f"{new_id} as new_id", "concat('m', id) as new_name", "cast(id as int) as new_k"
        ).createOrReplaceTempView("merged")
        for peer in self.peers:
            peer.create("changed", self.rows)
            peer.create("dirty", self.rows)
            self.spark.sql(f"DELETE FROM {peer.sql_name('dirty')} WHERE pmod(id, 10) = 3")
        statements = {
            "update 1 %": f"UPDATE {{}} SET name = 'changed' WHERE {ONE_PERCENT}",
            "delete 1 %": f"DELETE FROM {{}} WHERE {ONE_PERCENT}",
            "merge 100,000 rows": (
                "MERGE INTO {} t USING merged s ON t.id = s.new_id "
                "WHEN MATCHED THEN UPDATE SET name = s.new_name, k = s.new_k "
                "WHEN NOT MATCHED THEN INSERT (id, name, k) VALUES (s.new_id, s.new_name, s.new_k)"
            ),
        }
        runs = {
            name: ("changed", {p.name: partial(self._run, statement, p) for p in self.peers})
            for name, statement in statements.items()
        }
        runs["major compaction, 10 % deleted"] = ("dirty", {p.name: partial(p.compact, "dirty") for p in self.peers})
        measured: dict[str, Callable[[], object]] = dict(self._copies())
        resets: dict[str, Callable[[], object]] = {}
        for name, (table, by_peer) in runs.items():
            for peer in self.peers:
                measured[f"{name}, {peer.name}"] = by_peer[peer.name]
                # Each round on the same state; bringing it back is not measured.
                resets[f"{name}, {peer.name}"] = partial(peer.bring_back, table, peer.state(table))
        found = self._measured(measured, resets)
        for name in runs:
            mine = {peer.name: found[f"{name}, {peer.name}"] for peer in self.peers}
            self._print(name, {ORC: found[ORC], PARQUET: found[PARQUET], **mine})

    def _run(self, statement: str, peer: Peer) -> None:
        self.spark.sql(statement.format(peer.sql_name("changed")))

    def _plain(self, kind: str, rows: DataFrame, name: str) -> None:
        writer = rows.write.mode("overwrite")
        # Hive's codec for ORC; for Parquet what both peers use by default.
        writer.option("compression", "zlib" if kind == "orc" else "zstd").format(kind).save(str(self.directory / name))

    def _measured(
        self, variants: Mapping[str, Callable[[], object]], resets: Mapping[str, Callable[[], object]] | None = None
    ) -> dict[str, Samples]:
        from measure import interleaved

        return interleaved(self.spark, variants, self.arguments.rounds, self.arguments.warm_up, resets)

    def _print(self, name: str, found: Mapping[str, Samples]) -> None:
        cpu = {kind: statistics.median(samples.cpu) for kind, samples in found.items()}
        orc, parquet = cpu[ORC], cpu[PARQUET]
        cells = [f"{orc:.2f}", f"{parquet / orc:.2f}"]
        for peer in self.peers:
            mine = cpu[peer.name]
            cells += [f"{mine:.2f}", f"**{mine / orc:.2f}**", f"{mine / parquet:.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
