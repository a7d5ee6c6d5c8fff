"""Hive's mutexes: one row of AUX_TABLE each, so that of all services on a metastore only one runs.

On servers the row lock of an open transaction is the mutex: a crash releases it, and a real Hive respects it. It may be
held for a whole pass, so it has a connection of its own. SQLite has one write transaction for everything; there a lock
file beside the database takes its place. The number in the row (Hive: last run of the Initiator) works the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import bindparam, insert, select, update

from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.metastore.database.database import Repeat
from airflow_hive_acid.metastore.database.failures import Failure
from airflow_hive_acid.metastore.schema.hive_transactions import AUX_TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database

POLL_SECONDS = 0.1
DEFAULT_WAIT_SECONDS = 60.0

_KEY = bindparam("mutex", type_=sa.String)
_READ = select(AUX_TABLE.c.MT_KEY2).where(AUX_TABLE.c.MT_KEY1 == _KEY)
_LOCK = _READ.with_for_update(nowait=True)
_CREATE = insert(AUX_TABLE).values(MT_KEY1=_KEY, MT_KEY2=0)
_STAMP = update(AUX_TABLE).where(AUX_TABLE.c.MT_KEY1 == _KEY).values(MT_KEY2=bindparam("stamp"))


class MutexHandle:
    """A mutex that is held.

    :param value: MT_KEY2: what the last holder left, 0 at first.
    """

    def __init__(self, value: int) -> None:
        self.value = value
        self.new_value: int | None = None

    def leave(self, value: int) -> None:
        """What the next holder finds (Hive's ``releaseLocks(timestamp)``)."""
        self.new_value = value


class Mutexes:
    """Takes mutexes of one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine: sa.Engine | None = None

    def close(self) -> None:
        """Close what is open."""
        if self._engine is not None:
            self._engine.dispose()

    @contextlib.contextmanager
    def hold(self, name: str, wait_seconds: float = DEFAULT_WAIT_SECONDS) -> Iterator[MutexHandle]:
        """Hold a mutex; wait for it.

        :raises MetastoreUnavailableError: when somebody else keeps it for longer than ``wait_seconds``.
        """
        with self.try_hold(name, wait_seconds) as handle:
            if handle is None:
                raise MetastoreUnavailableError(
                    f"mutex {name!r} of the metastore {self._database.where} is held by another service for more than "
                    f"{wait_seconds:g} s; only one may run at a time"
                )
            yield handle

    @contextlib.contextmanager
    def try_hold(self, name: str, wait_seconds: float = 0.0) -> Iterator[MutexHandle | None]:
        """Hold a mutex, or get None when somebody else keeps it for longer than ``wait_seconds``: then skip the run."""
        deadline = time.monotonic() + wait_seconds
        self._ensure_row(name)
        holder = self._hold_file if self._database.path is not None else self._hold_row
        with holder(name, deadline) as handle:
            yield handle

    def _ensure_row(self, name: str) -> None:
        def operation(connection: Connection) -> None:
            if connection.execute(_READ, {"mutex": name}).first() is None:
                connection.execute(_CREATE, {"mutex": name})

        # A racer may insert first; then there is a row, which is all that is wanted.
        self._database.run(operation, Repeat.ALWAYS, retry_duplicates=True)

    @contextlib.contextmanager
    def _hold_row(self, name: str, deadline: float) -> Iterator[MutexHandle | None]:
        if self._engine is None:
            # Not from the pool: it may be held for minutes.
            self._engine = self._database.engine_of_its_own("READ COMMITTED")
        with self._database.translated(), self._engine.connect() as connection:
            value = self._poll_row(connection, name, deadline)
            if value is None:
                yield None
                return
            handle = MutexHandle(value)
            try:
                yield handle
                if handle.new_value is not None:
                    connection.execute(_STAMP, {"mutex": name, "stamp": handle.new_value})
                connection.commit()
            except BaseException:
                with contextlib.suppress(sa.exc.DBAPIError):  # the lock is gone with the connection, too
                    connection.rollback()
                raise

    def _poll_row(self, connection: Connection, name: str, deadline: float) -> int | None:
        while True:
            try:
                return int(connection.execute(_LOCK, {"mutex": name}).scalar_one())
            except sa.exc.DBAPIError as error:
                connection.rollback()
                if self._database.rules.classify(error) is not Failure.DEADLOCK:
                    raise
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECONDS)

    @contextlib.contextmanager
    def _hold_file(self, name: str, deadline: float) -> Iterator[MutexHandle | None]:
        path = self._file(name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _poll_file(descriptor, deadline):
                yield None
                return
            value = self._database.run(lambda connection: int(connection.execute(_READ, {"mutex": name}).scalar_one()))
            handle = MutexHandle(value)
            yield handle
            stamp = handle.new_value
            if stamp is not None:
                self._database.run(
                    lambda connection: connection.execute(_STAMP, {"mutex": name, "stamp": stamp}).rowcount
                )
        finally:
            os.close(descriptor)

    def _file(self, name: str) -> Path:
        database = self._database.path
        if database is None:
            raise AssertionError("only an embedded metastore has lock files")
        return database.with_name(f"{database.name}.{name}.lock")


def _poll_file(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(POLL_SECONDS)
