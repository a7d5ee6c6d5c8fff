"""The HiveLease document's SQL: SHOW LEASE and DROP FORCE LEASE.

``*`` stands for all leases, as the document writes it; a table, or a partition of one, for those on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.sql.model.statements import DropForceLease, ShowLease, TableName
from airflow_hive_acid.sql.parsing.commands import partition_values

if TYPE_CHECKING:
    from airflow_hive_acid.sql.parsing.cursor import Cursor


def parse_show_lease(cursor: Cursor, origin: dict[str, Any]) -> ShowLease:
    """Read what follows SHOW LEASE; nothing at all means ``*``."""
    if cursor.at_end or cursor.accept("*"):
        cursor.end()
        return ShowLease(**origin)
    table, partition = _place(cursor)
    cursor.end()
    return ShowLease(table, partition, **origin)


def parse_drop_force_lease(cursor: Cursor, origin: dict[str, Any]) -> DropForceLease:
    """Read what follows DROP FORCE; without ``*`` a table must be named, so that nobody drops all by omission."""
    cursor.expect("LEASE")
    table, partition = (None, ()) if cursor.accept("*") else _place(cursor)
    why = cursor.string("the reason") if cursor.accept("COMMENT") else None
    if why is not None and not why.strip():
        raise cursor.error("the reason is empty", cursor.tokens[cursor.position - 1])
    cursor.end()
    return DropForceLease(table, partition, why, **origin)


def _place(cursor: Cursor) -> tuple[TableName, tuple[tuple[str, str], ...]]:
    table = cursor.table_name()
    return table, partition_values(cursor) if cursor.at("PARTITION") else ()
