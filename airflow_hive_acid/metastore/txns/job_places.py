"""Which jobs are in the way of a change of single partitions (R4).

A job of a dead txn is, until it is fenced: nobody knows where it was to write. One of an open txn writes where the txn
has locks. So an INSERT into other partitions is in nobody's way, nor is a compaction, which looks whether its partition
is still there before it publishes, and for whose end the Cleaner waits.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import bindparam, select

from airflow_hive_acid.format.partitions import every_spelling, from_lock_name, may_be_among
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, TXNS
from airflow_hive_acid.metastore.txns.jobs import COMPACT_KIND, Job, unfenced_jobs
from airflow_hive_acid.metastore.txns.txns import IS_NOT_GIVEN_UP

if TYPE_CHECKING:
    from collections.abc import Collection, Set

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.names.objects import TableName

_IDS: sa.BindParameter[Any] = bindparam("ids", expanding=True)
_OPEN = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_ID.in_(_IDS), TXNS.c.TXN_STATE == "o", IS_NOT_GIVEN_UP)
_LOCKED = select(HIVE_LOCKS.c.HL_TXNID, HIVE_LOCKS.c.HL_PARTITION).where(
    HIVE_LOCKS.c.HL_TXNID.in_(_IDS), HIVE_LOCKS.c.HL_DB == bindparam("db"), HIVE_LOCKS.c.HL_TABLE == bindparam("tbl")
)


def jobs_in_the_way(connection: Connection, table: TableName, partitions: Collection[str]) -> list[Job]:
    """Attempts on a table that may still write into some of its partitions.

    :param partitions: their names; whoever asks has locked them.
    """
    jobs = unfenced_jobs(connection, table)
    spelled = every_spelling(partitions)
    opened: set[int] = set()
    locked: dict[int, list[str | None]] = defaultdict(list)
    for part in chunks(sorted({job.txn_id for job in jobs})):
        opened |= set(connection.execute(_OPEN, {"ids": list(part)}).scalars())
        of_table = {"ids": list(part), "db": table.database, "tbl": table.name}
        for txn_id, name in connection.execute(_LOCKED, of_table):
            locked[txn_id].append(None if name is None else from_lock_name(name))
    return [
        job
        for job in jobs
        if job.txn_id not in opened
        or (job.kind != COMPACT_KIND and not _are_others(locked.get(job.txn_id, ()), spelled))
    ]


def _are_others(locked: Collection[str | None], spelled: Set[str]) -> bool:
    """Whether locks are on partitions, and on none of those.

    :param spelled: every spelling of theirs.
    """
    return bool(locked) and all(name is not None and not may_be_among(name, spelled) for name in locked)
