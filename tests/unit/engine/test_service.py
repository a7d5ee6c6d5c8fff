"""Whether a caller uses a Spark service: version, Python, and whether its process lives."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import airflow_hive_acid
from airflow_hive_acid.engine.applications import service
from airflow_hive_acid.engine.applications.found_services import find_services, service_directory
from airflow_hive_acid.engine.applications.service import ServiceSettings, WithService, serving
from airflow_hive_acid.errors import ConfigurationError, InvalidArgumentsError
from airflow_hive_acid.format.services import SERVES, STATE, ServiceState, birth, place
from airflow_hive_acid.maintenance.worker.jobs import Application

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
LIVES = ServiceState(
    incarnation="one",
    beat=1,
    application_id="local-1",
    package=airflow_hive_acid.__version__,
    python=PYTHON,
    spark="4.3.0",
    place=place(),
    pid=os.getpid(),
    started=0,
    places=1,
    max_callers=1,
    idle_seconds=0.0,
    birth=birth(os.getpid()) or "",
)


class Own:
    """A launcher whose sessions are it."""

    def __init__(self) -> None:
        self.asked: list[Application] = []

    def start(self, application: Application = Application()) -> Own:  # noqa: B008 - as the protocol has it
        self.asked.append(application)
        return self


def write(above: Path, state: ServiceState | str, name: str = "etl") -> str:
    directory = above / "services" / name
    directory.mkdir(0o700, parents=True, exist_ok=True)
    (directory / STATE).write_text(state if isinstance(state, str) else state.to_json())
    return directory.as_uri()


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (replace(LIVES, package="0.0.1"), r"it is of airflow-hive-acid 0\.0\.1, and this is "),
        (replace(LIVES, python="2.7"), rf"its Python is 2\.7, and this one is {PYTHON}"),
        (replace(LIVES, pid=2**22 + 1), "its process 4194305 has ended"),
        (replace(LIVES, birth="1"), "its process [0-9]+ has ended"),  # the number is another one's by now
        (LIVES, "it is ending"),  # the directory of its incarnation is gone
        ("no state", "there is none in file:"),
    ],
    ids=["version", "python", "gone", "another process", "ending", "no state"],
)
def test_a_service_that_cannot_be_used_is_said_once_and_a_spark_of_ones_own_starts(tmp_path, state, why):
    uri, own, said = write(tmp_path, state), Own(), []
    launcher = WithService(own, "etl", tmp_path.as_uri(), say=said.append)
    assert launcher.uri == uri
    assert launcher.start() is launcher.start() is own
    assert len(said) == 1
    assert re.search(why, said[0])
    found = [(f.name, f.problem) for f in find_services(tmp_path.as_uri())]
    if isinstance(state, str):
        assert found == []
    else:
        assert [name for name, _ in found] == ["etl"]
        assert (found[0][1] is None) == (state is LIVES)


@pytest.mark.parametrize("state", [replace(LIVES, place="elsewhere", pid=2**22 + 1), replace(LIVES, birth="")])
def test_of_a_process_that_cannot_be_seen_nothing_is_known(tmp_path, state):
    write(tmp_path, state)
    (found,) = find_services(tmp_path.as_uri())
    assert found.problem is None


def test_a_service_that_does_not_answer_is_left_alone_and_nothing_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(service, "ANSWER_SECONDS", 0.2)
    write(tmp_path, LIVES)
    incarnation = tmp_path / "services" / "etl" / "one"
    incarnation.mkdir(0o700)
    (incarnation / SERVES).touch()
    own, said = Own(), []
    assert WithService(own, "etl", tmp_path.as_uri(), say=said.append).start() is own
    assert "it has not answered for 0 s" in said[0]
    assert [path.name for path in incarnation.iterdir()] == [SERVES]


def test_an_application_of_a_kind_is_ones_own(tmp_path):
    own, said = Own(), []
    kind = Application(conf={"spark.executor.memory": "8g"})
    assert WithService(own, "etl", tmp_path.as_uri(), say=said.append).start(kind) is own
    assert (own.asked, said) == ([kind], [])


@pytest.mark.parametrize("name", ["../other", "a/b", ""])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name):
    with pytest.raises(InvalidArgumentsError, match="cannot be the name of a Spark service"):
        service_directory(name, tmp_path.as_uri())


def test_nobody_serves_where_nobody_may_write(tmp_path, monkeypatch):
    class Launcher:
        def start_job(self, *_: object) -> object:
            raise AssertionError("it must not come to that")

    (tmp_path / "services").write_text("")  # as good as a place without rights, for root too
    with pytest.raises((ConfigurationError, OSError), match="services"):
        serving(Launcher(), service_directory("etl", tmp_path.as_uri()), ServiceSettings()).__enter__()


def test_storage_that_gives_no_answer_is_a_fault_of_the_option_before_any_spark_starts(monkeypatch):
    """Clients of object stores go on trying for minutes; nobody waits for them so long."""
    over = threading.Event()

    class Silent:
        def local_path(self, _uri: str) -> None:
            return None

        def make_directory(self, _uri: str) -> None:
            over.wait(60)

    class Launcher:
        def start_job(self, *_: object) -> object:
            raise AssertionError("it must not come to that")

    monkeypatch.setattr(service, "STORE_SECONDS", 0.2)
    monkeypatch.setattr(service, "open_filesystem", lambda _uri: Silent())
    try:
        with pytest.raises(
            ConfigurationError, match=r"--spool: the storage of s3a://b/services/etl has given no answer"
        ):
            serving(Launcher(), "s3a://b/services/etl", ServiceSettings()).__enter__()
    finally:
        over.set()


def test_the_clock_of_the_wall_has_no_say(tmp_path, monkeypatch):
    """It jumps by years while a caller waits: the wait goes by a clock that only goes forward."""
    monkeypatch.setattr(service, "ANSWER_SECONDS", 0.2)
    jumps = iter(range(0, 10**12, 10**9))
    monkeypatch.setattr(time, "time", lambda: float(next(jumps)))
    write(tmp_path, LIVES)
    (tmp_path / "services" / "etl" / "one").mkdir(0o700)
    own, said = Own(), []
    assert WithService(own, "etl", tmp_path.as_uri(), say=said.append).start() is own
    assert len(said) == 1
