"""Structured Streaming through the sink: rows arrive exactly once, whoever dies; changed columns, bad rows, upserts."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from pyspark.errors import StreamingQueryException

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.streams.server import StreamServer
from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError
from airflow_hive_acid.filesystem import open_filesystem
from airflow_hive_acid.format.streams import JOB
from airflow_hive_acid.maintenance import run_cleaner
from airflow_hive_acid.metastore.schema.hive_catalog import KEY_CONSTRAINTS, SDS, TBLS
from airflow_hive_acid.spark.streaming.deletes import Deletion
from airflow_hive_acid.spark.streaming.job import run_job
from airflow_hive_acid.spark.streaming.sink import hive_acid_sink
from tests.in_process import InProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.spark.streaming.sink import HiveAcidSink

pytestmark = [pytest.mark.crossing("streams x who dies x changed columns"), pytest.mark.spark]
WAIT = 120.0
SERVER = """
import sys
from airflow_hive_acid.engine.streams.server import StreamServer
from airflow_hive_acid.metastore import MetastoreClient
client = MetastoreClient(sys.argv[1])
StreamServer(client, sys.argv[2], client.settings, "the server").serve()
"""


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


@pytest.mark.backends("sqlite")
def test_a_restored_checkpoint_is_refused_and_the_last_one_repeats_its_last_micro_batch(
    engine: Engine, client: MetastoreClient, spool: str, source: Source, tmp_path: Path
) -> None:
    """
    t1  the stream commits micro-batch 0; its checkpoint is copied; it commits micro-batches 1 and 2
    t2  the copy is put back, and other rows have come: its query makes micro-batches of its own
    t3  the last checkpoint is back, as if Spark had died after the commit of micro-batch 2
    """
    engine.run("CREATE DATABASE w; CREATE TABLE w.t (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    checkpoint, older, last = (tmp_path / "source" / name for name in ("cp", "older", "last"))

    def run() -> None:
        sink = hive_acid_sink("w.t", stream="s", spool=spool)
        try:
            source.run("id bigint", sink)
        finally:
            sink.close()

    source.add({"id": 0})
    run()
    shutil.copytree(checkpoint, older)
    source.add({"id": 1})
    source.add({"id": 2})
    run()
    checkpoint.rename(last)
    older.rename(checkpoint)
    source.add({"id": 3})
    with pytest.raises(StreamingQueryException, match="the checkpoint of the query is older"):
        run()
    assert engine.query("SELECT id FROM w.t ORDER BY id").rows == [[0], [1], [2]]
    shutil.rmtree(checkpoint)
    last.rename(checkpoint)
    for entry in (checkpoint / "commits").glob("*2*"):
        entry.unlink()
    run()
    assert engine.query("SELECT id FROM w.t ORDER BY id").rows == [[0], [1], [2], [3]]
    assert json.loads(str(client.streams.find("s").offsets))["ends"] == ['{"logOffset":3}']


@pytest.mark.backends("sqlite")
def test_a_second_call_for_a_micro_batch_is_refused_until_it_has_a_name_of_its_own(
    engine: Engine, spool: str, source: Source
) -> None:
    """Whether it is the same sink or another of the same name: its rows would be taken for a repetition."""
    engine.run("CREATE DATABASE w; CREATE TABLE w.t (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    source.add({"id": 1}, {"id": -1})
    sink, same, own = (hive_acid_sink("w.t", stream=name, spool=spool) for name in ("s", "s", "negative"))

    def in_two(second: HiveAcidSink) -> Callable[[DataFrame, int], None]:
        def write(rows: DataFrame, batch: int) -> None:
            try:
                sink(rows.where("id > 0"), batch)
                second(rows.where("id < 0"), batch)
            finally:
                sink.close()
                second.close()

        return write

    for second in (sink, same):
        with pytest.raises(StreamingQueryException, match="stream s is called twice for micro-batch 0"):
            source.run("id bigint", in_two(second))
        assert engine.query("SELECT id FROM w.t").rows == [[1]]
    source.run("id bigint", in_two(own))
    assert engine.query("SELECT id FROM w.t ORDER BY id").rows == [[-1], [1]]


def blocks_of_the_page() -> list[str]:
    """The section on change data capture of docs/how-to/streams/streaming.md, as it is."""
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "streams" / "streaming.md").read_text(encoding="utf-8")
    section = page.partition("## Changes from a database (CDC)")[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.S | re.M)


def declare_not_null(client: MetastoreClient, table: str, column: int) -> None:
    """As Hive does with ``NOT NULL ENABLE``."""
    with client.database.transaction() as connection:
        of_it = sa.select(TBLS.c.TBL_ID, SDS.c.CD_ID).join(SDS, SDS.c.SD_ID == TBLS.c.SD_ID)
        table_id, columns_id = connection.execute(of_it.where(TBLS.c.TBL_NAME == table)).one()
        connection.execute(
            sa.insert(KEY_CONSTRAINTS).values(
                PARENT_TBL_ID=table_id, PARENT_CD_ID=columns_id, PARENT_INTEGER_IDX=column, POSITION=1,
                CONSTRAINT_NAME="nn", CONSTRAINT_TYPE=3, ENABLE_VALIDATE_RELY=5,
            )
        )  # fmt: skip


class Changes:
    """What a database does to a table of its own, row by row, and the events that tell of it."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str, int]] = {}
        self._position = 0

    def upsert(self, key: int, name: str, amount: int, op: str | None = "u") -> dict[str, Any]:
        self.rows[key] = (name, amount)
        return self._event(op, id=f"{key}", name=name, amount=str(amount), region=f"r{key % 3}")

    def delete(self, key: int, **left: Any) -> dict[str, Any]:
        self.rows.pop(key, None)
        return self._event("d", id=f"0{key}", **left)

    def _event(self, op: str | None, **given: Any) -> dict[str, Any]:
        self._position += 1
        return {"op": op, "position": self._position, **given}


@pytest.mark.backends("sqlite")
def test_change_events_leave_what_the_database_has_whatever_their_order_in_a_micro_batch(
    engine: Engine, client: MetastoreClient, spool: str, source: Source, spark: SparkSession, tmp_path: Path
) -> None:
    """A dict is the database. Deletes carry NULLs, or what does not fit, in all columns but the key.

    And they write the key another way, which is the same for a BIGINT.
    """
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.stock (id BIGINT, name VARCHAR(9), amount INT) "
        "PARTITIONED BY (region STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    declare_not_null(client, "stock", 1)
    chance, database, applied = random.Random(20261122), Changes(), 0
    batches = [
        # Deletes of what is not there; an insert and a delete; a delete and an insert; an op that nobody knows.
        lambda: [
            database.delete(1), database.upsert(2, "pear", 1), database.delete(2), database.delete(3),
            database.upsert(3, "fig", 2), database.upsert(4, "plum", 3, op=None),
        ],
        lambda: [database.delete(3, amount="gone", name="much too long for it"), database.delete(9)],
    ]  # fmt: skip
    batches += [
        lambda: [
            database.delete(key, amount=chance.choice([None, "gone"]))
            if chance.random() < 0.45
            else database.upsert(key, f"n{chance.randrange(1000)}", chance.randrange(1000), chance.choice("cru"))
            for key in (chance.randrange(12) for _ in range(chance.randrange(1, 25)))
        ]
    ] * 2
    for batch in batches:
        before = set(database.rows)
        events = batch()
        keys = {int(event["id"]) for event in events}
        applied += len(keys & (before | set(database.rows)))
        chance.shuffle(events)
        source.add(*events)
    sink = hive_acid_sink(
        "w.stock", stream="stock", spool=spool, mode="upsert", keys=["ID"], latest_by="position",
        delete_when="op = 'd' -- the rest is c, r and u", on_type_change="convert",
    )  # fmt: skip
    schema = "op string, id string, name string, amount string, region string, position int"
    source.run(schema, sink)
    expected = [[key, *values, f"r{key % 3}"] for key, values in sorted(database.rows.items())]
    assert engine.query("SELECT * FROM w.stock ORDER BY id").rows == expected
    assert len(expected) > 2
    found = client.streams.find("stock")
    assert (found.batches, found.rows, found.quarantined) == (len(batches), applied, 0)

    # What of a delete has no key, and what does not fit in an upsert, is set aside; the delete beside it is done.
    aside = tmp_path / "aside"
    strict = hive_acid_sink(
        "w.stock", stream="stock", spool=spool, mode="upsert", keys=["id"], latest_by="position",
        delete_when="op = 'd'", on_type_change="convert", on_bad_record="quarantine", quarantine=aside.as_uri(),
    )  # fmt: skip
    sink.close()
    gone, kept = expected[0][0], expected[1:]
    source.add(
        {"op": "d", "id": f"{gone}", "amount": "gone", "position": 900}, {"op": "d", "position": 901},
        {"op": "d", "id": "seven", "position": 904},
        {"op": "u", "id": "77", "name": "kiwi", "amount": "many", "region": "r2", "position": 902},
        {"op": "c", "id": "78", "amount": "1", "region": "r0", "position": 903},
    )  # fmt: skip
    source.run(schema, strict)
    strict.close()
    assert engine.query("SELECT * FROM w.stock ORDER BY id").rows == kept
    told = [json.loads(line) for file in aside.rglob("*.json") for line in file.read_text().splitlines()]
    assert {(row["problem"], json.loads(row["row"])["position"]) for row in told} == {
        ("column id is a key and NULL", 901), ("column amount: the value many is no int", 902),
        ("column name takes no NULL", 903), ("column id: the value seven is no bigint", 904),
    }  # fmt: skip
    assert all("acid" not in row["row"] for row in told)
    found = client.streams.find("stock")
    assert (found.rows, found.quarantined) == (applied + 1, 4)

    # A row that would have to move is neither left where it is nor there twice.
    elsewhere = {"op": "u", "id": f"{kept[0][0]}", "name": "x", "amount": "1", "region": "r9", "position": 910}
    source.add(elsewhere)
    told_of = rf"the row with id = \({kept[0][0]}\) is in another partition \(region\) than the stream says"
    with pytest.raises(StreamingQueryException, match=told_of):
        source.run(schema, strict)
    strict.close()
    assert engine.query("SELECT * FROM w.stock ORDER BY id").rows == kept


@pytest.mark.backends("sqlite")
def test_the_examples_of_the_page_apply_change_events(
    engine: Engine, spool: str, spark: SparkSession, tmp_path: Path
) -> None:
    """The sink of the first block, and the query of the second one over Debezium's envelopes, from files."""
    engine.run(
        "CREATE DATABASE shop; CREATE TABLE shop.stock (id BIGINT, name STRING, amount INT) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    of_sink, of_operator = blocks_of_the_page()
    spark.conf.set("spark.hive.acid.stream.spool", spool)
    try:
        names: dict[str, Any] = {"hive_acid_sink": hive_acid_sink, "HiveAcidStreamOperator": dict}
        exec(of_sink, names)  # noqa: S102 - our own page
        # A micro-batch of a program's own, outside of any query.
        events = [("c", 1, "tea", 5, 1), ("d", 2, None, None, 2)]
        rows = spark.createDataFrame(events, "op string, id bigint, name string, amount int, position bigint")
        for _ in range(2):
            names["sink"](rows, 0)
        names["sink"].close()
        assert engine.query("SELECT * FROM shop.stock").rows == [[1, "tea", 5]]
        exec(of_operator, names)  # noqa: S102 - our own page
        given = names["stock"]
        envelopes = [
            {"op": "u", "before": None, "after": {"id": 3, "name": "jam", "amount": 1}},
            {"op": "d", "before": {"id": 1}, "after": None},
        ]
        files = Source(spark, tmp_path / "events")
        files.add(*({"value": json.dumps(e), "offset": i} for i, e in enumerate(envelopes)), {"offset": 9})
        job = {
            "format": "json", "options": {"path": str(tmp_path / "events" / "in")},
            "schema": "value string, offset bigint", "query": given["query"],
            "checkpoint": str(tmp_path / "events" / "cp"),
            "sink": {**given["sink"], "table": given["table"], "stream": "another"},
        }  # fmt: skip
        spark.conf.set(JOB, json.dumps(job))
        run_job(spark)
    finally:
        spark.conf.unset("spark.hive.acid.stream.spool")
        spark.conf.unset(JOB)
    assert engine.query("SELECT * FROM shop.stock").rows == [[3, "jam", 1]]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("op = = 'd'", r"delete_when=\"op = = 'd'\" of stream s is not one condition: .*Syntax error"),
        ("op = 'd'; DROP TABLE w.t", r"is not one condition: .*Syntax error at or near ';'"),
        ("op = 'd') OR (true", r"is not one condition: .*Syntax error at or near '\)'"),
        ("op = 'd' /* and", r"is not one condition: .*unclosed bracketed comment"),
        ("op = 'd' AS x", r"is not one condition: it gives a name"),
        ("colour = 'x'", r"cannot be asked of its columns id, op: .*`colour` cannot be resolved"),
        ("op", r"is string, and must be true or false: compare it with a value\. It takes one condition in Spark SQL"),
        ("id IN (SELECT 1)", r"no subquery. Join what it needs in the stream's own query"),
        ("EXISTS (SELECT * FROM range(3))", "no subquery"),
        ("count(1) > 0", "must be about one row by itself: no aggregate"),
        ("max(id) OVER () = id", "must be about one row by itself: no aggregate, window function"),
        ("explode(array(true))", r"must be about one row by itself: .*explode"),
        ("rand() < 0.5", r"must say the same of a row whenever it is asked"),
    ],
)
def test_what_is_no_condition_over_a_row_is_refused(spark: SparkSession, condition: str, message: str) -> None:
    rows = spark.range(1).selectExpr("id", "'d' as op")
    with pytest.raises(InvalidArgumentsError, match=message):
        Deletion(condition, "s").columns(rows)


def test_a_condition_is_read_when_the_sink_is_made_and_knows_its_columns(spark: SparkSession) -> None:
    given: dict[str, Any] = {"stream": "s", "mode": "upsert", "keys": ["id"]}
    with pytest.raises(InvalidArgumentsError, match="is not one condition"):
        hive_acid_sink("w.t", delete_when="op = = 'd'", **given)
    rows = spark.range(1).selectExpr("id", "'d' as op", "named_struct('Kind', 'x') as of", "null as nothing")
    for condition, names in (
        ("OP = 'd'", ["op"]), ("of.kind = 'd' OR nothing", ["nothing", "of"]), ("true", []),
    ):  # fmt: skip
        assert sorted(name.lower() for name in Deletion(condition, "s").columns(rows)) == names
    with pytest.raises(InvalidArgumentsError, match=r"delete_when='op = 1' of .* failed on a row: .* The value 'd'"):
        Deletion("op = 1", "s").check_values(Deletion("op = 1", "s").decided(rows))
    assert [row["__acid_deleted"] for row in Deletion("nothing", "s").decided(rows).collect()] == [False]


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
    warehouse: str,
    source: Source,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pytestconfig: pytest.Config,
) -> None:
    """Every other kill is one of the server (SIGKILL), the others stop the query in the middle of what it does.
    After each twenty the table is compacted and cleaned.

    Readers in parallel see whole micro-batches only: each has ten rows, and their sum says which ones.
    """
    kills, chance = pytestconfig.getoption("--stream-kills"), random.Random(13)
    monkeypatch.setattr("airflow_hive_acid.spark.streaming.sink._IDLE_SECONDS", 1.0)
    monkeypatch.setattr("airflow_hive_acid.spark.streaming.channel._LOOK_SECONDS", 0.2)
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
                query.awaitTermination()  # the last one does what all the others left
            sink.close()
            if number % 20 == 19:
                engine.run_compactions("w")
                run_cleaner(client, open_filesystem(warehouse))
            rows = engine.query(read).rows
            assert rows == [[n, 10, 10, 10 * n] for n in range(len(rows))]
        assert len(rows) == added
        # A query that was stopped between the source's note of a file and its own leaves two to one micro-batch.
        found = client.streams.find("s")
        assert found.batches == found.batch + 1 <= added
    finally:
        servers.kill()
