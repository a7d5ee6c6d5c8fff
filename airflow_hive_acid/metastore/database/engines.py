"""SQLAlchemy engines for the three kinds of metastore database, and the modes their connections can be in."""

from __future__ import annotations

import contextlib
import sqlite3
import urllib.parse
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event

from airflow_hive_acid.metastore.database.compiled import CompiledStatements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection, Engine

READING = "hive_acid_reading"
"""In the ``info`` of an SQLite connection while it only reads."""
_CONNECT_SECONDS = 10
_HURRIED_CONNECT_SECONDS = 3
_HURRY_POSTGRESQL = "-c statement_timeout=20000"
_HURRY_MYSQL = "SET SESSION innodb_lock_wait_timeout = 20"
"""A statement of somebody who is not patient takes, or waits, no longer than 20 s."""


def make_engine(url: sa.URL, pool_size: int, *, patient: bool = True) -> Engine:
    """SQLAlchemy's engine for a metastore, with the session settings that every connection needs.

    :param patient: false: connections are tried before they are used, and nothing takes long.
    """
    seconds = _CONNECT_SECONDS if patient else _HURRIED_CONNECT_SECONDS
    engine = _make_engine(url, pool_size, seconds, patient=patient)
    if not patient and url.get_backend_name() == "mysql":
        event.listen(engine, "connect", _hurry_mysql)
    return engine


def _hurry_mysql(connection: Any, record: Any) -> None:
    connection.query(_HURRY_MYSQL)


def _make_engine(url: sa.URL, pool_size: int, connect_seconds: int, *, patient: bool) -> Engine:
    match url.get_backend_name():
        case "sqlite":
            return _sqlite_engine(url, pool_size)  # without a server there is nothing to try
        case "postgresql":
            # No prepared statements of psycopg's own: it deallocates all, ours included, after each rollback.
            arguments: dict[str, Any] = {
                "connect_timeout": connect_seconds,
                "application_name": "airflow-hive-acid",
                "prepare_threshold": None,
            }
            if not patient:
                arguments["options"] = _HURRY_POSTGRESQL
        case _:
            arguments = {"connect_timeout": connect_seconds, "conv": _mysql_literals()}
    given = {k: v for k, v in arguments.items() if k not in url.query}
    engine = sa.create_engine(
        url,
        isolation_level="READ COMMITTED",
        pool_size=pool_size,
        max_overflow=20,
        connect_args=given,
        pool_pre_ping=not patient,
        execution_options={"compiled_cache": CompiledStatements()},
    )
    if url.get_backend_name() == "mysql":
        event.listen(engine, "connect", _prepare_mysql)
    return engine


def _mysql_literals() -> dict[Any, Any]:
    """PyMySQL's ways to write values. Ids beyond 64 bits are refused, as other drivers do."""
    from pymysql.converters import conversions

    return {**conversions, int: _int_literal}


def _int_literal(value: int, mapping: Any = None) -> str:
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} has more than 64 bits")
    return str(value)


def _prepare_mysql(connection: Any, record: Any) -> None:
    # Strict: a value that is too long is an error, not cut off. TXNS holds a row with id 0, which MySQL would otherwise
    # replace by the next id.
    connection.query("SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'")
    # UNIX_TIMESTAMP of a local time goes back by an hour when summer time ends.
    connection.query("SET SESSION time_zone = '+00:00'")


def _sqlite_engine(url: sa.URL, pool_size: int) -> Engine:
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

    options = {"compiled_cache": CompiledStatements()}
    engine = sa.create_engine(url, creator=connect, pool_size=pool_size, max_overflow=20, execution_options=options)
    # Not the event "begin": an engine that has one event asks for all of them, many times for each statement.
    setattr(engine.dialect, "do_begin", _begin_sqlite)  # noqa: B010 - mypy knows it as a method
    return engine


def _begin_sqlite(connection: Any) -> None:
    connection.driver_connection.execute("BEGIN" if READING in connection.info else "BEGIN IMMEDIATE")


@contextlib.contextmanager
def read_only(connection: Connection) -> Iterator[None]:
    """Let the driver begin transactions READ ONLY, and afterwards as the server has it.

    Not SQLAlchemy's ``postgresql_readonly``: what it leaves behind is READ WRITE, by which the next write on the same
    connection would pass a database whose ``default_transaction_read_only`` is on.
    """
    driver: Any = connection.connection.driver_connection
    driver.read_only = True
    try:
        yield
    finally:
        if not (driver.closed or driver.broken):
            driver.read_only = None
