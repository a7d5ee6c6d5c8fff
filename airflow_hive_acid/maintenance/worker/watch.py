"""Watches over the job of a compaction: whether it shall end, and whether its txn is still alive.

The Worker waits for its job in one thread; this one asks the metastore every few seconds and stops the job when
somebody has cancelled the request, or when the txn was aborted and the result could not be published anyway.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import CompactionCancelledError, HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import Compaction

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""How often a Worker asks whether its request was cancelled."""


class JobWatch:
    """Context manager around the run of a job.

    :param stop: stops the job, from any thread.
    :param seconds: between two looks.
    """

    def __init__(
        self,
        client: MetastoreClient,
        request: Compaction,
        txn_id: int,
        stop: Callable[[], None],
        seconds: float = LOOK_SECONDS,
    ) -> None:
        self._client = client
        self._request = request
        self._txn_id = txn_id
        self._stop = stop
        self._seconds = seconds
        self._over = threading.Event()
        self._why: HiveAcidError | None = None
        self._thread = threading.Thread(target=self._watch, name="hive-acid-compaction-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._why is not None and (failure is None or isinstance(failure, Exception)):
            # What the job says about its end is only that it was stopped.
            raise self._why from failure

    def _watch(self) -> None:
        while not self._over.wait(self._seconds):
            self._why = self._look()
            if self._why is not None:
                log.warning("compaction %d is stopped: %s", self._request.id, self._why)
                self._stop()
                return

    def _look(self) -> HiveAcidError | None:
        lost = self._client.heartbeats.lost(self._txn_id)
        if lost is not None:
            return lost
        try:
            why = self._client.compactions.cancellation(self._request.id)
        except HiveAcidError as error:
            log.warning("whether compaction %d was cancelled is not known: %s", self._request.id, error)
            return None
        return None if why is None else cancelled(self._request, why)


def cancelled(request: Compaction, why: str) -> CompactionCancelledError:
    """The error that ends a cancelled request."""
    return CompactionCancelledError(f"compaction {request.id} of {request.resource} was {why}")
