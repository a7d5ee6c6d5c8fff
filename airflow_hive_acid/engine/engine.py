"""The engine: SQL in, committed changes and rows out. CLI, operators and task groups all go through it.

A statement is parsed, planned, given its transaction (locks, one snapshot, write ids), run as a Spark job, published
and committed; each step has a module beside this one. Statements of one engine share one Spark application, which is
started in the background as soon as a script is known to need it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.applications.shared_application import SharedApplication
from airflow_hive_acid.engine.context import Context
from airflow_hive_acid.engine.definitions.compactions import run_compactions
from airflow_hive_acid.engine.statements.blocks import blocks, needs_spark
from airflow_hive_acid.engine.statements.exports import run_export
from airflow_hive_acid.engine.statements.foreign_tables import (
    adopted,
    adopting,
    bring_in,
    imported,
    is_adopted,
    statement_of,
)
from airflow_hive_acid.engine.statements.programs import operations_of, run_call, run_call_inside
from airflow_hive_acid.engine.statements.scripts import Script, declared_operations
from airflow_hive_acid.engine.statements.session import Session
from airflow_hive_acid.engine.transactions.shared import begin_shared, commit_shared, joined
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import InvalidArgumentsError, UnsupportedStatementError
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.statements import Select
from airflow_hive_acid.sql.planning.named_tables import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from airflow_hive_acid.engine.applications.launcher import JobLauncher
    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.engine.outcomes.results import Rows, StatementResult
    from airflow_hive_acid.engine.statements.exports import Destination, Exported
    from airflow_hive_acid.engine.statements.foreign_tables import Imported, TableImport
    from airflow_hive_acid.engine.statements.programs import Call
    from airflow_hive_acid.engine.streams.batches import TransactionBatch
    from airflow_hive_acid.engine.transactions.claims import Once
    from airflow_hive_acid.engine.transactions.members import Membership
    from airflow_hive_acid.format.jobs import JobResult, JobSpec, Source
    from airflow_hive_acid.format.write_ids import ValidWriteIdList
    from airflow_hive_acid.maintenance.decisions import CompactionOutcome
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.leases import Lease
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.metastore.records import SharedTxn
    from airflow_hive_acid.replication.site import Site
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.model.statements import Statement


class Engine:
    """Runs statements.

    :param client: the metastore.
    :param launcher: starts Spark applications.
    :param warehouse: directory or URI below which managed tables go; used if the metastore does not know one yet.
    :param settings: the settings in force; the client's by default.
    :param on_event: told what happens (see ``events``), in the thread that runs the statement.
    :param agent_info: who we are, as SHOW TRANSACTIONS and SHOW LOCKS print it.
    :param default_database: of names without a database, until a script says USE.
    """

    def __init__(
        self,
        client: MetastoreClient,
        launcher: JobLauncher,
        warehouse: str | None,
        *,
        settings: Settings | None = None,
        on_event: Callable[[Event], None] | None = None,
        agent_info: str = "hive-acid",
        default_database: str = "default",
    ) -> None:
        emit = on_event or (lambda _event: None)
        self._application = SharedApplication(launcher, emit)
        self._member: Membership | None = None
        self._default_database = default_database
        self._context = Context(client, self._application, warehouse, emit, agent_info, settings or client.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self,
        sql: str,
        *,
        one_transaction: bool = False,
        snapshot: Mapping[str, Any] | None = None,
        once: Once | None = None,
        lease: Lease | None = None,
        patience: Patience | None = None,
        variables: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        database: str | None = None,
    ) -> list[StatementResult]:
        """Run a script of statements separated by semicolons.

        :param one_transaction: all statements in one transaction instead of one each.
        :param snapshot: document of a reader opened earlier; every SELECT outside a transaction reads as that reader.
        :param once: what several tries of the script have in common; each write is applied by one of them, and the
            others return its result (R14).
        :param lease: what is written commits only while it is held (R8), and does not wait for it (R6).
        :param patience: how long a statement waits for its locks here, and what has been waited for.
        :param variables: what ``${hivevar:name}`` stands for, as text, by name; with None, ``${…}`` is no more than
            these characters. Give ``{}`` for a script that sets its variables itself.
        :param settings: settings of this script by key, as SET at its beginning.
        :param database: of names without a database, as USE at its beginning.
        :return: one result per statement.

        Inside :meth:`joined` all statements run in that transaction, and ``one_transaction``, ``snapshot``, ``once``,
        ``lease`` and ``patience`` say nothing.

        :raises LocksPendingError: when the patience was not enough. Give ``once``, too: with the error's document as
            ``resumed``, the same script goes on with the statement that waited.
        :raises LocksDeniedForNowError: when it was not enough for locks that nobody queues for.
        :raises HiveAcidError: at the first statement that fails, with a note that names it; what statements before it
            committed stays. A script that does not parse is refused before anything runs.
        """
        session = Session(self._context, settings, variables)
        known = None if variables is None else session.variables()
        statements = parse_script(sql, database or self._default_database, known)
        session.check(statements)
        member = self._member
        divided = blocks(statements, one_transaction or member is not None)
        if any(needs_spark(statement) for statement in statements) and not (member is not None and member.is_done):
            self.warm_up()
        with session.entered():
            if member is not None:
                texts = [identity(statement) for statement in statements]
                return member.apply(texts, lambda: self._inside(member.transaction, statements, session))
            script = Script(self._context, len(statements), snapshot, once, patience, session)
            with self._context.client.leases.under(lease), self._taking_up(patience), script.temporary.entered():
                for block in divided:
                    script.run(block)
        return script.results

    @contextlib.contextmanager
    def _taking_up(self, patience: Patience | None) -> Iterator[None]:
        """Around what may take up a request that was waited for elsewhere; one that nothing took up is withdrawn."""
        try:
            yield
        finally:
            if patience is not None:
                patience.give_up(self._context.client)

    def query(self, sql: str, snapshot: Mapping[str, Any] | None = None) -> Rows:
        """Run one SELECT and return its rows.

        :raises InvalidArgumentsError: when the text is anything but one query.
        """
        statements = parse_script(sql, self._default_database)
        if len(statements) != 1 or not isinstance(statements[0], Select):
            raise InvalidArgumentsError(f"query() takes one SELECT; {sql.strip()[:80]!r} is something else, use run()")
        rows = self.run(sql, snapshot=snapshot)[0].rows
        if rows is None:
            raise AssertionError("a select without rows")
        return rows

    def begin(self, what: Mapping[str, str] | Iterable[str], *, lease: Lease | None = None) -> EngineTransaction:
        """Open a transaction in which statements are run one by one.

        :param what: operation by table (``select``, ``insert``, ``update``, ``delete``, ``overwrite``), or the
            statements that are going to be run: their tables are declared. R10: all of them are locked and pinned
            together, now.
        :param lease: as for :meth:`run`.
        """
        context, wanted = self._context, None
        if isinstance(what, Mapping):
            operations = {str(table).lower(): _operation(str(operation)) for table, operation in what.items()}
        else:
            texts = [what] if isinstance(what, str) else list(what)
            operations, wanted = declared_operations(context, self._parsed(texts))
        if not operations:
            raise InvalidArgumentsError("a transaction needs at least one transactional table; none was named")
        self._application.ready()
        with context.client.leases.under(lease):
            transaction = StatementTransaction.begin(context, operations, wanted)
        return EngineTransaction(context, transaction, self._default_database)

    def call(
        self,
        call: Call,
        *,
        once: Once | None = None,
        lease: Lease | None = None,
        patience: Patience | None = None,
    ) -> StatementResult:
        """Let a function of one's own read snapshots and write, all or nothing; the parameters are those of run().

        :return: with what the function returned, as JSON, in its only row.
        """
        statement = call.statement()

        def inside(transaction: StatementTransaction, texts: Sequence[str]) -> list[StatementResult]:
            return self._inside(transaction, self._parsed(texts))

        member = self._member
        if member is not None:
            return member.apply(
                [statement.text], lambda: [run_call_inside(self._context, call, member.transaction, inside)]
            )[0]
        self.warm_up()
        script = Script(self._context, 1, None, once, patience)
        with self._context.client.leases.under(lease), self._taking_up(patience):
            script.apply(statement, lambda claim: run_call(self._context, call, claim, patience, inside))
        return script.results[0]

    def export(
        self, sql: str, destination: Destination, *, once: Once | None = None, patience: Patience | None = None
    ) -> Exported:
        """Write the rows of one SELECT as files outside of the warehouse; see :func:`run_export`."""
        if self._member is not None:
            raise UnsupportedStatementError(
                "an export cannot be part of a transaction across tasks: its files would stay if that is given up. "
                "Export after the commit"
            )
        self.warm_up()
        return run_export(self._context, sql, destination, once, self._default_database, patience)

    def import_table(
        self,
        wanted: TableImport,
        *,
        once: Once | None = None,
        lease: Lease | None = None,
        patience: Patience | None = None,
    ) -> Imported:
        """Make a table of one of another format; see :mod:`~airflow_hive_acid.engine.statements.foreign_tables`.

        The parameters are those of :meth:`run`.

        :raises InvalidArgumentsError: for a source that is not there, or is another one than it is said to be.
        :raises AlreadyExistsError: when there is such a table.
        """
        if self._member is not None:
            raise UnsupportedStatementError(
                "an import cannot be part of a transaction across tasks: it makes a table. Import before the group"
            )
        self.warm_up()
        if wanted.reuse_files:
            results: list[StatementResult] = []
            if not is_adopted(self._context, wanted):
                script = adopting(self._context, wanted, patience)
                results = self.run(script, once=once, lease=lease, patience=patience)
            return adopted(self._context, wanted, results)
        made = Script(self._context, 1, None, once, patience)
        with self._context.client.leases.under(lease), self._taking_up(patience):
            made.apply(statement_of(wanted), lambda claim: bring_in(self._context, wanted, claim, patience))
        return imported(self._context, wanted, made.results[0])

    def begin_shared(
        self,
        tables: Mapping[str, str],
        once: Once,
        *,
        max_age: float | None = None,
        most_bytes: int | None = None,
        patience: Patience | None = None,
    ) -> SharedTxn | list[StatementResult]:
        """Begin a transaction in which several tasks work.

        See :func:`~airflow_hive_acid.engine.transactions.shared.begin_shared`.

        :param tables: what may be done to each table, as of
            :class:`~airflow_hive_acid.engine.statements.programs.Call`.
        :param max_age: seconds after which it is given up; by default ``hive.acid.shared.txn.max.age``.
        :param most_bytes: so many bytes may it hold back from cleaning; by default
            ``hive.acid.shared.txn.max.held.bytes``; 0 for any number.
        """
        settings = self._context.settings
        age = settings.seconds("hive.acid.shared.txn.max.age") if max_age is None else max_age
        if age <= 0:
            raise InvalidArgumentsError(f"max_age must be more than no seconds, not {age}")
        held = settings.integer("hive.acid.shared.txn.max.held.bytes") if most_bytes is None else most_bytes
        with self._taking_up(patience):
            return begin_shared(self._context, operations_of(tables), once, round(age * 1000), held or None, patience)

    @contextlib.contextmanager
    def joined(
        self,
        txn_id: int,
        name: tuple[str, ...],
        *,
        patience: float = math.inf,
        is_final: Callable[[BaseException], bool] = lambda _failure: True,
    ) -> Iterator[Membership]:
        """Let what this engine runs be part of a transaction of several tasks; see
        :func:`~airflow_hive_acid.engine.transactions.shared.joined`."""
        with joined(self._context, txn_id, name, patience=patience, is_final=is_final) as membership:
            self._member = membership
            try:
                yield membership
            finally:
                self._member = None

    def commit_shared(self, txn_id: int) -> tuple[SharedTxn, list[dict[str, Any]]]:
        """Commit a transaction of several tasks, see :mod:`~airflow_hive_acid.engine.transactions.shared`."""
        return commit_shared(self._context, txn_id)

    def _parsed(self, texts: Iterable[str]) -> list[Statement]:
        return [statement for text in texts for statement in parse_script(text, self._default_database)]

    def _inside(
        self, transaction: StatementTransaction, statements: Sequence[Statement], session: Session | None = None
    ) -> list[StatementResult]:
        script = Script(self._context, len(statements), session=session)
        script.run_inside(transaction, statements)
        return script.results

    def batch(
        self,
        table: str,
        *,
        partition: Mapping[str, Any] | None = None,
        transactions: int | None = None,
        stream: str | None = None,
    ) -> TransactionBatch:
        """Write records in many small txns that share their files; see
        :class:`~airflow_hive_acid.engine.streams.batches.TransactionBatch`."""
        from airflow_hive_acid.engine.streams.batches import TransactionBatch

        if self._member is not None:
            raise UnsupportedStatementError(
                "a batch has txns of its own; it cannot be part of a transaction across tasks"
            )
        return TransactionBatch(self._context, table, partition, transactions, stream)

    def define_view(self, source: Source) -> None:
        """Let statements read files by a name, as CREATE OR REPLACE TEMPORARY VIEW does, without a statement.

        So its options, which may hold secrets, stand in no text that is logged or kept.
        """
        self._context.views[source.name] = source

    def run_compactions(
        self, worker_id: str, limit: int | None = None, *, pool: str | None = None
    ) -> list[CompactionOutcome]:
        """Run compactions that wait in the queue.

        :param worker_id: who we are; shown by SHOW COMPACTIONS. What an earlier attempt of the same worker left is
            ended and taken up first.
        :param limit: at most this many; None for all.
        :param pool: only requests of this compaction pool.
        """
        return run_compactions(self._context, worker_id, limit, pool=pool)

    def run_job(self, spec: JobSpec) -> JobResult:
        """Run one job spec in the engine's application; nothing is recorded, nothing is published."""
        return self._application.ready().run(spec)

    def site(self, name: str) -> Site:
        """This metastore and warehouse as one side of a replication; Spark starts when a step needs it.

        :param name: as messages and reports call it.
        """
        from airflow_hive_acid.replication.site import Site

        return Site(self._context.client, run_job=self.run_job, name=name)

    def warm_up(self) -> None:
        """Start Spark in the background now."""
        self._application.warm_up()

    def cancel(self) -> None:
        """Stop the running job, from another thread; its statement fails and aborts its transaction."""
        self._application.cancel()

    def close(self) -> None:
        """Let the Spark application leave."""
        self._application.close()


def _operation(word: str) -> str:
    """MERGE asks for as much as UPDATE."""
    return "update" if word.lower() == "merge" else word.lower()


class EngineTransaction:
    """An open transaction; commits when its ``with`` block ends cleanly, aborts otherwise.

    A statement that fails aborts it at once: half a statement must never be committed (R5).
    """

    def __init__(self, context: Context, transaction: StatementTransaction, default_database: str) -> None:
        self._context = context
        self._default_database = default_database
        self._transaction = transaction

    @property
    def txn_id(self) -> int:
        """The txn's id."""
        return self._transaction.txn_id

    @property
    def write_ids(self) -> dict[str, int]:
        """Write id by table, for the tables that may be written."""
        return self._transaction.write_ids

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transaction.__exit__(kind, failure, trace)

    def execute(self, sql: str) -> list[StatementResult]:
        """Run statements inside the transaction; they see what it wrote before.

        :raises InvalidArgumentsError: when a statement needs a table or operation that was not declared.
        """
        self._transaction.require_open()
        session = Session(self._context)
        statements = parse_script(sql, self._default_database)
        session.check(statements)
        block = blocks(statements, one_transaction=True)[0]
        script = Script(self._context, len(block.statements), session=session)
        try:
            with session.entered():
                script.run_inside(self._transaction, block.statements)
        except BaseException as failure:
            self._transaction.abort_after(failure)
            raise
        return script.results

    def snapshot(self, table: str) -> ValidWriteIdList:
        """The write ids of an ACID table that it sees, one of those it was begun with.

        :param table: ``db.table``.
        """
        self._transaction.require_open()
        found = self._transaction.snapshot.get(table)
        if found is None:
            raise InvalidArgumentsError(f"txn {self.txn_id} sees no write ids of {table}; begin it with that table")
        return found  # type: ignore[no-any-return]

    def call(self, call: Call) -> StatementResult:
        """Let a function of one's own read what the transaction sees; as :meth:`Engine.call`, without its commit.

        :raises InvalidArgumentsError: when it needs a table or operation that was not declared.
        """
        self._transaction.require_open()

        def inside(transaction: StatementTransaction, texts: Sequence[str]) -> list[StatementResult]:
            statements = [s for text in texts for s in parse_script(text, self._default_database)]
            script = Script(self._context, len(statements))
            script.run_inside(transaction, statements)
            return script.results

        try:
            return run_call_inside(self._context, call, self._transaction, inside)
        except BaseException as failure:
            self._transaction.abort_after(failure)
            raise

    def commit(self) -> None:
        """Make everything visible at once; see :meth:`StatementTransaction.commit`."""
        self._transaction.require_open()
        self._transaction.commit()

    def abort(self, reason: str = "rollback") -> None:
        """Give everything up. Fine when it has ended."""
        self._transaction.abort(reason)
