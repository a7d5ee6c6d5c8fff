"""Write ids and the snapshots made of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchTxnError, TxnAbortedError
from airflow_hive_acid.format.write_ids import ValidTxnList
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockType, Operation, TxnType
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Iterator


def lists(client: MetastoreClient, table: str = "default.t", valid_txns: ValidTxnList | None = None) -> str:
    return str(client.get_valid_write_ids(table, valid_txns)[table])


@pytest.mark.conformance("T32")
def test_write_ids_ascend_with_txn_ids_and_are_given_once(client: MetastoreClient, rows: Any) -> None:
    client.open_txns(5)
    assert client.allocate_write_ids("default.t", [5, 3]) == {3: 1, 5: 2}
    assert client.allocate_write_ids("DEFAULT.T", [3, 5]) == {3: 1, 5: 2}
    assert rows.select("NEXT_WRITE_ID") == [("default", "t", 3)]


@pytest.mark.conformance("T33")
@pytest.mark.parametrize("bad", ["aborted", "read-only", "committed", "unknown"])
def test_only_open_writers_get_write_ids(client: MetastoreClient, rows: Any, bad: str) -> None:
    good = client.open_txn()
    other = client.open_txn(type=TxnType.READ_ONLY if bad == "read-only" else TxnType.DEFAULT)
    if bad == "aborted":
        client.abort_txn(other, "why")
    elif bad == "committed":
        client.commit_txn(other)
    elif bad == "unknown":
        other = 99
    expected = {"aborted": TxnAbortedError, "read-only": InvalidArgumentsError}.get(bad, NoSuchTxnError)
    with pytest.raises(expected, match=str(other)):
        client.allocate_write_ids("default.t", [good, other])
    with pytest.raises(expected, match=str(other)):
        client.allocate_write_ids("default.t", other)
    assert rows.count("TXN_TO_WRITE_ID") == rows.count("NEXT_WRITE_ID") == 0


@pytest.mark.conformance("T35")
def test_some_with_and_some_without_write_id_is_an_error_unless_all_are_given_new_ones(
    client: MetastoreClient, rows: Any
) -> None:
    one, two = client.open_txns(2)
    client.allocate_write_ids("default.t", one)
    with pytest.raises(InvalidArgumentsError, match=r"some have a write id of default\.t already"):
        client.allocate_write_ids("default.t", [one, two])
    assert client.allocate_write_ids("default.t", [one, two], reallocate=True) == {one: 2, two: 3}
    assert rows.select("TXN_TO_WRITE_ID", "T2W_TXNID", "T2W_WRITEID") == [(one, 2), (two, 3)]


@pytest.mark.rule("R1")
def test_allocation_stamps_the_write_id_into_the_components_locked_before(
    client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    txn_id = client.open_txn()
    client.lock([lock_on("db.t", LockType.SHARED_WRITE, Operation.UPDATE)], txn_id=txn_id)
    assert rows.select("TXN_COMPONENTS", "TC_WRITEID") == [(None,)]
    client.allocate_write_ids("db.t", txn_id)
    assert rows.select("TXN_COMPONENTS", "TC_WRITEID") == [(1,)]
    client.allocate_write_ids("db.t", txn_id, reallocate=True)
    assert rows.select("TXN_COMPONENTS", "TC_WRITEID") == [(2,)]


@pytest.mark.conformance("T37")
def test_a_table_that_was_never_written_has_no_valid_write_ids(client: MetastoreClient) -> None:
    assert lists(client) == "default.t:0:9223372036854775807::"


@pytest.mark.conformance("T38")
def test_open_and_aborted_writers_are_exceptions(client: MetastoreClient) -> None:
    ids = client.open_txns(4)
    client.allocate_write_ids("default.t", ids)
    client.commit_txn(1)
    client.abort_txn(3)
    client.commit_txn(4)
    assert lists(client) == "default.t:4:2:2:3"


@pytest.mark.conformance("T39")
def test_forgotten_write_ids_are_valid(client: MetastoreClient, rows: Any) -> None:
    rows.insert("NEXT_WRITE_ID", NWI_DATABASE="default", NWI_TABLE="t", NWI_NEXT=8)
    assert lists(client) == "default.t:7:9223372036854775807::"


def test_without_any_visible_writer_nothing_above_the_first_exception_is_shown(
    client: MetastoreClient, rows: Any
) -> None:
    rows.insert("NEXT_WRITE_ID", NWI_DATABASE="default", NWI_TABLE="t", NWI_NEXT=5)
    ids = client.open_txns(3)
    client.allocate_write_ids("default.t", ids)
    client.abort_txn(1)
    assert lists(client) == "default.t:5:9223372036854775807::5"


@pytest.mark.conformance("T41")
def test_write_ids_of_txns_beyond_the_snapshot_are_not_visible(client: MetastoreClient) -> None:
    client.open_txn()
    client.allocate_write_ids("default.t", 1)
    client.commit_txn(1)
    snapshot = client.get_valid_txns()
    client.open_txns(2)
    client.allocate_write_ids("default.t", [2, 3])
    client.commit_txn(3)
    assert lists(client, valid_txns=snapshot) == "default.t:1:9223372036854775807::"
    later = client.get_valid_txns(3)
    client.open_txns(2)
    client.allocate_write_ids("default.t", [5])
    client.allocate_write_ids("default.t", [4])
    client.commit_txn(5)
    # 4 (txn 5) lies beyond the snapshot's txns and below its table mark only for a list that saw txn 4.
    assert lists(client, valid_txns=later) == "default.t:3:2:2:"
    assert lists(client, valid_txns=ValidTxnList.parse("4:2:2:")) == "default.t:5:2:2,4,5:"


@pytest.mark.conformance("T42")
def test_seeded_write_ids_start_above_the_seed(client: MetastoreClient) -> None:
    client.seed_write_id("default.t", 5)
    assert client.allocate_write_ids("default.t", client.open_txn()) == {1: 6}
    with pytest.raises(InvalidArgumentsError, match="up to 6 already"):
        client.seed_write_id("default.t", 10)


@pytest.mark.conformance("T30")
def test_a_txn_sees_itself_and_nothing_later(client: MetastoreClient) -> None:
    client.open_txns(4)
    assert str(client.get_valid_txns(3)) == "3:1:1,2:"


@pytest.mark.hive4("a Hive 3 counts its txns: there are no gaps")
@pytest.mark.parametrize("committed", [0, 1, 50])
def test_lists_do_not_depend_on_how_much_history_is_fetched(client: MetastoreClient, rows: Any, committed: int) -> None:
    """What take_snapshot leaves out cannot change the lists: the same as with every row."""
    ids = client.open_txns(10 + committed)
    client.allocate_write_ids("default.t", ids)
    for txn_id in ids[:committed]:
        client.commit_txn(txn_id)
    rows.age_txns(5000)
    late = client.open_txns(4)
    client.allocate_write_ids("default.t", [late[1]])
    client.abort_txn(ids[-1])
    client.commit_txn(late[1])
    from airflow_hive_acid.format.write_ids import fold_write_ids, read_txn_list
    from tests.folds import fold_open_txns

    everything = [
        (t, s, k, 5000 if t <= ids[-1] else 0) for t, s, k in rows.select("TXNS", "TXN_ID", "TXN_STATE", "TXN_TYPE")
    ]
    opened = fold_open_txns(sorted(everything), 1000)
    pairs = rows.select("TXN_TO_WRITE_ID", "T2W_TXNID", "T2W_WRITEID")
    for current in (0, late[0], late[3]):
        txns = read_txn_list(opened, current)
        expected = fold_write_ids("default.t", pairs, txns, len(pairs) + 1)
        assert str(client.get_valid_txns(current)) == str(txns)
        assert lists(client, valid_txns=txns) == str(expected)
    assert lists(client) == str(fold_write_ids("default.t", pairs, read_txn_list(opened), len(pairs) + 1))


@pytest.mark.hive4("a Hive 3 counts its txns: there are no gaps")
@pytest.mark.rule("R11")
def test_a_missing_id_below_a_young_txn_counts_as_open(client: MetastoreClient, rows: Any) -> None:
    """
    t1  A is given txn id 2, its row is not there yet
    t2                  B opens 3 and commits
    t3  a snapshot: 2 may still appear, so it is open
    t4  B's row is old: nothing can appear below it any more
    """
    client.open_txns(3)
    rows.delete("MIN_HISTORY_LEVEL", MHL_TXNID=2)
    rows.delete("TXNS", TXN_ID=2)
    for txn_id in (1, 3):
        client.commit_txn(txn_id)
    rows.age_txns(-60_000)  # young, however slow this machine is
    assert str(client.get_valid_txns()) == "3:2:2:"
    rows.age_txns(62_000)
    assert str(client.get_valid_txns()) == "3:9223372036854775807::"


@pytest.mark.rule("R11")
def test_below_an_old_row_nothing_can_appear_however_young_a_row_there_is(client: MetastoreClient, rows: Any) -> None:
    """Ids are given in order: what is missing below txn 4 is older than it, and 4 is old."""
    client.open_txns(5)
    for txn_id in (1, 4):
        client.commit_txn(txn_id)
    rows.delete("MIN_HISTORY_LEVEL", MHL_TXNID=2)
    rows.delete("TXNS", TXN_ID=2)
    rows.age_txns(-60_000)
    rows.age_txns(62_000, [4])
    assert str(client.get_valid_txns()) == "5:3:3,5:"


@pytest.mark.rule("R11")
def test_a_slow_open_stays_out_of_a_snapshot_given_out_before(client: MetastoreClient, rows: Any) -> None:
    """
    t1  A is given txn id 2, its row appears only much later (it breaks its promise)
    t2                  B opens 3, commits; its row grows old
    t3                                          a reader's txn list: 3, nothing open
    t4  A's row appears, A writes (write id 2)
    t5                                          the reader asks for write ids: A's are not visible
    """
    client.open_txns(3)
    client.allocate_write_ids("default.t", 1)
    for txn_id in (1, 3):
        client.commit_txn(txn_id)
    [late] = rows.select("TXNS", TXN_ID=2)
    rows.delete("MIN_HISTORY_LEVEL", MHL_TXNID=2)
    rows.delete("TXNS", TXN_ID=2)
    rows.age_txns(2000)
    given_out = client.get_valid_txns()
    rows.insert("TXNS", **dict(zip(column_names("TXNS"), late, strict=True)))
    client.allocate_write_ids("default.t", 2)
    assert lists(client, valid_txns=given_out) == "default.t:2:2:2:"
    client.abort_txn(2)
    assert not client.get_valid_write_ids("default.t", given_out)["default.t"].is_valid(2)


def column_names(table: str) -> list[str]:
    from airflow_hive_acid.metastore.schema.types import METADATA

    return list(METADATA.tables[table].c.keys())


def test_write_ids_of_many_tables_come_in_one_answer(client: MetastoreClient) -> None:
    tables = [f"db.t{i}" for i in range(100)]
    client.open_txn()
    for table in tables[:3]:
        client.allocate_write_ids(table, 1)
    client.commit_txn(1)
    found = client.get_valid_write_ids(tables)
    assert [str(found[t]) for t in tables[:4]] == [
        "db.t0:1:9223372036854775807::",
        "db.t1:1:9223372036854775807::",
        "db.t2:1:9223372036854775807::",
        "db.t3:0:9223372036854775807::",
    ]
    assert len(found) == 100


def test_write_ids_without_txns_are_refused(client: MetastoreClient) -> None:
    with pytest.raises(InvalidArgumentsError, match="without a txn"):
        client.allocate_write_ids("db.t", [])
    with pytest.raises(InvalidArgumentsError, match="no table name"):
        client.allocate_write_ids("t", 1)


def test_write_ids_can_be_looked_up(client: MetastoreClient) -> None:
    assert client.max_allocated_write_id("db.t") == 0
    client.open_txns(2)
    client.allocate_write_ids("db.t", 2)
    assert client.max_allocated_write_id("db.t") == 1
    assert client.txn_of_write_id("db.t", 1) == 2
    assert client.txn_of_write_id("db.t", 2) is None


@pytest.fixture
def silent(metastore_url: str, client: MetastoreClient) -> Iterator[MetastoreClient]:
    """A client that writes no events: there PostgreSQL answers open and allocate in one round trip each."""
    settings = Settings({Source.CONNECTION: {"hive.metastore.event.db.listener.on": "false"}})
    with MetastoreClient(metastore_url, settings) as silent:
        yield silent


@pytest.mark.rule("R1")
def test_without_events_write_ids_are_the_same(
    silent: MetastoreClient, client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    """The table's first id, later ones, those given already, and none for a number of txns at once."""
    assert silent.open_txns(3) == [1, 2, 3]
    assert silent.allocate_write_ids("db.t", 1) == {1: 1}
    silent.lock([lock_on("db.t", LockType.SHARED_WRITE, Operation.UPDATE)], txn_id=2)
    assert silent.allocate_write_ids("db.t", 2) == {2: 2}
    assert silent.allocate_write_ids("db.t", 2) == {2: 2}
    assert rows.select("TXN_COMPONENTS", "TC_TXNID", "TC_WRITEID") == [(2, 2)]
    assert client.allocate_write_ids("db.t", 3) == {3: 3}
    assert silent.allocate_write_ids("db.t", silent.open_txns(2)) == {4: 4, 5: 5}
    assert silent.allocate_write_ids("db.t", 5, reallocate=True) == {5: 6}
    assert silent.max_allocated_write_id("db.t") == 6
    assert rows.count("MIN_HISTORY_LEVEL") == 5
    silent.commit_txn(2)


def test_without_events_refusals_are_the_same(silent: MetastoreClient, rows: Any) -> None:
    silent.allocate_write_ids("db.t", silent.open_txn())
    reader, aborted, committed = silent.open_txn(type=TxnType.READ_ONLY), *silent.open_txns(2)
    silent.abort_txn(aborted)
    silent.commit_txn(committed)
    before = rows.counts()
    for txn_id, error in (
        (reader, InvalidArgumentsError),
        (aborted, TxnAbortedError),
        (committed, NoSuchTxnError),
        (99, NoSuchTxnError),
    ):
        with pytest.raises(error):
            silent.allocate_write_ids("db.t", txn_id)
    assert rows.counts() == before
    assert silent.max_allocated_write_id("db.t") == 1


def test_without_events_clients_at_the_same_moment_get_different_ids(
    silent: MetastoreClient, metastore_url: str
) -> None:
    """Eight clients on one table: every id once, and none left out."""
    silent.allocate_write_ids("db.t", silent.open_txn())
    found: list[int] = []

    def work() -> None:
        with MetastoreClient(metastore_url, silent.settings) as other:
            for _ in range(4):
                found.extend(other.allocate_write_ids("db.t", other.open_txn()).values())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == list(range(2, 34))


@pytest.mark.rule("R11")
def test_what_an_older_txn_has_committed_under_a_later_write_id_is_seen_when_its_row_is_forgotten(
    client: MetastoreClient, rows: Any
) -> None:
    """
    t1  A begins
    t2        B begins, and takes a write id
    t3  A takes a later one, and commits
    t4        B aborts; its rows are not cleaned up yet
    t5  the housekeeper forgets A's row, because B is the oldest of all that matter
    """
    a, b = client.open_txns(2)
    assert client.allocate_write_ids("default.t", [b]) == {b: 1}
    assert client.allocate_write_ids("default.t", [a]) == {a: 2}
    client.commit_txn(a)
    client.abort_txn(b, "why")
    assert client.housekeeping.clean_txn_to_write_id() == 1
    assert rows.select("TXN_TO_WRITE_ID") == [(b, "default", "t", 1)]
    seen = client.get_valid_write_ids("default.t")["default.t"]
    assert (seen.high_watermark, seen.is_valid(2), seen.is_aborted(1)) == (2, True, True)
    later = client.open_txn()
    assert client.allocate_write_ids("default.t", [later]) == {later: 3}
    seen = client.get_valid_write_ids("default.t")["default.t"]
    assert [seen.is_valid(write_id) for write_id in (1, 2, 3)] == [False, True, False]
