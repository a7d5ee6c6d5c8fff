"""CONCATENATE of a plain ORC table: its small files become few, by an INSERT OVERWRITE of its own rows.

Hive merges stripes without decoding them; here Spark reads the files and writes them anew, as many as it has tasks for
them, under CONCATENATE's exclusive lock. A transactional table is compacted instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.format.partitions import DEFAULT_PARTITION
from airflow_hive_acid.metastore.names import as_stored
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.statements import Insert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.model.alterations import Concatenate

_DIALECT = "hive"


def rewriting(context: Context, statement: Concatenate) -> Insert:
    """The statement that does a CONCATENATE of a table without transactions.

    :raises UnsupportedStatementError: for a table that Hive does not concatenate either, in its words.
    :raises InvalidArgumentsError: when no partition of a partitioned table is named, or one that is none.
    """
    table = context.table(str(statement.table))
    context.locking.require([table])
    _check(table)
    given = {name.lower(): value for name, value in statement.partition}
    if table.is_partitioned:
        if not given:
            raise InvalidArgumentsError(
                f"source table {table.qualified_name} is partitioned but no partition is named; say ALTER TABLE … "
                "PARTITION (…) CONCATENATE, once for each partition"
            )
        context.client.catalog.get_partition(table.qualified_name, given)
        _require_alone(context, table, given)
    elif given:
        raise InvalidArgumentsError(f"{table.qualified_name} has no partitions; leave PARTITION (…) out")
    source = exp.table_(table.name, db=table.db, quoted=True)
    rows = exp.select(*(exp.column(c.name, quoted=True) for c in table.columns)).from_(source)
    rows = rows.where(*(_is(exp.column(c.name, quoted=True), given[c.name]) for c in table.partition_columns))
    keys = [
        exp.EQ(this=exp.to_identifier(c.name, quoted=True), expression=exp.Literal.string(given[c.name]))
        for c in table.partition_columns
    ]
    insert = exp.Insert(
        this=source, expression=rows, overwrite=True, partition=exp.Partition(expressions=keys) if keys else None
    )
    (made,) = parse_script(insert.sql(dialect=_DIALECT))
    if not isinstance(made, Insert):
        raise AssertionError(f"{made.text} is no INSERT")
    return made


def _require_alone(context: Context, table: Table, given: dict[str, str]) -> None:
    """Refuse what would be read by its value and written under another name: both would have the rows."""
    kinds = [column.type for column in table.partition_columns]
    wanted = [as_stored(c.type, given[c.name]) or DEFAULT_PARTITION for c in table.partition_columns]

    def is_meant(values: Sequence[str]) -> bool:
        return [as_stored(kind, value) for kind, value in zip(kinds, values, strict=True)] == wanted

    written = table.partition_name(given)
    found = context.client.catalog.list_partitions(table.qualified_name, keeps=is_meant)
    others = [partition.name for partition in found if partition.name != written]
    if others:
        raise InvalidArgumentsError(
            f"CONCATENATE of {table.qualified_name}: the rows of {' and '.join(map(repr, others))} would be written to "
            f"{written!r}, which is how a Hive writes the value, and stay where they are as well. Give it that name "
            "first, or drop it: ALTER TABLE … PARTITION … RENAME TO PARTITION …"
        )


def _check(table: Table) -> None:
    name = table.qualified_name
    if table.format != "orc":
        raise UnsupportedStatementError(
            f"Concatenate/Merge only supported for RCFile and ORCFile formats, and RCFile is none of ours; {name} is "
            f"stored as {table.format or table.input_format}. INSERT OVERWRITE it by its own rows"
        )
    if table.bucket_columns:
        raise UnsupportedStatementError(
            f"Concatenate/Merge can not be performed on bucketized table {name}: each of its files is a bucket"
        )
    if not table.owns_files:
        raise UnsupportedStatementError(
            f"Concatenate/Merge can only be performed on managed tables; the files of {name} belong to somebody else"
        )


def _is(column: exp.Column, value: str) -> exp.Expr:
    if value == DEFAULT_PARTITION:
        return exp.Is(this=column, expression=exp.Null())
    return exp.EQ(this=column, expression=exp.Literal.string(value))
