"""A warehouse on an object store: s3a:// in Spark, s3fs in the control plane, an S3 server of moto between them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import PublishError, StorageUnavailableError
from airflow_hive_acid.filesystem.protocol import Upload
from airflow_hive_acid.maintenance.cleaner.cleaner import run_cleaner
from airflow_hive_acid.maintenance.reaper.reaper import run_reaper
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS
from airflow_hive_acid.metastore.txns.jobs import JobState
from tests.jobs import jobs_of

from .callers import pretend_to_be_elsewhere, share_a_service
from .conftest import uploads
from .faulty_s3 import Rule
from .servers import BUCKET, hadoop_of_spark, s3a_jars

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
    from airflow_hive_acid.filesystem import AnyFilesystem
    from airflow_hive_acid.metastore import MetastoreClient

    from .conftest import Life
    from .faulty_s3 import Faults

pytestmark = pytest.mark.storage


def objects() -> list[str]:
    """Names of all objects, below the bucket."""
    import s3fs

    return [name.partition("/")[2] for name in s3fs.S3FileSystem(use_listings_cache=False).find(BUCKET)]


def put(name: str) -> None:
    """An object without content; with a slash at its end it stands for a directory, as Hadoop makes them."""
    import boto3

    boto3.client("s3").put_object(Bucket=BUCKET, Key=name)


def test_the_jars_are_those_of_the_hadoop_that_spark_comes_with() -> None:
    assert [p.name for p in s3a_jars() if p.name.startswith("hadoop-aws")] == [f"hadoop-aws-{hadoop_of_spark()}.jar"]


def test_renames_and_deletes_take_exactly_what_they_name(files: AnyFilesystem, warehouse: str) -> None:
    """Names that look like patterns, neighbours with the same beginning, and objects that stand for directories."""
    table = f"{warehouse}/t[ab]"
    key = table.removeprefix(f"s3a://{BUCKET}/")
    for name in ("_tmp_1/data/p=a%2Fb/delta_1/bucket_0", "_tmp_10/data/f", "ta/delta_1/f", "delta_1x/f"):
        files.write_text(f"{table}/{name}", name)
    neighbour = f"{warehouse}/ta"
    files.write_text(f"{neighbour}/_tmp_1/data/f", "a neighbour")
    for directory in ("_tmp_1/", "_tmp_1/data/", "_tmp_1/data/empty/", "_tmp_1/data/p=a%2Fb/delta_1/"):
        put(f"{key}/{directory}")
    assert [e.relative for e in files.list_files(f"{table}/_tmp_1/data")] == ["empty", "p=a%2Fb"]
    assert files.list_files(f"{table}/_tmp_1/data/empty") == []
    files.rename_directory(f"{table}/_tmp_1/data/p=a%2Fb/delta_1", f"{table}/p=a%2Fb/delta_1")
    assert files.read_text(f"{table}/p=a%2Fb/delta_1/bucket_0") == "_tmp_1/data/p=a%2Fb/delta_1/bucket_0"
    assert files.delete(f"{table}/_tmp_1", inside=table) is True
    assert files.delete(f"{table}/_tmp_1", inside=table) is False
    assert not files.exists(f"{table}/_tmp_1")
    assert [e.relative for e in files.list_files(table, recursive=True) if not e.is_dir] == [
        "_tmp_10/data/f",
        "delta_1x/f",
        "p=a%2Fb/delta_1/bucket_0",
        "ta/delta_1/f",
    ]
    assert files.exists(f"{neighbour}/_tmp_1/data/f")
    with pytest.raises(FileExistsError):
        files.rename_directory(f"{table}/_tmp_10", f"{table}/ta")
    with pytest.raises(FileNotFoundError):
        files.rename_directory(f"{table}/_tmp_1", f"{table}/delta_2")
    with pytest.raises(NotADirectoryError):
        files.list_files(f"{table}/_tmp_10/data/f")


@pytest.mark.spark
@pytest.mark.parametrize("accelerator", ["auto", "off"])
def test_a_table_lives_on_an_object_store(
    start_engine: Callable[..., Engine],
    life: Callable[[Engine], Life],
    warehouse: str,
    conf: dict[str, str],
    accelerator: str,
) -> None:
    table = life(start_engine(warehouse, conf, accelerator))
    table.create_and_change()
    table.compact_and_clean()
    below = warehouse.removeprefix(f"s3a://{BUCKET}/")
    assert [name for name in objects() if name.startswith(below) and "_tmp_" in name] == []
    table.overwrite_and_end()


@pytest.mark.spark
def test_how_often_a_file_is_copied_without_the_jar(
    start_engine: Callable[..., Engine],
    warehouse: str,
    conf: dict[str, str],
    faults: Faults,
) -> None:
    """Once, when it is published, and Spark's committer gives it two names before."""
    engine = start_engine(warehouse, conf, "off")
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (a INT) PARTITIONED BY (p INT) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    with faults.of():
        engine.run("INSERT INTO w.t SELECT id, id % 3 FROM range(0, 30, 1, 1)")
    written = [asked.kind for asked in faults.after if asked.name.endswith((".orc", "/bucket_00000"))]
    assert (written.count("PUT"), written.count("COPY")) == (3, 9), faults.after
    assert len(engine.query("SELECT a FROM w.t").rows) == 30


@pytest.mark.rule("R17")
def test_an_upload_is_ended_once_however_often_it_is_asked_for(
    files: AnyFilesystem, warehouse: str, faults: Faults
) -> None:
    """A lost answer, or a 500 behind what was done, is told from an upload that somebody else has ended."""
    import boto3

    s3, store = boto3.client("s3"), files.uploads(warehouse)
    assert store is not None

    def start(name: str) -> Upload:
        key = f"{warehouse.removeprefix(f's3a://{BUCKET}/')}/{name}"
        upload_id = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload_id, PartNumber=1, Body=b"rows")
        return Upload(f"{warehouse}/{name}", upload_id)

    for fault in ("lost_answer", "error_after"):
        whole = store.look_at(start(fault))
        with faults.of(Rule(fault, ("COMPLETE",), times=1)):
            store.complete(whole)
        assert len(faults.met) == 1
        assert files.read_text(whole.upload.uri) == "rows"
        assert store.below(warehouse) == []
        with faults.of(Rule(fault, ("ABORT",), times=1)):
            store.abort(start("given up"))
        assert len(faults.met) == 1
    ended = store.look_at(start("ended"))
    store.abort(ended.upload)
    with pytest.raises(FileNotFoundError):
        store.complete(ended)
    with pytest.raises(FileNotFoundError):
        store.look_at(ended.upload)
    files.write_text(ended.upload.uri, "other rows")
    with pytest.raises(FileNotFoundError):
        store.complete(ended)
    with pytest.raises(StorageUnavailableError):
        store.abort(Upload("s3a://no-such-bucket/w", "x"))


@pytest.mark.spark
@pytest.mark.rule("R4")
def test_a_killed_job_is_fenced_by_its_record(
    start_engine: Callable[..., Engine],
    client: MetastoreClient,
    files: AnyFilesystem,
    warehouse: str,
    conf: dict[str, str],
    tmp_path: Path,
) -> None:
    """
    t1  A's Spark job has uploaded the file of its first task
    t2  kill -9 of A's control plane; its Spark goes a moment later
    t3                    the reaper aborts A's txn, fences its job and ends its upload; no manifest is taken
    t4  A is back and wants to publish what it wrote: refused
    t5                    the Cleaner leaves nothing of it, and the next writer goes on
    """
    engine = start_engine(warehouse, conf)
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (a BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true'); "
        "INSERT INTO w.t VALUES (1)"
    )
    location = client.catalog.get_table("w.t").location
    writer = subprocess.Popen(
        [
            str(Path(sys.executable).parent / "hive-acid"),
            *("--metastore-url", str(client.database.url), "--spark-master", "local[1]"),
            *("--set", "hive.acid.job.environment=AWS_*"),
            *(part for pair in conf.items() for part in ("--spark-conf", "=".join(pair))),
            # The first task ends and its file is uploaded; the second one never would be.
            *(
                "sql",
                "-e",
                "INSERT INTO w.t SELECT id FROM range(0, 10, 1, 1) UNION ALL "
                "SELECT x.id FROM range(0, 1000000, 1, 1) x CROSS JOIN range(1000000) y",
            ),
        ],
        env=os.environ | {"HIVE_ACID_CACHE": str(tmp_path / "cache"), "HIVE_ACID_HOME": str(tmp_path / "home")},
        stderr=subprocess.PIPE,
        text=True,
    )
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 300
        while not uploads():
            assert writer.poll() is None, writer.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        family = psutil.Process(writer.pid).children(recursive=True)
        writer.kill()
        for process in family:
            process.kill()
        psutil.wait_procs(family, timeout=20)
    finally:
        for process in family:
            if process.is_running():
                process.kill()
        writer.kill()
        writer.communicate()
    (job,) = (one for one in jobs_of(client, "w.t") if one.write_id == 2)
    assert job.state is JobState.RUNNING
    with client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_ID == job.txn_id).values(TXN_LAST_HEARTBEAT=1000))
    report = run_reaper(client, files)
    assert report.aborted == (job.txn_id,)
    assert [fenced.job_id for fenced in report.fenced] == [job.job_id]
    assert uploads() == []
    with pytest.raises(PublishError, match="it is fenced"):
        client.jobs.record_manifest(job.job_id, {"directories": []})
    run_cleaner(client, files)
    assert [entry.name for entry in files.list_files(location)] == ["delta_0000001_0000001_0000"]
    engine.run("INSERT INTO w.t VALUES (3)")
    assert sorted(engine.query("SELECT a FROM w.t").rows) == [[1], [3]]


@pytest.mark.rule("R14")
def test_callers_on_other_machines_share_a_service_through_an_object_store(
    client: MetastoreClient,
    launcher_of: Callable[..., SparkSubmitLauncher],
    warehouse: str,
    conf: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend_to_be_elsewhere(monkeypatch)
    share_a_service(client, launcher_of(conf), f"{warehouse}/spools", f"{warehouse}/shared")
