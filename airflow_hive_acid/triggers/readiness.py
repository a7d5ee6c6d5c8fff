"""Waiting for work: the triggers in which runs of the Worker and Cleaner DAGs spend their time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import MetastoreWaitTrigger

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient


class WorkWaitsTrigger(MetastoreWaitTrigger):
    """Fires when requests wait for compaction, or when the time is over; ``ready`` says which.

    :param until: seconds since the epoch by the triggerer's clock.
    :param threads: ``hive.compactor.worker.threads``.
    :param pools: threads by compaction pool.
    """

    def __init__(
        self,
        until: float,
        threads: int,
        pools: dict[str, int] | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 10.0,
    ) -> None:
        super().__init__(hive_acid_conn_id, poll_interval)
        self.until = until
        self.threads = threads
        self.pools = pools

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once."""
        from airflow_hive_acid.maintenance.readiness import workers_wanted

        ready = any(workers_wanted(client, self.threads, self.pools or {}).values())
        return {"ready": ready} if ready or time.time() >= self.until else None


class CleaningReadyTrigger(MetastoreWaitTrigger):
    """Fires when a Cleaner would find something to remove, or when the time is over; ``ready`` says which.

    :param until: seconds since the epoch by the triggerer's clock.
    """

    def __init__(self, until: float, hive_acid_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 5.0) -> None:
        super().__init__(hive_acid_conn_id, poll_interval)
        self.until = until

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once."""
        from airflow_hive_acid.maintenance.readiness import is_something_to_clean

        ready = is_something_to_clean(client)
        return {"ready": ready} if ready or time.time() >= self.until else None
