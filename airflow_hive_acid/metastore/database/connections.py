"""Connections that stay checked out between transactions, because taking them from SQLAlchemy's pool costs too much.

PostgreSQL (``KeptConnections``): for the verbs in whose path every microsecond counts. Taking a connection and giving
it back costs a third of what a client spends on a verb, so a few stay checked out, and a verb takes one of those. Their
statements are prepared, and the server plans them once: often while TXNS holds a handful of rows, when reading all of
them is the cheapest way. That plan stays, while the table grows to thousands of rows. So these connections, whose
statements all look up single rows, are told to prefer indexes, and not to compile anything.

SQLite (``IdleConnections``): for all operations; there a statement is a call of a function, and the pool dearer.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.sql.base import Executable

READING = "hive_acid_reading"
"""In the ``info`` of an SQLite connection while it only reads."""
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
            connection = self._idle.pop()
        except IndexError:
            connection = self._engine.connect()
        try:
            if reading:
                connection.info[READING] = True
            yield connection
            if reading:
                del connection.info[READING]
        except BaseException:
            if not connection.invalidated:  # such a one has lost its info with the connection
                connection.info.pop(READING, None)
            connection.close()
            raise
        if len(self._idle) < self._most:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Give all back to the pool."""
        while self._idle:
            self._idle.pop().close()

    def inherit(self) -> None:
        """After a fork: let go of the parent's connections without touching them."""
        _INHERITED.extend(self._idle)
        self._idle = []


class OwnConnection:
    """A connection that one thread keeps to itself for a while: between its verbs it can listen there.

    :ivar connection: None when it is lost; verbs use others then.
    """

    def __init__(self, connection: Connection | None) -> None:
        self.connection = connection
        self.in_use = False

    @property
    def driver(self) -> Any:
        """The psycopg connection; None once it is lost."""
        return None if self.connection is None else self.connection.connection.driver_connection

    def lose(self) -> None:
        """It cannot be used any more, or must not be."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()


class _OfThread(threading.local):
    own: OwnConnection | None = None


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
    def own_connection(self) -> Iterator[OwnConnection]:
        """Around verbs of this thread that all use one connection.

        Without one when none can be made now: the verbs will say so, or try again. Left by an error, the connection is
        given up: nobody knows what it listens for.
        """
        try:
            connection = self.take()
        except DBAPIError:
            connection = None
        own = self._of_thread.own = OwnConnection(connection)
        try:
            yield own
        except BaseException:
            own.lose()
            raise
        finally:
            self._of_thread.own = None
            if own.connection is not None:
                self.give_back(own.connection)

    def take(self) -> Connection:
        """A connection outside a transaction."""
        own = self._of_thread.own
        if own is not None and own.connection is not None and not own.in_use:
            own.in_use = True
            return own.connection
        try:
            return self._idle.pop()
        except IndexError:
            connection = self._engine.connect()
        try:
            connection.execute(self._prepare)
            connection.commit()
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        return connection

    def commit(self, connection: Connection) -> None:
        """Commit what a verb has left open; a batch may have brought the COMMIT already."""
        if connection.in_transaction():
            connection.commit()

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose verb has succeeded."""
        own = self._of_thread.own
        if own is not None and connection is own.connection:
            own.in_use = False
            return
        if len(self._idle) < self._most:
            self._idle.append(connection)
            return
        try:
            connection.execute(self._restore)
            connection.commit()
        except DBAPIError:
            connection.invalidate()  # it is no longer needed, whatever it suffers from
        finally:
            connection.close()

    def recover(self, connection: Connection) -> None:
        """Undo what a verb that failed has left, and keep the connection if it is sound."""
        try:
            sound = not connection.invalidated and self._undo(connection)
        except Exception:  # noqa: BLE001 - the verb's own error is the one to tell
            sound = False
        if sound:
            self.give_back(connection)
            return
        own = self._of_thread.own
        if own is not None and connection is own.connection:
            own.connection = None
        if not connection.invalidated:
            connection.invalidate()
        connection.close()
        self.close()  # what broke one connection, a restarted server perhaps, has broken the others

    def close(self) -> None:
        """Give all back to the pool."""
        while self._idle:
            connection = self._idle.pop()
            connection.invalidate()  # not as the pool wants its connections to be
            connection.close()

    def inherit(self) -> None:
        """After a fork: let go of the parent's connections without touching them."""
        _INHERITED.extend(self._idle)
        self._idle = []
        own = self._of_thread.own
        if own is not None and own.connection is not None:
            _INHERITED.append(own.connection)
            own.connection = None

    @staticmethod
    def _undo(connection: Connection) -> bool:
        driver: Any = connection.connection.driver_connection
        if driver.closed or driver.broken:
            return False
        connection.rollback()
        if driver.pgconn.transaction_status != _IDLE:
            driver.rollback()
        return bool(driver.pgconn.transaction_status == _IDLE)
