"""The metastores behind the page: one client for each connection and process, and never a thread that waits for long.

Endpoints run in the thread pool of Airflow's API server. So a metastore that does not answer is told of within seconds
and then left alone for a moment, and only so many requests are at work on one metastore at a time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.airflow_versions import AirflowNotFoundException, conf, mask_secret
from airflow_hive_acid.errors import InvalidArgumentsError, MetastoreUnavailableError, NoSuchObjectError
from airflow_hive_acid.hooks import stats
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID, SECTION, load_settings
from airflow_hive_acid.hooks.connection import HiveAcidConnection, read_connection
from airflow_hive_acid.maintenance.measures.health import Reading, read_health
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.plugins import server_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.settings import Settings

AT_ONCE = 6
"""Requests that work on one metastore at the same time."""
_WAIT_SECONDS = 5.0
_READ_AGAIN_SECONDS = 30.0
"""So long a connection of Airflow is taken to be what it was."""
_COUNTED_AGAIN_SECONDS = 3.0
_LEFT_ALONE_SECONDS = 3.0
"""So long a metastore that did not answer is not asked again."""


@dataclass(slots=True)
class _Health:
    """What was counted last, and when; whoever counts holds the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    readings: tuple[Reading, ...] = ()
    at: float | None = None


@dataclass(slots=True)
class _Known:
    """A connection that was used, with its client."""

    read: HiveAcidConnection
    client: MetastoreClient
    read_at: float
    room: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(AT_ONCE))
    health: _Health = field(default_factory=_Health)
    checked: bool = False
    failed_at: float | None = None
    failure: str = ""


class Metastores:
    """Clients by connection; threads share it.

    :param clock: seconds that only grow; tests give their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def client(self, conn_id: str) -> Iterator[MetastoreClient]:
        """The client of a connection's metastore, checked.

        :raises NoSuchObjectError: when there is no connection of that id for a metastore.
        :raises InvalidArgumentsError: when the connection is unusable.
        :raises MetastoreUnavailableError: when it cannot be reached, or too many requests wait for it.
        :raises SchemaVersionError: when there is no metastore in the database.
        """
        known = self._find(conn_id)
        if known.failed_at is not None and self._clock() - known.failed_at < _LEFT_ALONE_SECONDS:
            raise MetastoreUnavailableError(known.failure)
        if not known.room.acquire(timeout=_WAIT_SECONDS):
            raise MetastoreUnavailableError(f"the metastore of {conn_id} is busy: {AT_ONCE} requests wait for it")
        try:
            if not known.checked:
                known.client.check_schema()
                known.checked = True
            yield known.client
            known.failed_at = None
        except MetastoreUnavailableError as error:
            known.failed_at, known.failure = self._clock(), str(error)
            raise
        finally:
            known.room.release()

    def connection(self, conn_id: str) -> HiveAcidConnection:
        """The connection, as it was read lately.

        :raises NoSuchObjectError: when there is no connection of that id for a metastore.
        """
        return self._find(conn_id).read

    def readings(self, conn_id: str, client: MetastoreClient) -> tuple[Reading, ...]:
        """The health of a metastore, counted at most every few seconds, however many look at it."""
        health = self._find(conn_id).health
        with health.lock:
            if health.at is None or self._clock() - health.at >= _COUNTED_AGAIN_SECONDS:
                health.readings, health.at = read_health(client), self._clock()
            return health.readings

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            known, self._known = self._known, {}
        for each in known.values():
            each.client.close()

    def _find(self, conn_id: str) -> _Known:
        now = self._clock()
        with self._lock:
            known = self._known.get(conn_id)
        if known is not None and now - known.read_at < _READ_AGAIN_SECONDS:
            return known
        read = read_metastore(conn_id)
        settings = load_settings(read.settings)
        with self._lock:
            known = self._known.get(conn_id)
            if known is not None and (known.read, _values(known.client.settings)) == (read, _values(settings)):
                known.read_at = now
                return known
            client = MetastoreClient(read.metastore_url, settings, patient=False)
            self._known[conn_id] = _Known(read, client, now)
        client.cache.start(partial(stats.tell_cache, conn_id=conn_id))
        if known is not None:
            known.client.close()  # whoever is still at work with it gets its connections anew
        return self._known[conn_id]


def default_connection() -> str:
    """The connection that the maintenance DAGs work on."""
    return str(conf.get(SECTION, "conn_id", fallback=None) or DEFAULT_CONN_ID)


def read_metastore(conn_id: str) -> HiveAcidConnection:
    """A connection of type ``hive_acid``; others are taken to be missing, whatever they hold.

    :raises NoSuchObjectError: when there is none.
    :raises InvalidArgumentsError: when it is unusable.
    """
    try:
        connection = server_database.read(conn_id)
    except AirflowNotFoundException:
        connection = None
    if connection is None or connection.conn_type != "hive_acid":
        raise NoSuchObjectError(f"Airflow has no connection {conn_id!r} of type hive_acid")
    try:
        read = read_connection(connection)  # the server's class has the same fields
    except (ValueError, TypeError) as error:
        if isinstance(error, InvalidArgumentsError):
            raise
        raise InvalidArgumentsError(f"connection {conn_id!r}: its extra is no JSON object") from error
    if read.metastore_url.password:
        mask_secret(str(read.metastore_url.password))
    return read


def _values(settings: Settings) -> list[Any]:
    return [resolved.value for resolved in settings]
