"""Txns: opening, ending and keeping them alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import InvalidArgumentsError, NoSuchTxnError, TooManyOpenTxnsError, TxnAbortedError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import AbortReason, LockType, Operation, TxnType
from airflow_hive_acid.metastore.database.database import Repeat
from airflow_hive_acid.metastore.txns import txns
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def client_with(metastore_url: str) -> Iterator[Any]:
    """Makes clients with settings: ``client_with({"hive.max.open.txns": "10"})``."""
    made = []

    def make(settings: dict[str, str]) -> MetastoreClient:
        client = MetastoreClient(metastore_url, Settings({Source.CONNECTION: settings}))
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


@pytest.mark.conformance("T01")
def test_a_fresh_metastore_has_no_txns_and_opens_the_first_as_1(client: MetastoreClient) -> None:
    assert str(client.get_valid_txns()) == "0:9223372036854775807::"
    assert client.open_txn() == 1


@pytest.mark.conformance("T02")
def test_a_committed_txn_is_not_listed(client: MetastoreClient) -> None:
    assert client.open_txns(3) == [1, 2, 3]
    client.commit_txn(2)
    assert str(client.get_valid_txns()) == "3:1:1,3:"


@pytest.mark.conformance("T03")
def test_an_aborted_txn_is_listed_as_aborted(client: MetastoreClient) -> None:
    client.open_txns(3)
    client.abort_txn(2)
    assert str(client.get_valid_txns()) == "3:1:1,3:2"


@pytest.mark.conformance("T04")
@pytest.mark.setting("hive.txn.max.open.batch")
def test_a_batch_is_capped_and_its_ids_ascend(client_with: Any) -> None:
    client = client_with({"hive.txn.max.open.batch": "5"})
    assert client.open_txns(3) == [1, 2, 3]
    assert client.open_txns(100) == [4, 5, 6, 7, 8]
    with pytest.raises(InvalidArgumentsError, match="0 txns cannot be opened"):
        client.open_txns(0)


@pytest.mark.conformance("T05")
def test_too_many_open_txns_are_refused_until_fewer_than_90_percent_are_open(client_with: Any) -> None:
    client = client_with({"hive.max.open.txns": "10", "hive.count.open.txns.interval": "0"})
    ids = client.open_txns(10)
    with pytest.raises(TooManyOpenTxnsError, match=r"10 txns are open, hive\.max\.open\.txns is 10"):
        client.open_txn()
    client.abort_txn(ids[0])
    with pytest.raises(TooManyOpenTxnsError, match="9 txns are open"):
        client.open_txn()
    client.abort_txn(ids[1])
    assert client.open_txn() == 11


@pytest.mark.conformance("T10")
def test_an_open_that_took_too_long_is_undone_and_repeated_with_new_ids(client: MetastoreClient, rows: Any) -> None:
    """A slow open must not let its row appear later than readers wait for it."""
    seconds = iter([0.0, 1.5, 10.0, 10.1])
    request = txns.OpenRequest("u", "h")

    def slow_once(connection: Any) -> list[int]:
        return txns.open_txns(
            connection, request, client.database.features(connection), 1000, timer=lambda: next(seconds)
        )

    [txn_id] = client.database.run(slow_once, Repeat.BEFORE_COMMIT)
    assert rows.select("TXNS", "TXN_ID", TXN_STATE="o") == [(txn_id,)]
    assert rows.select("MIN_HISTORY_LEVEL", "MHL_TXNID") == [(txn_id,)]


@pytest.mark.conformance("T10")
def test_a_slow_open_of_a_read_only_txn_is_kept(client: MetastoreClient, rows: Any) -> None:
    seconds = iter([0.0, 1.5])
    request = txns.OpenRequest("u", "h", type=TxnType.READ_ONLY)
    client.database.run(
        lambda connection: txns.open_txns(
            connection, request, client.database.features(connection), 1000, timer=lambda: next(seconds)
        )
    )
    assert rows.select("TXNS", "TXN_ID", "TXN_TYPE", TXN_STATE="o") == [(1, 2)]


def test_an_open_txn_says_who_works_in_it_and_since_when(client: MetastoreClient, rows: Any) -> None:
    txn_id = client.open_txn(agent_info="dag=sales run=2026-11-21 task=load try=1")
    [row] = client.show_transactions()
    assert (row.txn_id, row.agent_info, row.user, row.host) == (
        txn_id,
        "dag=sales run=2026-11-21 task=load try=1",
        client.user,
        client.host,
    )
    assert row.started == row.last_heartbeat or abs(row.started - row.last_heartbeat) < 50
    assert rows.select("TXNS", "TXN_TYPE", TXN_ID=txn_id) == [(0,)]  # never NULL: such a row never times out


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
@pytest.mark.conformance("T11")
def test_committing_twice_is_no_error(client: MetastoreClient) -> None:
    txn_id = client.open_txn()
    client.commit_txn(txn_id)
    client.commit_txn(txn_id)


@pytest.mark.conformance("T11")
def test_committing_again_is_no_error_when_only_the_completed_components_remember(
    client: MetastoreClient, rows: Any
) -> None:
    with client.transaction({"db.t": "insert"}) as txn:
        txn_id = txn.txn_id
    rows.delete("TXNS", TXN_ID=txn_id)
    client.commit_txn(txn_id)


@pytest.mark.conformance("T12")
def test_aborting_twice_is_no_error(client: MetastoreClient, rows: Any) -> None:
    txn_id = client.open_txn()
    client.abort_txn(txn_id, "first reason")
    client.abort_txn(txn_id, "second reason")
    assert rows.txn_state(txn_id) == ("a", "first reason")


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
@pytest.mark.conformance("T13")
def test_commit_of_an_aborted_and_abort_of_a_committed_txn_are_refused(client: MetastoreClient) -> None:
    aborted, committed = client.open_txns(2)
    client.abort_txn(aborted, "because")
    client.commit_txn(committed)
    with pytest.raises(TxnAbortedError, match=f"txn {aborted} is already aborted: because"):
        client.commit_txn(aborted)
    with pytest.raises(NoSuchTxnError, match=f"txn {committed} is already committed"):
        client.abort_txn(committed)


@pytest.mark.conformance("T14")
def test_a_txn_that_was_never_opened_is_unknown_to_every_verb(client: MetastoreClient) -> None:
    for verb in (client.commit_txn, client.abort_txn, client.heartbeat):
        with pytest.raises(NoSuchTxnError, match="no txn 42"):
            verb(42)


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
@pytest.mark.conformance("T15")
def test_heartbeats_tell_what_became_of_a_txn(client: MetastoreClient, rows: Any) -> None:
    alive, aborted, committed = client.open_txns(3)
    rows.age_txns(60_000)
    before = rows.select("TXNS", "TXN_LAST_HEARTBEAT", TXN_ID=alive)[0][0]
    client.abort_txn(aborted, "by hand")
    client.commit_txn(committed)
    client.heartbeat(alive)
    assert rows.select("TXNS", "TXN_LAST_HEARTBEAT", TXN_ID=alive)[0][0] >= before + 60_000
    with pytest.raises(TxnAbortedError, match="by hand"):
        client.heartbeat(aborted)
    with pytest.raises(NoSuchTxnError, match="already committed"):
        client.heartbeat(committed)


@pytest.mark.conformance("T16")
def test_a_range_heartbeat_tells_which_txns_are_not_open_and_moves_the_others(
    client: MetastoreClient, rows: Any
) -> None:
    alive, committed, aborted = client.open_txns(3)
    client.commit_txn(committed)
    client.abort_txn(aborted)
    rows.age_txns(60_000)
    before = rows.select("TXNS", "TXN_LAST_HEARTBEAT", TXN_ID=alive)[0][0]
    answer = client.heartbeat_txn_range(alive, aborted)
    assert (answer.missing, answer.aborted) == ({committed}, {aborted})
    assert rows.select("TXNS", "TXN_LAST_HEARTBEAT", TXN_ID=alive)[0][0] >= before + 60_000


@pytest.mark.conformance("T17")
def test_a_range_heartbeat_over_open_txns_finds_nothing_wrong(client: MetastoreClient) -> None:
    client.open_txns(5)
    answer = client.heartbeat_txn_range(1, 5)
    assert (answer.missing, answer.aborted) == (frozenset(), frozenset())


@pytest.mark.conformance("T18")
def test_time_outs_abort_all_stale_txns_in_one_call(client: MetastoreClient, rows: Any) -> None:
    ids = client.open_txns(503)
    rows.age_txns(301_000)
    fresh = client.open_txn()
    assert client.housekeeping.perform_time_outs().txns == tuple(ids)
    assert rows.count("TXNS", TXN_STATE="a") == 503
    assert rows.txn_state(fresh) == ("o", None)


@pytest.mark.conformance("T19")
def test_replicated_txns_have_a_time_out_of_their_own(client: MetastoreClient, rows: Any) -> None:
    txn_id = client.open_txn(type=TxnType.REPL_CREATED)
    rows.age_txns(301_000)
    assert client.housekeeping.perform_time_outs().txns == ()
    rows.age_txns(11 * 86_400_000)
    assert client.housekeeping.perform_time_outs().txns == (txn_id,)


@pytest.mark.rule("R4")
def test_who_aborts_stale_txns_may_fence_their_jobs_first(client: MetastoreClient, rows: Any) -> None:
    """
    t1  txn 1 is stale
    t2  the reaper fences its job: meanwhile the txn is still open
    t3  it is aborted
    """
    txn_id = client.open_txn()
    rows.age_txns(301_000)
    seen = []
    client.housekeeping.perform_time_outs(lambda ids: seen.append((ids, rows.txn_state(txn_id)[0])))
    assert seen == [([txn_id], "o")]
    assert rows.txn_state(txn_id) == ("a", "heartbeat time-out")


def test_a_heartbeat_between_finding_and_aborting_saves_the_txn(client: MetastoreClient, rows: Any) -> None:
    """
    t1  the reaper finds txns 1 and 2 stale
    t2                                        2 sends a heartbeat
    t3  the reaper aborts 1 only: staleness is decided again under the row's lock
    """
    dead, alive = client.open_txns(2)
    rows.age_txns(301_000)
    answer = client.housekeeping.perform_time_outs(lambda ids: client.heartbeat(alive))
    assert answer.txns == (dead,)
    assert rows.txn_state(alive) == ("o", None)


@pytest.mark.conformance("T21")
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_the_end_of_a_txn_takes_its_locks_and_history_away(
    client: MetastoreClient, rows: Any, lock_on: Any, end: str
) -> None:
    txn_id = client.open_txn()
    client.lock([lock_on("db.t", LockType.SHARED_WRITE, Operation.INSERT)], txn_id=txn_id)
    assert rows.count("HIVE_LOCKS") == 1
    assert rows.count("MIN_HISTORY_LEVEL") == 1
    {"commit": client.commit_txn, "abort": client.abort_txn}[end](txn_id)
    assert rows.count("HIVE_LOCKS") == 0
    assert rows.count("MIN_HISTORY_LEVEL") == 0


@pytest.mark.hive4("a Hive 3 keeps no row of a committed txn")
@pytest.mark.conformance("T22")
def test_aborting_many_names_the_others_and_goes_on(client: MetastoreClient) -> None:
    first, committed, aborted, last = client.open_txns(4)
    client.commit_txn(committed)
    client.abort_txn(aborted)
    answer = client.abort_txns([first, committed, aborted, last, 99])
    assert answer.aborted == (first, last)
    assert answer.already_aborted == (aborted,)
    assert answer.committed == (committed,)
    assert answer.missing == (99,)


@pytest.mark.conformance("T23")
def test_aborted_txns_say_why(client: MetastoreClient, rows: Any) -> None:
    rolled_back, by_command, stale = client.open_txns(3)
    client.abort_txn(rolled_back)
    client.abort_txns([by_command])
    rows.age_txns(301_000, [stale])
    client.housekeeping.perform_time_outs()
    first, second = client.begin({"db.t": "update"}), client.begin({"db.t": "update"})
    first.commit()
    with pytest.raises(TxnAbortedError):
        second.commit()
    assert [rows.txn_state(i) for i in (rolled_back, by_command, stale, second.txn_id)] == [
        ("a", "rollback"),
        ("a", "abort by query command"),
        ("a", "heartbeat time-out"),
        ("a", "write conflicts"),
    ]


def test_a_reason_too_long_for_its_column_is_cut(client: MetastoreClient, rows: Any) -> None:
    txn_id = client.open_txn()
    client.abort_txn(txn_id, "x" * 500)
    assert len(rows.txn_state(txn_id)[1]) == 128


@pytest.mark.hive4("its Hive compacts")
def test_a_compaction_txn_fills_in_from_when_the_cleaner_may_clean(client: MetastoreClient, rows: Any) -> None:
    rows.insert("COMPACTION_QUEUE", CQ_ID=1, CQ_DATABASE="db", CQ_TABLE="t", CQ_STATE="r", CQ_TYPE="a", CQ_TXN_ID=1)
    assert client.open_txn(type=TxnType.COMPACTION) == 1
    client.open_txn()
    client.commit_txn(1)
    [(next_txn, commit_time)] = rows.select("COMPACTION_QUEUE", "CQ_NEXT_TXN_ID", "CQ_COMMIT_TIME")
    assert next_txn == 2
    assert commit_time > 1_700_000_000_000


def test_an_abort_reason_may_be_one_of_hives(client: MetastoreClient, rows: Any) -> None:
    txn_id = client.open_txn()
    client.abort_txn(txn_id, AbortReason.COMPACTION)
    assert rows.txn_state(txn_id) == ("a", "compaction abort")
