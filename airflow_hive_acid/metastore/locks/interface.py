"""What a lock manager takes and answers: requests, components, responses, and rows of SHOW LOCKS.

Names and fields follow Hive's thrift LockRequest, LockComponent and LockResponse. A request is granted as a whole or
not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.names.objects import lock_object

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class LockComponent:
    """One object of a lock request; names are checked and lower-cased when it is made.

    :param table: None locks the database.
    :param partition: partition name, None locks the whole table.
    :param operation: what the lock is for; INSERT, UPDATE and DELETE leave a TXN_COMPONENTS row.
    :param transactional: false for tables without ACID: no component is written.
    :param dynamic_partitions: the partitions written become known later, through ``add_partitions``.
    """

    database: str
    table: str | None
    partition: str | None
    type: LockType
    operation: Operation
    transactional: bool = True
    dynamic_partitions: bool = False

    def __post_init__(self) -> None:
        database, table, partition = lock_object(self.database, self.table, self.partition)
        object.__setattr__(self, "database", database)
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "partition", partition)
        if self.operation is Operation.UNSET:
            raise InvalidArgumentsError(f"the lock on {self.describe()} does not say what it is for; give an operation")
        if self.operation.code is not None and self.table is None:
            raise InvalidArgumentsError(f"{self.operation.value} needs a table, and the lock is on a database")

    @property
    def object(self) -> tuple[str, str | None, str | None]:
        """Database, table, partition."""
        return self.database, self.table, self.partition

    def describe(self) -> str:
        """``db``, ``db.table`` or ``db.table/partition``."""
        return describe_object(self.database, self.table, self.partition)


@dataclass(frozen=True, slots=True)
class LockRequest:
    """Locks to take together.

    :param txn_id: the txn they belong to and end with, 0 for locks of their own that need heartbeats.
    :param zero_wait_read: a SHARED_READ that meets an exclusive lock fails at once instead of waiting.
    :param exclusive_ctas: a conflict fails at once: two CREATE TABLE AS SELECT of one name.
    :param query_id: which statement asks; with its text ``query`` for SHOW LOCKS EXTENDED of the legacy manager.
    """

    components: tuple[LockComponent, ...]
    user: str
    host: str
    txn_id: int = 0
    agent_info: str | None = None
    zero_wait_read: bool = False
    exclusive_ctas: bool = False
    query_id: str | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        if not self.components:
            raise InvalidArgumentsError("a lock request without components; name at least one object")


@dataclass(frozen=True, slots=True)
class LockResponse:
    """Answer to a request or a check.

    :param blocked_by: the lock in the way, ``ext.int``, when it is waiting.
    :param message: why it was refused.
    :param blocked_outside_txn: the lock in the way is of no txn; it may stand for a lease.
    """

    lock_id: int
    state: LockState
    blocked_by: str | None = None
    message: str | None = None
    blocked_outside_txn: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class LockRow:
    """A row of SHOW LOCKS; times are milliseconds by the database's clock.

    :param last_heartbeat: 0 for locks of a txn: the txn's own heartbeat counts.
    """

    lock_id: int
    internal_id: int
    database: str
    table: str | None
    partition: str | None
    state: LockState
    type: LockType
    txn_id: int
    last_heartbeat: int
    acquired_at: int | None
    user: str
    host: str
    agent_info: str | None
    blocked_by: str | None

    @property
    def id(self) -> str:
        """Hive's ``ext.int``."""
        return f"{self.lock_id}.{self.internal_id}"

    def describe(self) -> str:
        """The object locked."""
        return describe_object(self.database, self.table, self.partition)


def merge_components(components: Sequence[LockComponent]) -> tuple[LockComponent, ...]:
    """One component per object, the more restrictive; of equals one that is not an INSERT (LockRequestBuilder)."""
    merged: dict[tuple[str, str | None, str | None], LockComponent] = {}
    for component in components:
        held = merged.get(component.object)
        if (
            held is None
            or component.type.strength > held.type.strength
            or (component.type is held.type and held.operation is Operation.INSERT)
        ):
            merged[component.object] = component
    return tuple(merged.values())


def as_hive_3(components: Sequence[LockComponent]) -> tuple[LockComponent, ...]:
    """The same as a Hive 3 can read them: it has no EXCL_WRITE, and fails on a lock of a type that it does not know."""
    return tuple(replace(c, type=LockType.EXCLUSIVE) if c.type is LockType.EXCL_WRITE else c for c in components)


def describe_components(components: Sequence[LockComponent]) -> str:
    """What is asked for, for messages: the first places, and how many more."""
    shown = ", ".join(component.describe() for component in components[:_SHOWN])
    return f"{shown} and {len(components) - _SHOWN:,} more" if len(components) > _SHOWN else shown


def describe_object(database: str, table: str | None, partition: str | None) -> str:
    """``db``, ``db.table`` or ``db.table/partition``."""
    if table is None:
        return database
    return f"{database}.{table}" + (f"/{partition}" if partition is not None else "")
