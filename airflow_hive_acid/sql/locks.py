"""Which locks a plan asks for, with Hive 4.1's defaults (``hive.txn.xlock.write`` false).

INSERT, UPDATE, DELETE and MERGE share the table for writing and leave conflicts to the commit; INSERT OVERWRITE keeps
other writers out; readers share it for reading. Rows that go to partitions known only later lock the whole table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_hive_acid.sql.plans import TableRead, TableWrite

_PLAIN_WRITES = {
    "insert": (LockType.EXCLUSIVE, Operation.INSERT),
    "overwrite": (LockType.EXCLUSIVE, Operation.NO_TXN),
}
_WRITES = {
    "insert": (LockType.SHARED_WRITE, Operation.INSERT),
    "overwrite": (LockType.EXCL_WRITE, Operation.UPDATE),
    "update": (LockType.SHARED_WRITE, Operation.UPDATE),
    "delete": (LockType.SHARED_WRITE, Operation.DELETE),
}


def lock_components(write: TableWrite | None, reads: Iterable[TableRead]) -> tuple[LockComponent, ...]:
    """The components of the lock request: the table written, then each table read.

    A table that is written as a whole needs no lock for reading beside it.
    """
    components: list[LockComponent] = []
    covered: set[str] = set()
    if write is not None:
        components.append(_write_component(write))
        if components[0].partition is None:
            covered.add(write.table)
    for read in reads:
        if read.table not in covered:
            covered.add(read.table)
            database, _, table = read.table.partition(".")
            components.append(
                LockComponent(database, table, None, LockType.SHARED_READ, Operation.SELECT, read.transactional)
            )
    return tuple(components)


def _write_component(write: TableWrite) -> LockComponent:
    database, _, table = write.table.partition(".")
    lock, operation = (_WRITES if write.transactional else _PLAIN_WRITES)[write.operation]
    partition = write.only_partition
    return LockComponent(
        database,
        table,
        partition,
        lock,
        operation,
        transactional=write.transactional,
        dynamic_partitions=write.partitioned and partition is None,
    )
