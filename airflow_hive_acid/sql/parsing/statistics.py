"""ANALYZE TABLE, word by word: Hive's spelling, and Spark's FOR ALL COLUMNS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.sql.model.statistics import Analyze

if TYPE_CHECKING:
    from airflow_hive_acid.sql.parsing.cursor import Cursor


def parse_analyze(cursor: Cursor, origin: dict[str, Any]) -> Analyze:
    """Read what follows ANALYZE."""
    if cursor.at("TABLES"):
        raise cursor.unsupported("ANALYZE TABLES is not supported; ANALYZE TABLE one after the other")
    cursor.expect("TABLE")
    table = cursor.table_name()
    partition = _partition(cursor) if cursor.at("PARTITION") else ()
    cursor.expect("COMPUTE", "STATISTICS")
    scans = True
    columns: tuple[str, ...] | None = None
    if cursor.accept("NOSCAN"):
        scans = False
    elif cursor.accept("FOR", "ALL", "COLUMNS"):
        columns = ()
    elif cursor.accept("FOR", "COLUMNS"):
        columns = () if cursor.at_end else _columns(cursor)
    cursor.end()
    return Analyze(table, partition, columns, scans, **origin)


def _columns(cursor: Cursor) -> tuple[str, ...]:
    if cursor.at("("):
        return cursor.names_in_parentheses()
    names = [cursor.column_name()]
    while cursor.accept(","):
        names.append(cursor.column_name())
    return tuple(dict.fromkeys(names))


def _partition(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    """``PARTITION (a = 1, b)``: without a value every one is meant."""
    cursor.expect("PARTITION", "(")
    given: dict[str, str | None] = {}
    while True:
        name = cursor.column_name("a partition column")
        if name in given:
            raise cursor.error(f"partition column {name} is given twice", cursor.tokens[cursor.position - 1])
        given[name] = cursor.value("a value") if cursor.accept("=") else None
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(given.items())
