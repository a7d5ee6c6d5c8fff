"""Transactions that several tasks work in: begun by one, joined by members, committed or given up by a last one.

What they share is a record in the metastore (``metastore.records``). A member has the turn while its statements
run: it sees what finished members wrote, and what it publishes counts when it has finished. R5, R14: whatever a try
left half done, its own earlier one or that of a member which was killed, is fenced and removed before anybody goes on.
What cannot be undone ends the transaction. The begin is claimed as every unit of work is, and the commit marks that
claim and the record in its own database transaction, so it is applied once (R17).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.transactions.claims import UNCLAIMED, AlreadyApplied, take
from airflow_hive_acid.engine.transactions.members import Membership, SharedTransaction
from airflow_hive_acid.engine.transactions.transaction import StatementTransaction
from airflow_hive_acid.errors import (
    ClaimLostError,
    HiveAcidError,
    InvalidArgumentsError,
    JobsAliveError,
    LocksPendingError,
    MetastoreUnavailableError,
    NoSuchTxnError,
    TransactionEndedError,
    TransactionLimitError,
    TurnPendingError,
    TxnAbortedError,
    UnsupportedStatementError,
)
from airflow_hive_acid.filesystem.publishing import Manifest
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import parse_directory
from airflow_hive_acid.maintenance.reaper.shared_txns import LIMIT_ERROR, give_up
from airflow_hive_acid.maintenance.warehouse.fences import fence
from airflow_hive_acid.metastore.database import Heartbeater
from airflow_hive_acid.metastore.protocol import hand_over
from airflow_hive_acid.metastore.records import (
    Claim,
    NewSharedTxn,
    SharedState,
    describe,
    keeper_gone,
    too_old,
    unfinished,
)
from airflow_hive_acid.python_versions import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.engine.outcomes.results import StatementResult
    from airflow_hive_acid.engine.transactions.claims import Once
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.metastore.records import Member, SharedTxn

_LOOK_SECONDS = 10.0
_POLL_SECONDS = 1.0
THE_COMMIT = ""
"""The member that commits: it needs the turn, and has no record of its own."""


def begin_shared(
    context: Context,
    operations: Mapping[str, str],
    once: Once,
    max_age_ms: int,
    most_bytes: int | None,
    patience: Patience | None = None,
) -> SharedTxn | list[StatementResult]:
    """Begin a transaction for several tasks: locks, one snapshot of all its tables, write ids (R10).

    :param operations: what may be done to each table, by full name.
    :param once: what all tries of the task that begins it have in common; an earlier one's transaction is fenced.
    :param patience: how long to wait for its locks here; by default as long as the settings say.
    :return: its record; or what was committed, if an earlier try got so far.
    :raises LocksPendingError: when the patience was not enough for its locks.
    :raises UnsupportedStatementError: for plain tables that are to be written, and with DummyTxnManager.
    """
    _check_tables(context, operations)
    client = context.client
    text = "transaction across tasks: " + ", ".join(f"{op} {table}" for table, op in sorted(operations.items()))
    taken = take(context, once, 1, [text], patience)
    if isinstance(taken, AlreadyApplied):
        return list(taken.results)
    for earlier in taken.claim.earlier_txns:
        with contextlib.suppress(NoSuchTxnError):
            client.shared_txns.mark_aborted(
                earlier, "ClaimLostError", f"a later try of {describe(once.scope)} began anew"
            )
    try:
        transaction = StatementTransaction.begin(context, operations, None, taken, patience)
    except LocksPendingError as pending:
        taken.waiting(pending)
        raise
    try:
        document = {**transaction.document(), "claim": taken.claim.to_document()}
        new = NewSharedTxn(transaction.txn_id, once.scope, context.agent_info, document, max_age_ms, most_bytes)
        txn = client.shared_txns.add(new)
        hand_over(client, txn.txn_id)
    except BaseException as failure:
        transaction.abort_after(failure)
        raise
    return txn


def _check_tables(context: Context, operations: Mapping[str, str]) -> None:
    context.locking.require_transactions("transactions across tasks need hive.txn.manager=DbTxnManager")
    for name, operation in operations.items():
        if operation != "select" and not context.table(name).is_transactional:
            raise UnsupportedStatementError(
                f"{name} has no transactions, and a transaction across tasks cannot undo what is written to it; make "
                "it transactional, or write it in a task after the group"
            )


@contextlib.contextmanager
def joined(
    context: Context,
    txn_id: int,
    name: tuple[str, ...],
    *,
    patience: float,
    is_final: Callable[[BaseException], bool],
) -> Iterator[Membership]:
    """Work in a transaction of several tasks while a block runs, as one member of it.

    Members have the turn one after the other. When the block ends cleanly, what it wrote belongs to the transaction;
    when it fails, what it wrote is undone, and where it is not going to be tried again the transaction is given up.

    :param name: of the member: DAG, run, task and map index; all its tries have the same.
    :param patience: seconds to wait for the turn.
    :param is_final: whether a failure is the member's last.
    :raises TransactionEndedError: when it was given up or committed, or is given up because of a failure in the block.
    :raises TurnPendingError: when another member has the turn for longer than that.
    """
    client, member = context.client, member_id(name)
    require_open(client.shared_txns.get(txn_id), name)
    hold_ms = client.settings.milliseconds("hive.txn.timeout")
    ends = time.monotonic() + patience
    while True:
        taken = client.shared_txns.take_turn(txn_id, member, json.dumps(name), hold_ms)
        if taken.holder is None:
            break
        if time.monotonic() >= ends:
            raise TurnPendingError(
                f"{taken.txn}: {_spoken(taken.holder)} is at work in it; this task's turn comes after"
            )
        time.sleep(min(_POLL_SECONDS, max(0.0, ends - time.monotonic())))
    if taken.done is not None:
        yield Membership(context, taken.txn, member, "", taken.done.result or ())
        return
    if taken.token is None:
        require_open(taken.txn, name)
        raise AssertionError("an open transaction without a turn")
    membership = Membership(context, taken.txn, member, taken.token, None)
    watch = _Watch(context, taken.txn, taken.token, hold_ms)
    try:
        with watch:
            _undo(context, taken.txn, taken.token, taken.half_done)
            membership.bind(SharedTransaction.resume(context, taken.txn, membership))
            yield membership
        membership.require_whole()
        written = membership.transaction.written_document()
        client.shared_txns.finish(txn_id, taken.token, member, written, membership.units)
        membership.transaction.leave()
    except BaseException as failure:
        client.heartbeats.remove(txn_id)
        cause = failure if watch.lost is None or not isinstance(failure, Exception) else watch.lost
        _failed(context, taken.txn, taken.token, cause, final=is_final(cause))
        if cause is not failure:
            raise cause from failure
        raise


def require_open(txn: SharedTxn, name: Sequence[str] = ()) -> None:
    """Refuse to work in what has ended.

    :param name: of who wants to; members belong to the DAG run that has begun the transaction.
    :raises TransactionEndedError: says why it has ended.
    :raises InvalidArgumentsError: when it belongs to another DAG run.
    """
    if name and tuple(name[:3]) != txn.scope[:3]:
        raise InvalidArgumentsError(
            f"{txn} belongs to another run; {describe(name)} can work only in a transaction that its own DAG run began"
        )
    if txn.state is SharedState.COMMITTED:
        raise TransactionEndedError(f"{txn} is committed; clear the task that begins it to do all of it anew")
    if txn.state is SharedState.ABORTED:
        kind = TransactionLimitError if txn.error == LIMIT_ERROR else TransactionEndedError
        raise kind(f"{txn} was given up: {txn.error}: {txn.reason}")


def commit_shared(context: Context, txn_id: int) -> tuple[SharedTxn, list[dict[str, Any]]]:
    """Make visible what all members wrote, at once; again is fine, also after a crash or a lost answer (R17).

    :return: the record, and the records of all statements' results in the order in which members finished.
    :raises TransactionEndedError: when it was given up.
    :raises WriteConflictError: when another txn changed the same first; it is given up then.
    :raises CommitStateUnknownError: when the answer was lost; commit again, to find out.
    :raises TurnPendingError: when a member is at work.
    """
    shared = context.client.shared_txns
    hold_ms = context.client.settings.milliseconds("hive.txn.timeout")
    taken = shared.take_turn(txn_id, THE_COMMIT, "", hold_ms)
    members = shared.members(txn_id)
    results = [record for m in members for unit in m.result or () for record in unit["results"]]
    if taken.txn.state is SharedState.COMMITTED:
        return taken.txn, results
    require_open(taken.txn)
    if taken.holder is not None or taken.token is None:
        raise TurnPendingError(f"{taken.txn}: {_spoken(taken.holder or '?')} is still at work in it")
    begun = unfinished(members)
    if begun:
        shared.give_back(txn_id, taken.token)
        raise TransactionEndedError(
            f"{taken.txn} is not committed: {_spoken(begun[0])} has begun to work in it and not finished; half of a "
            "task's work must not become visible"
        )
    token, claim = taken.token, Claim.from_document(taken.txn.document["claim"])
    try:
        transaction = SharedTransaction.resume(context, taken.txn, UNCLAIMED)
    except (TxnAbortedError, NoSuchTxnError) as gone:
        give_up(context.client, context.filesystem, txn_id, type(gone).__name__, str(gone))
        raise
    transaction.at_commit(context.client.claims.at_commit(claim, txn_id, results))
    transaction.at_commit(shared.at_commit(txn_id, token))
    transaction.commit()
    return shared.get(txn_id), results


def member_id(name: Sequence[str]) -> str:
    """Digest of a member's name: its key."""
    return hashlib.sha256(json.dumps(list(name)).encode()).hexdigest()


class _Watch:
    """Extends the turn in the background, and stops the work when the transaction is over or nobody keeps it (R9).

    :ivar lost: why the work was stopped.
    """

    def __init__(self, context: Context, txn: SharedTxn, token: str, hold_ms: int) -> None:
        self._context = context
        self._txn_id = txn.txn_id
        self._token = token
        self._hold_ms = hold_ms
        self.lost: HiveAcidError | None = None
        self._over = False
        interval = min(_LOOK_SECONDS, hold_ms / 6000)
        self._heartbeats = Heartbeater(lambda _: self._look(), interval, what="turn in txn")

    def __enter__(self) -> _Watch:
        self._heartbeats.add(self._txn_id)
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._heartbeats.close()

    def _look(self) -> None:
        try:
            self.look()
        except MetastoreUnavailableError:
            raise
        except HiveAcidError as error:
            if not self._over:
                self.lost = error
                self._context.application.cancel()
            raise

    def look(self) -> None:
        """Extend the turn.

        :raises ClaimLostError: when the turn is somebody else's; TransactionLimitError when the keeper is gone or the
            transaction too old; what a heartbeat of the txn found out.
        """
        client = self._context.client
        txn = client.shared_txns.extend_turn(self._txn_id, self._token, self._hold_ms)
        gone = client.heartbeats.lost(self._txn_id)
        if gone is not None:
            raise gone
        why = why_it_must_end(client, txn)
        if why is not None:
            give_up(client, self._context.filesystem, self._txn_id, LIMIT_ERROR, why)
            raise TransactionLimitError(why)


def why_it_must_end(client: MetastoreClient, txn: SharedTxn) -> str | None:
    """Why members must not go on: too old, or its keeper is gone."""
    silence = client.settings.milliseconds("hive.acid.shared.txn.keeper.timeout")
    grace = client.settings.milliseconds("hive.acid.handover.grace")
    return too_old(txn) or keeper_gone(txn, silence, grace)


def _failed(context: Context, txn: SharedTxn, token: str, failure: BaseException, *, final: bool) -> None:
    """After a failure in a member's turn: undo it, or give everything up where that is the end of it.

    :raises TransactionEndedError: when the transaction is over, and trying the member again cannot help.
    """
    client, filesystem = context.client, context.filesystem
    try:
        # Who has lost the turn decides nothing and undoes nothing any more: a later try may be at work, or done.
        begun = client.shared_txns.half_done(txn.txn_id, token)
        if final:
            text = f"{type(failure).__name__}: {failure}"
            give_up(client, filesystem, txn.txn_id, type(failure).__name__, f"a task of it failed: {text}")
        else:
            _undo(context, txn, token, begun)
            client.shared_txns.give_back(txn.txn_id, token)
            hand_over(client, txn.txn_id)
    except TransactionEndedError:
        raise
    except ClaimLostError:
        pass
    except (TxnAbortedError, NoSuchTxnError) as gone:
        give_up(client, filesystem, txn.txn_id, type(gone).__name__, str(gone))
    except HiveAcidError as second:
        add_note(failure, f"what it had half done is undone by whoever works in {txn} next: {second}")
        return
    now = client.shared_txns.find(txn.txn_id)
    retryable = isinstance(failure, HiveAcidError) and failure.retryable
    if retryable and now is not None and now.state is SharedState.ABORTED:
        raise TransactionEndedError(f"{txn} was given up: {now.error}: {now.reason}") from failure


def _undo(context: Context, txn: SharedTxn, token: str, members: Sequence[Member]) -> None:
    """Fence what tries of members have started, and remove what they have published (R4, R5).

    :raises TransactionEndedError: when that is not possible, because it took the place of what others wrote.
    :raises JobsAliveError: when a job may still write; try again later.
    """
    if not members:
        return
    client, filesystem = context.client, context.filesystem
    given_up = client.shared_txns.give_up_half_done(txn.txn_id, token, {m.member for m in members})
    jobs = given_up.jobs
    report = fence(client, filesystem, [given_up], f"its try in {txn} was given up")
    if report.alive:
        job, why = report.alive[0]
        raise JobsAliveError(f"job {job.job_id} of an earlier try may still write to {job.table}: {why}")
    kept = {
        directory.uri
        for document in txn.written.values()
        for manifest in document["written"]["manifests"]
        for directory in Manifest.from_document(manifest).directories
    }
    for job in (client.jobs.get(job.job_id) for job in jobs):
        for directory in () if job.manifest is None else Manifest.from_document(job.manifest).directories:
            if directory.uri in kept:
                why = (
                    f"a try of {_spoken(members[0].name)} failed after it had begun to change {directory.uri}, which "
                    "another task of the transaction has written; that cannot be undone alone"
                )
                give_up(client, filesystem, txn.txn_id, "JobFailedError", why)
                raise TransactionEndedError(f"{txn} was given up: {why}")
            parsed = parse_directory(directory.name)
            if parsed is None or parsed.max_write_id != job.write_id:
                raise AssertionError(f"{directory.uri} is no directory of write id {job.write_id}")
            paths.require_inside(directory.place, directory.uri)
            filesystem.delete(directory.uri, inside=directory.place)
    client.shared_txns.undone(txn.txn_id, token, [m.member for m in members])


def _spoken(name: str) -> str:
    """A member for people."""
    with contextlib.suppress(ValueError, TypeError):
        return describe(tuple(json.loads(name)))
    return name
