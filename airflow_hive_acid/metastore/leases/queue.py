"""Waiting for a lease: asleep until called, or without blocking, for somebody who looks from time to time.

Both keep the same kind of place in the queue: first come, first served, and kept by looking (at least
every few seconds). The secret is the caller's, so that whoever has to start over, after a crash or a lost answer, finds
what was granted to it meanwhile instead of waiting for itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.leases.grants import Granted
from airflow_hive_acid.metastore.leases.model import Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.database.wakeups import LeaseWaiter
    from airflow_hive_acid.metastore.leases.grants import Blocked, Request

STAY_SECONDS = 10.0
"""So often somebody who waits confirms his place in the queue."""
_CALLED_PAUSE = 1.0
"""Between two looks of somebody who would be called: a real Hive calls nobody, nor does a lease that ends."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.25
"""Where nobody is called."""


def wait_in_line(
    request: Request,
    answer: Blocked,
    patience: float,
    attempt: Callable[[Request], Granted | Blocked],
    peek: Callable[[Request], Blocked | None],
    leave: Callable[[Request], None],
    sleep: Callable[[float], bool] | None = None,
    waiter: LeaseWaiter | None = None,
) -> Granted:
    """Wait, in the place in the queue that ``answer`` gave, until the lease is granted.

    :param patience: seconds.
    :param attempt: grants it, or keeps the place in the queue.
    :param peek: looks without locking anything; None when it may be free.
    :param leave: gives the place in the queue up; called unless the lease is granted.
    :param sleep: sleeps so many seconds, and says whether it was called; tests give their own.
    :param waiter: sleeps until its ticket is called, where that is possible.
    :raises LeaseAlreadyExistsError: when it was not granted in time.
    """
    started = stayed = time.monotonic()
    request, pause, called = replace(request, ticket=answer.ticket), _FIRST_PAUSE, False
    try:
        while True:
            left = patience - (time.monotonic() - started)
            if left <= 0:
                raise answer.error(request.objects, patience)
            hears = waiter is not None and waiter.hears and not answer.by_hive
            pause = _CALLED_PAUSE if hears else min(pause * 1.5, _LONGEST_PAUSE)
            lasts = min(pause, left, *([] if answer.in_ms is None else [max(answer.in_ms, 1) / 1000]))
            if waiter is not None and sleep is None:
                called = waiter.nap(lasts, request.ticket or 0)
                if not waiter.hears:
                    # The server may have crashed and forgotten the place, whose number is somebody else's then.
                    leave(request)
                    request, waiter, called = replace(request, ticket=None, listens=False), None, True
            else:
                called = (sleep or _sleep)(lasts)
            now = time.monotonic()
            # Whoever was called need not look first: it is his turn.
            seen = None if called else peek(request)
            if seen is None or now - stayed > STAY_SECONDS:
                last = attempt(request)
                if isinstance(last, Granted):
                    request = replace(request, ticket=None)
                    return last
                request, stayed, answer = replace(request, ticket=last.ticket), now, last
            else:
                answer = seen
    finally:
        # Given up, or interrupted: nobody is to wait behind us.
        if request.ticket is not None:
            leave(request)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class WaitingGrab:
    """A lease that is wanted, and waited for as long as somebody looks; made by ``leases.waiting_grab``.

    :param attempt: grants it, or takes or keeps a place in the queue.
    :param peek: looks without locking anything; None when it may be free.
    :param leave: gives a place in the queue up.
    :param give_back: drops what was granted to the secret.
    :ivar blocked: what was in the way at the last look; None before.
    """

    def __init__(
        self,
        request: Request,
        secret: str,
        attempt: Callable[[Request], Granted | Blocked],
        peek: Callable[[Request], Blocked | None],
        leave: Callable[[Request], None],
        give_back: Callable[[Request], None],
    ) -> None:
        self._request, self._secret = request, secret
        self._attempt, self._peek, self._leave, self._give_back = attempt, peek, leave, give_back
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
        request, self._request = self._request, replace(self._request, ticket=None)
        self._stayed = None
        if request.ticket is not None:
            self._leave(request)

    def give_up(self) -> None:
        """Stop waiting, and give back what was granted meanwhile, whoever has looked: a process of before, too."""
        self.withdraw()
        self._give_back(self._request)
