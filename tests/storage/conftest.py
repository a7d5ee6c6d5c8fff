"""A metastore for each test, and the life of a table that every storage has to carry."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient

from .faulty_s3 import Faults
from .servers import BUCKET, s3_server, s3a_jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from airflow_hive_acid.maintenance.decisions import CleaningOutcome


@pytest.fixture
def client(tmp_path: Path) -> Iterator[MetastoreClient]:
    """A client of a fresh metastore."""
    with MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}") as client:
        client.create_schema()
        yield client


@pytest.fixture
def launcher_of(tmp_path: Path) -> Callable[..., SparkSubmitLauncher]:
    """Make what starts a local Spark with a conf: ``launcher_of(conf, accelerator)``."""

    def make(conf: Mapping[str, str], accelerator: str = "auto") -> SparkSubmitLauncher:
        return SparkSubmitLauncher(
            "local[2]", conf, log_directory=tmp_path / "logs", accelerator=accelerator, passed_on=("AWS_*",)
        )

    return make


@pytest.fixture
def start_engine(
    client: MetastoreClient, launcher_of: Callable[..., SparkSubmitLauncher]
) -> Iterator[Callable[..., Engine]]:
    """Make an engine on a warehouse: ``start_engine(warehouse, conf, accelerator)``; it is closed after the test."""
    engines: list[Engine] = []

    def start(warehouse: str, conf: Mapping[str, str], accelerator: str = "auto") -> Engine:
        engines.append(Engine(client, launcher_of(conf, accelerator), warehouse))
        return engines[-1]

    yield start
    for engine in engines:
        engine.close()


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an S3 server with a bucket; the environment tells s3fs and Spark how to get there.

    One for all tests: fsspec keeps its clients, and they keep their server.
    """
    import boto3

    with s3_server(tmp_path_factory.mktemp("s3")) as url, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": url,
            "AWS_MAX_ATTEMPTS": "2",  # s3fs has tries of its own, around these
        }.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield url


@pytest.fixture
def faults(endpoint: str) -> Faults:
    """How the S3 server fails."""
    return Faults(endpoint)


@pytest.fixture
def warehouse(endpoint: str, request: pytest.FixtureRequest) -> str:
    """An empty directory of the bucket; a part of its name looks like a pattern."""
    return f"s3a://{BUCKET}/{re.sub('[^a-z0-9]', '-', request.node.name)}[1]/warehouse"


@pytest.fixture
def conf(endpoint: str, tmp_path: Path) -> dict[str, str]:
    """How Spark gets at the server, as docs/how-to/running/storage.md says."""
    return {
        "spark.jars": ",".join(map(str, s3a_jars())),
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.buffer.dir": str(tmp_path / "s3a"),
    }


@pytest.fixture
def files(endpoint: str) -> AnyFilesystem:
    """The control plane's way there."""
    return AnyFilesystem()


def uploads() -> list[str]:
    """Names of the files that are uploads still, in the whole bucket."""
    import boto3

    return [one["Key"] for one in boto3.client("s3").list_multipart_uploads(Bucket=BUCKET).get("Uploads") or ()]


def clean(client: MetastoreClient, files: AnyFilesystem) -> list[CleaningOutcome]:
    """Clean what can be cleaned, and say what became of each; a txn that may still appear is waited for."""
    found: list[CleaningOutcome] = []
    for _ in range(100):
        outcomes = run_cleaner(client, files)
        waiting = [outcome for outcome in outcomes if outcome.kind is Kind.WAITING]
        found += [outcome for outcome in outcomes if outcome.kind is not Kind.WAITING]
        if not waiting:
            return found
        time.sleep(0.1)
    raise AssertionError(f"nobody else is here, and the Cleaner waits: {waiting}")


@dataclass(frozen=True)
class Life:
    """The life of ``w.t``, from its creation to its end."""

    engine: Engine
    client: MetastoreClient

    def rows(self) -> list[tuple[object, ...]]:
        """All rows of the table."""
        return sorted(map(tuple, self.engine.query("SELECT id, name, p FROM w.t").rows))

    def directories(self) -> dict[str, list[str]]:
        """Kinds of the ACID directories by partition; what is neither shows by its name."""
        found: dict[str, list[str]] = {}
        for entry in AnyFilesystem().list_files(self.client.catalog.get_table("w.t").location, recursive=True):
            partition, _, name = entry.relative.partition("/")
            if not partition.startswith("p="):
                found[partition] = []
            elif name and "/" not in name:
                found.setdefault(partition, []).append(re.sub(r"(base|delta)_[0-9]+.*", r"\1", name))
        return {partition: sorted(names) for partition, names in found.items()}

    def create_and_change(self) -> None:
        """Every DML statement, with static, dynamic and new partitions, NULL among them."""
        run = self.engine.run
        run(
            "CREATE DATABASE w; CREATE TABLE w.t (id INT, name STRING) PARTITIONED BY (p STRING) STORED AS ORC "
            "TBLPROPERTIES ('transactional'='true')"
        )
        loaded = run(
            "INSERT INTO w.t SELECT id, concat('n', id), CASE id % 3 WHEN 0 THEN 'a b/c' WHEN 1 THEN 'x' END "
            "FROM range(0, 12, 1, 3)"
        )[0]
        assert loaded.inserted == 12
        run("UPDATE w.t SET name = upper(name) WHERE id % 4 = 0; DELETE FROM w.t WHERE id IN (5, 6, 7)")
        run(
            "MERGE INTO w.t USING (SELECT 1 AS i UNION ALL SELECT 2 UNION ALL SELECT 50) s ON t.id = s.i "
            "WHEN MATCHED AND t.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'merged' "
            "WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'new', 'x')"
        )
        run("INSERT INTO w.t PARTITION (p = 'x') VALUES (60, 'static'); INSERT INTO w.t SELECT * FROM w.t WHERE id < 0")
        assert self.rows() == AFTER_CHANGES

    def compact_and_clean(self) -> None:
        """A minor and a major compaction, the Cleaner, and a look at the rows after each."""
        self.engine.run(
            "ALTER TABLE w.t PARTITION (p = 'a b/c') COMPACT 'minor'; "
            "ALTER TABLE w.t PARTITION (p = 'x') COMPACT 'major'"
        )
        outcomes = self.engine.run_compactions("life")
        assert [outcome.kind for outcome in outcomes] == [Kind.COMPACTED] * 2, outcomes
        assert self.rows() == AFTER_CHANGES
        cleaned = clean(self.client, AnyFilesystem())
        assert [outcome.kind for outcome in cleaned] == [Kind.CLEANED] * 2, cleaned
        assert self.rows() == AFTER_CHANGES
        assert self.directories() == {
            "p=a b%2Fc": ["delete_delta", "delta"],
            "p=x": ["base"],
            "p=__HIVE_DEFAULT_PARTITION__": ["delete_delta"] * 3 + ["delta"] * 3,
        }

    def overwrite_and_end(self) -> None:
        """INSERT OVERWRITE, TRUNCATE, a table without transactions, DROP."""
        self.engine.run("INSERT OVERWRITE TABLE w.t PARTITION (p = 'x') SELECT 70, 'only'")
        assert [row for row in self.rows() if row[2] == "x"] == [(70, "only", "x")]
        self.engine.run("TRUNCATE TABLE w.t")
        assert self.rows() == []
        self.engine.run(
            "CREATE TABLE w.plain (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='false'); "
            "INSERT INTO w.plain VALUES (1); INSERT INTO w.plain VALUES (2); INSERT OVERWRITE TABLE w.plain SELECT 3"
        )
        assert self.engine.query("SELECT id FROM w.plain").rows == [[3]]
        location = self.client.catalog.get_table("w.t").location
        self.engine.run("DROP TABLE w.t; DROP TABLE w.plain")
        assert not AnyFilesystem().exists(location)


def _after_changes() -> list[tuple[object, ...]]:
    places = {0: "a b/c", 1: "x", 2: None}
    names = {i: f"{'N' if i % 4 == 0 else 'n'}{i}" for i in range(12) if i not in (1, 5, 6, 7)}
    names[2] = "merged"
    rows: list[tuple[object, ...]] = [(i, name, places[i % 3]) for i, name in names.items()]
    return sorted([*rows, (50, "new", "x"), (60, "static", "x")], key=lambda row: int(str(row[0])))


AFTER_CHANGES = _after_changes()


@pytest.fixture
def life(client: MetastoreClient) -> Callable[[Engine], Life]:
    """The life of a table on an engine."""
    return lambda engine: Life(engine, client)
