"""When the maintenance DAGs run: Airflow's ``[hive_acid]`` section, else the interval of Hive's own setting."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import AssetAny

from airflow_hive_acid.airflow_versions import (
    AssetOrTimeSchedule,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    conf,
    interval_of,
)
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.configuration import SECTION, load_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Asset

#: A DAG run costs about a second of the scheduler: a shorter interval is refused where it is set.
SHORTEST = timedelta(seconds=10)
#: Runs that wait for something to do, and look every few seconds meanwhile, wait for so long at least.
SHORTEST_WAIT = timedelta(minutes=1)
#: So long where they look for more than requests.
WAITING_RUN = timedelta(minutes=5)

_PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}

Timetable = CronTriggerTimetable | DeltaTriggerTimetable
Schedule = Timetable | AssetOrTimeSchedule | None


@dataclass(frozen=True, slots=True)
class ScheduleRule:
    """Where the schedule of a DAG comes from.

    :param option: option of Airflow's ``[hive_acid]`` section.
    :param interval: Hive's setting, which counts when the option is empty.
    :param waits: a run of it waits, and looks again and again; it does so so long at least, whatever the interval.
    """

    option: str
    interval: str
    waits: timedelta | None = None


def timetable(rule: ScheduleRule) -> Timetable | None:
    """The times at which a DAG runs, None for never.

    :raises InvalidArgumentsError: when the option is no schedule, or the interval shorter than runs can follow; names
        the option and the setting.
    """
    text = (conf.get(SECTION, rule.option, fallback=None) or "").strip()
    if not text:
        interval = timedelta(milliseconds=load_settings().milliseconds(rule.interval))
        if rule.waits is None and interval < SHORTEST:
            raise InvalidArgumentsError(
                f"{rule.interval} is {interval.total_seconds():g} s, and a DAG has no more than a run in "
                f"{SHORTEST.total_seconds():g} s: raise it, set [{SECTION}] {rule.option}, or run the service "
                "'hive-acid maintenance' instead"
            )
        return DeltaTriggerTimetable(max(interval, rule.waits or SHORTEST))
    return timetable_of(text, f"[{SECTION}] {rule.option}")


def timetable_of(text: str, where: str) -> Timetable | None:
    """The times that a text says, None for never.

    :param where: it stands, for messages.
    :raises InvalidArgumentsError: when it is no schedule.
    """
    if text.lower() in ("never", "none"):
        return None
    if text[:1] in ("P", "p"):
        return DeltaTriggerTimetable(_interval(text, where))
    cron = _PRESETS.get(text.lower(), text)
    if not _is_cron(cron):
        raise InvalidArgumentsError(
            f"{where} = {text!r} is no schedule; write a cron expression such as '*/5 * * * *', "
            f"one of {', '.join(_PRESETS)}, an interval such as PT10M, or never"
        )
    return CronTriggerTimetable(cron, timezone="UTC")


def _interval(text: str, where: str) -> timedelta:
    """An ISO 8601 duration, as pendulum reads it.

    :raises InvalidArgumentsError: when it is none, or shorter than runs can follow.
    """
    import pendulum

    try:
        found = pendulum.parse(text.upper())
    except ValueError:
        found = None
    # Months and years have no length of their own; pendulum counts 30 and 365 days.
    if not isinstance(found, pendulum.Duration) or found.years or found.months:
        raise InvalidArgumentsError(
            f"{where} = {text!r} is no interval; write weeks, days, hours, minutes and seconds, as P1D or PT1H30M"
        )
    interval = timedelta(seconds=found.total_seconds())
    if interval < SHORTEST:
        raise InvalidArgumentsError(
            f"{where} = {text!r} is shorter than {SHORTEST.total_seconds():g} s, and a DAG has no more runs than that"
        )
    return interval


def _is_cron(text: str) -> bool:
    # What Airflow's own scheduler reads cron expressions with.
    from croniter import croniter  # type: ignore[import-untyped]

    return bool(croniter.is_valid(text))


def timetable_or_assets(rule: ScheduleRule, assets: Sequence[Asset]) -> Schedule | AssetAny:
    """Whenever there is news of an asset, and at the times of a rule besides."""
    times, news = timetable(rule), AssetAny(*assets)
    return news if times is None else AssetOrTimeSchedule(timetable=times, assets=news)


def wait_of(rule: ScheduleRule) -> float:
    """Seconds that a run waits for something to do: until the next one is due; 0 when a person has chosen the times."""
    times = timetable(rule)
    return interval_of(times).total_seconds() if isinstance(times, DeltaTriggerTimetable) else 0.0


def airflow_pool(pool: str | None) -> str:
    """The Airflow pool in which the workers of a compaction pool run.

    ``compaction_pools`` lists those that exist, as names or as ``compaction pool=Airflow pool``; a task in a pool that
    does not exist would never start, and a DAG file cannot ask.

    :raises InvalidArgumentsError: when the option is unreadable; names it.
    """
    default = conf.get(SECTION, "compaction_pool", fallback="default_pool")
    text = conf.get(SECTION, "compaction_pools", fallback=None) or ""
    known: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, other = (part.strip() for part in item.partition("="))
        if not name or (equals and not other):
            raise InvalidArgumentsError(
                f"[{SECTION}] compaction_pools = {text!r}: write names of pools with commas, or name=airflow_pool"
            )
        known[name.lower()] = other or name
    return default if pool is None else known.get(pool.lower(), default)
