"""Removing what has ended: leases, places in the queue that nobody keeps, and the locks that stood for either (R7).

Nothing depends on it for safety, an ended lease is none for anybody. But Hive's own writers wait for a lock until it is
removed, and Hive itself does that only ``hive.txn.timeout`` after the lease has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.database.backend import Step, execute_batch
from airflow_hive_acid.metastore.leases import rows
from airflow_hive_acid.metastore.leases.grants import wake_next

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.database import Database

_PART = 1000
"""Rows removed in one transaction."""


def expire(database: Database) -> int:
    """Remove everything that has ended; returns how many leases (rows) and places in the queue that were."""
    removed = 0
    while part := database.run(_expire_part):
        removed += part
    return removed


def expire_lock(database: Database, lock_id: int) -> bool:
    """Remove a lock that stands for leases, if all of them have ended; whether it was one."""

    def operation(connection: Connection) -> bool:
        found = rows.lease_rows(execute_batch(connection, [Step(rows.ENDED_OF_MIRROR, {"ext": lock_id})]))
        return bool(found) and _remove(connection, found) > 0

    return database.run(operation, hot=True)


def _expire_part(connection: Connection) -> int:
    limit = {"limit": _PART}
    ended = rows.lease_rows(execute_batch(connection, [Step(rows.ENDED, limit)]))
    # Tables first, as everywhere.
    removed = _remove(connection, ended) if ended else 0
    gone = execute_batch(connection, [Step(rows.GONE, limit)])[0].rows
    for ticket, hive_id in gone:
        # Whom it kept waiting looks by himself within a second: a place that nobody keeps has not counted for a while.
        execute_batch(connection, rows.leave_steps(ticket, hive_id))
    return removed + len(gone)


def _remove(connection: Connection, ended: list[rows.LeaseRow]) -> int:
    """Lock the tables, and remove what is still ended there."""
    execute_batch(connection, rows.guard_steps(row.lease for row in ended))
    # R3: one of them may have been extended while we waited for its table.
    looks = [Step(rows.STILL_ENDED, {"lease_id": row.lease.lease_id, "number": row.number}) for row in ended]
    still = rows.lease_rows(execute_batch(connection, looks))
    execute_batch(connection, [*rows.remove_steps(still), *wake_next(connection, [row.lease for row in still])])
    return len(still)
