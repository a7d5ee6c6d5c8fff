"""CREATE and DROP, read word by word: databases, tables, temporary views over files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column, Source
from airflow_hive_acid.metastore.catalog import KEYWORDS, normalise_type
from airflow_hive_acid.sql.model.statements import (
    ColumnDefinition,
    CreateDatabase,
    CreateTable,
    CreateTemporaryView,
    DropDatabase,
    DropTable,
)
from airflow_hive_acid.sql.model.transfers import DropTableForReplication
from airflow_hive_acid.sql.parsing import dml
from airflow_hive_acid.sql.parsing.commands import properties_in_parentheses
from airflow_hive_acid.sql.parsing.replication import event_of_drop

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.sql.model.statements import Fragment
    from airflow_hive_acid.sql.parsing.cursor import Cursor

SOURCE_FORMATS = ("csv", "orc", "parquet", "json")
_OPENING, _CLOSING = "(<", ")>"
_AFTER_A_TYPE = (
    ",", ")", "COMMENT", "NOT", "DEFAULT", "PRIMARY", "UNIQUE", "CHECK", "CASCADE", "RESTRICT", "FIRST", "AFTER",
)  # fmt: skip


def parse_create(cursor: Cursor, origin: dict[str, Any]) -> CreateDatabase | CreateTable | CreateTemporaryView:
    """Read what follows CREATE."""
    start = cursor.position
    replace = cursor.accept("OR", "REPLACE")
    if cursor.accept("TEMPORARY", "VIEW") or cursor.accept("TEMP", "VIEW"):
        return _create_temporary_view(cursor, replace, origin)
    if replace:
        cursor.position = start
        raise cursor.unsupported("OR REPLACE is supported for TEMPORARY VIEW … USING only; DROP and CREATE instead")
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
        return _create_database(cursor, origin)
    external = cursor.accept("EXTERNAL")
    if cursor.accept("TABLE"):
        return _create_table(cursor, external, origin)
    raise cursor.unsupported(
        f"CREATE {cursor.word() or '…'} is not supported; supported are CREATE DATABASE, CREATE TABLE and "
        "CREATE TEMPORARY VIEW … USING"
    )


def parse_drop(cursor: Cursor, origin: dict[str, Any]) -> DropDatabase | DropTable | DropTableForReplication:
    """Read what follows DROP."""
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
        if_exists = cursor.accept("IF", "EXISTS")
        name = cursor.name("a database name")
        cascade = cursor.accept("CASCADE")
        if not cascade:
            cursor.accept("RESTRICT")
        cursor.end()
        return DropDatabase(name, if_exists, cascade, **origin)
    if cursor.accept("TABLE"):
        if_exists = cursor.accept("IF", "EXISTS")
        table = cursor.table_name()
        purge = cursor.accept("PURGE")
        event_id = None if purge else event_of_drop(cursor)
        cursor.end()
        if event_id is not None:
            return DropTableForReplication(table, event_id, if_exists, **origin)
        return DropTable(table, if_exists, purge, **origin)
    raise cursor.unsupported(
        f"DROP {cursor.word() or '…'} is not supported; supported are DROP TABLE and DROP DATABASE "
        "(temporary views end with their session)"
    )


def _create_database(cursor: Cursor, origin: dict[str, Any]) -> CreateDatabase:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("a database name")
    clauses = _Clauses(cursor)
    while not cursor.at_end:
        if clauses.once("COMMENT"):
            clauses.values["comment"] = cursor.string("a comment")
        elif clauses.once("LOCATION"):
            clauses.values["location"] = cursor.string("a location")
        elif clauses.once("WITH", "DBPROPERTIES"):
            clauses.values["properties"] = properties_in_parentheses(cursor)
        elif cursor.at("MANAGEDLOCATION"):
            raise cursor.unsupported("MANAGEDLOCATION is not supported; LOCATION sets both")
        else:
            cursor.end()
    return CreateDatabase(name, if_not_exists, **clauses.values, **origin)


def _create_table(cursor: Cursor, external: bool, origin: dict[str, Any]) -> CreateTable:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    table = cursor.table_name()
    if cursor.at("LIKE"):
        raise _no_create_like(cursor)
    # CREATE TABLE … AS takes its columns from the query.
    columns = column_definitions(cursor) if cursor.at("(") or not _leads_to_a_query(cursor) else ()
    clauses = _Clauses(cursor)
    while not (cursor.at_end or cursor.at("AS")):
        for words, name, read in _TABLE_CLAUSES:
            if clauses.once(*words):
                clauses.values[name] = read(cursor)
                break
        else:
            if clauses.once("CLUSTERED", "BY"):
                clauses.values.update(_clustered_by(cursor))
            else:
                raise _bad_table_clause(cursor)
    if cursor.at("AS"):
        clauses.values["query"] = _as_query(cursor, columns, external, clauses.values)
    return CreateTable(table, columns, if_not_exists=if_not_exists, external=external, **clauses.values, **origin)


def _leads_to_a_query(cursor: Cursor) -> bool:
    start = cursor.position
    cursor.until("AS")
    while cursor.at("AS") and cursor.word(1) not in ("SELECT", "WITH", "VALUES", "FROM", "("):
        cursor.position += 1
        cursor.until("AS")
    found = not cursor.at_end
    cursor.position = start
    return found


def _as_query(
    cursor: Cursor, columns: tuple[ColumnDefinition, ...], external: bool, clauses: dict[str, Any]
) -> Fragment:
    """Read ``AS SELECT …``; what cannot stand beside it is refused in Hive's way."""
    if columns:
        raise cursor.error("CREATE TABLE … AS takes its columns from the query; leave the list out")
    for name in ("partition_columns", "bucket_columns"):
        if clauses.get(name):
            raise cursor.unsupported(
                "CREATE TABLE … AS makes tables without partitions and buckets; CREATE TABLE, then INSERT INTO … SELECT"
            )
    if external:
        raise cursor.unsupported("CREATE EXTERNAL TABLE … AS is not supported; CREATE TABLE, then INSERT INTO … SELECT")
    cursor.expect("AS")
    return dml.read_query(cursor)


def _bad_table_clause(cursor: Cursor) -> Exception:
    if cursor.at("LIKE"):
        return _no_create_like(cursor)
    for words, remedy in (
        (("ROW", "FORMAT"), "text tables have Hive's default delimiters; other files: CREATE TEMPORARY VIEW … USING"),
        (("SKEWED",), "leave it out"),
        (("STORED", "BY"), "tables are stored as ORC"),
        (("SORTED", "BY"), "it follows the columns of CLUSTERED BY"),
    ):
        if cursor.at(*words):
            return cursor.unsupported(f"{' '.join(words)} is not supported: {remedy}")
    return cursor.expected("a clause of CREATE TABLE")


def _no_create_like(cursor: Cursor) -> Exception:
    return cursor.unsupported("CREATE TABLE … LIKE is not supported; CREATE TABLE with its columns")


def stored_as(cursor: Cursor) -> str:
    """Read a file format; the name by which job specs call it."""
    token = cursor.next("a file format")
    stored = KEYWORDS.get(token.text.upper())
    if stored is None:
        raise cursor.unsupported(
            f"STORED AS {token.text.upper()} is not supported; full ACID tables are STORED AS ORC, insert-only and "
            "plain ones may also be STORED AS PARQUET or TEXTFILE",
            token,
        )
    return stored.name


def _clustered_by(cursor: Cursor) -> dict[str, Any]:
    columns = cursor.names_in_parentheses()
    order = _sorted_by(cursor) if cursor.accept("SORTED") else ()
    cursor.expect("INTO")
    token = cursor.next("a number of buckets")
    cursor.position -= 1
    count = cursor.number("a number of buckets")
    if not 1 <= count <= 4096:
        raise cursor.error(f"a table has 1 to 4096 buckets, not {count}", token)
    cursor.expect("BUCKETS")
    return {"bucket_columns": columns, "bucket_count": count, "sort_columns": order}


def _sorted_by(cursor: Cursor) -> tuple[tuple[str, bool], ...]:
    """Columns, and whether ascending; NULLs come first in that order, as Hive has it in buckets."""
    cursor.expect("BY")
    cursor.expect("(")
    order: list[tuple[str, bool]] = []
    while True:
        name = cursor.column_name()
        ascending = cursor.accept("ASC") or not cursor.accept("DESC")
        order.append((name, ascending))
        if cursor.at("NULLS"):
            raise cursor.unsupported("NULLS FIRST and NULLS LAST are not kept by Hive's catalog; leave it out")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(order)


def column_definitions(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    """Read ``(name type [COMMENT '…'], …)``."""
    cursor.expect("(")
    columns: list[ColumnDefinition] = []
    while True:
        if cursor.at("CONSTRAINT") or cursor.at("PRIMARY", "KEY") or cursor.at("FOREIGN", "KEY"):
            raise cursor.unsupported("constraints are not kept; declare them in Hive, or leave them out")
        token = cursor.next("a column name")
        cursor.position -= 1
        column = column_definition(cursor)
        if any(other.name == column.name for other in columns):
            raise cursor.error(f"column {column.name} is defined twice", token)
        columns.append(column)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(columns)


def column_definition(cursor: Cursor) -> ColumnDefinition:
    """Read ``name type [COMMENT '…']``."""
    name = cursor.column_name()
    type_text = _type(cursor)
    for words in (("NOT", "NULL"), ("DEFAULT",), ("PRIMARY",), ("UNIQUE",), ("CHECK",)):
        if cursor.at(*words):
            raise cursor.unsupported(f"{' '.join(words)} is not supported; leave it out")
    comment = cursor.string("a comment") if cursor.accept("COMMENT") else None
    return ColumnDefinition(name, type_text, comment)


def _type(cursor: Cursor) -> str:
    """Read a column type: all words up to what ends a column definition, outside of its own brackets."""
    first = cursor.position
    depth = 0
    while not cursor.at_end:
        word = cursor.word()
        if depth == 0 and word in _AFTER_A_TYPE:
            break
        depth += sum(word.count(c) for c in _OPENING) - sum(word.count(c) for c in _CLOSING)
        cursor.position += 1
    if cursor.position == first:
        raise cursor.expected("a column type")
    start, end = cursor.tokens[first].start, cursor.tokens[cursor.position - 1].end
    try:
        return normalise_type(cursor.source.text[start : end + 1])
    except InvalidArgumentsError as error:
        raise cursor.source.syntax_error(str(error), start, end) from None


def _create_temporary_view(cursor: Cursor, replace: bool, origin: dict[str, Any]) -> CreateTemporaryView:
    if cursor.at("IF"):
        raise cursor.unsupported("IF NOT EXISTS is not supported here; use CREATE OR REPLACE TEMPORARY VIEW")
    name = cursor.name("a view name")
    if cursor.at("."):
        raise cursor.error("a temporary view belongs to no database; give it a name of one part")
    columns = column_definitions(cursor) if cursor.at("(") else ()
    if cursor.at("AS"):
        raise cursor.unsupported(
            "CREATE TEMPORARY VIEW … AS is not supported; put the query into the statement, WITH name AS (…)"
        )
    cursor.expect("USING")
    token = cursor.next("a file format")
    if token.text.lower() not in SOURCE_FORMATS:
        raise cursor.unsupported(f"USING {token.text} is not supported; formats are {', '.join(SOURCE_FORMATS)}", token)
    options = source_options(cursor) if cursor.accept("OPTIONS") else {}
    cursor.end()
    if "path" not in options:
        raise cursor.error("the view names no files; add OPTIONS (path '…')", token)
    fields = tuple(Column(column.name, column.type) for column in columns)
    return CreateTemporaryView(Source(name, token.text.lower(), options, fields), replace, **origin)


def source_options(cursor: Cursor) -> dict[str, str]:
    """Read ``(key value, 'key' = 'value', a.b true, …)``."""
    cursor.expect("(")
    options: dict[str, str] = {}
    while True:
        key = _option_key(cursor)
        options[key] = cursor.value("an option value")
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return options


def _option_key(cursor: Cursor) -> str:
    key = cursor.next("an option name").text
    while cursor.accept("."):
        key += "." + cursor.next("an option name").text
    cursor.accept("=")
    # Spark compares option names without regard to case; `path` is looked for by its name.
    return key.lower() if key.lower() == "path" else key


class _Clauses:
    """Clauses in any order, each at most once."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.seen: set[tuple[str, ...]] = set()
        self.values: dict[str, Any] = {}

    def once(self, *words: str) -> bool:
        """Read the words of a clause if they follow."""
        if not self.cursor.at(*words):
            return False
        if words in self.seen:
            raise self.cursor.error(f"{' '.join(words)} is given twice")
        self.seen.add(words)
        return self.cursor.accept(*words)


_TABLE_CLAUSES: tuple[tuple[tuple[str, ...], str, Callable[[Cursor], Any]], ...] = (
    (("COMMENT",), "comment", lambda cursor: cursor.string("a comment")),
    (("PARTITIONED", "BY"), "partition_columns", lambda cursor: column_definitions(cursor)),
    (("STORED", "AS"), "stored_as", stored_as),
    (("LOCATION",), "location", lambda cursor: cursor.string("a location")),
    (("TBLPROPERTIES",), "properties", properties_in_parentheses),
)
