"""Statements that change the catalog or the session, and no rows of tables."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.definitions.alter import run_alter
from airflow_hive_acid.engine.definitions.ddl import definition_of, note_on, run_ddl
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.statements.transfers import transfer
from airflow_hive_acid.engine.statements.views import create_query, prepared, require_no_view, require_rows, run_view
from airflow_hive_acid.errors import AlreadyExistsError, NoSuchObjectError, UnsupportedStatementError
from airflow_hive_acid.metastore.protocol import patiently
from airflow_hive_acid.sql.model.alterations import Alteration
from airflow_hive_acid.sql.model.statements import (
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    CreateTemporaryView,
    DropDatabase,
    DropTable,
    Load,
)
from airflow_hive_acid.sql.model.transfers import ReplicationStatement
from airflow_hive_acid.sql.model.views import CreateTemporaryQuery, ViewStatement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.engine.transactions.claims import ToApply
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.statements import Statement


def run_definition(
    context: Context, statement: Statement, claim: ToApply, patience: Patience | None = None
) -> StatementResult:
    """Run DDL or a transfer, and record it with its commit if it is to be done once (R14).

    :param patience: how long to wait here for locks. A transfer waits as long as the settings say: it commits more than
        once, and another process would begin anew.
    """
    if isinstance(statement, ReplicationStatement):
        return transfer(context, statement, claim)
    if isinstance(statement, ViewStatement):
        return _run_view_once(context, statement, claim, patience)
    rows: Rows | None = None
    note = note_on(definition_of(context, statement)) if isinstance(statement, CreateTable) else ""

    def result() -> StatementResult:
        return StatementResult(statement.text, statement.kind_text, rows=rows, note=note)

    with claim.changing(result):
        rows = run_without_data(context, statement, patience)
    return result()


def _run_view_once(
    context: Context, statement: ViewStatement, claim: ToApply, patience: Patience | None
) -> StatementResult:
    result = StatementResult(statement.text, statement.kind_text)
    # Its query is analysed before: what is read for that is no part of what is applied once.
    view = prepared(context, statement, patience)
    with claim.changing(lambda: result), patiently(patience):
        run_view(context, statement, view)
    return result


def run_without_data(context: Context, statement: Statement, patience: Patience | None = None) -> Rows | None:
    """Statements that only change the catalog or the session.

    :param patience: how long to wait here for locks; by default as long as the settings say.
    :return: what some of them say.
    """
    match statement:
        case CreateTemporaryView():
            create_view(context, statement)
        case CreateTemporaryQuery():
            create_query(context, statement)
        case Load():
            _refuse_load(context, statement)
        case Alteration():
            require_rows(context.table(str(statement.table)), statement)
            context.locking.require(map(context.table, [str(statement.table)]))
            with context.locking.around(statement, patience):
                return run_alter(context, statement)
        case DropTable():
            for table in _if_there(context, str(statement.table)):
                require_no_view(table, "DROP TABLE", "DROP VIEW")
            context.locking.require(_if_there(context, str(statement.table)))
            with context.locking.around(statement, patience):
                run_ddl(context, statement)
        case DropDatabase():
            context.locking.require(_tables_of(context, statement.name) if statement.cascade else ())
            with context.locking.around(statement, patience):
                run_ddl(context, statement)
        case CreateDatabase() | AlterDatabase() | CreateTable():
            with patiently(patience):
                run_ddl(context, statement)
        case _:
            raise AssertionError(f"{statement.kind_text} is no statement of its own")
    return None


def _tables_of(context: Context, database: str) -> Iterator[Table]:
    """The tables of a database, looked up when they are asked for; none without an error when it does not exist."""
    catalog = context.client.catalog
    with contextlib.suppress(NoSuchObjectError):
        yield from catalog.find_tables([f"{database}.{name}" for name in catalog.list_tables(database)]).values()


def _if_there(context: Context, name: str) -> Iterator[Table]:
    """The table, looked up when it is asked for; none without an error when it does not exist."""
    yield from context.client.catalog.find_tables([name]).values()


def create_view(context: Context, statement: CreateTemporaryView) -> None:
    """Remember a view of files for later statements of this engine.

    :raises AlreadyExistsError: when another view has that name and OR REPLACE was not said.
    """
    name = statement.source.name
    known = context.views.get(name)
    other = name in context.queries or (known is not None and known != statement.source)
    if other and not statement.replace:
        raise AlreadyExistsError(
            f"temporary view {name} exists already, and is another one; say CREATE OR REPLACE TEMPORARY VIEW"
        )
    context.queries.pop(name, None)
    context.views[name] = statement.source


def _refuse_load(context: Context, statement: Load) -> None:
    """LOAD DATA, in Hive's words: files of somebody else have no row ids."""
    table = context.table(str(statement.table))
    what = "transactional tables" if table.is_transactional else "plain tables here either"
    raise UnsupportedStatementError(
        f"LOAD DATA … statement is not supported with {what}: {table.qualified_name}; CREATE TEMPORARY VIEW … USING "
        "the files, then INSERT INTO … SELECT"
    )
