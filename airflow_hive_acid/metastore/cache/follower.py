"""The thread that follows the notification log for a cache: it looks, and lets each round take effect at once.

It is thin on purpose. What a round means is decided in ``state``; what goes wrong here leaves the state as it
was, and readers go to the database once there was no look for ``hive.acid.cache.max.lag``.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.metastore.cache.events import OpenWrites
from airflow_hive_acid.metastore.cache.reads import Restart, read_round
from airflow_hive_acid.metastore.notifications.log import is_another_log, read_end

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_hive_acid.metastore.cache.events import Changes
    from airflow_hive_acid.metastore.cache.state import CacheState, Round
    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.names.objects import TableName

log = logging.getLogger(__name__)

_JOIN_SECONDS = 60
TELL_SECONDS = 60.0
"""So often the statistics are told."""


@dataclass(slots=True)
class Followed:
    """What following has come to.

    :param rounds: looks that found events; ``failures`` those that failed.
    :param restarts: how often everything was forgotten; ``restarted_because`` of the last time.
    :param looked_at: monotonic time of the last look that succeeded.
    :param events: processed so far.
    :param refreshed: tables read again.
    """

    rounds: int = 0
    failures: int = 0
    restarts: int = 0
    restarted_because: str | None = None
    last_failure: str | None = None
    looked_at: float | None = None
    events: int = 0
    refreshed: int = 0


class CacheFollower:
    """Follows the log for one state.

    :param state: is read and changed under ``lock`` only.
    :param interval: seconds between two looks.
    :param clock: monotonic seconds.
    """

    def __init__(
        self,
        database: Database,
        state: CacheState,
        lock: threading.Lock,
        interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._state = state
        self._lock = lock
        self._interval = interval
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._failing = False
        #: The position of the last look, and when its event was written: that tells a log that was restored.
        self._noted: tuple[int, int | None] | None = None
        self._thread: threading.Thread | None = None
        self.tell: Callable[[], None] | None = None
        self._told_at: float | None = None
        self.followed = Followed()

    def start(self) -> None:
        """Look once, so that readers find a cache that follows, and go on in the background."""
        if self._thread is not None:
            return
        self._stopping = False
        self.try_to_look()
        self._thread = threading.Thread(target=self._run, name="hive-acid-cache", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and forget everything."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            self._thread = None
        with self._lock:
            self._state.reset(None, OpenWrites())

    def wake(self) -> None:
        """Have it look now."""
        self._wake.set()

    def try_to_look(self) -> bool:
        """Look at the log; whatever goes wrong is noted, and leaves the cache as it was."""
        try:
            self.look()
        except HiveAcidError as error:
            # Once, and not at every look while the database is away.
            log.log(logging.DEBUG if self._failing else logging.WARNING, "the cache cannot follow the log: %s", error)
            self._failed(error)
            return False
        except Exception as error:
            # Nobody would hear of it otherwise. The state may be the reason, so it is not used any more.
            self._failed(error)
            log.exception("the cache forgets everything: a look at the notification log failed")
            with self._lock:
                self._state.reset(None, OpenWrites())
            return False
        self._failing = False
        return True

    def look(self) -> None:
        """One round: read what is new, read again what it touched, let it take effect."""
        with self._one_at_a_time:
            with self._lock:
                position, writes, again = self._state.position, self._state.writes, self._state.has_again()
            began = self._clock()
            noted = self._noted[1] if self._noted is not None and self._noted[0] == position else None
            if position is not None and not again:
                end, time = self._log_end(position)
                if end == position and not is_another_log(noted, time):
                    self.followed.looked_at = began
                    return
            with self._lock:
                looking = self._state.begin_looking()
            try:
                found = self._database.read(
                    lambda connection: read_round(connection, looking, position, writes, self._plan, noted)
                )
                with self._lock:
                    if isinstance(found, Restart):
                        self._state.reset(found.end, found.writes)
                    else:
                        self._state.apply(found)
            finally:
                with self._lock:
                    self._state.end_looking(looking)
            self._noted = (found.end, found.time)
            self._note(found, began)

    def _log_end(self, position: int) -> tuple[int, int | None]:
        return self._database.read(lambda connection: read_end(connection, position), one_statement=True)

    def _plan(self, changes: Changes) -> Mapping[TableName, frozenset[str]]:
        with self._lock:
            return self._state.plan(changes)

    def _note(self, found: Round | Restart, began: float) -> None:
        followed = self.followed
        followed.looked_at = began
        followed.rounds += 1
        if isinstance(found, Restart):
            if found.why is not None:
                why = found.why if isinstance(found.why, str) else found.why.value
                followed.restarts += 1
                followed.restarted_because = why
                log.info("the cache begins anew at event %d: %s", found.end, why)
        else:
            followed.events += found.end - found.start
            followed.refreshed += len(found.loads)

    def _failed(self, error: Exception) -> None:
        self._failing = True
        self.followed.failures += 1
        self.followed.last_failure = f"{type(error).__name__}: {error}"

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._interval)
            self._wake.clear()
            if not self._stopping:
                self.try_to_look()
                self._tell()

    def _tell(self) -> None:
        now = self._clock()
        if self.tell is None or (self._told_at is not None and now - self._told_at < TELL_SECONDS):
            return
        self._told_at = now
        try:
            self.tell()
        except Exception:  # whoever is told of it must not end it
            log.exception("the cache's statistics could not be told")
