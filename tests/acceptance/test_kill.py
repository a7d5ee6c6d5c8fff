"""Processes that die: what they wrote is never visible, and is cleaned up."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from airflow_hive_acid.cli.main import app
from airflow_hive_acid.metastore.schema.hive_transactions import TXNS

pytestmark = [pytest.mark.spark, pytest.mark.instead("postgresql")]
PROGRAM = Path(sys.executable).parent / "hive-acid"


@pytest.fixture
def long_insert(metastore_url, client, engine, tmp_path, warehouse):
    """Runs a command line whose INSERT takes long, up to the point where its job writes files."""
    data = tmp_path / "numbers.csv"
    data.write_text("\n".join(map(str, range(20000))))
    engine.run(
        "CREATE DATABASE w; CREATE TABLE w.t (a INT, b INT, c STRING) STORED AS ORC "
        # Small stripes: the first bytes reach a file at once, and not when the job is nearly over.
        "TBLPROPERTIES ('transactional'='true', 'orc.stripe.size'='262144'); INSERT INTO w.t VALUES (1, 1, 'x')"
    )
    view = f"CREATE TEMPORARY VIEW v (n INT) USING csv OPTIONS (path '{data}');"
    insert = "INSERT INTO w.t SELECT x.n, y.n, concat(x.n, '-', y.n) FROM v x CROSS JOIN v y"
    process = subprocess.Popen(
        [str(PROGRAM), "--metastore-url", metastore_url, "--spark-master", "local[1]", "sql", "-e", view + insert],
        env=os.environ | {"HIVE_ACID_CACHE": str(tmp_path / "cache"), "HIVE_ACID_HOME": str(tmp_path / "home")},
        stderr=subprocess.PIPE,
        text=True,
    )
    table = Path(client.catalog.get_table("w.t").location.removeprefix("file:"))
    try:
        wait_for(lambda: process.poll() is not None or any(p.stat().st_size for p in table.glob("_tmp_*/**/*.orc")))
        assert process.poll() is None, process.stderr.read()
        process.spark = descendants(process.pid)
        process.table = table
        assert any("java" in p.name() for p in process.spark)
        yield process
    finally:
        for victim in getattr(process, "spark", []):
            if victim.is_running():
                victim.kill()
        process.kill()
        process.wait()
        process.stderr.close()


def wait_for(condition, seconds=180):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


def descendants(pid):
    return psutil.Process(pid).children(recursive=True)


def states(client):
    return [row.state.name for row in client.show_transactions()]


def maintain(metastore_url, service):
    """As the command line does it, without the start of a process."""
    done = CliRunner().invoke(app, ["--metastore-url", metastore_url, "maintenance", service, "--once"])
    assert done.exit_code == 0, done.output
    return done.output


def let_heartbeat_stop_long_ago(client):
    with client.database.transaction() as connection:
        connection.execute(sa.update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=1000))


def test_killed_driver_and_control_plane_leave_a_txn_for_the_reaper(long_insert, metastore_url, client, engine):
    """
    t1  A's Spark job writes its files
    t2  kill -9 of A's control plane and of its Spark driver: nobody can say anything any more
    t3                    readers do not see A's rows; A's txn is still open
    t4                    its heartbeat is too old: the reaper aborts it and fences its job
    t5                    the Cleaner removes what A left
    """
    long_insert.kill()
    for victim in long_insert.spark:
        victim.kill()
    psutil.wait_procs(long_insert.spark, timeout=20)
    assert engine.query("SELECT count(*) FROM w.t").rows == [[1]]
    assert states(client) == ["OPEN"]
    assert list(long_insert.table.glob("_tmp_*"))

    maintain(metastore_url, "reaper")
    assert states(client) == ["OPEN"]
    let_heartbeat_stop_long_ago(client)
    told = maintain(metastore_url, "reaper")
    assert states(client) == ["ABORTED"], told
    assert engine.query("SELECT count(*) FROM w.t").rows == [[1]]
    assert client.show_locks() == []

    maintain(metastore_url, "cleaner")
    left = [p for p in long_insert.table.rglob("*") if p.is_file() and p.suffix == ".orc"]
    assert left == []
    assert [p.name for p in long_insert.table.iterdir() if p.is_dir()] == ["delta_0000001_0000001_0000"]
    assert engine.run("INSERT INTO w.t VALUES (2, 2, 'y')")[0].write_ids == {"w.t": 3}
    assert engine.query("SELECT count(*) FROM w.t").rows == [[2]]


def test_killed_driver_is_told_and_its_txn_aborted_at_once(long_insert, client, engine):
    """
    t1  A's Spark job writes its files
    t2  kill -9 of the Spark driver alone
    t3  A's control plane says so, aborts the txn and ends with 1
    """
    jvm = next(p for p in long_insert.spark if "java" in p.name())
    jvm.kill()
    assert long_insert.wait(timeout=60) == 1
    told = long_insert.stderr.read()
    assert "the Spark application ended with code -9" in told
    assert "The whole log:" in told
    assert states(client) == ["ABORTED"]
    assert engine.query("SELECT count(*) FROM w.t").rows == [[1]]
    wait_for(lambda: not any(p.is_running() for p in long_insert.spark), 20)


def test_command_line_that_is_asked_to_end_stops_spark_and_aborts(long_insert, client):
    """
    t1  A's Spark job writes its files
    t2  SIGTERM
    t3  A stops the job, aborts the txn and ends with 1; no process of Spark is left
    """
    long_insert.send_signal(signal.SIGTERM)
    assert long_insert.wait(timeout=60) == 1
    assert "interrupted" in long_insert.stderr.read()
    assert states(client) == ["ABORTED"]
    wait_for(lambda: not any(p.is_running() for p in long_insert.spark), 20)
