"""The statement that a micro-batch becomes: an INSERT, or for an upsert one MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.format.streams import BATCH_VIEW, DELETED
from airflow_hive_acid.sql.parsing.builders import insert_statement, merge_statement, quoted_column

if TYPE_CHECKING:
    from airflow_hive_acid.engine.streams.columns import Reconciled
    from airflow_hive_acid.format.streams import StreamOptions
    from airflow_hive_acid.metastore.catalog import Table


def statement_text(options: StreamOptions, table: Table, found: Reconciled) -> str:
    """The statement that writes a micro-batch.

    :param found: what becomes of its columns.
    """
    partitions = [c.name for c in table.partition_columns]
    filled = [name for name in found.written if name not in partitions]
    # What has no value would be given its DEFAULT: a NULL must be said.
    nulls = [f"NULL AS {quoted_column(name, 'column')}" for name in found.nulls] if options.mode == "append" else []
    last = [*found.written[len(filled) :], *((DELETED,) if options.deletes else ())]
    columns = ", ".join(
        [
            *(quoted_column(name, "column") for name in filled),
            *nulls,
            *(quoted_column(name, "column") for name in last),
        ]
    )
    rows = f"SELECT {columns} FROM {BATCH_VIEW}"  # noqa: S608 - names are quoted
    if options.mode == "append":
        given = {name.lower(): value for name, value in options.partition.items()}
        partition = {name: given.get(name) for name in partitions}
        return insert_statement(table.qualified_name, rows, partition=partition, columns=[*filled, *found.nulls])
    keys = [key.lower() for key in options.keys]
    on = " AND ".join(f"t.{quoted_column(key, 'keys')} = s.{quoted_column(key, 'keys')}" for key in keys)
    changed = {n: f"s.{quoted_column(n, 'column')}" for n in found.written if n not in (*keys, *partitions)}
    values = {n: f"s.{quoted_column(n, 'column')}" for n in found.written} | dict.fromkeys(found.nulls, "NULL")
    clauses: list[Any] = [{"action": "update", "set": changed}] if changed else []
    new: dict[str, Any] = {"action": "insert", "set": values}
    if options.deletes:
        # A row that deletes is looked at by its keys only: where it finds nothing it does nothing.
        clauses.insert(0, {"action": "delete", "condition": f"s.{DELETED}"})
        new["condition"] = f"NOT s.{DELETED}"
    clauses.append(new)
    return merge_statement(table.qualified_name, rows, on, clauses)
