"""How applications on YARN are found, and what their end asks of YARN's client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.engine.applications.yarn import (
    YarnApplication,
    earlier_applications,
    yarn_application,
    yarn_settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPOOL = "hdfs://ns/spool/session-1"
LIST = "application -list -appStates NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING -appTags"


@pytest.fixture
def asked(tmp_path: Path) -> Callable[[str], tuple[str, Callable[[], list[str]]]]:
    """Make a ``spark-submit`` that writes down what it was asked: ``asked(script) -> program, questions``."""

    def make(script: str) -> tuple[str, Callable[[], list[str]]]:
        program, said = tmp_path / "spark-submit", tmp_path / "said"
        program.write_text(f'#!/bin/sh\necho "$@" >> {said}\n{script}\n')
        program.chmod(0o755)
        return str(program), lambda: said.read_text().splitlines() if said.exists() else []

    return make


def _application(program: str, **more: object) -> YarnApplication:
    made = yarn_application("yarn", "cluster", {}, program, {}, spool=SPOOL, **more)  # type: ignore[arg-type]
    assert made is not None
    return made


def test_tags_are_those_of_the_launch_and_of_the_try_behind_the_users() -> None:
    assert yarn_settings("yarn", {}, SPOOL + "/") == {"spark.yarn.tags": "hive-acid-session-1"}
    tags = yarn_settings("yarn", {"spark.yarn.tags": " etl, nightly,"}, SPOOL, "airflow/d/r/t#3")["spark.yarn.tags"]
    *first, of_try = tags.split(",")
    assert first == ["etl", "nightly", "hive-acid-session-1"]
    assert of_try.startswith("hive-acid-task-")
    assert of_try.endswith("-3")
    assert (len(of_try) <= 100, of_try) == (True, of_try.lower())
    assert yarn_settings("k8s://https://api", {}, SPOOL, "t#1") == {}
    assert yarn_settings("yarn", {}, SPOOL, "no task at all") == yarn_settings("yarn", {}, SPOOL)


def test_only_drivers_on_yarn_have_an_application_to_end() -> None:
    assert yarn_application("yarn", "client", {}, "spark-submit", {}, spool=SPOOL) is None
    assert yarn_application("k8s://https://api", "cluster", {}, "spark-submit", {}, spool=SPOOL) is None


def test_a_retry_looks_for_the_tries_before_it_and_for_those_of_its_own_task_alone() -> None:
    def tag(task: str) -> str:
        return yarn_settings("yarn", {}, SPOOL, task)["spark.yarn.tags"].split(",")[-1]

    own = _application("spark-submit", login=("airflow@R", "/k"))
    earlier = earlier_applications(own, "d/t#3")
    assert earlier is not None
    assert earlier.tags == (tag("d/t#1"), tag("d/t#2"))
    assert earlier.options == own.options == ("--principal", "airflow@R", "--keytab", "/k")
    assert not {tag("d/t#3"), tag("d/t[1]#1"), tag("d/u#1")} & set(earlier.tags)
    assert earlier_applications(own, "d/t#1") is None
    assert earlier_applications(own, None) is None
    late = earlier_applications(own, "d/t#500")
    assert late is not None
    assert len(late.tags) == 20


@pytest.mark.parametrize("said", ["", "INFO YarnClientImpl: Submitted application application_17_0042\nmore"])
def test_an_application_is_ended_by_its_id_or_else_found_by_its_tag(asked, caplog, said) -> None:
    caplog.set_level("INFO", logger="airflow_hive_acid")
    listing = "printf 'Total number of applications: 1\\n  Application-Id Name\\napplication_17_0042\\tx\\n'"
    program, questions = asked(f'case "$*" in *-list*) {listing};; esac')
    assert _application(program).delete(said) is True
    *searched, ended = [line.partition("spark-internal ")[2] for line in questions()]
    assert searched == ([] if said else [f"{LIST} hive-acid-session-1"])
    assert ended == "application -kill application_17_0042"
    assert "application_17_0042" in caplog.text


def test_nothing_is_ended_where_nothing_runs(asked) -> None:
    program, questions = asked("echo 'Total number of applications: 0'")
    assert _application(program).delete("INFO Client: no room for application_1") is True
    assert len(questions()) == 1


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ({}, ""),
        ({"user": "ann"}, "--proxy-user ann"),
        ({"login": ("a@R", "/k")}, "--principal a@R --keytab /k"),
        ({"login": ("a@R", "/k"), "user": "ann"}, "--proxy-user ann"),
    ],
)
def test_yarn_is_asked_with_the_login_of_the_application(asked, more, options) -> None:
    program, questions = asked("echo 'Total number of applications: 0'")
    assert _application(program, **more).delete() is True
    (question,) = questions()
    middle = question.partition("--driver-memory 256m ")[2].partition("--class ")[0].strip()
    assert middle == options


def test_the_login_of_the_settings_counts_where_there_is_no_connection() -> None:
    conf = {"spark.kerberos.principal": "a@R", "spark.kerberos.keytab": "/k"}
    made = yarn_application("yarn", "cluster", conf, "spark-submit", {}, spool=SPOOL)
    assert made is not None
    assert made.options == ("--principal", "a@R", "--keytab", "/k")


@pytest.mark.parametrize(
    ("script", "reason"),
    [("echo 'AccessControlException: User ann cannot perform MODIFY_APP' >&2; exit 1", "cannot perform MODIFY_APP")],
)
def test_an_application_that_could_not_be_ended_is_named_with_the_command_that_ends_it(
    asked, caplog, script, reason
) -> None:
    program, _ = asked(script)
    assert _application(program).delete() is False
    assert reason in caplog.text
    assert "yarn application -list -appTags hive-acid-session-1" in caplog.text


def test_a_missing_program_is_no_error_of_whoever_clears_up(tmp_path: Path, caplog) -> None:
    assert _application(str(tmp_path / "none")).delete() is False
    assert "may still run" in caplog.text
