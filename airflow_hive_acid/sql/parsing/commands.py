"""Transactions, SHOW, ABORT, LOAD and TRUNCATE, read word by word."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.sql.model.statements import (
    Abort,
    Begin,
    Commit,
    Load,
    Rollback,
    Show,
    ShowKind,
    Truncate,
)

if TYPE_CHECKING:
    from airflow_hive_acid.sql.parsing.cursor import Cursor

_SHOWN = ("LOCKS", "TRANSACTIONS", "COMPACTIONS", "WAITS", "LEASE", "DATABASES", "TABLES", "VIEWS", "PARTITIONS",
          "CREATE TABLE", "COLUMNS", "TBLPROPERTIES")  # fmt: skip
_COMPACTION_FILTERS = ("POOL", "TYPE", "STATUS", "STATE", "ORDER", "ORDER BY", "LIMIT")


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
        return _show_locks(cursor, origin)
    if cursor.accept("COMPACTIONS"):
        return _show_compactions(cursor, origin)
    if cursor.accept("TRANSACTIONS"):
        cursor.end()
        return Show(ShowKind.TRANSACTIONS, **origin)
    if cursor.accept("WAITS"):
        return _show_waits(cursor, origin)
    said = cursor.word()
    near = difflib.get_close_matches(said, _SHOWN, 1)
    hint = f"did you mean SHOW {near[0]}?" if near else f"supported are SHOW {', SHOW '.join(_SHOWN)}"
    raise cursor.unsupported(f"SHOW {said or '…'} is not supported; {hint}")


def _show_locks(cursor: Cursor, origin: dict[str, Any]) -> Show:
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
        database = cursor.name("a database name")
        extended = cursor.accept("EXTENDED")
        cursor.end()
        return Show(ShowKind.LOCKS, database=database, extended=extended, **origin)
    table = None if cursor.at_end or cursor.at("EXTENDED") else cursor.table_name()
    partition = partition_values(cursor) if table is not None and cursor.at("PARTITION") else ()
    extended = cursor.accept("EXTENDED")
    cursor.end()
    return Show(ShowKind.LOCKS, table, partition, extended=extended, **origin)


def _show_waits(cursor: Cursor, origin: dict[str, Any]) -> Show:
    """All of them, or those for locks in a database or on a table."""
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
        database = cursor.name("a database name")
        cursor.end()
        return Show(ShowKind.WAITS, database=database, **origin)
    table = None if cursor.at_end or cursor.at("LIMIT") else cursor.table_name()
    limit = cursor.number("a number of rows") if cursor.accept("LIMIT") else None
    cursor.end()
    return Show(ShowKind.WAITS, table, limit=limit, **origin)


def _show_compactions(cursor: Cursor, origin: dict[str, Any]) -> Show:
    """Hive's order: COMPACT_ID alone, or DATABASE or a table, PARTITION, POOL, TYPE, STATUS, ORDER BY, LIMIT."""
    if cursor.accept("COMPACT_ID"):
        cursor.accept("=")
        request = cursor.number("the id of a compaction")
        cursor.end()
        return Show(ShowKind.COMPACTIONS, id=request, **origin)
    filters: dict[str, Any] = {}
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
        filters["database"] = cursor.name("a database name")
    elif not cursor.at_end and cursor.word() not in _COMPACTION_FILTERS:
        filters["table"] = cursor.table_name()
        if cursor.at("PARTITION"):
            filters["partition"] = partition_values(cursor)
    for word, name in (("POOL", "pool"), ("TYPE", "type"), ("STATUS", "state"), ("STATE", "state")):
        if cursor.accept(word):
            filters[name] = cursor.string(f"the {name}")
            if name != "pool":
                filters[name] = filters[name].lower()
    if cursor.accept("ORDER", "BY"):
        filters["order"] = _order(cursor)
    if cursor.accept("LIMIT"):
        filters["limit"] = cursor.number("a number of rows")
    cursor.end()
    return Show(ShowKind.COMPACTIONS, **filters, **origin)


def _order(cursor: Cursor) -> tuple[tuple[str, bool], ...]:
    found: list[tuple[str, bool]] = []
    while True:
        name = cursor.column_name()
        descends = cursor.accept("DESC")
        if not descends:
            cursor.accept("ASC")
        found.append((name, descends))
        if not cursor.accept(","):
            return tuple(found)


def parse_abort(cursor: Cursor, origin: dict[str, Any]) -> Abort:
    """Read what follows ABORT."""
    for kind in (ShowKind.TRANSACTIONS, ShowKind.COMPACTIONS):
        if cursor.accept(kind.value.upper()):
            ids: list[int] = []
            while not cursor.at_end:
                ids.append(cursor.number(f"the id of one of the {kind.value}"))
                cursor.accept(",")
            if not ids:
                raise cursor.expected(f"ids of {kind.value}")
            return Abort(kind, tuple(dict.fromkeys(ids)), **origin)
    raise cursor.unsupported(
        f"ABORT {cursor.word() or '…'} is not supported; supported are ABORT TRANSACTIONS id … and ABORT COMPACTIONS "
        "id …"
    )


def parse_load(cursor: Cursor, origin: dict[str, Any]) -> Load:
    """Read what follows LOAD."""
    cursor.expect("DATA")
    cursor.accept("LOCAL")
    cursor.expect("INPATH")
    cursor.string("a path")
    overwrite = cursor.accept("OVERWRITE")
    cursor.expect("INTO")
    cursor.expect("TABLE")
    table = cursor.table_name()
    partition = partition_values(cursor) if cursor.at("PARTITION") else ()
    cursor.until()
    return Load(table, overwrite, partition, **origin)


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


def names_of_properties(cursor: Cursor) -> tuple[str, ...]:
    """Read ``('key', …)``."""
    cursor.expect("(")
    names = [cursor.string("a property name")]
    while cursor.accept(","):
        names.append(cursor.string("a property name"))
    cursor.expect(")")
    return tuple(dict.fromkeys(names))


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
