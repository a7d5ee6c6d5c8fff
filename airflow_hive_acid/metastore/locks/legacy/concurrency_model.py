"""What the lock managers of the Hive Concurrency Model have in common, wherever they keep their locks.

The document's rules: S and X; whoever locks something locks all its parents in S (but not the database); objects are
taken in lexicographic order; nobody waits in a queue: a request that meets a lock is denied as a whole, keeps nothing,
and is tried again after ``hive.lock.sleep.between.retries``, ``hive.lock.numretries`` times.
"""

from __future__ import annotations

import abc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    LocksDeniedForNowError,
    LockTimeoutError,
    MetastoreUnavailableError,
)
from airflow_hive_acid.metastore.database.codes import LockState, LockType
from airflow_hive_acid.metastore.locks.interface import LockRow, describe_components

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from airflow_hive_acid.metastore.locks.interface import LockComponent, LockRequest, LockResponse
    from airflow_hive_acid.settings import Settings

LegacyPath = tuple[str, ...]
"""Database, table, and the ``column=value`` of a partition or of the part of it that is known."""
Object = tuple[str, str, str]
"""Database, table and partition, or the known prefix of one; an empty text where there is none."""
MODES = {LockType.SHARED_READ: "s", LockType.EXCLUSIVE: "x"}
_UNLOCK_PAUSE = 1.0
"""Seconds between two tries to release."""


@dataclass(frozen=True, slots=True)
class LegacyLockRow(LockRow):
    """A lock held, and for what.

    :param query_id: of the statement that took it, with its text ``query``.
    """

    query_id: str | None
    query: str | None


def parents_of(path: LegacyPath) -> list[LegacyPath]:
    """What is locked in S because something below it is: the table, and the known prefixes of a partition.

    The document does not name the database: it is no parent that anybody locks exclusively but DROP DATABASE.
    """
    return [path[:length] for length in range(2, len(path))]


def objects_of(components: Iterable[LockComponent]) -> dict[Object, str]:
    """What a request locks, parents included, in lexicographic order: mode ``s`` or ``x`` by object.

    :raises InvalidArgumentsError: for a mode that the document does not know.
    """
    wanted: dict[Object, str] = {}
    for component in components:
        mode = MODES.get(component.type)
        if mode is None:
            raise InvalidArgumentsError(
                f"the lock on {component.describe()} is {component.type.name}; the legacy lock manager knows "
                "SHARED_READ (S) and EXCLUSIVE (X)"
            )
        parts = component.partition.split("/") if component.partition else ()
        path = (component.database, component.table or "", *parts)
        for parent in parents_of(path):
            wanted.setdefault(_object(parent), "s")
        place = _object(path)
        wanted[place] = "x" if "x" in (mode, wanted.get(place)) else "s"
    return dict(sorted(wanted.items()))


def _object(path: LegacyPath) -> Object:
    database, table, *partition = path
    return database, table, "/".join(partition)


class ConcurrencyModelLocks(abc.ABC):
    """A lock manager of the Hive Concurrency Model: it denies and tries again.

    :param settings: ``hive.lock.numretries``, ``hive.unlock.numretries`` and ``hive.lock.sleep.between.retries``.
    """

    def __init__(self, settings: Settings) -> None:
        self._retries = settings.integer("hive.lock.numretries")
        self._pause = settings.seconds("hive.lock.sleep.between.retries")
        self._unlock_retries = settings.integer("hive.unlock.numretries")

    @abc.abstractmethod
    def lock(self, request: LockRequest) -> LockResponse:
        """Take all locks of a request, or none: ACQUIRED, or NOT_ACQUIRED with what is in the way; it never waits."""

    @abc.abstractmethod
    def check_lock(self, lock_id: int) -> LockResponse:
        """Keep the locks of a request alive.

        :raises NoSuchLockError: when they are gone.
        """

    @abc.abstractmethod
    def bind(self, lock_id: int, txn_id: int) -> None:
        """Say in which txn the owner works: as long as that is open the locks do not expire (R4).

        :raises NoSuchLockError: when they are gone.
        """

    @abc.abstractmethod
    def unlock(self, lock_id: int) -> None:
        """Release all locks of a request; again is no error."""

    @abc.abstractmethod
    def stream_locks(
        self,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        limit: int | None = None,
    ) -> Iterator[LegacyLockRow]:
        """Locks held, by object, read while they are asked for."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give up connections of the manager's own; locks stay. Again is fine."""

    def show_locks(
        self,
        database: str | None = None,
        table: str | None = None,
        partition: str | None = None,
        txn_id: int | None = None,
    ) -> list[LegacyLockRow]:
        """Locks held, by object; of one txn only if it is named."""
        return [row for row in self.stream_locks(database, table, partition) if txn_id in (None, 0, row.txn_id)]

    def acquire(
        self,
        request: LockRequest,
        sleep: Callable[[float], None] = time.sleep,
        *,
        patience: float | None = None,
        tried: int = 0,
    ) -> LockResponse:
        """Take the locks of a request; denied, try all of them again after the pause.

        :param patience: seconds to wait here at most; None for as long as it takes.
        :param tried: how often they were tried again before.
        :raises LockTimeoutError: after ``hive.lock.numretries`` more tries; nothing is held.
        :raises LocksDeniedForNowError: when the patience is not enough for the next pause; nothing is held.
        """
        response = self.lock(request)
        waited = 0.0
        for number in range(tried, self._retries):
            if response.state is LockState.ACQUIRED:
                break
            if patience is not None and waited + self._pause > patience:
                raise LocksDeniedForNowError(
                    f"{response.message}; trying again in {self._pause:g} s (try {number + 2} of {self._retries + 1}, "
                    "hive.lock.numretries)",
                    number + 1, self._pause,
                )  # fmt: skip
            sleep(self._pause)
            waited += self._pause
            response = self.lock(request)
        if response.state is not LockState.ACQUIRED:
            places = describe_components(request.components)
            raise LockTimeoutError(
                f"{places} could not be locked in {self._retries + 1} tries (hive.lock.numretries), "
                f"{self._pause:g} s apart (hive.lock.sleep.between.retries): {response.message}"
            )
        return response

    def release(self, lock_id: int, sleep: Callable[[float], None] = time.sleep) -> None:
        """Release, and try again while what keeps the locks cannot be reached.

        :raises MetastoreUnavailableError: after ``hive.unlock.numretries`` more tries; the locks then expire.
        """
        for _ in range(self._unlock_retries):
            try:
                return self.unlock(lock_id)
            except MetastoreUnavailableError:
                sleep(_UNLOCK_PAUSE)
        self.unlock(lock_id)
