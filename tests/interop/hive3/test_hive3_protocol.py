"""One metastore of Hive 3.1, two transaction managers: ids, locks, conflicts and aborts of each hold for the other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import NoSuchTxnError, SchemaVersionError, TxnAbortedError, WriteConflictError
from airflow_hive_acid.metastore.compaction.model import CompactionType
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.database.database import Database
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.metastore.schema.hive_transactions import HIVE_LOCKS, TXNS
from tests import hive3_schemas
from tests.interop.hive3 import hive3

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient
    from tests.interop.oracle import oracle

pytestmark = pytest.mark.interop

_names = itertools.count(1)

COLUMNS = sa.text("""
    select table_name, column_name, data_type, character_maximum_length, is_nullable
    from information_schema.columns where table_schema = 'public'""")
ROOMIER = {"HL_TABLE", "TC_TABLE", "WS_TABLE", "CQ_TABLE", "CC_TABLE"}
"""Hive 3.1 leaves 128 characters for the name of a table in these, Hive 4 256."""


@pytest.fixture(scope="module", params=["postgresql", "mysql"])
def hive3_database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table() -> str:
    """A name that no other test uses; the verbs of transactions do not ask the catalog."""
    return f"db.t{next(_names)}"


def component(table: str, kind: LockType, operation: Operation) -> LockComponent:
    database, name = table.split(".")
    return LockComponent(database, name, None, kind, operation)


def held(client: MetastoreClient, table: str) -> list[str]:
    """Types of the locks on a table, as they stand in the metastore."""
    locks = HIVE_LOCKS.c
    with client.database.reading() as connection:
        found = (
            sa.select(locks.HL_LOCK_TYPE).where(locks.HL_TABLE == table.split(".")[1]).order_by(locks.HL_LOCK_EXT_ID)
        )
        return list(connection.execute(found).scalars())


# --- the schema -------------------------------------------------------------------------------------------------


def test_the_schema_of_our_tests_is_that_of_hives_script(hive3_postgres: oracle.Postgres) -> None:
    """Tables and columns of what transactions use and of the catalog: names, types, what may be NULL."""
    made = hive3_postgres.create_database("made_like_three")
    hive3_schemas.create(made, "3.1")
    ours, theirs = (_columns(url) for url in (made, hive3.create_metastore(hive3_postgres, "of_three")))
    layouts = []
    for url in (made, hive3_postgres.url("of_three")):
        database = Database(url)
        layouts.append(database.layout())
        database.close()
    assert layouts[0] == layouts[1]
    unused = {table for table, _ in theirs.keys() - ours.keys()}
    assert unused <= {"IDXS", "INDEX_PARAMS", "runtime_stats", "METASTORE_DB_PROPERTIES"} | {t for t, _ in ours}
    used = {name.lower() for name in hive3_schemas.LOWER_CASE - {"RUNTIME_STATS"}}
    for key in [key for key in theirs if key[0] in used]:
        if key[1].upper() not in ROOMIER:
            assert ours[key] == theirs[key], key


def _columns(url: str) -> dict[tuple[str, str], tuple[object, ...]]:
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        return {(row[0], row[1]): tuple(row[2:]) for row in connection.execute(COLUMNS)}


def test_the_metastore_of_a_hive_3_is_recognised(client: MetastoreClient) -> None:
    state = client.check_schema()
    assert (state.version, state.is_current) == ("3.1.0", True)
    assert "pools of compactions" in state.lacks


# --- ids and snapshots ------------------------------------------------------------------------------------------


def test_txn_ids_are_counted_together_and_both_see_the_same(
    hive: hive3.Hive3, client: MetastoreClient, table: str
) -> None:
    """
    t1  we open a, Hive b, we c, Hive d; each is given a write id
    t2  we commit a, Hive commits b; we abort c; d stays open
    t3  both say the same of txns and write ids
    """
    a, b, c, d = client.open_txn(), hive.open(), client.open_txn(), hive.open()
    assert [b - a, c - b, d - c] == [1, 1, 1]
    given = []
    for number, txn_id in enumerate((a, b, c, d)):
        if number % 2:
            given.append(int(hive.ask("write_id", txn_id, *table.split("."))[0]))
        else:
            given.append(client.allocate_write_ids(table, [txn_id])[txn_id])
    assert given == [1, 2, 3, 4]
    client.commit_txn(a)
    hive.ask("commit", b)
    client.abort_txn(c)
    assert str(client.get_valid_txns()) == hive.ask("txns")[0]
    assert str(client.get_valid_write_ids(table)[table]) == hive.ask("write_ids", table)[0] == f"{table}:4:4:4:3"
    hive.ask("commit", d)
    assert str(client.get_valid_txns()) == hive.ask("txns")[0]
    assert str(client.get_valid_write_ids(table)[table]) == hive.ask("write_ids", table)[0]


def test_what_has_just_been_committed_is_seen_at_once(hive: hive3.Hive3, client: MetastoreClient, table: str) -> None:
    """A committed txn has no row in a Hive 3: its missing id is not one that may still appear."""
    for turn in range(6):
        if turn % 2:
            txn_id = hive.open()
            hive.ask("write_id", txn_id, *table.split("."))
            hive.ask("commit", txn_id)
        else:
            with client.transaction({table: "insert"}):
                pass
        later = hive.open()
        assert client.get_valid_write_ids(table)[table].is_valid(turn + 1), turn
        hive.ask("abort", later)


def test_a_committed_txn_of_ours_leaves_no_row_that_hive_would_take_for_open(
    hive: hive3.Hive3, client: MetastoreClient, table: str
) -> None:
    with client.transaction({table: "update"}) as txn:
        pass
    with client.database.reading() as connection:
        assert connection.execute(sa.select(TXNS.c.TXN_ID).where(TXNS.c.TXN_ID == txn.txn_id)).first() is None
    assert str(txn.txn_id) not in hive.ask("txns")[0].split(":", 2)[2].replace(":", ",").split(",")


# --- locks ------------------------------------------------------------------------------------------------------


def test_we_wait_for_hives_lock(hive: hive3.Hive3, client: MetastoreClient, table: str) -> None:
    txn_id = hive.open()
    assert hive.lock(txn_id, table, "EXCLUSIVE", "NO_TXN")[1] == "ACQUIRED"
    mine = client.open_txn()
    asked = client.lock([component(table, LockType.SHARED_READ, Operation.SELECT)], txn_id=mine)
    assert asked.state is LockState.WAITING
    hive.ask("commit", txn_id)
    assert client.check_lock(asked.lock_id).state is LockState.ACQUIRED
    client.commit_txn(mine)


def test_hive_waits_for_our_lock(hive: hive3.Hive3, client: MetastoreClient, table: str) -> None:
    """Its Cleaner, too, waits for the locks of readers: that is all it knows of them."""
    mine = client.open_txn()
    client.lock([component(table, LockType.SHARED_READ, Operation.SELECT)], txn_id=mine)
    txn_id = hive.open()
    lock_id, state = hive.lock(txn_id, table, "EXCLUSIVE", "NO_TXN")
    assert state == "WAITING"
    client.commit_txn(mine)
    assert hive.check(lock_id) == "ACQUIRED"
    hive.ask("commit", txn_id)


def test_an_overwriting_lock_of_ours_is_one_that_hive_knows(
    hive: hive3.Hive3, client: MetastoreClient, table: str
) -> None:
    """A Hive 3 has no EXCL_WRITE, and fails on a lock of a type that it does not know."""
    mine = client.open_txn()
    asked = client.lock([component(table, LockType.EXCL_WRITE, Operation.UPDATE)], txn_id=mine)
    assert asked.state is LockState.ACQUIRED
    assert held(client, table) == ["e"]
    txn_id = hive.open()
    assert hive.lock(txn_id, table, "SHARED_READ", "SELECT")[1] == "WAITING"
    client.abort_txn(mine)
    hive.ask("abort", txn_id)


def test_lock_ids_are_counted_together(hive: hive3.Hive3, client: MetastoreClient, table: str) -> None:
    txns = [hive.open(), client.open_txn(), hive.open()]
    first, _ = hive.lock(txns[0], table, "SHARED_READ", "SELECT")
    second = client.lock([component(table, LockType.SHARED_READ, Operation.SELECT)], txn_id=txns[1]).lock_id
    third, _ = hive.lock(txns[2], table, "SHARED_READ", "SELECT")
    assert [second - first, third - second] == [1, 1]
    for txn_id in txns:
        client.abort_txn(txn_id)


# --- conflicts and aborts ---------------------------------------------------------------------------------------


@pytest.mark.rule("R2")
def test_our_update_loses_to_one_of_hives_that_committed_first(
    hive: hive3.Hive3, client: MetastoreClient, table: str
) -> None:
    mine = client.begin({table: "update"})
    theirs = hive.open()
    assert hive.lock(theirs, table, "SHARED_READ", "UPDATE")[1] == "ACQUIRED"
    hive.ask("write_id", theirs, *table.split("."))
    hive.ask("commit", theirs)
    with pytest.raises(WriteConflictError, match=f"committed by \\[txnid:{theirs}"):
        mine.commit()
    with pytest.raises(TxnAbortedError):
        client.heartbeat(mine.txn_id)


@pytest.mark.rule("R2")
def test_hives_update_loses_to_one_of_ours_that_committed_first(
    hive: hive3.Hive3, client: MetastoreClient, table: str
) -> None:
    theirs = hive.open()
    assert hive.lock(theirs, table, "SHARED_READ", "UPDATE")[1] == "ACQUIRED"
    hive.ask("write_id", theirs, *table.split("."))
    mine = client.begin({table: "update"})
    mine.commit()
    with pytest.raises(hive3.Hive3Error, match=f"write conflict on .*committed by \\[txnid:{mine.txn_id}"):
        hive.ask("commit", theirs)


def test_an_abort_by_either_ends_the_txn_of_the_other(hive: hive3.Hive3, client: MetastoreClient, table: str) -> None:
    mine, theirs = client.begin({table: "insert"}), hive.open()
    hive.ask("abort", mine.txn_id)
    client.abort_txn(theirs)
    with pytest.raises(TxnAbortedError):
        mine.commit()
    with pytest.raises(hive3.Hive3Error, match="aborted"):
        hive.ask("heartbeat", theirs)


def test_housekeeping_of_both_leaves_what_is_open_and_what_is_counted(
    hive: hive3.Hive3, client: MetastoreClient, table: str
) -> None:
    mine, theirs = client.open_txn(), hive.open()
    gone = client.begin({table: "insert"})
    gone.commit()
    client.housekeeping.run_house_keeper()
    client.housekeeping.run_txn_cleaner()
    hive.ask("house_keeper")
    client.heartbeat(mine)
    hive.ask("heartbeat", theirs)
    assert client.open_txn() == gone.txn_id + 1
    with pytest.raises(NoSuchTxnError):
        client.heartbeat(gone.txn_id)
    assert str(client.get_valid_txns()) == hive.ask("txns")[0]


# --- compaction -------------------------------------------------------------------------------------------------


def test_our_request_waits_in_hives_queue_and_what_hive_cannot_do_is_refused(
    hive: hive3.Hive3, client: MetastoreClient, table: str
) -> None:
    assert client.compactions.enqueue(table, type=CompactionType.MAJOR).accepted
    assert f"{table} MAJOR initiated" in hive.ask("compactions")
    with pytest.raises(SchemaVersionError, match="its Hive compacts and cleans"):
        client.compactions.claim("ours")
    with pytest.raises(SchemaVersionError, match="has no CQ_POOL_NAME"):
        client.compactions.enqueue("db.other", pool="fast")
    with pytest.raises(SchemaVersionError, match="has no CQ_NUMBER_OF_BUCKETS"):
        client.compactions.enqueue("db.other", type=CompactionType.REBALANCE)
    assert client.compactions.find_ready_to_clean() == []
