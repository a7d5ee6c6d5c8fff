"""The common beginning in one round trip: one table, and nothing in the way of its lock.

Only where a batch takes one trip. The order is that of :mod:`~airflow_hive_acid.metastore.protocol.begin`: the lock and
what the txn needs (R10) are one transaction, so that the queue's row is held no longer than the server itself needs;
the snapshot, and behind it the write id (R1), are the next one. R3: each statement that waits decides nothing. The
client looks at all of it afterwards: whatever is not as it should be sends it the long way, in this txn if it has got
nothing yet, else in another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_hive_acid.metastore.database.backend import APART, APART_WITH_NEXT, finish_batch
from airflow_hive_acid.metastore.database.codes import LockState
from airflow_hive_acid.metastore.database.database import Repeat
from airflow_hive_acid.metastore.locks.interface import LockRequest, LockResponse
from airflow_hive_acid.metastore.locks.single_object import grant_steps
from airflow_hive_acid.metastore.protocol.allocation import allocate_all
from airflow_hive_acid.metastore.protocol.looks import begun_of, cleanable_step, covers, is_cleaned_away, later_step
from airflow_hive_acid.metastore.txns.conflicts import early_conflict, early_step
from airflow_hive_acid.metastore.txns.snapshots import fold_snapshot, snapshot_step
from airflow_hive_acid.metastore.txns.write_ids import take_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from airflow_hive_acid.metastore.database.backend import Result, Step
    from airflow_hive_acid.metastore.locks.interface import LockComponent
    from airflow_hive_acid.metastore.protocol.table_uses import TableUse
    from airflow_hive_acid.metastore.protocol.transaction import Begun
    from airflow_hive_acid.metastore.verbs import Verbs


@dataclass(frozen=True, slots=True)
class AtOnce:
    """A txn whose lock is granted.

    :param begun: None when it is outdated: it must be aborted, and another one opened (R2).
    """

    response: LockResponse
    begun: Begun | None


def begin_at_once(
    client: Verbs, txn_id: int, uses: tuple[TableUse, ...], components: Sequence[LockComponent], agent_info: str
) -> AtOnce | None:
    """Lock, pin, look and allocate; None when nothing was done, and the long way is to be gone.

    :param uses: what the txn is to do; ``components`` what it locks for that.
    """
    if not _fits(client, uses, components):
        return None
    (use,), (component,) = uses, components
    request = LockRequest((component,), client.user, client.host, txn_id, agent_info)
    changes = use.writes and component.operation.code in ("u", "d")
    tried: list[None] = []

    def operation(connection: Connection) -> list[Result] | None:
        if tried:
            return []  # what was done of it is unknown
        features = client.database.features(connection)
        if not features.min_history_write_id:
            return None
        # An event names the write id, which must have come back before that.
        takes = use.writes and not client.notifications.enabled(connection)
        tables = [use.table]
        steps: list[Step] = [
            *grant_steps(request, component, pins=True),
            # A reader's second transaction writes nothing with which the first could become durable.
            APART_WITH_NEXT if takes else APART,
            snapshot_step(connection, tables, txn_id, client.gap_timeout_ms),
            cleanable_step(connection, tables),
            *([early_step(txn_id)] if changes else ()),
            *([later_step(connection, tables, txn_id)] if use.replaces else ()),
            *(take_steps(use.table, txn_id) if takes else ()),
        ]
        tried.append(None)
        return finish_batch(connection, steps)

    results = client.database.run(operation, Repeat.BEFORE_COMMIT, hot=True)
    if results is None or (results and not results[1].rows):
        return None
    if not results:
        return AtOnce(LockResponse(0, LockState.ACQUIRED), None)
    _, granted, looked, cleaned, *rest = (result.rows for result in results)
    lock_id, pinned = granted[0]
    response = LockResponse(int(lock_id), LockState.ACQUIRED)
    snapshot = fold_snapshot([use.table], looked, txn_id)
    outdated = (
        # It has its write id: another look would be later than that (R1).
        not covers({use.table: pinned}, snapshot)
        or (changes and early_conflict(txn_id, rest[0], snapshot.valid_txns) is not None)
        or (use.replaces and bool(rest[int(changes)]))
        or is_cleaned_away(snapshot, cleaned)
    )
    if outdated:
        return AtOnce(response, None)
    taken = rest[-1] if len(rest) > int(changes) + int(use.replaces) else []
    write_ids = {use.table: _write_id(client, use, txn_id, taken)} if use.writes else {}
    return AtOnce(response, begun_of(response.lock_id, txn_id, uses, snapshot, write_ids))


def _fits(client: Verbs, uses: tuple[TableUse, ...], components: Sequence[LockComponent]) -> bool:
    """Whether it is one table, locked as it is used, and nothing has to be looked up before."""
    if len(uses) != 1 or len(components) != 1 or client.leases.current is not None:
        return False
    (use,), (component,) = uses, components
    return (
        client.database.backend.one_trip
        and not client.database.layout().counts_txns
        and use.transactional
        and component.transactional
        and (component.database, component.table) == (use.table.database, use.table.name)
        and component.partition is None
        and (not use.writes or component.operation.code is not None)
    )


def _write_id(client: Verbs, use: TableUse, txn_id: int, taken: Sequence[tuple[int]]) -> int:
    """What was taken; the table's first write id, or one with an event, is given in a transaction of its own."""
    if taken:
        return int(taken[0][0])
    given = client.database.run(
        lambda connection: allocate_all(connection, client, txn_id, [use.table]), retry_duplicates=True, hot=True
    )
    return given[use.table]
