"""Background heartbeats: daemon threads of a client keep its open txns alive.

A txn without heartbeat for ``hive.txn.timeout`` is aborted by whoever looks first, a real Hive included. As Hive's
clients do, a beat goes out every half of that, the first after a random part of it. A txn that turns out to be
aborted or gone is dropped and reported to its owner, who finds the reason at the next call.
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, MetastoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

_FIRST_PART = 0.75
_CLOSE_SECONDS = 5.0
_SOON_SECONDS = 5.0


class Heartbeater:
    """Sends heartbeats for the txns added to it until they are removed.

    :param beat: sends one heartbeat; raises what became of the txn.
    :param interval: seconds between two beats of a txn.
    :param what: what is kept alive, for messages.
    :param threads: how many may send at the same time (``hive.txn.heartbeat.threadpool.size``); there are never more
        than txns.
    """

    def __init__(self, beat: Callable[[int], None], interval: float, threads: int = 1, what: str = "txn") -> None:
        self._beat = beat
        self._what = what
        self._interval = interval
        self._most = threads
        self._due: dict[int, float] = {}
        self._lost: dict[int, HiveAcidError] = {}
        self._ends: dict[int, Callable[[], object]] = {}
        self._changed = threading.Condition()
        self._sleeping: dict[threading.Thread, float] = {}
        """When each of the threads that wait will look again by itself."""
        self._look_by = 0.0
        """When one that was called should look; what it was called for may have ended meanwhile."""
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def add(self, txn_id: int) -> bool:
        """Keep a txn alive from now on; whether nobody did so far."""
        with self._changed:
            is_new = txn_id not in self._due
            due = time.monotonic() + self._interval * _FIRST_PART * random.random()  # noqa: S311
            self._due[txn_id] = due
            if not all(t.is_alive() for t in self._threads):  # a forked process has the set, but not the threads
                self._threads = {t for t in self._threads if t.is_alive()}
            if len(self._threads) < min(self._most, len(self._due)):
                self._closed = False
                thread = threading.Thread(target=self._run, name="hive-acid-heartbeat", daemon=True)
                self._threads.add(thread)
                thread.start()
            self._call(due)
            return is_new

    def end_later(self, txn_id: int, end: Callable[[], object]) -> None:
        """Instead of beats: end a txn as soon as the database answers again, so that its locks go.

        As long as this process lives; then it times out.
        """
        with self._changed:
            self._ends[txn_id] = end
        self.add(txn_id)
        with self._changed:
            self._due[txn_id] = time.monotonic() + self._soon()
            self._changed.notify()

    def remove(self, txn_id: int) -> None:
        """The txn has ended, or somebody else keeps it alive."""
        with self._changed:
            self._due.pop(txn_id, None)
            self._lost.pop(txn_id, None)
            self._ends.pop(txn_id, None)

    def lost(self, txn_id: int) -> HiveAcidError | None:
        """What became of a txn that a heartbeat found not open any more."""
        return self._lost.get(txn_id)

    def close(self) -> None:
        """Stop; txns that are still open are left to time out."""
        with self._changed:
            self._closed = True
            self._due.clear()
            ends = dict(self._ends)
            self._ends.clear()
            self._changed.notify_all()
            threads, self._threads = self._threads, set()
        for thread in threads - {threading.current_thread()}:
            thread.join(timeout=min(self._interval, _CLOSE_SECONDS))
        for txn_id in ends:
            log.warning("%s %d could not be ended and will time out", self._what, txn_id)

    def _run(self) -> None:
        while (txn_id := self._next()) is not None:
            self._beat_once(txn_id)

    def _next(self) -> int | None:
        """Wait for the next beat that is due; None when there is nothing left to do."""
        with self._changed:
            idle_from = math.inf
            while not self._closed:
                if not self._due:
                    # Linger for a while: the next txn of this client often follows at once.
                    now = time.monotonic()
                    idle_from = min(idle_from, now)
                    left = idle_from + self._interval - now
                    if left <= 0:
                        self._threads.discard(threading.current_thread())
                        return None
                    self._sleep(min(left, self._look_by - now) if self._look_by > now else left)
                    continue
                idle_from = math.inf
                txn_id = min(self._due, key=self._due.__getitem__)
                wait = self._due[txn_id] - time.monotonic()
                if wait <= 0:
                    self._due[txn_id] = time.monotonic() + self._interval
                    self._call(min(self._due.values()))  # a beat may take long
                    return txn_id
                self._sleep(wait)
            return None

    def _call(self, due: float) -> None:
        """See to it that a thread looks by then; the lock is held.

        One that does so anyway is let sleep: a short txn should not cost two changes of threads.
        """
        if all(wakes > due for thread, wakes in self._sleeping.items() if thread in self._threads):
            self._look_by = due
            self._changed.notify()

    def _sleep(self, seconds: float) -> None:
        """Wait to be called; the lock is held."""
        me = threading.current_thread()
        self._sleeping[me] = time.monotonic() + seconds
        try:
            self._changed.wait(timeout=seconds)
        finally:
            del self._sleeping[me]

    def _soon(self) -> float:
        return min(self._interval / 10, _SOON_SECONDS)

    def _beat_once(self, txn_id: int) -> None:
        end = self._ends.get(txn_id)
        if end is not None:
            self._end_once(txn_id, end)
            return
        try:
            self._beat(txn_id)
        except MetastoreUnavailableError as error:
            log.warning("no heartbeat for %s %d: %s; trying again soon", self._what, txn_id, error)
            with self._changed:
                if txn_id in self._due:
                    self._due[txn_id] = time.monotonic() + self._interval / 10
        except HiveAcidError as error:
            with self._changed:
                if self._due.pop(txn_id, None) is not None:
                    log.warning("%s %d is not open any more: %s", self._what, txn_id, error)
                    self._lost[txn_id] = error
        except Exception as error:
            # A fault of ours or of a library. The thread goes on for the others; the owner must not go on unprotected.
            log.exception("the heartbeat of %s %d failed in a way that nobody has thought of", self._what, txn_id)
            lost = MetastoreUnavailableError(
                f"no heartbeat can be sent for {self._what} {txn_id}, so it will time out; "
                f"{type(error).__name__}: {error}"
            )
            lost.__cause__ = error
            with self._changed:
                if self._due.pop(txn_id, None) is not None:
                    self._lost[txn_id] = lost

    def _end_once(self, txn_id: int, end: Callable[[], object]) -> None:
        try:
            end()
        except MetastoreUnavailableError:
            with self._changed:
                if txn_id in self._due:
                    self._due[txn_id] = time.monotonic() + self._soon()
            return
        except Exception as error:  # noqa: BLE001 - the thread goes on for the others
            log.warning("%s %d could not be ended and will time out: %s", self._what, txn_id, error)
        else:
            log.info("%s %d is ended, now that the metastore answers", self._what, txn_id)
        self.remove(txn_id)
