"""How what runs is locked, by the transaction manager that is configured: one interface, chosen once.

A statement comes here three times. While it is planned, :meth:`Locking.require` says whether the manager has the means
for it. Then :meth:`Locking.begin` plans the locks, takes them, opens the txn and looks whether they cover what it reads
(:meth:`Locking.reading` does the same for a query outside a transaction). The :class:`~.holds.Hold` that it gets is
asked before the commit, and released after it. DDL that runs no job takes its locks with its txn, in the metastore;
:meth:`Locking.around` is for what is locked besides.
"""

from __future__ import annotations

import abc
import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.holds import NothingBeside
from airflow_hive_acid.engine.locking.requests import NO_LOCKS, Declared, Statements
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.python_versions import add_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from airflow_hive_acid.engine.locking.holds import Hold
    from airflow_hive_acid.engine.locking.requests import Listed, PlannedLocks, Wanted
    from airflow_hive_acid.engine.tables.lookup import Tables
    from airflow_hive_acid.metastore import MetastoreClient, Transaction
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience, ReaderSnapshot
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.locks.ddl_locks import DdlStatement
    from airflow_hive_acid.sql.model.plans import Plan


@dataclass(frozen=True, slots=True)
class LockedTransaction:
    """A transaction that has begun, and its locks.

    :param listed: the partitions to read, of the tables that are locked partition by partition.
    """

    txn: Transaction
    hold: Hold
    listed: Listed


class Locking(abc.ABC):
    """What a transaction manager allows and locks.

    :param tables: looks tables up.
    :param agent_info: who we are, as SHOW TRANSACTIONS and SHOW LOCKS print it.
    """

    def __init__(self, client: MetastoreClient, settings: Settings, tables: Tables, agent_info: str) -> None:
        self._client = client
        self._settings = settings
        self._tables = tables
        self._agent_info = agent_info
        self._concurrency = settings.flag("hive.support.concurrency")

    @abc.abstractmethod
    def require(self, tables: Iterable[Table]) -> None:
        """Refuse statements that the manager has no means for.

        :param tables: what they are about; not looked at where it does not matter, so an iterator may look them up.
        :raises UnsupportedStatementError: a transactional table, and there are no transactions; in Hive's words.
        :raises ConfigurationError: when the manager cannot do its work with these settings.
        """

    @abc.abstractmethod
    def require_transactions(self, refusal: str) -> None:
        """Refuse what needs transactions.

        :param refusal: says what does, and the remedy.
        :raises UnsupportedStatementError: when the manager has none.
        """

    @abc.abstractmethod
    def plan(self, wanted: Wanted, *, whole: bool = False) -> PlannedLocks:
        """What to lock, by the partitions that there are now.

        :param whole: tables as a whole, and not partition by partition, where that can be.
        """

    @property
    @abc.abstractmethod
    def off(self) -> str | None:
        """The setting by which nothing at all is locked; None when there are locks."""

    @abc.abstractmethod
    def hold(self, planned: PlannedLocks, patience: Patience | None = None) -> Hold:
        """Take what is held beside the txn, waiting for others.

        :param patience: how long to wait here; by default as long as the settings say.
        :raises LockTimeoutError: when others did not release in time; nothing is held.
        :raises LocksDeniedForNowError: when the patience was not enough; nothing is held.
        """

    @abc.abstractmethod
    def around(self, statement: DdlStatement, patience: Patience | None = None) -> AbstractContextManager[object]:
        """Hold what DDL locks besides what the metastore locks for it in its txn, which is waited for inside.

        :param patience: how long to wait here for either; by default as long as the settings say.
        :raises LocksPendingError: when the patience was not enough; the request stays in the queue.
        :raises LocksDeniedForNowError: when it was not enough for what is held besides; nothing is held.
        """

    def begin(
        self,
        operations: Mapping[str, str],
        wanted: Wanted | None = None,
        *,
        patience: Patience | None = None,
        opened: Callable[[int], None] | None = None,
    ) -> LockedTransaction:
        """Take the locks, and begin a transaction under them; after a failure neither is left.

        :param operations: ``select``, ``insert``, ``overwrite``, ``update`` or ``delete`` by table.
        :param wanted: what to lock; by default what the operations need.
        :param patience: how long to wait here; by default as long as the settings say.
        :param opened: is told each txn before it asks for locks.
        :raises UnsupportedStatementError: as :meth:`require`.
        :raises LocksPendingError: when the patience was not enough; the request stays in the queue.
        """
        tables = {name: self._tables.table(name) for name in operations}
        self.require(tables.values())
        planned = self.plan(Declared(operations) if wanted is None else wanted)
        for tries_left in self._tries():
            txn, hold = self._begin(operations, tables, planned, patience, opened)
            try:
                grown, listed = self._look_again(planned, tries_left)
            except BaseException as failure:
                _end(txn, hold, failure)
                raise
            if grown is None:
                break
            with hold.ending():
                txn.abort("others added partitions that it reads while it waited for its locks")
            planned = grown
        return LockedTransaction(txn, hold, listed)

    def resume(self, document: Mapping[str, object]) -> LockedTransaction:
        """Go on in a transaction that another process has begun; its locks belong to it."""
        return LockedTransaction(self._client.resume_transaction(document), NothingBeside(), {})

    @contextlib.contextmanager
    def reading(
        self, plan: Plan, patience: Patience | None = None, *, locked: bool = False
    ) -> Iterator[tuple[ReaderSnapshot, Listed]]:
        """Hold the locks of a query, and a reader under them, while a block runs.

        :param patience: how long to wait here; by default as long as the settings say.
        :param locked: the statement that it belongs to has asked for its locks already: it asks for none.
        :return: with the reader the partitions that were listed under its locks.
        :raises TxnAbortedError: at the end, when the locks were lost meanwhile.
        :raises LocksPendingError: when the patience was not enough; the request stays in the queue.
        :raises LocksDeniedForNowError: when it was not enough for what is held beside the txn; nothing is held.
        """
        plain = [read.table for read in plan.reads if not read.transactional]
        planned = self.plan(Statements([plan]))
        if locked:
            planned = replace(planned, of_txn=NO_LOCKS, listed={})
        for tries_left in self._tries():
            with (
                self.hold(planned, patience) as hold,
                self._client.snapshot(
                    sorted(plan.operations),
                    plain=plain,
                    agent_info=self._agent_info,
                    locks=planned.of_txn,
                    patience=patience,
                ) as reader,
            ):
                grown, listed = self._look_again(planned, tries_left)
                if grown is None:
                    hold.bind(reader.txn_id)
                    yield reader, listed
                    hold.require()
                    return
                planned = grown

    def _begin(
        self,
        operations: Mapping[str, str],
        tables: Mapping[str, Table],
        planned: PlannedLocks,
        patience: Patience | None,
        opened: Callable[[int], None] | None,
    ) -> tuple[Transaction, Hold]:
        """R4: what is held beside the txn is held first, so that nobody waits with an open one, and is bound to it."""
        hold = self.hold(planned, patience)
        try:
            txn = self._client.begin(
                operations,
                partitioned={name: table.is_partitioned for name, table in tables.items()},
                plain=[name for name, table in tables.items() if not table.is_transactional],
                agent_info=self._agent_info,
                locks=planned.of_txn,
                patience=patience,
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

    def _tries(self) -> Iterator[int]:
        """How often another request may follow each try."""
        return reversed(range(self._settings.integer("hive.txn.retrysnapshot.max.count") + 1))

    def _look_again(self, planned: PlannedLocks, tries_left: int) -> tuple[PlannedLocks | None, Listed]:
        """Plan again, now that the locks are granted.

        :param tries_left: how often another request may follow; the last one is for tables as a whole, and after it
            whatever is listed is read.
        :return: what to lock instead, None when the locks cover everything; and then, the partitions to read.
        """
        if not planned.listed:
            return None, {}
        now = self.plan(planned.wanted)
        if planned.covers(now) or tries_left < 1:
            return None, now.listed
        return now if tries_left > 1 else self.plan(planned.wanted, whole=True), {}


def _end(txn: Transaction, hold: Hold, failure: BaseException) -> None:
    """Abort because of a failure, which is what the caller should hear of, whatever becomes of the abort."""
    try:
        with hold.ending():
            txn.abort(str(failure) or type(failure).__name__)
    except HiveAcidError as second:
        add_note(failure, f"txn {txn.txn_id} could not be aborted and will time out: {second}")
