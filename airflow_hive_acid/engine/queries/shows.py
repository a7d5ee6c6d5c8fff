"""SHOW LOCKS, TRANSACTIONS, COMPACTIONS and WAITS as rows, with the columns Hive prints; times are UTC.

SHOW LOCKS shows the locks of the manager that is configured, in the columns that Hive has for that one.
"""

from __future__ import annotations

import contextlib
import difflib
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_hive_acid.engine.outcomes.results import Rows
from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.format.partitions import parse_partition_name, partition_name
from airflow_hive_acid.metastore.compaction import (
    COMPACTION_ORDER,
    CompactionFilter,
    CompactionState,
    CompactionType,
    Order,
    compactions,
)
from airflow_hive_acid.metastore.database import LockType
from airflow_hive_acid.metastore.listing import LockFilter
from airflow_hive_acid.metastore.listing import locks as locks_shown
from airflow_hive_acid.metastore.listing import transactions as transactions_shown
from airflow_hive_acid.metastore.locks import legacy_lock_manager, read_wait_graph
from airflow_hive_acid.metastore.names import resolve
from airflow_hive_acid.settings_table import DB_TXN_MANAGER, DUMMY_TXN_MANAGER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow_hive_acid.metastore import MetastoreClient
    from airflow_hive_acid.metastore.compaction import Compaction
    from airflow_hive_acid.metastore.locks import LegacyLockRow, LockRow, PartyInfo, TxnRow, WaitEdge
    from airflow_hive_acid.settings import Settings
    from airflow_hive_acid.sql.model.alterations import Partition
    from airflow_hive_acid.sql.model.origins import TableName
    from airflow_hive_acid.sql.model.statements import Show

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamedRows:
    """Rows that are read while they are asked for; until the last one a transaction of the metastore stays open."""

    columns: tuple[Column, ...]
    rows: Iterator[list[Any]]


@dataclass(frozen=True, slots=True)
class ShowRequest:
    """What SHOW is asked for; None does not restrict.

    :param kind: ``locks``, ``transactions``, ``compactions`` or ``waits``.
    :param partition: its name, as Hive writes it (``day=1/hour=2``).
    :param type: of a compaction, as ``state`` in the words that SHOW COMPACTIONS prints, in lower case.
    :param order: columns in lower case, and whether each descends.
    :param limit: rows at most.
    :param extended: SHOW LOCKS EXTENDED, which with DummyTxnManager has more columns.
    """

    kind: str
    database: str | None = None
    table: str | None = None
    partition: str | None = None
    id: int | None = None
    pool: str | None = None
    type: str | None = None
    state: str | None = None
    order: tuple[tuple[str, bool], ...] = ()
    limit: int | None = None
    extended: bool = False


def show(client: MetastoreClient, statement: Show, settings: Settings | None = None) -> Rows:
    """Run a SHOW statement.

    :param settings: those in force; the client's by default.
    """
    table = statement.table
    request = ShowRequest(
        statement.kind.value,
        statement.database if table is None else table.database,
        None if table is None else table.name,
        partition_meant(client, table, statement.partition) if table is not None and statement.partition else None,
        statement.id,
        statement.pool,
        statement.type,
        statement.state,
        statement.order,
        statement.limit,
        statement.extended,
    )
    streamed = stream(client, request, settings)
    return Rows(streamed.columns, list(streamed.rows))


def partition_meant(client: MetastoreClient, table: TableName, clause: Partition) -> str:
    """The name of the partition, or of those, that a PARTITION clause means; it need not exist, nor its table."""
    given = partition_name(clause)
    return client.database.read(lambda connection: resolve(connection, str(table), given, by_name=False))


def stream(client: MetastoreClient, request: ShowRequest, settings: Settings | None = None) -> StreamedRows:
    """What SHOW prints, without loading all of it: filters, order and limit are the database's work.

    :param settings: those in force; the client's by default.
    :raises InvalidArgumentsError: for a type, a state or a column that is none; names the nearest one.
    """
    match request.kind:
        case "locks":
            in_force = settings or client.settings
            return _LOCKS_OF[in_force.string("hive.txn.manager")](client, request, in_force)
        case "transactions":
            return _streamed(_TRANSACTIONS, transactions_shown(client.database, limit=request.limit))
        case "waits":
            return _streamed(_WAITS, islice(_waits(client, request), request.limit))
    wanted = CompactionFilter(
        request.id,
        request.database,
        request.table,
        request.partition,
        None if request.type is None else _one_of(_TYPES, request.type, "type"),
        None if request.state is None else _one_of(_STATES, request.state, "status"),
        request.pool,
    )
    order = tuple(Order(_column_of(column), descends) for column, descends in request.order)
    return _streamed(_COMPACTIONS, compactions(client.database, wanted, order, request.limit))


def missing(client: MetastoreClient, database: str | None, table: str | None, partition: str | None = None) -> str:
    """What there is not of these, as a sentence; empty when all is there.

    Rows about something that is gone may be left, so a look is not refused; but no rows are no good news then.

    :param partition: a name that gives a value to every partition column; others are not looked for.
    """
    try:
        if table is None:
            if database is not None:
                client.catalog.get_database(database)
            return ""
        found = client.catalog.get_table(f"{database}.{table}")
    except NoSuchObjectError as error:
        return str(error)
    if partition is None or not found.is_partitioned:
        return ""
    name = client.database.read(lambda connection: resolve(connection, found.qualified_name, partition))
    if len(parse_partition_name(name)) < len(found.partition_columns):
        return ""
    if name in client.catalog.find_partitions(found.qualified_name, [name]):
        return ""
    return f"there is no partition {name} of {found.qualified_name}"


@dataclass(frozen=True, slots=True)
class _WaitRow:
    """One who waits, and one of those in its way."""

    edge: WaitEdge
    waiter: PartyInfo
    holder: PartyInfo
    blocks: int


def _waits(client: MetastoreClient, request: ShowRequest) -> Iterator[_WaitRow]:
    """Who waits for whom, first in line first; what follows from others is left out, as on the page."""
    graph, about = client.database.read(read_wait_graph)
    blocks = {node.party: node.blocks for node in graph.nodes}
    depth = {node.party: node.depth for node in graph.nodes}
    for edge in sorted(graph.edges, key=lambda e: (not e.in_cycle, depth[e.source], e.source, e.target)):
        database, _, rest = edge.place.partition(".")
        table = rest.partition("/")[0]
        if request.database not in (None, database) or request.table not in (None, table):
            continue
        yield _WaitRow(edge, about[edge.source], about[edge.target], blocks[edge.source])


def _hive4_locks(client: MetastoreClient, request: ShowRequest, _settings: Settings) -> StreamedRows:
    places = LockFilter(request.database, request.table, request.partition)
    return _streamed(_LOCKS, locks_shown(client.database, places, request.limit))


def _legacy_locks(client: MetastoreClient, request: ShowRequest, settings: Settings) -> StreamedRows:
    manager = legacy_lock_manager(client.database, settings)

    def rows() -> Iterator[LegacyLockRow]:
        with contextlib.closing(manager):
            yield from manager.stream_locks(request.database, request.table, request.partition, request.limit)

    return _streamed({**_LEGACY_LOCKS, **(_EXTENDED_LEGACY_LOCKS if request.extended else {})}, rows())


_LOCKS_OF: Mapping[str, Callable[[MetastoreClient, ShowRequest, Settings], StreamedRows]] = {
    DB_TXN_MANAGER: _hive4_locks,
    DUMMY_TXN_MANAGER: _legacy_locks,
}
"""By the transaction manager that is configured. Not a part of ``engine.locking``: that loads the SQL parser, which a
SHOW in a terminal would pay for."""


def _column_of(said: str) -> str:
    column = said.removeprefix("cq_").removeprefix("cc_")
    _one_of(COMPACTION_ORDER, column, "column")
    return column


def _one_of(known: Mapping[str, T], said: str, what: str) -> T:
    if said in known:
        return known[said]
    near = difflib.get_close_matches(said, list(known), 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    raise InvalidArgumentsError(f"{said!r} is no {what} of compactions; {hint}")


def _time(milliseconds: int | None) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).isoformat(sep=" ", timespec="milliseconds")[:-6]


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
_LEGACY_LOCKS: Mapping[str, Callable[[LegacyLockRow], Any]] = {
    "tab_name": lambda r: "@".join(part for part in (r.database, r.table, r.partition) if part),
    "mode": lambda r: "EXCLUSIVE" if r.type is LockType.EXCLUSIVE else "SHARED",
}
_EXTENDED_LEGACY_LOCKS: Mapping[str, Callable[[LegacyLockRow], Any]] = {
    "lock_queryid": lambda r: r.query_id,
    "lock_time": lambda r: str(r.acquired_at),
    "lock_mode": lambda _: "IMPLICIT",
    "lock_querystring": lambda r: r.query,
}
"""What Hive prints below each lock (LOCK_QUERYID:, LOCK_TIME: in milliseconds, …); nobody locks explicitly here."""
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
_WAITS: Mapping[str, Callable[[_WaitRow], Any]] = {
    "waiter": lambda r: str(r.edge.source),
    "waiter_info": lambda r: r.waiter.agent_info or r.waiter.user,
    "wants": lambda r: r.edge.place,
    "waits_for": lambda r: str(r.edge.target),
    "holder_info": lambda r: r.holder.agent_info or r.holder.user,
    "holder_since": lambda r: _time(r.holder.since),
    "blocks": lambda r: r.blocks,
    "deadlock": lambda r: "yes" if r.edge.in_cycle else None,
}
"""All ours: Hive has no such statement. ``blocks``: how many wait for the waiter in turn."""
_TYPES = {kind.name.lower(): kind for kind in CompactionType}
_STATES = {state.text: state for state in CompactionState}
_NUMBERS = {"transaction_id", "compactionid", "txnid", "duration", "nexttxnid", "highestwriteid", "blocks"}


def _streamed(columns: Mapping[str, Callable[[Any], Any]], found: Iterator[Any]) -> StreamedRows:
    types = tuple(Column(name, "bigint" if name in _NUMBERS else "string") for name in columns)
    return StreamedRows(types, ([value(row) for value in columns.values()] for row in found))
