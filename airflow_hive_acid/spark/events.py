"""Insert and delete events: the header columns that make a row an ACID row.

``bucket`` and ``rowId`` of inserted rows come from the task that writes them, so the projection that makes them must
be the last before the write: no exchange may come between it and the file, and nothing may reorder the rows.
A repeated or speculative task numbers its rows again from zero and needs nothing from its twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.format.buckets import encode_bucket
from airflow_hive_acid.spark import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import types as T

_ROW_NUMBER_MASK = (1 << 33) - 1


def task_bucket(statement_id: int, offset: int = 0) -> str:
    """The ``bucket`` value of rows that this task writes into ``part-N``: bucket N + offset, N its own number."""
    return f"{encode_bucket(0, statement_id)} | shiftleft(spark_partition_id() + {offset}, 16)"


def task_row_number() -> str:
    """0, 1, 2 … within a task; gaps are allowed by the format, repetitions are not."""
    return f"monotonically_increasing_id() & {_ROW_NUMBER_MASK}L"


def insert_event(
    row: str, write_id: int, statement_id: int, *, row_number: str | None = None, bucket_offset: int = 0
) -> list[str]:
    """Six columns that insert ``row``, a struct of the data columns."""
    return [
        f"{schema.INSERTED} as operation",
        f"{write_id}L as originalTransaction",
        f"{task_bucket(statement_id, bucket_offset)} as bucket",
        f"{row_number or task_row_number()} as rowId",
        f"{write_id}L as currentTransaction",
        f"{row} as row",
    ]


def delete_event(identity: Sequence[str], write_id: int, row: T.StructType) -> list[str]:
    """Six columns that delete the row with this identity (write id, bucket value, row number); ``row`` is NULL."""
    original, bucket, number = identity
    return [
        f"{schema.DELETED} as operation",
        f"{original} as originalTransaction",
        f"{bucket} as bucket",
        f"{number} as rowId",
        f"{write_id}L as currentTransaction",
        f"cast(null as {schema.sql_type(row)}) as row",
    ]


def row_of(values: Iterable[tuple[str, str]]) -> str:
    """The ``row`` struct of ``(column, expression)`` pairs."""
    return f"struct({', '.join(f'{value} as {schema.quoted(name)}' for name, value in values)})"
