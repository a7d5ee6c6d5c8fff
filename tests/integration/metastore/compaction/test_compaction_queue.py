"""The compaction queue: who may take what, what becomes of it, and what is forgotten with it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import CompactionCancelledError, InvalidArgumentsError, NoSuchObjectError
from airflow_hive_acid.metastore.compaction.history import Retention
from airflow_hive_acid.metastore.compaction.model import (
    CompactionState,
    CompactionType,
    Resource,
)
from airflow_hive_acid.metastore.compaction.runs import agent_of
from airflow_hive_acid.metastore.database.codes import TxnType
from airflow_hive_acid.metastore.schema.hive_transactions import (
    COMPACTION_QUEUE,
    COMPLETED_COMPACTIONS,
    COMPLETED_TXN_COMPONENTS,
    TXN_COMPONENTS,
    TXNS,
)
from tests.integration.metastore.compaction.requests import T, abort, change, rows, work, write

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

pytestmark = pytest.mark.hive4("its Hive compacts and cleans")

S = CompactionState


@pytest.mark.conformance("C01")
def test_a_request_is_given_to_one_worker(client: MetastoreClient) -> None:
    answer = client.compactions.enqueue("Default.T", type=CompactionType.MINOR, properties={"compactor.x": "1"})
    assert (answer.id, answer.state, answer.accepted) == (1, S.INITIATED, True)
    (row,) = rows(client, COMPACTION_QUEUE)
    assert (row["CQ_DATABASE"], row["CQ_TABLE"], row["CQ_PARTITION"]) == ("default", "t", None)
    assert (row["CQ_STATE"], row["CQ_TYPE"], row["CQ_TBLPROPERTIES"]) == ("i", "i", "1:11:compactor.x1:1")
    assert row["CQ_ENQUEUE_TIME"] > 0
    assert row["CQ_INITIATOR_ID"].endswith("-manual")
    request = client.compactions.claim("host-w1")
    assert request is not None
    assert (request.id, request.state, request.worker_id) == (1, S.WORKING, "host-w1")
    assert request.properties == {"compactor.x": "1"}
    assert request.start is not None
    assert client.compactions.claim("host-w2") is None


@pytest.mark.conformance("C04")
def test_an_empty_queue_has_nothing_for_a_worker(client: MetastoreClient) -> None:
    assert client.compactions.claim("w1") is None
    assert client.compactions.claim("w1", pool="night") is None
    assert client.compactions.show() == []


@pytest.mark.conformance("C02")
def test_requests_are_taken_in_the_order_they_came(client: MetastoreClient) -> None:
    for partition in ("ds=1", "ds=2", "ds=3"):
        client.compactions.enqueue(T, partition)
    taken = [client.compactions.claim(f"w{i}") for i in range(4)]
    assert [(r.id, r.resource.partition) if r else None for r in taken] == [
        (1, "ds=1"), (2, "ds=2"), (3, "ds=3"), None]  # fmt: skip


def test_many_workers_never_share_a_request(client: MetastoreClient) -> None:
    for number in range(6):
        client.compactions.enqueue(T, f"ds={number}")
    start = threading.Barrier(4)

    def take(worker: int) -> list[int]:
        start.wait(timeout=30)
        taken = []
        while (request := client.compactions.claim(f"w{worker}")) is not None:
            taken.append(request.id)
        return taken

    with ThreadPoolExecutor(4) as pool:
        assert sorted(i for ids in pool.map(take, range(4)) for i in ids) == [1, 2, 3, 4, 5, 6]


@pytest.mark.conformance("C03")
def test_a_request_that_would_do_nothing_new_is_not_accepted(client: MetastoreClient) -> None:
    write(client)
    first = client.compactions.enqueue(T)
    answer = client.compactions.enqueue(T, type=CompactionType.MINOR)
    assert (answer.accepted, answer.id, answer.state) == (False, first.id, S.INITIATED)
    assert answer.message == f"Compaction is already scheduled with state='initiated' and id={first.id}"
    request = client.compactions.claim("w")
    assert request is not None
    assert "state='working'" in client.compactions.enqueue(T).message
    assert client.compactions.enqueue(T, "ds=1").accepted
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=1, txn_id=txn)
    client.compactions.mark_compacted(request)
    client.commit_txn(txn)
    assert "state='ready for cleaning'" in client.compactions.enqueue(T).message
    write(client)
    assert client.compactions.enqueue(T).accepted
    assert len(rows(client, COMPACTION_QUEUE)) == 3


def test_two_who_ask_at_once_get_one_request(client: MetastoreClient) -> None:
    start = threading.Barrier(4)

    def ask(_: int) -> bool:
        start.wait(timeout=30)
        return client.compactions.enqueue(T).accepted

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(ask, range(4))) == [False, False, False, True]
    assert len(rows(client, COMPACTION_QUEUE)) == 1


@pytest.mark.conformance("C05")
def test_a_compaction_waits_for_the_cleaner_with_the_marks_of_its_commit(client: MetastoreClient) -> None:
    write(client)
    client.compactions.enqueue(T)
    request = client.compactions.claim("w")
    assert request is not None
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=1, txn_id=txn, run_as="hive")
    assert [(r["TC_OPERATION_TYPE"], r["TC_WRITEID"]) for r in rows(client, TXN_COMPONENTS)] == [("c", 1)]
    client.compactions.update_state(request, highest_write_id=1, txn_id=txn, run_as="hive")
    assert len(rows(client, TXN_COMPONENTS)) == 1
    later = client.open_txn()
    client.compactions.mark_compacted(request)
    ready = client.compactions.get(request.id)
    assert (ready.state, ready.worker_id, ready.next_txn_id, ready.run_as) == (S.READY_FOR_CLEANING, None, None, "hive")
    client.commit_txn(txn)
    ready = client.compactions.get(request.id)
    assert ready.next_txn_id == later
    assert ready.commit_time is not None
    assert [r.id for r in client.compactions.find_ready_to_clean()] == [request.id]
    assert client.compactions.find_ready_to_clean(retention_ms=3_600_000) == []


@pytest.mark.conformance("C06")
def test_what_a_cleaned_compaction_covered_is_forgotten(client: MetastoreClient) -> None:
    write(client)
    abort(client)
    write(client)
    client.compactions.enqueue(T)
    request = work(client, highest=3)
    write(client)
    later = abort(client)
    client.compactions.mark_cleaned(request)
    assert rows(client, COMPACTION_QUEUE) == []
    (done,) = rows(client, COMPLETED_COMPACTIONS)
    assert (done["CC_ID"], done["CC_STATE"], done["CC_HIGHEST_WRITE_ID"]) == (request.id, "s", 3)
    assert done["CC_END"] >= done["CC_START"] >= done["CC_ENQUEUE_TIME"]
    assert [r["CTC_WRITEID"] for r in rows(client, COMPLETED_TXN_COMPONENTS)] == [4]
    assert [r["TC_TXNID"] for r in rows(client, TXN_COMPONENTS)] == [later]


def test_only_the_partition_that_was_compacted_is_forgotten(client: MetastoreClient) -> None:
    write(client, T, "insert", "ds=1", "ds=2")
    client.compactions.enqueue(T, "ds=1")
    client.compactions.mark_cleaned(work(client, highest=1))
    assert [r["CTC_PARTITION"] for r in rows(client, COMPLETED_TXN_COMPONENTS)] == ["ds=2"]


def test_a_foreign_row_without_a_mark_forgets_nothing(client: MetastoreClient) -> None:
    write(client)
    client.compactions.enqueue(T)
    request = client.compactions.claim("w")
    assert request is not None
    client.compactions.mark_compacted(request)
    client.compactions.mark_cleaned(client.compactions.get(request.id))
    assert len(rows(client, COMPLETED_TXN_COMPONENTS)) == 1


@pytest.mark.conformance("C07")
@pytest.mark.conformance("C14")
def test_a_failed_request_moves_to_the_history_once(client: MetastoreClient) -> None:
    client.compactions.enqueue(T, properties={"a": "b"}, pool="p1", order_by="id", number_of_buckets=3)
    before = rows(client, COMPACTION_QUEUE)[0]
    request = client.compactions.claim("w", pool="p1")
    assert request is not None
    client.compactions.mark_failed(request, "disk\0full")
    assert rows(client, COMPACTION_QUEUE) == []
    (done,) = rows(client, COMPLETED_COMPACTIONS)
    assert (done["CC_STATE"], done["CC_ERROR_MESSAGE"], done["CC_WORKER_ID"]) == ("f", "disk full", "w")
    for name in ("ENQUEUE_TIME", "TBLPROPERTIES", "POOL_NAME", "ORDER_BY", "NUMBER_OF_BUCKETS", "INITIATOR_ID"):
        assert done[f"CC_{name}"] == before[f"CQ_{name}"], name
    with pytest.raises(NoSuchObjectError, match="No record with CQ_ID=1 found in COMPACTION_QUEUE"):
        client.compactions.mark_failed(request, "again")
    assert len(rows(client, COMPLETED_COMPACTIONS)) == 1


@pytest.mark.conformance("C08")
def test_what_was_never_asked_for_gets_a_row_of_its_own(client: MetastoreClient) -> None:
    client.compactions.enqueue(T)
    request_id = client.compactions.did_not_initiate(Resource("default", "u", "ds=1"), "it keeps failing")
    row = client.compactions.get(request_id)
    assert request_id == 2
    assert (row.state, row.type, row.error, row.queued) == (
        S.DID_NOT_INITIATE, CompactionType.MINOR, "it keeps failing", False)  # fmt: skip
    assert row.start == row.end


@pytest.mark.conformance("C09")
def test_failures_in_a_row_are_counted_per_resource(client: MetastoreClient) -> None:
    resource, other = Resource("default", "t"), Resource("default", "u")
    for _ in range(2):
        client.compactions.enqueue(T)
        request = client.compactions.claim("w")
        assert request is not None
        client.compactions.mark_failed(request, "x")
    client.compactions.did_not_initiate(resource, "does not count")
    week = 7 * 86_400_000
    assert client.compactions.failed_resources() == {resource}
    assert client.compactions.is_failing(resource, 2, week)
    assert not client.compactions.is_failing(resource, 3, week)
    assert not client.compactions.is_failing(other, 2, week)
    week_ago = COMPLETED_COMPACTIONS.c.CC_ENQUEUE_TIME - week
    change(client, sa.update(COMPLETED_COMPACTIONS).values(CC_ENQUEUE_TIME=week_ago))
    assert not client.compactions.is_failing(resource, 2, week - 1000)


@pytest.mark.conformance("C10")
def test_the_history_is_purged_per_state(client: MetastoreClient) -> None:
    for _ in range(4):
        client.compactions.enqueue(T)
        request = client.compactions.claim("w")
        assert request is not None
        client.compactions.mark_refused(request, "nothing to do")
        client.compactions.did_not_initiate(Resource("default", "t"), "x")
    purged = client.compactions.purge_history(Retention(refused=3, attempted=2))
    assert sorted((p.compaction.id, p.compaction.state) for p in purged) == [
        (1, S.REFUSED), (2, S.DID_NOT_INITIATE), (4, S.DID_NOT_INITIATE)]  # fmt: skip
    assert len(rows(client, COMPLETED_COMPACTIONS)) == 5
    assert client.compactions.purge_history(Retention(refused=3, attempted=2)) == []


@pytest.mark.conformance("C11")
def test_what_dead_workers_hold_is_given_back(client: MetastoreClient) -> None:
    for number in range(4):
        client.compactions.enqueue(T, f"ds={number}")
    for worker in ("host-1", "host-2", "host-3", "host-4"):
        client.compactions.claim(worker)
    assert client.compactions.requeue_timed_out(3_600_000) == []
    earlier = sa.update(COMPACTION_QUEUE).values(CQ_START=COMPACTION_QUEUE.c.CQ_START - 3_601_000)
    change(client, earlier.where(COMPACTION_QUEUE.c.CQ_ID != 2))
    assert client.compactions.requeue_timed_out(3_600_000) == [1, 3, 4]
    given_back = [c for c in client.compactions.show() if c.id != 2]
    assert {(c.state, c.worker_id, c.start) for c in given_back} == {(S.INITIATED, None, None)}
    assert (client.compactions.get(2).state, client.compactions.get(2).worker_id) == (S.WORKING, "host-2")


@pytest.mark.every_database
def test_the_request_of_a_worker_whose_txn_was_reaped_is_given_back(client: MetastoreClient) -> None:
    """
    t1  a Worker compacts in a txn, and dies
    t2              the txn is aborted after hive.txn.timeout: nobody is at the request any more
    t3              another Worker claims it; it has no txn yet, and is not taken for dead
    """
    client.compactions.enqueue(T)
    request = client.compactions.claim("a")
    assert request is not None
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=1, txn_id=txn)
    change(client, sa.update(TXNS).values(TXN_LAST_HEARTBEAT=1000))
    assert client.compactions.requeue_of_dead(300_000) == []
    client.abort_txn(txn)
    assert client.compactions.requeue_of_dead(300_000) == [1]
    given_back = client.compactions.get(1)
    assert (given_back.state, given_back.worker_id, given_back.txn_id) == (S.INITIATED, None, None)
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_TXN_ID=txn))  # as a Hive leaves it that gives back
    assert client.compactions.claim("b") is not None
    assert client.compactions.requeue_of_dead(300_000) == []


@pytest.mark.every_database
def test_the_request_of_a_worker_that_died_before_it_said_its_txn_is_given_back(client: MetastoreClient) -> None:
    """
    t1  a Worker begins, or makes many deltas fewer, and dies
    t2              its txn is aborted after hive.txn.timeout
    t3                      its next attempt takes the request up, and has no txn yet
    t4                              that has one, and dies like the first
    """
    client.compactions.enqueue(T)
    client.compactions.claim("@a")
    longer_ago = sa.update(COMPACTION_QUEUE).values(CQ_START=COMPACTION_QUEUE.c.CQ_START - 10_000)
    change(client, longer_ago)
    txn = client.open_txn(type=TxnType.COMPACTION, agent_info=agent_of(1, "@a"))
    change(client, sa.update(TXNS).values(TXN_LAST_HEARTBEAT=1000))
    assert client.compactions.requeue_of_dead(5000) == []
    client.abort_txn(txn)
    change(client, sa.update(TXNS).values(TXN_STARTED=TXNS.c.TXN_STARTED - 9000))
    assert client.compactions.requeue_of_dead(60_000) == []  # claimed a short while ago
    (held,) = client.compactions.of_worker("@a")
    assert client.compactions.retake(held) is not None
    assert client.compactions.requeue_of_dead(5000) == []  # the earlier one's txn says nothing
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_START=COMPACTION_QUEUE.c.CQ_START - 7000))
    second = client.open_txn(type=TxnType.COMPACTION, agent_info=agent_of(1, "@a"))
    client.abort_txn(second)
    assert client.compactions.requeue_of_dead(5000) == []  # it may still notice
    change(client, sa.update(TXNS).where(TXNS.c.TXN_ID == second).values(TXN_LAST_HEARTBEAT=1000))
    assert client.compactions.requeue_of_dead(5000) == [1]
    assert client.compactions.claim("@b") is not None


@pytest.mark.every_database
@pytest.mark.parametrize("forgotten", [False, True], ids=["remembered", "forgotten"])
def test_the_request_of_a_worker_that_died_between_two_parts_is_given_back(
    client: MetastoreClient, *, forgotten: bool
) -> None:
    """
    t1  a Worker has made some of many deltas fewer: that txn has committed
    t2  it works on the next ones, or is just about to begin with them
    t3              it dies before it begins: there may be no txn any more that tells of it
    """
    client.compactions.enqueue(T)
    request = client.compactions.claim("@a")
    assert request is not None
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_START=COMPACTION_QUEUE.c.CQ_START - 10_000))
    (request,) = client.compactions.of_worker("@a")

    def part() -> int:
        txn = client.open_txn(type=TxnType.COMPACTION, agent_info=agent_of(1, "@a"))
        client.compactions.update_state(request, highest_write_id=1, txn_id=txn, partial_result=True)
        return txn

    client.commit_txn(part())
    assert client.compactions.requeue_of_dead(5000) == []  # it goes on
    second = part()
    silent = sa.update(TXNS).values(TXN_LAST_HEARTBEAT=1000)
    change(client, silent)
    assert client.compactions.requeue_of_dead(5000) == []
    client.commit_txn(second)
    change(client, sa.delete(TXNS).where(TXNS.c.TXN_STATE == "c") if forgotten else silent)
    assert client.compactions.requeue_of_dead(5000) == [1]
    with pytest.raises(NoSuchObjectError, match="given to somebody else"):
        part()


def test_a_worker_that_may_still_notice_that_its_txn_was_aborted_keeps_its_request(client: MetastoreClient) -> None:
    """Somebody aborts the txn of a Worker that is alive: it stops, and says itself what becomes of the request."""
    client.compactions.enqueue(T)
    request = client.compactions.claim("a")
    assert request is not None
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=1, txn_id=txn)
    client.abort_txn(txn)
    assert client.compactions.requeue_of_dead(300_000) == []
    client.compactions.mark_failed(request, "its txn was aborted")


def test_the_request_of_a_hives_worker_waits_for_the_whole_time_out(client: MetastoreClient) -> None:
    """When that worker ends after all, it ends whatever has its request's id by then."""
    client.compactions.enqueue(T)
    request = client.compactions.claim("hive-host-1", version="4.2.0")
    assert request is not None
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=1, txn_id=txn)
    client.abort_txn(txn)
    change(client, sa.update(TXNS).values(TXN_LAST_HEARTBEAT=1000))
    assert client.compactions.requeue_of_dead(300_000) == []
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_START=1000))
    assert client.compactions.requeue_timed_out(3_600_000) == [1]


@pytest.mark.every_database
def test_what_a_dead_worker_was_told_to_end_ends_when_it_would_be_given_back(client: MetastoreClient) -> None:
    """
    t1  Workers are told to end 1 and 2, and do not hear it any more; one of them had its txn
    t2              they count as dead: a Hive's Worker, which might come next, would not look for the mark
    """
    for number in range(3):
        client.compactions.enqueue(T, f"ds={number}")
    one, two = client.compactions.claim("a"), client.compactions.claim("b")
    assert one is not None
    assert two is not None
    client.compactions.claim("hive-host-1", version="4.2.0")
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(one, highest_write_id=1, txn_id=txn)
    assert [a.aborted for a in client.compactions.abort([1, 2], user="ann", reason="not now")] == [True, True]
    client.abort_txn(txn)
    change(client, sa.update(TXNS).values(TXN_LAST_HEARTBEAT=1000))
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_START=1000))
    assert client.compactions.requeue_of_dead(300_000) == []
    assert client.compactions.requeue_timed_out(3_600_000) == [3]
    ended = [client.compactions.get(request_id) for request_id in (1, 2)]
    why = "cancelled by ann: not now; its Worker was gone"
    assert [(c.queued, c.state, c.error) for c in ended] == [(False, S.ABORTED, why)] * 2


def test_a_silent_worker_whose_txn_is_open_keeps_its_request(client: MetastoreClient) -> None:
    client.compactions.enqueue(T)
    request = client.compactions.claim("w")
    assert request is not None
    txn = client.open_txn(type=TxnType.COMPACTION)
    client.compactions.update_state(request, highest_write_id=1, txn_id=txn)
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_START=0))
    assert client.compactions.requeue_timed_out(1000) == []
    client.abort_txn(txn)
    assert client.compactions.requeue_timed_out(1000) == [1]


def test_an_attempt_whose_worker_has_begun_anew_says_nothing_more_of_the_request(client: MetastoreClient) -> None:
    """
    t1  attempt 1 of A claims, and is paused
    t2              attempt 2 of A takes the request up; it has no txn yet
    t3  attempt 1 goes on: every step of it is refused
    """
    client.compactions.enqueue(T)
    client.compactions.claim("a")
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_START=COMPACTION_QUEUE.c.CQ_START - 5))
    (first,) = client.compactions.of_worker("a")
    second = client.compactions.retake(first)
    assert second is not None
    txn = client.open_txn(type=TxnType.COMPACTION)
    for step in (lambda: client.compactions.update_state(first, highest_write_id=1, txn_id=txn),
                 lambda: client.compactions.mark_compacted(first), lambda: client.compactions.mark_failed(first, "x"),
                 lambda: client.compactions.mark_refused(first, "x")):  # fmt: skip
        with pytest.raises(NoSuchObjectError, match="taken up again by a later attempt of its worker"):
            step()
    client.compactions.update_state(second, highest_write_id=1, txn_id=txn)
    client.compactions.mark_compacted(second, txn)


def test_a_worker_that_lost_its_request_cannot_finish_it(client: MetastoreClient) -> None:
    """
    t1  A claims, is silent for too long, its request is given back
    t2  B claims it
    t3  A wakes up: every step of A is refused, B goes on
    """
    client.compactions.enqueue(T)
    a = client.compactions.claim("a")
    assert a is not None
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_START=1000))
    assert client.compactions.requeue_timed_out(3_600_000) == [1]
    b = client.compactions.claim("b")
    assert b is not None
    txn = client.open_txn(type=TxnType.COMPACTION)
    for step in (lambda: client.compactions.mark_compacted(a), lambda: client.compactions.mark_failed(a, "x"),
                 lambda: client.compactions.mark_refused(a, "x"),
                 lambda: client.compactions.update_state(a, highest_write_id=1, txn_id=txn)):  # fmt: skip
        with pytest.raises(NoSuchObjectError, match="is working by b, not working by a"):
            step()
    client.compactions.mark_failed(b, "x")


@pytest.mark.conformance("C30")
def test_a_pool_has_workers_of_its_own(client: MetastoreClient) -> None:
    client.compactions.enqueue(T, "ds=1", pool="reports")
    client.compactions.enqueue(T, "ds=2")
    assert client.compactions.claim("w", pool="other") is None
    default = client.compactions.claim("w")
    assert default is not None
    assert default.resource.partition == "ds=2"
    assert client.compactions.claim("w") is None
    change(client, sa.update(COMPACTION_QUEUE).values(CQ_ENQUEUE_TIME=COMPACTION_QUEUE.c.CQ_ENQUEUE_TIME - 50_000))
    assert client.compactions.claim("w", pool_timeout_ms=60_000) is None
    late = client.compactions.claim("w", pool_timeout_ms=40_000)
    assert late is not None
    assert late.pool == "reports"


@pytest.mark.conformance("C32")
def test_requests_that_wait_are_aborted_and_those_of_a_hives_worker_are_not(client: MetastoreClient) -> None:
    client.compactions.enqueue(T, "ds=1")
    client.compactions.enqueue(T, "ds=2")
    client.compactions.claim("hms1-42", version="4.0.1")
    answers = client.compactions.abort([1, 2, 99])
    assert [(a.id, a.aborted) for a in answers] == [(1, False), (2, True), (99, False)]
    assert answers[0].message == (
        "Error while aborting compaction as compaction is in state-working: hms1-42 (version 4.0.1) runs it, which is "
        "no Worker of this package and cannot be told to stop; wait for it, or kill its job where it runs"
    )
    assert answers[1].message == "Successfully aborted compaction"
    assert answers[2].message == "No compaction request with id 99 is in the queue"
    assert client.compactions.get(1).state is S.WORKING
    assert client.compactions.get(2).state is S.ABORTED
    assert client.compactions.cancellation(1) is None


def test_a_running_request_of_ours_is_either_finished_or_cancelled(client: MetastoreClient) -> None:
    """
    t1  A works on 1 and 2
    t2  1 and 2 are cancelled: 1 while A works, 2 when A has marked it compacted
    t3  A cannot mark 1 any more; 2 stays done
    """
    client.compactions.enqueue(T, "ds=1")
    client.compactions.enqueue(T, "ds=2")
    one, two = client.compactions.claim("w"), client.compactions.claim("w")
    assert one is not None
    assert two is not None
    client.compactions.mark_compacted(two)
    answers = client.compactions.abort([1, 2], user="ann", reason="not now")
    assert [(a.id, a.aborted) for a in answers] == [(1, True), (2, False)]
    assert client.compactions.abort([1], user="bob")[0].aborted
    assert client.compactions.cancellation(1) == "cancelled by ann: not now"
    with pytest.raises(CompactionCancelledError, match=r"1 of .* was cancelled by ann: not now"):
        client.compactions.mark_compacted(one)
    client.compactions.mark_aborted(one, "cancelled by ann: not now")
    assert (client.compactions.get(1).state, client.compactions.get(1).error) == (
        S.ABORTED, "cancelled by ann: not now")  # fmt: skip
    assert client.compactions.cancellation(1) is None
    assert client.compactions.get(2).state is S.READY_FOR_CLEANING


def test_what_waits_is_counted_by_pool_without_being_read(client: MetastoreClient) -> None:
    for day in range(3):
        client.compactions.enqueue(T, f"ds={day}", pool=None if day == 0 else "p")
    assert sorted((w.pool or "", w.requests, w.overdue) for w in client.compactions.waiting(3_600_000)) == [
        ("", 1, 0), ("p", 2, 0)]  # fmt: skip
    assert sorted((w.pool or "", w.overdue) for w in client.compactions.waiting(-1000)) == [("", 0), ("p", 2)]
    client.compactions.claim("w")
    assert [(w.pool, w.requests) for w in client.compactions.waiting()] == [("p", 2)]


def test_a_worker_takes_up_and_gives_back_only_what_is_its_own(client: MetastoreClient) -> None:
    client.compactions.enqueue(T, "ds=1")
    request = client.compactions.claim("w[0]")
    assert request is not None
    assert client.compactions.of_worker("w") == []
    (mine,) = client.compactions.of_worker("w[0]")
    assert client.compactions.claim("w[1]") is None
    again = client.compactions.retake(mine)
    assert again is not None
    assert (again.id, again.state, again.worker_id) == (1, S.WORKING, "w[0]")
    assert client.compactions.give_back(again, "killed") is S.INITIATED
    assert client.compactions.retake(again) is None
    assert client.compactions.give_back(again, "killed") is None
    other = client.compactions.claim("w[1]")
    assert other is not None
    client.compactions.abort([1], user="ann")
    assert client.compactions.give_back(other, "killed by Airflow") is S.ABORTED
    assert client.compactions.get(1).error == "cancelled by ann (killed by Airflow)"


@pytest.mark.conformance("C33")
def test_queue_and_history_are_shown_together_and_filtered(client: MetastoreClient) -> None:
    client.compactions.enqueue(T, "ds=1", CompactionType.MINOR)
    request = client.compactions.claim("w")
    assert request is not None
    client.compactions.mark_failed(request, "x")
    client.compactions.enqueue(T, "ds=2", pool="p")
    client.compactions.enqueue("other.t")

    def ids(**wanted: Any) -> list[int]:
        return sorted(c.id for c in client.compactions.show(**wanted))

    assert ids() == [1, 2, 3]
    assert ids(database="DEFAULT") == [1, 2]
    assert ids(database="default", table="T", partition="ds=2") == [2]
    assert ids(type=CompactionType.MINOR) == [1]
    assert ids(state=S.FAILED) == [1]
    assert ids(pool="p") == [2]
    assert ids(pool="default") == [1, 3]
    assert [c.id for c in client.compactions.show(limit=1)] == [1]
    assert {c.id: c.pool_name for c in client.compactions.show()} == {1: "default", 2: "p", 3: "default"}
    assert [c.state.text for c in client.compactions.show(state=S.FAILED)] == ["failed"]


@pytest.mark.parametrize("name", ["", "t", "a.b.c", "default.t'; --", "default." + "x" * 4096, "default.é", "d.\0"])
def test_a_request_for_what_is_no_table_changes_nothing(client: MetastoreClient, name: str) -> None:
    with pytest.raises(InvalidArgumentsError):
        client.compactions.enqueue(name)
    with pytest.raises(InvalidArgumentsError):
        client.compactions.enqueue(T, "not a partition" * (1 if name else 100))
    assert rows(client, COMPACTION_QUEUE) == []
    assert client.compactions.enqueue(T).id == 1


def test_a_request_that_cannot_be_is_refused_by_name(client: MetastoreClient) -> None:
    with pytest.raises(InvalidArgumentsError, match="2048"):
        client.compactions.enqueue(T, properties={"x": "y" * 3000})
    with pytest.raises(InvalidArgumentsError, match="Cleaner finds it by itself"):
        client.compactions.enqueue(T, type=CompactionType.ABORT_TXN_CLEANUP)
    with pytest.raises(InvalidArgumentsError, match="worker id"):
        client.compactions.claim("x" * 200)
    with pytest.raises(NoSuchObjectError, match="no compaction with id 5"):
        client.compactions.get(5)
    assert rows(client, COMPACTION_QUEUE) == []


def test_rows_of_a_real_hive_are_understood(client: MetastoreClient) -> None:
    """As dumped from Hive 4.1: a finished minor compaction of its own worker."""
    change(client, sa.insert(COMPACTION_QUEUE).values(
        CQ_ID=1, CQ_DATABASE="default", CQ_TABLE="t", CQ_PARTITION=None, CQ_STATE="r", CQ_TYPE="i",
        CQ_TBLPROPERTIES=None, CQ_WORKER_ID=None, CQ_ENQUEUE_TIME=1795276230453, CQ_START=1795276230786,
        CQ_RUN_AS="root", CQ_HIGHEST_WRITE_ID=5, CQ_META_INFO=None, CQ_HADOOP_JOB_ID="job_local772429308_0001",
        CQ_NEXT_TXN_ID=9, CQ_TXN_ID=9, CQ_COMMIT_TIME=1795276236317, CQ_INITIATOR_ID="vm-manual",
        CQ_INITIATOR_VERSION="4.1.0", CQ_WORKER_VERSION="4.1.0", CQ_RETRY_RETENTION=0,
    ))  # fmt: skip
    (request,) = client.compactions.show()
    assert (request.type, request.state, request.job_id) == (
        CompactionType.MINOR, S.READY_FOR_CLEANING, "job_local772429308_0001")  # fmt: skip
    client.compactions.mark_cleaned(request)
    change(client, sa.insert(COMPACTION_QUEUE).values(
        CQ_ID=2, CQ_DATABASE="default", CQ_TABLE="t", CQ_STATE="i", CQ_TYPE="a", CQ_TBLPROPERTIES="1:x:broken"
    ))  # fmt: skip
    assert client.compactions.claim("w") is not None
