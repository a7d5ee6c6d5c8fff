"""Running a script: statement by statement, or block by block where statements share a transaction.

What kind of statement goes where is decided here and nowhere else. A failure carries a note that names the statement;
everything before it that was committed stays committed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.locking.requests import Statements
from airflow_hive_acid.engine.outcomes.events import StatementFinished, StatementStarted
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.queries.announcements import tell_planned
from airflow_hive_acid.engine.queries.explain import explain, explain_locks
from airflow_hive_acid.engine.queries.lookups import look
from airflow_hive_acid.engine.queries.query import run_query
from airflow_hive_acid.engine.queries.shows import missing, partition_meant, show
from airflow_hive_acid.engine.statements.aborts import abort
from airflow_hive_acid.engine.statements.definitions import create_view, run_definition, run_without_data
from airflow_hive_acid.engine.statements.exports import insert_directory
from airflow_hive_acid.engine.statements.leases import drop_force_lease, show_lease
from airflow_hive_acid.engine.statements.plans import plan_of, plans_of
from airflow_hive_acid.engine.statements.replacement import make_table
from airflow_hive_acid.engine.statements.session import Session
from airflow_hive_acid.engine.statements.statistics import analyze
from airflow_hive_acid.engine.statements.temporary import TemporaryTables
from airflow_hive_acid.engine.statements.truncate import check_truncate, truncate, truncate_inside
from airflow_hive_acid.engine.statements.views import create_query
from airflow_hive_acid.engine.statements.writes import concatenate, run_planned, run_write
from airflow_hive_acid.engine.transactions.claims import UNCLAIMED, AlreadyApplied, take
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    LocksPendingError,
    TxnAbortedError,
)
from airflow_hive_acid.python_versions import add_note
from airflow_hive_acid.sql.model.alterations import Concatenate
from airflow_hive_acid.sql.model.lookups import Lookup
from airflow_hive_acid.sql.model.plans import STRENGTH, combine_operations
from airflow_hive_acid.sql.model.session import SessionStatement
from airflow_hive_acid.sql.model.statements import (
    Abort,
    CreateTable,
    CreateTemporaryView,
    Delete,
    DropForceLease,
    Explain,
    Fragment,
    Insert,
    InsertDirectory,
    Load,
    Merge,
    MultiInsert,
    Rollback,
    Select,
    Show,
    ShowLease,
    Truncate,
    Update,
)
from airflow_hive_acid.sql.model.statistics import Analyze
from airflow_hive_acid.sql.model.views import CreateTemporaryQuery
from airflow_hive_acid.sql.planning.named_tables import identity
from airflow_hive_acid.sql.text.masking import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.outcomes.results import Rows
    from airflow_hive_acid.engine.statements.blocks import Block
    from airflow_hive_acid.engine.transactions.claims import Once, ToApply
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import PlainStatement, Statement

_OF_SCRIPT = (CreateTemporaryView, CreateTemporaryQuery, SessionStatement)
_WRITES = (Insert, MultiInsert, Update, Delete, Merge, Truncate)


class Script:
    """One run of a script: numbers its statements and collects their results.

    :param total: how many statements it has.
    :param snapshot: document of the reader as which every SELECT outside a transaction reads.
    :param once: what its tries have in common, if each write of it is to be applied once (R14).
    :param patience: how long statements wait for locks here; by default as long as the settings say.
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
        self.temporary = TemporaryTables(context)
        self._total = total
        self._snapshot = snapshot
        self._once = once
        self._given_patience = patience
        self._stays = False
        self._number = 0
        self.results: list[StatementResult] = []

    @property
    def _patience(self) -> Patience | None:
        """How long the next statement waits for its locks here.

        Another process would fill the temporary tables anew, from what is there by then: once something was applied
        beside them, it would not go on where this one is.
        """
        return None if self._stays else self._given_patience

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
            self.temporary.require_none(statement)
            if isinstance(statement, _OF_SCRIPT):
                self._alone(statement)
            elif isinstance(statement, Truncate):
                self._numbered(statement, lambda s=statement: truncate_inside(transaction, s))  # type: ignore[misc]
            else:
                # Planned again, now that the locks keep the tables as they are.
                self._numbered(statement, lambda s=statement: run_planned(self._context, transaction, s))  # type: ignore[misc]

    def _explain(self, statement: PlainStatement, *, locks: bool) -> Rows:
        """What a statement would do; nothing is done."""
        plans: list[Plan] = []
        if isinstance(statement, Select | Insert | MultiInsert | Update | Delete | Merge):
            plans = plans_of(self._context, statement)
        elif isinstance(statement, CreateTable) and statement.query is not None:
            plans = [plan_of(self._context, Select(statement.query, **statement.origin))]
        return (explain_locks if locks else explain)(self._context, statement, plans)

    def _together(self, block: Block) -> None:
        for statement in block.statements:
            self.temporary.require_none(statement)
        rolled_back = isinstance(block.end, Rollback)
        writes = any(isinstance(statement, _WRITES) for statement in block.statements)
        claim = self._claimed(self._number + 1, block.statements) if writes and not rolled_back else UNCLAIMED
        if isinstance(claim, AlreadyApplied):
            self._was_applied(block.statements, claim.results)
            self._repeat(block.statements, claim.results)
            return
        operations, wanted = declared_operations(self._context, block.statements)
        for statement in block.statements:
            self.temporary.require_kept(statement)
        if not operations:
            # Views, or queries of constants: there is nothing to lock, nothing to commit.
            for statement in block.statements:
                self._alone(statement)
            return
        self._context.application.ready()
        before = len(self.results)
        with (
            self._patient(self._number + 1),
            _settled(claim),
            StatementTransaction.begin(self._context, operations, wanted, claim, self._patience) as transaction,
        ):
            self.run_inside(transaction, block.statements)
            if rolled_back:
                transaction.abort("rollback")
            else:
                transaction.remember(self.results[before:])
        self._stays |= writes and self.temporary.are_there

    def _was_applied(self, statements: Sequence[Statement], results: Sequence[StatementResult]) -> None:
        """An earlier try has applied statements, when its temporary tables held what they held then."""
        self._stays |= self.temporary.are_there
        self.temporary.changed_before(statements, [table for result in results for table in result.write_ids])

    def _claimed(self, unit: int, statements: Sequence[Statement]) -> ToApply | AlreadyApplied:
        """The claim on statements that are about to run, if they are to be applied once.

        :param unit: number of the first of them.
        """
        if self._once is None:
            return UNCLAIMED
        return take(self._context, self._once, unit, [identity(statement) for statement in statements], self._patience)

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
            self._was_applied([statement], claim.results)
            return self._again(statement, dataclasses.replace(claim.results[0], kind=statement.kind_text))
        self.temporary.require_kept(statement)
        result: StatementResult | None = None
        with _settled(claim) as settled:
            result = run(claim)
        self._stays |= self.temporary.are_there
        return result or dataclasses.replace(settled[0], kind=statement.kind_text)

    def _alone(self, statement: Statement) -> None:
        of_script = self.temporary if self.temporary.takes(statement) else None
        self._numbered(
            statement, lambda: of_script.run(statement, self._patience) if of_script else self._result_of(statement)
        )

    def _numbered(self, statement: Statement, action: Callable[[], StatementResult]) -> None:
        self._number += 1
        started = time.monotonic()
        self._context.emit(
            StatementStarted(
                self._number, self._total, statement.kind_text, statement.line, hide_secrets(statement.text)
            )
        )
        with named(statement), self._patient(self._number), self._context.notes() as notes:
            result = dataclasses.replace(action(), seconds=time.monotonic() - started)
        result = dataclasses.replace(result, notes=(*result.notes, *notes))
        self.results.append(result)
        self._context.emit(StatementFinished(self._number, self._total, result))

    def _patient(self, number: int) -> AbstractContextManager[None]:
        """Around what waits for its locks as the statement of this number."""
        return contextlib.nullcontext() if self._patience is None else self._patience.running(number)

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
        clause = statement.partition if table is not None else ()
        partition = partition_meant(self._context.client, table, clause) if table is not None and clause else None
        said = missing(self._context.client, database, None if table is None else table.name, partition)
        if said:
            self._context.note(said)

    def _queried(self, statement: Select | InsertDirectory) -> StatementResult:
        """The rows of a query, or the files that they became."""
        self.temporary.require_kept(statement)
        if isinstance(statement, Select):
            return run_query(self._context, plan_of(self._context, statement), self._snapshot, patience=self._patience)
        return insert_directory(self._context, statement, self._once, self._number, self._patience)

    def _result_of(self, statement: Statement) -> StatementResult:
        context, rows = self._context, None
        match statement:
            case Select() | InsertDirectory():
                return self._queried(statement)
            case Insert() | MultiInsert() | Update() | Delete() | Merge():
                return self._apply(statement, lambda claim: run_write(context, statement, None, claim, self._patience))
            case Truncate():
                return self._apply(statement, lambda claim: truncate(context, statement, claim, self._patience))
            case CreateTable(query=Fragment()) | CreateTable(replace=True):
                return self._apply(statement, lambda claim: make_table(context, statement, claim, self._patience))
            case Analyze():
                return self._apply(statement, lambda claim: analyze(context, statement, claim, self._patience))
            case Concatenate() if not context.table(str(statement.table)).is_transactional:
                return self._apply(statement, lambda claim: concatenate(context, statement, claim, self._patience))
            case Show() | ShowLease() | Lookup() | SessionStatement():
                rows = self._shown(statement)
            case Abort():
                rows = abort(context, statement)
            case DropForceLease():
                return self._apply(statement, lambda claim: drop_force_lease(context.client, statement, claim))
            case Explain(statement=explained):
                rows = self._explain(explained, locks=statement.locks)
            case CreateTemporaryView() | CreateTemporaryQuery() | Load():
                run_without_data(context, statement)
            case _:
                return self._apply(statement, lambda claim: run_definition(context, statement, claim, self._patience))
        return StatementResult(statement.text, statement.kind_text, rows=rows)


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


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"
