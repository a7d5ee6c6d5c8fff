"""Metastores of Hive 3.1.0 and of a CDP: recognised by their tables, given ours, and worked with."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import (
    InvalidArgumentsError,
    NoSuchTxnError,
    SchemaVersionError,
    TxnAbortedError,
    WriteConflictError,
)
from airflow_hive_acid.format.jobs import Column
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.catalog.values.model import TableDefinition
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.database.database import Database, OutcomeUnknownError
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_transactions import COMPACTION_QUEUE, HIVE_LOCKS, MIN_HISTORY_LEVEL, TXNS
from airflow_hive_acid.metastore.schema.layouts import NEXT_TXN_ID, USUAL, Layout
from airflow_hive_acid.metastore.setup.schema import METADATA
from airflow_hive_acid.settings import Settings, Source
from tests import hive3_schemas, mysql_servers, postgresql_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.backends("postgresql", "mariadb", "mysql"), pytest.mark.hive4("makes its own metastores")]

SERVERS: dict[str, Any] = {"postgresql": postgresql_servers, "mariadb": mysql_servers, "mysql": mysql_servers}
INSISTS = Settings({Source.CONNECTION: {"hive.acid.unverified.metastores": "true"}})


@pytest.fixture(params=hive3_schemas.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(backend: str, server: str, kind: str, upgraded: bool) -> str:
    """URL of a new metastore as its script makes it, or with our tables beside."""
    url = SERVERS[backend].new_database(server)
    hive3_schemas.create(url, kind)
    if upgraded:
        with MetastoreClient(url, INSISTS) as client:
            client.upgrade_schema()
    return url


@pytest.fixture(scope="module")
def copies(backend: str, request: pytest.FixtureRequest) -> Iterator[Callable[[str, bool], postgresql_servers.Copies]]:
    """To make one takes longer than most tests: on PostgreSQL each is made once, and copied."""
    server: str = request.getfixturevalue(f"{backend}_server")
    with contextlib.ExitStack() as stack:

        @functools.cache
        def of(kind: str, upgraded: bool) -> postgresql_servers.Copies:
            template = sa.make_url(made(backend, server, kind, upgraded)).database
            return stack.enter_context(contextlib.closing(postgresql_servers.Copies(server, str(template))))

        yield of


@pytest.fixture
def database_url(
    backend: str, kind: str, copies: Callable[[str, bool], postgresql_servers.Copies], request: pytest.FixtureRequest
) -> Iterator[str]:
    """A metastore as Hive's or CDP's script makes it; with our tables beside for who takes ``client``."""
    upgraded = "client" in request.fixturenames
    if backend == "postgresql":
        url = copies(kind, upgraded).take()
        yield url
        copies(kind, upgraded).give_back(url)
    else:
        server: str = request.getfixturevalue(f"{backend}_server")
        url = made(backend, server, kind, upgraded)
        yield url
        SERVERS[backend].drop_database(server, url)


@pytest.fixture
def bare(database_url: str) -> Iterator[MetastoreClient]:
    with MetastoreClient(database_url, INSISTS) as client:
        yield client


@pytest.fixture
def client(bare: MetastoreClient) -> MetastoreClient:
    return bare


def read(client: MetastoreClient, statement: sa.Select[tuple[object, ...]]) -> list[tuple[object, ...]]:
    with client.database.reading() as connection:
        return [tuple(row) for row in connection.execute(statement)]


def one_lock(kind: LockType, operation: Operation) -> list[LockComponent]:
    return [LockComponent("db", "t", None, kind, operation)]


# --- what it is -------------------------------------------------------------------------------------------------


def test_it_is_recognised_by_its_tables_and_says_what_it_cannot_hold(bare: MetastoreClient, kind: str) -> None:
    state = bare.check_schema()
    assert (state.version, state.extension_version) == (hive3_schemas.VERSIONS[kind], None)
    assert {"pools of compactions", "REBALANCE compactions", "a replica of another metastore"} <= set(state.lacks)
    assert ("why a compaction failed" in state.lacks) == (kind == "3.1")
    layout = bare.database.layout()
    assert layout.counts_txns
    assert layout.absent == hive3_schemas.absent(kind)
    assert layout.missing == hive3_schemas.MISSING[kind]


def test_it_is_given_our_tables_and_keeps_its_own(bare: MetastoreClient) -> None:
    def theirs() -> dict[str, list[str]]:
        with bare.database.reading() as connection:
            found = sa.inspect(connection)
            names = [name for name in found.get_table_names() if not name.startswith(("HIVE_ACID", "HIVE_LEASE"))]
            return {name: [column["name"] for column in found.get_columns(name)] for name in names}

    before = theirs()
    assert bare.upgrade_schema().done
    assert bare.upgrade_schema().done == ()
    assert bare.check_schema().is_current
    assert theirs() == before


def test_a_version_that_its_tables_do_not_bear_out_is_refused(bare: MetastoreClient) -> None:
    with bare.database.transaction() as connection:
        connection.execute(sa.update(METADATA.tables["VERSION"]).values(SCHEMA_VERSION="4.1.0"))
    with pytest.raises(SchemaVersionError, match=r"version is 4\.1\.0; served are 3\.1"):
        bare.check_schema()


def test_without_what_protects_readers_it_is_refused(bare: MetastoreClient, database_url: str) -> None:
    with bare.database.transaction() as connection:
        if "min_history_level" in sa.inspect(connection).get_view_names():
            connection.execute(sa.DDL("DROP VIEW min_history_level"))
        MIN_HISTORY_LEVEL.drop(connection)
    with MetastoreClient(database_url) as again, pytest.raises(SchemaVersionError, match="lacks the tables MIN_HIST"):
        again.check_schema()


def test_names_in_lower_case_are_those_of_no_other_table() -> None:
    """The compiler knows a name, and not whose it is."""
    layout = Layout(lower_case=frozenset(hive3_schemas.LOWER_CASE - {"RUNTIME_STATS"}))
    others = {
        name
        for table in METADATA.tables.values()
        if table.name not in layout.lower_case
        for name in (table.name, *(column.name for column in table.columns))
    }
    assert layout.lower_case_names() & others == set()


def test_a_metastore_of_hive_4_has_the_usual_layout(metastore_url: str) -> None:
    database = Database(metastore_url)
    assert database.layout() == USUAL
    assert USUAL.tag == ""
    database.close()


@pytest.mark.parametrize(
    ("url", "named"),
    [("oracle://u:p@h/metastore", "on Oracle"), ("mssql+pyodbc://u:p@h/metastore", "on SQL Server")],
)
def test_oracle_and_sql_server_are_named(url: str, named: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=f"{named} .*is not supported; supported are SQLite, PostgreSQL"):
        Database(url)


@pytest.mark.setting("hive.acid.unverified.metastores")
def test_beside_a_vendors_hive_nothing_is_written_before_somebody_insists(
    client: MetastoreClient, kind: str, database_url: str
) -> None:
    """Its protocol was never tried; a Hive 3.1's was."""
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_database("db")
    client.catalog.create_table(TableDefinition("db", "t", (Column("id", "int"),)))
    with client.transaction({"db.t": "insert"}):
        pass
    with MetastoreClient(database_url) as other:
        assert any("hive.acid.unverified.metastores" in what for what in other.check_schema().lacks) == (kind == "cdp")
        with other.snapshot(["db.t"]) as reader:
            assert reader.snapshot["db.t"].high_watermark == 1
        writes: list[Callable[[], object]] = [
            other.open_txn,
            lambda: other.begin({"db.t": "insert"}).abort("a test"),
            lambda: other.catalog.alter_properties("db.t", {"a": "b"}),
            lambda: other.catalog.add_columns("db.t", [Column("v", "string")]),
            lambda: other.catalog.drop_table("db.t"),
            lambda: other.catalog.create_database("more"),
        ]
        for write in writes:
            if kind == "cdp":
                with pytest.raises(SchemaVersionError, match=r"vendor's Hive \(CDP\).*hive.acid.unverified.metastores"):
                    write()
            else:
                write()
    assert ("db.t" in [f"db.{name}" for name in client.catalog.list_tables("db")]) == (kind == "cdp")


# --- transactions -----------------------------------------------------------------------------------------------


def test_txn_ids_are_counted_and_told_to_the_cleaner(client: MetastoreClient) -> None:
    assert client.open_txns(3) == [1, 2, 3]
    assert client.open_txn() == 4
    assert read(client, sa.select(NEXT_TXN_ID.c.NTXN_NEXT)) == [(5,)]
    levels = sa.select(MIN_HISTORY_LEVEL.c.MHL_TXNID, MIN_HISTORY_LEVEL.c.MHL_MIN_OPEN_TXNID).order_by("MHL_TXNID")
    assert read(client, levels) == [(1, 1), (2, 1), (3, 1), (4, 1)]


@pytest.mark.rule("R11")
def test_what_has_just_been_committed_is_no_gap(client: MetastoreClient) -> None:
    """
    t1  A and B open; B writes and commits: its row is gone
    t2  C opens: its row is young, and B's id is missing below it
    t3  C sees what B wrote
    """
    client.open_txn()
    with client.transaction({"db.t": "insert"}) as txn:
        pass
    later = client.open_txn()
    assert read(client, sa.select(TXNS.c.TXN_ID).order_by(TXNS.c.TXN_ID)) == [(1,), (later,)]
    assert client.get_valid_write_ids("db.t")["db.t"].is_valid(txn.write_ids["db.t"])
    assert str(client.get_valid_txns()) == "3:1:1,3:"


def test_the_newest_txn_counts_when_it_has_ended(client: MetastoreClient) -> None:
    """TXNS is empty then: the count stands for it."""
    with client.transaction({"db.t": "update"}):
        pass
    assert read(client, sa.select(TXNS.c.TXN_ID)) == []
    assert client.get_valid_txns().high_watermark == 1
    assert str(client.get_valid_write_ids("db.t")["db.t"]).startswith("db.t:1:")


@pytest.mark.rule("R2")
@pytest.mark.parametrize("many", [False, True], ids=["at once", "the long way"])
def test_the_second_of_two_updates_is_aborted(client: MetastoreClient, many: bool) -> None:
    tables = {"db.t": "update", **({"db.u": "update"} if many else {})}
    first, second = client.begin(tables), client.begin(tables)
    first.commit()
    with pytest.raises(WriteConflictError, match=r"Aborting \[txnid:2,2\] due to a write conflict on db/"):
        second.commit()
    with pytest.raises(TxnAbortedError):
        client.heartbeat(second.txn_id)
    third = client.begin(tables)
    third.commit()


def test_an_abort_stays_known_and_housekeeping_leaves_the_count(client: MetastoreClient) -> None:
    client.begin({"db.t": "insert"}).abort("a test")
    with client.transaction({"db.t": "insert"}):
        pass
    assert client.get_valid_write_ids("db.t")["db.t"].is_aborted(1)
    client.housekeeping.run_house_keeper()
    client.housekeeping.run_txn_cleaner()
    assert client.get_valid_write_ids("db.t")["db.t"].is_aborted(1)
    assert client.open_txn() == 3


@pytest.mark.rule("R17")
def test_no_such_txn_after_a_lost_commit_is_an_unknown_outcome(
    client: MetastoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    t1  a commit is sent, and the connection breaks before it is answered
    t2  the operation is repeated; the txn has no row any more
    """
    tries = iter((ConnectionResetError("the server went away"), NoSuchTxnError("no txn 1")))

    def operation(connection: sa.Connection) -> None:
        failure = next(tries)
        if isinstance(failure, ConnectionResetError):
            connection.info["hive_acid_commit_sent"] = True
            raise sa.exc.OperationalError("COMMIT", None, failure, connection_invalidated=True)
        raise failure

    client.database.read(lambda connection: None)
    monkeypatch.setattr(client.database, "_sleep", lambda seconds: None)
    with pytest.raises(OutcomeUnknownError, match="whether the change happened is unknown"):
        client.database.run(operation)


# --- locks, compaction, and what is refused ---------------------------------------------------------------------


def test_a_lock_that_hive_3_does_not_know_is_written_as_exclusive(client: MetastoreClient) -> None:
    txn_id = client.open_txn()
    client.lock(one_lock(LockType.EXCL_WRITE, Operation.UPDATE), txn_id=txn_id)
    assert read(client, sa.select(HIVE_LOCKS.c.HL_LOCK_TYPE)) == [("e",)]
    reader = client.open_txn()
    assert client.lock(one_lock(LockType.SHARED_READ, Operation.SELECT), txn_id=reader).state is LockState.WAITING


def test_a_request_for_a_compaction_is_left_to_its_hive(client: MetastoreClient) -> None:
    answer = client.compactions.enqueue("db.t", type=CompactionType.MAJOR)
    assert answer.accepted
    queue = COMPACTION_QUEUE.c
    assert read(client, sa.select(queue.CQ_ID, queue.CQ_TABLE, queue.CQ_STATE, queue.CQ_TYPE)) == [(1, "t", "i", "a")]
    assert [c.id for c in client.compactions.show()] == [1]
    assert not client.compactions.enqueue("db.t").accepted
    assert client.compactions.waiting() == []
    with pytest.raises(SchemaVersionError, match="a compaction by this package is not done on this metastore"):
        client.compactions.claim("host-1")


def test_what_it_cannot_hold_is_refused_by_name_and_changes_nothing(client: MetastoreClient) -> None:
    compactions = client.compactions
    counted: list[object] = []
    with pytest.raises(SchemaVersionError, match=r"ANALYZE … FOR COLUMNS is not done on this metastore"):
        client.catalog.analyze("db.t", counted.append)  # type: ignore[arg-type]
    assert counted == []
    with pytest.raises(SchemaVersionError, match=r"pool 'fast' cannot be had .* has no CQ_POOL_NAME"):
        compactions.enqueue("db.t", pool="fast")
    with pytest.raises(SchemaVersionError, match=r"a rebalance of db\.t cannot be had .* has no CQ_NUMBER_OF_BUCKETS"):
        compactions.enqueue("db.t", type=CompactionType.REBALANCE)
    with pytest.raises(SchemaVersionError, match=r"a minor compaction of db\.t is not done .*Ask for a major one"):
        compactions.enqueue("db.t", type=CompactionType.MINOR)
    with pytest.raises(SchemaVersionError, match="the end of a compaction that was asked for is not done"):
        compactions.abort([1])
    assert compactions.show() == []
    with pytest.raises(SchemaVersionError, match="with mirror=False"):
        client.leases.grab_lease("db.t", 10)
    assert client.leases.grab_lease("db.t", 10, mirror=False).lease_id == 1
    client.catalog.set_warehouse("file:/warehouse")
    client.catalog.create_database("db")
    client.catalog.create_table(TableDefinition("db", "t", (Column("id", "int"),)))
    with pytest.raises(SchemaVersionError, match="a pin is not done on this metastore"):
        client.pins.pin("p", ["db.t"], expires=60)
    with pytest.raises(SchemaVersionError, match="a replica is not done on this metastore"):
        client.replica("policy").open_txns([7])
    assert client.show_locks() == []


# --- the catalog ------------------------------------------------------------------------------------------------


def test_a_life_of_a_partitioned_table(client: MetastoreClient) -> None:
    catalog = client.catalog
    catalog.set_warehouse("file:/warehouse")
    catalog.create_database("shop", description="of a Hive 3")
    catalog.create_table(
        TableDefinition("shop", "p", (Column("id", "int"), Column("v", "string")), (Column("k", "string"),))
    )
    with client.transaction({"shop.p": "insert"}, partitioned=["shop.p"]) as txn:
        catalog.add_partitions("shop.p", [("a",)])
        txn.add_partitions("shop.p", ["k=a"])
    assert [p.name for p in catalog.list_partitions("shop.p")] == ["k=a"]
    catalog.add_columns("shop.p", [Column("w", "decimal(10,2)")])
    renamed = catalog.rename_table("shop.p", "shop.q")
    assert [c.name for c in renamed.columns] == ["id", "v", "w"]
    following = client.begin({"shop.q": "insert"}, partitioned=["shop.q"])
    assert following.write_ids["shop.q"] > txn.write_ids["shop.p"]
    following.abort("a test")
    catalog.drop_database("shop", cascade=True)
    for name in ("TBLS", "PARTITIONS", "SDS", "NEXT_WRITE_ID", "HIVE_LOCKS"):
        assert read(client, sa.select(sa.func.count()).select_from(METADATA.tables[name])) == [(0,)], name
