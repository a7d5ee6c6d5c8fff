"""CREATE, DROP and ALTER VIEW, word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.sql.model.views import (
    AlterViewProperties,
    AlterViewQuery,
    CreateTemporaryQuery,
    CreateView,
    DropView,
    RenameView,
)
from airflow_hive_acid.sql.parsing.commands import names_of_properties, properties_in_parentheses
from airflow_hive_acid.sql.parsing.dml import read_query

if TYPE_CHECKING:
    from airflow_hive_acid.sql.model.views import ViewStatement
    from airflow_hive_acid.sql.parsing.cursor import Cursor

_NO_MATERIALIZED = (
    "materialized views are not supported; CREATE TABLE … AS, and INSERT OVERWRITE to bring it up to date"
)


def parse_create_view(cursor: Cursor, origin: dict[str, Any]) -> CreateView | CreateTemporaryQuery | None:
    """Read what follows CREATE, if it makes a view of a query; None when it is something else."""
    start = cursor.position
    replace = cursor.accept("OR", "REPLACE")
    if cursor.at("MATERIALIZED"):
        raise cursor.unsupported(_NO_MATERIALIZED)
    cursor.accept("GLOBAL")
    temporary = cursor.accept("TEMPORARY") or cursor.accept("TEMP")
    if not cursor.accept("VIEW") or (temporary and _leads_to_using(cursor)):
        cursor.position = start
        return None
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    if replace and if_not_exists:
        raise cursor.error("OR REPLACE and IF NOT EXISTS contradict each other; leave one out")
    if temporary:
        return _temporary(cursor, replace, origin)
    view = cursor.table_name()
    columns = _columns(cursor) if cursor.at("(") else ()
    clauses: dict[str, Any] = {}
    while not cursor.at("AS"):
        first = cursor.position
        value: Any
        if cursor.accept("COMMENT"):
            name, value = "comment", cursor.string("a comment")
        elif cursor.accept("TBLPROPERTIES"):
            name, value = "properties", properties_in_parentheses(cursor)
        elif cursor.at("PARTITIONED"):
            raise cursor.unsupported("PARTITIONED ON is not supported; a view reads the partitions its query needs")
        else:
            raise cursor.expected("COMMENT, TBLPROPERTIES or AS and a query")
        if name in clauses:
            raise cursor.error(f"{cursor.tokens[first].text.upper()} is given twice", cursor.tokens[first])
        clauses[name] = value
    cursor.expect("AS")
    return CreateView(view, read_query(cursor), columns, replace, if_not_exists, **clauses, **origin)


def parse_drop_view(cursor: Cursor, origin: dict[str, Any]) -> DropView | None:
    """Read what follows DROP, if it is a view."""
    if cursor.at("MATERIALIZED"):
        raise cursor.unsupported(_NO_MATERIALIZED)
    if not cursor.accept("VIEW"):
        return None
    if_exists = cursor.accept("IF", "EXISTS")
    view = cursor.table_name()
    cursor.end()
    return DropView(view, if_exists, **origin)


def parse_alter_view(cursor: Cursor, origin: dict[str, Any]) -> ViewStatement | None:
    """Read what follows ALTER, if it is a view."""
    if cursor.at("MATERIALIZED"):
        raise cursor.unsupported(_NO_MATERIALIZED)
    if not cursor.accept("VIEW"):
        return None
    view = cursor.table_name()
    if cursor.accept("AS"):
        return AlterViewQuery(view, read_query(cursor), **origin)
    if cursor.word() in ("SELECT", "WITH", "VALUES"):
        return AlterViewQuery(view, read_query(cursor), **origin)
    if cursor.accept("RENAME", "TO"):
        new = cursor.table_name()
        cursor.end()
        return RenameView(view, new, **origin)
    if cursor.accept("SET", "TBLPROPERTIES"):
        properties = properties_in_parentheses(cursor)
        cursor.end()
        return AlterViewProperties(view, properties, **origin)
    if cursor.accept("UNSET", "TBLPROPERTIES"):
        if_exists = cursor.accept("IF", "EXISTS")
        names = names_of_properties(cursor)
        cursor.end()
        return AlterViewProperties(view, unset=names, if_exists=if_exists, **origin)
    raise cursor.expected("AS and a query, SET TBLPROPERTIES, UNSET TBLPROPERTIES or RENAME TO")


def _leads_to_using(cursor: Cursor) -> bool:
    start = cursor.position
    cursor.until("USING", "AS")
    found = cursor.at("USING")
    cursor.position = start
    return found


def _temporary(cursor: Cursor, replace: bool, origin: dict[str, Any]) -> CreateTemporaryQuery:
    name = cursor.name("a view name")
    if cursor.at("."):
        raise cursor.error("a temporary view belongs to no database")
    columns = tuple(column for column, _ in _columns(cursor)) if cursor.at("(") else ()
    if cursor.accept("COMMENT"):
        cursor.string("a comment")
    cursor.expect("AS")
    return CreateTemporaryQuery(name, read_query(cursor), columns, replace, **origin)


def _columns(cursor: Cursor) -> tuple[tuple[str, str | None], ...]:
    """Read ``(name [COMMENT 'text'], …)``."""
    cursor.expect("(")
    columns: dict[str, str | None] = {}
    while True:
        name = cursor.column_name()
        if name in columns:
            raise cursor.error(f"column {name} is given twice", cursor.tokens[cursor.position - 1])
        columns[name] = cursor.string("a comment") if cursor.accept("COMMENT") else None
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(columns.items())
