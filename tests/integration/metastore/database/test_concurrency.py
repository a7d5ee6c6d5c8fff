"""Many clients at once: what must hold whatever the interleaving."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.errors import TxnAbortedError, WriteConflictError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.backend import lock_open_txns
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation, TxnType
from airflow_hive_acid.metastore.setup import schema

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.every_database

CLIENTS = 4


def at_once(url: str, work: Callable[[MetastoreClient, int], Any]) -> list[Any]:
    """Run ``work`` in several clients that start together."""
    barrier = threading.Barrier(CLIENTS)

    def run(number: int) -> Any:
        with MetastoreClient(url) as client:
            barrier.wait(30)
            return work(client, number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(run, range(CLIENTS)))


@pytest.mark.rule("R3")
def test_an_exclusive_lock_has_one_holder_at_a_time(metastore_url: str, lock_on: Any) -> None:
    """Every client takes the lock again and again; whoever is granted must be alone until it lets go."""
    inside: list[int] = []
    crowds: list[list[int]] = []

    def work(client: MetastoreClient, number: int) -> int:
        for _ in range(5):
            answer = client.lock([lock_on("db.t", LockType.EXCLUSIVE)])
            while answer.state is LockState.WAITING:
                time.sleep(0.005)
                answer = client.check_lock(answer.lock_id)
            inside.append(number)
            crowds.append(list(inside))
            inside.remove(number)
            client.unlock(answer.lock_id)
        return 5

    assert sum(at_once(metastore_url, work)) == 5 * CLIENTS
    assert all(len(crowd) == 1 for crowd in crowds)


@pytest.mark.rule("R3")
def test_lock_ids_become_visible_in_order(metastore_url: str, client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    """All requests are for one table and exclusive: exactly the smallest id is granted, all others wait."""
    at_once(metastore_url, lambda c, n: [c.lock([lock_on("db.t", LockType.EXCLUSIVE)]) for _ in range(4)])
    states = sorted(rows.select("HIVE_LOCKS", "HL_LOCK_EXT_ID", "HL_LOCK_STATE"))
    assert [lock_id for lock_id, _ in states] == list(range(1, 4 * CLIENTS + 1))
    assert [state for _, state in states] == ["a"] + ["w"] * (4 * CLIENTS - 1)


def test_of_two_committed_changes_of_a_table_one_has_seen_the_other(metastore_url: str) -> None:
    """No lost update: whoever did not see the other's change, and was not seen by it, is refused."""

    def work(client: MetastoreClient, number: int) -> list[Any]:
        done = []
        for _ in range(6):
            txn = client.begin({"db.t": "update"})
            time.sleep(0.002)
            try:
                txn.commit()
            except WriteConflictError:
                continue
            done.append((txn.write_ids["db.t"], txn.snapshot["db.t"]))
        return done

    committed = [entry for part in at_once(metastore_url, work) for entry in part]
    assert committed
    for number, (one_id, one) in enumerate(committed):
        for other_id, other in committed[number + 1 :]:
            assert one.is_valid(other_id) or other.is_valid(one_id)


def test_write_ids_are_given_once_and_without_gaps(metastore_url: str, rows: Any) -> None:
    """The first allocations race for the table's row."""

    def work(client: MetastoreClient, number: int) -> None:
        for txn_id in client.open_txns(10):
            client.allocate_write_ids("db.t", txn_id)

    at_once(metastore_url, work)
    assert [w for _, w in sorted(rows.select("TXN_TO_WRITE_ID", "T2W_DATABASE", "T2W_WRITEID"))] == list(
        range(1, 10 * CLIENTS + 1)
    )


def test_an_abort_that_races_with_a_lock_leaves_no_lock_behind(
    metastore_url: str, client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    """A lock of an aborted txn would block for ever: it has no time-out of its own."""
    txn_ids = client.open_txns(20)

    def work(worker: MetastoreClient, number: int) -> None:
        for txn_id in txn_ids:
            if number % 2:
                worker.abort_txn(txn_id)
                continue
            with contextlib.suppress(TxnAbortedError):
                worker.lock([lock_on("db.t", LockType.SHARED_WRITE, Operation.INSERT)], txn_id=txn_id)

    at_once(metastore_url, work)
    assert rows.count("HIVE_LOCKS") == 0


@pytest.mark.rule("R3")
@pytest.mark.rule("R15")
def test_an_open_waits_for_a_commit_and_gets_a_later_id(metastore_url: str, client: MetastoreClient) -> None:
    """
    t1  A holds the open-txn lock exclusively, as a commit does, and reads MAX(TXN_ID)
    t2                      B opens: waits
    t3  A ends
    t4                      B gets an id above A's commit id
    """
    first = client.open_txn()
    opened: list[int] = []
    with MetastoreClient(metastore_url) as other:
        thread = threading.Thread(target=lambda: opened.append(other.open_txn(type=TxnType.READ_ONLY)))
        with client.database.transaction() as connection:
            lock_open_txns(connection, exclusive=True)
            thread.start()
            thread.join(0.5)
            assert opened == []
            commit_id = connection.execute(sa.select(sa.func.max(schema.TXNS.c.TXN_ID))).scalar_one()
        thread.join(30)
    assert commit_id == first
    assert opened
    assert opened[0] > commit_id


def test_only_one_service_holds_a_mutex(metastore_url: str) -> None:
    inside: list[int] = []
    crowds: list[int] = []

    def work(client: MetastoreClient, number: int) -> None:
        for _ in range(3):
            with client.mutexes.hold("Initiator") as held:
                inside.append(number)
                crowds.append(len(inside))
                held.leave(held.value + 1)
                inside.remove(number)

    at_once(metastore_url, work)
    assert set(crowds) == {1}
    with MetastoreClient(metastore_url) as client, client.mutexes.hold("Initiator") as held:
        assert held.value == 3 * CLIENTS


def test_a_mutex_that_stays_taken_is_skipped_or_named(client: MetastoreClient, other_client: MetastoreClient) -> None:
    from airflow_hive_acid.errors import MetastoreUnavailableError

    with client.mutexes.hold("Cleaner") as held:
        held.leave(42)
        with other_client.mutexes.try_hold("Cleaner") as nothing:
            assert nothing is None
        with (
            pytest.raises(MetastoreUnavailableError, match=r"mutex 'Cleaner' .* is held by another service"),
            other_client.mutexes.hold("Cleaner", 0.2),
        ):
            pytest.fail("the mutex was granted twice")
    with other_client.mutexes.try_hold("Cleaner") as again:
        assert again is not None
        assert again.value == 42


def test_a_mutex_whose_holder_fails_is_free_again(client: MetastoreClient, rows: Any) -> None:
    def fail() -> None:
        with client.mutexes.hold("Cleaner") as held:
            held.leave(7)
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert rows.select("AUX_TABLE", "MT_KEY1", "MT_KEY2") == [("Cleaner", 0)]
    with client.mutexes.try_hold("Cleaner") as again:
        assert again is not None
