"""Running a script: statement by statement, or block by block where statements share a transaction.

What kind of statement goes where is decided here and nowhere else. A failure carries a note that names the statement;
everything before it that was committed stays committed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.definitions.alter import run_alter
from airflow_hive_acid.engine.definitions.concatenate import rewriting
from airflow_hive_acid.engine.definitions.ctas import columns_of, creating, divided
from airflow_hive_acid.engine.definitions.ddl import definition_of, note_on, run_ddl
from airflow_hive_acid.engine.locking.requests import Definition, NewTable, Statements
from airflow_hive_acid.engine.outcomes.events import Noted, StatementFinished, StatementStarted
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.queries.announcements import tell_planned
from airflow_hive_acid.engine.queries.explain import explain, explain_locks
from airflow_hive_acid.engine.queries.lookups import look
from airflow_hive_acid.engine.queries.query import run_query
from airflow_hive_acid.engine.queries.shows import missing, show
from airflow_hive_acid.engine.statements.aborts import abort
from airflow_hive_acid.engine.statements.exports import insert_directory
from airflow_hive_acid.engine.statements.leases import drop_force_lease, show_lease
from airflow_hive_acid.engine.statements.plans import plan_of, plans_of
from airflow_hive_acid.engine.statements.session import Session
from airflow_hive_acid.engine.statements.statistics import analyze
from airflow_hive_acid.engine.statements.transfers import transfer
from airflow_hive_acid.engine.statements.truncate import check_truncate, truncate, truncate_inside
from airflow_hive_acid.engine.statements.views import create_query, prepared, require_no_view, run_view
from airflow_hive_acid.engine.transactions.back_pressure import hold_back
from airflow_hive_acid.engine.transactions.claims import UNCLAIMED, AlreadyApplied, take
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    HiveAcidError,
    LocksPendingError,
    NoSuchObjectError,
    TxnAbortedError,
    UnsupportedStatementError,
)
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.python_versions import add_note
from airflow_hive_acid.sql.model.alterations import Alteration, Concatenate
from airflow_hive_acid.sql.model.lookups import Lookup
from airflow_hive_acid.sql.model.plans import STRENGTH, combine_operations
from airflow_hive_acid.sql.model.session import SessionStatement
from airflow_hive_acid.sql.model.statements import (
    Abort,
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    CreateTemporaryView,
    Delete,
    DropDatabase,
    DropForceLease,
    DropTable,
    Explain,
    Fragment,
    Insert,
    InsertDirectory,
    Load,
    Merge,
    MultiInsert,
    Origin,
    Rollback,
    Select,
    Show,
    ShowLease,
    Truncate,
    Update,
)
from airflow_hive_acid.sql.model.statistics import Analyze
from airflow_hive_acid.sql.model.transfers import ReplicationStatement
from airflow_hive_acid.sql.model.views import CreateTemporaryQuery, ViewStatement
from airflow_hive_acid.sql.text.masking import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.locking.requests import Wanted
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.engine.statements.blocks import Block
    from airflow_hive_acid.engine.transactions.claims import Once, ToApply
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import DataStatement, PlainStatement, Statement

_OF_SCRIPT = (CreateTemporaryView, CreateTemporaryQuery, SessionStatement)
_WRITES = (Insert, MultiInsert, Update, Delete, Merge, Truncate)


class Script:
    """One run of a script: numbers its statements and collects their results.

    :param total: how many statements it has.
    :param snapshot: document of the reader as which every SELECT outside a transaction reads.
    :param once: what its tries have in common, if each write of it is to be applied once (R14).
    :param patience: how long statements that write wait for locks here; by default as long as the settings say.
    :param session: what holds for the rest of the script; the caller has entered it.
    """

    def __init__(
        self,
        context: Context,
        total: int,
        snapshot: Mapping[str, Any] | None = None,
        once: Once | None = None,
        patience: Patience | None = None,
        session: Session | None = None,
    ) -> None:
        self._context = context
        self._session = session or Session(context)
        self._total = total
        self._snapshot = snapshot
        self._once = once
        self._patience = patience
        self._number = 0
        self.results: list[StatementResult] = []

    def run(self, block: Block) -> None:
        """Run a block of the script."""
        if not block.transactional:
            self._alone(block.statements[0])
            return
        begin = block.begin
        if begin is not None:
            self._numbered(begin, lambda: StatementResult(begin.text, "begin"))
        self._together(block)
        end = block.end
        if end is not None:
            self._numbered(end, lambda: StatementResult(end.text, end.kind_text))

    def apply(self, statement: Statement, run: Callable[[ToApply], StatementResult]) -> None:
        """Run what is no SQL as a statement of the script: numbered, told, and applied once.

        :param statement: its text identifies it.
        """
        self._numbered(statement, lambda: self._apply(statement, run))

    def run_inside(self, transaction: StatementTransaction, statements: Sequence[Statement]) -> None:
        """Run statements of an open transaction."""
        for statement in statements:
            if isinstance(statement, _OF_SCRIPT):
                self._alone(statement)
            elif isinstance(statement, Truncate):
                self._numbered(statement, lambda s=statement: truncate_inside(transaction, s))  # type: ignore[misc]
            else:
                # Planned again, now that the locks keep the tables as they are.
                self._numbered(statement, lambda s=statement: _run_planned(self._context, transaction, s))  # type: ignore[misc]

    def _create_table_as(self, statement: CreateTable, claim: ToApply) -> StatementResult:
        """The table and its rows, in one commit."""
        context, query = self._context, statement.query
        if query is None:
            raise AssertionError("CREATE TABLE … AS without a query")
        origin = {f.name: getattr(statement, f.name) for f in dataclasses.fields(Origin)}
        select = _query_of(statement, query)
        name = str(statement.table)
        if context.client.catalog.find_tables([name]):
            if not statement.if_not_exists:
                raise AlreadyExistsError(f"table {name} exists already; drop it, or INSERT into it")
            return StatementResult(statement.text, statement.kind_text)
        planned = plan_of(context, select)
        columns = columns_of(run_query(context, planned, limit=0))
        data, keys = divided(columns, statement.partition_columns)
        made = dataclasses.replace(statement, columns=data, partition_columns=keys, query=None)
        definition = definition_of(context, made)
        # The query may give the partition columns anywhere.
        listed = tuple(column.name for column in columns) if keys else ()
        with creating(context, definition) as table:
            wanted = NewTable(statement.table, planned, table.is_transactional)
            # With all patience: a request that waits elsewhere would be for a table that is gone again.
            insert = Insert(statement.table, query, columns=listed, **origin)
            written = _run_write(context, insert, wanted, claim)
        return dataclasses.replace(written, kind=statement.kind_text, note=note_on(definition))

    def _explain(self, statement: PlainStatement, *, locks: bool) -> Rows:
        """What a statement would do; nothing is done."""
        plans: list[Plan] = []
        if isinstance(statement, Select | Insert | MultiInsert | Update | Delete | Merge):
            plans = plans_of(self._context, statement)
        elif isinstance(statement, CreateTable) and statement.query is not None:
            plans = [plan_of(self._context, _query_of(statement, statement.query))]
        return (explain_locks if locks else explain)(self._context, statement, plans)

    def _together(self, block: Block) -> None:
        rolled_back = isinstance(block.end, Rollback)
        writes = any(isinstance(statement, _WRITES) for statement in block.statements)
        claim = self._claimed(self._number + 1, block.statements) if writes and not rolled_back else UNCLAIMED
        if isinstance(claim, AlreadyApplied):
            self._repeat(block.statements, claim.results)
            return
        operations, wanted = declared_operations(self._context, block.statements)
        if not operations:
            # Views, or queries of constants: there is nothing to lock, nothing to commit.
            for statement in block.statements:
                self._alone(statement)
            return
        self._context.application.ready()
        before = len(self.results)
        with (
            _settled(claim),
            StatementTransaction.begin(self._context, operations, wanted, claim, self._patience) as transaction,
        ):
            self.run_inside(transaction, block.statements)
            if rolled_back:
                transaction.abort("rollback")
            else:
                transaction.remember(self.results[before:])

    def _claimed(self, unit: int, statements: Sequence[Statement]) -> ToApply | AlreadyApplied:
        """The claim on statements that are about to run, if they are to be applied once.

        :param unit: number of the first of them.
        """
        if self._once is None:
            return UNCLAIMED
        return take(self._context, self._once, unit, [statement.text for statement in statements], self._patience)

    def _repeat(self, statements: Sequence[Statement], results: Sequence[StatementResult]) -> None:
        """Give the results of an earlier try; only views have to be made again, because the session is new."""
        for statement, result in zip(statements, results, strict=True):
            if isinstance(statement, _OF_SCRIPT):
                self._alone(statement)
            else:
                self._numbered(statement, lambda s=statement, r=result: self._again(s, r))  # type: ignore[misc]

    def _again(self, statement: Statement, result: StatementResult) -> StatementResult:
        """The result of an earlier try; what it read and wrote is told if the catalog still knows it."""
        if isinstance(statement, Select | Insert | MultiInsert | Update | Delete | Merge):
            with contextlib.suppress(HiveAcidError):
                for planned in plans_of(self._context, statement):
                    tell_planned(self._context, planned)
        return result

    def _apply(self, statement: Statement, run: Callable[[ToApply], StatementResult]) -> StatementResult:
        """Run a statement that writes, in a transaction of its own; once, if the script is to be applied once."""
        claim = self._claimed(self._number, [statement])
        if isinstance(claim, AlreadyApplied):
            return self._again(statement, dataclasses.replace(claim.results[0], kind=statement.kind_text))
        result: StatementResult | None = None
        with _settled(claim) as settled:
            result = run(claim)
        return result or dataclasses.replace(settled[0], kind=statement.kind_text)

    def _alone(self, statement: Statement) -> None:
        self._numbered(statement, lambda: self._result_of(statement))

    def _numbered(self, statement: Statement, action: Callable[[], StatementResult]) -> None:
        self._number += 1
        started = time.monotonic()
        self._context.emit(
            StatementStarted(
                self._number, self._total, statement.kind_text, statement.line, hide_secrets(statement.text)
            )
        )
        with named(statement):
            result = dataclasses.replace(action(), seconds=time.monotonic() - started)
        self.results.append(result)
        self._context.emit(StatementFinished(self._number, self._total, result))

    def _shown(self, statement: Show | ShowLease | Lookup | SessionStatement) -> Rows | None:
        client = self._context.client
        if isinstance(statement, Show | ShowLease):
            self._note_missing(statement)
        match statement:
            case Show():
                return show(client, statement, self._context.settings)
            case ShowLease():
                return show_lease(client, statement)
            case SessionStatement():
                return self._session.run(statement)
        return look(client, statement)

    def _note_missing(self, statement: Show | ShowLease) -> None:
        """Say so when what is asked about is not there: no locks on a misspelt table are no good news."""
        table = statement.table
        database = table.database if table is not None else getattr(statement, "database", None)
        partition = partition_name(statement.partition) if statement.partition else None
        said = missing(self._context.client, database, None if table is None else table.name, partition)
        if said:
            self._context.emit(Noted(said))

    def _queried(self, statement: Select | InsertDirectory) -> StatementResult:
        """The rows of a query, or the files that they became."""
        if isinstance(statement, Select):
            return run_query(self._context, plan_of(self._context, statement), self._snapshot)
        return insert_directory(self._context, statement, self._once, self._number)

    def _result_of(self, statement: Statement) -> StatementResult:
        context, rows = self._context, None
        match statement:
            case Select() | InsertDirectory():
                return self._queried(statement)
            case Insert() | MultiInsert() | Update() | Delete() | Merge():
                return self._apply(statement, lambda claim: _run_write(context, statement, None, claim, self._patience))
            case Truncate():
                return self._apply(statement, lambda claim: truncate(context, statement, claim, self._patience))
            case CreateTable(query=Fragment()):
                return self._apply(statement, lambda claim: self._create_table_as(statement, claim))
            case Analyze():
                return self._apply(statement, lambda claim: analyze(context, statement, claim))
            case Concatenate() if not context.table(str(statement.table)).is_transactional:
                return self._apply(statement, lambda claim: _concatenate(context, statement, claim, self._patience))
            case Show() | ShowLease() | Lookup() | SessionStatement():
                rows = self._shown(statement)
            case Abort():
                rows = abort(context, statement)
            case DropForceLease():
                rows = drop_force_lease(context.client, statement)
            case Explain(statement=explained):
                rows = self._explain(explained, locks=statement.locks)
            case CreateTemporaryView() | CreateTemporaryQuery() | Load():
                _run_without_data(context, statement)
            case _:
                return self._apply(statement, lambda claim: _run_ddl_once(context, statement, claim))
        return StatementResult(statement.text, statement.kind_text, rows=rows)


def _concatenate(
    context: Context, statement: Concatenate, claim: ToApply, patience: Patience | None
) -> StatementResult:
    insert = rewriting(context, statement)
    written = _run_write(context, insert, Definition(statement), claim, patience)
    return dataclasses.replace(written, statement=statement.text, kind=statement.kind_text)


def _run_ddl_once(context: Context, statement: Statement, claim: ToApply) -> StatementResult:
    if isinstance(statement, ReplicationStatement):
        return transfer(context, statement, claim)
    if isinstance(statement, ViewStatement):
        return _run_view_once(context, statement, claim)
    rows: Rows | None = None
    note = note_on(definition_of(context, statement)) if isinstance(statement, CreateTable) else ""

    def result() -> StatementResult:
        return StatementResult(statement.text, statement.kind_text, rows=rows, note=note)

    with claim.changing(result):
        rows = _run_without_data(context, statement)
    return result()


def _run_view_once(context: Context, statement: ViewStatement, claim: ToApply) -> StatementResult:
    result = StatementResult(statement.text, statement.kind_text)
    # Its query is analysed before: what is read for that is no part of what is applied once.
    view = prepared(context, statement)
    with claim.changing(lambda: result):
        run_view(context, statement, view)
    return result


def _run_without_data(context: Context, statement: Statement) -> Rows | None:
    """Statements that only change the catalog or the session.

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
            require_no_view(context.table(str(statement.table)), "ALTER TABLE", "ALTER VIEW")
            context.locking.require(map(context.table, [str(statement.table)]))
            with context.locking.around(statement):
                return run_alter(context, statement)
        case DropTable():
            for table in _if_there(context, str(statement.table)):
                require_no_view(table, "DROP TABLE", "DROP VIEW")
            context.locking.require(_if_there(context, str(statement.table)))
            with context.locking.around(statement):
                run_ddl(context, statement)
        case DropDatabase():
            context.locking.require(_tables_of(context, statement.name) if statement.cascade else ())
            with context.locking.around(statement):
                run_ddl(context, statement)
        case CreateDatabase() | AlterDatabase() | CreateTable():
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


def declared_operations(context: Context, statements: Sequence[Statement]) -> tuple[dict[str, str], Statements]:
    """What a transaction for these statements must declare and lock; views are made, because later ones read them."""
    plans, truncates = [], []
    for statement in statements:
        with named(statement):
            if isinstance(statement, CreateTemporaryView):
                create_view(context, statement)
            elif isinstance(statement, CreateTemporaryQuery):
                create_query(context, statement)
            elif isinstance(statement, Truncate):
                check_truncate(context, statement)
                truncates.append(statement)
            elif isinstance(statement, Select | Insert | MultiInsert | Update | Delete | Merge):
                plans += plans_of(context, statement)
    operations = combine_operations(plans)
    for truncated in (str(statement.table) for statement in truncates):
        operations[truncated] = max(operations.get(truncated, "select"), "overwrite", key=STRENGTH.index)
    return operations, Statements(plans, truncates)


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


@contextlib.contextmanager
def _settled(claim: ToApply) -> Iterator[list[StatementResult]]:
    """Look a commit up whose answer was lost, if its claim can tell; what was committed is put into the list."""
    found: list[StatementResult] = []
    try:
        yield found
    except LocksPendingError as pending:
        claim.waiting(pending)
        raise
    except CommitStateUnknownError as lost:
        settled = claim.settle(lost)
        if settled is None:
            raise TxnAbortedError(
                "the connection broke while the commit was on its way, and it did not arrive; nothing was applied: "
                "try again"
            ) from lost
        found += settled.results


@contextlib.contextmanager
def named(statement: Statement) -> Iterator[None]:
    """Let a failure say in which statement it happened."""
    try:
        yield
    except Exception as error:
        note = f"in the statement on line {statement.line}: {_shortened(hide_secrets(statement.text))}"
        if note not in getattr(error, "__notes__", ()):
            add_note(error, note)
        raise


def _run_write(
    context: Context,
    statement: Insert | MultiInsert | Update | Delete | Merge,
    wanted: Wanted | None = None,
    claim: ToApply = UNCLAIMED,
    patience: Patience | None = None,
) -> StatementResult:
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


def _run_planned(
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


def _query_of(statement: CreateTable, query: Fragment) -> Select:
    """The query of CREATE TABLE … AS as a statement of its own."""
    return Select(query, **{f.name: getattr(statement, f.name) for f in dataclasses.fields(Origin)})


def _refuse_load(context: Context, statement: Load) -> None:
    """LOAD DATA, in Hive's words: files of somebody else have no row ids."""
    table = context.table(str(statement.table))
    what = "transactional tables" if table.is_transactional else "plain tables here either"
    raise UnsupportedStatementError(
        f"LOAD DATA … statement is not supported with {what}: {table.qualified_name}; CREATE TEMPORARY VIEW … USING "
        "the files, then INSERT INTO … SELECT"
    )


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"
