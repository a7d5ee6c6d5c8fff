"""What the Cleaner changes in the queue, each as part of one transaction of the caller.

A compaction that is cleaned takes with it what it covered: completed components up to its write id and the components
of aborted txns below. R4: the caller has fenced those txns' jobs and seen that their directories are gone.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, insert, select, update

from airflow_hive_acid.metastore.compaction.model import (
    AbortedWrites,
    Compaction,
    CompactionState,
    CompactionType,
    Resource,
    format_properties,
)
from airflow_hive_acid.metastore.compaction.rows import (
    clean_text,
    move_to_history,
    next_request_id,
    next_request_ids,
    same_resource,
)
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.partitions import unambiguous_spellings
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_TXN_COMPONENTS,
    TXN_COMPONENTS,
    TXNS,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import ColumnElement, Connection

    from airflow_hive_acid.metastore.names.objects import TableName

_cq, _ctc, _tc = COMPACTION_QUEUE.c, COMPLETED_TXN_COMPONENTS.c, TXN_COMPONENTS.c
_ABORTED = select(TXNS.c.TXN_ID).where(TXNS.c.TXN_STATE == "a")
_CLEANUP = CompactionType.ABORT_TXN_CLEANUP.value
_HIDDEN_SINCE = select(_cq.CQ_PARTITION).where(
    _cq.CQ_DATABASE == bindparam("db"), _cq.CQ_TABLE == bindparam("tbl"), _cq.CQ_PARTITION.is_not(None),
    _cq.CQ_STATE == CompactionState.READY_FOR_CLEANING.value, _cq.CQ_HIGHEST_WRITE_ID >= bindparam("write_id"),
)  # fmt: skip
_INSERT_SOFT_DELETE = insert(COMPACTION_QUEUE).values(
    CQ_ID=bindparam("id"), CQ_DATABASE=bindparam("db"), CQ_TABLE=bindparam("tbl"), CQ_PARTITION=bindparam("part"),
    CQ_STATE=CompactionState.READY_FOR_CLEANING.value, CQ_TYPE=CompactionType.MAJOR.value,
    CQ_TBLPROPERTIES=bindparam("properties"), CQ_ENQUEUE_TIME=clock_ms(), CQ_TXN_ID=bindparam("txn_id"),
    CQ_HIGHEST_WRITE_ID=bindparam("highest"),
)  # fmt: skip


class Covered(Enum):
    """Which writes of a table or partition a cleaned request covers, so that they can be forgotten."""

    COMPACTED = "up to its highest write id"
    EVERYTHING = "all: the table or partition is gone"
    NOTHING = "none: another table of that name has taken its place"


def finish_cleaning(
    connection: Connection, request: Compaction, covered: Covered, fenced: Collection[int] | None = None
) -> None:
    """Move a request whose row is locked to the history, and forget what it covered.

    :param fenced: the aborted txns whose jobs are fenced and whose directories are gone: of others, who were aborted
        since, nothing is forgotten (R4). None: of all.
    """
    resource = request.resource
    move_to_history(connection, request, CompactionState.SUCCEEDED, None)
    if covered is Covered.NOTHING:
        return
    retries = [_cq.CQ_DATABASE == resource.database, _cq.CQ_TABLE == resource.table, _cq.CQ_TYPE == _CLEANUP]
    if resource.partition is not None:
        retries.append(_cq.CQ_PARTITION == resource.partition)
    connection.execute(delete(COMPACTION_QUEUE).where(*retries))
    highest = None if covered is Covered.EVERYTHING else request.highest_write_id or 0
    if highest == 0:
        return  # a foreign row without high-water mark does not say what may be forgotten
    written = [_ctc.CTC_DATABASE == resource.database, _ctc.CTC_TABLE == resource.table]
    if resource.partition is not None:
        # A Hive's static inserts spell it in their own way.
        names = unambiguous_spellings(connection, resource.table_name, [resource.partition])
        written.append(_ctc.CTC_PARTITION.in_(names))
    if highest is not None:
        written.append(_ctc.CTC_WRITEID <= highest)
    connection.execute(delete(COMPLETED_TXN_COMPONENTS).where(*written))
    aborted = _aborted_components(resource)
    if highest is not None:
        aborted.append(_tc.TC_WRITEID <= highest)
    if fenced is None:
        connection.execute(delete(TXN_COMPONENTS).where(*aborted))
        return
    for batch in chunks(sorted(fenced)):
        connection.execute(delete(TXN_COMPONENTS).where(*aborted, _tc.TC_TXNID.in_(batch)))


def forget_aborted(connection: Connection, writes: AbortedWrites, txn_ids: Sequence[int]) -> int:
    """Delete the components of exactly these aborted txns, and the retry row; returns how many components that were."""
    conditions = _aborted_components(writes.resource)
    if writes.resource.partition is None:
        conditions.append(_tc.TC_PARTITION.is_(None))
    deleted = 0
    for batch in chunks(list(txn_ids)):
        deleted += connection.execute(delete(TXN_COMPONENTS).where(*conditions, _tc.TC_TXNID.in_(batch))).rowcount
    if writes.retry is not None:
        connection.execute(delete(COMPACTION_QUEUE).where(_cq.CQ_ID == writes.retry.id))
    return deleted


def note_abort_failure(connection: Connection, resource: Resource, error: str, pause_ms: int) -> None:
    """Remember that aborted writes could not be removed, in one row of type ABORT_TXN_CLEANUP per resource.

    CQ_COMMIT_TIME is the time of the first failure; later ones change only pause and error, as in Hive.
    """
    changed = connection.execute(
        update(COMPACTION_QUEUE)
        .where(same_resource(COMPACTION_QUEUE, "CQ", resource), _cq.CQ_TYPE == _CLEANUP)
        .values(CQ_RETRY_RETENTION=pause_ms, CQ_ERROR_MESSAGE=clean_text(error))
    )
    if changed.rowcount:
        return
    connection.execute(insert(COMPACTION_QUEUE).values(
        CQ_ID=next_request_id(connection), CQ_DATABASE=resource.database, CQ_TABLE=resource.table,
        CQ_PARTITION=resource.partition, CQ_STATE=CompactionState.READY_FOR_CLEANING.value, CQ_TYPE=_CLEANUP,
        CQ_ENQUEUE_TIME=clock_ms(), CQ_COMMIT_TIME=clock_ms(), CQ_RETRY_RETENTION=pause_ms,
        CQ_ERROR_MESSAGE=clean_text(error),
    ))  # fmt: skip


def insert_soft_deletes(
    connection: Connection, dropped: Sequence[tuple[Resource, str]], *, txn_id: int, highest_write_id: int, purge: bool
) -> range:
    """Leave directories that a txn drops to the Cleaner.

    :param dropped: tables or partitions, each with its directory.
    :param txn_id: a SOFT_DELETE txn; its commit fills in from when nobody can read them any more.
    :param highest_write_id: of the drop.
    :param purge: whether they go past the trash.
    :return: ids of the requests, in this order.
    """
    if not dropped:
        return range(0)
    ids = next_request_ids(connection, len(dropped))
    rows = [
        {
            "id": request_id, "db": resource.database, "tbl": resource.table, "part": resource.partition,
            "properties": format_properties({"location": location, **({"ifPurge": "true"} if purge else {})}),
            "txn_id": txn_id, "highest": highest_write_id,
        }
        for request_id, (resource, location) in zip(ids, dropped, strict=True)
    ]  # fmt: skip
    connection.execute(_INSERT_SOFT_DELETE, rows)
    return ids


def dropped_since(connection: Connection, table: TableName, write_id: int) -> set[str]:
    """Partitions that were dropped after an open txn had got its write id: what it writes there, nobody sees.

    The base without rows that a drop leaves hides all that has a lower write id, also when the partition is added
    again. The Cleaner waits for the txn, so the request is there as long as that is open; a compaction ends below it.
    """
    asked = {"db": table.database, "tbl": table.name, "write_id": write_id}
    return set(connection.execute(_HIDDEN_SINCE, asked).scalars())


def clean_again(connection: Connection, table: TableName, partition: str | None, highest: int, run_as: str) -> None:
    """Have a table or partition cleaned up once more after a compaction that is done with: a pin kept what it replaced.

    Nobody has to be waited for, which a row without txns says to our Cleaner and to Hive's.

    :param run_as: whose rights the compaction had; Hive's Cleaner stumbles over a row that does not say.
    """
    resource = Resource(table.database, table.name, partition)
    waiting = select(_cq.CQ_ID).where(
        same_resource(COMPACTION_QUEUE, "CQ", resource),
        _cq.CQ_STATE == CompactionState.READY_FOR_CLEANING.value,
        _cq.CQ_TYPE != _CLEANUP,
        _cq.CQ_HIGHEST_WRITE_ID >= highest,
    )
    if connection.execute(waiting.limit(1)).first() is not None:
        return
    connection.execute(insert(COMPACTION_QUEUE).values(
        CQ_ID=next_request_id(connection), CQ_DATABASE=resource.database, CQ_TABLE=resource.table,
        CQ_PARTITION=resource.partition, CQ_STATE=CompactionState.READY_FOR_CLEANING.value,
        CQ_TYPE=CompactionType.MAJOR.value, CQ_ENQUEUE_TIME=clock_ms(), CQ_RUN_AS=run_as,
        CQ_HIGHEST_WRITE_ID=highest,
    ))  # fmt: skip


def _aborted_components(resource: Resource) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = [
        _tc.TC_DATABASE == resource.database, _tc.TC_TABLE == resource.table, _tc.TC_TXNID.in_(_ABORTED)
    ]  # fmt: skip
    if resource.partition is not None:
        conditions.append(_tc.TC_PARTITION == resource.partition)
    return conditions
