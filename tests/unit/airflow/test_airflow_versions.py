"""Older Airflows: what has moved is found where it was, what they lack has a form that says so."""

from __future__ import annotations

import ast
import logging
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pendulum
import pytest

import airflow_hive_acid
from airflow_hive_acid import airflow_stand_ins, airflow_versions
from airflow_hive_acid.airflow_versions import seconds_of
from airflow_hive_acid.operators import (
    HiveAcidCompactOperator,
    HiveAcidGrabLeaseOperator,
    HiveAcidPlanWorkersOperator,
    retries,
)
from airflow_hive_acid.sensors import HiveAcidReplicationLagSensor

_ROOT = Path(airflow_hive_acid.__file__).parent


def test_every_name_is_found_in_this_airflow():
    assert [name for name in airflow_versions.__all__ if not hasattr(airflow_versions, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'NoSuchThing'"):
        _ = airflow_versions.NoSuchThing


def test_a_name_is_taken_from_the_first_place_that_has_it(monkeypatch):
    older = ModuleType("older_place")
    older.thing = "there"
    monkeypatch.setitem(__import__("sys").modules, "older_place", older)
    assert airflow_versions._found("thing", ("airflow.no_such_module", "airflow.sdk", "older_place")) == "there"
    with pytest.raises(ImportError, match=r"this Airflow has no thing; airflow-hive-acid runs on Airflow 3\.1 to 3\.3"):
        airflow_versions._found("thing", ("airflow.no_such_module",))


def test_names_that_have_moved_are_imported_in_no_other_module():
    moved = set(airflow_versions.__all__) - {"conf"}
    for path in _ROOT.rglob("*.py"):
        if path.name in ("airflow_versions.py", "airflow_stand_ins.py"):
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "from airflow." in text else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow."):
                assert {each.name for each in node.names} & moved == set(), path


def test_options_of_variables_count_whatever_the_file_names(monkeypatch):
    """Before 3.3 Airflow leaves out variables of options that it does not know."""
    known = SimpleNamespace(getsection=lambda section: {"hive_site": "/etc/hive-site.xml", "of_file": 1})
    monkeypatch.setattr(airflow_versions, "_found", lambda name, places: known)
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_COMPACTOR_WORKER_REPORTS_THREADS", "2")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__OF_FILE", "3")
    found = airflow_versions.options_of("hive_acid")
    assert found["hive_compactor_worker_reports_threads"] == "2"
    assert (found["hive_site"], found["of_file"]) == ("/etc/hive-site.xml", "3")


def test_readers_of_lineage_are_found_in_the_managers_of_before(monkeypatch):
    asked = []
    manager = SimpleNamespace(
        initialize_hook_lineage_readers_plugins=lambda: asked.append(True), hook_lineage_reader_classes=[object]
    )
    monkeypatch.setattr(airflow_versions, "_first", lambda modules: manager)
    assert airflow_versions.has_lineage_readers()
    manager.hook_lineage_reader_classes = None
    assert not airflow_versions.has_lineage_readers()
    assert asked == [True, True]


def test_a_policy_that_nobody_asks_says_so_once(monkeypatch, caplog):
    monkeypatch.setattr(retries, "has_retry_policies", lambda: False)
    retries._say_that_nobody_asks.cache_clear()
    with caplog.at_level(logging.WARNING):
        retries.HiveAcidRetryPolicy()
        retries.HiveAcidRetryPolicy()
    retries._say_that_nobody_asks.cache_clear()
    assert len(caplog.records) == 1
    assert "HiveAcidRetryPolicy does nothing here: Airflow asks retry policies since 3.3" in caplog.text


def test_stand_ins_answer_as_airflow_does():
    answers = [
        airflow_stand_ins.RetryDecision.default(),
        airflow_stand_ins.RetryDecision.fail("no"),
        airflow_stand_ins.RetryDecision.retry(None, "yes"),
    ]
    assert [(each.action.value, each.reason) for each in answers] == [
        ("default", None), ("fail", "no"), ("retry", "yes"),
    ]  # fmt: skip
    item = airflow_stand_ins.AdvanceItem("look", airflow_stand_ins.AdvanceOutcome(acked=1, failed=0))
    assert (item.broker_payload, item.outcome.failed) == ("look", 0)


def test_durations_of_pendulum_and_of_python_are_seconds_and_numbers_stay():
    for given in (pendulum.duration(minutes=2), timedelta(minutes=2), 120, 120.0):
        assert seconds_of(given) == 120
    assert (seconds_of(None), seconds_of("{{ x }}")) == (None, "{{ x }}")
    grab = HiveAcidGrabLeaseOperator(
        task_id="g", objects="d.t", duration=pendulum.duration(hours=1), wait=timedelta(minutes=5)
    )
    assert (grab.duration, grab.wait) == (3600, 300)
    compact = HiveAcidCompactOperator(task_id="c", table="d.t", timeout=pendulum.duration(days=1))
    assert compact.timeout == 86400
    lag = HiveAcidReplicationLagSensor(task_id="l", policy="p", max_lag=pendulum.duration(seconds=30))
    assert lag.max_lag == 30
    plan = HiveAcidPlanWorkersOperator(task_id="p", wait_seconds=timedelta(seconds=7))
    assert plan.wait_seconds == 7
