"""How a kind of database does what verbs want: the generic way, and the questions that verbs may ask.

A verb says what is to happen; a backend says how. There is one for each kind (``sqlite``, ``postgresql``, ``mysql``),
chosen once by the URL, and found again from any connection. Nobody outside of this room asks for its name: they ask
what it can do. R3: whatever the way, each statement of a batch that waits for a lock is a statement of its own, and
what is read behind it sees what it waited for.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from airflow_hive_acid.metastore.database.compiled import CompiledStatements
from airflow_hive_acid.metastore.schema.hive_transactions import TXN_LOCK_TBL
from airflow_hive_acid.metastore.schema.layouts import NEXT_TXN_ID, USUAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy.engine import Connection, Engine
    from sqlalchemy.sql.base import Executable
    from sqlalchemy.sql.selectable import NamedFromClause

    from airflow_hive_acid.metastore.database.connections import IdleConnections, KeptConnections
    from airflow_hive_acid.metastore.schema.layouts import Layout

OPTION = "hive_acid_backend"
"""SQLAlchemy's execution option that leads from a connection to its backend."""
COMMIT_SENT = "hive_acid_commit_sent"
"""In the ``info`` of a connection: whether the COMMIT of what runs on it may have happened (R17)."""
_CONNECT_SECONDS = 10
_HURRIED_CONNECT_SECONDS = 3


class Step(NamedTuple):
    """One statement of a batch with its parameters."""

    statement: Executable
    parameters: Mapping[str, Any] = {}


class Result(NamedTuple):
    """Rows and row count of one statement of a batch."""

    rows: list[Any]
    rowcount: int


SAVEPOINT = Step(sa.text("SAVEPOINT hive_acid_undo"))
"""Start of what a conflict undoes while the transaction goes on."""
UNDO = Step(sa.text("ROLLBACK TO SAVEPOINT hive_acid_undo"))
APART = Step(sa.text("COMMIT"))
"""In a batch that ends with its COMMIT: what comes before it is a transaction of its own. Only where a batch takes one
trip; should a later statement fail, the earlier transactions stay."""
APART_WITH_NEXT = Step(sa.text("COMMIT AND CHAIN"))
"""As :data:`APART`, of a transaction whose locks should not wait for the disk: it becomes durable with the next one of
the batch, which must write something. Nobody is told of it before."""


class PairList:
    """A list of any length of pairs of texts, as the parameter of a statement: an IN list, whose text grows with it."""

    def holds(self, first: Any, second: Any) -> sa.ColumnElement[bool]:
        """Whether a row's two columns are one of the pairs."""
        return sa.tuple_(first, second).in_(sa.bindparam("pairs", expanding=True))

    def parameters(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """The pairs, as :meth:`holds` reads them."""
        return {"pairs": [tuple(pair) for pair in pairs]}


class Backend:
    """The generic way, as a database of standard SQL goes it.

    :cvar name: SQLAlchemy's for its dialect; for messages and tests.
    :cvar one_writer: a write transaction keeps all others out until its COMMIT, and is every lock at once.
    :cvar compound: one statement can consist of several writes that hand rows to each other (``WITH … RETURNING``).
    :cvar one_trip: a batch takes one round trip, whatever is in it, and can take the COMMIT with it; compound as well.
    :cvar calls_waiters: whoever lets go of something can wake those who wait for it.
    :cvar latin1: Hive's columns hold no other characters.
    :cvar nulls_first: ORDER BY puts NULL before every value.
    :cvar sorts_by_bytes: names are in an index in the order of their bytes; elsewhere as a collation has it. Known with
        the first connection; see :meth:`by_bytes`.
    :cvar indexes_names: it gets an index of ours in that order.
    :cvar statement_clock: it has a clock that stands still while a statement runs.
    :cvar pairs: how a statement takes a list of pairs.
    :ivar layout: how the metastore's tables differ from Hive 4's; looked up with the first connection.
    """

    name = ""
    one_writer = False
    compound = False
    one_trip = False
    calls_waiters = False
    latin1 = False
    nulls_first = True
    sorts_by_bytes = True
    indexes_names = False
    statement_clock = True
    pairs = PairList()
    layout = USUAL

    def file(self, url: sa.URL) -> Path | None:
        """The file that is the whole database, where it has no server."""
        return None

    # --- connections ----------------------------------------------------------------------------------------------

    def make_engine(self, url: sa.URL, pool_size: int, *, patient: bool) -> Engine:
        """SQLAlchemy's engine, with the session settings that every connection needs.

        :param patient: false: connections are tried before they are used, and nothing takes long.
        """
        raise NotImplementedError

    def kept_connections(self, engine: Engine, most: int) -> KeptConnections | None:
        """Connections for hot verbs, where the pool's are too dear."""
        return None

    def idle_connections(self, engine: Engine, most: int) -> IdleConnections | None:
        """Connections for everything, where the pool's are too dear."""
        return None

    @contextlib.contextmanager
    def reading(self, connection: Connection) -> Iterator[Connection]:
        """A pooled connection whose transactions only read, and see one moment."""
        yield connection.execution_options(isolation_level="REPEATABLE READ")

    def find_layout(self, connection: Connection) -> Layout:
        """How the tables of the metastore behind a connection differ from Hive 4's."""
        return USUAL

    # --- statements -----------------------------------------------------------------------------------------------

    def open_txn_lock(self, *, exclusive: bool) -> Step:
        """The statement that takes Hive's open-txn lock; see :func:`open_txn_lock`."""
        if self.layout.counts_txns:
            return LOCK_COUNT
        return Step(_READ_OPENS_EXCLUSIVE if exclusive else _READ_OPENS_SHARED)

    def execute(self, connection: Connection, steps: Sequence[Step]) -> list[Result]:
        """See :func:`execute_batch`."""
        results = []
        for step in steps:
            cursor = connection.execute(step.statement, dict(step.parameters) or None)
            rows = [tuple(row) for row in cursor] if cursor.returns_rows else []
            results.append(Result(rows, cursor.rowcount))
        return results

    def finish(self, connection: Connection, steps: Sequence[Step]) -> list[Result]:
        """See :func:`finish_batch`."""
        return self.execute(connection, steps)

    def was_halted(self, error: BaseException) -> bool:
        """Whether a batch ended because of :class:`~airflow_hive_acid.metastore.database.expressions.halt_if`."""
        return False

    def together(self, steps: Sequence[Step]) -> list[Step]:
        """See :func:`together`."""
        return list(steps)

    def unless_halted(self, halting: Step, steps: Sequence[Step]) -> list[Step]:
        """See :func:`unless_halted`."""
        return [halting, *self.together(steps)]

    def by_bytes(self, name: sa.ColumnElement[str]) -> sa.ColumnElement[str] | None:
        """A partition's name as an index holds it in the order of its bytes; None where none does."""
        return name if self.sorts_by_bytes else None

    def one_beside(
        self, table: NamedFromClause[Any], belongs: sa.ColumnElement[bool], to: sa.FromClause
    ) -> tuple[sa.FromClause, sa.ColumnElement[bool]]:
        """What a SELECT joins to have beside each of its rows the one row of another table that belongs to it.

        :param belongs: about the alias and ``to``, which the SELECT reads; an index has at most one row for it.
        :return: what is joined, with the alias's columns, and the condition of the join.
        """
        return table, belongs

    def delete_outdone(self, table: sa.Table, is_outdone: sa.ColumnElement[bool]) -> sa.Delete:
        """A DELETE of the rows for which there is another one in the same table.

        :param is_outdone: about the table and an alias of it.
        """
        return sa.delete(table).where(sa.exists().where(is_outdone))

    # --- the schema -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def creating(self, connection: Connection) -> Iterator[None]:
        """Around what looks for tables and creates them: one process at a time."""
        yield

    @contextlib.contextmanager
    def all_or_nothing(self, connection: Connection, tables: sa.MetaData) -> Iterator[None]:
        """Around the creation of tables where there were none: when it fails, none are left."""
        yield

    def restart_ids(self, connection: Connection, key: sa.Column[int], following: int, row: Mapping[str, Any]) -> None:
        """Let the database give ``following`` as the next generated id of a table; it was never given before.

        :param row: values of the other columns that a row must have.
        """
        raise NotImplementedError

    def reflects(self, index: sa.Index) -> bool:
        """Whether SQLAlchemy finds an index of ours when it looks."""
        return True


def server_engine(
    backend: Backend, url: sa.URL, pool_size: int, arguments: Mapping[str, Any], *, patient: bool, reset: bool = True
) -> Engine:
    """SQLAlchemy's engine for a database with a server.

    :param arguments: of the driver's ``connect``; what the URL itself says goes before.
    :param reset: whether the pool rolls back what comes back to it; else the backend sees to that.
    """
    seconds = _CONNECT_SECONDS if patient else _HURRIED_CONNECT_SECONDS
    given = {k: v for k, v in {"connect_timeout": seconds, **arguments}.items() if k not in url.query}
    return sa.create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_size=pool_size,
        max_overflow=20,
        connect_args=given,
        pool_pre_ping=not patient,
        pool_reset_on_return="rollback" if reset else None,
        execution_options={"compiled_cache": CompiledStatements(), OPTION: backend},
    )


LOCK_COUNT = Step(sa.select(NEXT_TXN_ID.c.NTXN_NEXT).with_for_update())
"""Takes the open-txn lock on a metastore that counts txns, as Hive 3 does: every open and every commit that needs it
alone. Returns the next txn id."""
_READ_OPENS_SHARED = sa.select(TXN_LOCK_TBL.c.TXN_LOCK).with_for_update(read=True)
_READ_OPENS_EXCLUSIVE = sa.select(TXN_LOCK_TBL.c.TXN_LOCK).with_for_update()


def backend_of(connection: Connection) -> Backend:
    """The backend of a connection that a :class:`~airflow_hive_acid.metastore.database.database.Database` has made."""
    backend: Backend = connection.get_execution_options()[OPTION]
    return backend


# --- statements that wait, and nothing else (R3) ------------------------------------------------------------------


def open_txn_lock(connection: Connection, *, exclusive: bool) -> Step:
    """The statement that takes Hive's open-txn lock: shared by every open, exclusive by commits that need MAX(TXN_ID).

    Where there is one writer, the write transaction is the lock; where txns are counted, it is always exclusive.
    """
    return backend_of(connection).open_txn_lock(exclusive=exclusive)


def lock_open_txns(connection: Connection, *, exclusive: bool) -> None:
    """Take the open-txn lock until the transaction ends."""
    connection.execute(open_txn_lock(connection, exclusive=exclusive).statement)


# --- batches ------------------------------------------------------------------------------------------------------


def execute_batch(connection: Connection, steps: Sequence[Step]) -> list[Result]:
    """Execute statements one after the other and return all results.

    The statements must not contain IN lists, whose text depends on the values, but for :attr:`Backend.pairs`.

    They may travel in one round trip; the server still runs each as a statement of its own, with its own snapshot, so
    a read that follows a lock in the batch sees what the lock waited for (R3). The first error ends it.
    """
    return backend_of(connection).execute(connection, steps)


def finish_batch(connection: Connection, steps: Sequence[Step]) -> list[Result]:
    """The last batch of an operation: where it can, the COMMIT travels with it and saves a round trip.

    Elsewhere the transaction commits as usual when the operation returns. Nothing may be executed afterwards.
    """
    return backend_of(connection).finish(connection, steps)


def at_once(
    connection: Connection, steps: Callable[[], Sequence[Step]], decides: int = -1, number: int = 1
) -> list[Any] | None:
    """The short way of a verb that has one: locks, decision, changes and COMMIT in one round trip.

    :param steps: makes the statements; not called where a batch takes more than one trip.
    :param decides: position of the statement that changes all, or nothing; R3: those that wait come before it.
    :param number: so many rows it returns when it has changed something.
    :return: its rows; None when nothing has happened: then the verb goes its long way, in a transaction of its own.
    """
    if not backend_of(connection).one_trip:
        return None
    rows = finish_batch(connection, steps())[decides].rows
    if len(rows) == number:
        return rows
    connection.info[COMMIT_SENT] = False  # what was committed is nothing; what follows has not been sent yet
    return None


def together(connection: Connection, steps: Sequence[Step]) -> list[Step]:
    """Writes that neither depend on each other nor touch the same row, as one statement where the database can.

    There all of them see the database as it was before the first, so a read among them may be of rows that another one
    deletes. Steps that give one parameter two values stay apart.
    """
    return backend_of(connection).together(steps)


def unless_halted(connection: Connection, halting: Step, steps: Sequence[Step]) -> list[Step]:
    """Writes as for :func:`together`, none of which is done where a ``SELECT halt_if(…)`` about the rows as they were
    before halts the batch; only where a batch takes one trip."""
    return backend_of(connection).unless_halted(halting, steps)
