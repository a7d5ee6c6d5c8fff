"""The metastore database: transactions, retries, and which optional tables there are.

Every operation runs in a transaction of its own at READ COMMITTED. ``run`` repeats whole operations as Hive's retry
loop does. R17: an error after COMMIT was sent is an unknown outcome and is told apart from a failure. How a kind of
database does things is its backend's (:mod:`~airflow_hive_acid.metastore.database.backend`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sqlite3
import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

from airflow_hive_acid.errors import HiveAcidError, MetastoreUnavailableError, NoSuchTxnError
from airflow_hive_acid.metastore.database.backend import COMMIT_SENT
from airflow_hive_acid.metastore.database.backends.choice import backend_for
from airflow_hive_acid.metastore.database.failures import Failure, FailureRules, explain, is_unsendable
from airflow_hive_acid.metastore.database.layouts import fit
from airflow_hive_acid.metastore.database.urls import normalize_url, safe_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.connections import KeptConnections, OwnConnection
    from airflow_hive_acid.metastore.schema.layouts import Layout

T = TypeVar("T")

MAX_TRIES = 10
IN_LIST = 1000
"""Longest list of values in one statement, as in Hive."""
_RETRY_SECONDS = 2.0
_LOOK_AGAIN_SECONDS = 60.0


class Repeat(Enum):
    """When an operation may be repeated after a lost connection.

    ALWAYS: it is idempotent, so also after COMMIT was sent. BEFORE_COMMIT: open, enqueue and the like: once COMMIT was
    sent it may have happened, and doing it again would do it twice.
    """

    ALWAYS = "always"
    BEFORE_COMMIT = "before commit"


class OutcomeUnknownError(MetastoreUnavailableError):
    """The connection broke after COMMIT was sent: the change may or may not have happened (R17)."""


@dataclass(frozen=True, slots=True)
class Features:
    """Which optional tables this metastore has."""

    min_history_level: bool
    min_history_write_id: bool
    notifications: bool
    extensions: bool
    leases: bool
    decisions: bool
    measures: bool
    replication: bool
    pins: bool
    places: bool
    mirrors: bool
    reads: bool


class Database:
    """A metastore database.

    :param url: ``sqlite:///path``, ``postgresql://…`` or ``mysql://…``.
    :param rules: how errors are classified.
    :param sleep: waits between retries; tests give their own.
    :param patient: whether a lost connection is worth trying again, and statements may take as long as they do.
    """

    def __init__(
        self,
        url: str | sa.URL,
        rules: FailureRules | None = None,
        sleep: Callable[[float], None] = time.sleep,
        pool_size: int = 5,
        *,
        patient: bool = True,
    ) -> None:
        self.url = normalize_url(url)
        self.where = safe_url(self.url)
        self.backend = backend_for(self.url)
        self.rules = rules or FailureRules()
        self._sleep = sleep
        self._process = os.getpid()
        self._patient = patient
        self._was_connected = False
        self._fitted = False
        self._features: Features | None = None
        self._look_again = 0.0
        self.engine = self.backend.make_engine(self.url, pool_size, patient=patient)
        self._kept = self.backend.kept_connections(self.engine, pool_size)
        self._idle = self.backend.idle_connections(self.engine, pool_size)

    @property
    def path(self) -> Path | None:
        """The file of an embedded metastore."""
        return self.backend.file(self.url)

    def close(self) -> None:
        """Close all connections."""
        if self._kept is not None:
            self._kept.close()
        if self._idle is not None:
            self._idle.close()
        self.engine.dispose()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """One write transaction, not repeated; database errors are translated."""
        with self.translated(), self._connected() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent, read-only view of the database, not repeated; database errors are translated."""
        with self.translated(), self._connected(reading=True) as connection, connection.begin():
            yield connection

    def run(
        self,
        operation: Callable[[Connection], T],
        repeat: Repeat = Repeat.ALWAYS,
        *,
        retry_duplicates: bool = False,
        hot: bool = False,
    ) -> T:
        """Run an operation in a transaction and commit; repeat it as a whole where that can help.

        :param retry_duplicates: a duplicate key means that a racer inserted the row first: look again.
        :param hot: it runs for every write and looks up single rows only: on a connection kept for that.
        :raises OutcomeUnknownError: when the connection broke after COMMIT was sent and the operation may not be, or
            could not be, repeated.
        """
        return self._retrying(operation, repeat, retry_duplicates=retry_duplicates, reading=False, hot=hot)

    @contextlib.contextmanager
    def own_connection(self) -> Iterator[OwnConnection | None]:
        """Around hot operations of this thread that all use one connection; None where there is none for them."""
        if self._kept is None:
            yield None
            return
        self._leave_parent()
        with self._kept.own_connection() as own:
            yield None if own.connection is None else own

    def read(self, operation: Callable[[Connection], T], *, one_statement: bool = False) -> T:
        """Run reads in one consistent view; repeat them where that can help.

        :param one_statement: it is a single one, which is a consistent view by itself, and looks up single rows.
        """
        return self._retrying(operation, Repeat.ALWAYS, retry_duplicates=False, reading=True, hot=one_statement)

    def look(self, operation: Callable[[Connection], T]) -> T:
        """Run reads that lock nothing and need no common moment, as cheaply as can be."""
        return self.read(operation) if self._kept is None else self.run(operation, hot=True)

    def features(self, connection: Connection) -> Features:
        """Which optional tables exist; looked up once, and again now and then while some are missing.

        Somebody else may upgrade the schema, and tables are never taken away.
        """
        if self._features is None or time.monotonic() >= self._look_again:
            names = set(sa.inspect(connection).get_table_names())
            names |= {name for name in self.backend.layout.lower_case if name.lower() in names}
            self._features = Features(
                min_history_level="MIN_HISTORY_LEVEL" in names,
                min_history_write_id="MIN_HISTORY_WRITE_ID" in names,
                notifications={"NOTIFICATION_LOG", "NOTIFICATION_SEQUENCE", "SEQUENCE_TABLE"} <= names,
                extensions="HIVE_ACID_JOB" in names,
                leases="HIVE_LEASE" in names,
                decisions="HIVE_ACID_DECISION" in names,
                measures="HIVE_ACID_MEASURE" in names,
                replication="HIVE_ACID_REPL_POLICY" in names,
                pins="HIVE_ACID_PIN" in names,
                places="HIVE_ACID_PLACE" in names,
                mirrors="HIVE_ACID_MIRROR" in names,
                reads="HIVE_ACID_READ" in names,
            )
            whole = all(dataclasses.astuple(self._features))
            self._look_again = math.inf if whole else time.monotonic() + _LOOK_AGAIN_SECONDS
        return self._features

    def layout(self) -> Layout:
        """How the metastore's tables differ from Hive 4's; looked up once."""
        with self.translated():
            self._leave_parent()
            self._fit()
        return self.backend.layout

    def forget_features(self) -> None:
        """Look again which tables exist: the schema was changed."""
        self._features = None

    def _retrying(
        self,
        operation: Callable[[Connection], T],
        repeat: Repeat,
        *,
        retry_duplicates: bool,
        reading: bool,
        hot: bool = False,
    ) -> T:
        tries = 0
        commit_lost = False
        while True:
            tries += 1
            sent: dict[Any, Any] = {}
            try:
                if hot and self._kept is not None:
                    self._leave_parent()
                    self._fit()
                    connection = self._kept.take()
                    self._was_connected, sent = True, connection.info
                    return self._once_kept(self._kept, connection, operation, sent)
                with self._connected(reading=reading) as connection:
                    sent = connection.info
                    sent[COMMIT_SENT] = False
                    with connection.begin():
                        result = operation(connection)
                        sent[COMMIT_SENT] = True
                return result
            except NoSuchTxnError as error:
                if commit_lost:  # a metastore that counts txns forgets those that have committed
                    raise self._unknown_outcome() from error
                raise
            except HiveAcidError:
                raise
            except Exception as error:
                failure = self.rules.classify(error)
                lost_now = bool(sent.get(COMMIT_SENT)) and failure is Failure.DISCONNECT and not reading
                commit_lost = commit_lost or lost_now
                pause = self._pause(failure, tries, retry_duplicates=retry_duplicates)
                if pause is None or (lost_now and repeat is Repeat.BEFORE_COMMIT):
                    if commit_lost:
                        raise self._unknown_outcome() from error
                    if _is_database_error(error):
                        raise explain(error, failure, self.where) from error
                    raise
            self._sleep(pause)

    def _unknown_outcome(self) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"the connection to the metastore {self.where} broke while committing; whether the change happened is "
            "unknown: look it up before doing anything else"
        )

    @staticmethod
    def _once_kept(
        kept: KeptConnections, connection: Connection, operation: Callable[[Connection], T], sent: dict[Any, Any]
    ) -> T:
        """The operation and its commit; the transaction begins with the first statement."""
        sent[COMMIT_SENT] = False
        try:
            result = operation(connection)
            sent[COMMIT_SENT] = True
            kept.commit(connection)
        except BaseException:
            kept.recover(connection)
            raise
        kept.give_back(connection)
        return result

    def _pause(self, failure: Failure, tries: int, *, retry_duplicates: bool) -> float | None:
        """Seconds to wait before the next try, None to give up (Hive's retry loop)."""
        if tries >= MAX_TRIES:
            return None
        match failure:
            case Failure.DEADLOCK:
                return _RETRY_SECONDS / MAX_TRIES * tries
            case Failure.RETRYABLE:
                return _RETRY_SECONDS / MAX_TRIES
            case Failure.DUPLICATE if retry_duplicates:
                return 0.0
            case Failure.DISCONNECT if self._was_connected and self._patient:
                # A first connection that fails is a wrong URL or a stopped server: the user should hear it at once.
                return _RETRY_SECONDS
            case _:
                return None

    @contextlib.contextmanager
    def _connected(self, *, reading: bool = False) -> Iterator[Connection]:
        self._leave_parent()
        self._fit()
        if self._idle is not None:
            with self._idle.connected(reading=reading) as connection:
                self._was_connected = True
                yield connection
            return
        with self.engine.connect() as connection:
            self._was_connected = True
            if not reading:
                yield connection
                return
            with self.backend.reading(connection) as view:
                yield view

    def _fit(self) -> None:
        """Once: let statements be for the tables that this metastore has."""
        if self._fitted:
            return
        with self.engine.connect() as connection:
            layout = self.backend.find_layout(connection)
        if layout != self.backend.layout:
            fit(self.engine.dialect, layout)
            self.backend.layout = layout
        self._fitted = True

    def engine_of_its_own(self, isolation_level: str) -> sa.Engine:
        """An engine for a connection that is held for long: its connections are closed when they are given back."""
        engine = sa.create_engine(self.url, poolclass=sa.pool.NullPool, isolation_level=isolation_level)
        fit(engine.dialect, self.backend.layout)
        return engine

    def _leave_parent(self) -> None:
        if os.getpid() != self._process:
            # Forked: the parent's connections are not ours to use, nor to close.
            self.engine.dispose(close=False)
            if self._kept is not None:
                self._kept.inherit()
            if self._idle is not None:
                self._idle.inherit()
            self._process = os.getpid()

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of the database inside a block become errors of ours."""
        try:
            yield
        except HiveAcidError:
            raise
        except Exception as error:
            if not _is_database_error(error):
                raise
            raise explain(error, self.rules.classify(error), self.where) from error


def _is_database_error(error: BaseException) -> bool:
    if is_unsendable(error):
        return True
    return isinstance(error, sa.exc.SQLAlchemyError | sqlite3.Error) or type(error).__module__.split(".")[0] in (
        "psycopg",
        "pymysql",
    )


def chunks(values: Sequence[T], size: int = IN_LIST) -> Iterator[Sequence[T]]:
    """The values in pieces short enough for one IN list."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
