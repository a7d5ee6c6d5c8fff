"""A warehouse in an encryption zone of an HDFS whose users have a trash.

HDFS renames nothing into a zone or out of it. Its trash is Hadoop's shell's: whoever deletes through its interfaces, as
Hive's Cleaner does and we do, fills none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import pytest

from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.settings import Settings, Source

from .conftest import Life, clean
from .servers import hdfs_cluster, kms, make_encryption_zone, make_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_hive_acid.engine import Engine

pytestmark = [pytest.mark.storage, pytest.mark.spark]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Authority of an HDFS with the zones ``/zone`` and ``/vault/t``, where a trash is emptied once an hour."""
    with kms(tmp_path_factory.mktemp("kms")) as keys:
        make_key(keys, "tables")
        settings = {"hadoop.security.key.provider.path": keys, "fs.trash.interval": "60"}
        with (
            hdfs_cluster(tmp_path_factory.mktemp("hdfs"), settings) as (authority, web),
            pytest.MonkeyPatch.context() as p,
        ):
            p.setitem(fsspec.config.conf, "webhdfs", {"user": "hive", "namenodes": {authority: web}})
            p.setenv("HADOOP_USER_NAME", "hive")
            for zone in ("/zone", "/vault/t"):
                AnyFilesystem().make_directory(f"hdfs://{authority}{zone}")
                make_encryption_zone(authority, zone, "tables")
            yield authority


CONF = {"spark.hadoop.fs.trash.interval": "60"}


def _trash(authority: str) -> list[str]:
    """What lies in a trash of HDFS, in a home directory or at the root of a zone, which has an empty one."""
    found = AnyFilesystem().list_files(f"hdfs://{authority}/", recursive=True)
    return [entry.relative for entry in found if "/.Trash/" in f"/{entry.relative}"]


def test_a_table_lives_in_an_encryption_zone_and_fills_no_trash(
    start_engine: Callable[..., Engine], life: Callable[[Engine], Life], authority: str
) -> None:
    table = life(start_engine(f"hdfs://{authority}/zone/warehouse", CONF))
    table.create_and_change()
    table.compact_and_clean()
    files = AnyFilesystem()
    location = table.client.catalog.get_table("w.t").location
    written = [entry.path for entry in files.list_files(location, recursive=True) if entry.name.startswith("bucket_")]
    plain = files.at(location)._fs  # type: ignore[attr-defined]
    assert {plain.info(path.partition(authority)[2]).get("encBit") for path in written} == {True}
    table.overwrite_and_end()
    assert _trash(authority) == []


def test_a_table_that_is_a_zone_itself_is_written_compacted_truncated_and_dropped(
    start_engine: Callable[..., Engine], client: MetastoreClient, authority: str
) -> None:
    """Staging is inside of the table's directory, so that publishing never leaves the zone."""
    engine, location = start_engine(f"hdfs://{authority}/warehouse", CONF), f"hdfs://{authority}/vault/t"
    engine.run(
        f"CREATE DATABASE w; CREATE TABLE w.t (id INT) STORED AS ORC LOCATION '{location}' "
        "TBLPROPERTIES ('transactional'='true'); INSERT INTO w.t VALUES (1), (2); DELETE FROM w.t WHERE id = 1; "
        "ALTER TABLE w.t COMPACT 'major'"
    )
    assert [outcome.kind for outcome in engine.run_compactions("w")] == [Kind.COMPACTED]
    assert [outcome.kind for outcome in clean(client, AnyFilesystem())] == [Kind.CLEANED]
    assert engine.query("SELECT id FROM w.t").rows == [[2]]
    engine.run("TRUNCATE TABLE w.t; INSERT INTO w.t VALUES (3)")
    assert engine.query("SELECT id FROM w.t").rows == [[3]]
    engine.run("DROP TABLE w.t")
    assert _trash(authority) == []


@pytest.mark.rule("R13")
def test_a_trash_of_ours_lies_in_the_zone_of_its_tables(
    start_engine: Callable[..., Engine], client: MetastoreClient, authority: str, tmp_path: Path
) -> None:
    """Elsewhere nothing can be moved there: the Cleaner says so, and deletes nothing instead."""
    engine = start_engine(f"hdfs://{authority}/zone/kept", CONF)
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true'); "
        "INSERT INTO w.t VALUES (1); INSERT INTO w.t VALUES (2); ALTER TABLE w.t COMPACT 'major'"
    )
    assert [outcome.kind for outcome in engine.run_compactions("w")] == [Kind.COMPACTED]

    def cleaned(trash: str) -> tuple[list[Kind], str]:
        settings = Settings().with_overrides(
            Source.REQUEST,
            {"hive.acid.cleaner.trash.dir": trash, "hive.compactor.cleaner.retry.retention.time": "1ms"},
        )
        with MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}", settings) as mine:
            outcomes = clean(mine, AnyFilesystem())
        return [outcome.kind for outcome in outcomes], " ".join(outcome.reason for outcome in outcomes)

    kinds, reason = cleaned(f"hdfs://{authority}/trash")
    assert kinds == [Kind.ERROR]
    assert "encryption zone" in reason
    location = client.catalog.get_table("w.t").location
    assert len([entry for entry in AnyFilesystem().list_files(location) if entry.name.startswith("delta_")]) == 2
    assert cleaned(f"hdfs://{authority}/zone/trash")[0] == [Kind.CLEANED]
    assert [entry.name.partition("_")[0] for entry in AnyFilesystem().list_files(location)] == ["base"]
    assert len(AnyFilesystem().list_files(f"hdfs://{authority}/zone/trash", recursive=True)) > 2
    assert engine.query("SELECT id FROM w.t ORDER BY id").rows == [[1], [2]]
