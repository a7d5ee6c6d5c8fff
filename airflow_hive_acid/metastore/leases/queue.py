"""Waiting for a lease: asleep until called, or without blocking, for somebody who looks from time to time.

Both keep the same kind of place in the queue: first come, first served, and kept by looking (at least
every few seconds). The secret is the caller's, so that whoever has to start over, after a crash or a lost answer, finds
what was granted to it meanwhile instead of waiting for itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.database.wakeups import LeaseWaiter
from airflow_hive_acid.metastore.leases.grants import Blocked, Granted
from airflow_hive_acid.metastore.leases.model import Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.leases.attempts import Attempts
    from airflow_hive_acid.metastore.leases.grants import Request

STAY_SECONDS = 10.0
"""So often somebody who waits confirms his place in the queue."""
_CALLED_PAUSE = 1.0
"""Between two looks of somebody who would be called: a real Hive calls nobody, nor does a lease that ends."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.25
"""Where nobody is called."""


def granted_in_time(
    database: Database,
    attempts: Attempts,
    request: Request,
    patience: float,
    sleep: Callable[[float], bool] | None = None,
    *,
    again: bool = False,
) -> Granted:
    """Be granted a lease, at once or when it is this one's turn.

    :param patience: seconds; 0 does not wait.
    :param sleep: as of :func:`wait_in_line`.
    :param again: there may have been a try before, whose answer was lost.
    :raises LeaseAlreadyExistsError: when it was not granted in time.
    """
    if not patience:
        answer = attempts.attempt(request, queue=False, again=again)
        if isinstance(answer, Blocked):
            raise answer.error(request.objects, 0)
        return answer
    with database.own_connection() as own:
        waiter = None if own is None else LeaseWaiter(own)
        request = replace(request, listens=waiter is not None)
        answer = attempts.attempt(request, again=again)
        if isinstance(answer, Blocked):
            answer = wait_in_line(request, answer, patience, attempts, sleep, waiter)
        if waiter is not None:
            waiter.stop()
        return answer


def wait_in_line(
    request: Request,
    answer: Blocked,
    patience: float,
    attempts: Attempts,
    sleep: Callable[[float], bool] | None = None,
    waiter: LeaseWaiter | None = None,
) -> Granted:
    """Wait, in the place in the queue that ``answer`` gave, until the lease is granted.

    :param patience: seconds.
    :param attempts: keep the place in the queue, until the lease is granted; else it is given up.
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
                    attempts.withdraw(request)
                    request, waiter, called = replace(request, ticket=None, listens=False), None, True
            else:
                called = (sleep or _sleep)(lasts)
            now = time.monotonic()
            # Whoever was called need not look first: it is his turn.
            seen = None if called else attempts.peek(request)
            if seen is None or now - stayed > STAY_SECONDS:
                last = attempts.attempt(request)
                if isinstance(last, Granted):
                    request = replace(request, ticket=None)
                    return last
                request, stayed, answer = replace(request, ticket=last.ticket), now, last
            else:
                answer = seen
    finally:
        # Given up, or interrupted: nobody is to wait behind us.
        if request.ticket is not None:
            attempts.withdraw(request)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


class WaitingGrab:
    """A lease that is wanted, and waited for as long as somebody looks; made by ``leases.waiting_grab``.

    :ivar blocked: what was in the way at the last look; None before.
    """

    def __init__(self, request: Request, secret: str, attempts: Attempts) -> None:
        self._request, self._secret, self._attempts = request, secret, attempts
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
            seen = self._attempts.peek(self._request)
            if seen is not None:
                self.blocked = seen
                return None
        answer = self._attempts.attempt(self._request, again=True)
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
            self._attempts.withdraw(request)

    def give_up(self, *, untouched: bool = False) -> None:
        """Stop waiting, and give back what was granted meanwhile, whoever has looked: a process of before, too.

        :param untouched: only what nobody has gone on with, as whoever does extends it first.
        """
        self.withdraw()
        self._attempts.give_back(self._request, untouched=untouched)
