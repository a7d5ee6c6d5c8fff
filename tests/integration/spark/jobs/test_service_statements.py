"""Statements whose Spark service ends, in front of their step or behind it, and are tried again elsewhere (R5, R14)."""

from __future__ import annotations

import errno
import os
import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.applications import spool
from airflow_hive_acid.engine.applications.service import WithService
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.filesystem import AnyFilesystem
from airflow_hive_acid.maintenance import run_cleaner
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.jobs import service as jobs
from airflow_hive_acid.spark.jobs.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.crossing("statements x services that end"),
    pytest.mark.spark,
    pytest.mark.backends("sqlite"),
    pytest.mark.rule("R5"),
    pytest.mark.rule("R14"),
]

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
STATEMENTS = {
    "insert": ("INSERT INTO w.t VALUES (3, 'c')", [[1, "a"], [2, "b"], [3, "c"]]),
    "overwrite": ("INSERT OVERWRITE TABLE w.t SELECT a + 10, b FROM w.t", [[11, "a"], [12, "b"]]),
    "update": ("UPDATE w.t SET b = concat(b, b)", [[1, "aa"], [2, "bb"]]),
    "delete": ("DELETE FROM w.t WHERE a = 1", [[2, "b"]]),
    "merge": (
        "MERGE INTO w.t USING w.s ON t.a = s.a WHEN MATCHED THEN UPDATE SET b = concat(t.b, s.b) "
        "WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)",
        [[1, "a"], [2, "bx"], [3, "y"]],
    ),
}


@pytest.fixture
def above(tmp_path: Path, spark) -> Iterator[Path]:
    """The directory of a service that runs."""
    above = tmp_path / "services" / "etl"
    incarnation = uuid.uuid4().hex
    for directory in (above.parent, above, above / incarnation):
        directory.mkdir(mode=0o700)
    service = Service(spark, above.as_uri(), incarnation, places=2, max_callers=4)
    thread = threading.Thread(target=service.serve)
    thread.start()
    while not (above / "state.json").exists():
        time.sleep(0.01)
    yield above
    service.end()
    thread.join(30)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_applied_once_though_its_service_lets_go_of_it(
    client, warehouse, spark_application, above: Path, monkeypatch, name: str, moment: str
) -> None:
    """
    t1  A's statement runs in a service
    t2                    the service lets go of A: before the step began, or when all its files are there, unanswered
    t3  A fails, and its txn is aborted
    t4  A tries again under the same key, in a Spark of its own; a third time applies nothing
    t5                    the Cleaner leaves nothing of the first try
    """
    statement, rows = STATEMENTS[name]
    with Engine(client, spark_application, warehouse, agent_info="own") as own:
        own.run(
            f"CREATE DATABASE w; CREATE TABLE w.t (a INT, b STRING) {ACID}; CREATE TABLE w.s (a INT, b STRING) {ACID}"
        )
        own.run("INSERT INTO w.t VALUES (1, 'a'), (2, 'b'); INSERT INTO w.s VALUES (2, 'x'), (3, 'y')")
        execute, once = jobs.execute, Once((name, moment), "1")

        def lets_go(session, spec):
            if moment == "after":
                assert execute(session, spec).error is None
            raise RuntimeError("the service lets go")

        monkeypatch.setattr(jobs, "execute", lets_go)
        launcher = WithService(spark_application, above.as_uri(), None)
        with Engine(client, launcher, warehouse, agent_info="A") as engine, pytest.raises(JobFailedError):
            engine.run(statement, once=once)
        assert [txn.state.name for txn in client.show_transactions()] in ([], ["ABORTED"])
        assert own.query("SELECT a, b FROM w.t ORDER BY a").rows == [[1, "a"], [2, "b"]]
        for _ in range(2):
            own.run(statement, once=once)
        assert own.query("SELECT a, b FROM w.t ORDER BY a").rows == rows
    run_cleaner(client, AnyFilesystem())
    assert client.show_locks() == []


@pytest.mark.parametrize("whose", ["caller", "service"])
def test_a_full_disk_fails_the_statement_and_loses_nothing(
    client, warehouse, spark_application, above: Path, monkeypatch, whose: str
) -> None:
    """What is asked cannot be written, or the answer; a try after it finds the service as it was."""

    def full(write, ending):
        def put(self, uri, text):
            if uri.endswith(ending):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), uri)
            return write(self, uri, text)

        return put

    once = Once(("full", whose), "1")
    launcher = WithService(spark_application, above.as_uri(), None)
    with Engine(client, launcher, warehouse, agent_info="A") as engine:
        engine.run(f"CREATE DATABASE w; CREATE TABLE w.t (a INT) {ACID}")
        assert engine.query("SELECT count(*) FROM w.t").rows == [[0]]
        with monkeypatch.context() as patched:
            if whose == "caller":
                patched.setattr(spool, "put", full(spool.put, ".spec.json"))
            else:
                patched.setattr(
                    HadoopFilesystem,
                    "write_text_atomically",
                    full(HadoopFilesystem.write_text_atomically, ".result.json"),
                )
            with pytest.raises((OSError, JobFailedError), match=r"No space left on device|Spark service"):
                engine.run("INSERT INTO w.t VALUES (1)", once=once)
        assert {txn.state.name for txn in client.show_transactions()} <= {"ABORTED"}
        said: list[str] = []
    with Engine(client, WithService(spark_application, above.as_uri(), None, say=said.append), warehouse) as engine:
        engine.run("INSERT INTO w.t VALUES (1)", once=once)
        assert engine.query("SELECT count(*) FROM w.t").rows == [[1]]
    assert said == []
