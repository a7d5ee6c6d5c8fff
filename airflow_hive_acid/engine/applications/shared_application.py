"""The one Spark application that an engine's statements share: started when needed, replaced when it died.

A statement whose application dies fails; the next statement gets a new one. Nothing is repeated here: whether a
statement may be run again is known above. What asks for an application of another kind (a queue, more memory, another
user) gets a new one in the place of the one before.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.outcomes.events import SparkReady, SparkStarting
from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.maintenance.worker.jobs import Application

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.engine.applications.launcher import JobLauncher, JobSession
    from airflow_hive_acid.engine.outcomes.events import Event


_ANY = Application()


class SharedApplication:
    """At most one running application.

    :param launcher: starts it.
    :param on_event: told when it starts and when it is ready.
    """

    def __init__(self, launcher: JobLauncher, on_event: Callable[[Event], None]) -> None:
        self._launcher = launcher
        self._on_event = on_event
        self._lock = threading.Lock()
        self._session: JobSession | None = None
        self._wanted = _ANY
        self._announced = False
        self._cancelled = False

    def warm_up(self, wanted: Application = _ANY) -> JobSession:
        """Start it in the background unless it runs.

        :param wanted: what it must be like; its name counts only when it is started.
        :raises ConfigurationError: when this machine lacks something it needs.
        """
        with self._lock:
            if self._cancelled:
                raise JobFailedError("cancelled; no Spark application is started any more")
            if self._session is not None and self._session.is_alive and self._wanted.is_like(wanted):
                return self._session
            if self._session is not None:
                self._session.close()
            self._session = self._launcher.start() if wanted == _ANY else self._launcher.start(wanted)
            self._wanted = wanted
            self._announced = False
        self._on_event(SparkStarting())
        return self._session

    def ready(self, wanted: Application = _ANY) -> JobSession:
        """The application, once it takes steps; see :meth:`warm_up`."""
        session = self.warm_up(wanted)
        if not self._announced:
            started = time.monotonic()
            application_id = session.wait_ready()
            self._announced = True
            self._on_event(SparkReady(application_id, time.monotonic() - started))
        return session

    def stop(self) -> None:
        """Stop what runs, from any thread; whoever needs an application next gets a new one."""
        with self._lock:
            session = self._session
        if session is not None:
            session.cancel()

    def cancel(self) -> None:
        """Stop it now and start none any more; from any thread."""
        with self._lock:
            self._cancelled = True
            if self._session is not None:
                self._session.cancel()

    def close(self) -> None:
        """Let it leave."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None:
            session.close()
