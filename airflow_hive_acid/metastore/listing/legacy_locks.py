"""S and X locks of the Hive Concurrency Model by pages, wherever their manager keeps them.

They are few: those of statements that run now, and all of them are read for a page. Nobody waits among them.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.codes import LockState
from airflow_hive_acid.metastore.listing.pages import Page
from airflow_hive_acid.metastore.locks.legacy.choice import legacy_lock_manager
from airflow_hive_acid.metastore.names.partitions import resolve_filter

if TYPE_CHECKING:
    from airflow_hive_acid.metastore.database.database import Database
    from airflow_hive_acid.metastore.listing.pages import LocksWanted, Slice
    from airflow_hive_acid.metastore.locks.legacy.concurrency_model import LegacyLockRow
    from airflow_hive_acid.settings import Settings


def legacy_locks_page(database: Database, settings: Settings, wanted: LocksWanted, part: Slice) -> Page[LegacyLockRow]:
    """Locks by their ids, in the order in which they were asked for.

    :param settings: ``hive.lock.manager`` says whose they are.
    :raises MetastoreUnavailableError: when ZooKeeper does not answer.
    """
    place = wanted.partition
    if place is not None:
        given = place
        place = database.read(lambda connection: resolve_filter(connection, wanted.database, wanted.table, given))
    with contextlib.closing(legacy_lock_manager(database, settings)) as manager:
        rows = list(manager.stream_locks(wanted.database, wanted.table, place))
    kept = sorted((row for row in rows if _is_wanted(row, wanted)), key=_key)
    following = [row for row in kept if part.after is None or _key(row) > tuple(part.after)]
    items = tuple(following[: part.limit])
    after = _key(items[-1]) if len(following) > part.limit else None
    return Page(items, after, len(kept) if part.after is None else None, database.read(now_ms))


def _key(row: LegacyLockRow) -> tuple[int, int]:
    return row.lock_id, row.internal_id


def _is_wanted(row: LegacyLockRow, wanted: LocksWanted) -> bool:
    return (
        wanted.state in (None, LockState.ACQUIRED)
        and wanted.type in (None, row.type)
        and wanted.txn_id in (None, row.txn_id)
        and wanted.lock_id in (None, row.lock_id)
        and wanted.user in (None, row.user)
        and (wanted.table is None or row.table == wanted.table.lower())
    )
