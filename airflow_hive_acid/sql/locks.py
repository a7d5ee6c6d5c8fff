"""Which locks a plan asks for, with Hive 4.1's defaults (``hive.txn.xlock.write`` false).

INSERT, UPDATE, DELETE and MERGE share the table for writing and leave conflicts to the commit; INSERT OVERWRITE keeps
other writers out; readers share it for reading. The letters are those of HIVE_LOCKS and TXN_COMPONENTS.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class LockType(Enum):
    """HL_LOCK_TYPE."""

    SHARED_READ = "r"
    SHARED_WRITE = "w"
    EXCL_WRITE = "x"
    EXCLUSIVE = "e"


class Operation(Enum):
    """TC_OPERATION_TYPE of the component that goes with a lock."""

    SELECT = "s"
    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"
    NO_TXN = "n"


@dataclass(frozen=True, slots=True)
class LockRequest:
    """One component of a lock request.

    :param table: None for a whole database.
    :param partition: partition name, None for a whole table.
    :param dynamic_partitions: the partitions written are only known at the end of the statement.
    :param transactional: whether the table has write ids; only then the metastore records a component.
    """

    database: str
    table: str | None
    partition: str | None
    type: LockType
    operation: Operation
    dynamic_partitions: bool = False
    transactional: bool = True
