"""SHOW LOCKS, TRANSACTIONS and COMPACTIONS as rows, with the columns Hive prints; times are UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.engine.results import Rows
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import partition_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction_queue_model import Compaction
    from airflow_hive_acid.metastore.locks.interface import LockRow
    from airflow_hive_acid.metastore.locks.listing import TxnRow
    from airflow_hive_acid.sql.statements import Show


def show(client: MetastoreClient, statement: Show) -> Rows:
    """Run a SHOW statement."""
    if statement.kind.value != "locks" or statement.table is None:
        return show_rows(client, statement.kind.value)
    partition = partition_name(statement.partition) if statement.partition else None
    return _rows(_LOCKS, client.show_locks(str(statement.table), partition))


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


def _time(milliseconds: int | None) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")[:-6]


def _lower(value: Any) -> str:
    return str(value.name).lower()


def _duration(request: Compaction) -> int | None:
    return None if request.start is None or request.end is None else request.end - request.start


_LOCKS: Mapping[str, Callable[[LockRow], Any]] = {
    "lock_id": lambda r: r.id,
    "database": lambda r: r.database,
    "table": lambda r: r.table,
    "partition": lambda r: r.partition,
    "state": lambda r: _lower(r.state),
    "blocked_by": lambda r: r.blocked_by,
    "type": lambda r: _lower(r.type),
    "transaction_id": lambda r: r.txn_id or None,
    "last_heartbeat": lambda r: _time(r.last_heartbeat),
    "acquired_at": lambda r: _time(r.acquired_at),
    "user": lambda r: r.user,
    "hostname": lambda r: r.host,
    "agent_info": lambda r: r.agent_info,
}
_TRANSACTIONS: Mapping[str, Callable[[TxnRow], Any]] = {
    "transaction_id": lambda r: r.txn_id,
    "state": lambda r: _lower(r.state),
    "type": lambda r: _lower(r.type),
    "started": lambda r: _time(r.started),
    "last_heartbeat": lambda r: _time(r.last_heartbeat),
    "user": lambda r: r.user,
    "hostname": lambda r: r.host,
    "agent_info": lambda r: r.agent_info,
    "abort_reason": lambda r: r.abort_reason,
}
_COMPACTIONS: Mapping[str, Callable[[Compaction], Any]] = {
    "compaction_id": lambda r: r.id,
    "database": lambda r: r.resource.database,
    "table": lambda r: r.resource.table,
    "partition": lambda r: r.resource.partition,
    "type": lambda r: _lower(r.type),
    "state": lambda r: r.state.text,
    "worker": lambda r: r.worker_id,
    "enqueued": lambda r: _time(r.enqueue_time),
    "started": lambda r: _time(r.start),
    "duration_ms": _duration,
    "job_id": lambda r: r.job_id,
    "error": lambda r: r.error,
    "initiator": lambda r: r.initiator_id,
    "pool": lambda r: r.pool,
    "transaction_id": lambda r: r.txn_id,
    "next_transaction_id": lambda r: r.next_txn_id,
    "commit_time": lambda r: _time(r.commit_time),
    "highest_write_id": lambda r: r.highest_write_id,
}
_NUMBERS = {
    "transaction_id", "compaction_id", "duration_ms", "next_transaction_id", "highest_write_id",
}  # fmt: skip


def _rows(columns: Mapping[str, Callable[[Any], Any]], found: Iterable[Any]) -> Rows:
    types = tuple(Column(name, "bigint" if name in _NUMBERS else "string") for name in columns)
    return Rows(types, [[value(row) for value in columns.values()] for row in found])
