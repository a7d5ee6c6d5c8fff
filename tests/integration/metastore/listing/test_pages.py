"""Lists in pages: every row once, whatever comes and goes in between; filters; sizes of tables over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.catalog.values.model import Column, TableDefinition
from airflow_hive_acid.metastore.compaction.measures import Measure
from airflow_hive_acid.metastore.compaction.model import CompactionState, CompactionType, Resource
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation, TxnState
from airflow_hive_acid.metastore.leases.model import LeaseType
from airflow_hive_acid.metastore.listing import lease_pages, pages, table_pages
from airflow_hive_acid.metastore.listing.pages import Slice
from airflow_hive_acid.metastore.locks.deadlocks import Party
from airflow_hive_acid.metastore.locks.wait_queue import read_wait_graph
from airflow_hive_acid.metastore.schema.ours import HIVE_ACID_MEASURE

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_hive_acid.metastore import MetastoreClient

SMALL, LARGE = Measure(1, 1, 0, 10, 5, 0), Measure(9, 7, 3, 100, 60, 40)


def every(client: MetastoreClient, page: Callable[[Any, Slice], pages.Page[Any]], limit: int = 2) -> list[Any]:
    """All items, page by page."""
    found: list[Any] = []
    after = None
    while True:
        part = Slice(limit, after)
        one = client.database.read(lambda connection, part=part: page(connection, part))  # type: ignore[misc]
        assert (one.total is None) == (after is not None)
        found += one.items
        after = one.after
        if after is None:
            return found


def txns(client: MetastoreClient, newest_first: bool = False, **wanted: Any) -> list[int]:
    asked = pages.TxnsWanted(**wanted)
    found = every(client, lambda connection, part: pages.txns_page(connection, asked, part, newest_first=newest_first))
    return [txn.txn_id for txn in found]


@pytest.mark.every_database
def test_every_txn_is_on_one_page(client: MetastoreClient) -> None:
    ids = client.open_txns(5)
    client.abort_txn(ids[1])
    assert txns(client) == ids
    assert txns(client, newest_first=True) == ids[::-1]
    assert txns(client, states=(TxnState.ABORTED,)) == [ids[1]]
    assert txns(client, states=(TxnState.OPEN,)) == [ids[0], *ids[2:]]


@pytest.mark.every_database
def test_rows_that_come_and_go_shift_nothing(client: MetastoreClient) -> None:
    """The first page is read, its first txn ends, one is opened: the second page begins where the first ended."""
    ids = client.open_txns(4)
    first = client.database.read(lambda connection: pages.txns_page(connection, pages.TxnsWanted(), Slice(2)))
    client.commit_txn(ids[0])
    new = client.open_txn()
    second = client.database.read(
        lambda connection: pages.txns_page(connection, pages.TxnsWanted(), Slice(9, first.after))
    )
    assert [txn.txn_id for txn in (*first.items, *second.items)] == [*ids, new]
    assert (first.total, second.total, second.after) == (4, None, None)


@pytest.mark.every_database
def test_txns_by_who_opened_them_and_where_they_write(client: MetastoreClient, lock_on: Any) -> None:
    mine = client.open_txn(user="alice", agent_info="airflow/my_dag/run/t#1")
    near = client.open_txn(user="bob", agent_info="airflow/myXdag/run/t#1")
    worker = client.open_txn(agent_info="compaction 5 by @airflow-my_dag-scheduled__x-t")
    client.lock(lock_on("db.t", LockType.SHARED_WRITE, Operation.INSERT), txn_id=near)
    assert txns(client, user="alice") == [mine]
    assert txns(client, dag_id="my_dag") == [mine, worker]
    assert txns(client, database="DB") == txns(client, database="db", table="T") == [near]
    assert txns(client, table="other") == []
    assert txns(client, min_age_ms=0) == [mine, near, worker]
    assert txns(client, min_age_ms=3_600_000) == []


@pytest.mark.every_database
def test_locks_by_every_filter(client: MetastoreClient, lock_on: Any) -> None:
    txn = client.open_txn()
    held = client.lock([lock_on("db.t", LockType.EXCL_WRITE), lock_on("db.u/p=1", LockType.SHARED_READ)], txn_id=txn)
    waits = client.lock(lock_on("db.t", LockType.EXCLUSIVE))

    def locks(**wanted: Any) -> list[tuple[int, int]]:
        asked = pages.LocksWanted(**wanted)
        found = every(client, lambda connection, part: pages.locks_page(connection, asked, part), limit=1)
        return [(lock.lock_id, lock.internal_id) for lock in found]

    one, two, three = (held.lock_id, 1), (held.lock_id, 2), (waits.lock_id, 1)
    assert locks() == [one, two, three]
    assert locks(state=LockState.WAITING) == [three]
    assert locks(type=LockType.SHARED_READ) == locks(partition="p=1") == locks(table="U") == [two]
    assert locks(database="db", table="t") == [one, three]
    assert locks(txn_id=txn) == locks(lock_id=held.lock_id) == [one, two]
    assert locks(user="nobody") == []


@pytest.mark.every_database
def test_the_graph_of_a_metastore_names_who_waits(client: MetastoreClient, lock_on: Any) -> None:
    first, second = client.open_txn(agent_info="airflow/a/b/c#1"), client.open_txn(user="bob")
    client.lock(lock_on("db.t", LockType.EXCLUSIVE), txn_id=first)
    client.lock(lock_on("db.unrelated", LockType.EXCLUSIVE), txn_id=first)
    client.lock(lock_on("db.t/p=1", LockType.SHARED_WRITE), txn_id=second)
    behind = client.lock(lock_on("db", LockType.EXCLUSIVE))
    graph, about = client.database.read(read_wait_graph)
    assert [(e.source, e.target, e.place) for e in graph.edges] == [
        (Party(second), Party(first), "db.t/p=1"), (Party(0, behind.lock_id), Party(second), "db"),
    ]  # fmt: skip
    assert about[Party(first)].agent_info == "airflow/a/b/c#1"
    assert about[Party(second)].user == "bob"
    assert about[Party(second)].since is not None
    assert about[Party(0, behind.lock_id)].since is None


@pytest.mark.every_database
@pytest.mark.hive4("no pools")
def test_queue_and_history_are_one_list(client: MetastoreClient) -> None:
    ids = [client.compactions.enqueue(f"db.t{n}", pool="etl" if n == 3 else None).id for n in range(5)]
    client.compactions.abort(ids[1:3], user="me")
    client.compactions.enqueue("db.minor", "p=1", CompactionType.MINOR)

    def compactions(limit: int = 2, **wanted: Any) -> list[tuple[str, bool]]:
        asked = pages.CompactionsWanted(**wanted)
        found = every(client, lambda connection, part: pages.compactions_page(connection, asked, part), limit)
        return [(one.resource.table, one.queued) for one in found]

    everything = [("minor", True), ("t4", True), ("t3", True), ("t2", False), ("t1", False), ("t0", True)]
    for limit in (1, 2, 3, 10):
        assert compactions(limit) == everything
    assert compactions(queued=False) == compactions(state=CompactionState.ABORTED) == everything[3:5]
    assert compactions(queued=True, database="DB", pool="default") == [everything[n] for n in (0, 1, 5)]
    assert compactions(pool="etl") == compactions(table="T3") == [everything[2]]
    assert compactions(type=CompactionType.MINOR) == compactions(partition="p=1") == [everything[0]]
    assert compactions(state=CompactionState.WORKING) == []
    found = client.database.read(
        lambda connection: [pages.find_compaction(connection, one) for one in (ids[0], ids[1], 999)]
    )
    assert [one and one.queued for one in found] == [True, False, None]


@pytest.mark.every_database
def test_durations_are_counted_by_day(client: MetastoreClient, rows: Any) -> None:
    day = pages.DAY_MS
    for number, (end, took) in enumerate([(10 * day + 5, 5), (10 * day + 9, 7), (11 * day, None)]):
        rows.insert(
            "COMPLETED_COMPACTIONS", CC_ID=900 + number, CC_DATABASE="db", CC_TABLE="t", CC_STATE="s", CC_TYPE="a",
            CC_END=end, CC_START=None if took is None else end - took,
        )  # fmt: skip
    found = client.database.read(lambda connection: pages.durations(connection, 10 * day, day, "DB", "T"))
    assert [(one.start, one.count, one.mean, one.longest) for one in found] == [
        (10 * day, 2, 6, 7),
        (11 * day, 1, None, None),
    ]
    assert client.database.read(lambda connection: pages.durations(connection, 10 * day, day, "other")) == []


@pytest.mark.every_database
@pytest.mark.hive4("no pools")
def test_the_queue_is_counted_by_pool_and_state(client: MetastoreClient) -> None:
    for number in range(3):
        client.compactions.enqueue(f"db.t{number}", pool="etl" if number else None)
    client.compactions.claim("w", pool="etl")
    counts = client.database.read(pages.queue_counts)
    assert [(one.pool, one.state, one.count) for one in counts] == [
        ("default", CompactionState.INITIATED, 1), ("etl", CompactionState.INITIATED, 1),
        ("etl", CompactionState.WORKING, 1),
    ]  # fmt: skip
    assert all(one.oldest for one in counts)
    assert client.database.read(pages.oldest_to_clean) is None


@pytest.mark.every_database
@pytest.mark.hive4("no mirrored leases")
def test_leases_their_waiters_and_what_was_dropped(client: MetastoreClient, other_client: MetastoreClient) -> None:
    held = client.leases.grab_lease(["db.t", "db.u/p=1"], 600, user="alice")
    shared = client.leases.grab_lease("db.s", 600, lease_type="s", user="bob")
    other_client.leases.waiting_grab("db.t", 600, user="carol").look()

    def leases(**wanted: Any) -> list[tuple[int, int]]:
        asked = lease_pages.LeasesWanted(**wanted)
        found = every(client, lambda connection, part: lease_pages.leases_page(connection, asked, part), limit=1)
        return [(row.lease.lease_id, row.number) for row in found]

    first = [(row.lease.lease_id, row.number) for row in _rows_of(client, held.lease_id)]
    assert leases() == [*first, (shared.lease_id, 1)]
    assert leases(user="alice", database="DB") == first
    assert leases(type=LeaseType.SHARED) == leases(table="S") == [(shared.lease_id, 1)]
    waiting = every(client, lambda connection, part: lease_pages.waiters_page(connection, "db", "t", part))
    assert [(one.user, one.describe()) for one in waiting] == [("carol", "db.t")]
    assert client.leases.force_drop_lease(["db.s"], "me", "why", lease_id=held.lease_id) == []
    client.leases.force_drop_lease(["db.s"], "me", "why", lease_id=shared.lease_id)
    (drop,) = every(client, lease_pages.drops_page)
    assert (drop.who, drop.why, drop.lease_id, drop.describe(), drop.user) == (
        "me",
        "why",
        shared.lease_id,
        "db.s",
        "bob",
    )
    assert leases() == first


def _rows_of(client: MetastoreClient, lease_id: int) -> Any:
    return client.database.read(lambda connection: lease_pages.rows_of_lease(connection, lease_id))


@pytest.fixture
def tables(client: MetastoreClient) -> MetastoreClient:
    client.catalog.set_warehouse("file:/w")
    for database in ("db", "other"):
        client.catalog.create_database(database)
    for name in ("b", "a", "c"):
        definition = TableDefinition(
            "db", name, (Column("x", "int"),), external=name == "a",
            partition_columns=(Column("p", "string"),) if name == "c" else (),
        )  # fmt: skip
        client.catalog.create_table(definition)
    client.catalog.create_table(TableDefinition("other", "a", (Column("x", "int"),), external=True))
    client.catalog.add_partitions("db.c", [{"p": str(n)} for n in range(3)])
    return client


def listed(client: MetastoreClient, **wanted: Any) -> list[table_pages.TableRow]:
    asked = table_pages.TablesWanted(**wanted)
    features = client.database.read(client.database.features)
    return every(client, lambda connection, part: table_pages.tables_page(connection, features, asked, part))


@pytest.mark.every_database
def test_tables_by_name_and_by_size(tables: MetastoreClient) -> None:
    tables.measures.store([
        (Resource("db", "b"), SMALL), (Resource("db", "c", "p=0"), LARGE), (Resource("db", "c", "p=1"), SMALL),
    ])  # fmt: skip
    names = [(row.database, row.table) for row in listed(tables)]
    assert names == [("db", "a"), ("db", "b"), ("db", "c"), ("other", "a")]
    for order in ("deltas", "bytes", "delete_ratio"):
        assert [row.table for row in listed(tables, order=order, database="DB")] == ["c", "b", "a"]
    assert [row.table for row in listed(tables, transactional=True)] == ["b", "c"]
    assert [row.database for row in listed(tables, name="A")] == ["db", "other"]
    assert listed(tables, name="_") == []
    row = listed(tables, only="c")[0]
    assert (row.transactional, row.partitioned, row.parts, row.measure) == ("full", True, 2, LARGE + SMALL)
    assert (row.files, row.bytes) == (10, 175)
    assert row.measured is not None


@pytest.mark.every_database
def test_partitions_with_their_sizes_and_decisions(tables: MetastoreClient) -> None:
    tables.measures.store([(Resource("db", "c", "p=1"), LARGE)])
    features = tables.database.read(tables.database.features)
    found = every(
        tables, lambda connection, part: table_pages.partitions_page(connection, features, "DB", "c", None, part)
    )
    assert [row.name for row in found] == ["p=0", "p=1", "p=2"]
    assert [row.measured and row.measured.measure for row in found] == [None, LARGE, None]
    some = every(
        tables, lambda connection, part: table_pages.partitions_page(connection, features, "db", "c", "=2", part)
    )
    assert [row.name for row in some] == ["p=2"]


@pytest.mark.every_database
def test_what_does_not_change_is_one_row(tables: MetastoreClient, rows: Any) -> None:
    place = Resource("db", "b")
    for size in (SMALL, SMALL, LARGE, LARGE, SMALL):
        tables.measures.store([(place, size)])
    found = tables.measures.of_table("db", "b")
    assert [one.measure for one in found] == [SMALL, LARGE, SMALL]
    assert all(one.since <= one.until for one in found)
    assert [one[0] for one in rows.select("HIVE_ACID_MEASURE", "HME_NEWEST")] == ["N", "N", "Y"]


def test_sizes_follow_a_table_that_is_renamed(tables: MetastoreClient) -> None:
    tables.measures.store([(Resource("db", "b"), SMALL), (Resource("db", "z"), LARGE)])
    tables.catalog.rename_table("db.b", "db.z")
    assert [one.measure for one in tables.measures.of_table("db", "z")] == [SMALL]
    assert tables.measures.of_table("db", "b") == []


@pytest.mark.every_database
def test_old_sizes_are_forgotten_and_those_of_tables_that_are_gone(tables: MetastoreClient, rows: Any) -> None:
    for size in (SMALL, LARGE, SMALL):
        tables.measures.store([(Resource("db", "b"), size), (Resource("db", "gone"), size)])
    assert tables.measures.purge(kept=2) == 2
    assert tables.measures.purge() == 0
    rows.change(sa.update(HIVE_ACID_MEASURE).values(HME_UNTIL=1))
    assert tables.measures.purge() == 3
    assert [one.measure for one in tables.measures.of_table("db", "b")] == [SMALL]


@pytest.mark.every_database
def test_a_metastore_of_an_older_version_has_tables_without_sizes(tables: MetastoreClient) -> None:
    with tables.database.transaction() as connection:
        HIVE_ACID_MEASURE.drop(connection)
    tables.database.forget_features()
    tables.measures.store([(Resource("db", "b"), SMALL)])
    assert [row.measure for row in listed(tables, order="deltas")] == [None] * 4
    assert tables.measures.of_table("db", "b") == []
    assert tables.measures.purge() == 0
