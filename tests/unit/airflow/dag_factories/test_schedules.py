"""Schedules of the maintenance DAGs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from airflow.sdk import Asset

from airflow_hive_acid.airflow_versions import (
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    interval_of,
)
from airflow_hive_acid.dag_factories.schedules import (
    SHORTEST_WAIT,
    WAITING_RUN,
    ScheduleRule,
    airflow_pool,
    timetable,
    timetable_or_assets,
    wait_of,
)
from airflow_hive_acid.errors import InvalidArgumentsError

RULE = ScheduleRule("initiator_schedule", "hive.compactor.check.interval")
OPTION = "AIRFLOW__HIVE_ACID__INITIATOR_SCHEDULE"


def test_interval_of_hives_setting_counts_when_no_schedule_is_given():
    found = timetable(RULE)
    assert isinstance(found, DeltaTriggerTimetable)
    assert interval_of(found) == timedelta(seconds=300)


@pytest.mark.setting("hive.compactor.check.interval")
def test_hives_setting_can_be_changed_in_the_section(monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_COMPACTOR_CHECK_INTERVAL", "20m")
    assert interval_of(timetable(RULE)) == timedelta(minutes=20)


def test_seconds_of_hives_cleaner_become_what_a_run_waits():
    waiting = ScheduleRule("cleaner_schedule", "hive.compactor.cleaner.run.interval", waits=WAITING_RUN)
    assert interval_of(timetable(waiting)) == timedelta(minutes=5)
    assert wait_of(waiting) == 300


def test_an_interval_below_a_minute_is_obeyed_as_far_as_runs_can_follow(monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_COMPACTOR_CHECK_INTERVAL", "30s")
    assert interval_of(timetable(RULE)) == timedelta(seconds=30)
    waiting = ScheduleRule("worker_schedule", "hive.compactor.check.interval", waits=SHORTEST_WAIT)
    assert interval_of(timetable(waiting)) == timedelta(minutes=1)


def test_an_interval_that_runs_cannot_follow_is_refused_with_what_can_be_done(monkeypatch):
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__HIVE_COMPACTOR_CHECK_INTERVAL", "5s")
    with pytest.raises(InvalidArgumentsError, match=r"hive\.compactor\.check\.interval is 5 s.*initiator_schedule"):
        timetable(RULE)
    monkeypatch.setenv(OPTION, "@hourly")
    assert isinstance(timetable(RULE), CronTriggerTimetable)


def test_a_run_at_times_of_a_persons_choice_does_not_wait(monkeypatch):
    monkeypatch.setenv(OPTION, "@hourly")
    assert wait_of(RULE) == 0
    monkeypatch.setenv(OPTION, "never")
    assert wait_of(RULE) == 0


def test_workers_of_a_pool_run_in_the_airflow_pool_that_is_said_to_exist(monkeypatch):
    assert (airflow_pool(None), airflow_pool("etl")) == ("default_pool", "default_pool")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__COMPACTION_POOL", "hive")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__COMPACTION_POOLS", "etl, reports = reports_pool")
    pools = [airflow_pool(pool) for pool in (None, "ETL", "reports", "other")]
    assert pools == ["hive", "etl", "reports_pool", "hive"]
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__COMPACTION_POOLS", "etl=")
    with pytest.raises(InvalidArgumentsError, match=r"\[hive_acid\] compaction_pools = 'etl='"):
        airflow_pool("etl")


@pytest.mark.parametrize(("text", "cron"), [("*/7 * * * *", "*/7 * * * *"), ("@hourly", "0 * * * *")])
def test_cron_and_presets(monkeypatch, text, cron):
    monkeypatch.setenv(OPTION, text)
    found = timetable(RULE)
    assert isinstance(found, CronTriggerTimetable)
    assert (getattr(found, "expression", None) or found._expression) == cron


def test_never_is_no_schedule(monkeypatch):
    monkeypatch.setenv(OPTION, "never")
    assert timetable(RULE) is None


def test_what_is_no_schedule_is_refused_by_name(monkeypatch):
    monkeypatch.setenv(OPTION, "now and then, or so, maybe")
    with pytest.raises(InvalidArgumentsError, match=r"\[hive_acid\] initiator_schedule = 'now and then"):
        timetable(RULE)


def test_asset_runs_the_dag_with_and_without_a_schedule(monkeypatch):
    asset = Asset(name="requests", uri="x-test://requests")
    assert isinstance(timetable_or_assets(RULE, [asset]), AssetOrTimeSchedule)
    monkeypatch.setenv(OPTION, "never")
    assert list(timetable_or_assets(RULE, [asset]).objects) == [asset]


@pytest.mark.parametrize(
    ("text", "interval"),
    [("PT10M", timedelta(minutes=10)), ("pt1h30m", timedelta(minutes=90)), ("P1D", timedelta(days=1)),
     ("P2W", timedelta(weeks=2)), ("PT30S", timedelta(seconds=30))],
)  # fmt: skip
def test_an_iso_interval_is_a_schedule(monkeypatch, text, interval):
    monkeypatch.setenv(OPTION, text)
    found = timetable(RULE)
    assert isinstance(found, DeltaTriggerTimetable)
    assert interval_of(found) == interval
    assert wait_of(RULE) == interval.total_seconds()


@pytest.mark.parametrize(
    ("text", "says"),
    [("PT5S", "shorter than 10 s"), ("P1M", "is no interval"), ("PTX", "is no interval"), ("P", "is no interval")],
)
def test_an_interval_that_cannot_be_is_refused_by_name(monkeypatch, text, says):
    monkeypatch.setenv(OPTION, text)
    with pytest.raises(InvalidArgumentsError, match=rf"\[hive_acid\] initiator_schedule = '{text}' {says}|{says}"):
        timetable(RULE)
