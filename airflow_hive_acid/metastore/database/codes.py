"""Hive's one-letter codes and numbers as enums: txn states and types, operations, locks, abort reasons.

Source: Hive's thrift enums and TxnHandler constants. The values are what the tables hold; letters repeat between
columns with different meanings, so raw letters are never passed around.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class TxnState(Enum):
    """TXNS.TXN_STATE."""

    OPEN = "o"
    ABORTED = "a"
    COMMITTED = "c"


class TxnType(IntEnum):
    """TXNS.TXN_TYPE; NULL reads as DEFAULT, but is never written: such a row would never time out."""

    DEFAULT = 0
    REPL_CREATED = 1
    READ_ONLY = 2
    COMPACTION = 3
    MATER_VIEW_REBUILD = 4
    SOFT_DELETE = 5
    REBALANCE_COMPACTION = 6


#: Types whose commit fills the compaction queue's CQ_NEXT_TXN_ID and therefore needs MAX(TXN_ID).
COMPACTING_TYPES = frozenset({TxnType.COMPACTION, TxnType.SOFT_DELETE, TxnType.REBALANCE_COMPACTION})


class Operation(Enum):
    """What a lock component is for (thrift DataOperationType)."""

    SELECT = "select"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    UNSET = "unset"
    NO_TXN = "no_txn"

    @property
    def code(self) -> str | None:
        """TC_OPERATION_TYPE, None for operations that leave no component."""
        return {"insert": "i", "update": "u", "delete": "d"}.get(self.value)


class LockType(Enum):
    """HIVE_LOCKS.HL_LOCK_TYPE, from weakest to strongest."""

    SHARED_READ = "r"
    SHARED_WRITE = "w"
    EXCL_WRITE = "x"
    EXCLUSIVE = "e"

    @property
    def strength(self) -> int:
        """Restrictiveness: larger is stronger."""
        return "rwxe".index(self.value)


class LockState(Enum):
    """HIVE_LOCKS.HL_LOCK_STATE, and NOT_ACQUIRED as an answer."""

    WAITING = "w"
    ACQUIRED = "a"
    NOT_ACQUIRED = "not acquired"


class AbortReason(Enum):
    """TXN_META_INFO of aborted txns, as text (Hive's TxnErrorMsg)."""

    NONE = "none"
    QUERY = "abort by query command"
    CONCURRENT = "concurrent committed transaction"
    WRITE_CONFLICT = "write conflicts"
    TIMEOUT = "heartbeat time-out"
    ROLLBACK = "rollback"
    COMPACTION = "compaction abort"
    MSCK = "msck abort"
    MIGRATION = "managed migration abort"
    REPLICATION = "replication: aborted in the source"
    DEADLOCK = "deadlock"
    LOCK_TIMEOUT = "lock not granted in time"
    OPENED_LATE = "seen only after hive.txn.opentxn.timeout"
