"""CREATE, ALTER and DROP VIEW: the text that the catalog keeps of a query, and its columns by Spark.

The query is planned and analysed as a SELECT of no rows; so a view that cannot be read is not made.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from sqlglot import exp

from airflow_hive_acid.engine.definitions.ctas import columns_of, with_declared_types
from airflow_hive_acid.engine.definitions.ddl import settle_warehouse
from airflow_hive_acid.engine.queries.query import run_query
from airflow_hive_acid.engine.statements.plans import plan_of
from airflow_hive_acid.engine.tables.read_only import require_writable
from airflow_hive_acid.errors import AlreadyExistsError, InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.metastore.catalog import FieldSchema, new_view, require_free, require_view
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.alterations import Compact, Concatenate, RepairTable, Touch
from airflow_hive_acid.sql.model.statements import Select
from airflow_hive_acid.sql.model.views import (
    AlterViewProperties,
    AlterViewQuery,
    CreateView,
    DropView,
    RenameView,
)
from airflow_hive_acid.sql.planning.references import References
from airflow_hive_acid.sql.planning.view_texts import hive_names, named_text

if TYPE_CHECKING:
    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.outcomes.results import StatementResult
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.alterations import Alteration
    from airflow_hive_acid.sql.model.views import CreateTemporaryQuery, ViewStatement


def prepared(context: Context, statement: ViewStatement, patience: Patience | None = None) -> Table | None:
    """The view that a statement makes, from its query; None when the statement has none, or there is nothing to do.

    :param patience: how long to wait here for locks on what the query reads.
    :raises InvalidArgumentsError: for columns that do not fit, and for a view that would read itself.
    :raises AlreadyExistsError: when there is a table or view of its name that it does not replace.
    """
    name = str(statement.view)
    match statement:
        case CreateView():
            there = context.client.catalog.find_tables([name]).get(name)
            if there is not None:
                require_free(there, replace_it=statement.replace, if_not_exists=statement.if_not_exists)
                if not statement.replace:
                    return None
            columns, comment, properties = statement.columns, statement.comment, statement.properties
        case AlterViewQuery():
            require_view(context.table(name), "ALTER VIEW", "ALTER TABLE")
            columns, comment, properties = (), None, {}
        case _:
            return None
    select = Select(statement.query, **statement.origin)
    planned = plan_of(context, select, path=(name,))
    if planned.sources:
        raise UnsupportedStatementError(
            f"{planned.sources[0].name} is a temporary view; a view of the catalog would outlive it: name tables"
        )
    result = with_declared_types(context, select, run_query(context, planned, limit=0, patience=patience))
    fields, expanded = _text_of(context, statement, select, result, [column for column, _ in columns])
    comments = dict(columns)
    fields = [field._replace(comment=comments.get(field.name)) for field in fields]
    return new_view(name, fields, _written(select), expanded, comment=comment, properties=properties)


def run_view(context: Context, statement: ViewStatement, view: Table | None) -> None:
    """Run a statement about a view.

    :param view: of :func:`prepared`.
    :raises ReadOnlyReplicaError: when a replication writes the database.
    """
    catalog, name, agent = context.client.catalog, str(statement.view), context.agent_info
    renamed = [str(statement.new)] if isinstance(statement, RenameView) else []
    require_writable(context.client, [str(statement.view), *renamed])
    match statement:
        case CreateView() if view is not None:
            settle_warehouse(context)
            catalog.create_view(
                view, replace_it=statement.replace, if_not_exists=statement.if_not_exists, agent_info=agent
            )
        case AlterViewQuery() if view is not None:
            catalog.alter_view_query(view, agent_info=agent)
        case AlterViewProperties():
            catalog.alter_view_properties(
                name, statement.properties, statement.unset, if_exists=statement.if_exists, agent_info=agent
            )
        case RenameView():
            require_view(context.table(name), "ALTER VIEW", "ALTER TABLE")
            catalog.rename_table(name, str(statement.new), agent_info=agent)
        case DropView():
            catalog.drop_view(name, if_exists=statement.if_exists, agent_info=agent)


def create_query(context: Context, statement: CreateTemporaryQuery) -> None:
    """Remember a temporary view of a query for later statements of this engine.

    :raises AlreadyExistsError: when another view has that name and OR REPLACE was not said.
    """
    name = statement.name
    known = context.queries.get(name)
    other = name in context.views or (known is not None and known.query != statement.query)
    if other and not statement.replace:
        raise AlreadyExistsError(f"temporary view {name} exists already; say CREATE OR REPLACE TEMPORARY VIEW")
    planned = plan_of(context, Select(statement.query, **statement.origin))
    if name in (source.name for source in planned.sources):
        raise InvalidArgumentsError(f"temporary view {name} would read itself")
    context.views.pop(name, None)
    context.queries[name] = statement


def require_no_view(table: Table, statement: str, instead: str) -> None:
    """Refuse a statement about a table that names a view, as Hive does.

    :raises InvalidArgumentsError: with the statement to use.
    """
    if table.is_view:
        raise InvalidArgumentsError(f"{statement}: {table.qualified_name} is a view; use {instead}")


def require_rows(table: Table, statement: Alteration) -> None:
    """Refuse an alteration of a table that names a view.

    :raises InvalidArgumentsError: with the statement to use; what is about files has none for views.
    """
    if isinstance(statement, Compact | RepairTable | Touch | Concatenate):
        require_files(table, statement.kind_text.replace("_", " ").upper())
    require_no_view(table, "ALTER TABLE", "ALTER VIEW")


def require_files(table: Table, statement: str) -> None:
    """Refuse a statement about rows or files that names a view.

    :raises InvalidArgumentsError: with what to name instead.
    """
    if table.is_view:
        raise InvalidArgumentsError(
            f"{statement}: {table.qualified_name} is a view and has no rows of its own; name the tables that it reads"
        )


def _written(select: Select) -> str:
    """The query as it stands in the script."""
    return " ".join(select.script[begin:end] for begin, end in select.query.ranges)


def _text_of(
    context: Context, statement: CreateView | AlterViewQuery, select: Select, result: StatementResult, names: list[str]
) -> tuple[list[FieldSchema], str]:
    """Columns and text as the catalog keeps them.

    :param names: of the columns, if the statement names them.
    """
    rows = result.rows
    if rows is None:
        raise AssertionError("a query without columns")
    view = statement.view
    inner = hive_names(select.query.tree, [column.name for column in rows.columns])
    if names and len(names) != len(inner):
        raise InvalidArgumentsError(f"view {view} names {len(names)} columns, and its query gives {len(inner)}")
    outer = names or inner
    called = [dataclasses.replace(column, name=name) for column, name in zip(rows.columns, outer, strict=True)]
    typed = columns_of(dataclasses.replace(result, rows=dataclasses.replace(rows, columns=tuple(called))))
    fields = [FieldSchema(name, column.type) for name, column in zip(outer, typed, strict=True)]
    text = References(
        select, functools.cache(context.table), {}, queries=context.queries, path=(str(view),), for_catalog=True,
        parse=parse_script,
    ).rewrite(select.query)  # fmt: skip
    if not names and not _has_star(text):
        return fields, text
    twice = next((name for number, name in enumerate(inner) if name in inner[:number]), None)
    if twice is not None:
        raise InvalidArgumentsError(f"the query of view {view} gives two columns called {twice}; give one an alias")
    return fields, named_text(text, view.name, inner, outer)


def _has_star(text: str) -> bool:
    """Whether a text still says ``*``: its columns would become more with those of its tables."""
    (statement,) = parse_script(text)
    tree = statement.query.tree if isinstance(statement, Select) else None
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.SetOperation):
            waiting += [node.left, node.right]
        elif isinstance(node, exp.Subquery):
            waiting.append(node.this)
        elif isinstance(node, exp.Select) and any(projection.is_star for projection in node.expressions):
            return True
    return False
