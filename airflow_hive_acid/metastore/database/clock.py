"""The database's clock, as SQL expressions that each backend spells in its own way.

All times in the metastore are the database's: milliseconds since 1970, or (CTC_TIMESTAMP) a database timestamp that
is compared only inside the database. R3: the expression is the time *now*, not the start of the transaction, so that
what is decided after a lock wait is decided by the clock of that moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
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

    Where there is no such clock the value is bound, see :func:`statement_time`.
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


def statement_time(connection: Connection) -> dict[str, int]:
    """Parameters that a statement with ``statement_ms`` needs."""
    return {} if backend_of(connection).statement_clock else {"statement_time": now_ms(connection)}


_NOW = sa.select(clock_ms())
