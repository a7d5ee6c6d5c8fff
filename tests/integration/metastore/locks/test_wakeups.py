"""Waiters are woken early where the database can; everywhere the back-off stays."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_hive_acid.metastore.database.codes import LockState, LockType
from airflow_hive_acid.metastore.database.wakeups import naps
from airflow_hive_acid.metastore.protocol.ddl import ddl_transaction

if TYPE_CHECKING:
    from airflow_hive_acid.metastore import MetastoreClient

X = LockType.EXCLUSIVE
LONG, SHORT = 60.0, 0.05


@pytest.mark.parametrize("release", ["unlock", "commit", "abort"])
def test_a_waiter_is_woken_when_somebody_lets_go(
    client: MetastoreClient, other_client: MetastoreClient, backend: str, lock_on: Any, release: str
) -> None:
    """
    t1  A holds X
    t2                  B asks, waits, sleeps
    t3  A lets go
    t4                  B wakes long before its pause is over
    """
    txn_id = 0 if release == "unlock" else client.open_txn()
    held = client.lock([lock_on("db.t", X)], txn_id=txn_id)
    waiting = other_client.lock([lock_on("db.t", X)])
    let_go = {
        "unlock": lambda: client.unlock(held.lock_id),
        "commit": lambda: client.commit_txn(txn_id),
        "abort": lambda: client.abort_txn(txn_id),
    }[release]
    with naps(other_client.database) as nap:
        thread = threading.Timer(0.2, let_go)
        thread.start()
        slept = nap(LONG if backend == "postgresql" else 1.0)
        thread.join()
    assert slept < LONG / 2
    assert other_client.check_lock(waiting.lock_id).state is LockState.ACQUIRED


def test_a_nap_ends_by_itself(client: MetastoreClient) -> None:
    with naps(client.database) as nap:
        started = time.monotonic()
        assert nap(SHORT) >= SHORT
        assert time.monotonic() - started >= SHORT


def test_being_woken_does_not_use_up_the_back_off(
    client: MetastoreClient, other_client: MetastoreClient, lock_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's releases wake the waiter again and again; it asks each time, and goes on with its pause."""
    from airflow_hive_acid.metastore.protocol.lock_wait import wait_until_granted

    held = client.lock([lock_on("db.t", X)])
    waiting = other_client.lock([lock_on("db.t", X)])
    pauses: list[float] = []

    def woken_three_times(database: Any) -> Any:
        import contextlib

        def nap(seconds: float) -> float:
            pauses.append(round(seconds, 3))
            if len(pauses) == 4:
                client.unlock(held.lock_id)
            return seconds / 2 if len(pauses) < 4 else seconds

        return contextlib.nullcontext(nap)

    monkeypatch.setattr("airflow_hive_acid.metastore.protocol.lock_wait.naps", woken_three_times)
    assert wait_until_granted(other_client, waiting, 0, "db.t").state is LockState.ACQUIRED
    assert pauses == [0.1, 0.05, 0.025, 0.013]


def test_without_waiters_nobody_is_told(client: MetastoreClient, backend: str, lock_on: Any) -> None:
    """NOTIFY makes all commits of a server queue up, so it is sent only when somebody waits."""
    if backend != "postgresql":
        return
    engine = sa.create_engine(client.database.url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text("LISTEN hive_acid_locks"))
        client.unlock(client.lock([lock_on("db.t", X)]).lock_id)
        driver: Any = connection.connection.driver_connection
        assert list(driver.notifies(timeout=0.2)) == []
        with naps(client.database):
            client.unlock(client.lock([lock_on("db.t", X)]).lock_id)
            assert len(list(driver.notifies(timeout=10, stop_after=1))) == 1


def test_a_lost_connection_for_hints_only_makes_the_wait_longer(client: MetastoreClient, backend: str) -> None:
    if backend != "postgresql":
        return
    activity = sa.table("pg_stat_activity", sa.column("pid"), sa.column("datname"))
    with naps(client.database) as nap:
        with client.database.transaction() as connection:
            connection.execute(
                sa.select(sa.func.pg_terminate_backend(activity.c.pid)).where(
                    activity.c.datname == sa.func.current_database(), activity.c.pid != sa.func.pg_backend_pid()
                )
            )
        assert nap(SHORT) >= SHORT
        assert nap(SHORT) >= SHORT


def test_a_definition_that_waits_is_woken_too(
    client: MetastoreClient, other_client: MetastoreClient, lock_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = client.lock([lock_on("db.t", X)])

    def woken(seconds: float) -> float:
        client.unlock(held.lock_id)
        return 0.0

    monkeypatch.setattr("airflow_hive_acid.metastore.protocol.lock_wait.naps", lambda _: contextlib.nullcontext(woken))
    with ddl_transaction(other_client, [lock_on("db.t", X)]) as ddl:
        assert [lock.txn_id for lock in client.show_locks()] == [ddl.txn_id]
