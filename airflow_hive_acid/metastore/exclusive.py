"""Exclusive locks for as long as a block runs: what DDL holds while it changes a table."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, LockDeniedError, LockTimeoutError
from airflow_hive_acid.metastore.codes import AbortReason, LockState
from airflow_hive_acid.metastore.waiting import back_off_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow_hive_acid.metastore.client import MetastoreClient
    from airflow_hive_acid.metastore.locks.interface import LockComponent


@contextlib.contextmanager
def hold_exclusively(client: MetastoreClient, components: Sequence[LockComponent], agent_info: str | None,
                     sleep: Callable[[float], None] = time.sleep) -> Iterator[int]:
    """Take the locks inside a txn of their own, wait for them, and give them back at the end.

    The txn writes nothing; it is there because its heartbeats keep the locks alive.

    :raises LockTimeoutError: when they were not granted in time; nothing is left behind.
    """
    txn_id = client.open_txn(agent_info=agent_info)
    client.heartbeats.add(txn_id)
    try:
        yield _acquire(client, txn_id, components, agent_info, sleep)
    except BaseException as error:
        client.heartbeats.remove(txn_id)
        with contextlib.suppress(HiveAcidError):  # it then times out; the first error is the one to hear
            client.abort_txn(txn_id, AbortReason.LOCK_TIMEOUT if isinstance(error, LockTimeoutError) else str(error))
        raise
    client.heartbeats.remove(txn_id)
    client.commit_txn(txn_id)


def _acquire(client: MetastoreClient, txn_id: int, components: Sequence[LockComponent], agent_info: str | None,
             sleep: Callable[[float], None]) -> int:
    response = client.lock(components, txn_id=txn_id, agent_info=agent_info)
    if response.state is LockState.NOT_ACQUIRED:
        raise LockDeniedError(response.message or "the lock was refused")
    waited = 0
    pauses = back_off_ms(client.settings.integer("hive.lock.numretries"),
                         client.settings.milliseconds("hive.lock.sleep.between.retries"))
    for pause in pauses:
        if response.state is LockState.ACQUIRED:
            return response.lock_id
        sleep(pause / 1000)
        waited += pause
        response = client.check_lock(response.lock_id)
    if response.state is LockState.ACQUIRED:
        return response.lock_id
    places = ", ".join(c.describe() for c in components)
    raise LockTimeoutError(f"{places} stayed locked by {response.blocked_by} for {waited / 1000:g} s; the request is "
                           "withdrawn. See 'hive-acid show locks'")
