"""What our tables, Delta Lake and Apache Iceberg cost for the same work, as ratios to plain ORC, and who is ahead.

    python benchmarks/peers.py [--rows 5000000] [--rounds 3] [--warm-up 1] [--cores 2] [--only writes,changes]

All run in one application of the newest Spark that all support, in turns. The first run makes an environment of its own
in ``build/peers`` (PySpark from PyPI, jars through Maven, our jar for that Spark). Delta has deletion vectors on,
Iceberg is merge-on-read of format 3, ours go through the engine on a metastore in SQLite, once with Hive's codec (zlib)
and once with the codec of both peers (zstd). Not part of any test.

A cell is CPU seconds of driver and JVM, then CPU and wall time as ratios to plain ORC. The last column names who took
least CPU; those whose best round was no slower than the worst of the first are named as level with it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from formats import DELTA, ICEBERG, Delta, HiveAcid, Iceberg, plain
from measure import parser_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from formats import Format
    from measure import Samples
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "build" / "peers"
SPARK = "4.1"  # the newest one that both peers have jars for
ARTIFACTS = (
    f"io.delta:delta-spark_{SPARK}_2.13:{DELTA}",
    f"io.delta:delta-storage:{DELTA}",
    f"org.apache.iceberg:iceberg-spark-runtime-{SPARK}_2.13:{ICEBERG}",
)
TPCH = "4.0.0"
"""Of ``tpchgen-cli``, which ``longevity.py`` takes its data from."""
ORC, PARQUET = "plain ORC", "plain Parquet"
CODEC = "ZSTD"
"""That of the peers' files. Ours have it in a second column, and in the first one zlib, as Hive's tables."""
COMMITS, COMMIT_ROWS = 20, 50_000
ONE_PERCENT = "pmod(id, 100) = 7"
MERGE = """
MERGE INTO {} t USING merged s ON t.id = s.new_id
WHEN MATCHED THEN UPDATE SET name = s.new_name, k = s.new_k
WHEN NOT MATCHED THEN INSERT (id, name, k) VALUES (s.new_id, s.new_name, s.new_k)
"""


def main() -> None:
    """Make the environment if it is missing, measure in it, print a table in Markdown."""
    parser = parser_of(__doc__, rows=5_000_000)
    parser.add_argument("--only", default="writes,commits,reads,changes", help="groups of operations to measure")
    arguments = parser.parse_args()
    unknown = set(arguments.only.split(",")) - set(parser.get_default("only").split(","))
    if unknown:
        parser.error(f"--only takes {parser.get_default('only')}, not {', '.join(sorted(unknown))}")
    in_environment(__file__)
    measure(arguments)


def in_environment(program: str) -> None:
    """Go on in the environment, which is made if it is missing; outside of it the program runs there, and this ends."""
    python = HOME / "venv" / "bin" / "python"
    if Path(sys.prefix) == HOME / "venv":
        return
    prepare(python)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    environment.pop("SPARK_HOME", None)
    sys.exit(subprocess.run([python, program, *sys.argv[1:]], env=environment, check=False).returncode)


def prepare(python: Path) -> None:
    """An environment with PySpark and our packages, and the jars; what is there is kept."""
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", HOME / "venv"], check=True)
    if not list(HOME.glob(f"venv/lib/python*/site-packages/pyspark-{SPARK}.*")):
        print(f"installing PySpark {SPARK} into {HOME}", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "-q", f"pyspark=={SPARK}.*"], check=True)
    if not list(HOME.glob(f"venv/lib/python*/site-packages/tpchgen_cli-{TPCH}.*")):
        subprocess.run([python, "-m", "pip", "install", "-q", f"tpchgen-cli=={TPCH}"], check=True)
    # PySpark is its own, everything else is that of the project; what stands in a .pth comes last.
    (packages,) = HOME.glob("venv/lib/python*/site-packages")
    (packages / "project.pth").write_text(sysconfig.get_path("purelib") + "\n")
    build = [sys.executable, ROOT / "scripts" / "build_accelerator.py", "--spark-home", packages / "pyspark"]
    subprocess.run(build, check=True, stdout=sys.stderr)
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
    """A session with both peers and our jar, otherwise like that of the other benchmarks."""
    from pyspark.sql import SparkSession

    from airflow_hive_acid.engine.applications.spark_conf import accelerator_jar
    from airflow_hive_acid.engine.applications.spark_version import spark_of_python
    from airflow_hive_acid.spark.conf import GENERATED_CLASSES

    jars = [*sorted((HOME / "jars").glob("*.jar")), accelerator_jar("auto", spark_of_python())]
    spark = (
        SparkSession.builder.appName("peers")
        .master(f"local[{cores}]")
        .config("spark.jars", ",".join(map(str, jars)))
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
        .config("spark.driver.memory", "5g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config(map=GENERATED_CLASSES)  # as in applications of ours; it is for all
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


def measure(arguments: argparse.Namespace) -> None:
    """Everything after the environment is there."""
    from tables import generated, write_plain

    directory = Path(tempfile.mkdtemp(prefix="hive-acid-peers-"))
    spark = session(arguments.cores, directory)
    ours = [HiveAcid(spark, directory, codec=codec) for codec in (None, CODEC)]
    try:
        sources = {name: directory / "sources" / name for name in ("all", "few", "merged")}
        write_plain(generated(spark, arguments.rows), sources["all"])
        write_plain(generated(spark, COMMIT_ROWS).repartition(2), sources["few"])
        step = max(1, arguments.rows // 50_000)
        new_id = f"id * {step} + if(id < 50000, 0, {arguments.rows})"
        merged = spark.range(100_000).selectExpr(
            f"{new_id} as new_id", "concat('m', id) as new_name", "cast(id as int) as new_k"
        )
        write_plain(merged, sources["merged"])
        plain(spark, sources["merged"]).createOrReplaceTempView("merged")
        for one in ours:
            one.define_view("merged", sources["merged"])
        peers = [Iceberg(spark, directory), Delta(spark, directory)]
        bench = Bench(spark, arguments, directory, sources, [*ours, *peers])
        kinds = [f"{ORC}, CPU s / wall s", PARQUET, *(f.name for f in bench.formats)]
        print(f"| {arguments.rows:,} rows, {arguments.rounds} rounds | {' | '.join(kinds)} | least CPU |")
        print("|" + "---|" * (len(kinds) + 2), flush=True)
        for group in arguments.only.split(","):
            getattr(bench, group)()
    finally:
        for one in ours:
            one.close()
        spark.stop()
        shutil.rmtree(directory)


class Bench:
    """The operations; each prints lines of the table when it is done.

    :param sources: directories of plain ORC files: all rows, those of a small commit, those of MERGE.
    """

    def __init__(
        self,
        spark: SparkSession,
        arguments: argparse.Namespace,
        directory: Path,
        sources: Mapping[str, Path],
        formats: list[Format],
    ) -> None:
        self.spark = spark
        self.arguments = arguments
        self.directory = directory
        self.formats = formats
        self.rows, self.few = sources["all"], sources["few"]

    def writes(self) -> None:
        """All rows in one commit."""
        written = {f.name: partial(f.create, "written", self.rows) for f in self.formats}
        self._print("insert", self._measured({**self._copies(), **written}))

    def _copies(self) -> dict[str, Callable[[], object]]:
        """What inserts and changes are compared with: writing all rows to plain files."""
        return {
            ORC: lambda: self._plain("orc", self.rows, "copy.orc"),
            PARQUET: lambda: self._plain("parquet", self.rows, "copy.parquet"),
        }

    def commits(self) -> None:
        """Small commits one after the other."""

        def copies(kind: str) -> None:
            for number in range(COMMITS):
                self._plain(kind, self.few, f"small.{kind}/{number}")

        def append(one: Format) -> None:
            for _ in range(COMMITS):
                one.append("small", self.few)

        for one in self.formats:
            one.create("small", self.few)
        variants: dict[str, Callable[[], object]] = {ORC: lambda: copies("orc"), PARQUET: lambda: copies("parquet")}
        variants |= {one.name: partial(append, one) for one in self.formats}
        self._print(f"{COMMITS} commits of {COMMIT_ROWS:,} rows", self._measured(variants))

    def reads(self) -> None:
        """Three queries of read.py, without deletes and with 1 % and 50 % of the rows deleted."""
        from tables import AGGREGATE

        self._plain("orc", self.rows, "read.orc")
        self._plain("parquet", self.rows, "read.parquet")
        schema = plain(self.spark, self.rows).schema
        for kind in ("orc", "parquet"):
            files = self.spark.read.schema(schema).format(kind).load(str(self.directory / f"read.{kind}"))
            files.createOrReplaceTempView(f"plain_{kind}")
        low = self.arguments.rows // 5
        queries = {
            "full scan": f"SELECT {', '.join(AGGREGATE)} FROM {{}}",
            "count(*)": "SELECT count(*) FROM {}",
            "0.1 % by id": f"SELECT sum(x), count(1) FROM {{}} "
            f"WHERE id BETWEEN {low} AND {low + self.arguments.rows // 1000}",
        }
        for deleted in (0, 1, 50):
            table = f"deleted{deleted}"
            for one in self.formats:
                one.create(table, self.rows)
                if deleted:
                    one.change(f"DELETE FROM {{}} WHERE pmod(xxhash64(id, 99), 100) < {deleted}", table)
            for name, query in queries.items():
                variants: dict[str, Callable[[], object]] = {
                    ORC: lambda q=query: self.spark.sql(q.format("plain_orc")).collect(),
                    PARQUET: lambda q=query: self.spark.sql(q.format("plain_parquet")).collect(),
                }
                variants |= {one.name: partial(one.read, query, table) for one in self.formats}
                self._print(f"{name}, {deleted} % deleted", self._measured(variants))

    def changes(self) -> None:
        """UPDATE, DELETE, MERGE and compaction (of a table with deletes), against writing plain copies of all rows."""
        for one in self.formats:
            one.create("changed", self.rows)
            one.create("dirty", self.rows)
            one.change("DELETE FROM {} WHERE pmod(id, 10) = 3", "dirty")
        statements = {
            "update 1 %": f"UPDATE {{}} SET name = 'changed' WHERE {ONE_PERCENT}",
            "delete 1 %": f"DELETE FROM {{}} WHERE {ONE_PERCENT}",
            "merge 100,000 rows": MERGE,
        }
        runs: dict[str, tuple[str, dict[str, Callable[[], object]]]] = {
            name: ("changed", {f.name: partial(f.change, statement, "changed") for f in self.formats})
            for name, statement in statements.items()
        }
        runs["major compaction, 10 % deleted"] = ("dirty", {f.name: partial(f.compact, "dirty") for f in self.formats})
        measured: dict[str, Callable[[], object]] = dict(self._copies())
        resets: dict[str, Callable[[], object]] = {}
        states = {(f.name, table): f.state(table) for f in self.formats for table in ("changed", "dirty")}
        for name, (table, by_format) in runs.items():
            for one in self.formats:
                measured[f"{name}, {one.name}"] = by_format[one.name]
                # Each round on the same state; bringing it back is not measured.
                resets[f"{name}, {one.name}"] = partial(one.bring_back, table, states[one.name, table])
        found = self._measured(measured, resets)
        for name in runs:
            mine = {one.name: found[f"{name}, {one.name}"] for one in self.formats}
            self._print(name, {ORC: found[ORC], PARQUET: found[PARQUET], **mine})

    def _plain(self, kind: str, rows: Path, name: str) -> None:
        writer: DataFrame = plain(self.spark, rows)
        # Hive's codec for ORC; for Parquet what both peers use by default.
        compression = "zlib" if kind == "orc" else "zstd"
        writer.write.mode("overwrite").option("compression", compression).format(kind).save(str(self.directory / name))

    def _measured(
        self, variants: Mapping[str, Callable[[], object]], resets: Mapping[str, Callable[[], object]] | None = None
    ) -> dict[str, Samples]:
        from measure import interleaved

        return interleaved(self.spark, variants, self.arguments.rounds, self.arguments.warm_up, resets)

    def _print(self, name: str, found: Mapping[str, Samples]) -> None:
        cpu = {kind: statistics.median(samples.cpu) for kind, samples in found.items()}
        wall = {kind: statistics.median(samples.wall) for kind, samples in found.items()}
        cells = [f"{cpu[ORC]:.2f} / {wall[ORC]:.2f}"]
        for kind in (PARQUET, *(one.name for one in self.formats)):
            cells.append(f"{cpu[kind]:.2f}: **{cpu[kind] / cpu[ORC]:.2f}** / {wall[kind] / wall[ORC]:.2f}")
        print(
            f"| {name} | {' | '.join(cells)} | {ahead({f.name: found[f.name].cpu for f in self.formats})} |", flush=True
        )


def ahead(found: Mapping[str, list[float]]) -> str:
    """Whose median is the least, and those that differ from it by no more than the rounds differ among themselves."""
    first = min(found, key=lambda name: statistics.median(found[name]))
    level = [name for name, cpu in found.items() if name != first and min(cpu) <= max(found[first])]
    return f"**{first}**" + (f", level: {', '.join(level)}" if level else "")


if __name__ == "__main__":
    main()
