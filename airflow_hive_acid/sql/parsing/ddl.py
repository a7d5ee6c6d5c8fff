"""CREATE and DROP, read word by word: databases, tables, temporary views over files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column, Source
from airflow_hive_acid.metastore.catalog import normalise_type
from airflow_hive_acid.sql.model.statements import (
    ColumnDefinition,
    CreateDatabase,
    CreateTable,
    CreateTemporaryTable,
    CreateTemporaryView,
    DropDatabase,
    DropTable,
)
from airflow_hive_acid.sql.model.transfers import DropTableForReplication
from airflow_hive_acid.sql.parsing import dml
from airflow_hive_acid.sql.parsing.commands import properties_in_parentheses
from airflow_hive_acid.sql.parsing.constraints import at_table_constraint, column_constraint, table_constraint
from airflow_hive_acid.sql.parsing.replication import event_of_drop
from airflow_hive_acid.sql.parsing.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.catalog import Constraint
    from airflow_hive_acid.sql.model.statements import Fragment
    from airflow_hive_acid.sql.parsing.cursor import Cursor

SOURCE_FORMATS = ("csv", "orc", "parquet", "json")
_OPENING, _CLOSING = "(<", ")>"
_AFTER_A_TYPE = (
    ",", ")", "COMMENT", "NOT", "DEFAULT", "PRIMARY KEY", "UNIQUE", "CHECK", "CONSTRAINT", "REFERENCES", "CASCADE",
    "RESTRICT", "FIRST", "AFTER",
)  # fmt: skip


def parse_create(
    cursor: Cursor, origin: dict[str, Any]
) -> CreateDatabase | CreateTable | CreateTemporaryTable | CreateTemporaryView:
    """Read what follows CREATE."""
    start = cursor.position
    replace = cursor.accept("OR", "REPLACE")
    if cursor.accept("TEMPORARY", "VIEW") or cursor.accept("TEMP", "VIEW"):
        return _create_temporary_view(cursor, replace, origin)
    if cursor.accept("TEMPORARY", "TABLE") or cursor.accept("TEMP", "TABLE"):
        return _create_temporary_table(cursor, replace, origin)
    kind = next((word for word in ("EXTERNAL", "TRANSACTIONAL", "MANAGED") if cursor.accept(word)), "")
    if cursor.accept("TABLE"):
        return _create_table(cursor, kind, origin, replace=replace)
    if replace:
        cursor.position = start
        raise cursor.unsupported("OR REPLACE is supported for tables and views; DROP and CREATE instead")
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE"):
        return _create_database(cursor, origin)
    raise cursor.unsupported(
        f"CREATE {cursor.word() or '…'} is not supported; supported are CREATE DATABASE, CREATE TABLE, "
        "CREATE VIEW and CREATE TEMPORARY VIEW"
    )


def parse_drop(cursor: Cursor, origin: dict[str, Any]) -> DropDatabase | DropTable | DropTableForReplication:
    """Read what follows DROP."""
    if cursor.accept("DATABASE") or cursor.accept("SCHEMA") or cursor.accept("NAMESPACE"):
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
        f"DROP {cursor.word() or '…'} is not supported; supported are DROP TABLE, DROP VIEW and DROP DATABASE "
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
            raise cursor.unsupported("MANAGEDLOCATION is said afterwards: ALTER DATABASE … SET MANAGEDLOCATION '…'")
        else:
            cursor.end()
    return CreateDatabase(name, if_not_exists, **clauses.values, **origin)


def _create_table(cursor: Cursor, kind: str, origin: dict[str, Any], *, replace: bool) -> CreateTable:
    """Read what follows CREATE [OR REPLACE] [EXTERNAL | TRANSACTIONAL | MANAGED] TABLE."""
    if replace and cursor.at("IF", "NOT", "EXISTS"):
        raise cursor.error("OR REPLACE and IF NOT EXISTS say opposite things; leave one out")
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    table = cursor.table_name()
    like = cursor.table_name() if cursor.accept("LIKE") else None
    columns: tuple[ColumnDefinition, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    # CREATE TABLE … AS takes its columns from the query.
    if like is None and (cursor.at("(") or not _leads_to_a_query(cursor)):
        columns, constraints = table_elements(cursor)
    clauses, storage = _Clauses(cursor), Storage()
    while not (cursor.at_end or cursor.at("AS")):
        if storage.read(cursor):
            continue
        for words, name, read in _TABLE_CLAUSES:
            if clauses.once(*words):
                clauses.values[name] = read(cursor)
                break
        else:
            if clauses.once("CLUSTERED", "BY"):
                clauses.values.update(_clustered_by(cursor))
            else:
                raise _bad_table_clause(cursor)
    values = clauses.values
    if like is not None:
        _check_like(cursor, values)
    if cursor.at("AS") and like is None:
        values["query"] = _as_query(cursor, columns, kind == "EXTERNAL", values)
    else:
        cursor.end()
        columns = _without_partition_columns(cursor, columns, values)
    if kind == "TRANSACTIONAL":
        values["properties"] = {"transactional": "true", **values.get("properties", {})}
    found = storage.chosen(cursor)
    return CreateTable(
        table, columns, if_not_exists=if_not_exists, external=kind == "EXTERNAL",
        stored_as=found.name if found is not None else "" if like is not None else "orc",
        serde_properties=storage.properties, constraints=constraints, like=like, replace=replace, **values,
        **origin,
    )  # fmt: skip


def _create_temporary_table(cursor: Cursor, replace: bool, origin: dict[str, Any]) -> CreateTemporaryTable:
    if replace:
        raise cursor.unsupported("OR REPLACE of a temporary table is not supported; DROP TABLE it first")
    create = _create_table(cursor, "", origin, replace=False)
    first = cursor.tokens[0]
    if create.location is not None:
        raise cursor.unsupported("a temporary table lies in staging; leave LOCATION out", first)
    if create.constraints:
        raise cursor.unsupported("a temporary table has no constraints; leave them out", first)
    if create.partition_columns:
        raise cursor.unsupported("a temporary table has no partitions; name the columns among the others", first)
    return CreateTemporaryTable(create, **origin)


def _check_like(cursor: Cursor, clauses: dict[str, Any]) -> None:
    for name, words in (("partition_columns", "PARTITIONED BY"), ("bucket_columns", "CLUSTERED BY")):
        if name in clauses:
            raise cursor.unsupported(f"{words} is what CREATE TABLE … LIKE takes from the other table; leave it out",
                                     cursor.tokens[0])  # fmt: skip


def _without_partition_columns(
    cursor: Cursor, columns: tuple[ColumnDefinition, ...], clauses: dict[str, Any]
) -> tuple[ColumnDefinition, ...]:
    """Spark names partition columns among the columns, and again in PARTITIONED BY; in Hive they stand there alone."""
    given = clauses.get("partition_columns", ())
    if not given or all(column.type for column in given):
        return columns
    known = {column.name: column for column in columns}
    unknown = [column.name for column in given if column.type or column.name not in known]
    if unknown:
        raise cursor.error(
            f"PARTITIONED BY: {unknown[0]} needs a type there, or a place among the columns, as all of them",
            cursor.tokens[0],
        )
    clauses["partition_columns"] = tuple(known[column.name] for column in given)
    names = {column.name for column in given}
    return tuple(column for column in columns if column.name not in names)


def _partition_columns(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    """Read ``(name type [COMMENT '…'], …)`` or ``(name, …)``."""
    if cursor.word(2) in (",", ")"):
        return tuple(ColumnDefinition(name, "") for name in cursor.names_in_parentheses("a partition column"))
    return column_definitions(cursor)


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
    if any(column.type for column in clauses.get("partition_columns", ())):
        raise cursor.error("PARTITIONED BY takes its columns from the query of CREATE TABLE … AS; leave the types out")
    if external:
        raise cursor.unsupported("CREATE EXTERNAL TABLE … AS is not supported; CREATE TABLE, then INSERT INTO … SELECT")
    cursor.expect("AS")
    return dml.read_query(cursor)


def _bad_table_clause(cursor: Cursor) -> Exception:
    for words, remedy in (
        (("SKEWED",), "leave it out"),
        (("STORED", "BY"), "tables are stored as ORC"),
        (("SORTED", "BY"), "it follows the columns of CLUSTERED BY"),
        (("OPTIONS",), "say it with TBLPROPERTIES"),
    ):
        if cursor.at(*words):
            return cursor.unsupported(f"{' '.join(words)} is not supported: {remedy}")
    return cursor.expected("a clause of CREATE TABLE")


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


def table_elements(cursor: Cursor) -> tuple[tuple[ColumnDefinition, ...], tuple[Constraint, ...]]:
    """Read ``(name type [constraint …] [COMMENT '…'], …, [constraint of the table, …])``."""
    cursor.expect("(")
    columns: list[ColumnDefinition] = []
    constraints: list[Constraint] = []
    while True:
        if columns and at_table_constraint(cursor):
            constraints.append(table_constraint(cursor))
        else:
            token = cursor.next("a column name")
            cursor.position -= 1
            column = column_definition(cursor)
            if any(other.name == column.name for other in columns):
                raise cursor.error(f"column {column.name} is defined twice", token)
            columns.append(column)
        if not cursor.accept(","):
            break
    cursor.expect(")")
    of_columns = [constraint for column in columns for constraint in column.constraints]
    return tuple(columns), (*of_columns, *constraints)


def column_definitions(cursor: Cursor) -> tuple[ColumnDefinition, ...]:
    """Read ``(name type [COMMENT '…'], …)``."""
    first = cursor.position
    columns, constraints = table_elements(cursor)
    if constraints:
        raise cursor.unsupported(
            f"{constraints[0].kind.words} is supported in CREATE TABLE, ADD CONSTRAINT and CHANGE COLUMN; leave it out",
            cursor.tokens[first],
        )
    return columns


def column_definition(cursor: Cursor) -> ColumnDefinition:
    """Read ``name type [constraint …] [COMMENT '…']``."""
    name = cursor.column_name()
    type_text = column_type(cursor)
    comment = None
    constraints: list[Constraint] = []
    while True:
        if comment is None and cursor.accept("COMMENT"):
            comment = cursor.string("a comment")
            continue
        constraint = column_constraint(cursor, name)
        if constraint is None:
            break
        constraints.append(constraint)
    return ColumnDefinition(name, type_text, comment, tuple(constraints))


def column_type(cursor: Cursor) -> str:
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
    (("PARTITIONED", "BY"), "partition_columns", _partition_columns),
    (("LOCATION",), "location", lambda cursor: cursor.string("a location")),
    (("TBLPROPERTIES",), "properties", properties_in_parentheses),
)
