"""Waiting for work: the triggers in which runs of the Worker and Cleaner DAGs spend their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import UntilTrigger

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient


class WorkWaitsTrigger(UntilTrigger):
    """Fires when requests wait for compaction, or when the time is over; ``ready`` says which.

    :param threads: ``hive.compactor.worker.threads``.
    :param pools: threads by compaction pool.
    """

    said_as = "ready"

    def __init__(
        self,
        until: float,
        threads: int,
        pools: dict[str, int] | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 10.0,
    ) -> None:
        super().__init__(until, hive_acid_conn_id, poll_interval)
        self.threads = threads
        self.pools = pools

    def is_so(self, client: MetastoreClient) -> bool:
        """Look once."""
        from airflow_hive_acid.maintenance.cleaner.readiness import workers_wanted

        return any(workers_wanted(client, self.threads, self.pools or {}).values())


class CleaningReadyTrigger(UntilTrigger):
    """Fires when a Cleaner would find something to remove, or when the time is over; ``ready`` says which."""

    said_as = "ready"

    def is_so(self, client: MetastoreClient) -> bool:
        """Look once."""
        from airflow_hive_acid.maintenance.cleaner.readiness import is_something_to_clean

        return is_something_to_clean(client)
