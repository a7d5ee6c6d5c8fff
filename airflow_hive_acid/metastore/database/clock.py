"""The database's clock, as SQL expressions of every dialect.

All times in the metastore are the database's: milliseconds since 1970, or (CTC_TIMESTAMP) a database timestamp that
is compared only inside the database. R3: the expression is the time *now*, not the start of the transaction, so that
what is decided after a lock wait is decided by the clock of that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from airflow_hive_acid.metastore.database.backend import backend_of

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection


class clock_ms(FunctionElement[int]):
    """Milliseconds since 1970 by the database's clock, at the moment of evaluation."""

    type = sa.BigInteger()
    inherit_cache = True


class statement_ms(FunctionElement[int]):
    """The clock as ``clock_ms``, one value for a whole statement that waits for nothing.

    SQLite has no such clock: the value is bound, see :func:`statement_time`.
    """

    type = sa.BigInteger()
    inherit_cache = True


class clock_timestamp(FunctionElement[Any]):
    """The database's timestamp at the moment of evaluation, in the form CTC_TIMESTAMP has."""

    type = sa.DateTime()
    inherit_cache = True


class clock_timestamp_before(FunctionElement[Any]):
    """The database's timestamp some seconds ago: ``clock_timestamp_before(seconds)``."""

    type = sa.DateTime()
    inherit_cache = True

    def __init__(self, seconds: int | sa.ColumnElement[int]) -> None:
        super().__init__(sa.literal(seconds, sa.Integer) if isinstance(seconds, int) else seconds)


def now_ms(connection: Connection) -> int:
    """The database's clock now."""
    return int(connection.execute(_NOW).scalar_one())


@compiles(clock_ms, "postgresql")
def _(element: clock_ms, compiler: Any, **options: Any) -> str:
    return "CAST(ROUND(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT)"


@compiles(clock_ms, "mysql")
def _(element: clock_ms, compiler: Any, **options: Any) -> str:
    # SYSDATE, unlike NOW, is the time of evaluation.
    return "CAST(ROUND(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) AS SIGNED)"


@compiles(clock_ms, "sqlite")
def _(element: clock_ms, compiler: Any, **options: Any) -> str:
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"


def statement_time(connection: Connection) -> dict[str, int]:
    """Parameters that a statement with ``statement_ms`` needs."""
    return {} if backend_of(connection).statement_clock else {"statement_time": now_ms(connection)}


@compiles(statement_ms, "postgresql")
def _(element: statement_ms, compiler: Any, **options: Any) -> str:
    return "CAST(ROUND(EXTRACT(EPOCH FROM statement_timestamp()) * 1000) AS BIGINT)"


@compiles(statement_ms, "mysql")
def _(element: statement_ms, compiler: Any, **options: Any) -> str:
    return "CAST(ROUND(UNIX_TIMESTAMP(NOW(3)) * 1000) AS SIGNED)"


@compiles(statement_ms, "sqlite")
def _(element: statement_ms, compiler: Any, **options: Any) -> str:
    return str(compiler.process(sa.bindparam("statement_time", type_=sa.BigInteger), **options))


@compiles(clock_timestamp, "postgresql")
def _(element: clock_timestamp, compiler: Any, **options: Any) -> str:
    return "CAST(clock_timestamp() AS TIMESTAMP)"


@compiles(clock_timestamp, "mysql")
def _(element: clock_timestamp, compiler: Any, **options: Any) -> str:
    return "SYSDATE()"


@compiles(clock_timestamp, "sqlite")
def _(element: clock_timestamp, compiler: Any, **options: Any) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f', 'now')"


@compiles(clock_timestamp_before, "postgresql")
def _(element: clock_timestamp_before, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"CAST(clock_timestamp() - {seconds} * INTERVAL '1 second' AS TIMESTAMP)"


@compiles(clock_timestamp_before, "mysql")
def _(element: clock_timestamp_before, compiler: Any, **options: Any) -> str:
    return f"SYSDATE() - INTERVAL {compiler.process(element.clauses, **options)} SECOND"


@compiles(clock_timestamp_before, "sqlite")
def _(element: clock_timestamp_before, compiler: Any, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || {seconds} || ' seconds')"


_NOW = sa.select(clock_ms())
