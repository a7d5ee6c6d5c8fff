"""Waiting until locks are granted: Hive's back-off, deadlocks, and giving up without a trace.

A request that is given up is withdrawn together with its txn: nothing stays in the queue for others to wait for.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import DeadlockError, LockDeniedError, LockTimeoutError
from airflow_hive_acid.metastore.database.codes import AbortReason, LockState
from airflow_hive_acid.metastore.database.wakeups import naps
from airflow_hive_acid.metastore.protocol.back_off import back_off_ms
from airflow_hive_acid.metastore.protocol.blockers import describe_wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.locks.interface import LockResponse
    from airflow_hive_acid.metastore.verbs import Verbs


def wait_until_granted(
    client: Verbs,
    response: LockResponse,
    txn_id: int,
    places: str,
    sleep: Callable[[float], None] | None = None,
    patience: float | None = None,
) -> LockResponse:
    """Ask again and again, each time sending a heartbeat, until all locks of a request are granted.

    It gives nothing back when it fails: that is the caller's, who knows what the locks belong to.

    :param places: what is asked for, for messages.
    :param patience: return after so many seconds, whether they are granted or not.
    :raises LockDeniedError: when the request was refused.
    :raises LockTimeoutError: when it was not granted within ``hive.lock.numretries``.
    :raises DeadlockError: when this txn is the one to give way.
    """
    longest = client.settings.milliseconds("hive.lock.sleep.between.retries")
    waited = 0
    if response.state is LockState.WAITING:
        with naps(client.database) if sleep is None else contextlib.nullcontext(_napping(sleep)) as nap:
            for pause in back_off_ms(client.settings.integer("hive.lock.numretries"), longest):
                if patience is not None and waited >= patience * 1000:
                    return response
                response = _wait_once(client, response, txn_id, pause / 1000, nap)
                waited += pause
                if response.state is not LockState.WAITING:
                    break
    if response.state is LockState.ACQUIRED:
        return response
    if response.state is LockState.NOT_ACQUIRED:
        raise LockDeniedError(response.message or f"the lock on {places} was refused")
    raise LockTimeoutError(
        f"{f'txn {txn_id}' if txn_id else f'lock {response.lock_id}'} waited {waited / 1000:g} s for {places}, last "
        f"behind lock {response.blocked_by}{_who(client, txn_id)}; the request is withdrawn. See 'hive-acid show "
        "locks'; hive.lock.numretries and hive.lock.sleep.between.retries say how long to wait"
    )


def _who(client: Verbs, txn_id: int) -> str:
    return f" ({describe_wait(client, txn_id)})" if txn_id else ""


def _wait_once(
    client: Verbs, response: LockResponse, txn_id: int, pause: float, nap: Callable[[float], float]
) -> LockResponse:
    """One pause of the back-off; whoever is woken during it asks, and goes on with the rest of it."""
    while True:
        if txn_id:
            _give_way(client, txn_id)
        pause -= nap(pause)
        response = client.check_lock(response.lock_id)
        if pause <= 0 or response.state is not LockState.WAITING:
            return response


def _napping(sleep: Callable[[float], None]) -> Callable[[float], float]:
    def nap(seconds: float) -> float:
        sleep(seconds)
        return seconds

    return nap


def abort_reason(error: BaseException) -> AbortReason | str:
    """Why a txn that failed while it began is aborted."""
    if isinstance(error, LockTimeoutError):
        return AbortReason.LOCK_TIMEOUT
    if isinstance(error, DeadlockError):
        return AbortReason.DEADLOCK
    return f"{type(error).__name__}: {error}"


def _give_way(client: Verbs, txn_id: int) -> None:
    """Find out whether this txn is the one to give way in a deadlock."""
    if not client.settings.flag("hive.acid.deadlock.detection"):
        return
    for victim in client.find_deadlocks():
        if victim.party.txn_id == txn_id:
            raise DeadlockError(
                f"txn {txn_id} gives way in a deadlock, it has done the least: {victim.describe()}. It is aborted; "
                "run it again, and let transactions declare all their tables when they begin"
            )
