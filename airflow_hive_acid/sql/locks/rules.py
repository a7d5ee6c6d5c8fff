"""Hive 4's rules of who locks what, as tables: DbTxnManager, AcidUtils.makeLockComponents, LockRequestBuilder.

Everything here is a function of what a statement does to an object, what the catalog says of it, and the settings. The
answer carries the rule that gave it, which is what EXPLAIN LOCKS prints. ``locks`` applies the rules to planned
statements and ``ddl_locks`` to DDL.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.database import LockType, Operation
from airflow_hive_acid.metastore.locks import LockComponent, merge_components

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_hive_acid.settings import Settings

GLOBAL_LOCKS = "__GLOBAL_LOCKS"
"""Database under whose name the advisory locks of ``hive.query.exclusive.lock`` are taken."""


@dataclass(frozen=True, slots=True)
class LockSettings:
    """The settings that decide about locks; the values are ours, as ``hive-acid settings`` prints them.

    :param max_partitions: more partitions read than this are locked as their table; -1: no limit.
    :param advisory: names of ``hive.query.exclusive.lock``.
    :param truncate_usebase: TRUNCATE of an ACID table writes an empty base (the only way it is done here).
    :param drop_partition_usebase: DROP PARTITION of an ACID table hides the rows and leaves the files to the Cleaner
        (the only way it is done here).
    :param soft_delete: DROP TABLE and DROP DATABASE leave the files to the Cleaner (not done here).
    :param make_copy: a partition is renamed by copying it (not done here).
    :param lock_external_ddl: DDL locks external tables too, whatever ``external`` says (ours; off in Hive).
    """

    exclusive_writes: bool = False
    exclusive_overwrites: bool = True
    guarded_merge_inserts: bool = True
    exclusive_ctas: bool = True
    strict: bool = True
    plain_reads: bool = True
    external: bool = True
    acid_reads: bool = True
    lockless: bool = False
    max_partitions: int = 1000
    advisory: tuple[str, ...] = ()
    truncate_usebase: bool = True
    drop_partition_usebase: bool = True
    soft_delete: bool = False
    make_copy: bool = False
    lock_external_ddl: bool = True

    @classmethod
    def of(cls, settings: Settings) -> LockSettings:
        """As the settings in force have it."""
        names = settings.string("hive.query.exclusive.lock").split(",")
        return cls(
            exclusive_writes=settings.flag("hive.txn.xlock.write"),
            exclusive_overwrites=settings.flag("hive.txn.xlock.iow"),
            guarded_merge_inserts=settings.flag("hive.txn.xlock.mergeinsert"),
            exclusive_ctas=settings.flag("hive.txn.xlock.ctas"),
            strict=settings.flag("hive.txn.strict.locking.mode"),
            plain_reads=settings.flag("hive.txn.nonacid.read.locks"),
            external=settings.flag("hive.txn.ext.locking.enabled"),
            acid_reads=settings.flag("hive.txn.read.locks"),
            lockless=settings.flag("hive.acid.lockless.reads.enabled"),
            max_partitions=settings.integer("hive.locks.max.partitions"),
            advisory=tuple(name.strip() for name in names if name.strip()),
        )


DEFAULT_LOCKS = LockSettings()


@dataclass(frozen=True, slots=True)
class PlannedLock:
    """A component of a lock request, and why it is there.

    :param rule: what was done, and the setting or property that decided, in one line.
    """

    component: LockComponent
    rule: str

    def __str__(self) -> str:
        """As Hive's EXPLAIN LOCKS prints it: ``db.table.k=1/l=2 -> SHARED_READ``."""
        parts = [part for part in self.component.object if part is not None]
        return f"{'.'.join(parts)} -> {self.component.type.name}"


class WriteType(Enum):
    """What a statement does to an object (WriteEntity.WriteType)."""

    INSERT = "INSERT"
    INSERT_OVERWRITE = "INSERT OVERWRITE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CTAS = "CREATE TABLE AS SELECT"
    DDL_EXCLUSIVE = "exclusive DDL"
    DDL_EXCL_WRITE = "DDL beside readers"
    DDL_SHARED = "shared DDL"
    DDL_NO_LOCK = "DDL without lock"


Answer = tuple[LockType, Operation, str]
"""Lock type, operation, and the rule in words."""


def write_rule(
    write: WriteType, settings: LockSettings = DEFAULT_LOCKS, *, transactional: bool = True, merge: bool = False
) -> Answer | None:
    """The lock for writing an object; None for no component.

    :param transactional: full ACID or insert-only.
    :param merge: the statement is a MERGE.
    """
    if write in _DDL:
        answer = _DDL[write]
        return None if answer is None else (*answer, "")
    if not transactional:
        return _plain_write(write, settings)
    match write:
        case WriteType.INSERT:
            return _acid_insert(settings, merge)
        case WriteType.INSERT_OVERWRITE:
            alone = settings.exclusive_overwrites and settings.exclusive_writes and not settings.lockless
            why = f"hive.txn.xlock.iow={_on(settings.exclusive_overwrites)}, {_xlock(settings)}"
            return (LockType.EXCLUSIVE if alone else LockType.EXCL_WRITE), Operation.UPDATE, f"{write.value}: {why}"
        case WriteType.CTAS:
            return LockType.EXCL_WRITE, Operation.INSERT, f"{write.value}: nobody else may fill the new table"
        case _:
            operation = Operation.UPDATE if write is WriteType.UPDATE else Operation.DELETE
            type = LockType.EXCL_WRITE if settings.exclusive_writes else LockType.SHARED_WRITE
            return type, operation, f"{write.value}: {_xlock(settings)}"


def read_rule(
    settings: LockSettings = DEFAULT_LOCKS, *, transactional: bool = True, external: bool = False
) -> str | None:
    """Why reading a table or partition takes SHARED_READ; None when it takes no lock.

    :param external: the table's files belong to somebody else (EXTERNAL_TABLE).
    """
    if not lockable(settings, transactional=transactional, external=external):
        return None
    if transactional:
        return "SELECT: hive.txn.read.locks=true" if settings.acid_reads else None
    return "SELECT of a table without transactions: hive.txn.nonacid.read.locks=true" if settings.plain_reads else None


def lockable(
    settings: LockSettings, *, transactional: bool, external: bool, reading: bool = True, ddl: bool = False
) -> bool:
    """Whether Hive locks such a table at all (AcidUtils.needsLock)."""
    if external:
        return settings.external or (ddl and settings.lock_external_ddl)
    return not (reading and settings.lockless and transactional)


def read_places(partitions: Sequence[str] | None, settings: LockSettings = DEFAULT_LOCKS) -> tuple[str | None, ...]:
    """What of a table is locked for reading: its partitions, or (None) the table as a whole.

    :param partitions: those that the statement reads; None when the table has none, or when it reads all of them.
    """
    too_many = partitions is not None and 0 <= settings.max_partitions < len(partitions)
    return (None,) if not partitions or too_many else tuple(partitions)


def advisory_locks(settings: LockSettings) -> tuple[PlannedLock, ...]:
    """The locks that the user has asked for by name."""
    return tuple(
        PlannedLock(
            LockComponent(GLOBAL_LOCKS, name, None, LockType.EXCLUSIVE, Operation.NO_TXN, transactional=False),
            "hive.query.exclusive.lock",
        )
        for name in settings.advisory
    )


def merged(locks: Sequence[PlannedLock]) -> tuple[PlannedLock, ...]:
    """One lock per object, the most restrictive, with the rules of those it stands for."""
    chosen = merge_components([lock.component for lock in locks])
    rules = {
        component.object: dict.fromkeys(lock.rule for lock in locks if lock.component.object == component.object)
        for component in chosen
    }
    return tuple(PlannedLock(component, "; ".join(rules[component.object])) for component in chosen)


def _acid_insert(settings: LockSettings, merge: bool) -> Answer:
    guarded = settings.guarded_merge_inserts and merge
    operation = Operation.UPDATE if guarded else Operation.INSERT
    why = f"hive.txn.xlock.mergeinsert={_on(settings.guarded_merge_inserts)}, " if merge else ""
    rule = f"{'MERGE … INSERT' if merge else 'INSERT'}: {why}{_xlock(settings)}"
    if not settings.exclusive_writes:
        return LockType.SHARED_WRITE, operation, rule
    if guarded:
        return LockType.EXCL_WRITE, operation, rule
    rule = f"{rule}, hive.acid.lockless.reads.enabled={_on(settings.lockless)}"
    if settings.lockless:
        return LockType.SHARED_WRITE, operation, rule
    # A MERGE may have another clause, with a lock that does.
    return LockType.SHARED_READ, operation, rule if merge else f"{rule}, so it waits for no lease"


def _plain_write(write: WriteType, settings: LockSettings) -> Answer | None:
    what = f"{write.value} without transactions"
    if write is WriteType.INSERT:
        type = LockType.EXCLUSIVE if settings.strict else LockType.SHARED_READ
        return type, Operation.INSERT, f"{what}: hive.txn.strict.locking.mode={_on(settings.strict)}"
    if write in (WriteType.INSERT_OVERWRITE, WriteType.CTAS):
        return LockType.EXCLUSIVE, Operation.NO_TXN, f"{what}: files are replaced in place"
    return None  # UPDATE and DELETE: refused before anything is locked


_DDL: dict[WriteType, tuple[LockType, Operation] | None] = {
    WriteType.DDL_EXCLUSIVE: (LockType.EXCLUSIVE, Operation.NO_TXN),
    WriteType.DDL_EXCL_WRITE: (LockType.EXCL_WRITE, Operation.NO_TXN),
    WriteType.DDL_SHARED: (LockType.SHARED_READ, Operation.NO_TXN),
    WriteType.DDL_NO_LOCK: None,
}


def _on(flag: bool) -> str:
    return str(flag).lower()


def _xlock(settings: LockSettings) -> str:
    return f"hive.txn.xlock.write={_on(settings.exclusive_writes)}"
