"""DummyTxnManager: the S and X locks of the Hive Concurrency Model, or none where ``hive.support.concurrency`` is off.

It has no transactions: statements about transactional tables are refused, as in Hive. The locks have no order of
levels: S on a table does not meet X on its partitions, so a table that is read is locked partition by partition. They
are taken before a txn is opened, so that nobody waits with an open one, and are kept alive in the background. R4: once
there is a txn they do not expire before it has ended, because the reaper undoes what its jobs did first. Whether they
lie in a table of ours or in ZooKeeper is the matter of the lock manager (``hive.lock.manager``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.holds import HeldBeside, NothingBeside
from airflow_hive_acid.engine.locking.interface import Locking
from airflow_hive_acid.engine.locking.partitions import as_there, names_of, read_partitions
from airflow_hive_acid.engine.locking.requests import (
    Declared,
    Definition,
    NewTable,
    PlannedLocks,
    ReplacedTable,
    Statements,
)
from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.errors import UnsupportedStatementError
from airflow_hive_acid.metastore.locks import legacy_lock_manager
from airflow_hive_acid.sql.locks.legacy_locks import (
    LegacyLock,
    LegacyMode,
    legacy_ctas_locks,
    legacy_data_locks,
    legacy_ddl_locks,
)
from airflow_hive_acid.sql.model.statements import DropDatabase

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from airflow_hive_acid.engine.locking.holds import Hold
    from airflow_hive_acid.engine.locking.requests import Listed, Wanted
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.sql.locks.ddl_locks import DdlStatement
    from airflow_hive_acid.sql.model.plans import Plan


class LegacyLocking(Locking):
    """Plain tables, and S and X locks beside the txn; the metastore's own lock table gets none of them."""

    def require(self, tables: Iterable[Table]) -> None:
        """Plain tables only.

        :raises UnsupportedStatementError: for a transactional table, in Hive's words.
        """
        for table in tables:
            if table.is_transactional:
                raise UnsupportedStatementError(
                    f"This command is not allowed on an ACID table {table.qualified_name} with a non-ACID transaction "
                    "manager; set hive.txn.manager to org.apache.hadoop.hive.ql.lockmgr.DbTxnManager"
                )

    def require_transactions(self, refusal: str) -> None:
        """There are none.

        :raises UnsupportedStatementError: always.
        """
        raise UnsupportedStatementError(refusal)

    @property
    def off(self) -> str | None:
        """The setting by which nothing at all is locked."""
        return None if self._concurrency else "hive.support.concurrency=false"

    def plan(self, wanted: Wanted, *, whole: bool = False) -> PlannedLocks:
        """What to lock, by the partitions that there are now; never a table as a whole."""
        if not self._concurrency:
            return PlannedLocks(wanted)
        listed: Listed = {}
        match wanted:
            case Statements(plans, truncates):
                listed = self._listed(plans)
                locks = legacy_data_locks(plans, names_of(listed))
                for statement in truncates:
                    locks = (*locks, *self._of_ddl(statement))
            case NewTable(table, query):
                listed = self._listed([query])
                locks = legacy_ctas_locks(table, query, names_of(listed))
            case ReplacedTable():
                raise AssertionError("a transactional table without transactions")
            case Definition(statement):
                locks = self._of_ddl(statement)
            case Declared(operations):
                locks = self._declared(operations)
        kept = _strongest(locks)
        return PlannedLocks(wanted, kept, beside=kept, listed=listed)

    def hold(self, planned: PlannedLocks, patience: Patience | None = None) -> Hold:
        """Take the locks, waiting for others by ``hive.lock.numretries`` and ``hive.lock.sleep.between.retries``.

        :raises LockTimeoutError: when that was not enough; nothing is held.
        :raises LocksDeniedForNowError: when the patience was not enough for the next pause; nothing is held.
        """
        if not planned.beside:
            return NothingBeside()
        manager = legacy_lock_manager(self._client.database, self._settings)
        interval = self._settings.seconds("hive.txn.timeout") / 2
        return HeldBeside.take(manager, planned, self._client, self._agent_info, interval, patience)

    def around(self, statement: DdlStatement, patience: Patience | None = None) -> AbstractContextManager[object]:
        """Hold the statement's S and X locks."""
        return self.hold(self.plan(Definition(statement)), patience)

    def _listed(self, plans: Sequence[Plan]) -> Listed:
        return read_partitions(self._tables, plans, every=True)

    def _of_ddl(self, statement: DdlStatement) -> tuple[LegacyLock, ...]:
        """The model does not lock the database of what is locked, so that DROP DATABASE locks its tables one by one."""
        locks = legacy_ddl_locks(as_there(self._tables, statement), self._tables.table)
        if not locks or not isinstance(statement, DropDatabase) or not statement.cascade:
            return locks
        database = statement.name
        tables = self._tables.of_database(database)
        return (*locks, *(LegacyLock((database, table), LegacyMode.EXCLUSIVE, "drop database") for table in tables))

    def _declared(self, operations: Mapping[str, str]) -> tuple[LegacyLock, ...]:
        """X on what is written; S on what is read, and on all of its partitions."""
        planned = []
        for name, operation in sorted(operations.items()):
            table = self._tables.table(name)
            path = (table.db, table.name)
            if operation != "select":
                planned.append(LegacyLock(path, LegacyMode.EXCLUSIVE, operation))
                continue
            planned.append(LegacyLock(path, LegacyMode.SHARED, operation))
            planned += [
                LegacyLock((*path, partition), LegacyMode.SHARED, operation)
                for partition in KnownPartitions(self._tables.catalog, table)
            ]
        return tuple(planned)


def _strongest(locks: Sequence[LegacyLock]) -> tuple[LegacyLock, ...]:
    """S and X of one object are asked for as X."""
    strongest = {lock.path: lock for lock in sorted(locks, key=lambda lock: lock.mode is LegacyMode.EXCLUSIVE)}
    return tuple(lock for lock in locks if strongest[lock.path] is lock)
