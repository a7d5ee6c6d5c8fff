"""Transactions, SHOW and compaction requests, read word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.format.buckets import MAX_BUCKET
from airflow_hive_acid.sql.statements import (
    AlterProperties,
    Begin,
    Commit,
    Compact,
    Rollback,
    Show,
    ShowKind,
    Truncate,
)

if TYPE_CHECKING:
    from airflow_hive_acid.sql.cursor import Cursor

_COMPACTION_TYPES = ("major", "minor", "rebalance")


def parse_transaction(cursor: Cursor, origin: dict[str, Any]) -> Begin | Commit | Rollback:
    """Read BEGIN, START TRANSACTION, COMMIT or ROLLBACK."""
    statement: Begin | Commit | Rollback
    if cursor.accept("START"):
        cursor.expect("TRANSACTION")
        statement = Begin(**origin)
    elif cursor.accept("BEGIN"):
        _ = cursor.accept("TRANSACTION") or cursor.accept("WORK")
        statement = Begin(**origin)
    elif cursor.accept("COMMIT"):
        cursor.accept("WORK")
        statement = Commit(**origin)
    else:
        cursor.expect("ROLLBACK")
        cursor.accept("WORK")
        statement = Rollback(**origin)
    cursor.end()
    return statement


def parse_show(cursor: Cursor, origin: dict[str, Any]) -> Show:
    """Read what follows SHOW."""
    if cursor.accept("LOCKS"):
        if cursor.at("DATABASE") or cursor.at("SCHEMA"):
            raise cursor.unsupported("SHOW LOCKS DATABASE is not supported; SHOW LOCKS lists all of them")
        table = None if cursor.at_end or cursor.at("EXTENDED") else cursor.table_name()
        partition = partition_values(cursor) if table is not None and cursor.at("PARTITION") else ()
        cursor.accept("EXTENDED")
        cursor.end()
        return Show(ShowKind.LOCKS, table, partition, **origin)
    for kind in (ShowKind.TRANSACTIONS, ShowKind.COMPACTIONS):
        if cursor.accept(kind.value.upper()):
            cursor.end()
            return Show(kind, **origin)
    raise cursor.unsupported(
        f"SHOW {cursor.word() or '…'} is not supported; supported are SHOW LOCKS, SHOW TRANSACTIONS, SHOW COMPACTIONS"
    )


def parse_alter(cursor: Cursor, origin: dict[str, Any]) -> Compact | AlterProperties:
    """Read what follows ALTER."""
    if not cursor.accept("TABLE"):
        raise cursor.unsupported(
            f"ALTER {cursor.word() or '…'} is not supported; supported is ALTER TABLE … COMPACT 'major'"
        )
    table = cursor.table_name()
    if cursor.accept("SET", "TBLPROPERTIES"):
        properties = properties_in_parentheses(cursor)
        cursor.end()
        return AlterProperties(table, properties, **origin)
    partition = partition_values(cursor) if cursor.at("PARTITION") else ()
    if not cursor.accept("COMPACT"):
        raise cursor.unsupported(
            f"ALTER TABLE … {cursor.word() or '…'} is not supported; supported is ALTER TABLE … COMPACT 'major'|'minor'"
            "|'rebalance' and SET TBLPROPERTIES"
        )
    kind = cursor.string("'major', 'minor' or 'rebalance'").lower()
    if kind not in _COMPACTION_TYPES:
        cursor.position -= 1
        raise cursor.unsupported(f"COMPACT '{kind}' is not supported; supported are 'major', 'minor', 'rebalance'")
    buckets = _rebalance_buckets(cursor) if kind == "rebalance" and cursor.at("CLUSTERED") else None
    wait = cursor.accept("AND", "WAIT")
    for words in (("CLUSTERED",), ("POOL",), ("WITH",), *(() if kind == "rebalance" else (("ORDER", "BY"),))):
        if cursor.at(*words):
            raise cursor.unsupported(f"{words[0]} is not supported with COMPACT '{kind}'; leave it out")
    order_by = _rebalance_order(cursor) if cursor.at("ORDER", "BY") else None
    cursor.end()
    return Compact(table, kind, partition, wait, buckets, order_by, **origin)


def _rebalance_buckets(cursor: Cursor) -> int:
    cursor.expect("CLUSTERED")
    cursor.expect("INTO")
    token = cursor.next("a number of buckets")
    cursor.position -= 1
    count = cursor.number("a number of buckets")
    if not 1 <= count <= MAX_BUCKET + 1:
        raise cursor.error(f"a rebalance makes 1 to {MAX_BUCKET + 1} buckets, not {count}", token)
    cursor.expect("BUCKETS")
    return count


def _rebalance_order(cursor: Cursor) -> str:
    """The text from ORDER BY on, which is kept in the queue as Hive keeps it."""
    begin = cursor.tokens[cursor.position].start
    cursor.expect("ORDER", "BY")
    if cursor.at_end:
        raise cursor.expected("what to order by")
    end = cursor.tokens[-1].end
    cursor.position = len(cursor.tokens)
    return cursor.source.text[begin : end + 1]


def parse_truncate(cursor: Cursor, origin: dict[str, Any]) -> Truncate:
    """Read what follows TRUNCATE."""
    cursor.accept("TABLE")
    table = cursor.table_name()
    partition = partition_values(cursor) if cursor.at("PARTITION") else ()
    if cursor.at("COLUMNS"):
        raise cursor.unsupported("TRUNCATE … COLUMNS is not supported; UPDATE sets columns to NULL")
    cursor.accept("FORCE")
    cursor.end()
    return Truncate(table, partition, **origin)


def properties_in_parentheses(cursor: Cursor) -> dict[str, str]:
    """Read ``('key'='value', …)``."""
    cursor.expect("(")
    properties: dict[str, str] = {}
    while True:
        key = cursor.string("a property name")
        cursor.expect("=")
        properties[key] = cursor.string("a property value")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return properties


def partition_values(cursor: Cursor) -> tuple[tuple[str, str], ...]:
    """Read ``PARTITION (column = value, …)``: every column with its value."""
    cursor.expect("PARTITION")
    cursor.expect("(")
    values: list[tuple[str, str]] = []
    while True:
        name = cursor.column_name("a partition column")
        if any(name == known for known, _ in values):
            raise cursor.error(f"partition column {name} is given twice", cursor.tokens[cursor.position - 1])
        cursor.expect("=")
        values.append((name, cursor.value("a value")))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(values)
