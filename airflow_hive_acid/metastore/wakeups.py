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

from airflow_hive_acid.metastore.database import LISTEN, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database import Database

log = logging.getLogger(__name__)

CHANNEL = "hive_acid_locks"
_KEY = literal(0x48495645_41434944, sa.BigInteger)
"""Of the advisory lock: "HIVEACID"."""
_TELL = select(sa.case((func.pg_try_advisory_xact_lock_shared(_KEY), None), else_=func.pg_notify(CHANNEL, "")))
_WAKE = select(func.pg_notify(CHANNEL, ""))
_BE_SEEN = select(func.pg_try_advisory_lock(_KEY))
_TRIES = 3


def release_steps(conn: Connection) -> list[Step]:
    """The statement by which a transaction that lets go of locks tells waiters, if there are any."""
    return [Step(_TELL)] if conn.dialect.name == "postgresql" else []


def wake_steps(conn: Connection) -> list[Step]:
    """The statement by which a transaction tells waiters of whom it knows that there are some."""
    return [Step(_WAKE)] if conn.dialect.name == "postgresql" else []


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
