"""Waiting for locks to be released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.hooks.configuration import DEFAULT_CONN_ID
from airflow_hive_acid.metastore import shown
from airflow_hive_acid.triggers.base import MetastoreWaitTrigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.locks.interface import LockRow

#: Hive's lock types, from weakest to strongest.
LOCK_TYPES = ("SHARED_READ", "SHARED_WRITE", "EXCL_WRITE", "EXCLUSIVE")


class LocksReleasedTrigger(MetastoreWaitTrigger):
    """Fires when a lock, or all locks of an object, are released.

    :param table: ``db.table``, or ``db`` for a database.
    :param partition: partition name; with it, only locks count that concern this partition.
    :param lock_id: one lock request instead of an object.
    :param lock_types: names of the types that count; None for all.
    """

    def __init__(
        self,
        table: str | None = None,
        partition: str | None = None,
        lock_id: int | None = None,
        lock_types: list[str] | None = None,
        hive_acid_conn_id: str = DEFAULT_CONN_ID,
        poll_interval: float = 5.0,
    ) -> None:
        super().__init__(hive_acid_conn_id, poll_interval)
        self.table = table
        self.partition = partition
        self.lock_id = lock_id
        self.lock_types = lock_types

    def check(self, client: MetastoreClient) -> dict[str, Any] | None:
        """Look once."""
        found = held_locks(client, self.table, self.partition, self.lock_id, self.lock_types)
        if found:
            self.log.info("%s", describe(found))
            return None
        return {"table": self.table, "partition": self.partition, "lock_id": self.lock_id}


def check_arguments(
    table: str | None, partition: str | None, lock_id: int | None, lock_types: Collection[str] | None
) -> None:
    """Refuse what cannot be meant.

    :raises InvalidArgumentsError: neither table nor lock, or both; a partition without a table; an unknown type.
    """
    if (table is None) == (lock_id is None):
        raise InvalidArgumentsError("name what to wait for: either a table (or database), or a lock_id")
    if partition is not None and (table is None or "." not in table):
        raise InvalidArgumentsError(f"partition {partition!r} needs its table as db.table, not {table!r}")
    for name in lock_types or ():
        if name not in LOCK_TYPES:
            raise InvalidArgumentsError(f"{name!r} is no lock type; Hive's are {', '.join(LOCK_TYPES)}")


def held_locks(
    client: MetastoreClient,
    table: str | None,
    partition: str | None,
    lock_id: int | None,
    lock_types: Collection[str] | None,
) -> list[LockRow]:
    """The locks that are still to be released.

    A lock of a table's database or of the table itself concerns its partitions, and the other way round. A request
    that only waits holds nothing, unless it is the one that was asked for.
    """
    check_arguments(table, partition, lock_id, lock_types)
    if table is None:
        return _locks(client, None, lambda row: row.lock_id == lock_id and _counts(row, lock_types))
    database, _, name = table.lower().partition(".")
    return _locks(
        client,
        database,
        lambda row: (
            row.state.name == "ACQUIRED" and _counts(row, lock_types) and _concerns(row, name or None, partition)
        ),
    )


def _locks(client: MetastoreClient, database: str | None, wanted: Callable[[LockRow], bool]) -> list[LockRow]:
    """Chosen while they are read: a metastore may hold very many."""
    places = shown.LockFilter(database)
    return client.database.read(lambda conn: [row for row in shown.stream_locks(conn, places) if wanted(row)])


def describe(rows: Sequence[LockRow]) -> str:
    """Who holds what, in one line."""
    shown = [f"{row.type.name} of {row.describe()} by {_holder(row)}" for row in rows[:3]]
    more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
    return f"waiting for {len(rows)} locks: {', '.join(shown)}{more}"


def _counts(row: LockRow, lock_types: Collection[str] | None) -> bool:
    return lock_types is None or row.type.name in lock_types


def _concerns(row: LockRow, table: str | None, partition: str | None) -> bool:
    if table is None or row.table is None:
        return True
    if row.table != table:
        return False
    return partition is None or row.partition is None or row.partition == partition


def _holder(row: LockRow) -> str:
    txn = f"txn {row.txn_id}" if row.txn_id else f"lock {row.lock_id}"
    return f"{txn} ({row.agent_info or row.user})"
