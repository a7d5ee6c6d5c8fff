"""When the maintenance DAGs run: Airflow's ``[hive_acid]`` section, else the interval of Hive's own setting."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable, DeltaTriggerTimetable, conf

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.configuration import SECTION, load_settings

if TYPE_CHECKING:
    from airflow.sdk import Asset

#: A DAG run costs about a second of the scheduler; a shorter interval of Hive's threads is not met by more runs.
SHORTEST = timedelta(minutes=1)

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
    """

    option: str
    interval: str


def timetable(rule: ScheduleRule) -> Timetable | None:
    """The times at which a DAG runs, None for never.

    :raises InvalidArgumentsError: when the option is no schedule; names the option.
    """
    text = (conf.get(SECTION, rule.option, fallback=None) or "").strip()
    if not text:
        interval = timedelta(milliseconds=load_settings().milliseconds(rule.interval))
        return DeltaTriggerTimetable(max(interval, SHORTEST))
    if text.lower() in ("never", "none"):
        return None
    cron = _PRESETS.get(text.lower(), text)
    if not _is_cron(cron):
        raise InvalidArgumentsError(
            f"[{SECTION}] {rule.option} = {text!r} is no schedule; write a cron expression such as '*/5 * * * *', "
            f"one of {', '.join(_PRESETS)}, or never"
        )
    return CronTriggerTimetable(cron, timezone="UTC")


def _is_cron(text: str) -> bool:
    # What Airflow's own scheduler reads cron expressions with.
    from croniter import croniter  # type: ignore[import-untyped]

    return bool(croniter.is_valid(text))


def timetable_or_asset(rule: ScheduleRule, asset: Asset) -> Schedule | list[Asset]:
    """Whenever there is news of an asset, and at the times of a rule besides."""
    times = timetable(rule)
    return [asset] if times is None else AssetOrTimeSchedule(timetable=times, assets=[asset])
