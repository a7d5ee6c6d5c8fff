"""CREATE OR REPLACE TABLE: an overwrite and another definition of a transactional table, in one commit.

Nothing is dropped: a base with a new write id hides what was there, and readers of older snapshots go on reading it. A
try that fails or is killed leaves the table as it was.
"""

from __future__ import annotations

import dataclasses
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.definitions.ctas import columns_of, divided, with_declared_types
from airflow_hive_acid.engine.definitions.ddl import definition_like, definition_of, note_on, require_known_columns
from airflow_hive_acid.engine.locking.requests import ReplacedTable
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.queries.announcements import tell_planned
from airflow_hive_acid.engine.queries.query import run_query
from airflow_hive_acid.engine.statements.definitions import run_definition
from airflow_hive_acid.engine.statements.plans import plan_of
from airflow_hive_acid.engine.statements.truncate import publish_empty
from airflow_hive_acid.engine.statements.writes import create_table_as
from airflow_hive_acid.engine.tables.lookup import Replacement
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore.catalog import may_become, new_table, replaced
from airflow_hive_acid.sql.model.statements import Insert, Select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.transactions.claims import ToApply
    from airflow_hive_acid.metastore.catalog import Table, TableDefinition
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import ColumnDefinition, CreateTable


def make_table(
    context: Context, statement: CreateTable, claim: ToApply, patience: Patience | None = None
) -> StatementResult:
    """Make a table with the rows of a query, or (OR REPLACE) make the one that is there what the statement describes.

    :param claim: the claim on it, if it is to be applied once (R14).
    :param patience: how long it waits for its locks here; by default as long as the settings say.
    :raises InvalidArgumentsError: for a change by which older snapshots could not be read any more.
    :raises UnsupportedStatementError: for what is no transactional table.
    :raises TablePinnedError: when it would change how a pin reads.
    """
    name = str(statement.table)
    if not statement.replace:
        return create_table_as(context, statement, claim, patience)
    if name not in context.client.catalog.find_tables([name]):
        once = dataclasses.replace(statement, replace=False)
        make = create_table_as if once.query else run_definition
        return make(context, once, claim, patience)
    if statement.like is not None:
        statement = definition_like(context, statement)
    query: Plan | None = None
    listed: tuple[str, ...] = ()
    if statement.query is not None:
        query = plan_of(context, Select(statement.query, **statement.origin))
        # The table to itself, which it may have waited for, is in the way of its own query otherwise.
        locked = patience is not None and patience.holds_for_change
        looked = run_query(context, query, limit=0, patience=patience, locked=locked)
        columns = _columns(context, statement, looked)
        data, keys = divided(columns, statement.partition_columns)
        listed = tuple(column.name for column in columns) if keys else ()
        statement = dataclasses.replace(statement, columns=data, partition_columns=keys)
    require_known_columns([Column(c.name, c.type) for c in statement.columns], statement.constraints)
    definition = definition_of(context, statement)
    with _replacing(context, definition) as replacement:
        written = _run(context, statement, replacement, query, listed, claim, patience)
    return dataclasses.replace(written, kind=statement.kind_text, note=note_on(definition))


def _columns(context: Context, statement: CreateTable, looked: StatementResult) -> tuple[ColumnDefinition, ...]:
    """The columns of the query; CHAR and VARCHAR where the column that is there can become that.

    Older snapshots are read by the new types, and what was a STRING may be longer.
    """
    if statement.query is None:
        raise AssertionError("CREATE OR REPLACE … AS without a query")
    table = context.table(str(statement.table))
    keys = {column.name: column.type for column in table.partition_columns}
    partitioned = {column.name for column in statement.partition_columns}
    select = Select(statement.query, **statement.origin)
    there = iter(table.columns)
    found: list[ColumnDefinition] = []
    for plain, typed in zip(columns_of(looked), columns_of(with_declared_types(context, select, looked)), strict=True):
        if plain.name in partitioned:
            fits = keys.get(plain.name) == typed.type
        else:
            old = next(there, None)
            fits = old is None or may_become(old.type, typed.type)
        found.append(typed if fits else plain)
    return tuple(found)


@contextmanager
def _replacing(context: Context, definition: TableDefinition) -> Iterator[Replacement]:
    """While a block plans and runs what fills the table anew."""
    planned = context.client.catalog.plan_table(definition)
    new = new_table(planned)
    table = context.table(new.qualified_name)
    replaced(table, new, planned.location if definition.location is not None else None)
    context.client.pins.require_unpinned([new.qualified_name], "replacing it")
    replacement = context.tables.replacements[new.qualified_name] = Replacement(definition, new)
    try:
        yield replacement
    finally:
        del context.tables.replacements[new.qualified_name]


def _run(
    context: Context,
    statement: CreateTable,
    replacement: Replacement,
    query: Plan | None,
    listed: tuple[str, ...],
    claim: ToApply,
    patience: Patience | None,
) -> StatementResult:
    started, name = time.monotonic(), str(statement.table)
    table = context.table(name)
    wanted = ReplacedTable(statement.table, statement.text, () if query is None else (query,), table.is_partitioned)
    operations = {**(query.operations if query is not None else {}), name: "overwrite"}
    if query is not None:
        context.application.ready()
    with StatementTransaction.begin(context, operations, wanted, claim, patience) as transaction:
        filled: StatementResult | None = None
        if statement.query is not None:
            # Planned now that the locks keep the tables as they are; what it reads of the table has the old columns.
            insert = Insert(statement.table, statement.query, overwrite=True, columns=listed, **statement.origin)
            planned = _planned(context, insert, transaction.table, replacement)
            tell_planned(context, planned, transaction)
            filled = transaction.run(planned)
        table = transaction.table(name)
        kept = transaction.overwritten(name)
        left = [part for part in transaction.partitions(table, {}) if part.name not in kept]
        emptied = publish_empty(transaction, table, left) if left else ()
        result = StatementResult(
            statement.text,
            statement.kind_text,
            txn_id=transaction.txn_id,
            write_ids={name: transaction.write_ids[name]},
            inserted=0 if filled is None else filled.inserted,
            directories=(*(() if filled is None else filled.directories), *emptied),
            seconds=time.monotonic() - started,
        )
        transaction.remember([result])
    return result


def _planned(context: Context, insert: Insert, table_of: Callable[[str], Table], replacement: Replacement) -> Plan:
    table = replaced(table_of(str(insert.table)), replacement.table).table
    return plan_of(context, insert, table_of, replaced=table)
