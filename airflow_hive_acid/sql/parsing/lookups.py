"""SHOW DATABASES, TABLES, VIEWS, PARTITIONS, CREATE TABLE, COLUMNS and TBLPROPERTIES, and DESCRIBE, word by word.

Hive's spellings and Spark's: FROM and IN, SCHEMAS for DATABASES, DESC for DESCRIBE, a pattern with or without LIKE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.sql.model.lookups import (
    Describe,
    DescribeDatabase,
    Detail,
    Listed,
    ShowCreateTable,
    ShowNames,
    ShowPartitions,
    ShowProperties,
)
from airflow_hive_acid.sql.parsing.commands import partition_values
from airflow_hive_acid.sql.parsing.dml import parse_expression

if TYPE_CHECKING:
    from airflow_hive_acid.sql.model.lookups import Lookup
    from airflow_hive_acid.sql.parsing.cursor import Cursor

REFUSED = {
    "FUNCTIONS": "the functions are Spark's: https://spark.apache.org/docs/latest/api/sql/",
    "GRANT": "access is a matter of the warehouse's filesystem and the metastore database",
    "INDEX": "Hive has no indexes any more",
    "INDEXES": "Hive has no indexes any more",
    "MATERIALIZED VIEWS": "a Hive rewrites with them; SHOW TABLES lists them",
    "ROLES": "access is a matter of the warehouse's filesystem and the metastore database",
    "TABLE EXTENDED": "DESCRIBE FORMATTED a table, or SHOW TABLES LIKE 'pattern'",
    "CREATE DATABASE": "DESCRIBE DATABASE EXTENDED",
}


def parse_lookup(cursor: Cursor, origin: dict[str, Any]) -> Lookup | None:
    """Read what follows SHOW, if it is a look at the catalog; None when it is something else."""
    if cursor.accept("DATABASES") or cursor.accept("SCHEMAS") or cursor.accept("NAMESPACES"):
        return ShowNames(Listed.DATABASES, pattern=_pattern_at_end(cursor), **origin)
    for listed in (Listed.TABLES, Listed.VIEWS):
        if cursor.accept(listed.value):
            database = _database(cursor) or cursor.default_database
            return ShowNames(listed, database, pattern=_pattern_at_end(cursor), **origin)
    if cursor.accept("COLUMNS"):
        return _show_columns(cursor, origin)
    if cursor.accept("PARTITIONS"):
        return _show_partitions(cursor, origin)
    if cursor.accept("CREATE", "TABLE") or cursor.accept("CREATE", "VIEW"):
        table = cursor.table_name()
        cursor.accept("AS", "SERDE")
        cursor.end()
        return ShowCreateTable(table, **origin)
    if cursor.accept("TBLPROPERTIES"):
        return _show_properties(cursor, origin)
    for words, remedy in REFUSED.items():
        if cursor.at(*words.split()):
            raise cursor.unsupported(f"SHOW {words} is not supported; {remedy}")
    return None


def parse_describe(cursor: Cursor, origin: dict[str, Any]) -> Lookup:
    """Read what follows DESCRIBE or DESC."""
    if cursor.accept("FUNCTION"):
        raise cursor.unsupported(f"DESCRIBE FUNCTION is not supported; {REFUSED['FUNCTIONS']}")
    if cursor.word() in ("DATABASE", "SCHEMA", "NAMESPACE") and cursor.word(1) not in ("", "."):
        cursor.position += 1
        extended = cursor.accept("EXTENDED")
        database = cursor.name("a database name")
        cursor.end()
        return DescribeDatabase(database, extended, **origin)
    cursor.accept("TABLE")
    detail = Detail.PLAIN
    for more in (Detail.EXTENDED, Detail.FORMATTED):
        # A table may have that name.
        if cursor.at(more.name) and cursor.word(1) not in ("", ".", "PARTITION"):
            cursor.position += 1
            detail = more
    table = cursor.table_name()
    partition = partition_values(cursor) if cursor.at("PARTITION") else ()
    column = None if cursor.at_end else cursor.column_name()
    if column is not None and cursor.at("."):
        raise cursor.unsupported("a field of a column has no description of its own; the column's type shows it")
    if not partition and cursor.at("PARTITION"):
        partition = partition_values(cursor)
    cursor.end()
    return Describe(table, column, partition, detail, **origin)


def _show_columns(cursor: Cursor, origin: dict[str, Any]) -> ShowNames:
    if not (cursor.accept("IN") or cursor.accept("FROM")):
        raise cursor.expected("IN or FROM, and a table")
    table = cursor.table_name()
    database = _database(cursor)
    if database is not None:
        table = type(table)(database, table.name)
    return ShowNames(Listed.COLUMNS, table=table, pattern=_pattern_at_end(cursor), **origin)


def _show_partitions(cursor: Cursor, origin: dict[str, Any]) -> ShowPartitions:
    table = cursor.table_name()
    values = partition_values(cursor) if cursor.at("PARTITION") else ()
    where = parse_expression(cursor, cursor.until("ORDER", "ORDER BY", "LIMIT")) if cursor.accept("WHERE") else None
    if cursor.at("ORDER"):
        raise cursor.unsupported("SHOW PARTITIONS … ORDER BY is not supported; they come in the order of their names")
    limit = cursor.number("a number of rows") if cursor.accept("LIMIT") else None
    cursor.end()
    return ShowPartitions(table, values, where, limit, **origin)


def _show_properties(cursor: Cursor, origin: dict[str, Any]) -> ShowProperties:
    table = cursor.table_name()
    key = None
    if cursor.accept("("):
        key = cursor.string("a property name")
        cursor.expect(")")
    cursor.end()
    return ShowProperties(table, key, **origin)


def _database(cursor: Cursor) -> str | None:
    return cursor.name("a database name") if cursor.accept("IN") or cursor.accept("FROM") else None


def _pattern_at_end(cursor: Cursor) -> str | None:
    pattern = cursor.string("a pattern") if cursor.accept("LIKE") or not cursor.at_end else None
    cursor.end()
    return pattern
