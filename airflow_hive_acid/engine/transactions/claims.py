"""Applying the statements of a script once, however often the script is tried (R14).

Before a unit (a statement that writes, or all statements of one transaction) opens its txn, it is claimed. If an
earlier try has committed it, its result is returned and nothing runs. If an earlier try has claimed it and not
committed, that one is fenced, its txn is aborted, and it cannot commit any more, even if its process or its Spark job
lives on.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.outcomes.events import AppliedBefore, EarlierTryFenced
from airflow_hive_acid.engine.outcomes.results import StatementResult
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.maintenance.warehouse.fences import end_txns
from airflow_hive_acid.metastore.records import Recorded, Rerun, Unit, Wish, digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.errors import CommitStateUnknownError, LocksPendingError
    from airflow_hive_acid.metastore import Transaction
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


class Freely:
    """A unit that nobody claims: a second try applies it again."""

    @property
    def key(self) -> str | None:
        """What its tries have in common, for what they leave outside of the metastore; None: they have nothing."""
        return None

    def begun(self, txn_id: int) -> None:
        """Its txn is open."""

    def starting(self, txn: Transaction, job_id: str) -> None:
        """A job is about to be recorded and started, and its statement ids are given out."""

    def at_commit(
        self,
        txn_id: int,
        results: Sequence[StatementResult],
    ) -> Callable[[Connection], None] | None:
        """What the commit has to do besides; raises to refuse it."""
        return None

    @contextlib.contextmanager
    def changing(self, result: Callable[[], StatementResult]) -> Iterator[None]:
        """Around what changes the catalog only.

        :param result: what it has done; asked when all that is left is to commit it.
        """
        yield

    def done(self, result: StatementResult) -> None:
        """It needed no txn, and is applied."""

    def waiting(self, pending: LocksPendingError) -> None:
        """Its locks are waited for elsewhere."""


class Applying(Freely):
    """A unit that is ours to apply."""

    def __init__(self, context: Context, claim: Claim) -> None:
        self._context = context
        self._claim = claim
        self._txn_id: int | None = None

    @property
    def key(self) -> str | None:
        """A digest of scope, unit and life."""
        wish = self._claim.wish
        return digest_of([*wish.scope, str(wish.unit), wish.life])

    @property
    def claim(self) -> Claim:
        """The claim, for whoever commits in another process."""
        return self._claim

    def begun(self, txn_id: int) -> None:
        """Its txn is open.

        :raises ClaimLostError: when another try has taken the unit over.
        """
        self._context.client.claims.begun(self._claim, txn_id)
        self._txn_id = txn_id

    def at_commit(self, txn_id: int, results: Sequence[StatementResult]) -> Callable[[Connection], None] | None:
        """Mark the unit as committed, or refuse the commit because another try has taken it over."""
        documents = [result.to_record() for result in results]
        return self._context.client.claims.at_commit(self._claim, txn_id, documents)

    @contextlib.contextmanager
    def changing(self, result: Callable[[], StatementResult]) -> Iterator[None]:
        """Around what changes the catalog only: its change and the record that it is applied are one commit.

        :raises ClaimLostError: when another try has taken the unit over; nothing was changed.
        """
        claims = self._context.client.claims

        def in_commit(txn_id: int | None) -> Callable[[Connection], None]:
            def mark(connection: Connection) -> None:
                documents = [result().to_record()]
                if txn_id is None:
                    claims.in_change(self._claim, documents)(connection)
                else:
                    claims.at_commit(self._claim, txn_id, documents)(connection)

            return mark

        unit = Unit(self.begun, in_commit)
        with claims.applying(unit):
            yield
        if not unit.committed:
            self.done(result())

    def done(self, result: StatementResult) -> None:
        """It needed no txn, and is applied.

        A process that dies just before this leaves the next try to find its change there: that is an error then, as
        the change is not made twice.
        """
        self._context.client.claims.done(self._claim, [result.to_record()])

    def waiting(self, pending: LocksPendingError) -> None:
        """Its locks are waited for elsewhere, under this claim; the next try knows the txn to fence."""
        self.begun(int(str(pending.document["txn_id"])))
        pending.document["claim"] = {"unit": self._claim.wish.unit, "owner": self._claim.owner}

    def settle(self, lost: CommitStateUnknownError) -> list[StatementResult] | None:
        """Find out what became of a commit whose answer was lost (R17).

        :return: the results if it was committed; None when it was not, and then it never will be.
        :raises CommitStateUnknownError: the one given, when the database cannot be asked.
        """
        client = self._context.client
        try:
            settled = client.claims.settle(self._claim)
            if settled is None and self._txn_id is not None:
                _end(self._context, [self._txn_id], "its commit did not reach the metastore")
        except HiveAcidError as problem:
            lost.add_note(f"it could not be looked up either: {problem}")
            raise lost from problem
        return None if settled is None else [StatementResult.from_record(d) for d in settled.result]


FREELY = Freely()


def take(context: Context, once: Once, unit: int, texts: Sequence[str]) -> Applying | list[StatementResult]:
    """Claim a unit; whoever held it is fenced.

    :param unit: number of its first statement.
    :param texts: its statements, rendered.
    :return: the results, when it was applied already.
    :raises InvalidArgumentsError: when an earlier try has applied something else in its place.
    """
    claims = context.client.claims
    wish = Wish(once.scope, unit, digest_of(texts), once.life, once.on_rerun)
    taken = claims.take(wish, _resumed(context, unit))
    if isinstance(taken, Recorded):
        context.emit(AppliedBefore(str(wish), taken.txn_id, again=False))
        return [StatementResult.from_record(document) for document in taken.result]
    if taken.again:
        context.emit(AppliedBefore(str(wish), None, again=True))
    if taken.earlier_txns:
        why = f"a later try has taken over {wish}"
        # R4: fenced before it is aborted. What cannot be fenced at once keeps its components until it is.
        aborted = _end(context, taken.earlier_txns, why)
        claims.fenced(taken)
        context.emit(EarlierTryFenced(str(wish), aborted))
    return Applying(context, taken)


def _resumed(context: Context, unit: int) -> str | None:
    """Owner of the claim under which the unit has waited in another process."""
    document = None if context.patience is None else context.patience.resumed
    claim = {} if document is None else document.get("claim") or {}
    return str(claim["owner"]) if claim.get("unit") == unit else None


def _end(context: Context, txn_ids: Sequence[int], why: str) -> tuple[int, ...]:
    """The txns, without those that are forgotten; committed they cannot be, their claim says so."""
    done = end_txns(context.client, context.filesystem, txn_ids, why)
    return tuple(sorted((*done.aborted, *done.already_aborted, *done.ending)))
