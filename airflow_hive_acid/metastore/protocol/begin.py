"""How a transaction begins: open, lock, wait, pin, look, allocate.

The order is the protocol; where all of it is one round trip, :mod:`~airflow_hive_acid.metastore.protocol.at_once` keeps
it. R10: what is needed is registered before the snapshot is taken, which must need no more than that. R11: one snapshot
for all tables. R2: a change that would doom the txn at its commit is found now, and the txn is opened anew before any
work is done. R1: write ids come after the grant, and are stamped into the components with it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import (
    HiveAcidError,
    LockDeniedError,
    LocksPendingError,
    MetastoreUnavailableError,
    WriteConflictError,
)
from airflow_hive_acid.metastore.database.backend import finish_batch
from airflow_hive_acid.metastore.database.codes import AbortReason, LockState, TxnType
from airflow_hive_acid.metastore.locks.interface import LockResponse
from airflow_hive_acid.metastore.names.objects import TableName
from airflow_hive_acid.metastore.protocol.allocation import allocate_all
from airflow_hive_acid.metastore.protocol.at_once import begin_at_once
from airflow_hive_acid.metastore.protocol.handover import leave, take_up
from airflow_hive_acid.metastore.protocol.lock_wait import abort_reason, wait_until_granted
from airflow_hive_acid.metastore.protocol.looks import begun_of, cleanable_step, covers, is_cleaned_away, later_step
from airflow_hive_acid.metastore.txns.conflicts import early_conflict, early_step
from airflow_hive_acid.metastore.txns.history import pin_steps
from airflow_hive_acid.metastore.txns.snapshots import FEW, Snapshot, take_snapshot, take_snapshot_and
from airflow_hive_acid.metastore.verbs import AGENT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.leases.model import Lease
    from airflow_hive_acid.metastore.locks.interface import LockComponent
    from airflow_hive_acid.metastore.protocol.at_once import AtOnce
    from airflow_hive_acid.metastore.protocol.handover import Patience
    from airflow_hive_acid.metastore.protocol.table_uses import TableUse
    from airflow_hive_acid.metastore.protocol.transaction import Begun
    from airflow_hive_acid.metastore.verbs import Verbs

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Locks:
    """What a transaction locks; nothing at all is possible.

    :param exclusive_ctas: a conflict fails at once: two CREATE TABLE AS SELECT of one name.
    """

    components: tuple[LockComponent, ...]
    exclusive_ctas: bool = False


@dataclass(slots=True)
class PendingTransaction:
    """A txn that is open and whose locks are asked for, but perhaps not granted yet.

    :ivar at_once: what was done beyond that, if it was.
    """

    client: Verbs
    txn_id: int
    uses: tuple[TableUse, ...]
    response: LockResponse
    lease: Lease | None = None
    at_once: AtOnce | None = None

    @property
    def granted(self) -> bool:
        """Whether all locks are granted."""
        return self.response.state is LockState.ACQUIRED

    def check(self) -> bool:
        """Ask again, and send a heartbeat; whether all locks are granted."""
        with self.client.leases.under(self.lease):
            self.response = self.client.check_lock(self.response.lock_id)
        return self.granted

    def give_up(self, reason: AbortReason | str) -> None:
        """Withdraw the request and abort the txn: nothing stays in the queue."""
        self.client.heartbeats.remove(self.txn_id)
        self.client.abort_txn(self.txn_id, reason)


def begin(
    client: Verbs,
    uses: tuple[TableUse, ...],
    agent_info: str | None,
    kind: TxnType,
    sleep: Callable[[float], None] | None = None,
    locks: Locks | None = None,
    patience: Patience | None = None,
    opened: Callable[[int], None] | None = None,
) -> Begun:
    """Open, lock and prepare a transaction; start over while others' commits make it hopeless.

    :param locks: what to lock instead of what the uses ask for.
    :param patience: how long to wait here, and what has been waited for elsewhere.
    :param opened: is told each txn before its locks are asked for, so that a retry can end it, whatever dies from then
        on (R14).
    :raises LocksPendingError: when that was not long enough; the request stays in the queue.
    :raises LockTimeoutError: when the locks were not granted in time; nothing is left behind.
    :raises WriteConflictError: when it had to start over ``hive.txn.retrysnapshot.max.count`` times.
    """
    tries = max(1, client.settings.integer("hive.txn.retrysnapshot.max.count"))
    for number in range(tries):
        wanted = Locks(tuple(use.component() for use in uses)) if locks is None else locks
        taken_up = _taken_up(client, uses, wanted, patience, reads=kind is TxnType.READ_ONLY)
        pending = taken_up or start(client, uses, agent_info, kind, wanted, opened, at_once=number == 0)
        try:
            if taken_up is not None and opened is not None:
                opened(taken_up.txn_id)
            wait_for_locks(pending, sleep, None if patience is None else patience.seconds)
            if patience is not None and not pending.granted:
                response = pending.response
                raise leave(
                    client, pending.txn_id, response.lock_id, wanted.components, response.blocked_by,
                    reads=kind is TxnType.READ_ONLY,
                )  # fmt: skip
            begun = prepare(pending) if pending.at_once is None else pending.at_once.begun
        except LocksPendingError:
            raise
        except BaseException as error:
            abandon(pending, error)
            raise
        if begun is not None:
            return begun
        pending.give_up(AbortReason.CONCURRENT)
    raise WriteConflictError(
        f"{', '.join(str(u.table) for u in uses)}: other transactions kept committing changes while this one began; "
        f"it started over {tries} times (hive.txn.retrysnapshot.max.count). Try again later"
    )


def start(
    client: Verbs,
    uses: tuple[TableUse, ...],
    agent_info: str | None,
    kind: TxnType,
    locks: Locks | None = None,
    opened: Callable[[int], None] | None = None,
    *,
    at_once: bool = False,
) -> PendingTransaction:
    """Open a txn and ask for its locks, without waiting.

    :param at_once: where that takes no longer, do everything else, too, if they are granted.
    """
    wanted = Locks(tuple(use.component() for use in uses)) if locks is None else locks
    txn_id = client.open_txn(agent_info=agent_info, type=kind)
    client.heartbeats.add(txn_id)
    try:
        if opened is not None:
            opened(txn_id)
        done = begin_at_once(client, txn_id, uses, wanted.components, agent_info or AGENT) if at_once else None
        response = _ask(client, wanted, txn_id, agent_info) if done is None else done.response
        if response.state is LockState.NOT_ACQUIRED:
            raise LockDeniedError(response.message or f"the locks of txn {txn_id} were refused")
    except BaseException as error:
        client.heartbeats.remove(txn_id)
        _abort_quietly(client, txn_id, error)
        raise
    return PendingTransaction(client, txn_id, uses, response, client.leases.current, done)


def _taken_up(
    client: Verbs, uses: tuple[TableUse, ...], wanted: Locks, patience: Patience | None, *, reads: bool
) -> PendingTransaction | None:
    """The request that another process has waited for; None when there is none, or it has ended meanwhile."""
    found = None if patience is None else take_up(client, wanted.components, patience, reads=reads)
    if found is None:
        return None
    txn_id, response = found
    return PendingTransaction(client, txn_id, uses, response, client.leases.current)


def _ask(client: Verbs, locks: Locks, txn_id: int, agent_info: str | None) -> LockResponse:
    if not locks.components:
        return LockResponse(0, LockState.ACQUIRED)  # the settings have it that nothing is locked
    return client.lock(locks.components, txn_id=txn_id, agent_info=agent_info, exclusive_ctas=locks.exclusive_ctas)


def wait_for_locks(
    pending: PendingTransaction, sleep: Callable[[float], None] | None = None, patience: float | None = None
) -> None:
    """Wait until the locks are granted, with Hive's back-off.

    :param patience: return after so many seconds, whether they are granted or not.
    :raises LockTimeoutError: when they were not granted in time; :raises DeadlockError: when it must give way.
    """
    places = ", ".join(str(use.table) for use in pending.uses)
    pending.response = wait_until_granted(pending.client, pending.response, pending.txn_id, places, sleep, patience)


def prepare(pending: PendingTransaction) -> Begun | None:
    """Pin, look, check, allocate; None when the txn is outdated and must be opened anew (R2)."""
    client, txn_id = pending.client, pending.txn_id
    tables = [use.table for use in pending.uses if use.transactional]
    written = [use.table for use in pending.uses if use.writes]
    replaced = [use.table for use in pending.uses if use.replaces]
    gap = client.gap_timeout_ms
    few = len(tables) <= FEW

    if not tables:
        snapshot = client.database.run(lambda connection: take_snapshot(connection, tables, txn_id, gap), hot=True)
        return begun_of(pending.response.lock_id or None, txn_id, pending.uses, snapshot, {})

    def pin(connection: Connection, earlier: Snapshot | None, tried: list[None]) -> dict[TableName, int]:
        needed, again = None if earlier is None else earlier.needed(), bool(tried) or earlier is not None
        tried.append(None)
        steps = pin_steps(client.database.features(connection), txn_id, tables, needed, again=again)
        results = finish_batch(connection, steps)
        return {TableName(r[0], r[1]): r[2] for r in results[-1].rows} if results else {}

    def look(connection: Connection, pinned: Mapping[TableName, int]) -> Begun | Snapshot | None:
        early = [early_step(txn_id)] if written else []
        later = [later_step(connection, replaced, txn_id)] if replaced else []
        looks = [*early, *later, cleanable_step(connection, tables)]
        snapshot, results = take_snapshot_and(connection, tables, txn_id, gap, looks)
        if not covers(pinned, snapshot):
            return snapshot
        if written and early_conflict(txn_id, results[0].rows, snapshot.valid_txns) is not None:
            return None
        if replaced and results[1].rows:
            return None
        if is_cleaned_away(snapshot, results[-1].rows):
            return None
        write_ids = allocate_all(connection, client, txn_id, written)
        return begun_of(pending.response.lock_id or None, txn_id, pending.uses, snapshot, write_ids)

    earlier: Snapshot | None = None
    while True:
        tried: list[None] = []
        pinned = client.database.run(
            lambda connection, earlier=earlier, tried=tried: pin(connection, earlier, tried),  # type: ignore[misc]
            hot=few,
        )
        found = client.database.run(
            lambda connection, pinned=pinned: look(connection, pinned),  # type: ignore[misc]
            retry_duplicates=True,
            hot=few,
        )
        if not isinstance(found, Snapshot):
            return found
        # R10: it needs more than was registered; register that, and look again.
        earlier = found
        pending.client.heartbeat(txn_id)


def abandon(pending: PendingTransaction, error: BaseException) -> None:
    """Withdraw and abort after an error, which is the one the caller should hear."""
    pending.client.heartbeats.remove(pending.txn_id)
    _abort_quietly(pending.client, pending.txn_id, error)


def _abort_quietly(client: Verbs, txn_id: int, error: BaseException) -> None:
    reason = abort_reason(error)
    try:
        client.abort_txn(txn_id, reason)
    except MetastoreUnavailableError as problem:
        client.heartbeats.end_later(txn_id, lambda: client.abort_txn(txn_id, reason))
        log.warning("txn %d cannot be aborted now, and will be when the metastore answers: %s", txn_id, problem)
    except HiveAcidError as problem:
        log.warning("txn %d could not be aborted and will time out: %s", txn_id, problem)
