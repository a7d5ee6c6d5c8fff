"""Structured Streaming through the sink: rows arrive exactly once, whoever dies; changed columns, bad rows, upserts."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.stream_server import StreamServer
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.spark.run import execute
from airflow_hive_acid.spark.streaming import hive_acid_sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.spark
WAIT = 120.0
SERVER = """
import sys
from airflow_hive_acid.engine.stream_server import StreamServer
from airflow_hive_acid.metastore import MetastoreClient
client = MetastoreClient(sys.argv[1])
StreamServer(client, sys.argv[2], client.settings, "the server").serve()
"""


class InProcess:
    """A launcher whose application is the session of the tests; its steps run in the thread that asks."""

    application_id, is_alive = "in-process", True

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark = spark
        self._scratch = scratch

    def start(self, application: Any = None) -> InProcess:
        return self

    def wait_ready(self) -> str:
        return self.application_id

    def run(self, spec: JobSpec) -> JobResult:
        from airflow_hive_acid.engine.spool import error_of

        result = execute(self._spark, spec)
        if result.error is not None:
            raise error_of(result.error)
        return result

    def rows_uri(self, job_id: str) -> str:
        return f"file:{self._scratch}/{job_id}"

    def read_rows(self, uri: str) -> Iterator[list[Any]]:
        with open(uri.removeprefix("file:"), encoding="utf-8") as file:
            yield from (json.loads(line) for line in file)

    def cancel(self) -> None:
        """Nobody does."""

    def close(self) -> None:
        """The session goes on."""


@pytest.fixture
def engine(client: MetastoreClient, warehouse: str, spark: SparkSession, tmp_path: Path) -> Iterator[Engine]:
    with Engine(client, InProcess(spark, tmp_path), warehouse) as engine:
        yield engine


@pytest.fixture
def spool(client: MetastoreClient, tmp_path: Path) -> Iterator[str]:
    """Where a server answers, in a thread."""
    directory = tmp_path / "spool"
    directory.mkdir()
    server = StreamServer(client, f"file:{directory}", client.settings, "test")
    thread = threading.Thread(target=server.serve)
    thread.start()
    yield f"file:{directory}"
    server.stop()
    thread.join(WAIT)
    assert not thread.is_alive()


class Source:
    """A directory of JSON files, each a micro-batch."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._root = root
        (root / "in").mkdir(parents=True)
        self._number = 0

    def add(self, *rows: dict[str, Any]) -> None:
        self._number += 1
        partial = self._root / f"{self._number}.partial"
        partial.write_text("\n".join(map(json.dumps, rows)))
        # The source reads files in the order of their times, which a fast machine does not tell apart.
        os.utime(partial, (1_700_000_000 + self._number,) * 2)
        partial.rename(self._root / "in" / f"{self._number:06d}.json")

    def start(self, schema: str, sink: Any) -> Any:
        reader = self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        writer = reader.json(str(self._root / "in")).writeStream.foreachBatch(sink)
        return writer.option("checkpointLocation", str(self._root / "cp")).trigger(availableNow=True).start()

    def run(self, schema: str, sink: Any) -> None:
        query = self.start(schema, sink)
        query.awaitTermination()


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path / "source")


@pytest.mark.backends("sqlite")
def test_a_stream_appends_upserts_evolves_and_sets_bad_rows_aside(
    engine: Engine, client: MetastoreClient, spool: str, spark: SparkSession, tmp_path: Path
) -> None:
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.log (id BIGINT, what VARCHAR(5)) PARTITIONED BY (day STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true'); "
        "CREATE TABLE w.state (id BIGINT, what STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    append = Source(spark, tmp_path / "append")
    append.add({"id": 1, "what": "tea", "day": "mon"}, {"id": 2, "what": "jam", "day": "tue"})
    append.add({"id": 3, "what": "much too long", "day": "mon"}, {"id": 4, "what": "rye", "day": "wed"})
    aside = tmp_path / "aside"
    sink = hive_acid_sink(
        "w.log", stream="log", spool=spool, on_bad_record="quarantine", quarantine=aside.as_uri(), on_new_column="add",
        on_missing_column="null",
    )  # fmt: skip
    append.run("id bigint, what string, day string", sink)
    append.add({"id": 5, "what": "fig", "day": "mon", "size": 7})
    append.run("id bigint, what string, day string, size int", sink)
    sink.close()
    assert engine.query("SELECT id, what, size, day FROM w.log ORDER BY id").rows == [
        [1, "tea", None, "mon"], [2, "jam", None, "tue"], [4, "rye", None, "wed"], [5, "fig", 7, "mon"],
    ]  # fmt: skip
    (told,) = [json.loads(line) for file in aside.rglob("*.json") for line in file.read_text().splitlines()]
    assert told["problem"] == "column what: the value much too long is longer than 5 characters"
    assert json.loads(told["row"])["id"] == 3
    found = client.streams.find("log")
    assert (found.batch, found.batches, found.rows, found.quarantined) == (2, 3, 4, 1)
    assert "FileStreamSource" in str(found.offsets)

    changes = Source(spark, tmp_path / "changes")
    changes.add({"id": 1, "what": "a", "at": 1}, {"id": 1, "what": "b", "at": 2}, {"id": 2, "what": "c", "at": 1})
    changes.add({"id": 2, "what": "d", "at": 3}, {"id": 3, "what": "e", "at": 3})
    upsert = hive_acid_sink(
        "w.state", stream="state", spool=spool, mode="upsert", keys=["id"], latest_by="at", on_new_column="ignore"
    )
    changes.run("id bigint, what string, at int", upsert)
    upsert.close()
    assert engine.query("SELECT * FROM w.state ORDER BY id").rows == [[1, "b"], [2, "d"], [3, "e"]]


@pytest.mark.backends("sqlite")
def test_a_poison_record_stops_the_stream_with_its_row_named_and_nothing_of_it_written(
    engine: Engine, spool: str, source: Source, spark: SparkSession, tmp_path: Path
) -> None:
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (id BIGINT, n INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    source.add({"id": 1, "n": "1"})
    source.add({"id": 2, "n": "2"}, {"id": 3, "n": "three"})
    sink = hive_acid_sink("w.t", stream="s", spool=spool, on_type_change="convert")
    with pytest.raises(Exception, match=r"micro-batch 1 of stream s: column n: the value three is no int; the row is"):
        source.run("id bigint, n string", sink)
    assert engine.query("SELECT * FROM w.t").rows == [[1, 1]]
    doubled = hive_acid_sink("w.t", stream="u", spool=spool, mode="upsert", keys=["id"], on_type_change="convert")
    twice = Source(spark, tmp_path / "twice")
    twice.add({"id": 7, "n": "1"}, {"id": 7, "n": "2"})
    with pytest.raises(Exception, match=r"stream u has several rows with id = \(7\) in one micro-batch; say latest_by"):
        twice.run("id bigint, n string", doubled)


def test_a_sink_without_anybody_to_ask_says_what_to_start(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(1).toDF("id")
    with pytest.raises(ConfigurationError, match=r"nobody answers at file:.*: start 'hive-acid stream serve --spool"):
        hive_acid_sink("w.t", stream="s", spool=f"file:{tmp_path}")(rows, 0)
    with pytest.raises(ConfigurationError, match=r"give spool=, or set spark.hive.acid.stream.spool"):
        hive_acid_sink("w.t", stream="s")(rows, 0)


class Killed:
    """Servers of a spool that are killed, and started again."""

    def __init__(self, url: str, spool: Path) -> None:
        self._url = url
        self._spool = spool
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        alive = self._spool / "alive"
        alive.unlink(missing_ok=True)
        self.process = subprocess.Popen([sys.executable, "-c", SERVER, self._url, f"file:{self._spool}"])
        deadline = time.monotonic() + WAIT
        while not alive.exists():
            assert self.process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(WAIT)


@pytest.mark.backends("postgresql")
def test_rows_arrive_exactly_once_though_processes_are_killed_at_random_moments(
    engine: Engine,
    client: MetastoreClient,
    metastore_url: str,
    source: Source,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """Every other kill is one of the server (SIGKILL), the others stop the query in the middle of what it does.

    Readers in parallel see whole micro-batches only: each has ten rows, and their sum says which ones.
    """
    kills, chance = pytestconfig.getoption("--stream-kills"), random.Random(13)
    monkeypatch.setattr("airflow_hive_acid.spark.streaming._IDLE_SECONDS", 1.0)
    monkeypatch.setattr("airflow_hive_acid.spark.stream_channel._LOOK_SECONDS", 0.2)
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (batch BIGINT, id BIGINT) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    spool = tmp_path / "killed"
    spool.mkdir()
    servers = Killed(metastore_url, spool)
    servers.start()
    read = "SELECT batch, count(*), count(DISTINCT id), min(id) FROM w.t GROUP BY batch ORDER BY batch"
    added = 0
    try:
        for number in range(kills + 1):
            for _ in range(3):
                source.add(*({"batch": added, "id": 10 * added + i} for i in range(10)))
                added += 1
            sink = hive_acid_sink("w.t", stream="s", spool=f"file:{spool}")
            query = source.start("batch bigint, id bigint", sink)
            if number < kills:
                query.awaitTermination(chance.uniform(0.1, 2.0))
                if number % 2:
                    query.stop()
                else:
                    servers.kill()
                    servers.start()
            with contextlib.suppress(*([StreamingQueryException] if number < kills else [])):
                query.awaitTermination(WAIT)
            sink.close()
            rows = engine.query(read).rows
            assert rows == [[n, 10, 10, 10 * n] for n in range(len(rows))]
        assert len(rows) == added
        assert client.streams.find("s").batches == added
    finally:
        servers.kill()
