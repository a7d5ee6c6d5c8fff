"""Locks while they are held: by the txn itself, or beside it by a manager of the Hive Concurrency Model."""

from __future__ import annotations

import abc
import contextlib
import hashlib
import logging
import uuid
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import HiveAcidError, LocksDeniedForNowError, NoSuchLockError, TxnAbortedError
from airflow_hive_acid.metastore.database import Heartbeater, LockType, Operation
from airflow_hive_acid.metastore.locks import LockComponent, LockRequest
from airflow_hive_acid.sql.locks.legacy_locks import LegacyMode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

    from airflow_hive_acid.engine.locking.requests import PlannedLocks
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.locks import ConcurrencyModelLocks
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.locks.legacy_locks import LegacyLock

log = logging.getLogger(__name__)


class Hold(abc.ABC):
    """Locks held from when they were taken to :meth:`release`, or to :meth:`leave`."""

    @abc.abstractmethod
    def bind(self, txn_id: int) -> None:
        """The holder works in this txn now; the locks live as long as that is open (R4)."""

    @abc.abstractmethod
    def require(self) -> None:
        """Make sure that the locks have been held all the time, before anything is published or answered.

        :raises TxnAbortedError: when they were lost, and somebody else may have written what was read.
        :raises MetastoreUnavailableError: when nobody knows.
        """

    @abc.abstractmethod
    def leave(self) -> None:
        """Stop the heartbeats and release nothing: what became of the txn is not known, and it decides (R4)."""

    @abc.abstractmethod
    def release(self) -> None:
        """Release everything; again is fine. Locks that cannot be released expire."""

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Release when the block has ended the txn, and not when it failed: the txn may be open still (R4)."""
        try:
            yield
        except BaseException:
            self.leave()
            raise
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class NothingBeside(Hold):
    """No locks, or those of the txn: these the metastore keeps alive, checks and releases with it."""

    def bind(self, txn_id: int) -> None:
        """They are bound."""

    def require(self) -> None:
        """The commit does."""

    def leave(self) -> None:
        """The txn decides anyway."""

    def release(self) -> None:
        """The end of the txn does."""


class HeldBeside(Hold):
    """Locks of the Hive Concurrency Model, beside the txn; heartbeats keep them alive in the background.

    :param manager: which holds them; closed with the last of them.
    :param interval: seconds between two heartbeats.
    """

    def __init__(self, manager: ConcurrencyModelLocks, lock_id: int, interval: float) -> None:
        self._manager: ConcurrencyModelLocks | None = manager
        self._lock_id = lock_id
        self._heartbeats = Heartbeater(lambda lock: _beat(manager, lock), interval, what="legacy lock")
        self._heartbeats.add(lock_id)

    @classmethod
    def take(
        cls,
        manager: ConcurrencyModelLocks,
        planned: PlannedLocks,
        client: MetastoreClient,
        agent_info: str,
        interval: float,
        patience: Patience | None = None,
    ) -> Self:
        """Take all locks, waiting for others by ``hive.lock.numretries`` and ``hive.lock.sleep.between.retries``.

        :param manager: is closed when nothing is held.
        :param agent_info: who asks, as SHOW LOCKS prints it.
        :param interval: seconds between two heartbeats.
        :param patience: how long to wait here.
        :raises LockTimeoutError: when that was not enough; nothing is held.
        :raises LocksDeniedForNowError: when the patience was not enough for the next pause; nothing is held.
        """
        request = LockRequest(
            tuple(_component(lock) for lock in planned.beside),
            client.user,
            client.host,
            agent_info=agent_info,
            query_id=str(uuid.uuid4()),
            query=planned.wanted.text,
        )
        try:
            return cls(manager, _acquired(manager, request, patience), interval)
        except BaseException:
            manager.close()
            raise

    def bind(self, txn_id: int) -> None:
        """The holder works in this txn now; see :meth:`ConcurrencyModelLocks.bind`."""
        if self._manager is not None:
            self._manager.bind(self._lock_id, txn_id)

    def require(self) -> None:
        """Make sure that the locks have been held all the time."""
        if self._manager is None:
            return
        try:
            self._manager.check_lock(self._lock_id)
        except NoSuchLockError as lost:
            raise TxnAbortedError(
                "the locks of this statement were lost while it ran, and nothing of it is published; run it again: "
                f"{lost}"
            ) from lost

    def leave(self) -> None:
        """Stop the heartbeats and release nothing."""
        self._heartbeats.close()
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.close()

    def release(self) -> None:
        """Release everything; again is fine. Locks that cannot be released expire."""
        self._heartbeats.close()
        manager, self._manager = self._manager, None
        if manager is None:
            return
        try:
            manager.release(self._lock_id)
        except HiveAcidError as problem:
            log.warning("legacy lock %d could not be released and will expire: %s", self._lock_id, problem)
        finally:
            manager.close()


def _acquired(manager: ConcurrencyModelLocks, request: LockRequest, patience: Patience | None) -> int:
    """Id of the locks, waiting for others; whoever waits elsewhere learns whose tries were counted."""
    if patience is None:
        return manager.acquire(request).lock_id
    of = hashlib.sha256((request.query or "").encode()).hexdigest()
    tried = patience.tried if patience.of in ("", of) else 0
    try:
        return manager.acquire(request, patience=patience.seconds, tried=tried).lock_id
    except LocksDeniedForNowError as denied:
        denied.of = of
        raise


def _beat(manager: ConcurrencyModelLocks, lock_id: int) -> None:
    manager.check_lock(lock_id)


def _component(lock: LegacyLock) -> LockComponent:
    database, table, *partition = (*lock.path, None) if len(lock.path) == 1 else lock.path
    exclusive = lock.mode is LegacyMode.EXCLUSIVE
    return LockComponent(
        str(database),
        table,
        "/".join(str(part) for part in partition) or None,
        LockType.EXCLUSIVE if exclusive else LockType.SHARED_READ,
        Operation.NO_TXN if exclusive else Operation.SELECT,
        transactional=False,
    )
