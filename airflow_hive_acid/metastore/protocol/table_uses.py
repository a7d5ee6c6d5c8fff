"""What a txn is to do with each table, as lock requests (Hive's DbTxnManager with 4.1's defaults).

INSERT, UPDATE and DELETE take SHARED_WRITE: writers do not wait for each other, the first to commit wins. INSERT
OVERWRITE takes EXCL_WRITE; reads take SHARED_READ. Writes of partitioned tables lock the table and name their
partitions later (R12). Whoever writes a table without transactions has it to himself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.database.codes import LockType, Operation
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.names.objects import TableName, shorten, table_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_PLAIN_LOCKS: dict[str, tuple[LockType, Operation]] = {
    "select": (LockType.SHARED_READ, Operation.SELECT),
    "insert": (LockType.EXCLUSIVE, Operation.INSERT),
    "overwrite": (LockType.EXCLUSIVE, Operation.NO_TXN),
}
"""What Hive asks for on tables without transactions (``hive.txn.strict.locking.mode``): nothing hides a write there."""
_LOCKS: dict[str, tuple[LockType, Operation]] = {
    "select": (LockType.SHARED_READ, Operation.SELECT),
    "insert": (LockType.SHARED_WRITE, Operation.INSERT),
    "update": (LockType.SHARED_WRITE, Operation.UPDATE),
    "delete": (LockType.SHARED_WRITE, Operation.DELETE),
    "merge": (LockType.SHARED_WRITE, Operation.UPDATE),
    "overwrite": (LockType.EXCL_WRITE, Operation.UPDATE),
}


@dataclass(frozen=True, slots=True)
class TableUse:
    """What a txn does with one table.

    :param partitioned: its partitions are named before the commit.
    :param transactional: false for a plain table, which has a lock and neither snapshot nor write ids.
    """

    table: TableName
    lock: LockType
    operation: Operation
    partitioned: bool = False
    transactional: bool = True

    @property
    def writes(self) -> bool:
        """Whether it needs a write id."""
        return self.transactional and self.operation is not Operation.SELECT

    @property
    def replaces(self) -> bool:
        """Whether what it writes hides all rows that were there, those that it does not see as well."""
        return self.writes and self.lock is LockType.EXCL_WRITE

    def component(self) -> LockComponent:
        """Its part of the lock request."""
        return LockComponent(
            self.table.database,
            self.table.name,
            None,
            self.lock,
            self.operation,
            transactional=self.transactional,
            dynamic_partitions=self.partitioned and self.writes,
        )


def table_uses(
    tables: Mapping[str, str] | Iterable[str],
    partitioned: Mapping[str, bool] | Iterable[str] | None = None,
    plain: Iterable[str] = (),
) -> tuple[TableUse, ...]:
    """Read what a caller asks for, ordered by table, so that two txns lock in the same order.

    :param tables: operation by table; tables alone are read.
    :param partitioned: the tables that are partitioned.
    :param plain: the tables without transactions; they can be read, inserted into and overwritten.
    :raises InvalidArgumentsError: for an unknown operation; names those there are.
    """
    wanted = dict(tables) if isinstance(tables, Mapping) else dict.fromkeys(_each(tables), "select")
    if not wanted:
        raise InvalidArgumentsError("no table is named; declare every table of the transaction when it begins")
    named, without = set(_partitioned(partitioned)), {table_name(t) for t in _each(plain)}
    uses: dict[TableName, TableUse] = {}
    for text, operation in wanted.items():
        if operation not in _LOCKS:
            raise InvalidArgumentsError(
                f"{shorten(str(operation))!r} is no operation on {shorten(str(text))}; use one of {', '.join(_LOCKS)}"
            )
        name = table_name(text)
        locks = _PLAIN_LOCKS if name in without else _LOCKS
        if operation not in locks:
            raise InvalidArgumentsError(f"{name} has no transactions; {operation} needs a full ACID table")
        if name in uses:
            raise InvalidArgumentsError(f"table {name} is declared twice; declare its strongest operation once")
        uses[name] = TableUse(name, *locks[operation], partitioned=name in named, transactional=name not in without)
    return tuple(uses[name] for name in sorted(uses))


def _partitioned(partitioned: Mapping[str, bool] | Iterable[str] | None) -> Iterator[TableName]:
    if isinstance(partitioned, Mapping):
        yield from (table_name(t) for t, is_partitioned in partitioned.items() if is_partitioned)
    else:
        yield from (table_name(t) for t in _each(partitioned or ()))


def _each(names: Iterable[str]) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names
