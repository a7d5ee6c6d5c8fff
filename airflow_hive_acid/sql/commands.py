"""Transactions, SHOW and compaction requests, read word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.sql.statements import Begin, Commit, Compact, Rollback, Show, ShowKind, Truncate

if TYPE_CHECKING:
    from airflow_hive_acid.sql.cursor import Cursor

_COMPACTION_TYPES = ("major", "minor")


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


def parse_alter(cursor: Cursor, origin: dict[str, Any]) -> Compact:
    """Read what follows ALTER."""
    if not cursor.accept("TABLE"):
        raise cursor.unsupported(
            f"ALTER {cursor.word() or '…'} is not supported; supported is ALTER TABLE … COMPACT 'major'"
        )
    table = cursor.table_name()
    partition = partition_values(cursor) if cursor.at("PARTITION") else ()
    if not cursor.accept("COMPACT"):
        raise cursor.unsupported(
            f"ALTER TABLE … {cursor.word() or '…'} is not supported; supported is ALTER TABLE … COMPACT 'major'|'minor'"
        )
    kind = cursor.string("'major' or 'minor'").lower()
    if kind not in _COMPACTION_TYPES:
        cursor.position -= 1
        raise cursor.unsupported(f"COMPACT '{kind}' is not supported; supported are 'major' and 'minor'")
    wait = cursor.accept("AND", "WAIT")
    for words in (("CLUSTERED",), ("ORDER",), ("POOL",), ("WITH",)):
        if cursor.at(*words):
            raise cursor.unsupported(f"{words[0]} is not supported with COMPACT; leave it out")
    cursor.end()
    return Compact(table, kind, partition, wait, **origin)


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
