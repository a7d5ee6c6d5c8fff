"""Waiting for a lease without blocking: for somebody who looks from time to time, such as an Airflow trigger.

The place in the queue is the same as that of ``grab_lease``: first come, first served, and kept by looking (at least
every few seconds). The secret is the caller's, so that whoever has to start over, after a crash or a lost answer, finds
what was granted to it meanwhile instead of waiting for itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.leases import Lease
from airflow_hive_acid.metastore.leases_granting import Granted

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.leases_granting import Blocked, Request

STAY_SECONDS = 10.0
"""So often somebody who waits confirms his place in the queue."""


class WaitingGrab:
    """A lease that is wanted, and waited for as long as somebody looks; made by ``leases.waiting_grab``.

    :param attempt: grants it, or takes or keeps a place in the queue.
    :param peek: looks without locking anything; None when it may be free.
    :param leave: gives a place in the queue up.
    :ivar blocked: what was in the way at the last look; None before.
    """

    def __init__(
        self,
        request: Request,
        secret: str,
        attempt: Callable[[Request], Granted | Blocked],
        peek: Callable[[Request], Blocked | None],
        leave: Callable[[int], None],
    ) -> None:
        self._request, self._secret = request, secret
        self._attempt, self._peek, self._leave = attempt, peek, leave
        self._stayed: float | None = None
        self.blocked: Blocked | None = None

    @property
    def ticket(self) -> int | None:
        """The place in the queue, for whoever goes on waiting in another process."""
        return self._request.ticket

    def look(self) -> Lease | None:
        """The lease, once it is granted; None while something is in the way."""
        now = time.monotonic()
        if self._stayed is not None and now - self._stayed <= STAY_SECONDS:
            seen = self._peek(self._request)
            if seen is not None:
                self.blocked = seen
                return None
        answer = self._attempt(self._request)
        if isinstance(answer, Granted):
            self._request = request = replace(self._request, ticket=None)
            return Lease(
                answer.lease_id, self._secret, request.objects, request.user, answer.start, answer.end,
                request.duration_ms / 1000,
            )  # fmt: skip
        self._request = replace(self._request, ticket=answer.ticket)
        self._stayed, self.blocked = now, answer
        return None

    def withdraw(self) -> None:
        """Stop waiting; later waiters move up. Again is fine."""
        ticket, self._request = self._request.ticket, replace(self._request, ticket=None)
        self._stayed = None
        if ticket is not None:
            self._leave(ticket)
