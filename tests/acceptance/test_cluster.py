"""A Spark standalone cluster on loopback: two workers, nothing shared with the driver but the warehouse.

The workers know nothing of this checkout: what executors need of the package comes with the application.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from airflow_hive_acid.engine import Engine, SparkSubmitLauncher
from airflow_hive_acid.maintenance.decisions import Kind
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.story("a table on a standalone cluster")]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    folder = tmp_path_factory.mktemp("cluster")
    home = Path(pyspark.__file__).parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SPARK_", "PYSPARK_"))}
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    environment["SPARK_DAEMON_JAVA_OPTS"] = os.environ["SPARK_SUBMIT_OPTS"]
    main = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy"]
    processes: list[subprocess.Popen[bytes]] = []
    deadline = time.monotonic() + 600

    def start(kind: str, *arguments: str) -> Path:
        log = folder / f"log{len(processes)}"
        command = [main[0], f"{main[1]}.{kind}", "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with log.open("wb") as output:
            processes.append(
                subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
            )
        return log

    def wait() -> None:
        logs = "\n".join(p.read_text()[-2000:] for p in sorted(folder.glob("log*")))
        assert all(p.poll() is None for p in processes), logs
        assert time.monotonic() < deadline, logs
        time.sleep(0.2)

    try:
        # Both ports are the master's choice: one that was free a moment ago may be somebody else's by then.
        log = start("master.Master", "--port", "0")
        while not (page := re.search(r"MasterUI' on port (\d+)", log.read_text())):
            wait()
        url = re.search(r"Starting Spark master at (\S+)", log.read_text())[1]
        for i in (1, 2):
            start("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work{i}"), url)
        while _alive_workers(int(page[1])) < 2:
            wait()
        yield url
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _alive_workers(page: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0


@pytest.fixture
def engine(master: str, warehouse: str, tmp_path: Path) -> Iterator[Engine]:
    """An engine whose jobs run on that cluster; parts of a bucket are worth a task of their own."""
    client = MetastoreClient(f"sqlite:///{tmp_path / 'metastore.db'}")
    client.create_schema()
    launcher = SparkSubmitLauncher(
        master,
        conf={
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
            "spark.default.parallelism": "12",
            "spark.driver.host": "127.0.0.1",
            "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
            "spark.sql.shuffle.partitions": "2",
        },
        log_directory=tmp_path / "logs",
        environment={"SPARK_LOCAL_IP": "127.0.0.1"},
    )
    settings = Settings({Source.REQUEST: {"hive.acid.spark.range.bytes": "4096"}})
    with client, Engine(client, launcher, warehouse, settings=settings) as engine:
        yield engine


def test_a_table_lives_on_a_cluster_of_two_workers(engine: Engine) -> None:
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (id INT, name STRING) PARTITIONED BY (p INT) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    loaded = engine.run("INSERT INTO w.t SELECT id, concat('n', id), id % 3 FROM range(0, 3000, 1, 4)")[0]
    assert loaded.inserted == 3000
    engine.run(
        "UPDATE w.t SET name = upper(name) WHERE id % 10 = 0; DELETE FROM w.t WHERE id < 30; "
        "MERGE INTO w.t USING (SELECT 35 AS i UNION ALL SELECT 5000) s ON t.id = s.i "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.i, 'new', 0); "
        "ALTER TABLE w.t PARTITION (p=0) COMPACT 'major'"
    )
    (outcome,) = engine.run_compactions("cluster-1")
    assert outcome.kind is Kind.COMPACTED, outcome
    found = engine.query("SELECT p, count(*), sum(id), count_if(name like 'N%') FROM w.t GROUP BY p ORDER BY p")
    assert found.rows == [[p, *_expected(p)] for p in range(3)]


def _expected(p: int) -> tuple[int, int, int]:
    left = {i: f"{'N' if i % 10 == 0 else 'n'}{i}" for i in range(30, 3000) if i != 35} | {5000: "new"}
    chosen = [i for i in left if (0 if i == 5000 else i % 3) == p]
    return len(chosen), sum(chosen), sum(left[i].startswith("N") for i in chosen)


def test_an_executor_that_is_killed_costs_time_alone(
    engine: Engine, warehouse: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Tasks share a bucket (decision 70). An executor dies when the first of them have begun their files.

    Its tasks run again. What it has left does not count (R4, R5): no row is lost, none is there twice.
    """
    rows = 400_000
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (id INT, name STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    engine.run(f"INSERT INTO w.t SELECT id, sha2(cast(id AS STRING), 256) FROM range(0, {rows}, 1, 1)")  # noqa: S608 - a number
    of = tmp_path_factory.getbasetemp()
    table = Path(warehouse.removeprefix("file://")) / "w.db" / "t"
    with _killing_an_executor(table, of) as killed:
        (updated,) = engine.run("UPDATE w.t SET name = upper(name) WHERE id % 3 = 0")
    assert killed
    assert updated.updated == len(range(0, rows, 3))
    with _killing_an_executor(table, of) as killed:
        engine.run("ALTER TABLE w.t COMPACT 'major'")
        (outcome,) = engine.run_compactions("cluster-2")
    assert killed
    assert outcome.kind is Kind.COMPACTED, outcome
    found = engine.query(
        "SELECT count(*), count(DISTINCT id), sum(id), count_if(name = upper(sha2(cast(id AS STRING), 256))), "
        "count_if(name = sha2(cast(id AS STRING), 256)) FROM w.t"
    )
    third = len(range(0, rows, 3))
    assert found.rows == [[rows, rows, sum(range(rows)), third, rows - third]]


@contextlib.contextmanager
def _killing_an_executor(table: Path, of: Path) -> Iterator[list[int]]:
    """Kill one as soon as a task has begun a file below the table; the ids of whom it was.

    :param of: the executors work below this directory.
    """
    # What is left of the last job may still lie there. A file is called bucket_N only when all tasks are over.
    known, killed, over = set(table.rglob("part-*")), list[int](), threading.Event()

    def watch() -> None:
        while not over.is_set() and not killed:
            new = set(table.rglob("part-*")) - known
            found = _executors(of) if new else []
            if found:
                os.kill(found[0], signal.SIGKILL)
                killed.append(found[0])
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        over.set()
        watcher.join()


def _executors(of: Path) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes()
            if b"CoarseGrainedExecutorBackend" in command and (process / "cwd").resolve().is_relative_to(of):
                found.append(int(process.name))
    return found
