"""A real SQLite metastore in a simulation: its statements are steps, its clock is the world's, its waits are turns."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
import uuid
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import sqlalchemy as sa

from airflow_hive_acid.filesystem import threads
from airflow_hive_acid.maintenance.worker import watch as worker_watch
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.connections import READING
from airflow_hive_acid.metastore.txns import commits, txns
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from airflow_hive_acid.errors import HiveAcidError

    from .scheduler import Process, Scheduler

_JULIAN_EPOCH = 2440587.5


class _Compiled(dict[Any, Any]):
    """Compiled statements of all processes: each has a dialect of its own, which is the first part of a key.

    The second one is what the statement looks like: a large tuple, whose hash costs more than all the rest. A
    statement of a module gives the same object every time, by which it is found sooner.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    def get(self, key: Any, default: Any = None) -> Any:
        known = self._known.get((id(key[1]), *key[2:]))
        if known is not None:
            return known[1]
        found = super().get(key[1:])
        if found is None:
            return default
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[(id(key[1]), *key[2:])] = (key[1], found)  # the key is kept, or another one might get its id
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


_MOST_KNOWN = 5000
_COMPILED = _Compiled()
_CHANGES = "rows changed until the last commit"
BUSY_MS = 30_000
"""How long a statement waits for another's write transaction."""


class Metastore:
    """The database all processes share.

    :ivar committed: called after each commit of a transaction that changed rows.
    """

    def __init__(self, path: Path, scheduler: Scheduler, settings: dict[str, str]) -> None:
        self._path, self._scheduler, self._settings = path, scheduler, settings
        self._writer: object | None = None
        self.committed: Callable[[], None] = lambda: None
        self.raw = sqlite3.connect(path, isolation_level=None)
        self.raw.execute("PRAGMA synchronous=OFF")

    def close(self) -> None:
        """Close what the checks read with."""
        self.raw.close()

    def client(self, process: Process) -> MetastoreClient:
        """A client of a process of its own."""
        client = MetastoreClient(
            f"sqlite:///{self._path}", Settings({Source.CONNECTION: self._settings}), user="ann", host=process.name
        )
        client.heartbeats = Beats(client)  # type: ignore[assignment]
        client.database._sleep = self._scheduler.sleep
        self._hook(client.database.engine, process)
        return client

    def _hook(self, engine: sa.Engine, process: Process) -> None:
        scheduler = self._scheduler

        def connect(connection: sqlite3.Connection, record: object) -> None:
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA busy_timeout=0")
            connection.create_function("julianday", 1, lambda _: scheduler.now / 86_400_000 + _JULIAN_EPOCH)
            connection.create_function("strftime", -1, self._strftime)

        dialect: Any = engine.dialect
        begin, commit, rollback = dialect.do_begin, dialect.do_commit, dialect.do_rollback
        execute, execute_many = dialect.do_execute, dialect.do_executemany

        def do_begin(connection: Any) -> None:
            if READING in connection.info:
                scheduler.step("BEGIN")
            else:
                scheduler.step("BEGIN IMMEDIATE")
                self._take(connection.dbapi_connection, process)
            begin(connection)

        def do_execute(cursor: object, statement: str, *rest: object) -> None:
            scheduler.step(statement[:110])
            execute(cursor, statement, *rest)

        def do_executemany(cursor: object, statement: str, *rest: object) -> None:
            scheduler.step(statement[:110])
            execute_many(cursor, statement, *rest)

        def do_commit(connection: Any) -> None:
            scheduler.step("COMMIT")
            commit(connection)
            self._give_back(connection, process)
            changes = connection.dbapi_connection.total_changes
            if changes != connection.info.get(_CHANGES, 0):
                connection.info[_CHANGES] = changes
                self.committed()

        def do_rollback(connection: Any) -> None:
            rollback(connection)
            self._give_back(connection, process)

        dialect.do_begin, dialect.do_commit, dialect.do_rollback = do_begin, do_commit, do_rollback
        dialect.do_execute, dialect.do_executemany = do_execute, do_executemany
        engine.update_execution_options(compiled_cache=_COMPILED)
        sa.event.listen(engine, "connect", connect)
        # A connection that its process was killed in is closed without a word.
        sa.event.listen(engine, "close", lambda connection, record: self._give_back(connection, process))

    def _take(self, connection: object, process: Process) -> None:
        until = self._scheduler.now + BUSY_MS
        self._scheduler.wait_until(lambda: self._writer is None or self._scheduler.now > until)
        if self._writer is not None:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = 5  # by which the product tells it from others
            raise error
        self._writer, process.holds_database = connection, True

    def _give_back(self, connection: Any, process: Process) -> None:
        # The pool gives the dialect its own wrapper when a connection comes back.
        if self._writer is getattr(connection, "dbapi_connection", connection):
            self._writer, process.holds_database = None, False

    def _strftime(self, form: str, when: str, *changes: str) -> str:
        if form != "%Y-%m-%d %H:%M:%f" or when != "now":
            raise ValueError(f"not simulated: strftime({form!r}, {when!r})")
        moment = datetime.fromtimestamp(self._scheduler.now / 1000, timezone.utc)
        for change in changes:
            moment += timedelta(seconds=int(change.removesuffix(" seconds").replace("--", "")))
        return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03}"


class Beats:
    """Takes the place of a client's heartbeats: an actor of the same process sends them."""

    def __init__(self, client: MetastoreClient) -> None:
        self._client = client
        self._alive: dict[int, None] = {}
        self._lost: dict[int, HiveAcidError] = {}
        self._ends: dict[int, Callable[[], object]] = {}

    def end_later(self, txn_id: int, end: Callable[[], object]) -> None:
        self._ends[txn_id] = end

    def add(self, txn_id: int) -> bool:
        is_new = txn_id not in self._alive
        self._alive[txn_id] = None
        return is_new

    def remove(self, txn_id: int) -> None:
        self._alive.pop(txn_id, None)
        self._lost.pop(txn_id, None)
        self._ends.pop(txn_id, None)

    def lost(self, txn_id: int) -> HiveAcidError | None:
        return self._lost.get(txn_id)

    def close(self) -> None:
        self._alive.clear()
        self._ends.clear()

    def beat(self) -> None:
        """Once for each txn."""
        from airflow_hive_acid.errors import HiveAcidError, MetastoreUnavailableError

        for txn_id, end in list(self._ends.items()):
            try:
                end()
            except MetastoreUnavailableError:
                continue
            except HiveAcidError:
                self.remove(txn_id)  # it has ended by itself
            else:
                self.remove(txn_id)
        for txn_id in list(self._alive):
            try:
                self._client.heartbeat(txn_id)
            except MetastoreUnavailableError:
                continue
            except HiveAcidError as error:
                if txn_id in self._alive:
                    del self._alive[txn_id]
                    self._lost[txn_id] = error


class _OneAfterTheOther:
    """Takes the place of a pool of threads."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _OneAfterTheOther:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, call: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return iter([call(item) for item in items])


class _NoThread:
    """Of a watch that looks every five seconds: a job of the simulation is over sooner, and asks by itself."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def start(self) -> None: ...

    def join(self) -> None: ...


@contextlib.contextmanager
def one_thread(scheduler: Scheduler) -> Iterator[None]:
    """Time, sleep, threads and random names are the simulation's."""

    def name() -> uuid.UUID:
        return uuid.UUID(int=scheduler.random.getrandbits(128), version=4)

    sleep, monotonic = time.sleep, time.monotonic

    def simulated_sleep(seconds: float) -> None:
        scheduler.sleep(seconds) if scheduler.current is not None else sleep(seconds)

    def simulated_monotonic() -> float:
        return scheduler.now / 1000 if scheduler.current is not None else monotonic()

    # Defaults hold the real clock: a run would count open txns, or not, by how fast this machine is just now.
    timer = {**(txns.open_txns.__kwdefaults__ or {}), "timer": simulated_monotonic}
    with contextlib.ExitStack() as stack:
        for patch in (
            mock.patch.object(txns.open_txns, "__kwdefaults__", timer),
            mock.patch.object(txns.OpenGate.__init__, "__defaults__", (simulated_monotonic,)),
            mock.patch.object(commits, "random", scheduler.random),
            mock.patch.object(time, "sleep", simulated_sleep),
            mock.patch.object(time, "monotonic", simulated_monotonic),
            mock.patch.object(uuid, "uuid4", name),
            mock.patch.object(threads, "ThreadPoolExecutor", _OneAfterTheOther),
            mock.patch.object(worker_watch, "threading", SimpleNamespace(Thread=_NoThread, Event=threading.Event)),
        ):
            stack.enter_context(patch)
        yield
