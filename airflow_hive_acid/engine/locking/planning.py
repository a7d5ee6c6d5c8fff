"""From plans to the locks the engine takes, by the transaction manager that is configured.

DbTxnManager takes Hive 4's locks. DummyTxnManager has no transactions: statements about transactional tables are
refused, as in Hive, and the others take the S and X locks of the Hive Concurrency Model, or none where
``hive.support.concurrency`` is off (``legacy_hold`` holds them). These have no order of levels: S on a table does not
meet X on its partitions, so a table that is read is locked partition by partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.engine.locking.legacy import LegacyLocks
from airflow_hive_acid.engine.locking.requests import PlannedLocks
from airflow_hive_acid.engine.tables.partitions import KnownPartitions
from airflow_hive_acid.errors import ConfigurationError, NoSuchObjectError, UnsupportedStatementError
from airflow_hive_acid.metastore.protocol import Locks
from airflow_hive_acid.settings_table import DUMMY_TXN_MANAGER
from airflow_hive_acid.sql.locks.ddl_locks import ddl_locks
from airflow_hive_acid.sql.locks.legacy_locks import (
    LegacyLock,
    LegacyMode,
    legacy_ctas_locks,
    legacy_data_locks,
    legacy_ddl_locks,
)
from airflow_hive_acid.sql.locks.rules import LockSettings, PlannedLock, merged
from airflow_hive_acid.sql.locks.statement_locks import ctas_locks, data_locks, declared_locks
from airflow_hive_acid.sql.model.statements import DropDatabase
from airflow_hive_acid.sql.text.masking import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from airflow_hive_acid.engine.context import Context
    from airflow_hive_acid.format.jobs import PartitionRef
    from airflow_hive_acid.metastore.catalog import Table
    from airflow_hive_acid.sql.locks.ddl_locks import DdlStatement
    from airflow_hive_acid.sql.model.origins import TableName
    from airflow_hive_acid.sql.model.plans import Plan
    from airflow_hive_acid.sql.model.pruning import PartitionFilter
    from airflow_hive_acid.sql.model.statements import Truncate

    _ByRead = dict[tuple[str, PartitionFilter], list[PartitionRef]]


def is_legacy(context: Context) -> bool:
    """Whether DummyTxnManager is configured."""
    return context.settings.string("hive.txn.manager") == DUMMY_TXN_MANAGER


def concurrency(context: Context) -> bool:
    """``hive.support.concurrency``."""
    return context.settings.flag("hive.support.concurrency")


def require_manager(context: Context, tables: Iterable[Table]) -> None:
    """Refuse statements that the configured manager has no means for.

    :param tables: looked at only with DummyTxnManager, so an iterator may look them up.
    :raises UnsupportedStatementError: a transactional table with DummyTxnManager, in Hive's words.
    :raises ConfigurationError: DbTxnManager without hive.support.concurrency.
    """
    if not is_legacy(context):
        if not concurrency(context):
            raise ConfigurationError(
                "hive.support.concurrency is false, and DbTxnManager cannot do without locks: set it to true, or "
                "hive.txn.manager to org.apache.hadoop.hive.ql.lockmgr.DummyTxnManager for plain tables"
            )
        return
    for table in tables:
        if table.is_transactional:
            raise UnsupportedStatementError(
                f"This command is not allowed on an ACID table {table.qualified_name} with a non-ACID transaction "
                "manager; set hive.txn.manager to org.apache.hadoop.hive.ql.lockmgr.DbTxnManager"
            )


def planned_locks(context: Context, plans: Sequence[Plan]) -> tuple[PlannedLock, ...]:
    """Hive 4's locks for these plans, with their rules."""
    return data_locks(plans, LockSettings.of(context.settings), _names(read_partitions(context, plans)))


def planned_ctas_locks(
    context: Context, table: TableName, query: Plan, *, transactional: bool
) -> tuple[PlannedLock, ...]:
    """Hive 4's locks for CREATE TABLE … AS."""
    partitions = _names(read_partitions(context, [query]))
    return ctas_locks(table, query, LockSettings.of(context.settings), partitions, transactional=transactional)


def planned_legacy_locks(context: Context, plans: Sequence[Plan]) -> tuple[LegacyLock, ...]:
    """The Hive Concurrency Model's locks for these plans, with their rules."""
    on = concurrency(context)
    listed = read_partitions(context, plans, every=True) if on else {}
    return legacy_data_locks(plans, _names(listed), concurrency=on)


def planned_legacy_ctas_locks(context: Context, table: TableName, query: Plan) -> tuple[LegacyLock, ...]:
    """The Hive Concurrency Model's locks for CREATE TABLE … AS, with their rules."""
    on = concurrency(context)
    listed = read_partitions(context, [query], every=True) if on else {}
    return legacy_ctas_locks(table, query, _names(listed), concurrency=on)


def planned_legacy_ddl_locks(context: Context, statement: DdlStatement) -> tuple[LegacyLock, ...]:
    """The Hive Concurrency Model's locks for DDL, with their rules.

    The model does not lock the database of what is locked, so that DROP DATABASE locks its tables one by one.
    """
    locks = legacy_ddl_locks(statement, context.table, concurrency=concurrency(context))
    if not locks or not isinstance(statement, DropDatabase) or not statement.cascade:
        return locks
    database = statement.name
    tables = sorted(context.client.catalog.list_tables(database)) if database_exists(context, database) else ()
    return (*locks, *(LegacyLock((database, table), LegacyMode.EXCLUSIVE, "drop database") for table in tables))


def locks_of(context: Context, plans: Sequence[Plan], truncates: Sequence[Truncate] = ()) -> PlannedLocks:
    """What a transaction that runs these plans, and these TRUNCATEs, locks."""

    def again(whole: bool) -> PlannedLocks:
        if is_legacy(context):
            return _legacy_locks_of(context, plans, truncates, again)
        settings = LockSettings.of(context.settings)
        listed = {} if whole else read_partitions(context, plans)
        planned = list(data_locks(plans, settings, _names(listed)))
        for statement in truncates:
            planned += ddl_locks(statement, context.table, settings)
        return _by_partition(merged(planned) if truncates else planned, listed, again)

    return again(False)


def _legacy_locks_of(
    context: Context, plans: Sequence[Plan], truncates: Sequence[Truncate], again: Callable[[bool], PlannedLocks]
) -> LegacyLocks:
    on = concurrency(context)
    listed = read_partitions(context, plans, every=True) if on else {}
    planned = legacy_data_locks(plans, _names(listed), concurrency=on)
    for statement in truncates:
        planned = (*planned, *planned_legacy_ddl_locks(context, statement))
    query = hide_secrets("; ".join(dict.fromkeys([*(p.statement.text for p in plans), *(t.text for t in truncates)])))
    # S and X of one object are asked for as X.
    strongest = {lock.path: lock for lock in sorted(planned, key=lambda lock: lock.mode is LegacyMode.EXCLUSIVE)}
    kept = tuple(lock for lock in planned if strongest[lock.path] is lock)
    return LegacyLocks((), listed=listed, again=again, planned=kept, query=query)


def _by_partition(
    planned: Sequence[PlannedLock], listed: _ByRead, again: Callable[[bool], PlannedLocks], *, ctas: bool = False
) -> PlannedLocks:
    """Locks, with the partitions of those tables that are not locked as a whole."""
    components = tuple(lock.component for lock in planned)
    whole = {f"{c.database}.{c.table}" for c in components if c.partition is None}
    some = {read: refs for read, refs in listed.items() if read[0] not in whole}
    return PlannedLocks(components, exclusive_ctas=ctas, listed=some, again=again)


def locks_declared(context: Context, operations: Mapping[str, str]) -> Locks:
    """What a transaction locks of which only tables and operations are known."""
    if is_legacy(context):
        return LegacyLocks((), planned=_declared_legacy(context, operations) if concurrency(context) else ())
    settings = LockSettings.of(context.settings)
    return Locks(tuple(lock.component for lock in declared_locks(operations, context.table, settings)))


def legacy_locks_of_ddl(context: Context, statement: DdlStatement) -> Locks:
    """What DDL locks beside the catalog's own locks: with DummyTxnManager S and X, otherwise nothing."""
    if not is_legacy(context):
        return Locks(())
    return LegacyLocks((), planned=planned_legacy_ddl_locks(context, statement), query=hide_secrets(statement.text))


def locks_of_ddl(context: Context, statement: DdlStatement) -> Locks:
    """What DDL locks that runs a job, by the manager that is configured."""
    if is_legacy(context):
        return legacy_locks_of_ddl(context, statement)
    planned = ddl_locks(statement, context.table, LockSettings.of(context.settings))
    return Locks(tuple(lock.component for lock in planned))


def locks_of_ctas(context: Context, table: TableName, query: Plan, *, transactional: bool) -> PlannedLocks:
    """What making and filling a new table locks; two of one name fail at once (``hive.txn.xlock.ctas``)."""
    settings = LockSettings.of(context.settings)

    def again(whole: bool) -> PlannedLocks:
        if is_legacy(context):
            on = concurrency(context)
            listed = read_partitions(context, [query], every=True) if on else {}
            modes = legacy_ctas_locks(table, query, _names(listed), concurrency=on)
            return LegacyLocks((), listed=listed, again=again, planned=modes, query=hide_secrets(query.statement.text))
        listed = {} if whole else read_partitions(context, [query])
        planned = ctas_locks(table, query, settings, _names(listed), transactional=transactional)
        return _by_partition(planned, listed, again, ctas=settings.exclusive_ctas)

    return again(False)


def read_partitions(context: Context, plans: Sequence[Plan], *, every: bool = False) -> _ByRead:
    """The partitions that are read, of the tables whose conditions leave some of them out.

    A table of which all is read is locked as a whole: one lock instead of one for each partition.

    :param every: those of all tables: by the Hive Concurrency Model a writer of one would go unseen.
    """
    found: _ByRead = {}
    reads = [read for plan in plans for read in plan.reads]
    whole = set() if every else {r.table for r in reads if not r.partitions.alternatives}
    for read in reads:
        key = (read.table, read.partitions)
        if read.table not in whole and key not in found:
            found[key] = KnownPartitions(context.client.catalog, context.table(read.table)).matching(read.partitions)
    return found


def _names(listed: _ByRead) -> dict[str, list[str]]:
    """Names of the partitions, by table."""
    found: dict[str, set[str]] = {}
    for (table, _), refs in listed.items():
        found.setdefault(table, set()).update(ref.name for ref in refs)
    return {table: sorted(names) for table, names in found.items()}


def _declared_legacy(context: Context, operations: Mapping[str, str]) -> tuple[LegacyLock, ...]:
    """X on what is written; S on what is read, and on all of its partitions."""
    planned = []
    for name, operation in sorted(operations.items()):
        table = context.table(name)
        path = (table.db, table.name)
        if operation != "select":
            planned.append(LegacyLock(path, LegacyMode.EXCLUSIVE, operation))
            continue
        planned.append(LegacyLock(path, LegacyMode.SHARED, operation))
        planned += [
            LegacyLock((*path, partition), LegacyMode.SHARED, operation)
            for partition in KnownPartitions(context.client.catalog, table)
        ]
    return tuple(planned)


def database_exists(context: Context, database: str) -> bool:
    """Whether the catalog has a database of that name."""
    try:
        context.client.catalog.get_database(database)
    except NoSuchObjectError:
        return False
    return True
