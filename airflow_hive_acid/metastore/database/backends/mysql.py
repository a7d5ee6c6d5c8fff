"""MySQL and MariaDB: the generic way, with what their InnoDB does otherwise.

They commit each CREATE TABLE by itself, and do not let a subquery look at the table that is deleted from. Hive's script
makes its columns latin1. The statements of a batch travel in one text (:mod:`.mysql_batch`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.ext.compiler import compiles

from airflow_hive_acid.errors import MetastoreUnavailableError
from airflow_hive_acid.metastore.database.backend import Backend, Result, Step, server_engine
from airflow_hive_acid.metastore.database.backends import mysql_batch
from airflow_hive_acid.metastore.database.clock import (
    clock_ms,
    clock_timestamp,
    clock_timestamp_before,
    statement_ms,
)
from airflow_hive_acid.metastore.database.expressions import as_double, bytewise, is_at
from airflow_hive_acid.metastore.database.layouts import find_layout, standard_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection, Engine

    from airflow_hive_acid.metastore.schema.layouts import Layout

_HURRY = "SET SESSION innodb_lock_wait_timeout = 20"
"""Somebody who is not patient waits no longer than 20 s."""
_IN_TRANSACTION = 1
"""The protocol's flag of a connection in a transaction; each answer of the server has it."""
_CREATE_SECONDS = 60
_CREATION = sa.func.md5(sa.func.concat("hive_acid_schema_", sa.func.database()))
_COLUMNS = sa.table("columns", *map(sa.column, ("table_schema", "table_name", "column_name", "collation_name")),
                    schema="information_schema").c  # fmt: skip
_NAMES_SORT = sa.select(_COLUMNS.collation_name).where(
    _COLUMNS.table_schema == sa.func.database(), _COLUMNS.table_name.in_(["PARTITIONS", "partitions"]),
    _COLUMNS.column_name == "PART_NAME",
)  # fmt: skip
_ENTER_CREATION = sa.select(sa.func.get_lock(_CREATION, _CREATE_SECONDS))
_LEAVE_CREATION = sa.select(sa.func.release_lock(_CREATION))


class MysqlBackend(Backend):
    """MySQL and MariaDB."""

    name = "mysql"
    latin1 = True

    def make_engine(self, url: sa.URL, pool_size: int, *, patient: bool) -> Engine:
        """See :class:`Backend`."""
        arguments = {"conv": _literals(), "client_flag": mysql_batch.FLAGS}
        engine = server_engine(self, url, pool_size, arguments, patient=patient, reset=False)
        # First: SQLAlchemy asks the first connection for its sql_mode, and quotes names by that.
        event.listen(engine, "connect", _prepare, insert=True)
        event.listen(engine, "reset", _roll_back_if_open)
        if not patient:
            event.listen(engine, "connect", _hurry)
        return engine

    def find_layout(self, connection: Connection) -> Layout:
        """See :class:`Backend`. How names of partitions are sorted is seen at the same time."""
        # Hive's script says latin1_bin; who needs other letters there gives the column another collation, and one of
        # Unicode's sorts 9 behind the colon.
        collation = connection.execute(_NAMES_SORT).scalar()
        self.sorts_by_bytes = collation is None or str(collation).endswith("_bin")
        return find_layout(connection, standard_columns(sa.func.database()))

    def execute(self, connection: Connection, steps: Sequence[Step]) -> list[Result]:
        """See :class:`Backend`; they travel together."""
        return mysql_batch.execute(connection, steps, super().execute)

    def delete_outdone(self, table: sa.Table, is_outdone: sa.ColumnElement[bool]) -> sa.Delete:
        """See :class:`Backend`; the joined form says the same."""
        return sa.delete(table).where(is_outdone)

    @contextlib.contextmanager
    def creating(self, connection: Connection) -> Iterator[None]:
        """See :class:`Backend`. As each CREATE TABLE commits, the lock may not end with the transaction."""
        if connection.execute(_ENTER_CREATION).scalar() != 1:
            raise MetastoreUnavailableError(
                f"somebody else has been creating tables in this metastore for more than {_CREATE_SECONDS} s; try again"
            )
        try:
            yield
            connection.connection.commit()  # whoever enters next has to see the rows beside the tables
        finally:
            with contextlib.suppress(sa.exc.DBAPIError):  # a broken connection has let go of the lock
                connection.execute(_LEAVE_CREATION)

    @contextlib.contextmanager
    def all_or_nothing(self, connection: Connection, tables: sa.MetaData) -> Iterator[None]:
        """See :class:`Backend`; no rollback takes away what each CREATE has committed."""
        try:
            yield
        except BaseException:
            with contextlib.suppress(sa.exc.DBAPIError):  # what the caller should hear is why the creation failed
                tables.drop_all(connection)
            raise

    def restart_ids(self, connection: Connection, key: sa.Column[int], following: int, row: Mapping[str, Any]) -> None:
        """See :class:`Backend`; AUTO_INCREMENT follows the largest id that was ever there."""
        connection.execute(sa.insert(key.table), {**row, key.name: following - 1})
        connection.execute(sa.delete(key.table).where(key == sa.bindparam("largest")), {"largest": following - 1})

    def reflects(self, index: sa.Index) -> bool:
        """See :class:`Backend`; it takes a line with the word PARTITION for partitioning options."""
        return not any("PARTITION" in column.name for column in index.columns)


def _literals() -> dict[Any, Any]:
    """PyMySQL's ways to write values. Ids beyond 64 bits are refused, as other drivers do."""
    from pymysql.converters import conversions

    return {**conversions, int: _int_literal}


def _int_literal(value: int, mapping: Any = None) -> str:
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} has more than 64 bits")
    return str(value)


def _prepare(connection: Any, record: Any) -> None:
    # Strict: a value that is too long is an error, not cut off. TXNS holds a row with id 0, which MySQL would otherwise
    # replace by the next id.
    connection.query("SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'")
    # UNIX_TIMESTAMP of a local time goes back by an hour when summer time ends.
    connection.query("SET SESSION time_zone = '+00:00'")


def _roll_back_if_open(connection: Any, record: Any, state: Any) -> None:
    """Of a connection that comes back to the pool: most have just committed, and a round trip would say so again."""
    if connection.server_status & _IN_TRANSACTION:
        connection.rollback()


def _hurry(connection: Any, record: Any) -> None:
    connection.query(_HURRY)


# --- spellings ----------------------------------------------------------------------------------------------------


@compiles(bytewise, "mysql")
def _(element: bytewise, compiler: Any, **options: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **options)} AS BINARY)"


@compiles(is_at, "mysql")
def _(element: is_at, compiler: Any, **options: Any) -> str:
    # A bound that depends on another row is none of an index there: all rows before it would be read for each.
    column, number = (compiler.process(part, **options) for part in element.clauses)
    return f"({column} = {number})"


@compiles(as_double, "mysql")
def _(element: as_double, compiler: Any, **options: Any) -> str:
    # Before 8.0.17 there is no CAST to it; SQLAlchemy leaves it out and so compares texts.
    return f"({compiler.process(element.clauses, **options)} + 0.0e0)"


@compiles(clock_ms, "mysql")
def _(element: clock_ms, compiler: Any, **options: Any) -> str:
    # SYSDATE, unlike NOW, is the time of evaluation.
    return "CAST(ROUND(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) AS SIGNED)"


@compiles(statement_ms, "mysql")
def _(element: statement_ms, compiler: Any, **options: Any) -> str:
    return "CAST(ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000) AS SIGNED)"


@compiles(clock_timestamp, "mysql")
def _(element: clock_timestamp, compiler: Any, **options: Any) -> str:
    return "SYSDATE()"


@compiles(clock_timestamp_before, "mysql")
def _(element: clock_timestamp_before, compiler: Any, **options: Any) -> str:
    return f"SYSDATE() - INTERVAL {compiler.process(element.clauses, **options)} SECOND"
