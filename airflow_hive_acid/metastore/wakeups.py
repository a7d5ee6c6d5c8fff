"""Waking waiters early: on PostgreSQL whoever lets go of locks tells those who wait for some.

A hint and nothing more. A real Hive never sends it, so Hive's back-off stays, and a waiter that is woken asks as it
would have later. Nobody pays when nobody waits: one of the waiters holds an advisory lock, and who can share that lock
for a moment has nobody to tell.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import func, literal, select

from airflow_hive_acid.metastore.database import LISTEN, LISTEN_LEASES, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database import Database

log = logging.getLogger(__name__)

CHANNEL = "hive_acid_locks"
_KEY = literal(0x48495645_41434944, sa.BigInteger)
"""Of the advisory lock: "HIVEACID"."""
_TELL = select(sa.case((func.pg_try_advisory_xact_lock_shared(_KEY), None), else_=func.pg_notify(CHANNEL, "")))
_WAKE = select(func.pg_notify("hive_acid_leases", sa.bindparam("tickets", type_=sa.String)))
_MOST_TICKETS = 300
"""A notification holds less than 8000 bytes."""
_BE_SEEN = select(func.pg_try_advisory_lock(_KEY))
_TRIES = 3


def release_steps(conn: Connection) -> list[Step]:
    """The statement by which a transaction that lets go of locks tells waiters, if there are any."""
    return [Step(_TELL)] if conn.dialect.name == "postgresql" else []


def wake_steps(conn: Connection, tickets: Sequence[int]) -> list[Step]:
    """The statement by which a transaction wakes those who wait for a lease with these tickets."""
    if conn.dialect.name != "postgresql" or not tickets:
        return []
    text = ",".join(map(str, tickets)) if len(tickets) <= _MOST_TICKETS else ""
    return [Step(_WAKE, {"tickets": text})]


@contextlib.contextmanager
def lease_naps(database: Database, ticket: int) -> Iterator[Callable[[float], bool]]:
    """A function that sleeps for some seconds, or until this ticket is called; whether it was."""
    if database.dialect != "postgresql":
        yield _sleep_unwoken
        return
    engine = sa.create_engine(database.url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    with contextlib.ExitStack() as stack:
        try:
            conn = stack.enter_context(engine.connect())
            conn.execute(LISTEN_LEASES)
        except sa.exc.DBAPIError as error:
            log.info("waiting without hints: %s", error.orig)
            yield _sleep_unwoken
            return
        yield _LeaseWaiter(conn, ticket).nap


def _sleep_unwoken(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class _LeaseWaiter:
    """Sleeps until its ticket is called."""

    def __init__(self, conn: Connection, ticket: int) -> None:
        self._conn = conn
        self._ticket = str(ticket)
        self._lost = False

    def nap(self, seconds: float) -> bool:
        """Sleep for so long at most; whether the ticket was called."""
        from psycopg import Error

        deadline = time.monotonic() + seconds
        while not self._lost and (left := deadline - time.monotonic()) > 0:
            try:
                driver: Any = self._conn.connection.driver_connection
                for called in driver.notifies(timeout=left, stop_after=1):
                    # Nobody in particular: too many to name.
                    if not called.payload or self._ticket in called.payload.split(","):
                        return True
            except (Error, sa.exc.DBAPIError) as error:
                log.info("the connection for hints is lost: %s", error)
                self._lost = True
                self._conn.invalidate()
        time.sleep(max(0.0, deadline - time.monotonic()))
        return False


@contextlib.contextmanager
def naps(database: Database) -> Iterator[Callable[[float], float]]:
    """A function that sleeps for some seconds, or until somebody lets go of locks; it returns how long it slept."""
    if database.dialect != "postgresql":
        yield _sleep
        return
    engine = sa.create_engine(database.url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    with contextlib.ExitStack() as stack:
        try:
            conn = stack.enter_context(engine.connect())
            conn.execute(LISTEN)
            waiter = _Waiter(conn)
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

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
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
