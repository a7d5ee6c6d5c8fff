"""Constraints of columns and tables, read word by word."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.metastore.catalog import Constraint, ConstraintKind
from airflow_hive_acid.sql.parsing import dml

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

    from airflow_hive_acid.sql.parsing.cursor import Cursor

_STATES = (
    "ENABLE", "ENABLED", "ENFORCED", "DISABLE", "DISABLED", "VALIDATE", "NOVALIDATE", "RELY", "NORELY",
)  # fmt: skip
_AFTER_A_VALUE = (",", ")", "COMMENT", "NOT", "CHECK", "CONSTRAINT", "PRIMARY KEY", "UNIQUE", "CASCADE", "RESTRICT",
                  "FIRST", "AFTER", *_STATES)  # fmt: skip
_OF_TABLES = ("CONSTRAINT", "PRIMARY KEY", "FOREIGN KEY", "UNIQUE", "CHECK")


def at_table_constraint(cursor: Cursor) -> bool:
    """Whether a constraint follows where a column could stand; columns may have these names, too."""
    if cursor.word() in ("PRIMARY KEY", "FOREIGN KEY"):
        return True
    if cursor.word() == "CONSTRAINT":
        return cursor.word(2) in _OF_TABLES
    return cursor.word() in ("UNIQUE", "CHECK") and cursor.word(1) == "("


def table_constraint(cursor: Cursor) -> Constraint:
    """Read ``[CONSTRAINT name] PRIMARY KEY (…) | UNIQUE (…) | CHECK (…) | FOREIGN KEY (…) REFERENCES t (…)`` with its
    state."""
    name = _name(cursor)
    first = cursor.position
    if cursor.accept("PRIMARY", "KEY"):
        return _with_state(cursor, Constraint(ConstraintKind.PRIMARY_KEY, cursor.names_in_parentheses(), name), first)
    if cursor.accept("UNIQUE"):
        return _with_state(cursor, Constraint(ConstraintKind.UNIQUE, cursor.names_in_parentheses(), name), first)
    if cursor.accept("CHECK"):
        return _with_state(cursor, Constraint(ConstraintKind.CHECK, (), name, value=_condition(cursor)), first)
    if cursor.accept("FOREIGN", "KEY"):
        columns = cursor.names_in_parentheses()
        cursor.expect("REFERENCES")
        return _with_state(cursor, _foreign_key(cursor, columns, name), first)
    raise cursor.expected("PRIMARY KEY (…), UNIQUE (…), FOREIGN KEY (…) or CHECK (…)")


def column_constraint(cursor: Cursor, column: str) -> Constraint | None:
    """Read a constraint behind a column, if one follows."""
    start = cursor.position
    name = _name(cursor)
    first = cursor.position
    kind, value = None, None
    if cursor.accept("NOT", "NULL"):
        kind = ConstraintKind.NOT_NULL
    elif cursor.accept("PRIMARY", "KEY"):
        kind = ConstraintKind.PRIMARY_KEY
    elif cursor.accept("UNIQUE"):
        kind = ConstraintKind.UNIQUE
    elif cursor.accept("DEFAULT"):
        kind, value = ConstraintKind.DEFAULT, _default(cursor)
    elif cursor.at("CHECK") and cursor.word(1) == "(":
        cursor.accept("CHECK")
        kind, value = ConstraintKind.CHECK, _condition(cursor)
    elif cursor.accept("REFERENCES"):
        return _with_state(cursor, _foreign_key(cursor, (column,), name), first)
    if kind is None:
        if name is not None:
            raise cursor.expected("NOT NULL, DEFAULT, CHECK (…), PRIMARY KEY or UNIQUE")
        cursor.position = start
        return None
    return _with_state(cursor, Constraint(kind, (column,), name, value=value), first)


def _foreign_key(cursor: Cursor, columns: tuple[str, ...], name: str | None) -> Constraint:
    """Read the table and the columns that a foreign key refers to."""
    parent = str(cursor.table_name())
    return Constraint(
        ConstraintKind.FOREIGN_KEY, columns, name, parent=parent, parent_columns=cursor.names_in_parentheses()
    )


def _name(cursor: Cursor) -> str | None:
    return cursor.column_name("the name of the constraint") if cursor.accept("CONSTRAINT") else None


def _with_state(cursor: Cursor, constraint: Constraint, first: int) -> Constraint:
    """ENABLE or DISABLE, NOVALIDATE, RELY or NORELY; without a word Hive takes it for ENABLE NOVALIDATE RELY."""
    enabled, relied = True, True
    while True:
        token = None if cursor.at_end else cursor.tokens[cursor.position]
        if cursor.accept("NOT", "ENFORCED") or cursor.accept("DISABLE") or cursor.accept("DISABLED"):
            enabled, relied = False, False
        elif cursor.accept("ENABLE") or cursor.accept("ENABLED") or cursor.accept("ENFORCED"):
            enabled = True
        elif cursor.at("VALIDATE"):
            raise cursor.unsupported("VALIDATE feature not supported yet. Please use NOVALIDATE instead")
        elif cursor.accept("NOVALIDATE"):
            continue
        elif cursor.accept("RELY"):
            relied = True
        elif cursor.accept("NORELY"):
            relied = False
        else:
            break
        if token is None:
            break
    if enabled and constraint.kind in (
        ConstraintKind.PRIMARY_KEY, ConstraintKind.UNIQUE, ConstraintKind.FOREIGN_KEY,
    ):  # fmt: skip
        raise cursor.unsupported(
            f"{constraint.kind.words}: ENABLE/ENFORCED feature not supported yet. Please use DISABLE NOVALIDATE "
            "instead",
            cursor.tokens[first],
        )
    return replace(constraint, enabled=enabled, relied=relied)


def _condition(cursor: Cursor) -> str:
    """The condition of CHECK (…), without the parentheses."""
    cursor.expect("(")
    words = cursor.until(")")
    tree = dml.parse_expression(cursor, words).tree
    if tree.find(exp.Query, exp.AggFunc, exp.Window):
        raise cursor.unsupported("CHECK is about one row: no queries, aggregates or window functions", words[0])
    cursor.expect(")")
    return _text(cursor, words)


def _default(cursor: Cursor) -> str:
    words = cursor.until(*_AFTER_A_VALUE)
    tree = dml.parse_expression(cursor, words).tree
    if tree.find(exp.Query, exp.AggFunc, exp.Window) or any(column.name for column in _columns(tree)):
        raise cursor.unsupported("DEFAULT takes constants and functions of constants", words[0])
    return _text(cursor, words)


def _columns(tree: exp.Expr) -> list[exp.Column]:
    """Names in an expression that are columns; CURRENT_USER and its like are functions without parentheses."""
    bare = ("current_date", "current_timestamp", "current_user")
    return [column for column in tree.find_all(exp.Column) if column.name.lower() not in bare]


def _text(cursor: Cursor, words: list[Token]) -> str:
    return cursor.source.text[words[0].start : words[-1].end + 1]
