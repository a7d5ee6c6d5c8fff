"""DbTxnManager: Hive 4's locks, which a txn asks the metastore for and holds until it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.holds import NothingBeside
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
from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.metastore.protocol import Locks, patiently
from airflow_hive_acid.sql.locks.ddl_locks import ddl_locks
from airflow_hive_acid.sql.locks.rules import LockSettings, merged
from airflow_hive_acid.sql.locks.statement_locks import ctas_locks, data_locks, declared_locks, replacement_locks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from airflow_hive_acid.engine.locking.holds import Hold
    from airflow_hive_acid.engine.locking.requests import Listed, Wanted
    from airflow_hive_acid.engine.tables.lookup import Tables
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.metastore.protocol import Patience
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.locks.ddl_locks import DdlStatement
    from airflow_hive_acid.sql.locks.rules import PlannedLock


class Hive4Locking(Locking):
    """Transactions, and locks of six strengths on databases, tables and partitions."""

    def __init__(self, client: MetastoreClient, settings: Settings, tables: Tables, agent_info: str) -> None:
        super().__init__(client, settings, tables, agent_info)
        self._rules = LockSettings.of(settings)

    def require(self, tables: Iterable[Table]) -> None:
        """Any table will do.

        :raises ConfigurationError: when locks are switched off.
        """
        if not self._concurrency:
            raise ConfigurationError(
                "hive.support.concurrency is false, and DbTxnManager cannot do without locks: set it to true, or "
                "hive.txn.manager to org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager for plain tables"
            )

    def require_transactions(self, refusal: str) -> None:
        """There are."""

    @property
    def off(self) -> str | None:
        """They never are."""
        return None

    def plan(self, wanted: Wanted, *, whole: bool = False) -> PlannedLocks:
        """What to lock, by the partitions that there are now."""
        match wanted:
            case Statements(plans, truncates):
                listed = {} if whole else read_partitions(self._tables, plans)
                planned: Sequence[PlannedLock] = data_locks(plans, self._rules, names_of(listed))
                if truncates:
                    planned = merged((*planned, *(lock for t in truncates for lock in self._of_ddl(t))))
                return _planned(wanted, planned, listed)
            case NewTable(table, query, transactional):
                listed = {} if whole else read_partitions(self._tables, [query])
                planned = ctas_locks(table, query, self._rules, names_of(listed), transactional=transactional)
                return _planned(wanted, planned, listed, ctas=self._rules.exclusive_ctas)
            case ReplacedTable(table, _, queries, partitioned):
                listed = {} if whole else read_partitions(self._tables, queries)
                planned = replacement_locks(table, queries, self._rules, names_of(listed), partitioned=partitioned)
                return _planned(wanted, planned, listed)
            case Definition(statement):
                return _planned(wanted, self._of_ddl(statement), {})
            case Declared(operations):
                return _planned(wanted, declared_locks(operations, self._tables.table, self._rules), {})

    def hold(self, planned: PlannedLocks, patience: Patience | None = None) -> Hold:
        """Nothing: the txn asks for its locks when it begins."""
        return NothingBeside()

    def around(self, statement: DdlStatement, patience: Patience | None = None) -> AbstractContextManager[object]:
        """Nothing besides: DDL is a txn, with Hive's locks, and waits for them with this patience."""
        return patiently(patience)

    def _of_ddl(self, statement: DdlStatement) -> Sequence[PlannedLock]:
        there = as_there(self._tables, statement)
        return ddl_locks(there, self._tables.table, self._rules, as_there=there != statement)


def _planned(wanted: Wanted, planned: Sequence[PlannedLock], listed: Listed, *, ctas: bool = False) -> PlannedLocks:
    """Locks, with the partitions of those tables that are not locked as a whole."""
    components = tuple(lock.component for lock in planned)
    whole = {f"{c.database}.{c.table}" for c in components if c.partition is None}
    some = {read: refs for read, refs in listed.items() if read[0] not in whole}
    return PlannedLocks(wanted, planned, Locks(components, exclusive_ctas=ctas), listed=some)
