"""``hive-acid stream run`` with the program of docs/how-to/streams/streaming.md and a spark-submit that is killed."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.story("a stream of the command line, killed")]
PROGRAM = Path(sys.executable).parent / "hive-acid"
EXAMPLE = Path(__file__).parents[2] / "examples" / "stream_orders.py"
FILES, ROWS = 12, 5


@pytest.fixture
def run(metastore_url, tmp_path, engine):
    """Starts the example on twelve micro-batches of five orders."""
    engine.run(
        "CREATE DATABASE shop;"
        "CREATE TABLE shop.orders (id BIGINT, customer STRING, amount DECIMAL(10,2), at TIMESTAMP) "
        "PARTITIONED BY (day DATE) STORED AS ORC TBLPROPERTIES ('transactional'='true');"
        "CREATE TABLE shop.customers (customer STRING, city STRING, at TIMESTAMP) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    orders = tmp_path / "orders"
    orders.mkdir()
    for number in range(FILES):
        file = orders / f"{number:03d}.json"
        rows = (
            {"id": number * ROWS + i, "customer": f"c{i}", "city": f"city {number}", "amount": "1.50",
             "day": f"2026-01-0{1 + number % 2}", "at": f"2026-01-01T10:{number:02d}:00"}
            for i in range(ROWS)
        )  # fmt: skip
        file.write_text("\n".join(map(json.dumps, rows)))
        # The source reads files in the order of their times, which a fast machine does not tell apart.
        os.utime(file, (1_700_000_000 + number,) * 2)
    started = []

    def run():
        process = subprocess.Popen(
            [str(PROGRAM), "--metastore-url", metastore_url, "--spark-master", "local[1]", "stream", "run",
             str(EXAMPLE), str(orders), str(tmp_path / "checkpoints")],
            env=os.environ | {"HIVE_ACID_CACHE": str(tmp_path / "cache"), "HIVE_ACID_HOME": str(tmp_path / "home")},
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
        process.wait()
        process.stderr.close()


def _jvm(process, client, stream, batches):
    """The application's JVM, when a stream has committed so many micro-batches."""
    deadline = time.monotonic() + 180
    while not any(found.name == stream and found.batches >= batches for found in client.streams.all()):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline, "the stream does not go on"
        time.sleep(0.01)
    return next(p for p in psutil.Process(process.pid).children(recursive=True) if "java" in p.name())


@pytest.mark.backends("sqlite")
def test_an_application_whose_jvm_is_killed_is_told_of_and_goes_on_where_it_was(run, client, engine, pytestconfig):
    """
    t1  the first stream has committed three micro-batches
    t2  kill -9 of its JVM; the command says so, and ends with 1
    t3  with ``--stream-kills 3`` and more, when its second stream, the upserts, has committed five: the same
    t4  the next run comes to the end
    """
    moments = [("orders", 3), ("customers", 5)] if pytestconfig.getoption("--stream-kills") > 2 else [("orders", 3)]
    read = "SELECT count(*), count(DISTINCT id), min(id), max(id) FROM shop.orders"
    for stream, batches in moments:
        process = run()
        _jvm(process, client, stream, batches).kill()
        _, told = process.communicate(timeout=60)
        assert process.returncode == 1, told
        assert "the streaming application ended with code -9" in told
        assert "micro-batches were committed, and a later run goes on after them" in told
        ((rows, ids, first, last),) = engine.query(read).rows
        assert (rows, ids, first, last) == (last + 1, last + 1, 0, last)
        assert (last + 1) % ROWS == 0, "a micro-batch is there as a whole or not at all"
    last = run()
    _, told = last.communicate(timeout=180)
    assert last.returncode == 0, told
    assert engine.query(read).rows == [[FILES * ROWS, FILES * ROWS, 0, FILES * ROWS - 1]]
    assert engine.query("SELECT customer, city FROM shop.customers ORDER BY customer").rows == [
        [f"c{i}", f"city {FILES - 1}"] for i in range(ROWS)
    ]
    streams = {stream.name: stream for stream in client.streams.all()}
    assert {name: stream.running for name, stream in streams.items()} == {"orders": False, "customers": False}
    for stream in streams.values():
        # Spark's source of files notes a file before the micro-batch is noted: killed between, the next one has two.
        assert FILES - len(moments) <= stream.batches <= FILES
