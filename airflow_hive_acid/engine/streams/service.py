"""Micro-batches of somebody's streaming application, each committed once (R14).

The application asks (decision 37): for the step that writes a micro-batch, and for its commit. The rows are written by
the application itself, in staging (R4); here every micro-batch is a statement like any other, with locks, one txn, a
write id, a recorded job, a manifest and a commit (R1, R5, R12, R15). What makes it happen once is the record of the
stream, which the commit moves in its own database transaction.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.applications.shared_application import SharedApplication
from airflow_hive_acid.engine.applications.spool import error_of
from airflow_hive_acid.engine.context import Context
from airflow_hive_acid.engine.locking.requests import Statements
from airflow_hive_acid.engine.queries.announcements import tell_planned
from airflow_hive_acid.engine.statements.plans import plan_of
from airflow_hive_acid.engine.streams.budget import Budget, Deltas
from airflow_hive_acid.engine.streams.channel import ApplicationGoneError, SinkSession
from airflow_hive_acid.engine.streams.columns import reconcile
from airflow_hive_acid.engine.streams.statements import statement_text
from airflow_hive_acid.engine.tables.read_only import require_writable
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import (
    ClaimLostError,
    CommitStateUnknownError,
    DeadlockError,
    HiveAcidError,
    InvalidArgumentsError,
    JobFailedError,
    JobsAliveError,
    NoSuchTxnError,
    TxnAbortedError,
    WriteConflictError,
)
from airflow_hive_acid.format.jobs import DATAFRAME, Column, JobError, Source
from airflow_hive_acid.format.streams import BATCH_VIEW, NO_QUERY, StreamOptions
from airflow_hive_acid.maintenance.warehouse.fences import fence_jobs_of
from airflow_hive_acid.metastore.replica import STATE_ID
from airflow_hive_acid.python_versions import add_note
from airflow_hive_acid.sql import parse_script
from airflow_hive_acid.sql.model.plans import combine_operations
from airflow_hive_acid.sql.parsing.builders import quoted_column, table_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.engine.outcomes.events import Event
    from airflow_hive_acid.engine.outcomes.results import StatementResult
    from airflow_hive_acid.engine.streams.channel import Channel
    from airflow_hive_acid.engine.streams.columns import Reconciled
    from airflow_hive_acid.metastore import MetastoreClient, Transaction
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.records import Owner
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.statements import Insert, Merge

log = logging.getLogger(__name__)


class MicroBatch:
    """An attempt at a micro-batch: what its transaction tells the record of the stream."""

    def __init__(self, client: MetastoreClient, owner: Owner, batch: int, told: Callable[[], dict[str, Any]]) -> None:
        self._client = client
        self._owner = owner
        self._batch = batch
        self._told = told
        self._attempt = str(uuid.uuid4())
        self.txn_id: int | None = None

    def begun(self, txn_id: int) -> None:
        """Its txn is open; whoever goes on with the stream knows what to fence."""
        self._client.streams.begun(self._owner, self._attempt, [txn_id])
        self.txn_id = txn_id

    def starting(self, txn: Transaction, job_id: str) -> None:
        """Nothing: whoever goes on with the stream fences the jobs of the txn."""

    def at_commit(self, txn_id: int, results: Sequence[StatementResult]) -> Callable[[Connection], None]:
        """Move the record of the stream, or refuse the commit because another process goes on with it."""
        told = self._told()
        write_ids = {i for result in results for i in result.write_ids.values()}
        rows = sum(result.inserted + result.updated + result.deleted for result in results)
        offsets = told.get("offsets")
        return self._client.streams.at_commit(
            self._owner,
            self._attempt,
            self._batch,
            txn_id,
            max(write_ids, default=None),
            rows,
            int(told.get("quarantined", 0)),
            None if offsets is None else json.dumps(offsets),
        )


class StreamService:
    """Answers the questions of one stream, until it is closed or its application is gone.

    :param warehouse: as of an engine.
    :param who: names the process; an earlier one of the same name is over, and is taken over at once.
    :param several: several applications are answered, which are told apart by Spark's ids of them.
    """

    def __init__(
        self,
        client: MetastoreClient,
        channel: Channel,
        settings: Settings,
        who: str,
        *,
        warehouse: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        agent_info: str = "hive-acid stream",
        several: bool = False,
    ) -> None:
        self._client = client
        self._several = several
        self._channel = channel
        self._settings = settings
        self._who = who
        self._warehouse = warehouse
        self._emit = on_event or (lambda _event: None)
        self._agent_info = agent_info
        self._stream: _Running | None = None
        self._refused: HiveAcidError | None = None

    @property
    def problem(self) -> HiveAcidError | None:
        """What the stream was told last instead of a commit; None when its last micro-batch was committed."""
        return self._refused if self._stream is None else self._stream.problem

    @property
    def committed(self) -> int:
        """Number of micro-batches that were committed so far."""
        return 0 if self._stream is None else self._stream.committed

    def serve(self) -> None:
        """Answer until the end.

        :raises ApplicationGoneError: when the application ended without saying so; what it had begun is aborted.
        """
        question = self._channel.next()
        try:
            if question["ask"] != "open":
                raise InvalidArgumentsError(f"a stream begins with open, not {question['ask']!r}")
            stream = self._stream = self._open(question)
        except HiveAcidError as problem:
            self._refused = problem
            self._channel.answer(error_document(problem))
            return
        except Exception as failure:
            self._channel.answer(error_document(failure))
            raise
        try:
            self._channel.answer({"is": "opened", "batch": stream.batch})
            stream.serve()
        finally:
            # A process that cannot say so is silent for hive.acid.stream.owner.timeout, and taken over then.
            with contextlib.suppress(HiveAcidError):
                self._client.streams.leave(stream.owner)

    def _open(self, question: dict[str, Any]) -> _Running:
        try:
            options = StreamOptions.from_document(question)
        except ValueError as problem:
            raise InvalidArgumentsError(str(problem)) from None
        session = SinkSession(self._channel, options.application_id or None)
        context = Context(
            self._client,
            SharedApplication(_Given(session), self._emit),
            self._warehouse,
            self._emit,
            f"{self._agent_info} {options.stream}"[:128],
            self._settings,
        )
        table = context.table(str(table_name(options.table)))
        require_writable(context.client, [table.qualified_name])
        silent = round(self._settings.seconds("hive.acid.stream.owner.timeout") * 1000)
        owner = self._client.streams.open(
            options.stream,
            table.qualified_name,
            options.source,
            f"{self._who}, application {options.application_id}" if self._several else self._who,
            table_id=table.id,
            silent_ms=silent,
            start_over=options.start_over,
        )
        return _Running(context, self._channel, session, options, owner)


class _Given:
    """A launcher for an application that runs already."""

    def __init__(self, session: SinkSession) -> None:
        self._session = session

    def start(self, application: object = None) -> SinkSession:
        """The application."""
        return self._session


@dataclass(frozen=True, slots=True)
class _Planned:
    """What a micro-batch with these columns is, as long as the table stays as it is."""

    table: Table
    given: tuple[Column, ...]
    aside: tuple[str, ...]
    plan: Plan


class _Running:
    """A stream that is ours."""

    def __init__(
        self, context: Context, channel: Channel, session: SinkSession, options: StreamOptions, owner: Owner
    ) -> None:
        self.owner = owner
        self.batch = owner.found.batch
        self._context = context
        self._channel = channel
        self._session = session
        self._options = options
        self._left = owner.found.open_txns
        self.committed = 0
        self.problem: HiveAcidError | None = None
        self._known: _Planned | None = None
        self._is_first = True
        self._over = threading.Event()
        self._deltas = Deltas(context.client, context.filesystem, Budget.of(context.settings), self._pause)

    def serve(self) -> None:
        """Answer questions."""
        beats = threading.Thread(target=self._beat, name="hive-acid-stream-beat", daemon=True)
        beats.start()
        try:
            while True:
                question = self._channel.next()
                if question["ask"] == "close":
                    self._channel.answer({"is": "closed"})
                    return
                try:
                    answer, self.problem = self._answer(question), None
                except ApplicationGoneError:
                    raise
                except HiveAcidError as problem:
                    answer, self.problem = error_document(problem), problem
                except Exception as failure:
                    # Whatever it is, the application must not wait for an answer that never comes.
                    self._channel.answer(error_document(failure))
                    raise
                self._channel.answer(answer)
        finally:
            self._over.set()
            beats.join()

    def _beat(self) -> None:
        """Signs of life, also while a long step runs; who has lost the stream is told by its next commit."""
        interval = self._context.settings.seconds("hive.acid.stream.owner.timeout") / 4
        while not self._over.wait(interval):
            try:
                self._context.client.streams.beat(self.owner)
            except ClaimLostError:
                return
            except HiveAcidError as problem:
                log.warning("no sign of life of stream %s: %s", self._options.stream, problem)

    def _pause(self, seconds: float) -> None:
        self._channel.pause(seconds)

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if question["ask"] == "refuse":
            raise error_of(JobError(str(question["type"]), str(question["message"])))
        if question["ask"] != "begin":
            raise InvalidArgumentsError(f"a stream cannot {question['ask']} now; it begins a micro-batch, or closes")
        batch = int(question["batch"])
        if batch <= self.batch:
            self._require_repetition(batch, question.get("offsets"))
            self._is_first = False
            log.info("micro-batch %s of %s was committed before; it is skipped", batch, self._options.stream)
            return {"is": "committed", "again": True}
        if self._is_first and self._options.source != NO_QUERY:
            self._require_no_gap(batch)
        self._is_first = False
        if self._left:
            self._end_earlier("an attempt at the micro-batch before did not come to its end")
        given = tuple(Column(str(name), str(kind)) for name, kind in question["columns"])
        aside = tuple(map(str, question.get("aside", ())))
        table = self._same(self._context.table(self._options.table))
        self._deltas.hold_back(table)
        try:
            result = self._apply_patiently(batch, self._planned(table, given, aside))
        except CommitStateUnknownError as lost:
            return self._settled(batch, lost)
        self.batch, self._left = batch, ()
        self.committed += 1
        try:
            self._deltas.written(table, result.directories)
        except (HiveAcidError, OSError) as problem:
            # It is committed, whatever becomes of the count.
            log.warning("the deltas of %s could not be counted: %s", table.qualified_name, problem)
        return {"is": "committed", "again": False, "txn_id": result.txn_id, "inserted": result.inserted}

    def _same(self, table: Table) -> Table:
        """A table that was looked up by the stream's name of it, if that has not passed to another one.

        :raises InvalidArgumentsError: otherwise; what is on record was written to the one that had the name before.
        """
        if table.id == self.owner.table_id:
            return table
        raise InvalidArgumentsError(
            f"{table.qualified_name} is not the table any more that stream {self._options.stream} was started for: "
            "that one was dropped, or has another name now. Nothing of the micro-batch was written; start the stream "
            "again, and it goes on into the table of that name if it can"
        )

    def _require_repetition(self, batch: int, offsets: dict[str, Any] | None) -> None:
        """Refuse to skip a micro-batch that a query has made anew under a number that is taken: its rows would be lost.

        Spark begins a micro-batch after it has noted the end of the one before, so what it repeats is the last one.

        :param offsets: up to where its sources are read, None when Spark does not tell.
        """
        if self._options.source == NO_QUERY:
            return  # a program of one's own repeats what it likes
        found = self._context.client.streams.find(self._options.stream)
        if batch == found.batch and repeats(found.offsets, offsets):
            return
        raise InvalidArgumentsError(
            f"micro-batch {batch} of stream {self._options.stream} is no repetition of what was committed: the stream "
            f"has committed up to micro-batch {found.batch}, and the checkpoint of the query is older, as one that "
            f"was restored or copied. Which of its rows are in {found.table} already, nobody can tell. Go on from the "
            "checkpoint that the stream had last, or give the stream another name to apply all that this one brings"
        )

    def _require_no_gap(self, batch: int) -> None:
        """Refuse to go on behind micro-batches that were committed once, and are not any more: their rows are missing.

        Only the first one after a start can be behind such a gap: a metastore that is restored knows nothing of the
        owner, whose next commit is refused. A new primary knows what came with a sync, but not with an older release.
        """
        name, table, last = self._options.stream, self._options.table, self.batch
        if batch == last + 1:
            return
        if last < 0 and self._options.on_gap == "fail" and self._context.table(table).property(STATE_ID) is not None:
            raise InvalidArgumentsError(
                f"stream {name} begins with micro-batch {batch} of its checkpoint, and {table} was brought here by a "
                "replication, with which none of its micro-batches is known to have come: what was committed is on "
                f"record at the old primary ('hive-acid stream show' there, 'hive-acid history {table}' here). If rows "
                f"before are missing, apply them in another way; if those of micro-batch {batch} are here, go on "
                "behind it. Then say on_gap='ignore'"
            )
        if last < 0:
            log.warning(
                "stream %s begins with micro-batch %s of its checkpoint: of those before, none was committed under "
                "this name, as when it was forgotten, its table is a new one, or the metastore was restored from a "
                "backup of before",
                name, batch,
            )  # fmt: skip
        elif self._options.on_gap == "fail":
            raise InvalidArgumentsError(
                f"micro-batch {batch} of stream {name} does not follow the last one that is committed, {last}: those "
                f"between are not in {table}, as when the metastore was restored from an older backup. Go on from a "
                f"checkpoint of micro-batch {last}, or apply what is missing in another way; then, or if the program "
                "leaves micro-batches out, say on_gap='ignore'"
            )

    def _apply_patiently(self, batch: int, known: _Planned) -> StatementResult:
        """Apply a micro-batch, again on a new snapshot when others have changed the same: the stream goes on then."""
        for _ in range(self._context.settings.integer("hive.txn.retrysnapshot.max.count")):
            try:
                return self._apply(batch, known)
            except (WriteConflictError, DeadlockError) as conflict:
                log.info("micro-batch %s of %s is tried again: %s", batch, self._options.stream, conflict)
                self._end_earlier(str(conflict))
                table = self._same(self._context.table(self._options.table))
                known = self._planned(table, known.given, known.aside)
        return self._apply(batch, known)

    def _apply(self, batch: int, known: _Planned) -> StatementResult:
        context = self._context
        attempt = MicroBatch(context.client, self.owner, batch, lambda: self._session.last)
        try:
            operations = combine_operations([known.plan])
            with StatementTransaction.begin(context, operations, Statements([known.plan]), attempt) as transaction:
                # Planned again if the table has changed before the locks were granted.
                table = self._same(transaction.table(known.table.qualified_name))
                planned = self._planned(table, known.given, known.aside, locked=True).plan
                tell_planned(context, planned, transaction)
                result = transaction.run(planned)
                transaction.remember([result])
        except BaseException:
            if attempt.txn_id is not None:
                self._left = (*self._left, attempt.txn_id)
            raise
        return result

    def _planned(
        self, table: Table, given: tuple[Column, ...], aside: tuple[str, ...], *, locked: bool = False
    ) -> _Planned:
        """The plan of a micro-batch with these columns; that of the last one, as long as nothing has changed.

        :param locked: the micro-batch has its locks.
        :raises WriteConflictError: when it has, and the table must be given columns: an ALTER would wait for them.
        """
        known = self._known
        same = known is not None and (known.given, known.aside) == (given, aside)
        if known is not None and same and replace(known.table, write_id=table.write_id) == table:
            return known
        context, options = self._context, self._options
        found = reconcile(options, _typed(table.columns), _typed(table.partition_columns), given, aside)
        if found.added and locked:
            raise WriteConflictError(
                f"{table.qualified_name} has lost columns of stream {options.stream} while that waited for its locks"
            )
        if found.added:
            try:
                self._add_columns(table, found)
            except InvalidArgumentsError:
                now = context.table(options.table)
                if not {c.name.lower() for c in found.added} & {c.name for c in now.columns}:
                    raise
                return self._planned(now, given, aside)  # another stream was faster
            table = context.table(options.table)
        context.views[BATCH_VIEW] = Source(BATCH_VIEW, DATAFRAME, {"view": options.view})
        statement: Insert | Merge = parse_script(statement_text(options, table, found))[0]  # type: ignore[assignment]
        self._known = _Planned(table, given, aside, plan_of(context, statement))
        return self._known

    def _add_columns(self, table: Table, found: Reconciled) -> None:
        from airflow_hive_acid.engine.definitions.alter import run_alter

        listed = ", ".join(f"{quoted_column(c.name, 'column')} {c.type}" for c in found.added)
        name = table_name(table.qualified_name)
        self._same(self._context.table(self._options.table))  # it may have waited for a compaction meanwhile
        for statement in parse_script(f"ALTER TABLE `{name.database}`.`{name.name}` ADD COLUMNS ({listed})"):
            run_alter(self._context, statement)  # type: ignore[arg-type]
        log.info("%s got the columns %s of stream %s", name, listed, self._options.stream)

    def _end_earlier(self, why: str) -> None:
        """R4: what attempts before may still do is fenced, then their txns are aborted."""
        client = self._context.client
        report = fence_jobs_of(client, self._context.filesystem, self._left, why)
        if report.alive:
            job, reason = report.alive[0]
            raise JobsAliveError(f"job {job.job_id} of an earlier attempt may still write to {job.table}: {reason}")
        for txn_id in self._left:
            with contextlib.suppress(NoSuchTxnError, TxnAbortedError):
                client.abort_txn(txn_id, why)
        client.streams.ended(self.owner)
        self._left = ()

    def _settled(self, batch: int, lost: CommitStateUnknownError) -> dict[str, Any]:
        """Look up a commit whose answer was lost (R17)."""
        try:
            found = self._context.client.streams.settle(self.owner, batch)
        except ClaimLostError:
            raise
        except HiveAcidError as problem:
            add_note(lost, f"it could not be looked up either: {problem}")
            raise lost from problem
        if found is None:
            raise JobFailedError(
                f"the connection broke while the commit of micro-batch {batch} was on its way, and it did not arrive; "
                "nothing of it is visible: the stream tries it again when it is started anew"
            ) from lost
        self.batch, self._left = found.batch, ()
        self.committed += 1
        return {"is": "committed", "again": False, "txn_id": found.txn_id, "inserted": None}


def repeats(committed: str | None, offsets: dict[str, Any] | None) -> bool:
    """Whether a micro-batch may be the committed one of its number: both end where the other does, as far as is known.

    :param committed: what its commit said of the sources, as JSON text.
    """
    before = (json.loads(committed) if committed else {}).get("ends")
    now = (offsets or {}).get("ends")
    return before is None or now is None or before == now


def _typed(columns: Sequence[Column]) -> list[Column]:
    """Names and types alone."""
    return [Column(c.name, c.type) for c in columns]


def error_document(problem: Exception) -> dict[str, Any]:
    """The answer that says so."""
    return {"is": "error", "type": type(problem).__name__, "message": str(problem)}
