"""The locks of the Hive Concurrency Model, held while a statement or transaction runs with DummyTxnManager.

They are taken before a txn is opened, so that nobody waits with an open one, and are kept alive in the background. R4:
once there is a txn they do not expire before it has ended, because the reaper undoes what its jobs did first.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from airflow_hive_acid.engine.locking.requests import PlannedLocks
from airflow_hive_acid.errors import HiveAcidError, NoSuchLockError, TxnAbortedError
from airflow_hive_acid.metastore.database import Heartbeater, LockType, Operation
from airflow_hive_acid.metastore.locks import LockComponent, LockRequest, legacy_lock_manager
from airflow_hive_acid.sql.locks.legacy_locks import LegacyMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.metastore import Transaction
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.locks import ConcurrencyModelLocks
    from airflow_hive_acid.metastore.protocol import Locks
    from airflow_hive_acid.sql.locks.legacy_locks import LegacyLock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LegacyLocks(PlannedLocks):
    """S and X locks; the metastore's own lock table gets none of them.

    :param query: text of the statements, for SHOW LOCKS EXTENDED.
    """

    planned: tuple[LegacyLock, ...] = ()
    query: str = ""

    @property
    def places(self) -> frozenset[tuple[str, ...]]:
        """What is locked."""
        return frozenset(lock.path for lock in self.planned)


class LegacyHold:
    """Locks held from :meth:`take` to :meth:`release`; of locks that are none of ours, nothing at all."""

    def __init__(self, manager: ConcurrencyModelLocks | None, lock_id: int, interval: float) -> None:
        self._manager = manager
        self._lock_id = lock_id
        self._heartbeats: Heartbeater | None = None
        if manager is not None:
            self._heartbeats = Heartbeater(lambda lock: _beat(manager, lock), interval, what="legacy lock")
            self._heartbeats.add(lock_id)

    @classmethod
    def take(cls, context: Context, locks: Locks) -> Self:
        """Take all locks, waiting for others by ``hive.lock.numretries`` and ``hive.lock.sleep.between.retries``.

        :raises LockTimeoutError: when that was not enough; nothing is held.
        """
        interval = context.settings.seconds("hive.txn.timeout") / 2
        if not isinstance(locks, LegacyLocks) or not locks.planned:
            return cls(None, 0, interval)
        client = context.client
        manager = legacy_lock_manager(client.database, context.settings)
        request = LockRequest(
            tuple(_component(lock) for lock in locks.planned),
            client.user,
            client.host,
            agent_info=context.agent_info,
            query_id=str(uuid.uuid4()),
            query=locks.query,
        )
        try:
            return cls(manager, manager.acquire(request).lock_id, interval)
        except BaseException:
            manager.close()
            raise

    def bind(self, txn_id: int) -> None:
        """The holder works in this txn now; see :meth:`ConcurrencyModelLocks.bind`."""
        if self._manager is not None:
            self._manager.bind(self._lock_id, txn_id)

    def require(self) -> None:
        """Make sure that the locks have been held all the time, before anything is published or answered.

        :raises TxnAbortedError: when they were lost, and somebody else may have written what was read.
        :raises MetastoreUnavailableError: when nobody knows.
        """
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
        """Stop the heartbeats and release nothing: what became of the txn is not known, and it decides (R4)."""
        self._stop()
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.close()

    def _stop(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.close()

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Release when the block has ended the txn, and not when it failed: the txn may be open still (R4)."""
        try:
            yield
        except BaseException:
            self.leave()
            raise
        self.release()

    def release(self) -> None:
        """Release everything; again is fine. Locks that cannot be released expire."""
        self._stop()
        manager, self._manager = self._manager, None
        if manager is None:
            return
        try:
            manager.release(self._lock_id)
        except HiveAcidError as problem:
            log.warning("legacy lock %d could not be released and will expire: %s", self._lock_id, problem)
        finally:
            manager.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


@contextlib.contextmanager
def held(context: Context, locks: Locks) -> Iterator[LegacyHold]:
    """Hold locks while a block runs."""
    with LegacyHold.take(context, locks) as hold:
        yield hold


def begin_locked(
    context: Context,
    operations: Mapping[str, str],
    tables: Mapping[str, Table],
    locks: Locks,
    opened: Callable[[int], None] | None = None,
) -> tuple[Transaction, LegacyHold]:
    """Take the locks, then begin a transaction under them; after a failure neither is left.

    :param operations: by table, as ``tables`` are.
    :param opened: is told the txn before it asks for locks.
    """
    hold = LegacyHold.take(context, locks)
    try:
        txn = context.client.begin(
            operations,
            partitioned={name: table.is_partitioned for name, table in tables.items()},
            plain=[name for name, table in tables.items() if not table.is_transactional],
            agent_info=context.agent_info,
            locks=locks,
            patience=context.patience,
            opened=opened,
        )
        try:
            hold.bind(txn.txn_id)
        except BaseException as failure:
            txn.abort(str(failure))
            raise
    except BaseException:
        hold.release()
        raise
    return txn, hold


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
