"""Insert and delete events: the header columns that make a row an ACID row.

``bucket`` and ``rowId`` of inserted rows come from the task that writes them, so the projection that makes them must
be the last before the write: no exchange may come between it and the file, and nothing may reorder the rows.
A repeated or speculative task numbers its rows again from zero and needs nothing from its twin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from airflow_hive_acid.format.buckets import encode_bucket
from airflow_hive_acid.spark import schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column
    from pyspark.sql import types as T

_ROW_NUMBER_MASK = (1 << 33) - 1


def task_bucket(statement_id: int, offset: int = 0) -> Column:
    """The ``bucket`` value of rows that this task writes into ``part-N``: bucket N + offset, N its own number."""
    number = F.spark_partition_id() + F.lit(offset) if offset else F.spark_partition_id()
    return F.lit(encode_bucket(0, statement_id)).bitwiseOR(F.shiftleft(number, 16))


def task_row_number() -> Column:
    """0, 1, 2 … within a task; gaps are allowed by the format, repetitions are not."""
    return F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_NUMBER_MASK))


def insert_event(
    names: Sequence[str],
    write_id: int,
    statement_id: int,
    *,
    row_number: Column | None = None,
    bucket_offset: int = 0,
) -> list[Column]:
    """Six columns that insert the columns ``names`` of the current row."""
    return [
        F.lit(schema.INSERTED).alias(schema.OPERATION),
        _write_id(write_id).alias(schema.ORIGINAL_WRITE_ID),
        task_bucket(statement_id, bucket_offset).alias(schema.BUCKET),
        (task_row_number() if row_number is None else row_number).alias(schema.ROW_NUMBER),
        _write_id(write_id).alias(schema.CURRENT_WRITE_ID),
        F.struct(*[F.col(f"`{name}`") for name in names]).alias(schema.ROW),
    ]


def delete_event(identity: Sequence[Column], write_id: int, row: T.StructType) -> list[Column]:
    """Six columns that delete the row with this identity (write id, bucket value, row number); ``row`` is NULL."""
    original, bucket, number = identity
    return [
        F.lit(schema.DELETED).alias(schema.OPERATION),
        original.alias(schema.ORIGINAL_WRITE_ID),
        bucket.alias(schema.BUCKET),
        number.alias(schema.ROW_NUMBER),
        _write_id(write_id).alias(schema.CURRENT_WRITE_ID),
        F.lit(None).cast(row).alias(schema.ROW),
    ]


def _write_id(write_id: int) -> Column:
    return F.lit(write_id).cast("long")
