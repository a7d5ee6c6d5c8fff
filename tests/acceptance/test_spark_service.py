"""A Spark service as a program of its own, and what becomes of its callers when it, or a part of it, is killed."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.applications.found_services import find_services
from airflow_hive_acid.engine.applications.service import WithService
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import HiveAcidError, JobFailedError
from tests.acceptance.test_kill import PROGRAM, descendants, states, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.crossing("a Spark service x who is killed"),
    pytest.mark.spark,
    pytest.mark.backends("sqlite"),
]

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'orc.stripe.size'='262144')"
LONG = "INSERT INTO w.{} SELECT x.n, y.n, concat(x.n, '-', y.n) FROM v x CROSS JOIN v y"


class Serving:
    """``hive-acid spark serve`` in a process of its own."""

    def __init__(self, spool: Path, master: str, *more: str) -> None:
        self.spool = spool.as_uri()
        arguments = ["--spark-master", master, *more, "spark", "serve", "--name", "etl", "--spool", self.spool]
        self.process = subprocess.Popen(
            [str(PROGRAM), *arguments],
            env=os.environ | {"HIVE_ACID_CACHE": str(spool / "cache"), "HIVE_ACID_HOME": str(spool / "home")},
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: self.process.poll() is not None or any(f.problem is None for f in find_services(self.spool)))
        assert self.process.poll() is None, self.process.stderr.read()

    @property
    def parts(self) -> list[psutil.Process]:
        """Its driver's Java and Python, its executors, and what started them."""
        return descendants(self.process.pid)

    def end(self) -> str:
        """Told to end; what it said."""
        parts = self.parts if self.process.poll() is None else []
        self.process.terminate()
        said = self.process.communicate(timeout=60)[1]
        assert psutil.wait_procs(parts, timeout=30)[1] == []
        return said


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    """Start a service: ``serve("local[2]")``."""
    running: list[Serving] = []

    def start(master: str = "local[2]", *more: str) -> Serving:
        running.append(Serving(tmp_path, master, *more))
        return running[-1]

    yield start
    for service in running:
        for victim in [*service.parts, service.process] if service.process.poll() is None else []:
            victim.kill()
        service.process.communicate()


class Caller:
    """An engine whose statements run in the service; else in the shared application of the tests, and that is said."""

    def __init__(self, client, warehouse: str, own, service: Serving) -> None:
        self.said: list[str] = []
        self.launcher = WithService(own, "etl", service.spool, say=self.said.append)
        self.engine = Engine(client, self.launcher, warehouse, agent_info="caller")
        self.failures: list[HiveAcidError] = []

    def begin(self, sql: str, **more: object) -> threading.Thread:
        """Run it in a thread."""

        def run() -> None:
            try:
                self.engine.run(sql, **more)
            except HiveAcidError as error:
                self.failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread


@pytest.fixture
def numbers(tmp_path: Path) -> Callable[[int], str]:
    """Makes the view ``v`` of so many numbers; the square of 2,000 takes seconds to write."""

    def numbers(count: int) -> str:
        (tmp_path / "numbers.csv").write_text("\n".join(map(str, range(count))))
        return f"CREATE TEMPORARY VIEW v (n INT) USING csv OPTIONS (path '{tmp_path / 'numbers.csv'}');"

    return numbers


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def written(client, table: str) -> bool:
    """Whether a job has begun to write files of a table."""
    where = Path(client.catalog.get_table(table).location.removeprefix("file:"))
    return any(path.stat().st_size for path in where.glob("_tmp_*/**/*.orc"))


def test_a_service_that_is_killed_makes_each_callers_statement_a_retry_that_is_applied_once(
    client, engine, warehouse, spark_application, serve, numbers
) -> None:
    """
    t1  A and B run an INSERT each in the service, and C waits with one for nothing
    t2  kill -9 of the service's Spark
    t3  A's and B's statements fail and their txns are aborted; nothing of them is visible
    t4  A and B try again, by the same name, in a Spark of their own: the rows are there once (R5, R14)
    t5  C, who ran nothing, goes on without a failure
    """
    service = serve()
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.a (x INT, y INT, s STRING) {ACID}; CREATE TABLE w.b LIKE w.a")
    engine.run(f"CREATE TABLE w.c (x INT) {ACID}")
    callers = [Caller(client, warehouse, spark_application, service) for _ in "abc"]
    once = [Once(("dag", "run", f"task {name}"), life="0") for name in "ab"]
    callers[2].engine.run("INSERT INTO w.c VALUES (1)")
    view = numbers(6000)
    tries = [callers[i].begin(view + LONG.format("ab"[i]), once=once[i]) for i in range(2)]
    wait_for(lambda: sum(bool(c.running) for f in find_services(service.spool) for c in f.state.callers) == 2)
    wait_for(lambda: written(client, "w.a") or written(client, "w.b") or any(c.failures for c in callers))
    assert [caller.failures for caller in callers] == [[], [], []]
    (found,) = find_services(service.spool)
    assert len(found.state.callers) == 3
    victims = [part for part in service.parts if "java" in part.name()]
    for victim in victims:
        victim.kill()
    for thread in tries:
        thread.join(90)
        assert not thread.is_alive()
    assert [len(caller.failures) for caller in callers] == [1, 1, 0]
    assert all(isinstance(caller.failures[0], JobFailedError) for caller in callers[:2])
    assert set(states(client)) <= {"ABORTED"}
    assert engine.query("SELECT count(*) FROM w.a UNION ALL SELECT count(*) FROM w.b").rows == [[0], [0]]
    assert service.process.wait(60) == 1
    assert "the Spark service 'etl' has ended" in service.process.stderr.read()

    numbers(300)  # the same statement, and done sooner
    for i in range(2):
        for _ in range(2):  # the second time it is applied already
            callers[i].engine.run(view + LONG.format("ab"[i]), once=once[i])
    counted = "SELECT count(*), count(DISTINCT s) FROM w.a UNION ALL SELECT count(*), count(DISTINCT s) FROM w.b"
    assert engine.query(counted).rows == [[90_000, 90_000]] * 2
    callers[2].engine.run("INSERT INTO w.c VALUES (2)")
    assert engine.query("SELECT sum(x) FROM w.c").rows == [[3]]
    for caller in callers:
        assert len(caller.said) == 1
        assert "is not used" in caller.said[0]
        caller.engine.close()


def test_a_caller_that_is_killed_leaves_the_others_and_the_service_as_they_were(
    client, engine, warehouse, spark_application, serve, numbers, metastore_url, tmp_path
) -> None:
    """kill -9 of a caller in the middle of its INSERT; tests/integration/spark/jobs has the end of its job."""
    service = serve("local[2]", "--spark-conf", "spark.ui.enabled=false")
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.a (x INT, y INT, s STRING) {ACID}; CREATE TABLE w.c (x INT) {ACID}")
    other = Caller(client, warehouse, spark_application, service)
    other.engine.run("INSERT INTO w.c VALUES (1)")
    # So long that only its end ends it, and few rows of it.
    long = LONG.format("a").replace("v x", "v z CROSS JOIN v x") + " WHERE pmod(hash(y.n, z.n), 50) = 7"
    options = ["--metastore-url", metastore_url, "--spark-service", f"{service.spool}/services/etl"]
    victim = subprocess.Popen(
        [str(PROGRAM), *options, "sql", "-e", numbers(3000) + long],
        env=os.environ | {"HIVE_ACID_CACHE": str(tmp_path / "cache"), "HIVE_ACID_HOME": str(tmp_path / "home")},
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: written(client, "w.a") or victim.poll() is not None)
    assert victim.poll() is None
    assert descendants(victim.pid) == []  # no Spark of its own
    victim.kill()
    victim.wait()
    other.engine.run("INSERT INTO w.c VALUES (2)")
    wait_for(lambda: len(find_services(service.spool)[0].state.callers) == 2)
    other.engine.run("INSERT INTO w.c VALUES (3)")
    assert other.engine.query("SELECT sum(x) FROM w.c").rows == [[6]]
    assert other.said == []
    assert engine.query("SELECT count(*) FROM w.a").rows == [[0]]  # its txn is open, for the reaper
    other.engine.close()
    assert "Spark service 'etl' has ended" in service.end()
    assert find_services(service.spool) == []


def test_an_executor_that_is_killed_costs_time_and_nothing_else(
    client, engine, warehouse, spark_application, serve, numbers
) -> None:
    """On a cluster in one machine: the tasks of the executor run anew elsewhere, and write each row once."""
    service = serve("local-cluster[2,1,1024]", "--spark-conf", "spark.executor.memory=1g")
    engine.run(f"CREATE DATABASE w; CREATE TABLE w.a (x INT, y INT, s STRING) {ACID}")
    caller = Caller(client, warehouse, spark_application, service)
    thread = caller.begin(numbers(2000) + LONG.format("a"))
    wait_for(lambda: written(client, "w.a") or not thread.is_alive())
    executors = [p for p in service.parts if _is_executor(p)]
    assert len(executors) == 2
    executors[0].kill()
    thread.join(180)
    assert not thread.is_alive()
    assert (caller.failures, caller.said) == ([], [])
    counted = "SELECT count(*), count(DISTINCT s) FROM w.a"
    assert caller.engine.query(counted).rows == [[4_000_000, 4_000_000]]
    caller.engine.close()
