"""Waiting until the locks of a txn are granted, so that its task needs no worker slot meanwhile (R9)."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import TriggerEvent

from airflow_hive_acid.airflow_versions import AirflowException
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.hooks import stats
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import MetastoreWaitTrigger, failed
from airflow_hive_acid.triggers.shared import lock_room, shared_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class LocksGrantedTrigger(MetastoreWaitTrigger):
    """Fires when all locks of a request are granted, or will not be.

    All triggers of this kind in one triggerer look together, once a second. When it fires, the txn's heartbeat reaches
    into the future, so that it outlives the task's wait for a worker slot.

    :param txn_id: the txn, which is kept alive meanwhile.
    :param lock_id: its request.
    :param until: when to give up, in seconds since the epoch by the triggerer's clock; the txn is aborted then.
    :param handed_back: what the task needs to go on; the event of a success carries it.
    """

    def __init__(
        self,
        txn_id: int,
        lock_id: int,
        until: float,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        handed_back: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(hive_acid_conn_id)
        self.txn_id = txn_id
        self.lock_id = lock_id
        self.until = until
        self.handed_back = handed_back

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then fire one event: ``status`` ``success``, or ``error`` with a ``message``."""
        from airflow_hive_acid.metastore.protocol import GivenUp, Watched  # not needed to defer

        started = time.monotonic()
        try:
            async with lock_room(self.hive_acid_conn_id) as room:
                outcome = await room.wait(Watched(self.txn_id, self.lock_id, self.until))
        except (HiveAcidError, AirflowException) as error:
            yield failed(error)
            return
        if isinstance(outcome, GivenUp):
            yield failed(outcome.error)
        else:
            stats.duration("lock_wait", time.monotonic() - started, self.hive_acid_conn_id)
            event = {"status": "success", "txn_id": self.txn_id, "lock_id": self.lock_id}
            event["handed_back"] = self.handed_back
            yield TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def let_go(self) -> None:
        """Somebody has ended or cleared the task: withdraw the request and abort the txn."""
        from airflow_hive_acid.metastore.protocol import withdraw

        async with shared_client(self.hive_acid_conn_id) as client:
            await asyncio.to_thread(withdraw, client, {"txn_id": self.txn_id}, "killed by Airflow while it waited")


class LocksTriedAgainTrigger(MetastoreWaitTrigger):
    """Fires when it is time to ask again for locks that were denied; nothing is held or asked meanwhile.

    Locks of the Hive Concurrency Model have no queue: whoever is denied tries again after a pause.

    :param until: when, in seconds since the epoch by the triggerer's clock.
    :param handed_back: what the task needs to go on; the event carries it.
    """

    def __init__(
        self, until: float, hive_acid_conn_id: str = DEFAULT_CONN_ID, handed_back: dict[str, Any] | None = None
    ) -> None:
        super().__init__(hive_acid_conn_id)
        self.until = until
        self.handed_back = handed_back

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, then fire one event: ``status`` ``success``."""
        await asyncio.sleep(max(0.0, self.until - time.time()))
        yield TriggerEvent({"status": "success", "handed_back": self.handed_back})  # type: ignore[no-untyped-call]
