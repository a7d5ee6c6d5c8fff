"""Iceberg and Delta for real: their jars, and a Spark of its own, in build/mirror (``make test-mirror``)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.mirrors.runner import run_mirror, verify_mirror
from tests.applications import OneApplication

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.mirrors.reports import MirrorReport, Verification

HOME = Path(__file__).parents[2] / "build" / "mirror"
SUBMIT = HOME / "site" / "pyspark" / "bin" / "spark-submit"


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
    }


@pytest.fixture(scope="session")
def mirror_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the catalogs of this session lie."""
    return tmp_path_factory.mktemp("mirrors")


@pytest.fixture(scope="session")
def launcher(mirror_home: Path) -> SparkSubmitLauncher:
    """Starts a Spark with Iceberg and Delta."""
    return SparkSubmitLauncher(
        "local[2]", conf=conf_of(mirror_home), log_directory=mirror_home / "logs", program=str(SUBMIT)
    )


@pytest.fixture(scope="session")
def application(launcher: SparkSubmitLauncher) -> Iterator[OneApplication]:
    """The same Spark again and again."""
    one = OneApplication(launcher)
    yield one
    one.stop()


class Mirroring:
    """A metastore with an engine, and mirrors of its tables."""

    def __init__(self, client: MetastoreClient, engine: Engine) -> None:
        self.client = client
        self.engine = engine
        self.started = 0

    def sql(self, text: str) -> Any:
        """Run statements."""
        return self.engine.run(text)

    def rows(self, query: str) -> list[list[Any]]:
        """Rows of a query."""
        return self.engine.query(query).rows

    def opened(self) -> contextlib.AbstractContextManager[Engine]:
        """The engine, for a run of a mirror that needs one."""
        self.started += 1
        return contextlib.nullcontext(self.engine)

    def run(self, table: str, target: str, key: Sequence[str] | None = None, **how: Any) -> MirrorReport:
        """One run of a mirror."""
        return run_mirror(self.client, self.opened, table, target, key=key, **how)

    def verify(self, table: str, target: str) -> Verification:
        """Compare both sides."""
        return verify_mirror(self.client, self.engine, table, target)


@pytest.fixture
def mirroring(client: MetastoreClient, warehouse: str, application: OneApplication) -> Iterator[Mirroring]:
    """Mirrors on a fresh metastore."""
    with Engine(client, application, warehouse, agent_info="mirror") as engine:
        yield Mirroring(client, engine)
