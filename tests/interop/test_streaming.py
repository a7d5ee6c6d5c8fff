"""A stream of micro-batches, read by a real Hive while it runs and after it; Hive writes and compacts in between."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.metastore import MetastoreClient

    from .hive import Hive

pytestmark = [pytest.mark.interop, pytest.mark.spark]
WAIT = 120.0
SCHEMA = "id bigint, what string, day string"


@pytest.fixture
def spool(hive: Hive, client: MetastoreClient, tmp_path: Path) -> Iterator[str]:
    """Where a server answers for Hive's metastore."""
    from airflow_hive_acid.engine.streams.server import StreamServer

    client.upgrade_schema()
    directory = tmp_path / "spool"
    directory.mkdir()
    server = StreamServer(client, directory.as_uri(), client.settings, "test", warehouse=hive.warehouse.as_uri())
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield directory.as_uri()
    server.stop()
    thread.join(WAIT)
    assert not thread.is_alive()


def stream(
    spark: SparkSession, root: Path, files: dict[str, list[tuple[Any, ...]]], write: Callable[[DataFrame, int], None]
) -> None:
    """One micro-batch for each file."""
    (root / "in").mkdir(parents=True, exist_ok=True)
    for number, (name, rows) in enumerate(files.items()):
        partial = root / name
        partial.write_text("\n".join(json.dumps(dict(zip(("id", "what", "day"), row, strict=True))) for row in rows))
        os.utime(partial, (1_700_000_000 + number,) * 2)
        partial.rename(root / "in" / name)
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(root / "in"))
    writer = reader.writeStream.foreachBatch(write).option("checkpointLocation", str(root / "cp"))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_hive_reads_whole_micro_batches_while_a_stream_appends_and_upserts(
    hive: Hive, client: MetastoreClient, hive_database: str, spool: str, spark: SparkSession, tmp_path: Path
) -> None:
    from airflow_hive_acid.spark.streaming.sink import hive_acid_sink

    table = f"{hive_database}.t"
    hive.run(
        f"create table {table} (id bigint, what string) partitioned by (`day` string) stored as orc "
        "tblproperties ('transactional'='true')"
    )
    read = f"select id, what, `day` from {table}"
    seen: list[list[tuple[Any, ...]]] = []
    append = hive_acid_sink(table, stream=table, spool=spool)

    def looked_at(rows: DataFrame, batch: int) -> None:
        append(rows, batch)
        seen.append(sorted(hive.run(read)))

    files = {
        "1.json": [(1, "tea", "mon"), (2, "jam", "tue")],
        "2.json": [(3, "rye", "mon"), (4, "oat", "mon"), (5, "fig", "wed")],
    }
    stream(spark, tmp_path / "append", files, looked_at)
    append.close()
    first = [(1, "tea", "mon"), (2, "jam", "tue")]
    second = sorted([*first, (3, "rye", "mon"), (4, "oat", "mon"), (5, "fig", "wed")])
    assert seen == [first, second]

    hive.run(f"delete from {table} where id = 4")
    upsert = hive_acid_sink(table, stream=f"{table}/u", spool=spool, mode="upsert", keys=["id", "day"])
    stream(spark, tmp_path / "upsert", {"3.json": [(1, "TEA", "mon"), (6, "nut", "tue")]}, upsert)
    after = sorted([(1, "TEA", "mon"), (2, "jam", "tue"), (3, "rye", "mon"), (5, "fig", "wed"), (6, "nut", "tue")])
    assert sorted(hive.run(read)) == after

    hive.run(f"alter table {table} partition (`day`='mon') compact 'major'")
    hive.worker()
    hive.cleaner()
    stream(spark, tmp_path / "upsert", {"4.json": [(3, "RYE", "mon")]}, upsert)
    upsert.close()
    assert sorted(hive.run(read)) == sorted([*(row for row in after if row[0] != 3), (3, "RYE", "mon")])
    assert {s.name: s.batch for s in client.streams.all()} == {table: 1, f"{table}/u": 1}
