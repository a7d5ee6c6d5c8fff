"""Circles of waiting transactions across both sides: ours gives way or gives up, Hive's goes on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from airflow_hive_acid.errors import DeadlockError, LockTimeoutError
from airflow_hive_acid.metastore import MetastoreClient
from airflow_hive_acid.metastore.database.codes import LockState, LockType, Operation, TxnState
from airflow_hive_acid.metastore.locks.interface import LockComponent
from airflow_hive_acid.settings import Settings, Source
from tests.interop.metastore.test_protocol import SECONDS, until, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.hive import Hive

pytestmark = pytest.mark.interop


@pytest.fixture
def tables(hive: Hive, hive_database: str) -> list[str]:
    """Three tables of Hive's with a row each."""
    names = [f"{hive_database}.{name}" for name in "abc"]
    for name in names:
        hive.run(f"create table {name} (id int, v string) stored as orc tblproperties ('transactional'='true')")
        hive.run(f"insert into {name} values (1, 'x')")
    return names


@pytest.fixture
def holder(hive: Hive, tables: list[str]) -> Iterator[str]:
    """A session of Hive's whose transaction holds the first table."""
    session = "holder"
    hive.run("set hive.txn.xlock.write=true", session)
    hive.begin(session)
    hive.run(f"update {tables[0]} set v = 'hive' where id = 1", session)
    yield session
    hive.run("set hive.txn.xlock.write=false", session)


def exclusive(table: str) -> list[LockComponent]:
    database, name = table.split(".")
    return [LockComponent(database, name, None, LockType.EXCLUSIVE, Operation.NO_TXN)]


def lock(client: MetastoreClient, txn_id: int, table: str) -> None:
    """Hold a table, or wait for it until it is held."""
    response = client.lock(exclusive(table), txn_id=txn_id)
    if response.state is LockState.WAITING:
        client.wait_for_lock(response, txn_id=txn_id)


def state(client: MetastoreClient, txn_id: int) -> TxnState:
    return {row.txn_id: row.state for row in client.show_transactions()}[txn_id]


def test_in_a_circle_with_hive_we_give_way(hive: Hive, client: MetastoreClient, tables: list[str], holder: str) -> None:
    """
    t1                        Hive updates a: EXCL_WRITE
    t2  we hold b
    t3                        Hive updates b: waits for us
    t4  we want a: a circle, in which we are the victim whatever we have done
    t5                        Hive is granted and commits both
    """
    ours = client.open_txn(agent_info="dag=ours")
    lock(client, ours, tables[1])
    asking = hive.submit(f"update {tables[1]} set v = 'hive' where id = 1", holder)
    until(lambda: waiting(client, tables[1]), "Hive waits for us")
    with pytest.raises(DeadlockError, match=rf"txn {ours} gives way in a deadlock"):
        lock(client, ours, tables[0])
    assert state(client, ours) is TxnState.ABORTED
    asking.result(SECONDS)
    hive.commit(holder)
    for table in tables[:2]:
        assert hive.run(f"select v from {table}") == [("hive",)]


def test_in_a_longer_circle_one_of_ours_gives_way_and_hive_and_the_other_go_on(
    hive: Hive, client: MetastoreClient, tables: list[str], holder: str
) -> None:
    """
    t1                        Hive holds a
    t2  A holds b, B holds c
    t3                        Hive wants b
    t4  A wants c
    t5  B wants a: B gives way; A is granted, ends; Hive is granted and commits
    """
    first, second = client.open_txn(agent_info="dag=A"), client.open_txn(agent_info="dag=B")
    lock(client, first, tables[1])
    lock(client, second, tables[2])
    asking = hive.submit(f"update {tables[1]} set v = 'hive' where id = 1", holder)
    until(lambda: waiting(client, tables[1]), "Hive waits for A")
    with ThreadPoolExecutor(2) as pool:
        waits = {first: pool.submit(lock, client, first, tables[2])}
        until(lambda: waiting(client, tables[2]), "A waits for B")
        waits[second] = pool.submit(lock, client, second, tables[0])
        ends = {txn_id: wait.exception(SECONDS) for txn_id, wait in waits.items()}
    (victim,) = [txn_id for txn_id, error in ends.items() if isinstance(error, DeadlockError)]
    (other,) = {first, second} - {victim}
    assert ends[other] is None
    client.commit_txn(other)
    asking.result(SECONDS)
    hive.commit(holder)
    assert hive.run(f"select v from {tables[1]}") == [("hive",)]


def test_without_detection_we_give_up_after_our_time_and_hive_goes_on(
    hive: Hive, client: MetastoreClient, tables: list[str], holder: str
) -> None:
    settings = Settings({Source.CONNECTION: {"hive.lock.numretries": "4", "hive.acid.deadlock.detection": "false"}})
    with MetastoreClient(hive.metastore_url, settings) as blind:
        ours = blind.open_txn(agent_info="dag=ours")
        lock(blind, ours, tables[1])
        asking = hive.submit(f"update {tables[1]} set v = 'hive' where id = 1", holder)
        until(lambda: waiting(client, tables[1]), "Hive waits for us")
        with pytest.raises(LockTimeoutError):
            lock(blind, ours, tables[0])
        if state(client, ours) is TxnState.OPEN:
            blind.abort_txn(ours)
    asking.result(SECONDS)
    hive.commit(holder)
    assert client.show_locks(tables[0]) == client.show_locks(tables[1]) == []
