"""Deadlocks between clients of one metastore."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from airflow_hive_acid.errors import DeadlockError, LockTimeoutError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation
from airflow_hive_acid.metastore.locks.deadlocks import Party
from airflow_hive_acid.settings import Settings, Source

if TYPE_CHECKING:
    from collections.abc import Callable

X, SR = LockType.EXCLUSIVE, LockType.SHARED_READ


def ring(client: MetastoreClient, lock_on: Any, length: int) -> list[Any]:
    """Txns 1..length, each holding table i and waiting for the next one's; the responses of the waits."""
    ids = client.open_txns(length, agent_info="dag=ring")
    for txn_id in ids:
        client.lock([lock_on(f"db.t{txn_id}", X)], txn_id=txn_id)
    return [client.lock([lock_on(f"db.t{txn_id % length + 1}", X)], txn_id=txn_id) for txn_id in ids]


def quick(url: str, **settings: str) -> MetastoreClient:
    return MetastoreClient(url, Settings({Source.CONNECTION: {"hive.lock.numretries": "6", **settings}}))


@pytest.mark.parametrize("length", [2, 3, 5])
def test_a_circle_of_any_length_has_one_victim_and_the_others_go_on(
    metastore_url: str, client: MetastoreClient, rows: Any, lock_on: Any, length: int
) -> None:
    """
    t1  txn i holds table i
    t2  txn i asks for table i+1, the last for table 1: a circle
    t3  each waits in a client of its own; one gives way, the others are granted one after the other
    """
    waits = ring(client, lock_on, length)
    assert all(w.state is LockState.WAITING for w in waits)

    def wait(number: int) -> str:
        txn_id = number + 1
        with quick(metastore_url) as own:
            try:
                own.wait_for_lock(waits[number], txn_id=txn_id)
            except DeadlockError as error:
                return str(error)
            own.commit_txn(txn_id)
            return "done"

    with ThreadPoolExecutor(length) as pool:
        *others, victim = pool.map(wait, range(length))
    assert others == ["done"] * (length - 1)
    assert victim.startswith(
        f"txn {length} gives way in a deadlock, it has done the least: txn {length} waits for txn 1 waits for"
    )
    assert rows.txn_state(length) == ("a", "deadlock")
    assert rows.count("HIVE_LOCKS") == 0


def test_the_victim_is_the_one_with_the_least_work(client: MetastoreClient, lock_on: Any) -> None:
    ring(client, lock_on, 2)
    assert [v.party for v in client.find_deadlocks()] == [Party(2)]
    client.jobs.start(
        job_id="j",
        txn_id=2,
        table="db.t2",
        write_id=None,
        statement=0,
        kind="insert",
        table_location="file:/w",
        staging=None,
    )
    assert [v.party for v in client.find_deadlocks()] == [Party(1)]


def test_a_txn_of_somebody_else_is_never_the_victim(client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    """Hive leaves TXN_AGENT_INFO empty; the later txn would be chosen if it were ours."""
    ring(client, lock_on, 2)
    rows.update("TXNS", {"TXN_AGENT_INFO": None}, TXN_ID=2)
    assert [v.party for v in client.find_deadlocks()] == [Party(1)]
    rows.update("TXNS", {"TXN_AGENT_INFO": None}, TXN_ID=1)
    assert client.find_deadlocks() == []


def test_who_only_waits_for_the_circle_is_spared(client: MetastoreClient, lock_on: Any) -> None:
    ring(client, lock_on, 3)
    late = client.open_txn()
    client.lock([lock_on("db.t1", SR)], txn_id=late)
    assert [v.party for v in client.find_deadlocks()] == [Party(3)]


@pytest.mark.setting("hive.acid.deadlock.detection")
def test_detection_can_be_switched_off(metastore_url: str, client: MetastoreClient, rows: Any, lock_on: Any) -> None:
    waits = ring(client, lock_on, 2)
    settings = {"hive.acid.deadlock.detection": "false", "hive.lock.numretries": "1"}
    with quick(metastore_url, **settings) as own, pytest.raises(LockTimeoutError):
        own.wait_for_lock(waits[1], txn_id=2)
    assert rows.txn_state(2) == ("a", "lock not granted in time")


def test_the_wait_for_graph_says_who_waits_for_whom_and_for_what(client: MetastoreClient, lock_on: Any) -> None:
    ring(client, lock_on, 2)
    outside = client.lock([lock_on("db.t1", SR)], agent_info="a person")
    found = {(str(w.waiter), str(w.holder), w.place, w.waiter_info, w.holder_info) for w in client.show_waits()}
    assert found == {
        ("txn 1", "txn 2", "db.t2", "hive-acid", "hive-acid"),
        ("txn 2", "txn 1", "db.t1", "hive-acid", "hive-acid"),
        (f"lock {outside.lock_id}", "txn 1", "db.t1", "a person", "hive-acid"),
        (f"lock {outside.lock_id}", "txn 2", "db.t1", "a person", "hive-acid"),
    }
    assert all(w.since is None or w.since > 1_700_000_000_000 for w in client.show_waits())


def test_a_lock_outside_txns_that_is_not_granted_in_time_is_withdrawn(
    metastore_url: str, client: MetastoreClient, rows: Any, lock_on: Any
) -> None:
    client.lock([lock_on("db.t", X)])
    with quick(metastore_url, **{"hive.lock.numretries": "1"}) as own:
        waiting = own.lock([lock_on("db.t", SR, Operation.SELECT)])
        with pytest.raises(LockTimeoutError, match=r"lock 2 waited 0\.1 s"):
            own.wait_for_lock(waiting)
    assert rows.select("HIVE_LOCKS", "HL_LOCK_EXT_ID") == [(1,)]


def test_declaring_all_tables_at_the_start_cannot_deadlock(metastore_url: str) -> None:
    """Both want both tables exclusively: requests are granted as a whole and tables are asked for in one order."""
    barrier = threading.Barrier(2)

    def work(tables: list[str]) -> int:
        with quick(metastore_url, **{"hive.lock.numretries": "100"}) as own:
            barrier.wait(30)
            for _ in range(5):
                with own.transaction(dict.fromkeys(tables, "overwrite")):
                    pass
        return 5

    tables: list[list[str]] = [["db.a", "db.b"], ["db.b", "db.a"]]
    with ThreadPoolExecutor(2) as pool:
        runs: Callable[..., Any] = pool.map
        assert list(runs(work, tables)) == [5, 5]
