"""A task at work in a transaction across tasks: the txn as it sees it, and what it asks of its record.

:mod:`.shared` gives it the turn, and takes it back. What a member runs is put on record before it starts (R4), and
what an earlier try has finished is answered from the record instead of being run again (R14).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.definitions.ctas import Creations
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.engine.transactions.written_tables import Written
from airflow_hive_acid.errors import (
    ClaimLostError,
    CommitStateUnknownError,
    HiveAcidError,
    InvalidArgumentsError,
    MetastoreUnavailableError,
)
from airflow_hive_acid.format.jobs import PartitionRef
from airflow_hive_acid.maintenance.reaper.shared_txns import give_up
from airflow_hive_acid.metastore.protocol import hand_over
from airflow_hive_acid.metastore.records import digest_of
from airflow_hive_acid.python_versions import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection
    from typing_extensions import Self

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.transactions.progress import Progress
    from airflow_hive_acid.metastore import Transaction
    from airflow_hive_acid.metastore.records import SharedTxn


class SharedTransaction(StatementTransaction):
    """A txn of several tasks as one of them sees it while it has the turn.

    A failure does not abort it: whoever has the turn decides.
    """

    @classmethod
    def resume(cls, context: Context, txn: SharedTxn, progress: Progress) -> Self:
        """Go on where the finished members have left it.

        :raises TxnAbortedError: when nobody kept it alive; :raises NoSuchTxnError: when it has ended.
        """
        locked = context.locking.resume({**txn.document["txn"], "statements": dict(txn.statements)})
        resumed = cls(context, txn.document["operations"], locked, Creations(context, 0, ()), progress)
        resumed._go_on(txn.written)
        return resumed

    def _go_on(self, documents: Mapping[str, Any]) -> None:
        """What :meth:`written_document` gave is written already."""
        for name, document in documents.items():
            table = self.table(name)
            written = self._written[name] = Written.from_document(table, document["written"])
            for partition, location, values in document["made"]:
                if partition in written.made:
                    self._seen.partitions(table).made(PartitionRef(partition, location, tuple(values)))

    def written_document(self) -> dict[str, Any]:
        """What has been written so far, for the next member."""
        documents = {}
        for name, written in self._written.items():
            known = self._seen.partitions(written.table)
            made = [[ref.name, ref.location, list(ref.values)] for ref in (known[p] for p in sorted(written.made))]
            documents[name] = {"written": written.to_document(), "made": made}
        return documents

    def at_commit(self, check: Callable[[Connection], None]) -> None:
        """Have something done in the commit's own database transaction."""
        self._txn.claim_at_commit(check)

    def leave(self) -> None:
        """Stop the heartbeats here; for a while nobody needs to send any (R9)."""
        with contextlib.suppress(HiveAcidError):
            hand_over(self._context.client, self.txn_id)

    def abort_after(self, failure: BaseException) -> None:
        """A commit that failed: what was decided is put on record, what may be tried again is not given up."""
        self._ended = True
        if isinstance(failure, CommitStateUnknownError):
            return
        if isinstance(failure, ClaimLostError | MetastoreUnavailableError) or not isinstance(failure, Exception):
            self.leave()
            return
        client = self._context.client
        client.heartbeats.remove(self.txn_id)
        try:
            give_up(client, self._context.filesystem, self.txn_id, type(failure).__name__, str(failure))
        except HiveAcidError as second:
            add_note(failure, f"txn {self.txn_id} could not be aborted and will time out: {second}")


class Membership:
    """A member at work in a transaction of several tasks.

    :param done: what an earlier try of it did, if that has finished: its units with their results.
    """

    def __init__(
        self, context: Context, txn: SharedTxn, member: str, token: str, done: Sequence[Mapping[str, Any]] | None
    ) -> None:
        self._context = context
        self._txn = txn
        self._member = member
        self._token = token
        self._done = done
        self._transaction: SharedTransaction | None = None
        self._begun_to_write = False
        self._half_done: BaseException | None = None
        self.units: list[dict[str, Any]] = []

    @property
    def txn_id(self) -> int:
        """The txn's id."""
        return self._txn.txn_id

    @property
    def is_done(self) -> bool:
        """Whether an earlier try has finished: then its results are given again, and nothing runs."""
        return self._done is not None

    @property
    def snapshot(self) -> dict[str, str]:
        """What it sees of each table, as Hive writes it."""
        return dict(self._txn.document["txn"]["write_id_lists"])

    @property
    def transaction(self) -> SharedTransaction:
        """In which its statements run."""
        if self._transaction is None:
            raise AssertionError("a member without its transaction")
        return self._transaction

    def bind(self, transaction: SharedTransaction) -> None:
        """Its turn has come."""
        self._transaction = transaction

    def begun(self, txn_id: int) -> None:
        """Nothing: the task that has begun it has its own record."""

    def starting(self, txn: Transaction, job_id: str) -> None:
        """Put a job on record, and the statement ids that are given out.

        :raises ClaimLostError: when another try has taken over.
        """
        self._begun_to_write = True
        statements = txn.to_document()["statements"]
        self._context.client.shared_txns.record_job(self.txn_id, self._token, self._member, job_id, statements)

    def at_commit(self, txn_id: int, results: Sequence[StatementResult]) -> Callable[[Connection], None] | None:
        """Nothing: what it has done is on its record, and the task that commits has its own."""
        return None

    def apply(self, texts: Sequence[str], run: Callable[[], list[StatementResult]]) -> list[StatementResult]:
        """Run statements, or return what they did in an earlier try that has finished (R14).

        :raises InvalidArgumentsError: when that try did something else.
        """
        self.require_whole()
        digest, number = digest_of(list(texts)), len(self.units)
        if self._done is None:
            results = self._run(run)
        else:
            if number >= len(self._done) or self._done[number]["digest"] != digest:
                raise InvalidArgumentsError(
                    f"an earlier try of this task has finished in {self._txn}, and did something else as its step "
                    f"{number + 1}; templates must give the same text in every try. Clear the task that begins the "
                    "transaction to do all of it anew"
                )
            results = [StatementResult.from_record(record) for record in self._done[number]["results"]]
        self.units.append({"digest": digest, "results": [result.to_record() for result in results]})
        return results

    def require_whole(self) -> None:
        """Refuse to go on, or to finish, after statements that failed when they had begun to write (R5).

        What they have published belongs to no statement, and would become visible with the commit. That is undone when
        the try ends, so it ends with their failure, also where the task has caught it.
        """
        if self._half_done is not None:
            raise self._half_done

    def _run(self, run: Callable[[], list[StatementResult]]) -> list[StatementResult]:
        self._begun_to_write = False
        try:
            return run()
        except BaseException as failure:
            if self._begun_to_write:
                self._half_done = failure
                add_note(failure, f"it had begun to write: this try can do nothing more in {self._txn}, and is undone")
            raise
