"""SQLite: an embedded metastore, in one file.

WAL mode, and ``BEGIN IMMEDIATE`` for whatever writes. That makes row locks unnecessary, so their statements compile to
nothing.
"""

from __future__ import annotations

import sqlite3
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from airflow_hive_acid.metastore.database.backend import OPTION, Backend, Step
from airflow_hive_acid.metastore.database.clock import (
    clock_ms,
    clock_timestamp,
    clock_timestamp_before,
    statement_ms,
)
from airflow_hive_acid.metastore.database.compiled import CompiledStatements
from airflow_hive_acid.metastore.database.connections import READING, IdleConnections
from airflow_hive_acid.metastore.database.expressions import smaller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.engine import Connection, Engine

_NOTHING = sa.select(sa.literal(1))
_SEQUENCE = sa.table("sqlite_sequence", sa.column("name"), sa.column("seq"))
_RESTART = (
    sa.update(_SEQUENCE).where(_SEQUENCE.c.name == sa.bindparam("of_table")).values(seq=sa.bindparam("following") - 1)
)


class SqliteBackend(Backend):
    """Without a server: a statement is a call of a function, and the file has one writer."""

    name = "sqlite"
    one_writer = True
    statement_clock = False

    def file(self, url: sa.URL) -> Path:
        """See :class:`Backend`."""
        return Path(url.database or "")

    def make_engine(self, url: sa.URL, pool_size: int, *, patient: bool) -> Engine:
        """See :class:`Backend`; without a server there is nothing to try."""
        # mode=rw: a misspelt path is an error, not a new empty database.
        file = f"file:{urllib.parse.quote(url.database or '')}?mode=rw"

        def connect() -> sqlite3.Connection:
            connection = sqlite3.connect(file, uri=True, timeout=30, check_same_thread=False, isolation_level=None)
            try:
                connection.executescript(
                    # Not trusted: views and triggers in somebody else's file call no functions with side effects.
                    "PRAGMA trusted_schema=OFF; PRAGMA busy_timeout=30000; PRAGMA journal_mode=WAL; "
                    "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON"
                )
            except sqlite3.Error:
                connection.close()
                raise
            return connection

        options = {"compiled_cache": CompiledStatements(), OPTION: self}
        engine = sa.create_engine(url, creator=connect, pool_size=pool_size, max_overflow=20, execution_options=options)
        # Not the event "begin": an engine that has one event asks for all of them, many times for each statement.
        setattr(engine.dialect, "do_begin", _begin)  # noqa: B010 - mypy knows it as a method
        return engine

    def idle_connections(self, engine: Engine, most: int) -> IdleConnections:
        """See :class:`Backend`."""
        return IdleConnections(engine, most)

    def open_txn_lock(self, *, exclusive: bool) -> Step:
        """See :class:`Backend`; the write transaction is the lock."""
        return Step(_NOTHING)

    def restart_ids(self, connection: Connection, key: sa.Column[int], following: int, row: Mapping[str, Any]) -> None:
        """See :class:`Backend`."""
        connection.execute(_RESTART, {"of_table": key.table.name, "following": following})


def _begin(connection: Any) -> None:
    connection.driver_connection.execute("BEGIN" if READING in connection.info else "BEGIN IMMEDIATE")


# --- spellings ----------------------------------------------------------------------------------------------------


@compiles(smaller, "sqlite")
def _(element: smaller, compiler: Any, **options: Any) -> str:
    return f"min({compiler.process(element.clauses, **options)})"


@compiles(clock_ms, "sqlite")
def _(element: clock_ms, compiler: Any, **options: Any) -> str:
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


@compiles(statement_ms, "sqlite")
def _(element: statement_ms, compiler: Any, **options: Any) -> str:
    return str(compiler.process(sa.bindparam("statement_time", type_=sa.BigInteger), **options))


@compiles(clock_timestamp, "sqlite")
def _(element: clock_timestamp, compiler: Any, **options: Any) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f', 'now')"


@compiles(clock_timestamp_before, "sqlite")
def _(element: clock_timestamp_before, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || {seconds} || ' seconds')"
