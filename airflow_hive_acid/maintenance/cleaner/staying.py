"""A lock that keeps a table or partition in its place while the Cleaner deletes what was listed there.

Whoever renames or drops it asks for an exclusive lock and waits, as for a reader; a real Hive, too. Without that, what
was listed would be deleted of the table, or partition, that has taken the name since: its directories may bear the same
names. Nobody who reads or writes waits for it.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.database import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks import LockComponent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.maintenance.cleaner.subject import Subject
    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.catalog import Table

_BEATS_PER_TIMEOUT = 4


@dataclass(slots=True)
class Hold:
    """The lock, if it was granted.

    :param problem: what stands in the way; empty: nothing.
    """

    client: MetastoreClient
    lock_id: int
    problem: str = ""
    _beaten: float = field(default_factory=time.monotonic, init=False)

    def beat(self) -> None:
        """Before each delete: keep the lock alive.

        :raises NoSuchLockError: when it has timed out all the same; nothing more may be deleted then.
        """
        now = time.monotonic()
        if now - self._beaten > self.client.settings.seconds("hive.txn.timeout") / _BEATS_PER_TIMEOUT:
            self.client.heartbeat(lock_id=self.lock_id)
            self._beaten = now


@contextlib.contextmanager
def staying(
    client: MetastoreClient, agent: str, table: Table, subject: Subject, find: Callable[[], Subject]
) -> Iterator[Hold]:
    """Ask for the lock, without waiting, and hold it for the block.

    :param agent: what for, for people.
    :param table: that the subject is, or is of.
    :param find: looks the subject up again.
    """
    name = None if subject.partition is None else subject.partition.name
    component = LockComponent(table.db, table.name, name, LockType.SHARED_READ, Operation.NO_TXN)
    response = client.lock([component], agent_info=agent)
    try:
        if response.state is not LockState.ACQUIRED:
            yield Hold(client, response.lock_id, "is locked")
        elif find().place != subject.place:  # R3: asked again under the lock
            yield Hold(client, response.lock_id, "was renamed, moved or made anew meanwhile")
        else:
            yield Hold(client, response.lock_id)
    finally:
        client.unlock(response.lock_id)
