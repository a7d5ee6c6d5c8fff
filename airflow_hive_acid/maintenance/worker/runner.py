"""How a Worker gets its Spark jobs run: by functions, so that it knows neither engine nor application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.maintenance.worker.watch import LOOK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.format.jobs import JobResult, JobSpec
    from airflow_hive_acid.maintenance.worker.jobs import Application

    RunJob = Callable[[JobSpec], JobResult]


def _no_application(_: Application) -> str | None:
    return None


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class JobRunner:
    """How a Worker gets its jobs run.

    :param run: runs a job spec and returns its result.
    :param prepare: makes sure that the application which runs the next job is like this one; returns its id.
    :param stop: stops the running job, from any thread; ``run`` then raises.
    :param look_seconds: how often to ask whether the request was cancelled while a job runs.
    """

    run: RunJob
    prepare: Callable[[Application], str | None] = _no_application
    stop: Callable[[], None] = _nothing
    look_seconds: float = LOOK_SECONDS
