"""Iceberg and Delta for real: their jars, and a Spark of its own, in build/mirror (``make test-mirror``).

The tests run in that Spark's Python, so that a run can be stopped at a certain place, or meet another one there; two
tests start it by spark-submit, as users do.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.mirrors.runner import run_mirror, verify_mirror
from tests.in_process import InProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from airflow_hive_acid.mirrors.reports import MirrorReport, Verification

HOME = Path(__file__).parents[2] / "build" / "mirror"
ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def conf_of(directory: Path) -> dict[str, str]:
    """Spark settings with two catalogs of Iceberg, ``ice`` (Hadoop) and ``sq`` (JDBC on SQLite), and Delta."""
    catalog = "spark.sql.catalog"
    iceberg = "org.apache.iceberg.spark.SparkCatalog"
    return {
        "spark.jars": ",".join(str(jar) for jar in sorted((HOME / "jars").glob("*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        f"{catalog}.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        f"{catalog}.ice": iceberg,
        f"{catalog}.ice.type": "hadoop",
        f"{catalog}.ice.warehouse": str(directory / "ice"),
        f"{catalog}.sq": iceberg,
        f"{catalog}.sq.type": "jdbc",
        f"{catalog}.sq.uri": f"jdbc:sqlite:{directory / 'catalog.db'}",
        f"{catalog}.sq.warehouse": str(directory / "sq"),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


@pytest.fixture(scope="session")
def mirror_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the catalogs of this session lie."""
    return tmp_path_factory.mktemp("mirrors")


@pytest.fixture(scope="session")
def mirror_spark(mirror_home: Path) -> Iterator[SparkSession]:
    """The Spark that has Iceberg and Delta."""
    from pyspark.version import __version__

    from airflow_hive_acid.spark.session import session_builder

    assert __version__.startswith("4.1."), "these tests run in the Spark of build/mirror: make test-mirror"
    session = session_builder("local[2]", "mirrors").config(map=conf_of(mirror_home)).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


class Mirroring:
    """A metastore with an engine, and mirrors of its tables.

    :ivar started: how often an engine was asked for.
    """

    def __init__(self, client: MetastoreClient, engine: Engine, spark: SparkSession) -> None:
        self.client = client
        self.engine = engine
        self.spark = spark
        self.started = 0

    def sql(self, *statements: str) -> None:
        """Run statements."""
        for statement in statements:
            self.engine.run(statement)

    def rows(self, query: str) -> list[list[Any]]:
        """Rows of a query."""
        return self.engine.query(query).rows

    def opened(self) -> contextlib.AbstractContextManager[Engine]:
        """The engine, for a run of a mirror that needs one."""
        self.started += 1
        return contextlib.nullcontext(self.engine)

    def run(self, target: str, key: Sequence[str] | None = None, table: str = "default.t", **how: Any) -> MirrorReport:
        """One run of a mirror."""
        return run_mirror(self.client, self.opened, table, target, key=key, **how)

    def verify(self, target: str, table: str = "default.t") -> Verification:
        """Compare both sides."""
        return verify_mirror(self.client, self.engine, table, target)

    def follow(self, target: str, key: Sequence[str] | None = None, todo: str = "follow") -> MirrorReport:
        """One run does this, another one nothing and without Spark, and both sides are equal."""
        report = self.run(target, key)
        assert (report.todo, report.spark) == (todo, True), report.reason
        self.same(target)
        return report

    def same(self, target: str) -> None:
        """There is nothing to do, and both sides are equal."""
        started = self.started
        report = self.run(target)
        assert (report.todo, report.spark, self.started) == ("nothing", False, started), report.reason
        found = self.verify(target)
        assert found.is_equal, found.different
        assert found.source_rows == found.target_rows == self.rows("SELECT count(*) FROM t")[0][0]

    def in_target(self, target: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """Rows of the target, as Spark reads them."""
        kind, _, place = target.partition(":")
        name = f"delta.`{place}`" if kind == "delta" else place
        if kind == "iceberg":
            self.spark.sql(f"REFRESH TABLE {name}")
        return sorted((tuple(row) for row in self.spark.sql(f"SELECT {columns} FROM {name}").collect()), key=str)


@pytest.fixture
def mirroring(client: MetastoreClient, warehouse: str, mirror_spark: SparkSession, tmp_path: Path) -> Mirroring:
    """Mirrors on a fresh metastore."""
    engine = Engine(client, InProcess(mirror_spark, tmp_path), warehouse, agent_info="mirror")
    return Mirroring(client, engine, mirror_spark)


@pytest.fixture
def other(
    metastore_url: str, warehouse: str, mirror_spark: SparkSession, tmp_path: Path, mirroring: Mirroring
) -> Iterator[Mirroring]:
    """Another process on the same metastore."""
    with MetastoreClient(metastore_url) as client:
        engine = Engine(client, InProcess(mirror_spark, tmp_path), warehouse, agent_info="other")
        yield Mirroring(client, engine, mirror_spark)
