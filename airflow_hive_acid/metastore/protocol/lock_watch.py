"""Many requests waited for at once: one query a look, however many there are (R9).

A request that waits is blocked by the lock its row names, and nothing changes before that lock is gone, or has ended as
that of a lease. So a look asks for the requests whose blocker is gone, and only those are checked. Heartbeats go out
for all of them together.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import BindParameter, and_, bindparam, not_, select, update
from sqlalchemy.orm import aliased

from airflow_hive_acid.errors import DeadlockError, HiveAcidError, LockTimeoutError, MetastoreUnavailableError
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.codes import AbortReason, LockState
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.protocol.blockers import describe_wait
from airflow_hive_acid.metastore.protocol.handover import hand_over
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, TXNS
from airflow_hive_acid.python_versions import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.verbs import Verbs

_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_waiter, _blocker = aliased(HIVE_LOCKS, name="waiter"), aliased(HIVE_LOCKS, name="blocker")
#: What stands for leases has its heartbeat at their end: who asks then removes it, if all of them have ended.
_MAY_BE_AN_ENDED_LEASE = and_(
    _blocker.c.HL_TXNID == 0,
    _blocker.c.HL_LOCK_STATE == LockState.ACQUIRED.value,
    _blocker.c.HL_LAST_HEARTBEAT <= clock_ms(),
)
_STILL_BLOCKED = (
    select(_waiter.c.HL_LOCK_EXT_ID)
    .join(_blocker, _blocker.c.HL_LOCK_EXT_ID == _waiter.c.HL_BLOCKEDBY_EXT_ID)
    .where(
        _waiter.c.HL_LOCK_EXT_ID.in_(_IDS),
        _waiter.c.HL_LOCK_STATE == LockState.WAITING.value,
        not_(_MAY_BE_AN_ENDED_LEASE),
    )
    .distinct()
)
_HEARTBEATS = update(TXNS).where(TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=clock_ms())

_DEADLOCK_SECONDS = 5.0
_LOOK_SECONDS = 1.0
"""A look checks requests for so long, and at least one; those that are left are checked in the next one."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A request that somebody waits for.

    :param until: when the wait is given up, in seconds of the watch's clock.
    """

    txn_id: int
    lock_id: int
    until: float


@dataclass(frozen=True, slots=True)
class Granted:
    """All locks of the request are granted; the txn's heartbeat reaches into the future."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The wait is over without the locks; the txn is aborted, and the request withdrawn with it."""

    error: HiveAcidError


class LockWatch:
    """Looks after the requests of many waiters.

    :param clock: seconds; only differences count, and only for pauses and the end of a wait.
    """

    def __init__(self, client: Verbs, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._heartbeat_seconds = client.settings.seconds("hive.txn.timeout") / 4
        self._next_heartbeat = 0.0
        self._next_deadlock = 0.0

    def look(self, watched: Iterable[Watched]) -> dict[int, Granted | GivenUp]:
        """Look once.

        :return: outcomes by lock id; what still waits is left out.
        :raises MetastoreUnavailableError: when the database cannot be asked; nothing is decided then.
        """
        requests = {request.lock_id: request for request in sorted(watched, key=lambda request: request.lock_id)}
        if not requests:
            return {}
        now = self._clock()
        self._keep_alive(requests, now)
        outcomes: dict[int, Granted | GivenUp] = {}
        unblocked = deque(self._unblocked(requests))
        began = self._clock()
        while unblocked:
            lock_id = unblocked.popleft()
            outcome = self._check(requests[lock_id])
            if outcome is not None:
                outcomes[lock_id] = outcome
            # Those that were granted are to hear of it now, not when a thousand others have been checked as well.
            if self._clock() - began >= _LOOK_SECONDS:
                break
        settled = outcomes.keys() | set(unblocked)
        waiting = {lock_id: request for lock_id, request in requests.items() if lock_id not in settled}
        outcomes |= self._resolve_deadlocks(waiting, now)
        for request in waiting.values():
            if now >= request.until and request.lock_id not in outcomes:
                text = describe_wait(self._client, request.txn_id)
                error = LockTimeoutError(
                    f"txn {request.txn_id} was not granted its locks in time: {text}. The request is withdrawn; "
                    "hive.lock.numretries and hive.lock.sleep.between.retries say how long to wait"
                )
                outcomes[request.lock_id] = self._give_up(request, error, AbortReason.LOCK_TIMEOUT)
        return outcomes

    def _keep_alive(self, requests: Mapping[int, Watched], now: float) -> None:
        # A request that is new here has been given its time by whoever handed it over.
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + self._heartbeat_seconds
        txn_ids = [request.txn_id for request in requests.values()]

        def beat(connection: Connection) -> None:
            for part in chunks(txn_ids):
                connection.execute(_HEARTBEATS, {"ids": list(part)})

        self._client.database.run(beat)

    def _unblocked(self, requests: Mapping[int, Watched]) -> list[int]:
        """Requests whose blocker is gone, or that are gone themselves."""

        def read(connection: Connection) -> set[int]:
            blocked: set[int] = set()
            for part in chunks(list(requests)):
                blocked.update(connection.execute(_STILL_BLOCKED, {"ids": list(part)}).scalars())
            return blocked

        blocked = self._client.database.read(read)
        return [lock_id for lock_id in requests if lock_id not in blocked]

    def _check(self, request: Watched) -> Granted | GivenUp | None:
        try:
            if self._client.check_lock(request.lock_id).state is not LockState.ACQUIRED:
                return None
            hand_over(self._client, request.txn_id)
        except MetastoreUnavailableError:
            raise
        except HiveAcidError as error:
            return GivenUp(error)
        return Granted()

    def _resolve_deadlocks(self, waiting: Mapping[int, Watched], now: float) -> dict[int, Granted | GivenUp]:
        if not waiting or now < self._next_deadlock or not self._client.settings.flag("hive.acid.deadlock.detection"):
            return {}
        self._next_deadlock = now + _DEADLOCK_SECONDS
        by_txn = {request.txn_id: request for request in waiting.values()}
        outcomes: dict[int, Granted | GivenUp] = {}
        for victim in self._client.find_deadlocks():
            request = by_txn.get(victim.party.txn_id)
            if request is not None:
                error = DeadlockError(
                    f"txn {request.txn_id} gives way in a deadlock, it has done the least: {victim.describe()}. It is "
                    "aborted; run it again"
                )
                outcomes[request.lock_id] = self._give_up(request, error, AbortReason.DEADLOCK)
        return outcomes

    def _give_up(self, request: Watched, error: HiveAcidError, reason: AbortReason) -> GivenUp:
        try:
            self._client.abort_txn(request.txn_id, reason)
        except MetastoreUnavailableError:
            raise
        except HiveAcidError as problem:
            add_note(error, f"the txn could not be aborted: {problem}")
        return GivenUp(error)
