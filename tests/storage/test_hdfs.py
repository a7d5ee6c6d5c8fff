"""A warehouse on HDFS: hdfs:// in Spark, WebHDFS in the control plane, one name node and one data node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError, TxnAbortedError
from airflow_hive_acid.filesystem import AnyFilesystem, fence_staging, open_filesystem
from airflow_hive_acid.maintenance.warehouse.fences import fence_jobs_of

from .callers import pretend_to_be_elsewhere, share_a_service
from .servers import hdfs_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
    from airflow_hive_acid.metastore import MetastoreClient

    from .conftest import Life

pytestmark = pytest.mark.storage


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Authority of a running HDFS; fsspec knows where its WebHDFS is, as docs/how-to/running/storage.md says."""
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as (authority, web), pytest.MonkeyPatch.context() as patch:
        patch.setitem(fsspec.config.conf, "webhdfs", {"user": "hive", "namenodes": {authority: web}})
        patch.setenv("HADOOP_USER_NAME", "hive")
        yield authority


@pytest.fixture
def table(authority: str, request: pytest.FixtureRequest) -> str:
    uri = f"hdfs://{authority}/{abs(hash(request.node.name))}/t"
    AnyFilesystem().make_directory(uri)
    return uri


def test_files_are_listed_renamed_and_deleted_through_the_gateway(table: str) -> None:
    files = AnyFilesystem()
    files.write_text(f"{table}/_tmp_1/data/p=a%2Fb c/delta_1/bucket_0", "one")
    files.write_text(f"{table}/_tmp_1/data/p=a%2Fb c/delta_1/bucket_0", "two")
    assert files.list_files(table, recursive=True)[-1].relative == "_tmp_1/data/p=a%2Fb c/delta_1/bucket_0"
    with pytest.raises(FileNotFoundError):  # the parent is missing; HDFS says no more than "false"
        files.rename_directory(f"{table}/_tmp_1/data/p=a%2Fb c/delta_1", f"{table}/p=a%2Fb c/delta_1")
    files.make_directory(f"{table}/p=a%2Fb c")
    files.rename_directory(f"{table}/_tmp_1/data/p=a%2Fb c/delta_1", f"{table}/p=a%2Fb c/delta_1")
    assert files.read_text(f"{table}/p=a%2Fb c/delta_1/bucket_0") == "two"
    with pytest.raises(FileExistsError):
        files.rename_directory(f"{table}/_tmp_1", f"{table}/p=a%2Fb c")
    assert files.delete(f"{table}/_tmp_1", inside=table) is True
    assert files.delete(f"{table}/_tmp_1", inside=table) is False
    with pytest.raises(FileNotFoundError):
        files.list_files(f"{table}/_tmp_1")
    assert [entry.relative for entry in files.list_files(table)] == ["p=a%2Fb c"]


@pytest.mark.rule("R4")
def test_a_file_fences_a_staging_directory(table: str) -> None:
    """What its writer stages or renames after that fails."""
    files = AnyFilesystem()
    files.make_directory(f"{table}/_tmp_1/data/delta_1")
    assert fence_staging(files, f"{table}/_tmp_1", inside=table, note="fenced") is True
    assert fence_staging(files, f"{table}/_tmp_1", inside=table, note="again") is True
    assert files.read_text(f"{table}/_tmp_1") == "fenced\n"
    with pytest.raises(FileNotFoundError):
        files.rename_directory(f"{table}/_tmp_1/data/delta_1", f"{table}/delta_1")
    with pytest.raises(OSError):
        files.make_directory(f"{table}/_tmp_1/data/delta_1")
    assert [entry.name for entry in files.list_files(table)] == ["_tmp_1"]


def test_a_gateway_serves_its_own_name_node_only(table: str) -> None:
    """Another one goes through libhdfs; it is never taken for the first."""
    files = open_filesystem(table)
    with pytest.raises(InvalidArgumentsError, match="is not on"):
        files.exists("hdfs://elsewhere:8020/t")
    with pytest.raises((ConfigurationError, OSError)):
        open_filesystem("hdfs://elsewhere.invalid:8020/t").exists("hdfs://elsewhere.invalid:8020/t")


@pytest.mark.spark
def test_a_table_lives_on_hdfs(
    start_engine: Callable[..., Engine], life: Callable[[Engine], Life], authority: str
) -> None:
    table = life(start_engine(f"hdfs://{authority}/warehouse", {}))
    table.create_and_change()
    table.compact_and_clean()
    table.overwrite_and_end()


@pytest.mark.spark
@pytest.mark.rule("R14")
def test_callers_on_other_machines_share_a_service_through_hdfs(
    client: MetastoreClient, launcher_of: Callable[..., SparkSubmitLauncher], authority: str, monkeypatch
) -> None:
    pretend_to_be_elsewhere(monkeypatch)
    share_a_service(client, launcher_of({}), f"hdfs://{authority}/spools", f"hdfs://{authority}/shared")


@pytest.mark.spark
@pytest.mark.rule("R4")
def test_a_batch_is_read_on_hdfs_while_its_files_are_open(
    start_engine: Callable[..., Engine], client: MetastoreClient, authority: str
) -> None:
    """Open files are moved, grow, and are told to be as long as they are; a fence ends a writer there, too."""
    engine, files = start_engine(f"hdfs://{authority}/batches", {}), AnyFilesystem()
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.b (id INT) PARTITIONED BY (p STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )

    def numbers() -> list[int]:
        return sorted(row[0] for row in engine.query("SELECT id FROM w.b").rows)

    batch = engine.batch("w.b", transactions=4)
    for i in range(3):
        batch.write([{"id": i, "p": "x"}, {"id": 10 + i, "p": f"y{i % 2}"}])
        batch.commit()
        assert numbers() == sorted([*range(i + 1), *range(10, 11 + i)])
    location = client.catalog.get_table("w.b").location
    sides = [e.relative for e in files.list_files(location, recursive=True) if e.name.endswith("_flush_length")]
    assert [side.partition("/")[0] for side in sides] == ["p=x", "p=y0", "p=y1"]
    batch.write([{"id": 99, "p": "x"}])
    opened = batch._open
    assert opened is not None
    record_manifest = client.jobs.record_manifest

    def fenced(job_id: str, *rest: Any) -> None:
        record_manifest(job_id, *rest)
        fence_jobs_of(client, files, [client.jobs.get(job_id).txn_id], "a test")

    client.jobs.record_manifest = fenced  # type: ignore[method-assign]
    with pytest.raises(TxnAbortedError, match="was given up: a test"):
        batch.commit()
    client.jobs.record_manifest = record_manifest  # type: ignore[method-assign]
    assert numbers() == [0, 1, 2, 10, 11, 12]
    batch.write([{"id": 3, "p": "x"}])
    batch.close()
    with engine.batch("w.b", transactions=1) as last:
        last.write([{"id": 4, "p": "x"}])
    assert numbers() == [0, 1, 2, 4, 10, 11, 12]
