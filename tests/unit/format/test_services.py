"""What a Spark service says of itself, and how a process is told from another one of the same number."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.services import Caller, ServiceState, birth, place, service_name

STATE = ServiceState(
    incarnation="20261127T010203-abc",
    beat=7,
    application_id="local-1",
    package="1.0",
    python="3.11",
    spark="4.3.0",
    place="boot:pid:[1]",
    pid=42,
    started=1_795_000_000_000,
    places=4,
    max_callers=32,
    idle_seconds=1.5,
    callers=(Caller("etl/run/task", "insert into t", True), Caller("ann@host process 3")),
    birth="12345",
)


def test_what_is_written_is_read():
    assert ServiceState.of(STATE.to_json()) == STATE
    assert ServiceState.of(replace(STATE, callers=()).to_json()) == replace(STATE, callers=())


def test_what_a_later_version_adds_is_left_alone_and_what_an_earlier_lacks_is_unknown():
    import json

    said = json.loads(STATE.to_json())
    said["mood"] = "good"
    del said["birth"]
    assert ServiceState.of(json.dumps(said)) == replace(STATE, birth="")


@pytest.mark.parametrize("text", ["", "[]", "7", '{"beat": 1}', "{", '{"callers": [{"name": 1}]}'])
def test_what_is_no_state_is_an_error(text):
    with pytest.raises(ValueError, match=r"."):
        ServiceState.of(text)


@pytest.mark.parametrize("name", ["etl", "a", "9.night-run_2", "x" * 64])
def test_names(name):
    assert service_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "-a", "a b", "ä", "x" * 65, "a\n", "a\0b"])
def test_what_cannot_be_the_name_of_a_directory_is_refused(name):
    with pytest.raises(InvalidArgumentsError, match="cannot be the name of a Spark service"):
        service_name(name)


def test_a_process_has_one_birth_and_another_process_another():
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        mine, its = birth(os.getpid()), birth(other.pid)
        assert mine
        assert its
        assert mine == birth(os.getpid())
        assert int(its) >= int(mine)
    finally:
        other.kill()
        other.wait()
    assert birth(other.pid) is None


def test_whoever_sees_the_same_processes_has_the_same_place():
    asked = "from airflow_hive_acid.format.services import place; print(place())"
    said = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
    assert said == place() != ""
