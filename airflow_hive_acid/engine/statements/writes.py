"""Statements that write rows: planned, held back where there are too many deltas, run in a transaction."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.definitions.concatenate import rewriting
from airflow_hive_acid.engine.definitions.ctas import columns_of, creating, divided, with_declared_types
from airflow_hive_acid.engine.definitions.ddl import definition_of, note_on
from airflow_hive_acid.engine.locking.requests import Definition, NewTable, Statements
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.queries.announcements import tell_planned
from airflow_hive_acid.engine.queries.query import run_query
from airflow_hive_acid.engine.statements.plans import plan_of, plans_of
from airflow_hive_acid.engine.statements.views import require_files
from airflow_hive_acid.engine.transactions.back_pressure import hold_back
from airflow_hive_acid.engine.transactions.claims import UNCLAIMED
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import AlreadyExistsError
from airflow_hive_acid.sql.model.plans import combine_operations
from airflow_hive_acid.sql.model.statements import (
    CreateTable,
    Delete,
    Insert,
    Merge,
    MultiInsert,
    Select,
    Update,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.locking.requests import Wanted
    from airflow_hive_acid.engine.transactions.claims import ToApply
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.alterations import Concatenate
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import DataStatement


def run_write(
    context: Context,
    statement: Insert | MultiInsert | Update | Delete | Merge,
    wanted: Wanted | None = None,
    claim: ToApply = UNCLAIMED,
    patience: Patience | None = None,
) -> StatementResult:
    """Run a statement in a transaction of its own.

    :param wanted: what it locks; by default what it reads and writes.
    :param claim: the claim on it, if it is to be applied once (R14).
    :param patience: how long it waits for its locks here; by default as long as the settings say.
    :raises BackPressureError: when there are too many deltas, and the settings have it wait or be refused.
    """
    tables: dict[str, Table] = {}

    def looked_up(name: str) -> Table:
        if name not in tables:
            tables[name] = context.table(name)
        return tables[name]

    plans = plans_of(context, statement, looked_up)
    # Before the transaction: nobody should wait for our locks while a compaction or a JVM is waited for.
    hold_back(context, plans, looked_up)
    context.application.ready()
    wanted = Statements(plans) if wanted is None else wanted
    with StatementTransaction.begin(context, combine_operations(plans), wanted, claim, patience) as transaction:
        # The locks keep the tables as they are; what was planned before them counts if nothing has changed until then.
        if any(transaction.table(name) != table for name, table in tables.items()):
            plans = plans_of(context, statement, transaction.table)
        result = _run_plans(context, transaction, statement, plans)
        transaction.remember([result])
    return result


def run_planned(
    context: Context, transaction: StatementTransaction, statement: DataStatement | MultiInsert
) -> StatementResult:
    """Run a statement in an open transaction, planned now that the locks keep the tables as they are."""
    plans = plans_of(context, statement, transaction.table)
    # A compaction reaches up to this txn's own write id, so what is waited for can come while it is open.
    hold_back(context, plans, transaction.table)
    return _run_plans(context, transaction, statement, plans)


def _run_plans(
    context: Context, transaction: StatementTransaction, statement: DataStatement | MultiInsert, plans: Sequence[Plan]
) -> StatementResult:
    results = []
    for planned in plans:
        tell_planned(context, planned, transaction)
        results.append(transaction.run(planned))
    if len(results) == 1:
        return results[0]
    return dataclasses.replace(
        results[0],
        statement=statement.text,
        kind=statement.kind_text,
        inserted=sum(result.inserted for result in results),
        write_ids={table: write_id for result in results for table, write_id in result.write_ids.items()},
        directories=tuple(directory for result in results for directory in result.directories),
    )


def concatenate(context: Context, statement: Concatenate, claim: ToApply, patience: Patience | None) -> StatementResult:
    """Write a plain table, or a partition of it, again, under the locks of CONCATENATE."""
    require_files(context.table(str(statement.table)), "CONCATENATE")
    insert = rewriting(context, statement)
    written = run_write(context, insert, Definition(statement), claim, patience)
    return dataclasses.replace(written, statement=statement.text, kind=statement.kind_text)


def create_table_as(
    context: Context, statement: CreateTable, claim: ToApply, patience: Patience | None = None
) -> StatementResult:
    """The table and its rows, in one commit.

    :param patience: how long it waits for its locks here; by default as long as the settings say.
    """
    query = statement.query
    if query is None:
        raise AssertionError("CREATE TABLE … AS without a query")
    select = Select(query, **statement.origin)
    name = str(statement.table)
    if context.client.catalog.find_tables([name]):
        if not statement.if_not_exists:
            raise AlreadyExistsError(f"table {name} exists already; drop it, or INSERT into it")
        return StatementResult(statement.text, statement.kind_text)
    planned = plan_of(context, select)
    looked = run_query(context, planned, limit=0, patience=patience)
    columns = columns_of(with_declared_types(context, select, looked))
    data, keys = divided(columns, statement.partition_columns)
    made = dataclasses.replace(statement, columns=data, partition_columns=keys, query=None)
    definition = definition_of(context, made)
    # The query may give the partition columns anywhere.
    listed = tuple(column.name for column in columns) if keys else ()
    with creating(context, definition) as table:
        wanted = NewTable(statement.table, planned, table.is_transactional)
        insert = Insert(statement.table, query, columns=listed, **statement.origin)
        written = run_write(context, insert, wanted, claim, patience)
    return dataclasses.replace(written, kind=statement.kind_text, note=note_on(definition))
