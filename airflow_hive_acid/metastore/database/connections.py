"""Connections that stay checked out between transactions, because taking them from SQLAlchemy's pool costs too much.

PostgreSQL (``KeptConnections``): for the verbs in whose path every microsecond counts. Taking a connection and giving
it back costs a third of what a client spends on a verb, so a few stay checked out, and a verb takes one of those. Their
statements are prepared, and the server plans them once: often while TXNS holds a handful of rows, when reading all of
them is the cheapest way. That plan stays, while the table grows to thousands of rows. So these connections, whose
statements all look up single rows, are told to prefer indexes.

SQLite (``IdleConnections``): for all operations; there a statement is a call of a function, and the pool dearer.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

from airflow_hive_acid.metastore.database.engines import READING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.sql.base import Executable

_IDLE = 0
"""libpq's PQTRANS_IDLE."""
_INHERITED: list[Connection] = []
"""Of a parent process: never used, and never collected either, which would reset them on the parent's socket."""


class IdleConnections:
    """Connections of an embedded metastore; one that met an error goes back to the pool, which makes it sound.

    :param most: how many stay checked out.
    """

    def __init__(self, engine: Engine, most: int) -> None:
        self._engine = engine
        self._most = most
        self._idle: list[Connection] = []

    @contextlib.contextmanager
    def connected(self, *, reading: bool) -> Iterator[Connection]:
        """A connection outside a transaction."""
        try:
            conn = self._idle.pop()
        except IndexError:
            conn = self._engine.connect()
        try:
            if reading:
                conn.info[READING] = True
            yield conn
            if reading:
                del conn.info[READING]
        except BaseException:
            if not conn.invalidated:  # such a one has lost its info with the connection
                conn.info.pop(READING, None)
            conn.close()
            raise
        if len(self._idle) < self._most:
            self._idle.append(conn)
        else:
            conn.close()

    def close(self) -> None:
        """Give all back to the pool."""
        while self._idle:
            self._idle.pop().close()

    def inherit(self) -> None:
        """After a fork: let go of the parent's connections without touching them."""
        _INHERITED.extend(self._idle)
        self._idle = []


class Pin:
    """A connection that one thread keeps to itself for a while: between its verbs it can listen there.

    :ivar conn: None when it is lost; verbs use others then.
    """

    def __init__(self, conn: Connection | None) -> None:
        self.conn = conn
        self.in_use = False

    @property
    def driver(self) -> Any:
        """The psycopg connection; None once it is lost."""
        return None if self.conn is None else self.conn.connection.driver_connection

    def lose(self) -> None:
        """It cannot be used any more, or must not be."""
        conn, self.conn = self.conn, None
        if conn is not None:
            conn.invalidate()
            conn.close()


class _OfThread(threading.local):
    pin: Pin | None = None


class KeptConnections:
    """Idle connections of one engine, each used by one verb at a time.

    :param most: how many stay checked out; the others go back to the pool.
    :param prepare: what tells a connection to prefer indexes; ``restore`` makes it like the pool's others again.
    """

    def __init__(self, engine: Engine, most: int, prepare: Executable, restore: Executable) -> None:
        self._engine = engine
        self._most = most
        self._prepare, self._restore = prepare, restore
        self._idle: list[Connection] = []
        self._of_thread = _OfThread()

    @contextlib.contextmanager
    def pinned(self) -> Iterator[Pin]:
        """Around verbs of this thread that all use one connection.

        Without one when none can be made now: the verbs will say so, or try again. Left by an error, the connection is
        given up: nobody knows what it listens for.
        """
        try:
            conn = self.take()
        except DBAPIError:
            conn = None
        pin = self._of_thread.pin = Pin(conn)
        try:
            yield pin
        except BaseException:
            pin.lose()
            raise
        finally:
            self._of_thread.pin = None
            if pin.conn is not None:
                self.give_back(pin.conn)

    def take(self) -> Connection:
        """A connection outside a transaction."""
        pin = self._of_thread.pin
        if pin is not None and pin.conn is not None and not pin.in_use:
            pin.in_use = True
            return pin.conn
        try:
            return self._idle.pop()
        except IndexError:
            conn = self._engine.connect()
        try:
            conn.execute(self._prepare)
            conn.commit()
        except BaseException:
            conn.invalidate()
            conn.close()
            raise
        return conn

    def commit(self, conn: Connection) -> None:
        """Commit what a verb has left open; a batch may have brought the COMMIT already."""
        if conn.in_transaction():
            conn.commit()

    def give_back(self, conn: Connection) -> None:
        """Keep a connection whose verb has succeeded."""
        pin = self._of_thread.pin
        if pin is not None and conn is pin.conn:
            pin.in_use = False
            return
        if len(self._idle) < self._most:
            self._idle.append(conn)
            return
        try:
            conn.execute(self._restore)
            conn.commit()
        except DBAPIError:
            conn.invalidate()  # it is no longer needed, whatever it suffers from
        finally:
            conn.close()

    def recover(self, conn: Connection) -> None:
        """Undo what a verb that failed has left, and keep the connection if it is sound."""
        try:
            sound = not conn.invalidated and self._undo(conn)
        except Exception:  # noqa: BLE001 - the verb's own error is the one to tell
            sound = False
        if sound:
            self.give_back(conn)
            return
        pin = self._of_thread.pin
        if pin is not None and conn is pin.conn:
            pin.conn = None
        if not conn.invalidated:
            conn.invalidate()
        conn.close()
        self.close()  # what broke one connection, a restarted server perhaps, has broken the others

    def close(self) -> None:
        """Give all back to the pool."""
        while self._idle:
            conn = self._idle.pop()
            conn.invalidate()  # not as the pool wants its connections to be
            conn.close()

    def inherit(self) -> None:
        """After a fork: let go of the parent's connections without touching them."""
        _INHERITED.extend(self._idle)
        self._idle = []
        pin = self._of_thread.pin
        if pin is not None and pin.conn is not None:
            _INHERITED.append(pin.conn)
            pin.conn = None

    @staticmethod
    def _undo(conn: Connection) -> bool:
        driver: Any = conn.connection.driver_connection
        if driver.closed or driver.broken:
            return False
        conn.rollback()
        if driver.pgconn.transaction_status != _IDLE:
            driver.rollback()
        return bool(driver.pgconn.transaction_status == _IDLE)
