"""The routes that read txns, locks, compactions and leases."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request

from airflow_hive_acid import __version__
from airflow_hive_acid.errors import HiveAcidError, NoSuchObjectError, NoSuchTxnError
from airflow_hive_acid.maintenance.measures.health import findings
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.compaction import (
    Compaction,
    CompactionState,
    CompactionType,
    read_decisions_of_requests,
)
from airflow_hive_acid.metastore.database import LockState, LockType, TxnState, now_ms, safe_url
from airflow_hive_acid.metastore.leases import LeaseType
from airflow_hive_acid.metastore.listing import (
    DAY_MS,
    HOUR_MS,
    CompactionsWanted,
    LeasesWanted,
    LocksWanted,
    Page,
    Slice,
    TxnsWanted,
    compactions_page,
    components_of,
    drops_page,
    find_compaction,
    find_txn,
    leases_page,
    legacy_locks_page,
    locks_page,
    oldest_to_clean,
    queue_counts,
    txns_page,
    waiters_page,
)
from airflow_hive_acid.metastore.listing import durations as durations_of_compactions
from airflow_hive_acid.metastore.locks import Party, read_wait_graph
from airflow_hive_acid.plugins import cursors, models, server_database, shaping
from airflow_hive_acid.plugins.access import Reader, may_act, may_read, reader
from airflow_hive_acid.plugins.metastores import default_connection, read_metastore
from airflow_hive_acid.plugins.routes.parameters import Client, ConnId, Cursor, FilterId, Limit, RowId, Text
from airflow_hive_acid.settings_table import DUMMY_TXN_MANAGER

STATES = Literal[
    "initiated", "working", "ready for cleaning", "failed", "succeeded", "did not initiate", "refused", "aborted"
]
TYPES = Literal["major", "minor", "rebalance", "abort_txn_cleanup"]
_SHOWN, _FEW = 200, 10

router = APIRouter(prefix="/connections", dependencies=[Depends(reader)], responses=models.RESPONSES)


def compactions_of(connection: Any, client: MetastoreClient, found: list[Compaction]) -> list[models.Compaction]:
    """Compactions with why they were asked for."""
    decided = {}
    if client.database.features(connection).decisions:
        decided = read_decisions_of_requests(connection, [one.id for one in found])
    return [shaping.compaction(one, decided.get(one.id)) for one in found]


@router.get("", tags=["connections"])
def connections(user: Reader) -> models.Connections:
    """The metastores that there are connections to, of other teams excepted. None of them is asked for anything."""
    default = default_connection()
    there = (conn_id for conn_id in server_database.connection_ids(default) if may_read(user, conn_id))
    found = [_connection(conn_id, default, user) for conn_id in there]
    return models.Connections(items=found, user=str(user.get_name()), version=__version__)


def _connection(conn_id: str, default: str, user: Any) -> models.Connection:
    url = warehouse = error = None
    try:
        read = read_metastore(conn_id)
        url, warehouse = read.metastore_url.set(query={}), shaping.public_uri(read.warehouse)
    except HiveAcidError as problem:
        error = str(problem)
    return models.Connection(
        conn_id=conn_id,
        metastore=None if url is None else safe_url(url),
        dialect=None if url is None else url.get_backend_name(),
        warehouse=warehouse,
        default=conn_id == default,
        can_act=may_act(user, conn_id),
        error=error,
    )


@router.get("/{conn_id}/overview", tags=["overview"])
def overview(request: Request, client: Client, conn_id: ConnId) -> models.Overview:
    """What one looks at first: metrics with advice (counted every three seconds), and the rows that they are about."""
    readings = request.app.state.metastores.readings(conn_id, client)

    def read(connection: Any) -> models.Overview:
        few, features = Slice(_FEW), client.database.features(connection)
        oldest = txns_page(connection, TxnsWanted((TxnState.OPEN,)), Slice(1)).items
        waiting = locks_page(connection, LocksWanted(LockState.WAITING), few).items
        failed = CompactionsWanted(state=CompactionState.FAILED)
        failures = compactions_of(connection, client, list(compactions_page(connection, failed, few).items))
        leases = leases_page(connection, LeasesWanted(), few).items if features.leases else ()
        ready = oldest_to_clean(connection)
        return models.Overview(
            now=now_ms(connection),
            readings=[shaping.reading(one) for one in readings],
            findings=[shaping.reading(one) for one in findings(readings)],
            oldest_txn=shaping.txn(oldest[0]) if oldest else None,
            waiting_locks=[shaping.lock(one) for one in waiting],
            failures=failures,
            queue=[shaping.queue_count(one) for one in queue_counts(connection)],
            oldest_cleaning=None if ready is None else shaping.compaction(ready),
            leases=[shaping.lease(one) for one in leases],
        )

    return client.database.read(read)


# --- txns -----------------------------------------------------------------------------------------------------------


@router.get("/{conn_id}/transactions", tags=["transactions"])
def transactions(
    client: Client,
    state: Annotated[list[Literal["open", "aborted", "committed"]] | None, Query(max_length=3)] = None,
    user: Text = None,
    dag_id: Text = None,
    database: Text = None,
    table: Text = None,
    min_age: Annotated[int | None, Query(ge=0, le=10**9, description="Seconds since it was opened.")] = None,
    order: Literal["oldest", "newest"] = "oldest",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> models.Page[models.Txn]:
    """Txns: open and aborted ones, unless states are named."""
    wanted = TxnsWanted(
        tuple(TxnState[one.upper()] for one in state or ("open", "aborted")),
        user, dag_id, database, table, None if min_age is None else min_age * 1000,
    )  # fmt: skip
    part = Slice(limit, cursors.decode(cursor, int))
    page = client.database.read(lambda connection: txns_page(connection, wanted, part, newest_first=order == "newest"))
    return _page(page, [shaping.txn(one) for one in page.items])


@router.get("/{conn_id}/transactions/{txn_id}", tags=["transactions"])
def transaction(client: Client, txn_id: RowId) -> models.TxnDetail:
    """A txn with what it holds, writes, runs and waits for."""

    def read(connection: Any) -> models.TxnDetail:
        txn = find_txn(connection, txn_id)
        if txn is None:
            raise NoSuchTxnError(f"txn {txn_id} is not there: never opened, or ended and forgotten since")
        locks = locks_page(connection, LocksWanted(txn_id=txn_id), Slice(_SHOWN)).items
        near = read_wait_graph(connection)[0].edges
        ahead = [edge for edge in near if edge.source == Party(txn_id)]
        behind = [edge for edge in near if edge.target == Party(txn_id)]
        said = "; ".join(f"{edge.place} behind {edge.target}" for edge in ahead[:3])
        more = f" and {len(ahead) - 3} more" if len(ahead) > 3 else ""
        return models.TxnDetail(
            now=now_ms(connection),
            txn=shaping.txn(txn),
            locks=[shaping.lock(one) for one in locks],
            components=[shaping.component(one) for one in components_of(connection, txn_id, _SHOWN)],
            jobs=[],
            waits_for=[shaping.edge(one) for one in ahead],
            waited_by=[shaping.edge(one) for one in behind],
            sentence=f"txn {txn_id} waits for {said}{more}" if ahead else None,
        )

    detail = client.database.read(read)
    if client.database.read(lambda connection: client.database.features(connection).extensions):
        detail.jobs = [shaping.job(one) for one in client.jobs.of_txn(txn_id)]
    return detail


# --- locks ----------------------------------------------------------------------------------------------------------


@router.get("/{conn_id}/locks", tags=["locks"])
def locks(
    client: Client,
    state: Literal["acquired", "waiting"] | None = None,
    type: Literal["shared_read", "shared_write", "excl_write", "exclusive"] | None = None,
    database: Text = None,
    table: Text = None,
    partition: Text = None,
    txn_id: FilterId = None,
    lock_id: FilterId = None,
    user: Text = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> models.Page[models.Lock]:
    """Locks, in the order in which they were asked for; with DummyTxnManager those of the Hive Concurrency Model."""
    wanted = LocksWanted(
        None if state is None else LockState[state.upper()],
        None if type is None else LockType[type.upper()],
        database, table, partition, txn_id, lock_id, user,
    )  # fmt: skip
    part = Slice(limit, cursors.decode(cursor, int, int))
    if client.settings.string("hive.txn.manager") == DUMMY_TXN_MANAGER:
        legacy = legacy_locks_page(client.database, client.settings, wanted, part)
        return _page(legacy, [shaping.lock(one) for one in legacy.items])
    page = client.database.read(lambda connection: locks_page(connection, wanted, part))
    return _page(page, [shaping.lock(one) for one in page.items])


@router.get("/{conn_id}/locks/graph", tags=["locks"])
def lock_graph(
    client: Client,
    database: Text = None,
    table: Text = None,
    limit: Annotated[int, Query(ge=1, le=2000, description="Nodes at most.")] = 500,
) -> models.Graph:
    """Who waits for whom: of everything, or of what has to do with a database or table."""

    def read(connection: Any) -> models.Graph:
        graph, about = read_wait_graph(connection)
        if database is not None:
            name = (database if table is None else f"{database}.{table}").lower()
            below = f"{name}." if table is None else f"{name}/"
            near = [edge for edge in graph.edges if edge.place == name or edge.place.startswith(below)]
            graph = graph.around({party for edge in near for party in (edge.source, edge.target)})
        return shaping.graph(graph, graph.first(limit), about, now_ms(connection))

    return client.database.read(read)


# --- compactions ----------------------------------------------------------------------------------------------------


@router.get("/{conn_id}/compactions", tags=["compactions"])
def compactions(
    client: Client,
    state: STATES | None = None,
    type: TYPES | None = None,
    database: Text = None,
    table: Text = None,
    partition: Text = None,
    pool: Text = None,
    queued: bool | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> models.Page[models.Compaction]:
    """Compactions in the queue and in the history, the newest request first."""
    wanted = CompactionsWanted(
        database=database,
        table=table,
        partition=partition,
        type=None if type is None else CompactionType[type.upper()],
        state=None if state is None else CompactionState[state.upper().replace(" ", "_")],
        pool=pool,
        queued=queued,
    )
    part = Slice(limit, cursors.decode(cursor, int))

    def read(connection: Any) -> models.Page[models.Compaction]:
        page = compactions_page(connection, wanted, part)
        return _page(page, compactions_of(connection, client, list(page.items)))

    return client.database.read(read)


@router.get("/{conn_id}/compactions/durations", tags=["compactions"])
def compaction_durations(
    client: Client,
    hours: Annotated[int, Query(ge=1, le=720)] = 168,
    database: Text = None,
    table: Text = None,
) -> models.Durations:
    """How long compactions took: by hour for two days, else by day."""
    bucket = HOUR_MS if hours <= 48 else DAY_MS

    def read(connection: Any) -> models.Durations:
        now = now_ms(connection)
        found = durations_of_compactions(connection, now - hours * HOUR_MS, bucket, database, table)
        return models.Durations(items=[shaping.duration(one) for one in found], now=now)

    return client.database.read(read)


@router.get("/{conn_id}/compactions/{compaction_id}", tags=["compactions"])
def compaction(client: Client, compaction_id: RowId) -> models.CompactionDetail:
    """A compaction with why it was asked for, and what was cleaned up after it."""

    def read(connection: Any) -> tuple[Compaction | None, list[models.Compaction], int]:
        found = find_compaction(connection, compaction_id)
        return found, [] if found is None else compactions_of(connection, client, [found]), now_ms(connection)

    found, shown, now = client.database.read(read)
    if found is None:
        raise NoSuchObjectError(f"compaction {compaction_id} is not there: never asked for, or purged since")
    where = found.resource
    records = client.cleanings.newest(where.database, where.table) if _has_records(client) else []
    return models.CompactionDetail(
        now=now,
        compaction=shown[0],
        properties=shaping.properties(found.properties),
        decisions=[shaping.stored_decision(one) for one in client.compactions.decisions.of(where)],
        cleaning=[shaping.cleaned(one) for one in records if one.request_id == compaction_id],
    )


# --- leases ---------------------------------------------------------------------------------------------------------


@router.get("/{conn_id}/leases", tags=["leases"])
def leases(
    client: Client,
    database: Text = None,
    table: Text = None,
    user: Text = None,
    type: Literal["shared", "exclusive"] | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> models.Page[models.Lease]:
    """Leases that are held, one row for each object, in the order in which they were granted."""
    wanted = LeasesWanted(database, table, user, None if type is None else LeaseType[type.upper()])
    part = Slice(limit, cursors.decode(cursor, int, int))
    page = _of_leases(client, lambda connection: leases_page(connection, wanted, part))
    return _page(page, [shaping.lease(one) for one in page.items])


@router.get("/{conn_id}/leases/waiting", tags=["leases"])
def lease_waiters(
    client: Client, database: Text = None, table: Text = None, limit: Limit = 100, cursor: Cursor = None
) -> models.Page[models.LeaseWaiter]:
    """Who waits for a lease, the first in line first."""
    part = Slice(limit, cursors.decode(cursor, int, int))
    page = _of_leases(client, lambda connection: waiters_page(connection, database, table, part))
    return _page(page, [shaping.waiter(one) for one in page.items])


@router.get("/{conn_id}/leases/drops", tags=["leases"])
def lease_drops(client: Client, limit: Limit = 100, cursor: Cursor = None) -> models.Page[models.LeaseDrop]:
    """Leases that were dropped by force, the latest first."""
    part = Slice(limit, cursors.decode(cursor, int))
    page = _of_leases(client, lambda connection: drops_page(connection, part))
    return _page(page, [shaping.drop(one) for one in page.items])


def _of_leases(client: MetastoreClient, read: Any) -> Page[Any]:
    """A page of leases; a metastore of an earlier version of our tables knows none."""

    def operation(connection: Any) -> Page[Any]:
        if not client.database.features(connection).leases:
            return Page((), None, 0, now_ms(connection))
        found: Page[Any] = read(connection)
        return found

    return client.database.read(operation)


def _has_records(client: MetastoreClient) -> bool:
    """Whether the Cleaner's record is there: it came with the Initiator's."""
    return client.database.read(lambda connection: client.database.features(connection).decisions)


def _page(page: Page[Any], items: list[models.T]) -> models.Page[models.T]:
    return models.Page(items=items, next=cursors.encode(page.after), total=page.total, now=page.now)
