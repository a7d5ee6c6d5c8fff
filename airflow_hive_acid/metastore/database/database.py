"""The metastore database: the one place that knows dialects, isolation, row locks and retries.

Every operation runs in a transaction of its own at READ COMMITTED; on SQLite that is ``BEGIN IMMEDIATE`` in WAL mode,
which makes row locks unnecessary, so their statements compile to nothing. ``run`` repeats whole operations as Hive's
retry loop does. R3: locking statements never decide anything; what is read after a lock is read in a statement of its
own. R17: an error after COMMIT was sent is an unknown outcome and is told apart from a failure.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import sqlalchemy as sa

from airflow_hive_acid.errors import HiveAcidError, MetastoreUnavailableError
from airflow_hive_acid.metastore.database import pipeline
from airflow_hive_acid.metastore.database.connections import IdleConnections, KeptConnections, Pin
from airflow_hive_acid.metastore.database.engines import make_engine, read_only
from airflow_hive_acid.metastore.database.failures import Failure, FailureRules, explain, is_unsendable
from airflow_hive_acid.metastore.database.urls import normalize_url, safe_url
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_LOCK_TBL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection
    from sqlalchemy.sql.base import Executable

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


class Step(NamedTuple):
    """One statement of a batch with its parameters."""

    statement: Executable
    parameters: Mapping[str, Any] = {}


class Result(NamedTuple):
    """Rows and row count of one statement of a batch."""

    rows: list[Any]
    rowcount: int


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
        self.dialect = self.url.get_backend_name()
        self.rules = rules or FailureRules()
        self._sleep = sleep
        self._process = os.getpid()
        self._patient = patient
        self._was_connected = False
        self._features: Features | None = None
        self._look_again = 0.0
        self.engine = make_engine(self.url, pool_size, patient=patient)
        self._kept: KeptConnections | None = None
        self._idle: IdleConnections | None = None
        if self.dialect == "sqlite":
            self._idle = IdleConnections(self.engine, pool_size)
        elif self.dialect == "postgresql":
            self._kept = KeptConnections(self.engine, pool_size, _PREFER_INDEXES, _AS_USUAL)

    @property
    def path(self) -> Path | None:
        """The file of an embedded metastore."""
        return Path(self.url.database or "") if self.dialect == "sqlite" else None

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
    def pinned(self) -> Iterator[Pin | None]:
        """Around hot operations of this thread that all use one connection; None where there is none for them."""
        if self._kept is None:
            yield None
            return
        self._leave_parent()
        with self._kept.pinned() as pin:
            yield None if pin.connection is None else pin

    def read(self, operation: Callable[[Connection], T], *, one_statement: bool = False) -> T:
        """Run reads in one consistent view; repeat them where that can help.

        :param one_statement: it is a single one, which is a consistent view by itself, and looks up single rows.
        """
        return self._retrying(operation, Repeat.ALWAYS, retry_duplicates=False, reading=True, hot=one_statement)

    def features(self, connection: Connection) -> Features:
        """Which optional tables exist; looked up once, and again now and then while some are missing.

        Somebody else may upgrade the schema, and tables are never taken away.
        """
        if self._features is None or time.monotonic() >= self._look_again:
            names = set(sa.inspect(connection).get_table_names())
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
            )
            whole = all(dataclasses.astuple(self._features))
            self._look_again = math.inf if whole else time.monotonic() + _LOOK_AGAIN_SECONDS
        return self._features

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
                    connection = self._kept.take()
                    self._was_connected, sent = True, connection.info
                    return self._once_kept(self._kept, connection, operation, sent)
                with self._connected(reading=reading) as connection:
                    sent = connection.info
                    sent[_COMMIT_SENT] = False
                    with connection.begin():
                        result = operation(connection)
                        sent[_COMMIT_SENT] = True
                return result
            except HiveAcidError:
                raise
            except Exception as error:
                failure = self.rules.classify(error)
                lost_now = bool(sent.get(_COMMIT_SENT)) and failure is Failure.DISCONNECT and not reading
                commit_lost = commit_lost or lost_now
                pause = self._pause(failure, tries, retry_duplicates=retry_duplicates)
                if pause is None or (lost_now and repeat is Repeat.BEFORE_COMMIT):
                    if commit_lost:
                        raise OutcomeUnknownError(
                            f"the connection to the metastore {self.where} broke while committing; whether the change "
                            "happened is unknown: look it up before doing anything else"
                        ) from error
                    if _is_database_error(error):
                        raise explain(error, failure, self.where) from error
                    raise
            self._sleep(pause)

    @staticmethod
    def _once_kept(
        kept: KeptConnections, connection: Connection, operation: Callable[[Connection], T], sent: dict[Any, Any]
    ) -> T:
        """The operation and its commit; the transaction begins with the first statement."""
        sent[_COMMIT_SENT] = False
        try:
            result = operation(connection)
            sent[_COMMIT_SENT] = True
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
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
            if self.dialect != "postgresql":
                yield connection
                return
            with read_only(connection):
                yield connection

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


# --- statements that wait, and nothing else (R3) ------------------------------------------------------------------

_LOCK_OPENS_SHARED = sa.text('LOCK TABLE "TXN_LOCK_TBL" IN SHARE MODE')
_LOCK_OPENS_EXCLUSIVE = sa.text('LOCK TABLE "TXN_LOCK_TBL" IN EXCLUSIVE MODE')
_READ_OPENS_SHARED = sa.select(TXN_LOCK_TBL.c.TXN_LOCK).with_for_update(read=True)
_READ_OPENS_EXCLUSIVE = sa.select(TXN_LOCK_TBL.c.TXN_LOCK).with_for_update()
_NOTHING = sa.select(sa.literal(1))

SAVEPOINT = Step(sa.text("SAVEPOINT hive_acid_undo"))
"""Start of what a conflict undoes while the transaction goes on."""
UNDO = Step(sa.text("ROLLBACK TO SAVEPOINT hive_acid_undo"))
_COMMIT_SENT = "hive_acid_commit_sent"
_PREFER_INDEXES = sa.text("SET enable_seqscan = off")
_AS_USUAL = sa.text("RESET enable_seqscan")
LISTEN = sa.text("LISTEN hive_acid_locks")
UNLISTEN = sa.text("UNLISTEN *")
NOT_DURABLE = sa.text("SET LOCAL synchronous_commit = off")
"""Of a transaction of PostgreSQL whose loss in a crash would do no harm: nobody waits for the disk behind its locks."""


def open_txn_lock(connection: Connection, *, exclusive: bool) -> Step:
    """The statement that takes Hive's open-txn lock: shared by every open, exclusive by commits that need MAX(TXN_ID).

    On SQLite the write transaction is the lock.
    """
    match connection.dialect.name:
        case "postgresql":
            return Step(_LOCK_OPENS_EXCLUSIVE if exclusive else _LOCK_OPENS_SHARED)
        case "mysql":
            return Step(_READ_OPENS_EXCLUSIVE if exclusive else _READ_OPENS_SHARED)
        case _:
            return Step(_NOTHING)


def lock_open_txns(connection: Connection, *, exclusive: bool) -> None:
    """Take the open-txn lock until the transaction ends."""
    connection.execute(open_txn_lock(connection, exclusive=exclusive).statement)


# --- batches ------------------------------------------------------------------------------------------------------

_COMPILED: dict[Executable, pipeline.ServerStatement] = {}
_TOGETHER: dict[tuple[Executable, ...], Executable] = {}


def execute_batch(connection: Connection, steps: Sequence[Step]) -> list[Result]:
    """Execute statements one after the other and return all results.

    The statements must not contain IN lists, whose text depends on the values.

    On PostgreSQL they travel in one round trip; the server still runs each as a statement of its own, with its own
    snapshot, so a read that follows a lock in the batch sees what the lock waited for (R3). The first error ends it.
    """
    if connection.dialect.name == "postgresql":
        return _pipeline(connection, steps) if steps else []
    results = []
    for step in steps:
        cursor = connection.execute(step.statement, dict(step.parameters) or None)
        rows = [tuple(row) for row in cursor] if cursor.returns_rows else []
        results.append(Result(rows, cursor.rowcount))
    return results


def finish_batch(connection: Connection, steps: Sequence[Step]) -> list[Result]:
    """The last batch of an operation: on PostgreSQL the COMMIT travels with it and saves a round trip.

    Elsewhere the transaction commits as usual when the operation returns. Nothing may be executed afterwards.
    """
    if connection.dialect.name != "postgresql":
        return execute_batch(connection, steps)
    connection.info[_COMMIT_SENT] = True
    return _pipeline(connection, steps, commit=True)


def continue_after_commit(connection: Connection) -> None:
    """The last batch was not the last after all: what it did is done, and what follows is a transaction of its own."""
    connection.info[_COMMIT_SENT] = False


def together(connection: Connection, steps: Sequence[Step]) -> list[Step]:
    """Writes that neither depend on each other nor touch the same row, as one statement where the database can.

    On PostgreSQL all of them see the database as it was before the first, so a read among them may be of rows that
    another one deletes. Steps that give one parameter two values stay apart.
    """
    if connection.dialect.name != "postgresql" or len(steps) < 2:
        return list(steps)
    parameters: dict[str, Any] = {}
    for step in steps:
        for name, value in step.parameters.items():
            if parameters.setdefault(name, value) != value:
                return list(steps)
    statements = tuple(step.statement for step in steps)
    found = _TOGETHER.get(statements)
    if found is None:
        parts = [s.cte(f"part_{i}") for i, s in enumerate(statements)]  # type: ignore[attr-defined]
        found = _TOGETHER[statements] = sa.select(sa.literal(1)).add_cte(*parts)
    return [Step(found, parameters)]


def _pipeline(connection: Connection, steps: Sequence[Step], *, commit: bool = False) -> list[Result]:
    driver: Any = connection.connection.driver_connection
    if not commit and not connection.in_transaction():
        connection.begin()  # what the batch begins is committed, or undone, by SQLAlchemy
    try:
        answers = pipeline.run(
            driver, connection.info, [(_compiled(connection, s.statement), s.parameters) for s in steps], commit
        )
    except BaseException as error:
        if driver.closed or driver.broken:
            connection.invalidate(error if isinstance(error, Exception) else None)
        raise
    return [Result(*answer) for answer in answers]


def _compiled(connection: Connection, statement: Executable) -> pipeline.ServerStatement:
    found = _COMPILED.get(statement)
    if found is None:
        compiled = statement.compile(dialect=connection.dialect)  # type: ignore[attr-defined]
        if compiled.post_compile_params:
            raise AssertionError(f"a statement with an IN list cannot travel in a batch: {compiled.string}")
        found = _COMPILED[statement] = pipeline.server_statement(compiled.string, compiled.params)
    return found


def chunks(values: Sequence[T], size: int = IN_LIST) -> Iterator[Sequence[T]]:
    """The values in pieces short enough for one IN list."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
