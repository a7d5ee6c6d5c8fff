"""Rows of COMPACTION_QUEUE and COMPLETED_COMPACTIONS: reading them as values, moving one from queue to history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, bindparam, delete, insert, literal, or_, select, update

from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.metastore.compaction.model import (
    Compaction,
    CompactionState,
    CompactionType,
    Resource,
    parse_properties,
)
from airflow_hive_acid.metastore.database.clock import clock_ms
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    NEXT_COMPACTION_QUEUE_ID,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import ColumnElement, Connection, Table

#: Columns that both tables have, without prefix.
SHARED = tuple(
    name.removeprefix("CC_")
    for name in COMPLETED_COMPACTIONS.c.keys()  # noqa: SIM118 - a column collection is no dict
    if f"CQ_{name.removeprefix('CC_')}" in COMPACTION_QUEUE.c
)
_MOVED = tuple(name for name in SHARED if name not in ("STATE", "ERROR_MESSAGE"))

QUEUE = select(COMPACTION_QUEUE)
HISTORY = select(COMPLETED_COMPACTIONS)
_LOCK_ROW = QUEUE.where(COMPACTION_QUEUE.c.CQ_ID == bindparam("id")).with_for_update()
_DELETE_ROW = delete(COMPACTION_QUEUE).where(COMPACTION_QUEUE.c.CQ_ID == bindparam("id"))
_LOCK_NEXT_ID = select(NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT).with_for_update()
_ADVANCE_NEXT_ID = (
    update(NEXT_COMPACTION_QUEUE_ID)
    .where(NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT == bindparam("id"))
    .values(NCQ_NEXT=bindparam("id_after"))
)
_MOVE = insert(COMPLETED_COMPACTIONS).from_select(
    [*(f"CC_{name}" for name in _MOVED), "CC_STATE", "CC_ERROR_MESSAGE", "CC_END"],
    select(
        *(COMPACTION_QUEUE.c[f"CQ_{name}"] for name in _MOVED),
        bindparam("state", type_=COMPLETED_COMPACTIONS.c.CC_STATE.type),
        bindparam("error", type_=COMPLETED_COMPACTIONS.c.CC_ERROR_MESSAGE.type),
        clock_ms(),
    ).where(COMPACTION_QUEUE.c.CQ_ID == bindparam("id")),
)


def same_partition(one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether two columns name the same partition, or both none: a table without partitions."""
    return or_(one == other, and_(one.is_(None), other.is_(None)))


def compaction(row: Mapping[Any, Any], prefix: str) -> Compaction:
    """A row of one of the two tables.

    :param prefix: ``CQ`` or ``CC``.
    """

    def field(name: str) -> Any:
        return row.get(f"{prefix}_{name}")

    return Compaction(
        id=int(field("ID")),
        resource=Resource(field("DATABASE"), field("TABLE"), field("PARTITION")),
        type=CompactionType(field("TYPE")),
        state=CompactionState(field("STATE")),
        queued=prefix == "CQ",
        properties=_properties(field("TBLPROPERTIES")),
        worker_id=field("WORKER_ID"),
        worker_version=field("WORKER_VERSION"),
        enqueue_time=field("ENQUEUE_TIME"),
        start=field("START"),
        end=field("END"),
        run_as=field("RUN_AS"),
        highest_write_id=field("HIGHEST_WRITE_ID"),
        job_id=field("HADOOP_JOB_ID"),
        error=field("ERROR_MESSAGE"),
        txn_id=field("TXN_ID"),
        next_txn_id=field("NEXT_TXN_ID"),
        commit_time=field("COMMIT_TIME"),
        initiator_id=field("INITIATOR_ID"),
        initiator_version=field("INITIATOR_VERSION"),
        cleaner_start=field("CLEANER_START"),
        retry_retention=field("RETRY_RETENTION") or 0,
        pool=field("POOL_NAME"),
        number_of_buckets=field("NUMBER_OF_BUCKETS"),
        order_by=field("ORDER_BY"),
    )


def same_resource(table: Table, prefix: str, resource: Resource) -> ColumnElement[bool]:
    """The rows of exactly this resource; a NULL partition equals only NULL."""
    partition = table.c[f"{prefix}_PARTITION"]
    return and_(
        table.c[f"{prefix}_DATABASE"] == resource.database,
        table.c[f"{prefix}_TABLE"] == resource.table,
        partition.is_(None) if resource.partition is None else partition == resource.partition,
    )


def lock_request(connection: Connection, request_id: int) -> Compaction | None:
    """A queued request, its row locked until the transaction ends."""
    row = connection.execute(_LOCK_ROW, {"id": request_id}).mappings().first()
    return None if row is None else compaction(row, "CQ")


def next_request_id(connection: Connection) -> int:
    """A new id from NEXT_COMPACTION_QUEUE_ID; its row stays locked until the transaction ends."""
    return next_request_ids(connection, 1)[0]


def next_request_ids(connection: Connection, number: int) -> range:
    """Several new ids, ascending."""
    first = int(connection.execute(_LOCK_NEXT_ID).scalar_one())
    connection.execute(_ADVANCE_NEXT_ID, {"id": first, "id_after": first + number})
    return range(first, first + number)


def move_to_history(connection: Connection, request: Compaction, state: CompactionState, error: str | None) -> None:
    """Finish a queued request whose row is locked."""
    connection.execute(_MOVE, {"id": request.id, "state": state.value, "error": clean_text(error or request.error)})
    connection.execute(_DELETE_ROW, {"id": request.id})


def insert_history(
    connection: Connection, resource: Resource, kind: CompactionType, state: CompactionState, error: str | None
) -> int:
    """Write a history row for something that never was in the queue."""
    request_id = next_request_id(connection)
    connection.execute(insert(COMPLETED_COMPACTIONS).values(
        CC_ID=request_id, CC_DATABASE=resource.database, CC_TABLE=resource.table, CC_PARTITION=resource.partition,
        CC_STATE=state.value, CC_TYPE=kind.value, CC_ENQUEUE_TIME=clock_ms(), CC_START=clock_ms(), CC_END=clock_ms(),
        CC_ERROR_MESSAGE=literal(clean_text(error), COMPLETED_COMPACTIONS.c.CC_ERROR_MESSAGE.type),
    ))  # fmt: skip
    return request_id


def clean_text(text: str | None) -> str | None:
    """An error text as databases take it: without NUL, and not longer than anybody reads."""
    return None if text is None else text.replace("\0", " ")[:10_000]


def _properties(text: str | None) -> dict[str, str]:
    try:
        return parse_properties(text)
    except InvalidArgumentsError:
        # A foreign row we cannot read must not stop the others; what acts on properties asks for them again.
        return {}
