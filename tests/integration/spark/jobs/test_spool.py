"""The driver's end of a session: steps from a spool directory, in one process and through spark-submit."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column, Insert, JobSpec, PartitionRef, Select, TableSnapshot, View
from airflow_hive_acid.format.jobs.documents import result_from_json
from airflow_hive_acid.format.jobs.documents import to_json as document
from airflow_hive_acid.spark import session
from airflow_hive_acid.spark.jobs.spool import Spool

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[4]


def select(job_id: str, folder: Path, sql: str) -> str:
    return document(JobSpec(job_id, Select(sql, f"file:{folder}/rows-{job_id}")))


def test_a_driver_says_that_it_is_here_as_long_as_it_serves(spark: SparkSession, tmp_path: Path) -> None:
    """What the control plane waits for is a change of the file, from before ``ready.json`` to the end."""
    serving = threading.Thread(target=Spool(spark, tmp_path.as_uri(), 60, here_seconds=0.05).serve)
    serving.start()
    try:
        seen = set()
        deadline = time.monotonic() + 60
        while len(seen) < 4 and time.monotonic() < deadline:
            if (tmp_path / "ready.json").exists():
                with contextlib.suppress(FileNotFoundError):
                    seen.add((tmp_path / "here").read_text())
            time.sleep(0.01)
        assert len(seen) >= 4
    finally:
        (tmp_path / "close").write_text("")
        serving.join()


def test_what_a_driver_writes_is_its_owners_alone_with_any_umask(spark: SparkSession, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    spool.chmod(0o700)
    before = os.umask(0)
    try:
        (tmp_path / "spec").write_text(select("a", spool, "select 1"))
        (tmp_path / "spec").rename(spool / "0001.spec.json")
        (tmp_path / "close").write_text("")
        (tmp_path / "close").rename(spool / "close")
        assert Spool(spark, spool.as_uri(), 60).serve() == 1
    finally:
        os.umask(before)
    written = {
        p.name: stat.S_IMODE(p.stat().st_mode) for p in spool.iterdir() if p.name not in ("0001.spec.json", "close")
    }
    assert written == {"0001.result.json": 0o600, "here": 0o600, "ready.json": 0o600, "rows-a": 0o600}


def test_steps_are_answered_in_order_and_a_failure_does_not_end_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "0001.spec.json").write_text(select("a", tmp_path, "select 1"))
    (tmp_path / "0002.spec.json").write_text(select("b", tmp_path, "select nope"))
    (tmp_path / "0003.spec.json").write_text('{"version": 99, "job_id": "c"}')
    (tmp_path / "0004.spec.json").write_text(select("d", tmp_path, "select 4 as x"))
    (tmp_path / "close").write_text("")
    assert Spool(spark, tmp_path.as_uri(), 60).serve() == 4
    ready = json.loads((tmp_path / "ready.json").read_text())
    assert ready == {
        "application_id": spark.sparkContext.applicationId,
        "spark_version": spark.version,
        "pid": os.getpid(),
    }
    answers = [result_from_json((tmp_path / f"000{i}.result.json").read_text()) for i in range(1, 5)]
    assert [a.job_id for a in answers] == ["a", "b", "c", "d"]
    assert [a.error.type if a.error else None for a in answers] == [
        None,
        "InvalidArgumentsError",
        "InvalidArgumentsError",
        None,
    ]
    assert "version 99" in answers[2].error.message  # type: ignore[union-attr]
    assert (tmp_path / "rows-d").read_text() == "[4]\n"
    assert not [p for p in tmp_path.iterdir() if "partial" in p.name]


@pytest.mark.rule("R5")
def test_a_driver_that_is_started_again_leaves_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """R5: two drivers of one spool would write everything twice."""
    (tmp_path / "ready.json").write_text("{}")
    with pytest.raises(InvalidArgumentsError, match="another driver serves this spool"):
        Spool(spark, tmp_path.as_uri(), 60).serve()


def test_a_session_leaves_when_its_control_plane_gives_no_sign(spark: SparkSession, tmp_path: Path) -> None:
    """t0 ready; t100 alive changes; t155 still there; t161 gone. The clock is the test's."""
    seconds = itertools.chain([0.0, 50.0], itertools.count(100.0, 5.0))
    seen: list[float] = []

    def clock() -> float:
        now = next(seconds)
        if now == 100.0:
            (tmp_path / "alive").write_text("1")
        seen.append(now)
        return now

    assert Spool(spark, tmp_path.as_uri(), 60, clock).serve() == 0
    assert seen[-1] == 160.0


def await_file(path: Path, process: subprocess.Popen[Any]) -> str:
    deadline = time.monotonic() + 180
    while not path.exists():
        assert process.poll() is None, f"the driver left with {process.returncode}"
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.05)
    return path.read_text()


@pytest.mark.repeats("a session of the launcher's, as every test of tests/acceptance has it, by hand")
def test_a_session_of_spark_submit_writes_a_table(tmp_path: Path) -> None:
    """The way the engine does it: a process of its own, three steps, then close."""
    spool, root = tmp_path / "spool", tmp_path / "t"
    spool.mkdir()
    root.mkdir()
    (spool / "alive").write_text("0")
    submit = Path(sys.executable).parent / "spark-submit"
    command = [str(submit), "--master", "local[1]", "--driver-java-options", "-Duser.timezone=UTC"]
    command += ["--conf", "spark.ui.enabled=false", str(ROOT / "spark_jobs" / "session.py"), "--spool", spool.as_uri()]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
        try:
            ready = json.loads(await_file(spool / "ready.json", process))
            snapshot = TableSnapshot(
                "db.t",
                root.as_uri(),
                (Column("id", "int"), Column("at", "timestamp")),
                (),
                (PartitionRef("", root.as_uri()),),
                "db.t:1:9223372036854775807::",
                "1:9223372036854775807::",
            )
            step = Insert(snapshot, "select 7, timestamp'2021-03-28 02:30:00'", 1, 0)
            spec = JobSpec("one", step, staging=f"{root.as_uri()}/_tmp_one")
            (spool / "partial").write_text(document(spec))
            (spool / "partial").rename(spool / "0001.spec.json")
            result = result_from_json(await_file(spool / "0001.result.json", process))
            assert result.error is None
            assert (result.application_id, result.inserted) == (ready["application_id"], 1)
            (directory,) = result.directories
            (root / "_tmp_one" / "data" / directory.name).rename(root / directory.name)
            sql = JobSpec("two", Select("select * from v", f"{spool.as_uri()}/rows"), views=(View("v", snapshot),))
            (spool / "partial").write_text(document(sql))
            (spool / "partial").rename(spool / "0002.spec.json")
            assert result_from_json(await_file(spool / "0002.result.json", process)).error is None
            assert (spool / "rows").read_text() == '[7,"2021-03-28 02:30:00"]\n'
            (spool / "close").write_text("")
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_jvm_in_another_time_zone_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its ORC writer would store other wall clocks than Hive reads."""
    zone = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zone.getDefault()
    session._time_zone.cache_clear()
    try:
        zone.setDefault(zone.getTimeZone("Europe/Berlin"))
        with pytest.raises(ConfigurationError, match=r"is Europe/Berlin; .*-Duser\.timezone=UTC"):
            session.require_utc(spark)
    finally:
        zone.setDefault(before)
        session._time_zone.cache_clear()
