"""Statements for Hive 4's tables, on a metastore whose tables are others.

Verbs are written for Hive 4's tables. On a metastore with another layout
(:mod:`~airflow_hive_acid.metastore.schema.layouts`) SQLAlchemy's compiler is given one more step: a column that is not
there reads as its default, or NULL, and is left out of what is written; a table that is not there is empty, and what is
deleted from it is nothing; names are in lower case where they are there. :class:`either` is for what has to be done in
another way. On a metastore of Hive 4 the compiler is SQLAlchemy's own, and nothing of this costs anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import func
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.selectable import Alias

from airflow_hive_acid.errors import SchemaVersionError
from airflow_hive_acid.metastore.database.compiled import forget_kind
from airflow_hive_acid.metastore.schema.hive_transactions import VERSION
from airflow_hive_acid.metastore.schema.layouts import (
    NEXT_TXN_ID,
    NOT_IN_HIVE_3,
    USUAL,
    Layout,
    layout_of,
    not_served,
)

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection, Dialect

_LAYOUT = "hive_acid_layout"
"""Attribute of a dialect: its layout; a dialect without it is for Hive 4's tables."""
_TAG = "hive_acid_layout_tag"


class either(FunctionElement[Any]):
    """``either(usual, counting)``: the first, or on a metastore that counts txns the second; parts of one statement."""

    inherit_cache = True

    def __init__(self, usual: sa.ColumnElement[Any], counting: sa.ColumnElement[Any]) -> None:
        super().__init__(usual, counting)
        self.type = usual.type


@compiles(either)
def _(element: either, compiler: Any, **options: Any) -> str:
    usual, counting = element.clauses
    return str(compiler.process(counting if layout_for(compiler.dialect).counts_txns else usual, **options))


def layout_for(dialect: Dialect) -> Layout:
    """The layout that statements of a dialect are compiled for."""
    found: Layout = getattr(dialect, _LAYOUT, USUAL)
    return found


def layout_tag(connection: Connection) -> str:
    """What tells apart statements that are compiled for several layouts."""
    return getattr(connection.dialect, _TAG, "")


# --- which layout it is -------------------------------------------------------------------------------------------

_TABLES = sa.table("tables", sa.column("table_name"), sa.column("table_schema"), sa.column("table_type"),
                   schema="information_schema")  # fmt: skip
_COLUMNS = sa.table("columns", sa.column("table_name"), sa.column("table_schema"), sa.column("column_name"),
                    schema="information_schema")  # fmt: skip


def standard_columns(schema: sa.ColumnElement[str]) -> sa.Select[str, str]:
    """Tables of a schema, views left out, and their columns: those that the user has a right to, and no others."""
    tables, columns = _TABLES.c, _COLUMNS.c
    both = sa.and_(columns.table_schema == tables.table_schema, columns.table_name == tables.table_name)
    return (
        sa.select(columns.table_name, columns.column_name)
        .join_from(_COLUMNS, _TABLES, both)
        .where(tables.table_schema == schema, func.lower(tables.table_type) == "base table")
    )


def find_layout(connection: Connection, columns: sa.Select[str, str]) -> Layout:
    """The layout of the metastore behind a connection; of an empty database Hive 4's.

    :param columns: selects the tables, views left out, and their columns.
    :raises SchemaVersionError: when it counts txns, and lacks a table without which nothing is safe: to take one that
        the user may not see for an empty one would hide locks and commits.
    """
    table = columns.selected_columns[0]
    counting = columns.where(table.in_([NEXT_TXN_ID.name, NEXT_TXN_ID.name.lower()])).limit(1)
    if connection.execute(counting).first() is None:
        return USUAL
    found: dict[str, set[str]] = {}
    for name, column in connection.execute(columns):
        found.setdefault(name, set()).add(column)
    layout = layout_of(found)
    hidden = sorted(layout.missing - NOT_IN_HIVE_3)
    if hidden:
        version = _version(connection) if VERSION.name in found else None
        if version is not None and not version.startswith("3.1."):
            raise SchemaVersionError(not_served(version))
        raise SchemaVersionError(
            f"the metastore, of a Hive before 4 (it has the table {NEXT_TXN_ID.name}), lacks the tables "
            f"{', '.join(hidden)}, or this user may not see them: give the user rights on all tables of the metastore, "
            "or look at it with that Hive's own tool, 'schematool -validate'"
        )
    return layout


def _version(connection: Connection) -> str | None:
    version = connection.scalar(sa.select(VERSION.c.SCHEMA_VERSION).where(VERSION.c.VER_ID == 1))
    return None if version is None else str(version)


# --- fitting SQLAlchemy's compiler --------------------------------------------------------------------------------


def fit(dialect: Any, layout: Layout) -> None:
    """Let a dialect's statements be for a layout; those compiled for another one are not found again."""
    if layout == USUAL:
        return
    setattr(dialect, _LAYOUT, layout)
    setattr(dialect, _TAG, layout.tag)
    dialect.statement_compiler = type("FittedCompiler", (_Fitted, dialect.statement_compiler), {"layout": layout})
    dialect.preparer = type(
        "FittedPreparer", (_LowerCase, dialect.preparer), {"lower_case_names": layout.lower_case_names()}
    )
    dialect.identifier_preparer = dialect.preparer(dialect)
    forget_kind(dialect)


class _LowerCase:
    """Of an identifier preparer: names that are in lower case in this metastore."""

    lower_case_names: frozenset[str]

    def quote(self, ident: str, *force: Any) -> str:
        """See SQLAlchemy's ``IdentifierPreparer``."""
        if ident in self.lower_case_names:
            return ident.lower()
        return str(super().quote(ident, *force))  # type: ignore[misc]


class _Fitted:
    """Of a statement compiler: what the metastore does not have."""

    layout: Layout

    def visit_column(self: Any, column: Any, add_to_result_map: Any = None, **options: Any) -> str:
        """See SQLAlchemy's ``SQLCompiler``; NULL for a column that is not there."""
        table = column.table
        of_alias = isinstance(table, Alias)
        name = table.element.name if of_alias and isinstance(table.element, sa.Table) else getattr(table, "name", None)
        known = isinstance(table, sa.Table) or (of_alias and isinstance(table.element, sa.Table))
        if not known or (name, column.name) not in self.layout.absent:
            return str(super().visit_column(column, add_to_result_map=add_to_result_map, **options))  # type: ignore[misc]
        if add_to_result_map is not None:
            add_to_result_map(column.name, column.name, (column, column.name, column.key), column.type)
        text = self._absent_value(column)
        if options.get("within_columns_clause") and not options.get("within_label_clause"):
            return f"{text} AS {self.preparer.quote(column.name)}"
        return str(text)

    def visit_table(self: Any, table: Any, asfrom: bool = False, enclosing_alias: Any = None, **options: Any) -> str:
        """See SQLAlchemy's ``SQLCompiler``; no rows for a table that is not there."""
        if table.name not in self.layout.missing or not isinstance(table, sa.Table) or not asfrom:
            return str(
                super().visit_table(table, asfrom=asfrom, enclosing_alias=enclosing_alias, **options)  # type: ignore[misc]
            )
        columns = ", ".join(f"{self._absent_value(c)} AS {self.preparer.quote(c.name)}" for c in table.columns)
        rows = f"(SELECT {columns}{self.default_from()} WHERE 1 = 0)"
        return rows if enclosing_alias is not None else f"{rows} AS {self.preparer.quote(table.name)}"

    def visit_delete(self: Any, delete: Any, visiting_cte: Any = None, **options: Any) -> str:
        """See SQLAlchemy's ``SQLCompiler``."""
        if delete.table.name in self.layout.missing:
            return str(self._nothing(delete, visiting_cte))
        return str(super().visit_delete(delete, visiting_cte=visiting_cte, **options))  # type: ignore[misc]

    def visit_update(self: Any, update: Any, visiting_cte: Any = None, **options: Any) -> str:
        """See SQLAlchemy's ``SQLCompiler``; columns that are not there are not set."""
        name = update.table.name
        if name in self.layout.missing:
            return str(self._nothing(update, visiting_cte))
        if update._values and self._are_absent(name, update._values):
            update = update._generate()
            kept = {k: v for k, v in update._values.items() if not self._is_absent(name, k)}
            if not kept:  # the rows are found, and locked, all the same
                first = next(c for c in update.table.columns if not self._is_absent(name, c))
                kept = {first: first}
            update._values = sa.util.immutabledict(kept)
        self.column_keys = self._keys(name)
        return str(super().visit_update(update, visiting_cte=visiting_cte, **options))  # type: ignore[misc]

    def visit_insert(
        self: Any, insert: Any, visited_bindparam: Any = None, visiting_cte: Any = None, **options: Any
    ) -> str:
        """See SQLAlchemy's ``SQLCompiler``; columns that are not there are not filled."""
        name = insert.table.name
        if name in self.layout.missing:
            raise SchemaVersionError(
                f"this metastore, of a Hive before 4, has no table {name}: what would be kept there cannot be had on it"
            )
        if insert._values and self._are_absent(name, insert._values):
            insert = insert._generate()
            kept = {k: v for k, v in insert._values.items() if not self._is_absent(name, k)}
            insert._values = sa.util.immutabledict(kept)
        if insert._multi_values:
            insert = insert._generate()
            insert._multi_values = tuple(
                [{k: v for k, v in row.items() if not self._is_absent(name, k)} for row in rows]
                for rows in insert._multi_values
            )
        if insert._select_names and self._are_absent(name, insert._select_names):
            insert = insert._generate()
            pairs = list(zip(insert._select_names, insert.select.selected_columns, strict=True))
            kept_pairs = [(k, v) for k, v in pairs if not self._is_absent(name, k)]
            insert.select = insert.select.with_only_columns(*(v for _, v in kept_pairs), maintain_column_froms=True)
            insert._select_names = [k for k, _ in kept_pairs]
        self.column_keys = self._keys(name)
        return str(
            super().visit_insert(  # type: ignore[misc]
                insert, visited_bindparam=visited_bindparam, visiting_cte=visiting_cte, **options
            )
        )

    def _absent_value(self: Any, column: Any) -> str:
        """What a new row would have there: the default, or NULL."""
        # Without a collation, which a CAST cannot take on MySQL.
        kind = sa.String(column.type.length) if isinstance(column.type, sa.String) else column.type
        if isinstance(column.server_default, sa.DefaultClause) and isinstance(column.server_default.arg, str):
            default = sa.cast(sa.literal(column.server_default.arg, sa.String), kind)
            return str(self.process(default, literal_binds=True))
        return str(self.process(sa.cast(sa.null(), kind)))

    def _is_absent(self, table: str, column: Any) -> bool:
        return (table, column if isinstance(column, str) else column.name) in self.layout.absent

    def _are_absent(self, table: str, columns: Any) -> bool:
        return any(self._is_absent(table, column) for column in columns)

    def _keys(self: Any, table: str) -> Any:
        """Names of an executed statement's parameters, without those of columns that are not there."""
        if self.column_keys is None:
            return None
        return [k for k in self.column_keys if (table, k) not in self.layout.absent]

    def _nothing(self: Any, statement: Any, visiting_cte: Any) -> str:
        """In place of a change of a table that is not there."""
        if visiting_cte is None:
            self.isinsert = self.isupdate = self.isdelete = False
        return f"SELECT 1{self.default_from()} WHERE 1 = 0"
