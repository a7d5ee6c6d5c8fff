"""A real Hive reads tables on S3 whose files were uploaded under their final names (decision 74).

The store is the server of the storage tests; Hive gets at it by S3A of its own Hadoop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.decisions import Kind
from tests.storage.conftest import clean, uploads
from tests.storage.faulty_s3 import Faults
from tests.storage.servers import BUCKET, jars, s3_server

from .hive import Hive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = [pytest.mark.interop, pytest.mark.storage, pytest.mark.spark]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of an S3 server with a bucket; the environment has what opens it."""
    import boto3

    with s3_server(tmp_path_factory.mktemp("s3")) as url, pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": url,
        }.items():  # fmt: skip
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield url


@pytest.fixture(scope="module")
def s3a(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Hadoop's settings for it."""
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.buffer.dir": str(tmp_path_factory.mktemp("s3a")),
    }


@pytest.fixture(scope="module")
def hive(hive_metastore_url: str, s3a: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """A running Hive that finds S3."""
    warehouse = tmp_path_factory.mktemp("hive") / "warehouse"
    hive = Hive(hive_metastore_url, warehouse, s3a, jars("hive-s3a")).start()
    yield hive
    hive.close()


@pytest.fixture(scope="module")
def engine(client: MetastoreClient, s3a: dict[str, str]) -> Iterator[Engine]:
    """Our engine on Hive's metastore."""
    conf = {f"spark.hadoop.{key}": value for key, value in s3a.items()}
    conf |= {"spark.jars": ",".join(map(str, jars("s3a"))), "spark.hive.acid.range.bytes": "100k"}
    client.upgrade_schema()
    launcher = SparkSubmitLauncher("local[2]", conf, passed_on=("AWS_*",))
    with Engine(client, launcher, None) as engine:
        yield engine


@pytest.mark.rule("R4")
@pytest.mark.rule("R5")
@pytest.mark.rule("R17")
def test_hive_reads_what_was_uploaded_under_its_names(
    hive: Hive, engine: Engine, client: MetastoreClient, endpoint: str
) -> None:
    """After INSERT, UPDATE, DELETE, MERGE, both compactions and cleaning; a bucket is the work of two tasks."""
    faults, files = Faults(endpoint), AnyFilesystem()
    engine.run(
        f"CREATE DATABASE w; ALTER DATABASE w SET MANAGEDLOCATION 's3a://{BUCKET}/w'; "
        "CREATE TABLE w.t (id INT, name STRING) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    location = client.catalog.get_table("w.t").location
    assert location.startswith("s3a://")
    sums = "SELECT p, count(*), count(DISTINCT name), sum(id), min(name), max(name) FROM w.t GROUP BY p ORDER BY p"
    few = "SELECT id, name, p FROM w.t WHERE id < 5 OR id > 29995 ORDER BY id"

    def same() -> None:
        for query in (sums, few):
            assert hive.run(query) == [tuple(row) for row in engine.query(query).rows]

    statements = (
        "INSERT INTO w.t SELECT id, uuid(), IF(id % 3 = 0, 'small', 'large') FROM range(0, 30000, 1, 1)",
        "UPDATE w.t SET name = concat('u', name) WHERE id % 2 = 0",
        "DELETE FROM w.t WHERE id % 5 = 0",
        "MERGE INTO w.t USING (SELECT 1 AS i UNION ALL SELECT 3 UNION ALL SELECT 50000) s ON t.id = s.i "
        "WHEN MATCHED AND s.i = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'merged' "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'new', 'a new one')",
    )
    for statement in statements:
        with faults.of():
            engine.run(statement)
        assert "COMPLETE" in {asked.kind for asked in faults.after}, statement
        same()
    engine.run(
        "ALTER TABLE w.t PARTITION (p = 'small') COMPACT 'minor'; "
        "ALTER TABLE w.t PARTITION (p = 'large') COMPACT 'major'"
    )
    with faults.of():
        outcomes = engine.run_compactions("w")
    assert [outcome.kind for outcome in outcomes] == [Kind.COMPACTED] * 2, outcomes
    # The version file comes out of staging, so that a fence can stop it; files of rows do not.
    kinds = {asked.kind for asked in faults.after if not asked.name.endswith("/_orc_acid_version")}
    assert ("COPY" in kinds, "COMPLETE" in kinds) == (False, True)
    same()
    assert {outcome.kind for outcome in clean(client, files)} == {Kind.CLEANED}
    names = {entry.name.partition("_0")[0] for entry in files.list_files(f"{location}/p=large")}
    assert (names, uploads()) == ({"base"}, [])
    same()
    # Hive finds its delete events by our rows' ids.
    hive.run("update w.t set name = 'of Hive' where id in (2, 29999)")
    assert engine.query("SELECT id FROM w.t WHERE name = 'of Hive' ORDER BY id").rows == [[2], [29999]]
    same()
