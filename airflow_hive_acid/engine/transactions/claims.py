"""Applying the statements of a script once, however often the script is tried (R14).

Before a unit (a statement that writes, or all statements of one transaction) opens its txn, it is claimed. If an
earlier try has committed it, its result is returned and nothing runs. If an earlier try has claimed it and not
committed, that one is fenced, its txn is aborted, and it cannot commit any more, even if its process or its Spark job
lives on. So a unit is ``Claimed``, ``Unclaimed`` (nobody asked for it to be applied once), or ``AlreadyApplied``.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.outcomes.events import AppliedBefore, EarlierTryFenced
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.maintenance.warehouse.fences import end_txns
from airflow_hive_acid.metastore.records import Recorded, Rerun, Unapplied, Unit, Wish, digest_of
from airflow_hive_acid.python_versions import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection
    from typing_extensions import Self

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.errors import CommitStateUnknownError, LocksPendingError
    from airflow_hive_acid.filesystem import StreamingFilesystem
    from airflow_hive_acid.metastore import MetastoreClient, Transaction
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.metastore.records import Claim


@dataclass(frozen=True, slots=True)
class Once:
    """What makes several tries of a script one: each of its writes is applied once.

    :param scope: identifies the run: DAG, run, task and map index, or a key of one's own.
    :param life: the same for all tries between two deliberate re-runs.
    :param on_rerun: what a deliberate re-run does with what was applied and acknowledged.
    """

    scope: tuple[str, ...]
    life: str = ""
    on_rerun: Rerun = Rerun.APPLY


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """A unit that nobody claims: a second try applies it again."""

    @property
    def key(self) -> str | None:
        """What its tries have in common, for what they leave outside of the metastore: nothing."""
        return None

    def begun(self, txn_id: int) -> None:
        """Its txn is open."""

    def starting(self, txn: Transaction, job_id: str) -> None:
        """A job is about to be recorded and started."""

    def at_commit(self, txn_id: int, results: Sequence[StatementResult]) -> Callable[[Connection], None] | None:
        """The commit has nothing to do besides."""
        return None

    @contextlib.contextmanager
    def changing(self, result: Callable[[], StatementResult]) -> Iterator[None]:
        """Around what changes the catalog only."""
        yield

    def waiting(self, pending: LocksPendingError) -> None:
        """Its locks are waited for elsewhere."""

    def settle(self, lost: CommitStateUnknownError) -> AlreadyApplied | None:
        """Nobody can find out what became of its commit.

        :raises CommitStateUnknownError: the one given.
        """
        raise lost


UNCLAIMED = Unclaimed()


@dataclass(frozen=True, slots=True)
class Claimed:
    """A unit that is ours to apply, once.

    :param claim: also for whoever commits in another process.
    """

    claim: Claim
    client: MetastoreClient
    filesystem: StreamingFilesystem

    @property
    def key(self) -> str | None:
        """What its tries have in common: a digest of scope, unit and life."""
        wish = self.claim.wish
        return digest_of([*wish.scope, str(wish.unit), wish.life])

    def begun(self, txn_id: int) -> None:
        """Its txn is open.

        :raises ClaimLostError: when another try has taken the unit over.
        """
        self.client.claims.begun(self.claim, txn_id)

    def starting(self, txn: Transaction, job_id: str) -> None:
        """A job is about to be recorded and started; the txn leads to it."""

    def at_commit(self, txn_id: int, results: Sequence[StatementResult]) -> Callable[[Connection], None] | None:
        """Mark the unit as committed, or refuse the commit because another try has taken it over."""
        return self.client.claims.at_commit(self.claim, txn_id, [result.to_record() for result in results])

    @contextlib.contextmanager
    def changing(self, result: Callable[[], StatementResult]) -> Iterator[None]:
        """Around what changes the catalog only: its change and the record that it is applied are one commit.

        A process that dies between a change that needs no commit and this leaves the next try to find its change there:
        that is an error then, as the change is not made twice.

        :param result: what it has done; asked when all that is left is to commit it.
        :raises ClaimLostError: when another try has taken the unit over; nothing was changed.
        """
        claims = self.client.claims

        def in_commit(txn_id: int | None) -> Callable[[Connection], None]:
            def mark(connection: Connection) -> None:
                documents = [result().to_record()]
                if txn_id is None:
                    claims.in_change(self.claim, documents)(connection)
                else:
                    claims.at_commit(self.claim, txn_id, documents)(connection)

            return mark

        unit = Unit(self.begun, in_commit, partial(claims.is_applied, self.claim))
        with claims.applying(unit):
            yield
        if not unit.committed:
            claims.done(self.claim, [result().to_record()])

    def waiting(self, pending: LocksPendingError) -> None:
        """Its locks are waited for elsewhere, under this claim; the next try knows the txn to fence."""
        self.begun(int(str(pending.document["txn_id"])))
        pending.document["claim"] = {"unit": self.claim.wish.unit, "owner": self.claim.owner}

    def settle(self, lost: CommitStateUnknownError) -> AlreadyApplied | None:
        """Find out what became of a commit whose answer was lost (R17).

        :return: None when it was not committed, and then it never will be.
        :raises CommitStateUnknownError: the one given, when the database cannot be asked.
        """
        try:
            settled = self.client.claims.settle(self.claim)
            if isinstance(settled, Unapplied):
                _end(self.client, self.filesystem, settled.txns, "its commit did not reach the metastore")
        except HiveAcidError as problem:
            add_note(lost, f"it could not be looked up either: {problem}")
            raise lost from problem
        return AlreadyApplied.of(settled) if isinstance(settled, Recorded) else None


@dataclass(frozen=True, slots=True)
class AlreadyApplied:
    """A unit that was applied: by an earlier try, or by this one, which did not hear of it."""

    results: tuple[StatementResult, ...]

    @classmethod
    def of(cls, recorded: Recorded) -> Self:
        """With what the record says of it."""
        return cls(tuple(StatementResult.from_record(document) for document in recorded.result))


ToApply = Claimed | Unclaimed
"""A unit that is to be applied now."""


def take(
    context: Context, once: Once, unit: int, texts: Sequence[str], patience: Patience | None = None
) -> Claimed | AlreadyApplied:
    """Claim a unit; whoever held it is fenced.

    :param unit: number of its first statement.
    :param texts: its statements, rendered, with the tables that are named in them.
    :param patience: under which it has waited in another process, perhaps: its claim is gone on with then.
    :raises InvalidArgumentsError: when an earlier try has applied something else in its place.
    """
    client, filesystem = context.client, context.filesystem
    wish = Wish(once.scope, unit, digest_of(texts), once.life, once.on_rerun)
    taken = client.claims.take(wish, _resumed(patience, unit))
    if isinstance(taken, Recorded):
        context.emit(AppliedBefore(str(wish), taken.txn_id, again=False))
        return AlreadyApplied.of(taken)
    if taken.again:
        context.emit(AppliedBefore(str(wish), None, again=True))
    if taken.earlier_txns:
        # R4: fenced before it is aborted. What cannot be fenced at once keeps its components until it is.
        aborted = _end(client, filesystem, taken.earlier_txns, f"a later try has taken over {wish}")
        client.claims.fenced(taken)
        context.emit(EarlierTryFenced(str(wish), aborted))
    return Claimed(taken, client, filesystem)


def _resumed(patience: Patience | None, unit: int) -> str | None:
    """Owner of the claim under which the unit has waited in another process."""
    document = None if patience is None else patience.resumed
    claim = {} if document is None else document.get("claim") or {}
    return str(claim["owner"]) if claim.get("unit") == unit else None


def _end(client: MetastoreClient, filesystem: StreamingFilesystem, txn_ids: Sequence[int], why: str) -> tuple[int, ...]:
    """The txns, without those that are forgotten; committed they cannot be, their claim says so."""
    done = end_txns(client, filesystem, txn_ids, why)
    return tuple(sorted((*done.aborted, *done.already_aborted, *done.ending)))
