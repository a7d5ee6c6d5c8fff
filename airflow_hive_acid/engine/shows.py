"""SHOW LOCKS, TRANSACTIONS and COMPACTIONS as rows, with the columns Hive prints; times are UTC."""

from __future__ import annotations

import difflib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_hive_acid.engine.results import Rows
from airflow_hive_acid.errors import InvalidArgumentsError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import partition_name
from airflow_hive_acid.metastore.compaction_queue_model import CompactionState, CompactionType
from airflow_hive_acid.sql.statements import ShowKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction_queue_model import Compaction
    from airflow_hive_acid.metastore.locks.interface import LockRow
    from airflow_hive_acid.metastore.locks.listing import TxnRow
    from airflow_hive_acid.sql.statements import Show

T = TypeVar("T")


def show(client: MetastoreClient, statement: Show) -> Rows:
    """Run a SHOW statement."""
    if statement.kind is ShowKind.COMPACTIONS:
        return _rows(_COMPACTIONS, _compactions(client, statement))
    if statement.kind is ShowKind.TRANSACTIONS or (statement.table is None and statement.database is None):
        return show_rows(client, statement.kind.value)
    partition = partition_name(statement.partition) if statement.partition else None
    table = None if statement.table is None else str(statement.table)
    return _rows(_LOCKS, client.show_locks(table, partition, database=statement.database))


def show_rows(client: MetastoreClient, kind: str) -> Rows:
    """All that SHOW prints.

    :param kind: ``locks``, ``transactions`` or ``compactions``.
    """
    match kind:
        case "locks":
            return _rows(_LOCKS, client.show_locks())
        case "transactions":
            return _rows(_TRANSACTIONS, client.show_transactions())
        case _:
            return _rows(_COMPACTIONS, client.compactions.show())


def _compactions(client: MetastoreClient, statement: Show) -> list[Compaction]:
    """The requests that the filters leave, newest first unless ORDER BY says otherwise."""
    if statement.id is not None:
        return [request for request in client.compactions.show() if request.id == statement.id]
    found = client.compactions.show(
        database=statement.database if statement.table is None else statement.table.database,
        table=None if statement.table is None else statement.table.name,
        partition=partition_name(statement.partition) if statement.partition else None,
        type=None if statement.type is None else _one_of(_TYPES, statement.type, "type"),
        state=None if statement.state is None else _one_of(_STATES, statement.state, "status"),
        pool=statement.pool,
        limit=None if statement.order else statement.limit,
    )
    for column, descends in reversed(statement.order):
        key = _one_of(_ORDER, column.removeprefix("cq_").removeprefix("cc_"), "column")
        found.sort(key=lambda request, key=key: _comparable(key(request)), reverse=descends)  # type: ignore[misc]
    return found if statement.limit is None else found[: statement.limit]


def _one_of(known: Mapping[str, T], said: str, what: str) -> T:
    if said in known:
        return known[said]
    near = difflib.get_close_matches(said, list(known), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    raise InvalidArgumentsError(f"{said!r} is no {what} of compactions; {hint}")


def _comparable(value: Any) -> tuple[bool, Any]:
    """NULL comes first, as in Hive."""
    return value is not None, value if value is not None else 0


def _time(milliseconds: int | None) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:-6]


def _host(worker: str | None) -> str | None:
    """Ids of workers and initiators begin with their host, as in Hive."""
    return None if worker is None else worker.rsplit("-", 1)[0]


def _duration(request: Compaction) -> int | None:
    return None if request.start is None or request.end is None else request.end - request.start


_LOCKS: Mapping[str, Callable[[LockRow], Any]] = {
    "lockid": lambda r: r.id,
    "database": lambda r: r.database,
    "table": lambda r: r.table,
    "partition": lambda r: r.partition,
    "lock_state": lambda r: r.state.name,
    "blocked_by": lambda r: r.blocked_by,
    "lock_type": lambda r: r.type.name,
    "transaction_id": lambda r: r.txn_id or None,
    "last_heartbeat": lambda r: _time(r.last_heartbeat),
    "acquired_at": lambda r: _time(r.acquired_at),
    "user": lambda r: r.user,
    "hostname": lambda r: r.host,
    "agent_info": lambda r: r.agent_info,
}
"""Hive's columns, and its words: ACQUIRED, SHARED_READ."""
_TRANSACTIONS: Mapping[str, Callable[[TxnRow], Any]] = {
    "txnid": lambda r: r.txn_id,
    "state": lambda r: r.state.name,
    "startedtime": lambda r: _time(r.started),
    "lastheartbeattime": lambda r: _time(r.last_heartbeat),
    "user": lambda r: r.user,
    "host": lambda r: r.host,
    "type": lambda r: r.type.name,
    "agent_info": lambda r: r.agent_info,
    "abort_reason": lambda r: r.abort_reason,
}
"""Hive's columns; the last three are ours."""
_COMPACTIONS: Mapping[str, Callable[[Compaction], Any]] = {
    "compactionid": lambda r: r.id,
    "dbname": lambda r: r.resource.database,
    "tabname": lambda r: r.resource.table,
    "partname": lambda r: r.resource.partition,
    "type": lambda r: r.type.name,
    "state": lambda r: r.state.text,
    "workerhost": lambda r: _host(r.worker_id),
    "workerid": lambda r: r.worker_id,
    "enqueuetime": lambda r: _time(r.enqueue_time),
    "starttime": lambda r: _time(r.start),
    "duration": _duration,
    "hadoopjobid": lambda r: r.job_id,
    "errormessage": lambda r: r.error,
    "initiatorhost": lambda r: _host(r.initiator_id),
    "initiatorid": lambda r: r.initiator_id,
    "poolname": lambda r: r.pool_name,
    "txnid": lambda r: r.txn_id,
    "nexttxnid": lambda r: r.next_txn_id,
    "committime": lambda r: _time(r.commit_time),
    "highestwriteid": lambda r: r.highest_write_id,
}
_TYPES = {kind.name.lower(): kind for kind in CompactionType}
_STATES = {state.text: state for state in CompactionState}
_ORDER: Mapping[str, Callable[[Compaction], Any]] = {
    **_COMPACTIONS,
    "id": lambda r: r.id,
    "database": lambda r: r.resource.database,
    "table": lambda r: r.resource.table,
    "partition": lambda r: r.resource.partition,
    "worker_id": lambda r: r.worker_id,
    "enqueue_time": lambda r: r.enqueue_time,
    "start": lambda r: r.start,
    "commit_time": lambda r: r.commit_time,
    "pool_name": lambda r: r.pool_name,
    "highest_write_id": lambda r: r.highest_write_id,
    "error_message": lambda r: r.error,
}
"""What ORDER BY may name: the columns shown, and Hive's names of them in its tables without ``cq_``."""
_NUMBERS = {"transaction_id", "compactionid", "txnid", "duration", "nexttxnid", "highestwriteid"}


def _rows(columns: Mapping[str, Callable[[Any], Any]], found: Iterable[Any]) -> Rows:
    types = tuple(Column(name, "bigint" if name in _NUMBERS else "string") for name in columns)
    return Rows(types, [[value(row) for value in columns.values()] for row in found])
