"""Asking for compactions: what is put into the queue, and what is in the way of it (Hive's TxnHandler.compact).

Several requests go into the queue in one transaction, so that an Initiator that finds a thousand tables does not pay a
thousand commits. The caller holds Hive's mutex ``CompactionScheduler``; R3: what is in the way is read after that.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, insert, tuple_

from airflow_hive_acid import __version__
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.ordering import order_text, read_order
from airflow_hive_acid.metastore.compaction.model import (
    Compaction,
    CompactionState,
    CompactionType,
    EnqueueResult,
    Resource,
    format_properties,
)
from airflow_hive_acid.metastore.compaction.rows import QUEUE, compaction, next_request_ids
from airflow_hive_acid.metastore.database.backend import backend_of
from airflow_hive_acid.metastore.database.clock import now_ms
from airflow_hive_acid.metastore.database.database import chunks
from airflow_hive_acid.metastore.names.objects import free_text, info
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE
from airflow_hive_acid.metastore.setup.abilities import require, require_hive_4
from airflow_hive_acid.metastore.txns.snapshots import take_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from airflow_hive_acid.metastore.names.objects import TableName
    from airflow_hive_acid.metastore.schema.layouts import Layout

VERSION = f"airflow-hive-acid {__version__}"
_TABLES = 300
"""Tables asked about in one statement."""
_ASK_FOR_MAJOR = (
    "a Hive 3.1 repeats delete events of a table without buckets in each bucket of the result, and cannot read it "
    "('Two readers for …'). Ask for a major one"
)
_ACTIVE = (CompactionState.INITIATED, CompactionState.WORKING)
_cq = COMPACTION_QUEUE.c
_OF_TABLES = QUEUE.where(
    tuple_(_cq.CQ_DATABASE, _cq.CQ_TABLE).in_(bindparam("tables", expanding=True)),
    _cq.CQ_TYPE != CompactionType.ABORT_TXN_CLEANUP.value,
).order_by(_cq.CQ_ID)
_INSERT = insert(COMPACTION_QUEUE)


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """What somebody asks for.

    :param properties: ``compactor.*``, ``compactorthreshold.*`` and ``tblprops.*`` of the request.
    :param initiator_id: who asks; by default this host, by hand.
    :param number_of_buckets: of a rebalance.
    :param order_by: of a rebalance: the text from ORDER BY on.
    """

    resource: Resource
    type: CompactionType = CompactionType.MAJOR
    run_as: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    initiator_id: str | None = None
    initiator_version: str = VERSION
    pool: str | None = None
    number_of_buckets: int | None = None
    order_by: str | None = None

    def row(self) -> dict[str, Any]:
        """Its row of COMPACTION_QUEUE, without id and time.

        :raises InvalidArgumentsError: for what the queue cannot hold.
        """
        if self.type is CompactionType.ABORT_TXN_CLEANUP:
            raise InvalidArgumentsError("clean-up after aborted txns is not requested: the Cleaner finds it by itself")
        return {
            "CQ_DATABASE": self.resource.database, "CQ_TABLE": self.resource.table,
            "CQ_PARTITION": self.resource.partition, "CQ_STATE": CompactionState.INITIATED.value,
            "CQ_TYPE": self.type.value, "CQ_TBLPROPERTIES": format_properties(self.properties),
            "CQ_RUN_AS": info(self.run_as) or None,
            "CQ_INITIATOR_ID": info(self.initiator_id or f"{socket.gethostname()}-manual"),
            "CQ_INITIATOR_VERSION": info(self.initiator_version),
            "CQ_POOL_NAME": None if self.pool is None else free_text(self.pool, "name of the compaction pool", 128),
            "CQ_NUMBER_OF_BUCKETS": self.number_of_buckets,
            "CQ_ORDER_BY": None if self.order_by is None else order_text(read_order(self.order_by)),
        }  # fmt: skip


def enqueue(connection: Connection, requests: Sequence[CompactionRequest], gap_timeout_ms: int) -> list[EnqueueResult]:
    """Put requests into the queue, in their order; one that would do nothing new is not accepted.

    :return: an answer for each.
    """
    rows = [request.row() for request in requests]
    for request in requests:
        _require_columns(backend_of(connection).layout, request)
    in_the_way = _in_the_way(connection, [request.resource for request in requests], gap_timeout_ms)
    new = sum(request.resource not in in_the_way for request in requests)
    ids = iter(next_request_ids(connection, new)) if new else iter(())
    now = now_ms(connection)
    answers, accepted = [], []
    for request, row in zip(requests, rows, strict=True):
        existing = in_the_way.get(request.resource)
        if existing is not None:
            answers.append(_refused(existing))
            continue
        request_id = next(ids)
        accepted.append({**row, "CQ_ID": request_id, "CQ_ENQUEUE_TIME": now})
        answers.append(EnqueueResult(request_id, CompactionState.INITIATED, True))
        # The same twice in one call: the second meets the first.
        in_the_way[request.resource] = Compaction(
            request_id, request.resource, request.type, CompactionState.INITIATED, queued=True
        )
    if accepted:
        connection.execute(_INSERT, accepted)
    return answers


def _require_columns(layout: Layout, request: CompactionRequest) -> None:
    """Refuse what this metastore's queue has no place for: its Hive would do something else."""
    if request.type is CompactionType.MINOR:
        require_hive_4(layout, f"a minor compaction of {request.resource}", _ASK_FOR_MAJOR)
    if request.type is CompactionType.REBALANCE:
        require(layout, "COMPACTION_QUEUE", "CQ_NUMBER_OF_BUCKETS", f"a rebalance of {request.resource}")
    if request.pool is not None:
        require(layout, "COMPACTION_QUEUE", "CQ_POOL_NAME", f"the compaction pool {request.pool!r}")


def _refused(existing: Compaction) -> EnqueueResult:
    message = f"Compaction is already scheduled with state='{existing.state.text}' and id={existing.id}"
    return EnqueueResult(existing.id, existing.state, False, message)


def _in_the_way(
    connection: Connection, resources: Sequence[Resource], gap_timeout_ms: int
) -> dict[Resource, Compaction]:
    """Requests that make others pointless: those on their way, and those that reach as far as one would now."""
    found: dict[Resource, Compaction] = {}
    waiting: dict[Resource, list[Compaction]] = {}
    wanted = set(resources)
    for tables in chunks(sorted({resource.table_name for resource in resources}), _TABLES):
        rows = connection.execute(_OF_TABLES, {"tables": [tuple(table) for table in tables]}).mappings()
        for request in (compaction(row, "CQ") for row in rows):
            if request.resource not in wanted:
                continue
            if request.state in _ACTIVE:
                found.setdefault(request.resource, request)
            elif request.soft_deleted_location is None and request.highest_write_id is not None:
                waiting.setdefault(request.resource, []).append(request)
    undecided = {resource: requests for resource, requests in waiting.items() if resource not in found}
    marks = _compactor_marks(connection, {resource.table_name for resource in undecided}, gap_timeout_ms)
    for resource, requests in undecided.items():
        same = next((r for r in requests if r.highest_write_id == marks[resource.table_name]), None)
        if same is not None:
            found[resource] = same
    return found


def _compactor_marks(connection: Connection, tables: set[TableName], gap_timeout_ms: int) -> dict[TableName, int]:
    """How far a compaction that begins now would reach, by table."""
    if not tables:
        return {}
    lists = take_snapshot(connection, sorted(tables), 0, gap_timeout_ms).write_ids
    return {table: lists[table].for_compactor().high_watermark for table in tables}
