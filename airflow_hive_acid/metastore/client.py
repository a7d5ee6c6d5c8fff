"""MetastoreClient: transactions, locks, write ids and snapshots of one metastore, for programs.

Every verb of Hive's transaction manager under its name (``verbs``); on top of them ``transaction`` and ``snapshot``,
which do the whole protocol. All state is in the database; a client holds connections and the heartbeats of what it
opened.
"""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import HiveAcidError, InvalidArgumentsError
from airflow_hive_acid.metastore.database.codes import AbortReason, LockType, Operation, TxnType
from airflow_hive_acid.metastore.locks.interface import LockComponent, LockResponse
from airflow_hive_acid.metastore.names.objects import table_name
from airflow_hive_acid.metastore.protocol.begin import Locks, PendingTransaction, begin, prepare, start
from airflow_hive_acid.metastore.protocol.exclusive_locks import hold_exclusively
from airflow_hive_acid.metastore.protocol.lock_wait import abort_reason, wait_until_granted
from airflow_hive_acid.metastore.protocol.table_uses import TableUse, table_uses
from airflow_hive_acid.metastore.protocol.transaction import Begun, ReaderSnapshot, Transaction, read_document
from airflow_hive_acid.metastore.replica.verbs import Replica
from airflow_hive_acid.metastore.statements.catalog import HiveCatalog
from airflow_hive_acid.metastore.verbs import Verbs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from airflow_hive_acid.metastore.cache.cache import CachedCatalog
    from airflow_hive_acid.metastore.leases.model import Lease
    from airflow_hive_acid.metastore.protocol.handover import Patience
    from airflow_hive_acid.metastore.protocol.pins import Pins


class MetastoreClient(Verbs):
    """A client of one metastore.

    :param url: ``sqlite:///path``, ``postgresql://user:password@host/db`` or ``mysql://user:password@host/db``.
    :param settings: Hive's settings; defaults as ``hive-acid settings`` prints them.
    :param user: who we are in SHOW LOCKS and SHOW TRANSACTIONS; by default the operating system's user.
    """

    @cached_property
    def catalog(self) -> HiveCatalog:
        """Databases, tables and partitions."""
        return HiveCatalog(self)

    @cached_property
    def cache(self) -> CachedCatalog:
        """The catalog's reads from memory, once a service has started it: ``client.cache.start()``; ends with this."""
        from airflow_hive_acid.metastore.cache.cache import CachedCatalog  # few have one

        return CachedCatalog(self, self.catalog)

    @cached_property
    def pins(self) -> Pins:
        """Named snapshots of tables."""
        from airflow_hive_acid.metastore.protocol.pins import Pins  # few have one

        return Pins(self, self.catalog)

    def close(self) -> None:
        """Stop heartbeats and close connections; txns that are still open will time out."""
        if "cache" in self.__dict__:
            self.cache.close()
        super().close()

    def wait_for_lock(self, response: LockResponse, *, txn_id: int = 0) -> LockResponse:
        """Wait, with Hive's back-off, until a request is granted; give it up when that takes too long.

        :param txn_id: the txn it belongs to; it is aborted when the wait fails, because it cannot go on.
        :raises LockTimeoutError: when it was not granted in time; the request is withdrawn.
        :raises DeadlockError: when the txn is the one to give way in a deadlock.
        """
        try:
            return wait_until_granted(self, response, txn_id, f"lock {response.lock_id}")
        except HiveAcidError as error:
            with contextlib.suppress(HiveAcidError):
                if txn_id:
                    self.abort_txn(txn_id, abort_reason(error))
                else:
                    self.unlock(response.lock_id)
            raise

    @contextlib.contextmanager
    def exclusive(self, tables: Iterable[str], *, agent_info: str | None = None) -> Iterator[int]:
        """Keep everybody else, readers included, away from tables while they are dropped or altered."""
        components = [LockComponent(*table_name(t), None, LockType.EXCLUSIVE, Operation.NO_TXN) for t in tables]
        with hold_exclusively(self, components, agent_info) as lock_id:
            yield lock_id

    def replica(self, policy: str) -> Replica:
        """The verbs of a replication target."""
        return Replica(self, policy)

    def transaction(
        self,
        tables: Mapping[str, str] | Iterable[str],
        *,
        partitioned: Mapping[str, bool] | Iterable[str] | None = None,
        agent_info: str | None = None,
        lease: Lease | None = None,
    ) -> Transaction:
        """Begin a transaction, to be used as a context manager: commits at a clean end, aborts at an exception.

        :param tables: what will be done with each table: ``{"db.t": "insert" | "update" | "delete" | "select"}``.
        :param partitioned: tables whose partitions are named with ``add_partitions`` before the end.
        :param lease: passes the locks that stand for it, and commits only while it is held (R6, R8).
        """
        return self.begin(tables, partitioned=partitioned, agent_info=agent_info, lease=lease)

    def begin(
        self,
        tables: Mapping[str, str] | Iterable[str],
        *,
        partitioned: Mapping[str, bool] | Iterable[str] | None = None,
        plain: Iterable[str] = (),
        agent_info: str | None = None,
        type: TxnType = TxnType.DEFAULT,
        locks: Locks | None = None,
        lease: Lease | None = None,
        patience: Patience | None = None,
        opened: Callable[[int], None] | None = None,
    ) -> Transaction:
        """Open, lock (waiting for others), pin, take the snapshot and allocate write ids.

        :param locks: what to lock; by default what Hive locks with its own settings.
        :param plain: those of the tables that have no transactions: they are locked, and that is all.
        :param lease: as for :meth:`transaction`; by default the one of ``leases.under``.
        :param patience: how long to wait here; by default until the locks are granted.
        :param opened: is told the txn before it asks for locks.
        :raises LockTimeoutError: when the locks were not granted in time; nothing is left behind.
        :raises LocksPendingError: when the patience was not enough; the request stays in the queue.
        :raises LeaseEndedError: when the lease is not held; nothing was begun.
        """
        uses = table_uses(tables, partitioned, plain)
        with self.leases.under(lease):
            current = self.leases.current
            if current is not None:
                self.leases.require_lease(current)
            begun = begin(self, uses, agent_info, type, locks=locks, patience=patience, opened=opened)
            return Transaction(self, begun, current)

    def start(
        self,
        tables: Mapping[str, str] | Iterable[str],
        *,
        partitioned: Mapping[str, bool] | Iterable[str] | None = None,
        agent_info: str | None = None,
        lease: Lease | None = None,
    ) -> PendingTransaction:
        """Open and ask for the locks without waiting; :meth:`finish` goes on once they are granted.

        :param lease: as for :meth:`transaction`.
        """
        with self.leases.under(lease):
            return start(self, table_uses(tables, partitioned), agent_info, TxnType.DEFAULT)

    def finish(self, pending: PendingTransaction) -> Transaction | None:
        """Begin to work in a txn whose locks are granted; None when it is outdated and was aborted: start anew."""
        if not pending.granted:
            raise InvalidArgumentsError(f"the locks of txn {pending.txn_id} are not granted yet")
        begun = prepare(pending)
        if begun is None:
            pending.give_up(AbortReason.CONCURRENT)
            return None
        return Transaction(self, begun, pending.lease)

    def snapshot(
        self,
        tables: Mapping[str, str] | Iterable[str],
        *,
        plain: Iterable[str] = (),
        agent_info: str | None = None,
        locks: Locks | None = None,
        patience: Patience | None = None,
    ) -> ReaderSnapshot:
        """A snapshot for reading, to be used as a context manager; registered, locked and kept alive (R16)."""
        return self.open_snapshot(tables, plain=plain, agent_info=agent_info, locks=locks, patience=patience)

    def open_snapshot(
        self,
        tables: Mapping[str, str] | Iterable[str],
        *,
        plain: Iterable[str] = (),
        agent_info: str | None = None,
        locks: Locks | None = None,
        patience: Patience | None = None,
    ) -> ReaderSnapshot:
        """A snapshot that stays open until ``close()``.

        :param plain: those of the tables that have no transactions.
        :param locks: what to lock; by default every table, for reading.
        :param patience: how long to wait here; by default until the locks are granted.
        :raises LocksPendingError: when the patience was not enough; the request stays in the queue.
        """
        uses = table_uses([tables] if isinstance(tables, str) else list(tables), plain=plain)
        return ReaderSnapshot(self, begin(self, uses, agent_info, TxnType.READ_ONLY, locks=locks, patience=patience))

    def resume_snapshot(self, document: Mapping[str, Any]) -> ReaderSnapshot:
        """Go on with a snapshot of another process: same lists, kept alive from here.

        :raises TxnAbortedError: when nobody kept it alive; :raises NoSuchTxnError: when it was closed.
        """
        return ReaderSnapshot(self, self._resume(document))

    def resume_transaction(self, document: Mapping[str, Any], *, lease: Lease | None = None) -> Transaction:
        """Go on with a transaction of another process.

        :param lease: the one under which it began: documents do not hold the secret.
        :raises TxnAbortedError: when nobody kept it alive; :raises NoSuchTxnError: when it has ended.
        """
        if "uses" not in document:
            raise InvalidArgumentsError("the document is of a snapshot for reading; use resume_snapshot")
        lease_id = document.get("lease")
        if lease_id is not None and (lease is None or lease.lease_id != lease_id):
            raise InvalidArgumentsError(
                f"the transaction began under lease {lease_id}, and commits only while that is held: give its handle"
            )
        transaction = Transaction(self, self._resume(document), lease)
        transaction.restore(document)
        return transaction

    def _resume(self, document: Mapping[str, Any]) -> Begun:
        txn_id, lock_id, valid_txns, lists = read_document(document)
        uses = tuple(
            TableUse(table_name(t), LockType(lock), Operation(operation), *rest)
            for t, lock, operation, *rest in document.get("uses", ())
        )
        allocated = {table_name(t): int(w) for t, w in document.get("write_ids", {}).items()}
        self.heartbeat(txn_id)
        return Begun(txn_id, lock_id, uses, valid_txns, lists, allocated)
