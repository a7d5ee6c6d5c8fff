"""A Spark service with callers: what they share, what they do not, and what becomes of each when one of them goes."""

from __future__ import annotations

import errno
import os
import threading
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine.applications import spool
from airflow_hive_acid.engine.applications.found_services import find_services, service_directory
from airflow_hive_acid.engine.applications.service import ServiceSettings, WithService, serving
from airflow_hive_acid.errors import ConfigurationError, HiveAcidError, JobFailedError
from airflow_hive_acid.filesystem.local import LocalFilesystem
from airflow_hive_acid.format.jobs import Column, JobSpec, Program, Select, Source
from airflow_hive_acid.maintenance.worker.jobs import Application
from airflow_hive_acid.spark.hadoop import HadoopFilesystem
from airflow_hive_acid.spark.jobs.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from airflow_hive_acid.engine.applications.launcher import JobSession

pytestmark = pytest.mark.spark

SLOW = "SELECT count(*) AS n FROM range(0, 1000000000000, 1, 2) WHERE hash(id) = 5"


class Own:
    """A launcher that counts how often it was asked for an application of its own."""

    def __init__(self) -> None:
        self.asked: list[Application] = []
        self.ran: list[JobSpec] = []

    def start(self, application: Application = Application()) -> Own:  # noqa: B008 - as the protocol has it
        self.asked.append(application)
        return self

    def run(self, spec: JobSpec) -> str:
        self.ran.append(spec)
        return "own"

    def rows_uri(self, job_id: str) -> str:
        return f"file:/own/{job_id}"

    def close(self) -> None:
        """Nothing runs."""


@pytest.fixture
def above(tmp_path: Path) -> Path:
    (tmp_path / "services").mkdir(mode=0o700)
    (tmp_path / "services" / "etl").mkdir(mode=0o700)
    return tmp_path / "services" / "etl"


@pytest.fixture
def start(spark: SparkSession, above: Path) -> Iterator[Callable[..., Service]]:
    """Start a service in this process: ``start(places=2, …)``."""
    running: list[tuple[Service, threading.Thread]] = []

    def begin(**settings: float) -> Service:
        incarnation = uuid.uuid4().hex
        (above / incarnation).mkdir(mode=0o700)
        chosen = {"places": 2, "max_callers": 8, **settings}
        service = Service(spark, above.as_uri(), incarnation, **chosen)  # type: ignore[arg-type]
        thread = threading.Thread(target=service.serve)
        thread.start()
        running.append((service, thread))
        _await(lambda: (above / "state.json").exists() and incarnation in (above / "state.json").read_text())
        return service

    yield begin
    for service, thread in running:
        service.end()
        thread.join(30)
        assert not thread.is_alive()


def _await(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def call(above: Path, said: list[str] | None = None) -> tuple[JobSession, Own]:
    own = Own()
    messages: list[str] = [] if said is None else said
    return WithService(own, above.as_uri(), None, say=messages.append).start(), own


def query(session: JobSession, sql: str, **more: object) -> list[list[object]]:
    job = str(uuid.uuid4())
    uri = session.rows_uri(job)
    session.run(JobSpec(job, Select(sql, uri), **more))  # type: ignore[arg-type]
    return list(session.read_rows(uri))


@pytest.mark.parametrize("fails", ["refuses", "is silent"])
def test_storage_that_spark_cannot_write_ends_a_service_before_it_is_ready(
    spark: SparkSession, above: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    over = threading.Event()

    def replace_text(_self: HadoopFilesystem, uri: str, _text: str) -> None:
        if fails == "refuses":
            raise OSError(f"AccessDenied: {uri}")
        over.wait(60)

    monkeypatch.setattr(HadoopFilesystem, "replace_text", replace_text)
    service = Service(spark, above.as_uri(), "one", places=1, max_callers=1)
    thread = threading.Thread(target=service.serve)
    thread.start()
    why = "AccessDenied" if fails == "refuses" else "no answer for 0 s"
    try:
        with pytest.raises(ConfigurationError, match=f"--spool: the Spark application cannot write.*{why}"):
            service.require_storage(60 if fails == "refuses" else 0.2)
        assert service.has_ended == (fails == "refuses")
    finally:
        service.end()
        over.set()
        thread.join(60)
    assert not thread.is_alive()


def test_callers_share_the_application_and_nothing_else(start, above: Path, tmp_path: Path, spark) -> None:
    """Views of the same name, and settings, at the same time."""
    start()
    sessions = [call(above)[0] for _ in range(2)]
    assert {session.wait_ready() for session in sessions} == {spark.sparkContext.applicationId}
    found: dict[int, list[list[object]]] = {}

    def work(number: int) -> None:
        (tmp_path / f"{number}.csv").write_text(f"n\n{number}\n")
        options = {"header": "true", "path": (tmp_path / f"{number}.csv").as_uri()}
        view = Source("v", "csv", options, (Column("n", "int"),))
        conf = {"spark.sql.shuffle.partitions": str(number + 1)}
        for _ in range(5):
            found[number] = query(sessions[number], "SELECT n FROM v", sources=(view,), conf=conf)
            assert found[number] == [[number]]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == {0: [[0]], 1: [[1]]}
    for session in sessions:
        session.close()
    assert [path.name for path in above.glob("*/session-*")] == []


def test_a_clock_that_jumps_ends_nobody(start, above: Path, monkeypatch) -> None:
    """Forward and back by a day, in the service and its callers: who is alive is told by signs that change."""
    now = time.time
    monkeypatch.setattr(spool, "ALIVE_SECONDS", 0.2)
    start(idle_seconds=2.0, max_idle=20.0)
    session, own = call(above)
    for days in (1, -1, 0):
        monkeypatch.setattr(time, "time", lambda days=days: now() + 86_400 * days)
        assert query(session, f"SELECT {days} AS n") == [[days]]
        newcomer, _own = call(above)
        assert query(newcomer, "SELECT 7 AS n") == [[7]]
        newcomer.close()
        (found,) = find_services(above.parents[1].as_uri(), look_again=2.5)
        assert found.problem is None
    assert query(session, "SELECT 8 AS n") == [[8]]
    session.close()
    assert own.asked == []


def test_what_a_caller_cannot_remove_fails_nothing_and_does_not_stay(start, above: Path, monkeypatch) -> None:
    """The service may write into a caller's directory while the caller removes it."""
    monkeypatch.setattr(spool, "ALIVE_SECONDS", 0.2)
    start(idle_seconds=4.0)
    session, _own = call(above)
    assert query(session, "SELECT 1 AS n") == [[1]]

    def busy(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))

    with monkeypatch.context() as patched:
        patched.setattr(LocalFilesystem, "delete", busy)
        session.close()
    _await(lambda: not list(above.glob("*/session-*")))


@pytest.mark.parametrize("how", ["cancelled", "silent"])
def test_a_caller_that_goes_takes_only_its_own_step_with_it(start, above: Path, monkeypatch, how: str) -> None:
    monkeypatch.setattr(spool, "ALIVE_SECONDS", 0.2)
    start(idle_seconds=4.0)
    mine, other = call(above)[0], call(above)[0]
    failed: list[Exception] = []

    def slow() -> None:
        try:
            query(mine, SLOW)
        except HiveAcidError as error:
            failed.append(error)

    thread = threading.Thread(target=slow)
    thread.start()
    _await(lambda: any(c.running for s in find_services(above.parents[1].as_uri()) for c in s.state.callers))
    if how == "cancelled":
        mine.cancel()
    else:
        mine._session._ended.set()  # type: ignore[attr-defined]  # the thread that says that we are here
    assert query(other, "SELECT 1 AS n") == [[1]]
    thread.join(60)
    assert not thread.is_alive()
    assert len(failed) == 1
    _await(lambda: len(find_services(above.parents[1].as_uri())[0].state.callers) == 1)
    assert query(other, "SELECT 2 AS n") == [[2]]
    # It may be dead, so what it has handed in does not stay.
    _await(lambda: len(list(above.glob("*/session-*"))) == 1)
    assert not mine.is_alive
    mine.close()
    other.close()


def test_steps_wait_for_their_turn(start, above: Path) -> None:
    start(places=1)
    slow, quick = call(above)[0], call(above)[0]
    failed: list[JobFailedError] = []

    def run_slow() -> None:
        try:
            query(slow, SLOW)
        except JobFailedError as error:
            failed.append(error)

    thread = threading.Thread(target=run_slow)
    thread.start()
    place = above.parents[1].as_uri()
    _await(lambda: any(c.running and not c.waits for s in find_services(place) for c in s.state.callers))
    answer: list[list[list[object]]] = []
    waiting = threading.Thread(target=lambda: answer.append(query(quick, "SELECT 1 AS n")))
    waiting.start()
    _await(lambda: any(c.waits for s in find_services(place) for c in s.state.callers))
    assert answer == []
    slow.cancel()
    waiting.join(60)
    assert answer == [[[1]]]
    thread.join(60)
    assert len(failed) == 1
    slow.close()
    quick.close()


def test_a_service_that_ends_fails_what_it_ran_and_is_not_asked_again(start, above: Path) -> None:
    service = start()
    session, _ = call(above)
    assert query(session, "SELECT 1 AS n") == [[1]]
    service.end()
    _await(lambda: service.has_ended)
    with pytest.raises(JobFailedError, match="It was the Spark service in"):
        query(session, "SELECT 1 AS n")
    assert not session.is_alive
    session.close()


def test_a_full_one_sends_callers_to_a_spark_of_their_own(start, above: Path) -> None:
    start(max_callers=1)
    first, _ = call(above)
    said: list[str] = []
    own = Own()
    launcher = WithService(own, above.as_uri(), None, say=said.append)
    assert launcher.start() is own
    assert launcher.start() is own
    assert said == [
        f"the Spark service '{above.as_uri()}' is not used: it serves 1 callers, as many as it may. "
        "A Spark of its own is started"
    ]
    first.close()
    _await(lambda: launcher.start() is not own)  # as soon as the service has seen that the first one is gone


def test_programs_run_in_a_spark_of_their_own_and_so_does_what_follows(start, above: Path) -> None:
    start()
    session, own = call(above)
    assert query(session, "SELECT 1 AS n") == [[1]]
    program = JobSpec("p", Program("p", "def f(job): pass", None, "f", {}, session.rows_uri("p")))
    assert session.run(program) == "own"
    after = JobSpec("a", Select("SELECT 1", session.rows_uri("a")))
    assert session.run(after) == "own"
    assert (len(own.asked), own.ran) == (1, [program, after])
    session.close()


@pytest.mark.parametrize(
    "what", ["a file in place of the directory", "a name that is no text", "a file where a refusal belongs"]
)
def test_what_one_caller_does_to_its_directory_is_no_end_of_the_others(start, above: Path, what: str) -> None:
    service = start(max_callers=1 if what == "a file where a refusal belongs" else 8)
    session, _ = call(above)
    assert query(session, "SELECT 1 AS n") == [[1]]
    (incarnation,) = (path for path in above.iterdir() if path.is_dir())
    bad = incarnation / "session-bad"
    if what == "a name that is no text":
        bad.mkdir(0o700)
        (bad / "caller").write_bytes(b"\xff\xfe")
    else:
        bad.write_text("")  # nothing can be written below it
    _await(lambda: "session-bad" in service._known)
    time.sleep(0.3)
    assert query(session, "SELECT 2 AS n") == [[2]]
    assert not service.has_ended
    session.close()


def test_it_ends_by_itself_when_nobody_calls(start, above: Path) -> None:
    service = start(max_idle=0.5)
    _await(lambda: service.has_ended)


def test_whoever_loses_the_name_ends(start, above: Path) -> None:
    first = start()
    start()
    _await(lambda: first.has_ended)


def test_a_name_is_held_once_and_a_directory_of_others_is_refused(tmp_path: Path) -> None:
    class Launcher:
        def start_job(self, *_: object) -> Own:
            return Own()

    uri = service_directory("etl", tmp_path.as_uri())
    with serving(Launcher(), uri, ServiceSettings()):
        with (
            pytest.raises(ConfigurationError, match="a service named 'etl' runs already"),
            serving(Launcher(), uri, ServiceSettings()),
        ):
            pass
        old = tmp_path / "services" / "etl" / "20200101T000000-old"
        old.mkdir()
    with serving(Launcher(), uri, ServiceSettings()):
        assert not old.exists()
    (tmp_path / "services" / "etl").chmod(0o710)
    with pytest.raises(ConfigurationError, match="chmod go="), serving(Launcher(), uri, ServiceSettings()):
        pass
    said: list[str] = []
    assert isinstance(call(tmp_path / "services" / "etl", said)[0], Own)
    assert "chmod go=" in said[0]


def test_a_directory_that_cannot_be_written_starts_nothing(tmp_path: Path) -> None:
    """The message names the option, the directory and the remedy; a caller goes on with a Spark of its own."""
    (tmp_path / "file").write_text("no directory")
    uri = service_directory("etl", (tmp_path / "file").as_uri())
    cannot = pytest.raises(ConfigurationError, match=r"--spool: .*/file/services/etl cannot be written .* may write")
    with cannot, serving(None, uri, ServiceSettings()):  # type: ignore[arg-type]  # it is not asked
        pass
    said: list[str] = []
    own = Own()
    assert WithService(own, uri, None, say=said.append).start() is own
    assert len(said) == 1
    assert "A Spark of its own is started" in said[0]


def test_spark_forgets_the_queries_that_are_over(start, above: Path, spark) -> None:
    """Else a driver that has served thousands of them is full of their sessions."""
    start()
    session, _ = call(above)
    for _ in range(3):
        assert query(session, "SELECT id, count(*) AS n FROM range(0, 2) GROUP BY id ORDER BY id") == [[0, 1], [1, 1]]
    session.close()
    scheduler = spark._jsparkSession.sparkContext().dagScheduler()
    if "activeQueryToJobs" in dir(scheduler):  # not in older Sparks
        _await(lambda: scheduler.activeQueryToJobs().size() == 0)
