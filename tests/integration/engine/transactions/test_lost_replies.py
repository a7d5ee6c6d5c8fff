"""A database server that goes away in the middle of a statement: what it had committed counts once, nothing twice.

A proxy loses every COMMIT of a statement's life in turn, or the answer to it: the claim, the open, the lock request,
the pinned snapshot, the write ids, the job's record, its manifest, the commit itself, the acknowledgement.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_hive_acid.engine import Engine
from airflow_hive_acid.engine.transactions.claims import Once
from airflow_hive_acid.errors import HiveAcidError
from airflow_hive_acid.metastore import MetastoreClient
from tests.integration.engine.conftest import FakeSpark
from tests.integration.engine.transactions.lossy_proxy import LossyProxy, Lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.rule("R14"), pytest.mark.rule("R17"), pytest.mark.backends("postgresql")]

OVERWRITE = "INSERT OVERWRITE TABLE w.t VALUES (1, 'x')"
MOST_COMMITS = 60


class Task:
    """A task, tried again and again under one key, and the metastore as somebody else sees it."""

    def __init__(self, url: str, warehouse: str) -> None:
        self.url, self.warehouse = url, warehouse
        self.runs = 0
        self.spark = FakeSpark()
        self.onlooker = MetastoreClient(url)
        self.pause: Callable[[], None] = lambda: None  # nobody needs two seconds to come back here

    def attempt(self, url: str) -> list[int]:
        """One try; its txns.

        :raises HiveAcidError: as the task would fail.
        """
        with MetastoreClient(url) as client:
            client.database._sleep = lambda seconds: self.pause()
            with Engine(client, self.spark, self.warehouse, agent_info=f"run {self.runs}") as engine:
                once = Once(("dag", f"run {self.runs}", "task", "-1"))
                results = engine.run(OVERWRITE, once=once)
                client.claims.acknowledge(once.scope)
                return [result.txn_id for result in results]

    def committed(self) -> set[int]:
        """Its txns whose rows everybody sees."""
        txns = self.onlooker.show_transactions(include_committed=True)
        return {t.txn_id for t in txns if t.state.name == "COMMITTED" and t.agent_info == f"run {self.runs}"}


@pytest.fixture
def task(metastore_url: str, warehouse: str) -> Iterator[Task]:
    task = Task(metastore_url, warehouse)
    task.onlooker.catalog.set_warehouse(warehouse)
    with Engine(task.onlooker, FakeSpark(), warehouse) as engine:
        engine.run(
            "CREATE DATABASE w; CREATE TABLE w.t (a INT, b STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        )
    yield task
    task.onlooker.close()


@pytest.fixture
def proxy(metastore_url: str) -> Iterator[LossyProxy]:
    proxy = LossyProxy(metastore_url)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("what", Lost)
def test_no_commit_that_is_lost_is_applied_twice_or_not_at_all(task: Task, proxy: LossyProxy, what: Lost) -> None:
    """
    t1  a statement runs; its n-th COMMIT, or the answer to that, is lost with the connection
    t2  it comes through all the same, or the task fails and is tried again
    t3  of all its txns one is committed, and nobody holds a lock; the others are aborted, but for one whose number
        nobody was told: it has nothing and times out
    """
    lost, unknown = lose_each(task, proxy, what)
    assert len(lost) >= 8
    assert len(unknown) == (1 if what is Lost.ANSWER else 0), unknown


@pytest.mark.parametrize("what", Lost)
def test_a_database_that_restarts_in_the_middle_of_a_call_loses_and_repeats_nothing(
    task: Task, proxy: LossyProxy, what: Lost, metastore_url: str
) -> None:
    """
    t1  a statement runs; in front of its n-th COMMIT, or behind it, the server crashes: all connections break
    t2  the server has recovered; the statement goes on or fails, and is tried again
    t3  as above
    """

    def restart() -> None:
        task.onlooker.close()  # whoever only looks is not what is tested
        crash(metastore_url)

    lost, _ = lose_each(task, proxy, what, every=4, instead=restart)
    assert len(lost) >= 3


@pytest.mark.parametrize("what", Lost)
def test_a_database_that_is_not_there_for_a_while_loses_and_repeats_nothing(
    task: Task, proxy: LossyProxy, what: Lost
) -> None:
    """
    t1  a statement runs; in front of its n-th COMMIT, or behind it and so in front of what comes next, the server goes,
        and is not there when it is asked again, and again
    t2  it comes back in time, and the statement comes through; or the task has failed
    t3  the task is tried again: of all its txns one is committed, with the rows it told of if it told of any (R14)
    """
    pauses = [0]

    def leave() -> None:
        pauses[0] = 0
        proxy.leave()

    def pause() -> None:
        pauses[0] += 1
        if pauses[0] == 3:
            proxy.come_back()

    task.pause = pause
    lost, _ = lose_each(task, proxy, what, every=3, instead=leave, before=proxy.come_back)
    assert len(lost) >= 3


def lose_each(
    task: Task,
    proxy: LossyProxy,
    what: Lost,
    *,
    every: int = 1,
    instead: Callable[[], None] | None = None,
    before: Callable[[], None] = lambda: None,
) -> tuple[list[int], list[int]]:
    """Lose one COMMIT of a statement after the other, and look at what its task comes to.

    :return: numbers of those that were lost, and those after which a txn is open that nobody knows of.
    """
    lost, unknown = [], []
    for number in range(1, MOST_COMMITS, every):
        task.runs += 1
        before()
        proxy.lose(number, what, instead)
        told = []
        try:
            told = task.attempt(proxy.url)
        except HiveAcidError as error:
            if not error.retryable:
                raise
        if proxy.lost is None:
            return lost, unknown
        lost.append(number)
        again = task.attempt(task.url)
        assert task.committed() == set(again), f"COMMIT {number}"
        assert told in ([], again), f"COMMIT {number}"
        assert task.onlooker.show_locks() == [], f"COMMIT {number}"
        for txn in task.onlooker.show_transactions():
            if txn.state.name == "OPEN":
                unknown.append(number)
                task.onlooker.abort_txn(txn.txn_id, "the reaper would")
    raise AssertionError(f"a statement has more than {MOST_COMMITS} COMMITs")


def crash(url: str) -> None:
    """Kill a process of the server, which makes it end all others and recover, and wait until it answers again."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    with engine.connect() as victim, engine.connect() as bystander:
        os.kill(victim.execute(sa.select(sa.func.pg_backend_pid())).scalar_one(), signal.SIGKILL)
        until(lambda: not answers(bystander))
        for connection in (victim, bystander):
            connection.invalidate()
    until(lambda: reachable(engine))


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, "the server neither crashes nor comes back"
        time.sleep(0.02)


def answers(connection: sa.Connection) -> bool:
    try:
        connection.execute(sa.select(1))
    except sa.exc.OperationalError:
        return False
    return True


def reachable(engine: sa.Engine) -> bool:
    try:
        engine.connect().close()
    except sa.exc.OperationalError:
        return False
    return True
