"""Waiting for a compaction request to be served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import JobFailedError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.triggers.base import MetastoreWaitTrigger

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient


class CompactionFinishedTrigger(MetastoreWaitTrigger):
    """Fires when a compaction request has been served, or will not be.

    :param request_id: id of the request.
    """

    def __init__(self, request_id: int, hive_acid_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 5.0) -> None:
        super().__init__(hive_acid_conn_id, poll_interval)
        self.request_id = request_id

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once."""
        return compaction_outcome(client, self.request_id)


def compaction_outcome(client: MetastoreClient, request_id: int) -> dict[str, Any] | None:
    """How a request ended, None while it waits or is worked on.

    Readers see the result as soon as the request is ready for cleaning; the Cleaner's part is nothing to wait for.

    :raises JobFailedError: when it failed or was refused; says why.
    :raises NoSuchObjectError: when there is no such request, any more.
    """
    from airflow_hive_acid.metastore.compaction_queue_model import CompactionState

    request = client.compactions.get(request_id)
    if request.state in (CompactionState.INITIATED, CompactionState.WORKING):
        return None
    if request.state in (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED):
        return {"request_id": request.id, "state": request.state.text, "txn_id": request.txn_id}
    raise JobFailedError(
        f"compaction request {request.id} of {request.resource} ended as {request.state.text}: "
        f"{request.error or 'no reason was recorded'}"
    )
