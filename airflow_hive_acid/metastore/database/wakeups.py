"""Waking waiters early: on PostgreSQL whoever lets go of locks tells those who wait for some.

A hint and nothing more. A real Hive never sends it, so Hive's back-off stays, and a waiter that is woken asks as it
would have later. Nobody pays when nobody waits: one of the waiters holds an advisory lock, and who can share that lock
for a moment has nobody to tell.
"""

from __future__ import annotations

import contextlib
import logging
import math
import select
import time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import func, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.elements import ClauseElement

from airflow_hive_acid.metastore.database.backend import Step, backend_of
from airflow_hive_acid.metastore.database.backends.postgresql import LISTEN, NOT_DURABLE, UNLISTEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.connections import OwnConnection
    from airflow_hive_acid.metastore.database.database import Database

log = logging.getLogger(__name__)

CHANNEL = "hive_acid_locks"
_KEY = literal(0x48495645_41434944, sa.BigInteger)
"""Of the advisory lock: "HIVEACID"."""
_TELL = sa.select(sa.case((func.pg_try_advisory_xact_lock_shared(_KEY), None), else_=func.pg_notify(CHANNEL, "")))
_WAKE = sa.select(func.pg_notify(sa.bindparam("channel", type_=sa.String), sa.bindparam("tickets", type_=sa.String)))
_LEASE_CHANNELS = 16
"""Those who wait for leases are spread over so many, that a call disturbs few but the one who is called."""
_MOST_TICKETS = 300
"""A notification holds less than 8000 bytes."""
_BE_SEEN = sa.select(func.pg_try_advisory_lock(_KEY))
_TRIES = 3


def release_steps(connection: Connection) -> list[Step]:
    """The statement by which a transaction that lets go of locks tells waiters, if there are any."""
    return [Step(_TELL)] if backend_of(connection).calls_waiters else []


def wake_steps(connection: Connection, tickets: Sequence[int]) -> list[Step]:
    """The statements by which a transaction wakes those who wait for a lease with these tickets."""
    if not backend_of(connection).calls_waiters:
        return []
    by_channel: dict[str, list[int]] = {}
    for ticket in tickets:
        by_channel.setdefault(_lease_channel(ticket), []).append(ticket)
    return [
        Step(_WAKE, {"channel": channel, "tickets": ",".join(map(str, t)) if len(t) <= _MOST_TICKETS else ""})
        for channel, t in by_channel.items()
    ]


def _lease_channel(ticket: int) -> str:
    return f"hive_acid_leases_{ticket % _LEASE_CHANNELS}"


class _Listen(Executable, ClauseElement):
    """LISTEN on a channel."""

    inherit_cache = False

    def __init__(self, channel: str) -> None:
        self.channel = channel


@compiles(_Listen)
def _(element: _Listen, compiler: Any, **options: Any) -> str:
    return f"LISTEN {compiler.preparer.quote(element.channel)}"


_LISTEN_LEASES = {_lease_channel(number): _Listen(_lease_channel(number)) for number in range(_LEASE_CHANNELS)}


def listen_steps(ticket: int) -> list[Step]:
    """With the place in the queue: from its commit on this connection hears who is called.

    Nobody waits until the place is on disk: should the server crash before, the connection breaks, and whoever had the
    place takes a new one.
    """
    return [Step(_LISTEN_LEASES[_lease_channel(ticket)]), Step(NOT_DURABLE)]


def unlisten_steps() -> list[Step]:
    """With the end of the wait."""
    return [Step(UNLISTEN)]


class LeaseWaiter:
    """Sleeps on the connection that its verbs use, until its ticket is called.

    The transaction that takes a place in the queue listens, too: no call is lost, and none needs a second connection.
    """

    def __init__(self, own: OwnConnection) -> None:
        self._own = own
        self._called: set[str] = set()
        own.driver.add_notify_handler(self._hear)

    @property
    def hears(self) -> bool:
        """Whether calls still arrive."""
        return self._own.connection is not None

    def stop(self) -> None:
        """Leave the connection to others, who do not listen."""
        if self._own.connection is not None:
            self._own.driver.remove_notify_handler(self._hear)

    def nap(self, seconds: float, ticket: int) -> bool:
        """Sleep for so long at most, or until the connection is lost; whether this ticket was called."""
        from psycopg import Error

        deadline = time.monotonic() + seconds
        mine = {str(ticket), ""}  # nobody in particular: too many to name
        try:
            while True:
                connection = self._own.driver.pgconn
                # Those that came while a verb ran; what the driver itself has read is in _called.
                while (told := connection.notifies()) is not None:
                    self._called.update(told.extra.decode().split(","))
                if called := bool(self._called & mine):
                    break
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                poll = select.poll()
                poll.register(connection.socket, select.POLLIN)
                poll.poll(math.ceil(left * 1000))
                connection.consume_input()
        except Error as error:
            log.info("the connection for hints is lost: %s", error)
            self._own.lose()
            return False
        self._called.clear()
        return called

    def _hear(self, told: Any) -> None:
        self._called.update(told.payload.split(","))


@contextlib.contextmanager
def naps(database: Database) -> Iterator[Callable[[float], float]]:
    """A function that sleeps for some seconds, or until somebody lets go of locks; it returns how long it slept."""
    if not database.backend.calls_waiters:
        yield _sleep
        return
    engine = sa.create_engine(database.url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    with contextlib.ExitStack() as stack:
        try:
            connection = stack.enter_context(engine.connect())
            connection.execute(LISTEN)
            waiter = _Waiter(connection)
        except sa.exc.DBAPIError as error:
            # A connection pooler, perhaps; the back-off is enough.
            log.info("waiting without hints: %s", error.orig)
            yield _sleep
            return
        yield waiter.nap


def _sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


class _Waiter:
    """Sleeps until it is woken; sees to it that those who let go can see that somebody waits."""

    def __init__(self, connection: Connection) -> None:
        self._conn = connection
        self._seen = False
        self._lost = False
        self._be_seen()

    def nap(self, seconds: float) -> float:
        """Sleep for so long at most; returns how long it was."""
        from psycopg import Error

        if self._lost:
            return _sleep(seconds)
        started = time.monotonic()
        try:
            self._be_seen()
            driver: Any = self._conn.connection.driver_connection
            for _ in driver.notifies(timeout=seconds, stop_after=1):
                return time.monotonic() - started
        except (Error, sa.exc.DBAPIError) as error:
            log.info("the connection for hints is lost: %s", error)
            self._lost = True
            self._conn.invalidate()
            time.sleep(max(0.0, seconds - (time.monotonic() - started)))
        return max(seconds, time.monotonic() - started)

    def _be_seen(self) -> None:
        """Hold the lock, unless another waiter does; those who let go share it only for moments."""
        for _ in range(0 if self._seen else _TRIES):
            self._seen = bool(self._conn.execute(_BE_SEEN).scalar_one())
            if self._seen:
                return
            time.sleep(0.001)
