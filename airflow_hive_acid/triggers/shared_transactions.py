"""What waits for transactions across tasks without a worker slot: their keeper, members whose turn comes later, and
tries that begin after a pause."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import MetastoreWaitTrigger
from airflow_hive_acid.triggers.shared import shared_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_hive_acid.metastore import MetastoreClient

_MEASURE_SECONDS = 60.0


class TransactionKeptTrigger(MetastoreWaitTrigger):
    """Keeps a transaction across tasks alive until it ends, and fires then (R9).

    It also ends one that is too old or holds back too much from cleaning. Whoever ends the task that waits for it ends
    the transaction.

    :param txn_id: the txn.
    """

    tolerated_failures: ClassVar[int] = 60

    def __init__(self, txn_id: int, hive_acid_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 5.0) -> None:
        super().__init__(hive_acid_conn_id, poll_interval)
        self.txn_id = txn_id
        self._measured = float("-inf")

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """One beat."""
        from airflow_hive_acid.filesystem import AnyFilesystem  # not needed to defer
        from airflow_hive_acid.maintenance.reaper.shared_txns import keep

        measure = time.monotonic() - self._measured >= _MEASURE_SECONDS
        if measure:
            self._measured = time.monotonic()
        kept = keep(client, AnyFilesystem(), self.txn_id, measure=measure)
        if not kept.ended:
            return None
        if kept.txn is None:
            return {"txn_id": self.txn_id, "state": "forgotten", "limit": False, "reason": None}
        ended = {"state": kept.txn.state.name.lower(), "limit": kept.limit, "reason": kept.txn.reason}
        return {"txn_id": self.txn_id, **ended}

    async def let_go(self) -> None:
        """Somebody has ended or cleared the keeper: without one the transaction cannot go on."""
        async with shared_client(self.hive_acid_conn_id) as client:
            await asyncio.to_thread(self._give_up, client)

    def _give_up(self, client: MetastoreClient) -> None:
        from airflow_hive_acid.filesystem import AnyFilesystem
        from airflow_hive_acid.maintenance.reaper.shared_txns import LIMIT_ERROR, give_up

        if client.shared_txns.find(self.txn_id) is not None:
            why = "its keeper was ended or cleared in Airflow; without one it cannot go on"
            give_up(client, AnyFilesystem(), self.txn_id, LIMIT_ERROR, why)


class TurnTrigger(MetastoreWaitTrigger):
    """Fires when no other member of a transaction across tasks is at work in it, or it has ended.

    :param txn_id: the txn.
    :param member: digest of the member that waits.
    :param until: when to give up, in seconds since the epoch by the triggerer's clock.
    """

    def __init__(
        self,
        txn_id: int,
        member: str,
        until: float,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 2.0,
    ) -> None:
        super().__init__(hive_acid_conn_id, poll_interval)
        self.txn_id = txn_id
        self.member = member
        self.until = until

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once."""
        from airflow_hive_acid.metastore.records import SharedState, holder_in_the_way

        txn = client.shared_txns.find(self.txn_id)
        if txn is None or txn.state is not SharedState.OPEN or holder_in_the_way(txn, self.member) is None:
            return {"txn_id": self.txn_id}
        if time.time() > self.until:
            message = f"{txn}: another task of it has been at work for too long (hive.lock.numretries)"
            return {"status": "timeout", "type": "LockTimeoutError", "message": message}
        return None


class PauseTrigger(BaseTrigger):
    """Fires at a point in time.

    :param until: seconds since the epoch by the triggerer's clock.
    """

    def __init__(self, until: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments, from which Airflow makes this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"until": self.until}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait."""
        await asyncio.sleep(max(0.0, self.until - time.time()))
        yield TriggerEvent({"status": "success"})  # type: ignore[no-untyped-call]
