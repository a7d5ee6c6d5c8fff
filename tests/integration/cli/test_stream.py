"""``hive-acid stream``: what was committed, forgetting a stream, and a program that opens none."""

from __future__ import annotations

import json

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.engine import SparkSubmitLauncher
from airflow_hive_acid.engine.streams.runs import StreamRunner
from airflow_hive_acid.engine.streams.server import StreamServer
from airflow_hive_acid.errors import JobFailedError, LeaseEndedError, StreamBusyError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.maintenance.worker.jobs import Application
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.schema.streams import HIVE_ACID_STREAM


@pytest.fixture
def run(metastore_url):
    """Runs a command line in this process."""

    def run(*arguments):
        return CliRunner().invoke(app, ["--metastore-url", metastore_url, "stream", *arguments])

    return run


def test_streams_are_shown_and_forgotten(run, client):
    owner = client.streams.open("orders", "w.t", "q", "somebody", table_id=1, silent_ms=30_000)
    client.streams.begun(owner, "1", [7])
    client.database.run(client.streams.at_commit(owner, "1", 0, 7, 3, 10, 2, '{"sources": "{}"}'))
    (shown,) = json.loads(run("show", "--format", "json").stdout)
    assert {k: v for k, v in shown.items() if k != "silent_s"} == {
        "stream": "orders", "table": "w.t", "batch": 0, "txn": 7, "write_id": 3, "batches": 1, "rows": 10,
        "quarantined": 2, "state": "running", "who": "somebody", "offsets": '{"sources": "{}"}',
    }  # fmt: skip
    assert isinstance(run("forget", "orders").exception, StreamBusyError)
    # A process that was killed has not left it, and is dead after hive.acid.stream.owner.timeout.
    silent = sa.update(HIVE_ACID_STREAM).values(HSR_BEAT=HIVE_ACID_STREAM.c.HSR_BEAT - 31_000)
    client.database.run(lambda connection: connection.execute(silent))
    assert run("forget", "orders").exit_code == 0
    assert client.streams.all() == []


class Program:
    """A spark-submit that was started, and how it ended."""

    def __init__(self, code):
        self.code = code
        self.stopped = self.released = False

    def exit_code(self):
        return self.code

    def stop(self):
        self.stopped = True

    def log_tail(self):
        return "  | the end of the log"

    def release(self):
        self.released = True


@pytest.mark.parametrize("code", [0, 3])
def test_a_program_that_writes_nothing_is_told_of_and_an_error_only_if_it_fails(client, tmp_path, code):
    """Spark calls no sink when a query with ``availableNow`` finds nothing new."""
    program, given = Program(code), []

    class Launcher:
        def submit(self, script, arguments, conf, application):
            spool = tmp_path / "spool"
            spool.mkdir()
            given.append((script, arguments, conf(f"file:{spool}")))
            return program, f"file:{spool}"

    runner = StreamRunner(client, Launcher(), client.settings, "test")
    if code:
        with pytest.raises(JobFailedError, match="the end of the log"):
            runner.run("x.py", ["1"], {"spark.a": "b"})
    else:
        done = runner.run("x.py", ["1"], {"spark.a": "b"})
        assert done.to_document() == {"micro_batches": 0, "streams": 0}
        assert str(done).startswith("no micro-batch was written: nothing new had come, or the program")
    assert given == [("x.py", ["1"], {"spark.a": "b", "spark.hive.acid.stream.spool": f"file:{tmp_path}/spool"})]
    assert program.stopped
    assert program.released
    assert not (tmp_path / "spool").exists()


def test_a_program_is_submitted_with_its_spool_in_a_private_file_and_its_arguments_behind_it(tmp_path):
    submit = tmp_path / "spark-submit"
    submit.write_text(
        '#!/bin/sh\nfor a in "$@"; do echo "arg=$a"; done\n'
        'while [ $# -gt 0 ]; do [ "$1" = --properties-file ] && cat "$2"; shift; done\n'
    )
    submit.chmod(0o755)
    launcher = SparkSubmitLauncher("local[1]", program=str(submit), log_directory=tmp_path / "logs")
    driver, spool = launcher.submit("job.py", ["a b", "last"], lambda uri: {"spark.spool": uri}, Application(name="n"))
    assert driver.wait(60)
    log = driver.log.read_text()
    driver.stop()
    driver.release()
    assert log.index("arg=job.py") < log.index("arg=a b") < log.index("arg=last")
    assert f"spark.spool={spool}" in log


@pytest.mark.rule("R8")
@pytest.mark.parametrize(("command", "what"), [(["run", "x.py"], StreamRunner), (["serve", "--spool"], StreamServer)])
def test_streams_run_under_the_lease_of_the_environment(run, client, monkeypatch, tmp_path, command, what):
    client.catalog.set_warehouse(tmp_path.as_uri())
    client.catalog.create_database("w")
    client.catalog.create_table(TableDefinition("w", "t", (Column("id", "int"),)))
    lease = client.leases.grab_lease("w.t", 600)
    held = []
    monkeypatch.setattr(StreamRunner, "run", lambda runner, *_arguments: held.append(runner._client.leases.current))
    monkeypatch.setattr(StreamServer, "serve", lambda server: held.append(server._lease))
    monkeypatch.setenv("HIVE_ACID_LEASE", lease.token)
    given = command if what is StreamRunner else [*command, str(tmp_path / "spool")]
    assert run(*given).exit_code == 0
    assert [each.lease_id for each in held] == [lease.lease_id]
    client.leases.drop_lease(lease)
    assert isinstance(run(*given).exception, LeaseEndedError)
    assert len(held) == 1
