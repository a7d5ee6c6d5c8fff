"""Rows through a cursor of the server, in pieces of :data:`PAGE`: memory does not grow with their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa
    from sqlalchemy.engine import Connection

PAGE = 1000
"""Rows fetched at once."""


def stream_rows(connection: Connection, statement: sa.Select[Any], limit: int | None) -> Iterator[Any]:
    """What a statement finds, :data:`PAGE` rows at a time.

    :raises InvalidArgumentsError: for a limit below 0.
    """
    if limit is not None:
        if limit < 0:
            raise InvalidArgumentsError(f"LIMIT {limit} asks for less than nothing; give 0 or more")
        statement = statement.limit(limit)
    return iter(connection.execute(statement, execution_options={"yield_per": PAGE}))
