"""The Hive Concurrency Model's S and X locks, for the legacy lock managers that DummyTxnManager uses.

Reading shares; everything else is exclusive, of the partitions it is about. Whatever is locked, its parents are locked
in S; objects are locked in lexicographic order, and of two modes of one object X counts. Where partitions become known
only while a statement runs, the prefix that is known is locked. A request that cannot be granted is denied, all is
released, and all is tried again; that is the manager's part, this is the plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.format.partitions import parse_partition_name, partition_name
from airflow_hive_acid.metastore.locks import parents_of
from airflow_hive_acid.metastore.names import may_be_several
from airflow_hive_acid.sql.model import alterations as alter
from airflow_hive_acid.sql.model.statements import CreateTable, DropDatabase, DropTable, Truncate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_hive_acid.metastore.locks import LegacyPath
    from airflow_hive_acid.sql.locks.ddl_locks import DdlStatement
    from airflow_hive_acid.sql.model.origins import TableName
    from airflow_hive_acid.sql.model.plans import Plan, TableFacts, TableLookup, TableWrite


class LegacyMode(Enum):
    """S or X."""

    SHARED = "SHARED"
    EXCLUSIVE = "EXCLUSIVE"


_S, _X = LegacyMode.SHARED, LegacyMode.EXCLUSIVE
_NO_PARTITIONS: Mapping[str, Sequence[str]] = {}


@dataclass(frozen=True, slots=True)
class LegacyLock:
    """An object and the mode in which it is locked.

    :param rule: the row of the document's table, or why a parent is locked.
    :param whole: the path names a database, table or partition, and not the known prefix of several partitions.
    """

    path: LegacyPath
    mode: LegacyMode
    rule: str
    whole: bool = True

    @property
    def is_parent(self) -> bool:
        """Locked only because something below it is."""
        return self.rule == PARENT

    def __str__(self) -> str:
        return f"{'.'.join(self.path[:2])}{''.join('/' + part for part in self.path[2:])} -> {self.mode.value}"


PARENT = "parents are locked in S"


def legacy_data_locks(
    plans: Sequence[Plan], partitions: Mapping[str, Sequence[str]] = _NO_PARTITIONS, *, concurrency: bool = True
) -> tuple[LegacyLock, ...]:
    """The locks of a query or an insert.

    :param partitions: names of the partitions that are read, by table; a table that is not there is read as a whole.
    :param concurrency: ``hive.support.concurrency``; without it nothing is locked.
    """
    wanted: list[LegacyLock] = []
    for plan in plans:
        for read in plan.reads:
            names = partitions.get(read.table, ())
            paths = [_path(read.table, name) for name in names] or [_path(read.table, None)]
            wanted += [LegacyLock(path, _S, "select") for path in paths]
        if plan.write is not None:
            wanted.append(_written(plan.write))
    return _in_order(wanted) if concurrency else ()


def legacy_ctas_locks(
    table: TableName, query: Plan, partitions: Mapping[str, Sequence[str]] = _NO_PARTITIONS, *, concurrency: bool = True
) -> tuple[LegacyLock, ...]:
    """The locks of CREATE TABLE … AS: what it reads shared, the new table exclusive, its database shared.

    The table is none of the document's rows; Hive adds the database, so that it is not dropped meanwhile.
    """
    wanted = [*legacy_data_locks([query], partitions), _lock(table, _X, "create table as")]
    wanted.append(LegacyLock((table.database,), _S, "create table as: the database it comes into"))
    return _in_order(wanted) if concurrency else ()


def legacy_ddl_locks(
    statement: DdlStatement, table_of: TableLookup, *, concurrency: bool = True
) -> tuple[LegacyLock, ...]:
    """The locks of DDL: every row of the document's table, and X for what it does not name."""
    return _in_order(_of_ddl(statement, table_of)) if concurrency else ()


def _of_ddl(statement: DdlStatement, table_of: TableLookup) -> list[LegacyLock]:
    match statement:
        case DropDatabase(name=name):
            return [LegacyLock((name,), _X, "drop database")]
        case DropTable(table=table):
            return [_lock(table, _X, "drop table")]
        case Truncate(table=table, partition=partition):
            return [_of_partition(table, partition, table_of(str(table)), "truncate")]
        case CreateTable() | alter.Compact():
            return []
        case alter.Alteration():
            return _of_alter(statement, table_of(str(statement.table)))
        case _:
            return []


def _of_alter(statement: alter.AlterStatement, facts: TableFacts) -> list[LegacyLock]:
    table = statement.table
    match statement:
        case alter.RenameTable():
            return [_lock(table, _X, "alter table rename")]
        case alter.AlterColumns(replace=replace):
            return [_lock(table, _X, f"alter table {'replace' if replace else 'add'} cols")]
        case alter.ChangeColumn():
            return [_lock(table, _X, "alter table change cols")]
        case alter.AddPartitions(partitions=added):
            return [_of_partition(table, given, facts, "alter table add partition") for given in added]
        case alter.DropPartitions(partitions=clauses):
            return [_of_conditions(table, clause, facts) for clause in clauses]
        case alter.RenamePartition(partition=old, new=new):
            return [_of_partition(table, given, facts, "alter table rename partition") for given in (old, new)]
        case alter.AlterSerde(serde=None, partition=given):
            return [_of_partition(table, given, facts, "alter table set serdeproperties", _S)]
        case _:
            what, mode = _OF_ONE_PARTITION[type(statement)]
            return [_of_partition(table, getattr(statement, "partition", ()), facts, f"alter table {what}", mode)]


_OF_ONE_PARTITION: dict[type[alter.Alteration], tuple[str, LegacyMode]] = {
    alter.Touch: ("touch partition", _X),
    alter.Concatenate: ("concatenate", _X),
    alter.AlterSerde: ("set serializer", _S),
    alter.AlterFileFormat: ("set file format", _S),
    alter.AlterProperties: ("set tblproperties", _X),
    alter.AlterLocation: ("set location", _X),
    alter.AddConstraint: ("add constraint", _X),
    alter.DropConstraint: ("drop constraint", _X),
    alter.AlterOwner: ("set owner", _X),
    alter.RepairTable: ("add partition", _X),
}


def _written(write: TableWrite) -> LegacyLock:
    """X on the partition, on the known prefix of dynamic ones, or on the table."""
    prefix = partition_name(write.static_partition) if write.static_partition else None
    rule = "insert"
    if write.dynamic_partition:
        rule += (
            " with dynamic partitions: the prefix that is known" if prefix else " with dynamic partitions: the table"
        )
    return LegacyLock(_path(write.table, prefix), _X, rule, whole=not (prefix and write.dynamic_partition))


def _in_order(wanted: Iterable[LegacyLock]) -> tuple[LegacyLock, ...]:
    chosen: dict[LegacyPath, LegacyLock] = {}
    for lock in wanted:
        _choose(chosen, lock)
        for parent in parents_of(lock.path):
            _choose(chosen, LegacyLock(parent, _S, PARENT))
    return tuple(chosen[path] for path in sorted(chosen))


def _choose(chosen: dict[LegacyPath, LegacyLock], lock: LegacyLock) -> None:
    held = chosen.get(lock.path)
    stronger = held is not None and held.mode is _S and (lock.mode is _X or held.is_parent)
    if held is None or stronger:
        chosen[lock.path] = lock


def _lock(table: TableName, mode: LegacyMode, rule: str) -> LegacyLock:
    return LegacyLock((table.database, table.name), mode, rule)


def _of_partition(
    table: TableName, given: alter.Partition, facts: TableFacts, rule: str, mode: LegacyMode = _X
) -> LegacyLock:
    """A lock on a partition, on the prefix of partitions that is given, or on the table.

    What may be one of several names (``2024-1-2`` of a DATE) is locked from above: writers and readers lock the
    catalog's names.
    """
    values = dict(given)
    known: list[tuple[str, str]] = []
    for column in facts.partition_columns:
        if column.name not in values or may_be_several(column.type, values[column.name]):
            break
        known.append((column.name, values[column.name]))
    return LegacyLock(_path(str(table), partition_name(known) if known else None), mode, rule)


def _of_conditions(table: TableName, clause: tuple[tuple[str, str, str], ...], facts: TableFacts) -> LegacyLock:
    """DROP PARTITION may compare: what is given by = leads as far as it can."""
    exact = tuple((column, value) for column, operator, value in clause if operator == "=")
    return _of_partition(table, exact, facts, "alter table drop partition")


def _path(table: str, partition: str | None) -> LegacyPath:
    database, _, name = table.partition(".")
    if partition is None:
        return database, name
    return (database, name, *(partition_name([pair]) for pair in parse_partition_name(partition)))
