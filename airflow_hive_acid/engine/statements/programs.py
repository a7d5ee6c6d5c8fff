"""Functions of somebody's own as one statement: they read snapshots, what they ask for is written, all or nothing.

The function runs in the Spark driver and writes nothing. What it asks for are statements of the same txn, whose rows
are the DataFrames that it left in the application. They are planned, staged, published and committed as all others
(R4, R5), and claimed together with the function (R14): a retry calls it only if nothing was committed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult
from airflow_hive_acid.engine.queries.announcements import tell_planned
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import DATAFRAME, Column, Source
from airflow_hive_acid.sql.model.origins import Origin
from airflow_hive_acid.sql.model.plans import STRENGTH, Plan, ProgramTemplate, TableRead, is_external
from airflow_hive_acid.sql.model.pruning import PartitionFilter
from airflow_hive_acid.sql.parsing.builders import (
    delete_statement,
    insert_statement,
    merge_statement,
    table_name,
    update_statement,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.transactions.claims import ToApply
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.statements import Select, Statement

    RunInside = Callable[[StatementTransaction, Sequence[str]], list[StatementResult]]

_SHOWN = 12
RETURNED = (Column("returned", "string"),)


@dataclass(frozen=True, slots=True)
class Call:
    """A function to call.

    :param name: what messages call it.
    :param tables: what may be done to each table it names: ``select``, ``insert``, ``delete``, ``update`` (MERGE, too)
        or ``overwrite``; each allows those before it.
    :param source: text of the Python file that holds it; None if ``module`` is imported where the driver runs.
    :param arguments: plain JSON values; what it gets beside the job.
    """

    name: str
    tables: Mapping[str, str]
    source: str | None = None
    module: str | None = None
    function: str = "main"
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def operations(self) -> dict[str, str]:
        """Operation by full table name.

        :raises InvalidArgumentsError: for no table, a name that is none, and an operation that is none.
        """
        return operations_of(self.tables)

    def statement(self) -> Statement:
        """As a statement of a script: its text tells it from another function, file or arguments."""
        if (self.source is None) == (self.module is None):
            raise InvalidArgumentsError("a job is the text of a file or a module, exactly one of them")
        try:
            what = json.dumps([self.source, self.module, self.function, dict(self.arguments)], sort_keys=True)
        except (TypeError, ValueError) as problem:
            raise InvalidArgumentsError(f"arguments must be what JSON can hold, dates as text: {problem}") from None
        digest = hashlib.sha256(what.encode()).hexdigest()[:_SHOWN]
        tables = ", ".join(f"{operation} {table}" for table, operation in sorted(self.operations().items()))
        return Program(text=f"{self.name}: {self.function}(job) [{digest}] on {tables}")  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Program(Origin):
    """A call in the place of a statement."""


def operations_of(tables: Mapping[str, str]) -> dict[str, str]:
    """Operation by full table name.

    :raises InvalidArgumentsError: for no table, a name that is none, and an operation that is none.
    """
    found = {}
    for name, given in tables.items():
        operation = "update" if str(given).lower() == "merge" else str(given).lower()
        if operation not in STRENGTH:
            raise InvalidArgumentsError(f"tables[{name!r}] must be one of {', '.join(STRENGTH)}, not {given!r}")
        found[str(table_name(name, "tables"))] = operation
    if not found:
        raise InvalidArgumentsError("tables is empty; name what is read and written")
    return found


def run_call(
    context: Context, call: Call, claim: ToApply, patience: Patience | None, run_inside: RunInside
) -> StatementResult:
    """Call the function and make the changes it asks for, in a transaction of its own.

    :param claim: the claim on it, if it is to be done once (R14).
    :param patience: how long it waits for its locks here; None for as long as the settings say.
    :param run_inside: runs statements of an open transaction.
    :return: with what the function returned, as JSON, in its only row.
    """
    context.application.ready()
    with StatementTransaction.begin(context, call.operations(), None, claim, patience) as transaction:
        result = run_call_inside(context, call, transaction, run_inside)
        transaction.remember([result])
    return result


def run_call_inside(
    context: Context, call: Call, transaction: StatementTransaction, run_inside: RunInside
) -> StatementResult:
    """The same in a transaction that is open already, and stays so."""
    plan = _plan(context, call, call.operations())
    tell_planned(context, plan, transaction)
    found = transaction.run(plan)
    if found.rows is None:
        raise AssertionError("a program without an answer")
    changes, returned = found.rows.rows[0]
    results = _make(context, transaction, json.loads(changes), run_inside)
    return StatementResult(
        statement=call.statement().text,
        kind="program",
        inserted=sum(r.inserted for r in results),
        updated=sum(r.updated for r in results),
        deleted=sum(r.deleted for r in results),
        rows=Rows(RETURNED, [[returned]]),
        txn_id=transaction.txn_id,
        write_ids={table: write_id for r in results for table, write_id in r.write_ids.items()},
        directories=tuple(directory for r in results for directory in r.directories),
    )


def _plan(context: Context, call: Call, operations: Mapping[str, str]) -> Plan:
    """All its tables are read whole: nobody knows what it will ask for."""
    reads = []
    for name in operations:
        table = context.table(name)
        columns = tuple((column.name, column.type) for column in table.partition_columns)
        reads.append(
            TableRead(
                name, name, PartitionFilter(columns), transactional=table.is_transactional, external=is_external(table)
            )
        )
    template = ProgramTemplate(call.name, call.source, call.module, call.function, dict(call.arguments))
    statement: Select = call.statement()  # type: ignore[assignment]
    return Plan(statement, "program", None, tuple(reads), (), template)


def _make(
    context: Context, transaction: StatementTransaction, changes: Sequence[Mapping[str, Any]], run_inside: RunInside
) -> list[StatementResult]:
    sources = [change["source"] for change in changes if "source" in change]
    try:
        for name in sources:
            context.views[name] = Source(name, DATAFRAME, {"view": name})
        return run_inside(transaction, [_text(change) for change in changes])
    finally:
        for name in sources:
            context.views.pop(name, None)


def _text(change: Mapping[str, Any]) -> str:
    """The statement for a change that the function asked for."""
    table, parameters = change["table"], change.get("parameters")
    rows = f"SELECT * FROM {change['source']}" if "source" in change else ""  # noqa: S608 - a name of our own making
    match change["action"]:
        case "insert" | "overwrite" as action:
            partition, columns = change["partition"], change["columns"]
            overwrite = action == "overwrite"
            return insert_statement(table, rows, partition=partition, columns=columns, overwrite=overwrite)
        case "update":
            return update_statement(table, change["set"], change["values"], change["where"], parameters)
        case "delete":
            return delete_statement(table, change["where"], parameters)
        case "merge":
            return merge_statement(table, rows, change["on"], change["clauses"], parameters=parameters)
    raise InvalidArgumentsError(f"a job cannot ask for {change['action']!r}")
