"""Which locks planned statements ask for, each with the rule that gave it (decision 15).

Rows that go to partitions known only later lock the whole table; a static partition is locked alone. What several
statements of one transaction need of an object is one lock, the most restrictive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.database import LockType, Operation
from airflow_hive_acid.metastore.locks import LockComponent
from airflow_hive_acid.sql.locks.rules import (
    DEFAULT_LOCKS,
    LockSettings,
    PlannedLock,
    WriteType,
    advisory_locks,
    lockable,
    merged,
    read_places,
    read_rule,
    write_rule,
)
from airflow_hive_acid.sql.model.plans import MergeTemplate, TableRead, TableWrite, is_external
from airflow_hive_acid.sql.model.pruning import KEEP_ALL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_hive_acid.sql.model.origins import TableName
    from airflow_hive_acid.sql.model.plans import Plan, TableFacts, TableLookup

WRITES = {
    "insert": WriteType.INSERT,
    "overwrite": WriteType.INSERT_OVERWRITE,
    "update": WriteType.UPDATE,
    "delete": WriteType.DELETE,
}
_NO_PARTITIONS: Mapping[str, Sequence[str]] = {}


def data_locks(
    plans: Sequence[Plan],
    settings: LockSettings = DEFAULT_LOCKS,
    partitions: Mapping[str, Sequence[str]] = _NO_PARTITIONS,
) -> tuple[PlannedLock, ...]:
    """The lock request of one transaction that runs these plans.

    :param partitions: names of the partitions that are read, by table; a table that is not there is read as a whole.
    """
    found: list[PlannedLock] = []
    for plan in plans:
        if plan.write is not None:
            found += _write_locks(plan.write, _write_types(plan), settings, merge=plan.kind == "merge")
    reads = [read for plan in plans for read in (*plan.reads, *map(_view_read, plan.views_read))]
    return _with_reads(found, reads, settings, partitions)


def ctas_locks(
    table: TableName,
    query: Plan,
    settings: LockSettings = DEFAULT_LOCKS,
    partitions: Mapping[str, Sequence[str]] = _NO_PARTITIONS,
    *,
    transactional: bool = True,
) -> tuple[PlannedLock, ...]:
    """The lock request of CREATE TABLE … AS SELECT.

    :param query: the plan of the SELECT.
    :param transactional: what the new table will be.
    """
    database = LockComponent(table.database, None, None, LockType.SHARED_READ, Operation.NO_TXN)
    target = TableWrite(str(table), "insert", KEEP_ALL, transactional=transactional)
    found = [
        PlannedLock(database, "CREATE TABLE"),
        *_write_locks(target, (WriteType.CTAS,), settings),
    ]
    return _with_reads(found, [*query.reads, *map(_view_read, query.views_read)], settings, partitions)


def replacement_locks(
    table: TableName,
    queries: Sequence[Plan],
    settings: LockSettings = DEFAULT_LOCKS,
    partitions: Mapping[str, Sequence[str]] = _NO_PARTITIONS,
    *,
    partitioned: bool = False,
) -> tuple[PlannedLock, ...]:
    """The lock request of CREATE OR REPLACE TABLE of a table that is there: an overwrite that is DDL as well.

    :param queries: the plan of its SELECT, if it has one.
    :param partitioned: whether the table is.
    """
    found = [
        PlannedLock(LockComponent(table.database, None, None, LockType.SHARED_READ, Operation.NO_TXN), "CREATE TABLE"),
        PlannedLock(
            LockComponent(
                table.database, table.name, None, LockType.EXCLUSIVE, Operation.UPDATE, dynamic_partitions=partitioned
            ),
            "CREATE OR REPLACE TABLE: its definition changes, and what it holds is overwritten",
        ),
    ]
    reads = [read for query in queries for read in (*query.reads, *map(_view_read, query.views_read))]
    return _with_reads(found, reads, settings, partitions)


def declared_locks(
    operations: Mapping[str, str], table_of: TableLookup, settings: LockSettings = DEFAULT_LOCKS
) -> tuple[PlannedLock, ...]:
    """The lock request of a transaction of which only tables and operations are known.

    :param operations: ``select``, ``insert``, ``overwrite``, ``update`` or ``delete`` by table.
    """
    found: list[PlannedLock] = []
    reads: list[TableRead] = []
    for table, operation in sorted(operations.items()):
        facts = table_of(table)
        if operation == "select":
            reads.append(_whole_read(facts))
        else:
            write = TableWrite(
                facts.qualified_name, operation, KEEP_ALL, bool(facts.partition_columns),
                transactional=facts.is_transactional, external=is_external(facts),
            )  # fmt: skip
            found += _write_locks(write, (WRITES[operation],), settings)
    return _with_reads(found, reads, settings, _NO_PARTITIONS)


def _whole_read(facts: TableFacts) -> TableRead:
    return TableRead(
        facts.qualified_name, "", KEEP_ALL, transactional=facts.is_transactional, external=is_external(facts)
    )


def _view_read(view: str) -> TableRead:
    """Hive locks a view that is read as a table without transactions: whoever drops or replaces it waits."""
    return TableRead(view, "", KEEP_ALL, transactional=False)


def _with_reads(
    writes: list[PlannedLock],
    reads: Sequence[TableRead],
    settings: LockSettings,
    partitions: Mapping[str, Sequence[str]],
) -> tuple[PlannedLock, ...]:
    # UPDATE, DELETE and their like need no lock for reading beside the one for writing (L29).
    covered = {lock.component.object[:2] for lock in writes if lock.component.partition is None}
    found: dict[tuple[str, str | None, str | None], PlannedLock] = {}
    for read in reads:
        for lock in _read_locks(read, settings, partitions.get(read.table)):
            if lock.component.object[:2] not in covered:
                found.setdefault(lock.component.object, lock)
    whole = {place[:2] for place in found if place[2] is None}
    shared = [lock for place, lock in found.items() if place[2] is None or place[:2] not in whole]
    return (*merged([*writes, *shared]), *advisory_locks(settings))


def _read_locks(read: TableRead, settings: LockSettings, partitions: Sequence[str] | None) -> list[PlannedLock]:
    rule = read_rule(settings, transactional=read.transactional, external=read.external)
    if rule is None:
        return []
    database, _, table = read.table.partition(".")
    places = read_places(partitions, settings)
    if partitions and places == (None,):
        rule += f"; {len(partitions)} partitions, more than hive.locks.max.partitions={settings.max_partitions}"
    return [
        PlannedLock(
            LockComponent(database, table, place, LockType.SHARED_READ, Operation.SELECT, read.transactional), rule
        )
        for place in places
    ]


def _write_types(plan: Plan) -> tuple[WriteType, ...]:
    """What the branches of a statement do to its target."""
    if isinstance(plan.template, MergeTemplate):
        return tuple(dict.fromkeys(WRITES[clause.action] for clause in plan.template.clauses))
    return () if plan.write is None else (WRITES[plan.write.operation],)


def _write_locks(
    write: TableWrite, types: Sequence[WriteType], settings: LockSettings, *, merge: bool = False
) -> list[PlannedLock]:
    if not lockable(settings, transactional=write.transactional, external=write.external, reading=False):
        return []
    database, _, table = write.table.partition(".")
    partition = write.only_partition
    found: list[PlannedLock] = []
    for type in types:
        answer = write_rule(type, settings, transactional=write.transactional, merge=merge)
        if answer is None:
            continue
        lock, operation, rule = answer
        dynamic = write.partitioned and partition is None
        if dynamic:
            rule += "; its partitions become known later"
        component = LockComponent(
            database, table, partition, lock, operation, transactional=write.transactional, dynamic_partitions=dynamic
        )
        found.append(PlannedLock(component, rule))
    return found
