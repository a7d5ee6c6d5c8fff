"""What differs between the versions of Airflow that are supported, 3.1 to 3.3; everything else imports it from here.

Names that have moved are found where the installed Airflow has them, each when it is first used, so that a DAG file
pays for no more than it needs. What an older Airflow has not is None, or stands here in a form that does nothing;
``docs/reference/compatibility.md`` says what a user sees of that.
"""

from __future__ import annotations

import importlib
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.resource_details import TeamDetails
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.sdk import (
        AssetOrTimeSchedule,
        CronTriggerTimetable,
        DeltaTriggerTimetable,
        RetryAction,
        RetryDecision,
        RetryPolicy,
        conf,
    )
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSensorTimeout,
        AirflowSkipException,
        TaskDeferred,
    )
    from airflow.sdk.execution_time.context import NEVER_EXPIRE
    from airflow.sdk.lineage import get_hook_lineage_collector
    from airflow.sdk.log import mask_secret, redact  # type: ignore[attr-defined]
    from airflow.sdk.observability import stats
    from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamProducer

__all__ = [
    "NEVER_EXPIRE",
    "AdvanceItem",
    "AdvanceOutcome",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSensorTimeout",
    "AirflowSkipException",
    "AssetOrTimeSchedule",
    "CronTriggerTimetable",
    "DagBag",
    "DeltaTriggerTimetable",
    "RetryAction",
    "RetryDecision",
    "RetryPolicy",
    "SharedStreamProducer",
    "TaskDeferred",
    "TeamDetails",
    "conf",
    "get_hook_lineage_collector",
    "given_options",
    "has_lineage_readers",
    "has_retry_policies",
    "interval_of",
    "is_made_of_mapped",
    "mask_secret",
    "options_of",
    "redact",
    "seconds_of",
    "stats",
    "sync_bag_to_db",
]

_EXCEPTIONS = ("airflow.sdk.exceptions", "airflow.exceptions")
_MASKER = ("airflow.sdk.log", "airflow.sdk._shared.secrets_masker")
_STAND_INS = "airflow_hive_acid.airflow_stand_ins"
_STREAMS = ("airflow.triggers.shared_stream", _STAND_INS)

#: The module of each name, that of the newest Airflow first.
_PLACES = {
    **dict.fromkeys(("AirflowException", "AirflowFailException", "AirflowNotFoundException"), _EXCEPTIONS),
    **dict.fromkeys(("AirflowSensorTimeout", "AirflowSkipException", "TaskDeferred"), _EXCEPTIONS),
    **dict.fromkeys(("AdvanceItem", "AdvanceOutcome", "SharedStreamProducer"), _STREAMS),
    **dict.fromkeys(("RetryAction", "RetryDecision", "RetryPolicy"), ("airflow.sdk", _STAND_INS)),
    **dict.fromkeys(("CronTriggerTimetable", "DeltaTriggerTimetable"), ("airflow.sdk", "airflow.timetables.trigger")),
    **dict.fromkeys(("mask_secret", "redact"), _MASKER),
    **dict.fromkeys(("DagBag", "sync_bag_to_db"), ("airflow.dag_processing.dagbag", "airflow.models.dagbag")),
    "AssetOrTimeSchedule": ("airflow.sdk", "airflow.timetables.assets"),
    "NEVER_EXPIRE": ("airflow.sdk.execution_time.context", _STAND_INS),
    "TeamDetails": ("airflow.api_fastapi.auth.managers.models.resource_details", _STAND_INS),
    "conf": ("airflow.sdk", "airflow.configuration"),
    "get_hook_lineage_collector": ("airflow.sdk.lineage", "airflow.lineage.hook"),
}


def has_retry_policies() -> bool:
    """Whether this Airflow asks a task's ``retry_policy`` (since 3.3)."""
    return bool(_found("RetryPolicy", _PLACES["RetryPolicy"]).__module__ != _STAND_INS)


def has_lineage_readers() -> bool:
    """Whether a plugin reads what hooks tell of the tables they touch."""
    manager = _first(("airflow.sdk.plugins_manager", "airflow.plugins_manager"))
    if hasattr(manager, "get_hook_lineage_readers_plugins"):
        return bool(manager.get_hook_lineage_readers_plugins())
    manager.initialize_hook_lineage_readers_plugins()  # before 3.2
    return bool(manager.hook_lineage_reader_classes)


def given_options(section: str) -> frozenset[str]:
    """Names of options of a section that Airflow's file or an environment variable gives, in lower case.

    Also of those that the name of a command or of a secret is given for. Asking the configuration for each of many
    options that nobody gives is slow: it looks for a value in seven places.
    """
    parser = _found("conf", _PLACES["conf"])
    names = {str(name).lower() for name in (parser.options(section) if parser.has_section(section) else ())}
    names |= _variables(section).keys()
    return frozenset(names | {name.removesuffix("_cmd").removesuffix("_secret") for name in names})


def options_of(section: str) -> dict[str, str]:
    """All options of a section of Airflow's configuration, in lower case; environment variables win.

    Before 3.3 Airflow leaves out variables of options that its file does not name.
    """
    found = {
        str(name): str(value) for name, value in (_found("conf", _PLACES["conf"]).getsection(section) or {}).items()
    }
    return found | _variables(section)


def _variables(section: str) -> dict[str, str]:
    """What environment variables give for a section, by option in lower case."""
    prefix = f"AIRFLOW__{section.upper()}__"
    return {name[len(prefix) :].lower(): text for name, text in os.environ.items() if name.startswith(prefix)}


@overload
def seconds_of(given: timedelta | float) -> float: ...
@overload
def seconds_of(given: object) -> Any: ...
def seconds_of(given: object) -> Any:
    """A duration in seconds; what is no ``timedelta`` (as ``pendulum.duration`` is one) is taken as it is."""
    return given.total_seconds() if isinstance(given, timedelta) else given


def is_made_of_mapped(task: Any) -> bool:
    """Whether a task is one of those that a mapped task has become, which are made when they run."""
    return bool(getattr(task, "_BaseOperator__from_mapped", False))


def interval_of(timetable: Any) -> timedelta:
    """The interval of a ``DeltaTriggerTimetable``; before 3.2 the class is the scheduler's, which hides it."""
    found: timedelta = getattr(timetable, "delta", None) or timetable._delta
    return found


def __getattr__(name: str) -> Any:
    if name == "stats":
        found = _stats()
    elif name in _PLACES:
        found = _found(name, _PLACES[name])
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def _found(name: str, places: tuple[str, ...]) -> Any:
    for place in places:
        try:
            return getattr(importlib.import_module(place), name)
        except (ModuleNotFoundError, AttributeError):
            continue
    raise ImportError(f"this Airflow has no {name}; airflow-hive-acid runs on Airflow 3.1 to 3.3")


def _first(modules: tuple[str, ...]) -> Any:
    for module in modules:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError:
            continue
    raise ImportError(f"this Airflow has none of {', '.join(modules)}; airflow-hive-acid runs on Airflow 3.1 to 3.3")


def _stats() -> Any:
    """What has ``gauge``, ``incr`` and ``timing``: a module since 3.3, a class before."""
    module = _first(("airflow.sdk.observability.stats", "airflow.stats"))
    return module if hasattr(module, "gauge") else module.Stats
