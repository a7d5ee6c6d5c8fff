"""count(*) of a table from its footers, where no row has to be looked at.

The optional jar does this inside of any query. Without it Spark's own source would have to decode six columns, so a
statement that asks for nothing but the number of rows is answered here, from the driver.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_hive_acid.spark import schema
from airflow_hive_acid.spark.hadoop import HadoopFilesystem, in_threads
from airflow_hive_acid.spark.read.reader import open_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

    from airflow_hive_acid.format.jobs import TableSnapshot, View

_INSERTS_ONLY = (schema.INSERTED, schema.INSERTED)
_AS = r"(?:\s+(?:as\s+)?(?:`(\w+)`|(\w+)))?"
_COUNT = re.compile(rf"\s*select\s+count\s*\(\s*(?:\*|1)\s*\){_AS}\s+from\s+`?(\w+)`?{_AS}\s*", re.IGNORECASE)


def live_rows(spark: SparkSession, snapshot: TableSnapshot) -> int | None:
    """How many rows a snapshot sees, from the footers of its files.

    :return: None when they do not tell: delete events may hit rows, or some write ids are not seen.
    :raises CorruptTableError: when a footer cannot be read.
    """
    if not snapshot.has_row_ids:
        return None
    table = open_table(spark, snapshot)
    files = table.files
    if files.filtered or (files.originals and files.deletes):
        return None
    fs = HadoopFilesystem.of(spark)
    counts = in_threads(fs.footers.orc_events, [f.uri for f in files.clean])
    if any(c.rows and (c.min_operation, c.max_operation) != _INSERTS_ONLY for c in counts):
        return None  # the scan says what is wrong
    return sum(c.rows for c in counts) + sum(in_threads(fs.footers.orc_rows, [f.uri for f in files.originals]))


def counted(spark: SparkSession, query: str, views: Iterable[View]) -> DataFrame | None:
    """The result of a query that only counts the rows of one view, from footers; None for every other query."""
    match = _COUNT.fullmatch(query)
    if match is None:
        return None
    view = next((v for v in views if v.name.lower() == match[3].lower()), None)
    if view is None or view.shows_deleted_rows or view.changes is not None:
        return None
    rows = live_rows(spark, view.snapshot)
    if rows is None:
        return None
    return spark.range(1).selectExpr(f"{rows}L as {schema.quoted(match[1] or match[2] or 'count(1)')}")
