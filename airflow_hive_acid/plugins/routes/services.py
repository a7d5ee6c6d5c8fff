"""The route about Spark services: what serves whom, as far as this API server can see their directory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from fastapi import APIRouter, Depends, Request

from airflow_hive_acid.engine.applications.found_services import FoundService, find_services, services_directory
from airflow_hive_acid.metastore.database import now_ms
from airflow_hive_acid.plugins import models, shaping
from airflow_hive_acid.plugins.access import reader
from airflow_hive_acid.plugins.routes.parameters import Client, ConnId

router = APIRouter(prefix="/connections", dependencies=[Depends(reader)], responses=models.RESPONSES)
#: A service says that it lives every two seconds.
SILENT_SECONDS = 10.0


class ServiceCaller(models.Model):
    """Whom a service serves: ``running`` is the statement, empty between two; ``waits``: it is not its turn."""

    who: str
    running: str
    waits: bool


class SparkService(models.Model):
    """A Spark service; ``problem`` is why a task would not use it, null when it would."""

    name: str
    problem: str | None
    application_id: str
    since: int
    callers: list[ServiceCaller]
    max_callers: int
    running: int
    waiting: int
    places: int
    idle_seconds: float
    package: str
    python: str
    spark: str
    at: str | None


class SparkServices(models.Model):
    """Services, by name, and the directory in which they were looked for."""

    items: list[SparkService]
    at: str | None
    shared: bool
    now: int


class Pulses:
    """When the state of each service last changed, by our own clock: of most we cannot see the process.

    :param clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: dict[str, tuple[str, int, float]] = {}

    def is_silent(self, found: FoundService) -> bool:
        """Whether a service has given no sign since we first looked, for longer than one that lives would."""
        now, sign = self._clock(), (found.state.incarnation, found.state.beat)
        with self._lock:
            *last, at = self._last.get(found.uri, (*sign, now))
            if tuple(last) != sign:
                at = now
            self._last[found.uri] = (*sign, at)
        return now - at > SILENT_SECONDS


@router.get("/{conn_id}/spark-services", tags=["spark services"])
def spark_services(request: Request, client: Client, conn_id: ConnId) -> SparkServices:
    """Spark services of a connection: those below its spool, or those of this machine and user where it has none."""
    spool = request.app.state.metastores.connection(conn_id).spool
    pulses: Pulses = request.app.state.pulses
    return SparkServices(
        items=[_service(found, is_silent=pulses.is_silent(found)) for found in find_services(spool)],
        at=shaping.public_uri(services_directory(spool)),
        shared=spool is not None,
        now=client.database.read(now_ms),
    )


def _service(found: FoundService, *, is_silent: bool) -> SparkService:
    state = found.state
    return SparkService(
        name=found.name,
        problem=found.problem or (f"it has given no sign of life for {SILENT_SECONDS:.0f} s" if is_silent else None),
        application_id=state.application_id,
        since=state.started,
        callers=[ServiceCaller(who=one.who, running=one.running, waits=one.waits) for one in state.callers],
        max_callers=state.max_callers,
        running=sum(bool(one.running) and not one.waits for one in state.callers),
        waiting=sum(one.waits for one in state.callers),
        places=state.places,
        idle_seconds=state.idle_seconds,
        package=state.package,
        python=state.python,
        spark=state.spark,
        at=shaping.public_uri(found.uri),
    )
