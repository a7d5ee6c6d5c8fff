"""One Spark application for the tasks of one process, as ``dag.test()`` runs them.

Starting Spark is most of a small task's time. Where a process runs one task and ends, as Airflow's executors do,
there is nothing to share, and nothing here is used unless ``[hive_acid] share_spark`` is on. An application that was
given back waits for the next task that wants one just like it, and leaves with the process.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from airflow_hive_acid.engine.applications.launcher import JobSession
    from airflow_hive_acid.format.jobs import JobResult, JobSpec

_lock = threading.Lock()
_waiting: dict[Hashable, JobSession] = {}
_owner = os.getpid()


def take(key: Hashable, start: Callable[[], JobSession]) -> JobSession:
    """An application that waits, or a new one.

    :param key: everything that makes two applications alike.
    :param start: starts one.
    """
    with _lock:
        # A process that was forked from us must not talk to our application.
        session = _waiting.pop(key, None) if os.getpid() == _owner else None
    if session is not None and session.is_alive:
        return SharedSession(key, session)
    if session is not None:
        session.close()
    return SharedSession(key, start())


@atexit.register
def close_all() -> None:
    """Let all applications leave that wait for a task."""
    if os.getpid() != _owner:
        return
    with _lock:
        sessions = list(_waiting.values())
        _waiting.clear()
    for session in sessions:
        session.close()


class SharedSession:
    """A :class:`~airflow_hive_acid.engine.applications.launcher.JobSession` that is given back instead of closed."""

    def __init__(self, key: Hashable, session: JobSession) -> None:
        self._key = key
        self._session = session
        self._given_back = False

    @property
    def application_id(self) -> str | None:
        """Spark's id of the application, None until it is ready."""
        return self._session.application_id

    @property
    def is_alive(self) -> bool:
        """Whether another step can be given to it."""
        return not self._given_back and self._session.is_alive

    def wait_ready(self) -> str:
        """Wait until the application has started; returns its id."""
        return self._session.wait_ready()

    def run(self, spec: JobSpec) -> JobResult:
        """Run one step."""
        return self._session.run(spec)

    def rows_uri(self, job_id: str) -> str:
        """Where a select leaves its rows."""
        return self._session.rows_uri(job_id)

    def read_rows(self, uri: str) -> Iterator[list[Any]]:
        """The rows of a select, once."""
        return self._session.read_rows(uri)

    def cancel(self) -> None:
        """Stop the application now, from any thread."""
        self._session.cancel()

    def close(self) -> None:
        """Give the application back, or close it when it cannot be used any more."""
        if self._given_back:
            return
        self._given_back = True
        with _lock:
            keep = self._session.is_alive and self._key not in _waiting
            if keep:
                _waiting[self._key] = self._session
        if not keep:
            self._session.close()
